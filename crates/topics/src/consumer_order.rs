//! What a consumer says of its subscription and of its messages.

use std::time::Duration;

use clock::Instant;

use super::consumer::ConsumerKey;
use super::in_flight::FlightError;
use super::table::TopicTable;

/// What may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerOrder {
    /// The message of that number is done.
    Finish(u64),
    /// Deliver it again, after a delay.
    Requeue(u64, Duration),
    /// Start its timeout anew.
    Touch(u64),
    /// Have at most this many messages in flight (RDY).
    Ready(u32),
}

impl ConsumerOrder {
    /// Whether a time starts with it that must not end early by the consumer's clock: a delay, or a timeout. Then `now` of
    /// [`ConsumerOrder::carry_out`] is to be no earlier than the consumer's saying so.
    #[inline]
    #[must_use]
    pub fn starts_a_time(self) -> bool {
        match self {
            ConsumerOrder::Requeue(_, delay) => !delay.is_zero(),
            ConsumerOrder::Touch(_) => true,
            ConsumerOrder::Finish(_) | ConsumerOrder::Ready(_) => false,
        }
    }

    /// Does what `consumer` says. Touched messages time out at the latest `touch_max` after their delivery.
    ///
    /// # Errors
    /// [`FlightError`], for the non-fatal error that names the order.
    #[inline]
    pub fn carry_out(
        self,
        table: &mut TopicTable,
        consumer: ConsumerKey,
        touch_max: Duration,
        now: Instant,
    ) -> Result<(), FlightError> {
        match self {
            ConsumerOrder::Finish(id) => table.finish(consumer, id, now),
            ConsumerOrder::Requeue(id, delay) => table.requeue(consumer, id, delay, now),
            ConsumerOrder::Touch(id) => table.touch(consumer, id, touch_max, now),
            ConsumerOrder::Ready(count) => {
                table.set_ready(consumer, count);
                Ok(())
            }
        }
    }
}
