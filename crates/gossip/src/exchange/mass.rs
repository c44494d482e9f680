//! The mass that a limiter holds and divides.

use limit::sharing::Update;
use wire::gossip::carried;

use super::message::WEIGHT_MAX;
use super::sums::update;

/// Sums with their weight, and how much of them is this limiter's own and nobody else's yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mass {
    demand: f64,
    passed: f64,
    weight: f64,
    /// The rest of what this limiter put in and nothing has been mixed with. In a mean of all it
    /// would seem N times as large as it is.
    unmixed: Unmixed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Unmixed {
    demand: f64,
    passed: f64,
    weight: f64,
}

/// One of the equal parts of a mass, as it travels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub(super) demand: f32,
    pub(super) passed: f32,
    pub(super) weight: f32,
}

/// Own numbers as they travel.
pub(super) fn carried_own(own: Update) -> (f32, f32) {
    (carried(own.demand()), carried(own.passed()))
}

impl Mass {
    /// A limiter's initial mass.
    pub(super) fn of(own: Update) -> Self {
        Mass {
            demand: own.demand(),
            passed: own.passed(),
            weight: 1.0,
            unmixed: Unmixed::default(),
        }
    }

    pub(super) fn weight(&self) -> f64 {
        self.weight
    }

    /// The weight of what was mixed with others'.
    pub(super) fn mixed_weight(&self) -> f64 {
        self.weight - self.unmixed.weight
    }

    /// The limiter's own numbers change, by `weight` times the difference in the sums, as far as no
    /// sum here falls below 0: a negative sum cannot be divided, and would stay here alone while
    /// its weight is given away. Returns the numbers that are in the sums now; the rest enters when
    /// more has been heard.
    pub(super) fn change(&mut self, before: Update, after: Update, weight: f64) -> Update {
        let demand = changed(&mut self.demand, before.demand(), after.demand(), weight);
        let passed = changed(&mut self.passed, before.passed(), after.passed(), weight);
        self.unmixed.demand += demand * weight;
        self.unmixed.passed += passed * weight;
        update(before.demand() + demand, before.passed() + passed)
    }

    /// Replaces a part of the mass by as large a part of what a limiter begins with.
    pub(super) fn renew(&mut self, own: Update, part: f64) {
        let renewed = |held: &mut f64, own: f64| *held += (own - *held) * part;
        renewed(&mut self.demand, own.demand());
        renewed(&mut self.passed, own.passed());
        renewed(&mut self.weight, 1.0);
        renewed(&mut self.unmixed.demand, own.demand());
        renewed(&mut self.unmixed.passed, own.passed());
        renewed(&mut self.unmixed.weight, 1.0);
    }

    /// Takes in a part that counts `times` times.
    pub(super) fn take(&mut self, part: Update, weight: f64, times: f64) {
        self.demand += part.demand() * times;
        self.passed += part.passed() * times;
        self.weight += weight * times;
    }

    /// Gives `parts` parts away, each as large as what is left except for rounding. A part is
    /// rounded first and then subtracted, so nothing is lost. What would not be believed, because
    /// it is beyond all bounds, stays.
    pub(super) fn divide(&mut self, parts: u32) -> Part {
        let parts = f64::from(parts);
        let equal = |sum: f64, most: f64| carried((sum / (parts + 1.0)).min(most));
        let part = Part {
            demand: equal(self.demand, Update::MAX),
            passed: equal(self.passed, Update::MAX),
            weight: equal(self.weight, WEIGHT_MAX.into()),
        };
        self.demand -= f64::from(part.demand) * parts;
        self.passed -= f64::from(part.passed) * parts;
        self.weight -= f64::from(part.weight) * parts;
        self.unmixed.demand /= parts + 1.0;
        self.unmixed.passed /= parts + 1.0;
        self.unmixed.weight /= parts + 1.0;
        part
    }

    /// Demand and what passes, as the mean of all limiters.
    pub(super) fn means(&self) -> (f64, f64) {
        let weight = self.mixed_weight();
        (
            (self.demand - self.unmixed.demand) / weight,
            (self.passed - self.unmixed.passed) / weight,
        )
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> [f64; 3] {
        [self.demand, self.passed, self.weight]
    }
}

/// Changes a sum by `weight` times the way from `before` to `after`, or as far as it stays above 0; how far of the way that is.
fn changed(sum: &mut f64, before: f64, after: f64, weight: f64) -> f64 {
    let whole = after - before;
    let most = if weight > 0.0 { -*sum / weight } else { whole };
    let entered = whole.max(most.min(0.0));
    *sum = (*sum + entered * weight).max(0.0);
    entered
}
