//! Errors in setting up gossip and in requests to it.

use core::net::SocketAddr;
use std::time::Duration;

use wire::gossip::LimitId;

/// What is wrong with it, with a text for the person who configured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GossipError {
    /// This limiter is not one of those that share.
    #[error(
        "{0} is not among the peers: list all limiters, this one included, in the same order everywhere"
    )]
    NotAmongPeers(SocketAddr),
    /// One limiter twice.
    #[error("{0} is listed twice among the peers")]
    Twice(SocketAddr),
    /// Nothing can be sent there.
    #[error("{0} cannot be reached from outside: give the address and port that the others see")]
    Unreachable(SocketAddr),
    /// More than are told apart.
    #[error("{0} peers are too many: at most 65536 limiters share a limit")]
    TooManyPeers(usize),
    /// Not a time between two messages.
    #[error("an interval of {0:?} is out of range: 1 ms to 60 s")]
    Interval(Duration),
    /// It could not be told from "not known".
    #[error(
        "incarnation 0 is not allowed: it must grow with every start, as the wall clock in nanoseconds does"
    )]
    Incarnation,
    /// The limit was not added.
    #[error("limit {} is not known here: add it first", .0.0)]
    UnknownLimit(LimitId),
    /// More limits than are kept apart.
    #[error("there is no room for limit {}: at most {MAX_LIMITS} are gossiped about", .0.0)]
    TooManyLimits(LimitId),
}

/// The most limits that a node keeps counters for, those that only its peers have included.
pub(crate) const MAX_LIMITS: usize = 1024;
