//! What the HTTP ports of all daemons have in common, whoever asks about whatever.
//!
//! * *Bounds.* [`serve`] gives each connection a [`Place`]; [`places`] says whose is freed when places are short. Who finds none still
//!   gets an answer from a small reserve: `/ping` and `/metrics` as ever, 503 to everything else. A peer has a time limit for its head,
//!   for its body and for taking an answer; bodies share a [`Room`]. [`Gate`] refuses changes that a foreign web page asks for.
//!   A process without descriptors still answers these on some that each port keeps back.
//! * *Access.* [`Routes`] are built with what each takes ([`access::Need`]); where an access file is in force, whoever shows no token for
//!   that is refused before anything of the request is read.
//! * *Encryption.* With [`Encryption`] a port speaks TLS, after handshakes on a thread of their own; one beside it may answer nothing but where
//!   that is. [`encrypted`] begins a connection to such a port.
//! * *Answers about everything.* To tell of ten thousand topics takes work, wherever it is done. So such questions stand in a
//!   [`Lane`]: one answer is made at a time, and all who ask for the same before it is begun get it. Who comes later gets the next one, so an
//!   answer tells of everything that had happened when it was asked for. After each answer a lane rests as long as that took.
//!   [`Pages`] bounds the memory of answers that their readers take their time with.
//! * *Questions.* [`Query`] reads parameters, [`read_object`] a body; a [`Refusal`] says what is wrong, and [`nsq`] what NSQ's clients know.
//!   [`metrics`] are tables.
//! * *Asking.* [`exchange`] asks somebody else's port.
//!
//! What is answered is the routes' owners'.

mod body;
mod conversation;
mod counts;
mod encryption;
mod exchange;
mod gate;
mod guard;
mod host;
mod json;
mod lane;
pub mod metrics;
pub mod nsq;
mod output;
mod pages;
pub mod places;
mod query;
mod refusal;
mod room;
mod routes;
mod serve;
mod spare;

pub use counts::{Counts, Figure};
pub use encryption::{Duplex, Encryption, Wire, encrypted, encrypted_address, is_encrypted};
pub use exchange::exchange;
pub use gate::Gate;
pub use host::hostname;
pub use json::{Distinct, read_object};
pub use lane::{Lane, rendered};
pub use pages::Pages;
pub use places::{Place, Places};
pub use query::{Query, QueryError, flag_word};
pub use refusal::Refusal;
pub use room::{BodyError, Held, Room};
pub use routes::{Route, Routes};
pub use serve::{Settings, serve};
