//! Who may do what: roles over topics, the tokens that give them, and what an NSQ auth server answers.
//!
//! * *Tokens.* An [`AccessList`] is what an access file holds: for the hash of each token a [`Holder`] with roles, topics and channels.
//!   [`InForce`] is the list that a daemon goes by at present, with a number that tells cheaply whether it has changed.
//! * *Auth servers.* [`Authorizations`] is the answer of a server that NSQ's `--auth-http-address` names.
//! * *Decisions.* [`Need`] is what a request takes, [`Denial`] why it is refused. [`Permit`] says for an NSQ client what it may do, from
//!   whichever of both it has that.
//!
//! Nothing here reads a file, asks a server or looks at a clock.

mod authorizations;
mod denial;
mod in_force;
mod list;
mod pattern;
mod permit;
mod role;
mod token;

pub use authorizations::{ANSWER_MAX_BYTES, Authorizations, InvalidAnswer};
pub use denial::{Denial, Need};
pub use in_force::InForce;
pub use list::{AccessList, FILE_MAX_BYTES, Holder, InvalidList};
pub use pattern::{InvalidPattern, Pattern};
pub use permit::Permit;
pub use role::{Role, Roles, UnknownRole};
pub use token::{InvalidHash, Token, TokenHash};
