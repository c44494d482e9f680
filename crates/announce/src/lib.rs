//! Who publishes and who subscribes to what: soft state, identifiers of topics, proxies; without
//! sockets and clocks.
//!
//! Tempo's endpoints find each other by announcements on a channel: a broadcast or multicast
//! domain, or a broker that speaks for both sides. This crate has what follows from announcements,
//! as values that take the time as an argument:
//!
//! * [`Directory`]: what was heard and is still believed.
//! * [`Names`]: which four-byte identifier stands for a topic, given out by a service or agreed on
//!   without one.
//! * [`Announcer`]: what an endpoint says, and when. [`Proxy`]: what a broker says for those behind
//!   it.
//! * [`Route`]: to whom a publisher sends: the broker, or its subscribers themselves.
//! * [`SubBucket`]: a publisher's part of a topic's limit where no broker enforces it.
//!
//! One turn of an endpoint: a datagram is decoded ([`wire::announce`]) and heard
//! ([`Directory::hear`]), each of its topics goes to [`Names::hear`], what changed is routed anew;
//! then [`Announcer::due`] says what to send. Everything is soft state: what is lost is repeated,
//! what is not repeated is forgotten.
//!
//! It does not send, receive, connect, or carry data.

mod announcer;
mod directory;
mod error;
mod names;
mod proxy;
mod route;
mod sub_bucket;

pub use announcer::{Announcer, AnnouncerConfig, Speaker};
pub use directory::{
    Change, Counters, Directory, DirectoryConfig, Endpoint, HEARD_BEFORE_FORGETTING,
};
pub use error::Refused;
pub use names::{Heard, NameCounts, Names, Source};
pub use proxy::{Proxy, Relayed};
pub use route::Route;
pub use sub_bucket::{Peer, SubBucket};
