//! A cluster's own authority, the certificates that it signs, and the secrets that its daemons share.
//!
//! An [`Authority`] signs; a [`KeyFolder`] is where everything lies, one file each, secrets for their owner alone. Nothing is ever
//! overwritten but a certificate that is renewed on purpose. Time and random bytes are arguments.
//!
//! ```text
//! ca.pem, ca.key               the authority; its key is needed to add and renew certificates, and by no daemon
//! link.key                     what controller and brokers prove to each other
//! gossip.key, announce.key     what signs datagrams of brokers that share limits, and Tempo's announcements
//! nodes/NAME.pem, .key         a daemon's certificate, with its key
//! clients/NAME.pem, .key       a client's
//! ```

mod authority;
mod error;
mod folder;
mod private;
mod seen;

pub use authority::{Authority, Issued, Order, Usage, Validity};
pub use error::KeysError;
pub use folder::{FilesOf, KeyFolder, Secret};
pub use seen::Seen;
