//! What all limiters of a limit together may still let through, or owe.
//!
//! This models the one bucket that they stand for, as each can tell it from what is said to have
//! passed: it fills at L, what passes leaves it, and below 0 it is a debt. All see nearly the same
//! debt and give up the same part of their limits until it is paid, so an excess is followed by as
//! much of a shortfall.
//!
//! What passes is an average and is heard late. So the debt is not exact, its cost is bounded, and
//! it is not used just after the limit has changed.

/// The bucket's level, and how long it has meant something.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Balance {
    level: f64,
    /// How long the limit has been what it is.
    unchanged_s: f64,
}

/// How long it takes to pay a debt, seconds: longer than the averages of what passes take to follow, or it swings.
const REPAID_S: f64 = 1.0;

/// The most that is owed, as seconds of the limit. A debt that wrong sums feign costs no more than half of the limit.
const OWED_MAX_S: f64 = 0.5;

/// The time in which a debt falls to 1/e by itself, seconds. Limiters that know of different debts, since one heard less
/// than another, would else stay apart: who owes more gives up what the others take.
const FORGIVEN_S: f64 = 5.0;

/// How long averages hold what passed under the limit of before, seconds.
const AVERAGES_FOLLOW_S: f64 = 1.0;

/// How long traffic takes to fill a changed limit, seconds.
const SETTLED_S: f64 = 3.0;

impl Balance {
    /// Limiters came or went, or the limit was set anew.
    pub(super) fn limit_changed(&mut self) {
        self.unchanged_s = 0.0;
    }

    /// Ends an interval in which `passed` units per second passed all limiters.
    pub(super) fn end(&mut self, seconds: f64, limit: f64, passed: f64, depth: f64) {
        self.unchanged_s += seconds;
        if self.level < 0.0 {
            self.level *= (-seconds / FORGIVEN_S).exp();
        }
        if self.unchanged_s > AVERAGES_FOLLOW_S {
            self.level += (limit - passed) * seconds;
        }
        self.level = self.level.clamp(-OWED_MAX_S * limit, depth);
    }

    /// Whether traffic has had the time to fill the limit.
    pub(super) fn is_settled(&self) -> bool {
        self.unchanged_s > SETTLED_S
    }

    /// Whether there is a debt.
    pub(super) fn is_owed(&self) -> bool {
        self.level < 0.0
    }

    /// The part of the limit that may be divided while the debt is paid, from 1 down to a half.
    pub(super) fn part(&self, limit: f64) -> f64 {
        1.0 + (self.level / (REPAID_S * limit)).clamp(-OWED_MAX_S / REPAID_S, 0.0)
    }
}
