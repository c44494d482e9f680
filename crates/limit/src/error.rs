//! Errors in a declared limit, and in a broker's report about its share of one.

/// A declared limit that cannot be enforced, with a text for the person who declared it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidLimit {
    /// The rate is not a number in its range.
    #[error(
        "rate {} is out of range: it must be at least 1e-6 and at most 1e12 tokens per second",
        plain(*given)
    )]
    Rate {
        /// What was given.
        given: f64,
    },
    /// The burst is not a number in its range.
    #[error("burst {} is out of range: it must be at least 1 and at most 1e12 tokens", plain(*given))]
    Burst {
        /// What was given.
        given: f64,
    },
    /// A field that takes one of a few words has another value.
    #[error("{field} {given:?} is unknown: {field} is one of {expected}")]
    Word {
        /// The field.
        field: &'static str,
        /// What was given.
        given: String,
        /// The words it takes.
        expected: &'static str,
    },
    /// A policy that drops at random, in a limit whose excess is to wait.
    #[error(
        "sharing \"grd\" drops at random and lets nothing wait: give on_exceed drop or reject, or sharing fps"
    )]
    Together,
    /// A number of how a limit is gossiped about that is out of its range.
    #[error("gossip.{field} {given} is out of range: it must be {expected}")]
    Gossip {
        /// The field.
        field: &'static str,
        /// What was given.
        given: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// How to gossip, in a limit about which nobody does.
    #[error(
        "gossip needs a limit that brokers share by gossip: set sharing to fps, gtb or grd, or leave gossip out"
    )]
    NotGossiped,
    /// A word that should be a number is none.
    #[error("{field} {given:?} is not a number")]
    NotANumber {
        /// The field.
        field: &'static str,
        /// What was given.
        given: String,
    },
}

/// What cannot be believed of a broker's report, with a text for the person who runs both ends.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidReport {
    /// A measured quantity is not a number, negative or beyond anything a broker can carry.
    #[error("{field} {given} is out of range: it must be at least 0 and at most 1e15")]
    Absurd {
        /// The quantity.
        field: &'static str,
        /// What was given.
        given: f64,
    },
    /// A length of history that is not kept.
    #[error(
        "a history of {steps} steps of {step_ms} ms is out of range: \
         1 to 600 steps of 10 to 60000 ms"
    )]
    HistoryLength {
        /// Steps asked for.
        steps: usize,
        /// Their length in milliseconds.
        step_ms: u64,
    },
    /// The broker obeys a controller that came after this one.
    #[error(
        "broker {broker} holds a grant of epoch {theirs}, but this controller's epoch is {ours}: \
         another controller has taken over"
    )]
    LaterEpoch {
        /// The broker.
        broker: u32,
        /// The epoch of its latest grant.
        theirs: u64,
        /// The epoch of the ledger.
        ours: u64,
    },
    /// The broker did not join, or was declared dead.
    #[error("broker {broker} is not a member of this topic: it must join before it reports")]
    NotAMember {
        /// The broker.
        broker: u32,
    },
}

/// A number as people write it: with an exponent where it would be a row of zeros.
fn plain(number: f64) -> String {
    let is_short = number == 0.0 || !number.is_normal() && !number.is_subnormal();
    if is_short || (1e-5..1e21).contains(&number.abs()) {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}
