//! One acknowledgement for many messages (the SRTM extension, `docs/protocol.md`).
//!
//! An ack costs a system call, and one sent by a timer costs a wake-up and cold memory as well. So
//! an ack goes out in a message's own turn if it would be due soon anyway, and the timers of many
//! connections fire together.

use std::time::Duration;

use clock::Instant;

/// The acks owed to a publisher that negotiated cumulative ones.
#[derive(Clone, Copy, Debug)]
pub struct CumulativeAck {
    every_messages: u32,
    interval_ms: u32,
    accepted_messages: u64,
    acked_messages: u64,
    /// When an ack must go out, if one is owed.
    pub due: Option<Instant>,
}

impl CumulativeAck {
    /// The terms negotiated; nothing accepted yet.
    #[must_use]
    pub fn new(every_messages: u32, interval_ms: u32) -> CumulativeAck {
        CumulativeAck {
            every_messages,
            interval_ms,
            accepted_messages: 0,
            acked_messages: 0,
            due: None,
        }
    }

    /// Counts accepted messages.
    pub fn accept(&mut self, messages: u32) {
        self.accepted_messages += u64::from(messages);
    }

    /// Whether an ack should go out at `now`: enough messages, or nearly the whole interval over.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        let unacked = self.accepted_messages - self.acked_messages;
        let soon = now + self.interval() / 4;
        unacked >= u64::from(self.every_messages)
            || (unacked > 0 && self.due.is_some_and(|due| due <= soon))
    }

    /// With the first unacknowledged message: the time at which an ack must go out, rounded down so
    /// that it falls together with others. `None` where a time is set already.
    pub fn begin_waiting(&mut self, now: Instant) -> Option<Instant> {
        if self.due.is_some() {
            return None;
        }
        let latest = (now + self.interval()).as_nanos();
        let tick = (self.interval().as_nanos() as u64 / 16).max(1);
        self.due = Some(Instant::from_nanos(latest - latest % tick));
        self.due
    }

    /// Makes an ack due now, because the connection or the broker comes to its end.
    pub fn hasten(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Takes the number to be sent, if an ack should go out at `now`.
    pub fn take(&mut self, now: Instant) -> Option<u64> {
        let number = self.is_due(now).then_some(self.accepted_messages);
        if number.is_some() || self.due.is_some_and(|due| due <= now) {
            self.acked_messages = self.accepted_messages;
            self.due = None;
        }
        number
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(u64::from(self.interval_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn an_ack_goes_out_after_so_many_messages() {
        let mut ack = CumulativeAck::new(3, 1000);
        ack.accept(2);
        assert_eq!(ack.take(at_ms(1)), None);
        ack.accept(2);
        assert_eq!(ack.take(at_ms(1)), Some(4));
        assert_eq!(ack.take(at_ms(2000)), None, "nothing new");
    }

    #[test]
    fn an_ack_goes_out_within_the_interval_and_not_much_before() {
        for start_ms in [0, 1, 777, 123_456] {
            let mut ack = CumulativeAck::new(64, 1000);
            ack.accept(1);
            let due = ack
                .begin_waiting(at_ms(start_ms))
                .expect("the first message sets a time");
            assert!(
                due <= at_ms(start_ms + 1000) && due > at_ms(start_ms + 930),
                "{due:?}"
            );
            assert_eq!(
                ack.begin_waiting(at_ms(start_ms + 1)),
                None,
                "one time is enough"
            );
            assert_eq!(ack.take(at_ms(start_ms + 600)), None);
            ack.accept(1);
            assert_eq!(
                ack.take(at_ms(start_ms + 800)),
                Some(2),
                "with a message, since it is soon due"
            );
            assert!(ack.begin_waiting(at_ms(start_ms + 801)).is_some());
        }
    }

    #[test]
    fn the_end_of_a_connection_hastens_what_is_owed() {
        let mut ack = CumulativeAck::new(64, 1000);
        ack.hasten(at_ms(5));
        assert_eq!(ack.take(at_ms(5)), None, "nothing was accepted");
        ack.accept(1);
        ack.hasten(at_ms(6));
        assert_eq!(ack.take(at_ms(6)), Some(1));
    }
}
