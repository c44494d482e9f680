//! Traffic of other topics at one broker: it takes servers, but no tokens.

use clock::Xoshiro256PlusPlus;
use placement::Station;
use workload::Spec;

use crate::gap::exponential_ns;

/// Batches of other topics at random instants (Poisson).
pub(super) struct OtherTopics {
    random: Xoshiro256PlusPlus,
    mean_gap_ns: f64,
    batch_messages: u16,
    /// When the next batch arrives; infinite without traffic.
    next_ns: f64,
}

impl OtherTopics {
    /// What the spec's `cluster.load` says of this broker, from `begin_ns` on.
    pub(super) fn new(spec: &Spec, broker: usize, begin_ns: u64) -> Self {
        let rate = spec.cluster.load.get(broker).copied().unwrap_or(0.0);
        let batch_messages = spec.cluster.load_batch.max(1);
        let mut others = OtherTopics {
            random: clock::stream(spec.seed, &format!("other topics {broker} {begin_ns}")),
            mean_gap_ns: 1e9 * f64::from(batch_messages) / rate,
            batch_messages,
            next_ns: f64::INFINITY,
        };
        if rate > 0.0 {
            others.next_ns = begin_ns as f64;
            others.draw();
        }
        others
    }

    /// Lets everything arrive that is due by `at_ns`.
    #[inline]
    pub(super) fn until(&mut self, at_ns: u64, station: &mut Station) {
        while self.next_ns <= at_ns as f64 {
            station.occupy(self.next_ns as u64, self.batch_messages);
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.next_ns += exponential_ns(&mut self.random, self.mean_gap_ns);
    }
}
