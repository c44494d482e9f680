//! When messages of one rate are due: an open loop, whatever the broker does.
//!
//! Message number n is due n periods after the beginning. A publisher that wakes up sends
//! everything that is due, so batches form by themselves where the rate is higher than its
//! wake-ups.

/// Messages that are sent at once at most.
pub const BATCH_MESSAGES_MAX: u64 = 1000;

/// The schedule of one publisher.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Messages per second; `None`: everything is due at once.
    rate: Option<f64>,
    begin_ns: u64,
    sent: u64,
}

impl Pace {
    /// A schedule that begins at `begin_ns`. A rate of `None` has no end of due messages.
    pub fn new(rate: Option<f64>, begin_ns: u64) -> Self {
        Self {
            rate,
            begin_ns,
            sent: 0,
        }
    }

    /// Messages that are due at `now_ns` and were not sent, at most [`BATCH_MESSAGES_MAX`].
    pub fn due(&self, now_ns: u64) -> u64 {
        if now_ns < self.begin_ns {
            return 0;
        }
        let Some(rate) = self.rate else {
            return BATCH_MESSAGES_MAX;
        };
        let elapsed_s = (now_ns - self.begin_ns) as f64 / 1e9;
        let due = (elapsed_s * rate).floor() as u64 + 1;
        due.saturating_sub(self.sent).min(BATCH_MESSAGES_MAX)
    }

    /// When the next message is or was due.
    pub fn next_ns(&self) -> u64 {
        self.batch_ns(1)
    }

    /// When the next `messages` are or were all due; at least 1.
    pub fn batch_ns(&self, messages: u64) -> u64 {
        let last = (self.sent + messages.max(1) - 1) as f64;
        let ahead_ns = self.rate.map_or(0.0, |rate| last / rate * 1e9);
        self.begin_ns + ahead_ns.ceil() as u64
    }

    /// Notes that this many messages were sent.
    pub fn note(&mut self, messages: u64) {
        self.sent += messages;
    }

    /// Messages sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_are_due_a_period_apart() {
        let mut pace = Pace::new(Some(1000.0), 5_000_000);
        assert_eq!(pace.due(4_999_999), 0);
        assert_eq!((pace.due(5_000_000), pace.next_ns()), (1, 5_000_000));
        pace.note(1);
        assert_eq!((pace.due(5_999_999), pace.next_ns()), (0, 6_000_000));
        assert_eq!(pace.batch_ns(10), 15_000_000);
        assert_eq!(pace.due(8_000_001), 3);
        pace.note(3);
        assert_eq!((pace.due(8_000_001), pace.sent()), (0, 4));
    }

    #[test]
    fn without_a_rate_there_is_always_a_batch() {
        let mut pace = Pace::new(None, 10);
        assert_eq!((pace.due(9), pace.due(10)), (0, BATCH_MESSAGES_MAX));
        pace.note(1 << 40);
        assert_eq!((pace.due(11), pace.next_ns()), (BATCH_MESSAGES_MAX, 10));
    }

    proptest! {
        #[test]
        fn whoever_wakes_at_the_next_instant_finds_a_message(rate in 1.0_f64..2e6, sent in 0_u64..1 << 32) {
            let mut pace = Pace::new(Some(rate), 1 << 40);
            pace.note(sent);
            // Two nanoseconds for the rounding of large numbers.
            prop_assert!(pace.due(pace.next_ns() + 2 + (sent >> 20)) >= 1);
        }
    }
}
