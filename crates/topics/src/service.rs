//! Emulated service: a broker as slow as it is told to be, on whatever machine it runs.
//!
//! The law is that of `placement::replay`: a message of a command that arrived at a is done at c =
//! max(a, S) + its cost, S being when the first of the virtual servers is free; then S = c. Service
//! and limit overlap: the message leaves at max(c, d), d being the departure that the bucket gives
//! it, and never before the one ahead of it in its topic. All topics of a reactor share its
//! servers. No CPU is burnt; messages just wait.
//!
//! Done messages are gathered: while more wait behind it, the head of a queue stays up to
//! [`GATHERING`] longer, so that they leave with one wake-up instead of tens of thousands a second.
//!
//! Deliberately not emulated: `per_active_connection_ns`, which the core cannot see, and `base_ns`,
//! which the real broker and network have anyway. Commands that are read in one turn are served
//! topic by topic.

use std::time::Duration;

use clock::Instant;
use model::ServiceModel;

/// The most by which a message that waits for service alone leaves late.
pub const GATHERING: Duration = Duration::from_micros(100);

/// The virtual servers of one reactor.
#[derive(Clone, Debug)]
pub struct Service {
    per_message: Duration,
    per_batch: Duration,
    free_at: Vec<Instant>,
}

impl Service {
    /// Idle servers. Costs are rounded to whole nanoseconds.
    #[must_use]
    pub fn new(model: &ServiceModel) -> Service {
        let cost = |nanos: f64| Duration::from_nanos(nanos.round() as u64);
        Service {
            per_message: cost(model.per_message_ns),
            per_batch: cost(model.per_batch_ns),
            free_at: vec![Instant::ZERO; model.servers.max(1) as usize],
        }
    }

    /// When the next message, of a command that arrived at `arrival`, is done; `is_first` of its command or not.
    pub fn serve(&mut self, arrival: Instant, is_first: bool) -> Instant {
        let mut cost = self.per_message;
        if is_first {
            cost += self.per_batch;
        }
        let mut first = 0;
        for number in 1..self.free_at.len() {
            if self.free_at[number] < self.free_at[first] {
                first = number;
            }
        }
        let done = arrival.max(self.free_at[first]) + cost;
        self.free_at[first] = done;
        done
    }
}

/// When to look again for the head of a queue, done at `head`, after `now`, with the last message behind it done
/// at `last`.
#[must_use]
pub fn wake_at(head: Instant, last: Instant, now: Instant) -> Instant {
    head.max(last.min(now + GATHERING))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_us(us: u64) -> Instant {
        Instant::from_nanos(us * 1000)
    }

    fn service(servers: u32) -> Service {
        Service::new(&ServiceModel {
            per_message_ns: 10_000.0,
            per_batch_ns: 5_000.0,
            servers,
            ..ServiceModel::default()
        })
    }

    #[test]
    fn messages_are_served_one_after_the_other() {
        // (arrival, first of its command, done), in µs.
        let cases = [
            (100, true, 115),
            (100, false, 125),
            (110, true, 140),
            (200, true, 215),
            (150, true, 230),
        ];
        let mut one = service(1);
        for (arrival, is_first, done) in cases {
            assert_eq!(
                one.serve(at_us(arrival), is_first),
                at_us(done),
                "{arrival}"
            );
        }
        let mut two = service(2);
        for (arrival, is_first, done) in
            [(0, true, 15), (0, true, 15), (0, false, 25), (30, true, 45)]
        {
            assert_eq!(
                two.serve(at_us(arrival), is_first),
                at_us(done),
                "two: {arrival}"
            );
        }
    }

    #[test]
    fn departures_are_gathered_where_more_wait_behind() {
        for (head, last, expected) in [
            (1018, 1018, 1018),
            (1018, 1054, 1054),
            (1018, 9000, 1100),
            (1500, 9000, 1500),
        ] {
            let at = wake_at(at_us(head), at_us(last), at_us(1000));
            assert_eq!(at, at_us(expected), "{head}, {last}");
        }
    }
}
