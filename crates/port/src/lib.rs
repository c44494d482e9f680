//! HTTP ports within bounds, whoever asks: each daemon's port is served here.
//!
//! [`serve`] gives each connection a [`Place`]; [`places`] says whose is freed when places are short. Who finds none still gets an answer
//! from a small reserve: `/ping` and `/metrics` as ever, 503 to everything else. [`Gate`] refuses changes that a foreign web page
//! asks for. A peer has a time limit for its head, for its body and for taking an answer. [`exchange`] asks somebody else's port.

mod body;
mod conversation;
mod counts;
mod exchange;
mod gate;
mod host;
mod output;
pub mod places;
mod room;
mod serve;

pub use body::is_late;
pub use counts::{Counts, Figure};
pub use exchange::exchange;
pub use gate::Gate;
pub use host::hostname;
pub use places::{Place, Places};
pub use room::{BodyError, Held, Room};
pub use serve::{Settings, serve};
