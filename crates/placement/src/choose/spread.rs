//! The first draft: every group divided within one publisher, the sums nearly so.
//!
//! Within a group a broker's deficit is its proportional share less what it got. A publisher goes
//! to the broker with the largest deficit as long as that is a whole publisher or more; afterwards
//! any broker with a deficit will do, and the one that lags furthest behind in the whole is taken.
//! So no share is exceeded by a publisher (it had a deficit) and none is missed by one: while one
//! lags by a whole publisher nobody else is served, and once none does, deficits only shrink.
//!
//! Lag in the whole is measured as in stride scheduling, (sum + half a publisher) / share: it
//! depends only on the broker itself, so serving one leaves the order of the others alone.

use std::collections::BinaryHeap;

use super::{Choice, Draft, Tournament, Work};

/// Deficits below this fraction of a publisher's rate are what summing floats leaves.
pub(super) const TOLERANCE: f64 = 1e-9;

/// Gives every publisher a broker without regard to capacities; fewer if the targets are for fewer.
pub(super) fn spread(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let mut spreading = Spreading::new(choice);
    for group in choice.groups.iter() {
        spreading.divide(group, draft, work);
    }
    level(choice, draft, work);
}

/// Publishers on their own go where most is missing.
fn level(choice: &Choice<'_>, draft: &mut Draft, work: &mut Work) {
    let missing = choice.targets.iter().zip(&draft.sums);
    let mut missing = Tournament::new(missing.map(|(target, sum)| target - sum).collect());
    for &publisher in choice.groups.alone() {
        let rate = choice.rates[publisher as usize];
        let Some((broker, _)) = missing.best().filter(|&(_, most)| most > rate * TOLERANCE) else {
            continue;
        };
        draft.put(choice, publisher, broker);
        missing.set(broker, choice.targets[broker] - draft.sums[broker], work);
    }
}

struct Spreading<'a> {
    choice: &'a Choice<'a>,
    /// By broker: its target as a fraction of all rates.
    fractions: Vec<f64>,
    /// Brokers by falling fraction: for a group nobody got anything of, the order of deficits.
    by_fraction: Vec<u32>,
    /// Half the mean rate of a publisher.
    half: f64,
    /// The broker that lags furthest behind in the whole; those without a deficit in the group are out.
    whole: Tournament,
    /// By broker: its deficit in the group at hand, once it got something of it.
    deficits: Vec<f64>,
    is_touched: Vec<bool>,
    touched: Vec<u32>,
    /// Deficits of touched brokers as bits, which order as positive floats do; outdated ones included.
    largest: BinaryHeap<(u64, u32)>,
}

impl<'a> Spreading<'a> {
    fn new(choice: &'a Choice<'a>) -> Self {
        let all: f64 = choice.rates.iter().sum();
        let fractions: Vec<f64> = choice.targets.iter().map(|target| target / all).collect();
        let mut by_fraction: Vec<u32> = (0..fractions.len() as u32).collect();
        by_fraction.sort_by(|&a, &b| fractions[b as usize].total_cmp(&fractions[a as usize]));
        let half = 0.5 * all / choice.rates.len() as f64;
        let keys = fractions.iter().map(|&fraction| lag(0.0, half, fraction));
        Spreading {
            whole: Tournament::new(keys.collect()),
            deficits: vec![0.0; fractions.len()],
            is_touched: vec![false; fractions.len()],
            touched: Vec::new(),
            largest: BinaryHeap::new(),
            choice,
            fractions,
            by_fraction,
            half,
        }
    }

    fn divide(&mut self, group: &[u32], draft: &mut Draft, work: &mut Work) {
        let rate_of = |&publisher: &u32| self.choice.rates[publisher as usize];
        let all: f64 = group.iter().map(rate_of).sum();
        let mut untouched = 0;
        for &publisher in group {
            let rate = self.choice.rates[publisher as usize];
            let forced = self
                .furthest_behind(all, &mut untouched, work)
                .filter(|&(_, deficit)| deficit >= rate * (1.0 - TOLERANCE));
            let Some((broker, _)) = forced.or_else(|| self.whole.best()) else {
                continue;
            };
            draft.put(self.choice, publisher, broker);
            self.give(broker, rate, all, draft.sums[broker], work);
        }
        for broker in std::mem::take(&mut self.touched) {
            let broker = broker as usize;
            self.is_touched[broker] = false;
            let key = lag(draft.sums[broker], self.half, self.fractions[broker]);
            self.whole.set(broker, key, work);
        }
        self.largest.clear();
    }

    /// The broker with the largest deficit in the group and that deficit.
    fn furthest_behind(
        &mut self,
        all: f64,
        untouched: &mut usize,
        work: &mut Work,
    ) -> Option<(usize, f64)> {
        while let Some(&(bits, broker)) = self.largest.peek() {
            if bits == self.deficits[broker as usize].to_bits() {
                break;
            }
            self.largest.pop();
            work.steps += 1;
        }
        while self
            .by_fraction
            .get(*untouched)
            .is_some_and(|&at| self.is_touched[at as usize])
        {
            *untouched += 1;
            work.steps += 1;
        }
        let touched = self
            .largest
            .peek()
            .map(|&(bits, at)| (at as usize, f64::from_bits(bits)));
        let fresh = self.by_fraction.get(*untouched).map(|&at| at as usize);
        let fresh = fresh.map(|at| (at, self.fractions[at] * all));
        [fresh, touched]
            .into_iter()
            .flatten()
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn give(&mut self, broker: usize, rate: f64, all: f64, sum: f64, work: &mut Work) {
        if !self.is_touched[broker] {
            self.is_touched[broker] = true;
            self.touched.push(broker as u32);
            self.deficits[broker] = self.fractions[broker] * all;
        }
        self.deficits[broker] -= rate;
        if self.deficits[broker] > rate * TOLERANCE {
            self.largest
                .push((self.deficits[broker].to_bits(), broker as u32));
            self.whole
                .set(broker, lag(sum, self.half, self.fractions[broker]), work);
        } else {
            self.whole.set(broker, f64::NEG_INFINITY, work);
        }
    }
}

/// How far behind a broker is in the whole: the greater, the further. Nobody waits for a share of nothing.
fn lag(sum: f64, half: f64, fraction: f64) -> f64 {
    if fraction > 0.0 {
        -(sum + half) / fraction
    } else {
        f64::NEG_INFINITY
    }
}
