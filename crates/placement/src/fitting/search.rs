//! The binary search for how much one broker holds.

use crate::BrokerIndex;

/// The search at one broker: how many of its publishers may stay.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Search {
    pub(super) broker: BrokerIndex,
    /// Publishers in the order in which they stay.
    order: Vec<u32>,
    /// The most that were seen to fit.
    fitting: usize,
    /// The latency they had, in microseconds.
    fitting_us: Option<f64>,
    /// The fewest that were seen to violate the SLO.
    violating: usize,
    /// How many stay in this round.
    kept: usize,
    is_settled: bool,
}

impl Search {
    /// A search over `order`, all of whom together violate the SLO.
    ///
    /// `guess`: the fraction that probably fits, where something is known; otherwise half is tried.
    pub(super) fn new(broker: BrokerIndex, order: Vec<u32>, guess: Option<f64>) -> Self {
        let violating = order.len();
        let guessed = guess.map(|part| (violating as f64 * part) as usize);
        let mut search = Search {
            broker,
            order,
            fitting: 0,
            fitting_us: None,
            violating,
            kept: 0,
            is_settled: false,
        };
        search.advance();
        if let Some(guessed) = guessed.filter(|_| !search.is_settled) {
            search.kept = guessed.clamp(1, violating - 1);
        }
        search
    }

    /// Takes the latency of this round; if there is none, the publishers that stay count as
    /// fitting.
    pub(super) fn narrow(&mut self, latency_us: Option<f64>, slo_us: f64, band: f64) {
        if latency_us.is_some_and(|latency| latency > slo_us) {
            self.violating = self.kept;
        } else {
            (self.fitting, self.fitting_us) = (self.kept, latency_us);
            if latency_us.is_some_and(|latency| latency >= slo_us * (1.0 - band)) {
                self.is_settled = true;
                return;
            }
        }
        self.advance();
    }

    /// The latency of the most that were seen to fit, in microseconds, if it was measured.
    pub(super) fn fitting_us(&self) -> Option<f64> {
        self.fitting_us
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The publishers that stay in this round; once settled, for ever.
    pub(super) fn kept(&self) -> &[u32] {
        &self.order[..self.kept]
    }

    /// Those who must go elsewhere.
    pub(super) fn shed(&self) -> &[u32] {
        &self.order[self.kept..]
    }

    fn advance(&mut self) {
        self.is_settled = self.fitting + 1 >= self.violating;
        self.kept = if self.is_settled {
            self.fitting
        } else {
            self.fitting.midpoint(self.violating)
        };
    }
}
