//! Gossip between the limiters of one limit (DRL, sections 3.1, 4.2 and 5.6).
//!
//! * [`Exchange`] is one limiter's side of the sums of one limit: at the end of each estimate
//!   interval it says what to send to whom, and from what it hears it computes how much the others
//!   demand.
//! * [`Node`] is one process's side of the gossip of all its limits: the exchanges, who is
//!   connected (SWIM, by `foca`), and the datagrams in between, tagged with a key. It takes and
//!   gives bytes, and time is an argument.
//! * [`Roster`] finds the limiters where nobody hands out a list of them.
//! * [`Socket`] carries a node's datagrams. Only it does input and output; its owner decides what
//!   to wait for and when.
//!
//! docs/gossip.md has the bytes, what is safe against whom, and what happens when something fails.

mod error;
mod exchange;
mod membership;
mod node;
mod roster;
mod socket;

pub use error::GossipError;
pub use exchange::{Branches, Exchange, Heard, Message};
pub use node::{Counters, Node, NodeConfig, PeerState, Transmit};
pub use roster::{MAX_MEMBERS, Roster, RosterConfig, RosterMember};
pub use socket::{Socket, SocketCounters};
pub use wire::gossip::{
    Datagram, Endpoint, Key, KeyError, LimitId, NoticedLimit, SealedMembership, Vouch, decode,
    put_vouch,
};
