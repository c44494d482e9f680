//! The rate to be placed, and the capacity for it.

use crate::Publisher;
use crate::choose::{Groups, Work};

use super::Question;

/// Rates are sums of floats: two that differ by less than this fraction are the same.
const TOLERANCE: f64 = 1e-9;

/// Capacities beyond this are as good as unlimited, and stay finite in sums.
const UNLIMITED: f64 = 1e18;

/// The publishers that have no broker yet.
pub(super) struct Demand {
    /// Their indices.
    pub(super) waiting: Vec<u32>,
    /// The rate of each, in the order of `waiting`.
    pub(super) rates: Vec<f64>,
    /// Which of them belong together, as places in `waiting`.
    pub(super) groups: Groups,
    /// The sum of their rates.
    pub(super) rate: f64,
    least: f64,
    greatest: f64,
}

/// The brokers that may be given something.
pub(super) struct Supply {
    /// By broker: what it can take in whole publishers; 0 if it may not be used.
    pub(super) usable: Vec<f64>,
    /// By broker: the rate of this topic's publishers that are placed there.
    pub(super) carried: Vec<f64>,
    /// Brokers with something usable in the order in which they are taken.
    pub(super) order: Vec<usize>,
    /// The residual capacity of all that may be used.
    pub(super) residual: f64,
    /// How many of `order` carry the topic already.
    carriers_in_order: usize,
    /// Brokers that carry the topic already, full ones included.
    carriers: usize,
}

impl Demand {
    pub(super) fn new(question: &Question<'_>, work: &mut Work) -> Self {
        let publishers = question.publishers;
        assert_eq!(
            question.placed.len(),
            publishers.len(),
            "one place per publisher"
        );
        let is_waiting = |&at: &u32| question.placed[at as usize].is_none();
        let waiting: Vec<u32> = (0..publishers.len() as u32).filter(is_waiting).collect();
        let of = |&at: &u32| -> &Publisher { &publishers[at as usize] };
        let rates: Vec<f64> = waiting.iter().map(|at| of(at).rate.get()).collect();
        let groups = match question.policy.divides_groups() {
            true => Groups::told(waiting.iter().map(|at| of(at).group), &rates, work),
            false => Groups::blind(waiting.len()),
        };
        Demand {
            groups,
            rate: rates.iter().sum(),
            least: rates.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: rates.iter().copied().fold(0.0, f64::max),
            waiting,
            rates,
        }
    }

    /// The rate of every publisher, if they all have the same.
    pub(super) fn unit(&self) -> Option<f64> {
        let is_equal = self.greatest - self.least <= self.greatest * 1e-12;
        (is_equal && !self.waiting.is_empty()).then_some(self.greatest)
    }

    /// How much of `rcap` whole publishers can use, as far as that is easy to say.
    fn usable_of(&self, rcap: f64) -> f64 {
        match self.unit() {
            Some(unit) => (rcap / unit + TOLERANCE).floor() * unit,
            None if rcap < self.least * (1.0 - TOLERANCE) => 0.0,
            None => rcap,
        }
    }
}

impl Supply {
    pub(super) fn new(question: &Question<'_>, demand: &Demand) -> Self {
        let brokers = question.brokers;
        assert_eq!(question.full.len(), brokers.len(), "one mark per broker");
        let mut carried = vec![0.0; brokers.len()];
        let mut is_carrier = vec![false; brokers.len()];
        for (publisher, place) in question.publishers.iter().zip(question.placed) {
            if let Some(broker) = place {
                carried[broker.0 as usize] += publisher.rate.get();
                is_carrier[broker.0 as usize] = true;
            }
        }
        let rcap_of = |at: usize| -> f64 {
            let is_usable = brokers[at].is_available && !question.full[at];
            // A capacity that is no number is none.
            let rcap = (brokers[at].rcap() - carried[at]).clamp(0.0, UNLIMITED);
            if is_usable && !rcap.is_nan() {
                rcap
            } else {
                0.0
            }
        };
        let rcaps: Vec<f64> = (0..brokers.len()).map(rcap_of).collect();
        let usable: Vec<f64> = rcaps.iter().map(|&rcap| demand.usable_of(rcap)).collect();
        let mut order: Vec<usize> = (0..brokers.len()).filter(|&at| usable[at] > 0.0).collect();
        order.sort_by(|&a, &b| {
            let emptier_first = rcaps[b].total_cmp(&rcaps[a]);
            is_carrier[b]
                .cmp(&is_carrier[a])
                .then(emptier_first)
                .then(a.cmp(&b))
        });
        Supply {
            residual: rcaps.iter().sum(),
            carriers_in_order: order.iter().filter(|&&at| is_carrier[at]).count(),
            carriers: is_carrier.into_iter().filter(|&carries| carries).count(),
            usable,
            carried,
            order,
        }
    }

    /// Step 1: the least count of brokers in order that holds `rate` and makes `k_min` brokers in all, and
    /// whether there is one; otherwise all.
    pub(super) fn fewest(&self, rate: f64, k_min: usize) -> (usize, bool) {
        let new_at_least = k_min.saturating_sub(self.carriers);
        let at_least = (self.carriers_in_order + new_at_least).min(self.order.len());
        let enough = (at_least..=self.order.len()).find(|&count| self.holds(count, rate));
        enough.map_or((self.order.len(), false), |count| (count, true))
    }

    /// Whether the first `count` brokers in order hold `rate`.
    pub(super) fn holds(&self, count: usize, rate: f64) -> bool {
        let held: f64 = self.order[..count].iter().map(|&at| self.usable[at]).sum();
        held >= rate * (1.0 - TOLERANCE)
    }
}
