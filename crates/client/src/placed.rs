//! A publisher that goes where the controller places it.
//!
//! [`Follower`] is the whole conversation with brokers and controller as a state machine without
//! sockets and clocks. It takes events (connected, bytes read, closed, the controller's answer, the
//! time) and says what to do (connect, close, ask the controller, write these bytes).
//! [`PlacedPublisher`] drives one of them with a thread; a program with thousands drives them from
//! its own event loop.
//!
//! What a publisher may count on:
//!
//! * A move loses and repeats nothing while both brokers live: the new connection is made first,
//!   later messages go there, and the old one is closed when everything sent on it was
//!   acknowledged.
//! * When a broker dies, what it had not acknowledged is sent again elsewhere: at least once, with
//!   repetitions for messages whose acknowledgement was lost with the broker.
//! * Messages keep their order on one connection. Over a move or a death, later ones may arrive
//!   before earlier ones.
//! * At most [`PlacedOptions::window_messages`] messages and [`PlacedOptions::window_bytes`] bytes
//!   wait for acknowledgements; then publishing waits.
//! * The controller is needed to find a broker, not to publish: without it the publisher stays
//!   where it is.
//!
//! Deliberately absent: a buffer that outlives the process, several topics on one connection,
//! deferred messages.

mod backoff;
mod connection;
mod controller;
mod follower;
mod options;
mod publisher;
mod sockets;

pub use connection::ConnectionId;
pub use controller::Controller;
pub use follower::{Action, Answer, Enquiry, Follower, Throttled, Traffic};
pub use options::PlacedOptions;
pub use publisher::PlacedPublisher;
