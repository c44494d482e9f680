//! Latencies of a replay, kept one by one so that percentiles are exact.

use statistics::nearest_rank;

/// End-to-end latencies of the messages of one broker.
///
/// Kept as `f32` microseconds: exact to 2^-24 of the value, in the order of the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    pub(super) us: Vec<f32>,
    pub(super) messages: u64,
    pub(super) waited_for_token: u64,
}

impl Latencies {
    /// Latencies kept at most; messages beyond are served but not judged.
    pub const MAX_KEPT: usize = 1 << 24;

    /// Messages that left.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Messages whose token came after they had been served: the limit, not the broker, held them.
    #[must_use]
    pub fn waited_for_token(&self) -> u64 {
        self.waited_for_token
    }

    /// The latency that `percentile` percent of the messages do not exceed (nearest rank), in
    /// microseconds; `None` without messages. Reorders what is kept.
    pub fn percentile_us(&mut self, percentile: f64) -> Option<f64> {
        if self.us.is_empty() {
            return None;
        }
        let place = nearest_rank(self.us.len() as u64, percentile) as usize - 1;
        let (_, latency, _) = self.us.select_nth_unstable_by(place, f32::total_cmp);
        Some(f64::from(*latency))
    }

    pub(super) fn clear(&mut self) {
        self.us.clear();
        self.messages = 0;
        self.waited_for_token = 0;
    }

    #[inline]
    pub(super) fn push(&mut self, latency_ns: f64, has_waited: bool) {
        self.messages += 1;
        self.waited_for_token += u64::from(has_waited);
        if self.us.len() < Self::MAX_KEPT {
            self.us.push((latency_ns * 1e-3) as f32);
        }
    }
}
