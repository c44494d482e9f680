//! The sums of all others, derived from a limiter's mass and smoothed.

use std::time::Duration;

use limit::sharing::Update;

use super::mass::Mass;

/// The fraction of an old sum that remains after one second.
const KEPT_1S: f64 = 0.01;

/// Smoothed sums of all limiters, and this one's own numbers smoothed alike, so that a change of its own does not appear
/// in one before the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    kept: f64,
    state: State,
    /// The limiters that they are of; 0 while nothing is known.
    among: u32,
    all: (f64, f64),
    own: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was ever known.
    Nothing,
    /// Those of an epoch before.
    Held,
    /// Those of this epoch.
    Current,
}

impl Sums {
    pub(super) fn new(interval: Duration) -> Self {
        Sums {
            kept: KEPT_1S.powf(interval.as_secs_f64()),
            state: State::Nothing,
            among: 0,
            all: (0.0, 0.0),
            own: (0.0, 0.0),
        }
    }

    /// Whether they say anything.
    pub(super) fn are_known(&self) -> bool {
        self.state != State::Nothing
    }

    /// How many limiters they are of, this one included; 0 if nothing is known.
    pub(super) fn among(&self) -> u32 {
        self.among
    }

    /// Takes in a mass that has spread among this many limiters. An epoch's first one counts in
    /// full.
    pub(super) fn take(&mut self, mass: &Mass, own: Update, among: u32) {
        let limiters = f64::from(among);
        let (demand, passed) = mass.means();
        if !demand.is_finite() || !passed.is_finite() {
            // The whole mass is this limiter's own: it says nothing of others.
            return;
        }
        let kept = match self.state {
            State::Current => self.kept,
            State::Nothing | State::Held => 0.0,
        };
        self.state = State::Current;
        self.among = among;
        let mix = |old: f64, new: f64| old * kept + new * (1.0 - kept);
        self.all = (
            mix(self.all.0, demand * limiters),
            mix(self.all.1, passed * limiters),
        );
        self.own = (mix(self.own.0, own.demand()), mix(self.own.1, own.passed()));
    }

    /// An epoch begins: what is known stays as it is until its sums have spread.
    pub(super) fn hold(&mut self) {
        if self.state == State::Current {
            self.state = State::Held;
        }
    }

    /// The demand of all others, departed ones included, and what passes at the `connected` ones.
    pub(super) fn others(&self, connected: u32) -> Update {
        let left = match self.among {
            0 => 1.0,
            among => (f64::from(connected) / f64::from(among)).min(1.0),
        };
        update(self.all.0 - self.own.0, self.all.1 * left - self.own.1)
    }
}

/// Numbers brought into range.
pub(super) fn update(demand: f64, passed: f64) -> Update {
    let within = |number: f64| number.clamp(0.0, Update::MAX);
    Update::new(within(demand), within(passed)).unwrap_or_default()
}
