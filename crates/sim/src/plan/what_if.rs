//! What-if questions to a plan: one broker more, one dead, another rate.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

use super::choose::{Chosen, choose};
use super::{Estimate, PlanOptions, repeats, runs, used, worst};
use crate::fit::place_again;
use crate::{Scene, SimError};

/// A change to ask about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WhatIf {
    /// So many brokers more; planned anew.
    MoreBrokers(u32),
    /// This broker, from 1, dies; its publishers, and only they, are placed anew.
    Kill(u32),
    /// All publishers send so many times as much and the limit follows; planned anew.
    Rate(f64),
}

/// Words that ask nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a question: write \"+1 broker\", \"kill b3\" or \"rate x2\"")]
pub struct UnknownWhatIf(pub String);

/// What the planner answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The question.
    pub what_if: String,
    /// Brokers used then.
    pub k: usize,
    /// Whether the promise is kept.
    pub met: bool,
    /// Messages per second that fit nowhere.
    pub missing: f64,
    /// Latency at the percentile of the promise at the worst broker, in microseconds.
    pub worst: Estimate,
}

impl FromStr for WhatIf {
    type Err = UnknownWhatIf;

    fn from_str(text: &str) -> Result<Self, UnknownWhatIf> {
        let unknown = || UnknownWhatIf(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            [count, "broker" | "brokers"] => {
                let count = count.strip_prefix('+').and_then(|count| count.parse().ok());
                let count = count.filter(|count| (1..=1024).contains(count));
                count.map(WhatIf::MoreBrokers).ok_or_else(unknown)
            }
            ["kill", broker] => {
                let number = broker.strip_prefix('b').unwrap_or(broker).parse().ok();
                let number = number.filter(|&number| number >= 1);
                number.map(WhatIf::Kill).ok_or_else(unknown)
            }
            ["rate", factor] => {
                let factor = factor.strip_prefix('x').and_then(|x| x.parse::<f64>().ok());
                let factor = factor.filter(|factor| (1e-3..=1e3).contains(factor));
                factor.map(WhatIf::Rate).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhatIf::MoreBrokers(1) => f.write_str("+1 broker"),
            WhatIf::MoreBrokers(count) => write!(f, "+{count} brokers"),
            WhatIf::Kill(broker) => write!(f, "kill b{broker}"),
            WhatIf::Rate(factor) => write!(f, "rate x{factor}"),
        }
    }
}

/// Answers one question about `scene`, which is placed as `now` says.
pub(super) fn answer(
    (scene, repeats_now): (&Scene, &[Scene]),
    now: &Chosen,
    what_if: WhatIf,
    options: &PlanOptions,
    done: &(impl Fn() + Sync),
) -> Result<Answer, SimError> {
    let anew = |scene: Scene| choose(&scene, &repeats(&scene, options)?, options, done);
    let then = match what_if {
        WhatIf::MoreBrokers(count) => anew(scene.with_more_brokers(count)?)?,
        WhatIf::Rate(factor) => anew(scene.with_rate(factor)?)?,
        WhatIf::Kill(broker) => without((scene, repeats_now), now, broker, options, done)?,
    };
    Ok(Answer {
        what_if: what_if.to_string(),
        k: used(&then.broker_of),
        met: then.met,
        missing: then.missing,
        worst: worst(&then.runs),
    })
}

/// What a broker's death leaves.
fn without(
    (scene, repeats): (&Scene, &[Scene]),
    now: &Chosen,
    number: u32,
    options: &PlanOptions,
    done: &(impl Fn() + Sync),
) -> Result<Chosen, SimError> {
    if number as usize > scene.brokers().len() {
        return Err(SimError::NoSuchBroker {
            broker: number,
            brokers: scene.brokers().len(),
        });
    }
    let dead = number - 1;
    let left: Vec<_> = now
        .broker_of
        .iter()
        .map(|place| place.filter(|broker| broker.0 != dead))
        .collect();
    let broker_of = place_again(scene, &left, |broker| broker != dead);
    let nowhere = broker_of.iter().zip(scene.publishers());
    let missing = nowhere
        .filter(|(place, _)| place.is_none())
        .map(|(_, publisher)| publisher.rate.get())
        .sum();
    let mut then = Chosen {
        runs: runs(repeats, &broker_of, options, done)?,
        broker_of,
        missing,
        ..now.clone()
    };
    then.met = missing == 0.0 && then.keeps(scene);
    Ok(then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_read_back_from_their_words() {
        for (text, question) in [
            ("+1 broker", WhatIf::MoreBrokers(1)),
            ("+2 brokers", WhatIf::MoreBrokers(2)),
            ("kill b3", WhatIf::Kill(3)),
            ("rate x2", WhatIf::Rate(2.0)),
            ("rate x0.5", WhatIf::Rate(0.5)),
        ] {
            assert_eq!(text.parse(), Ok(question), "{text}");
            assert_eq!(question.to_string(), text);
        }
        for text in [
            "",
            "kill",
            "kill b0",
            "kill bx",
            "rate 2",
            "rate x-1",
            "rate xNaN",
            "1 broker",
            "+0 brokers",
        ] {
            let error = text.parse::<WhatIf>().expect_err(text);
            assert!(error.to_string().contains("is not a question"), "{error}");
        }
    }
}
