//! The limit that a recording advises, as people type it, beside the one in force.

use super::{AccessDelays, FitQuestion, Profile, ProfileError, fit_bucket};
use crate::{Burst, Limit, Rate, Unit};

/// A limit, and what recorded traffic waits under it.
#[derive(Clone, Debug, PartialEq)]
pub struct UnderLimit {
    /// r, messages per second.
    pub rate: Rate,
    /// b, messages.
    pub burst: Burst,
    /// The waits of the messages; `None` where more wait than can be kept.
    pub delays: Option<AccessDelays>,
}

/// The limit that a recording needs, and what its traffic waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The fitted limit.
    pub profile: Profile,
    /// Under what was fitted.
    pub fitted: UnderLimit,
    /// Under the limit in force, if there is one and it counts messages.
    pub in_force: Option<UnderLimit>,
}

impl Advice {
    /// On the arrivals, each an instant in nanoseconds and a number of messages. The rate has six digits, for nobody types
    /// seventeen: what is told is what was fitted.
    ///
    /// # Errors
    /// As [`fit_bucket`].
    pub fn of(
        arrivals: impl Iterator<Item = (u64, u32)> + Clone,
        question: &FitQuestion,
        in_force: Option<&Limit>,
    ) -> Result<Advice, ProfileError> {
        let mut profile = fit_bucket(arrivals.clone(), question)?;
        let rate = rounded_up(profile.rate).filter(|rate| rate.get() >= profile.mean_rate);
        if rate.is_some() {
            let question = FitQuestion { rate, ..*question };
            profile = fit_bucket(arrivals.clone(), &question)?;
        }
        let under = |rate, burst| UnderLimit {
            rate,
            burst,
            delays: AccessDelays::measure(arrivals.clone(), rate, burst).ok(),
        };
        // Bytes have other tokens.
        let in_force = in_force.filter(|limit| limit.unit == Unit::Messages);
        Ok(Advice {
            profile,
            fitted: under(profile.rate, profile.burst),
            in_force: in_force.map(|limit| under(limit.rate, limit.burst)),
        })
    }
}

/// The next rate of six digits; one that is off by the rounding of its last digit counts as such a rate.
fn rounded_up(rate: Rate) -> Option<Rate> {
    let digits_before_point = rate.get().log10().floor();
    let scale = 10f64.powf(5.0 - digits_before_point);
    let scaled = rate.get() * scale;
    Rate::new((scaled - scaled * 1e-12).ceil() / scale).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds: each second ten messages at once, and half a second later one.
    fn arrivals() -> impl Iterator<Item = (u64, u32)> + Clone {
        (0..20u32).map(|n| (u64::from(n) * 500_000_000, if n % 2 == 0 { 10 } else { 1 }))
    }

    #[test]
    fn rates_are_told_with_six_digits() {
        for (rate, expected) in [
            (12.100000000000001, 12.1),
            (12.10001, 12.1001),
            (1_099.798_346_2, 1_099.8),
            (0.001_234_567_8, 0.001_234_57),
            (1_234_567.8, 1_234_570.0),
        ] {
            let rounded = Rate::new(rate).ok().and_then(rounded_up);
            assert_eq!(rounded.map(Rate::get), Some(expected), "{rate}");
        }
    }

    #[test]
    fn what_is_told_is_what_was_fitted_beside_what_is_in_force() {
        let question = FitQuestion {
            span: Some((0, 10_000_000_000)),
            ..FitQuestion::default()
        };
        let mut limit = Limit::messages(20.0, 5.0).expect("valid");
        let advice = Advice::of(arrivals(), &question, Some(&limit)).expect("a fit");
        let Advice {
            profile, fitted, ..
        } = &advice;
        assert_eq!((profile.rate.get(), profile.burst.get()), (12.1, 10.0));
        assert_eq!((fitted.rate, fitted.burst), (profile.rate, profile.burst));
        let waiting = |under: &UnderLimit| under.delays.as_ref().map(AccessDelays::delayed);
        assert_eq!(waiting(fitted), Some(0));
        assert_eq!(advice.in_force.as_ref().and_then(waiting), Some(50));
        // A limit in bytes says nothing of messages.
        limit.unit = Unit::Bytes;
        let advice = Advice::of(arrivals(), &question, Some(&limit)).expect("a fit");
        assert_eq!(advice.in_force, None);
    }
}
