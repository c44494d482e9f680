//! Flags of what those may do who are not known: bounds of connections without a command, and of names that one address makes.

use broker::Config;
use clap::Args;

use crate::duration::GoDuration;

/// Bounds of those who are not known.
#[derive(Args, Clone, Debug)]
pub(crate) struct StrangerFlags {
    /// How long a new connection may take to send its protocol magic and its first command, and for a
    /// TLS handshake.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Config::default().handshake_timeout))]
    handshake_timeout: GoDuration,
    /// Most connections that have given no command yet; then the one is closed that has kept the broker
    /// waiting longest.
    #[arg(long, value_name = "N", default_value_t = Config::default().max_unidentified)]
    max_unidentified: usize,
    /// Those of one IPv4 address or IPv6 /64 network; 127.0.0.1 and ::1 are excepted.
    #[arg(long, value_name = "N", default_value_t = Config::default().max_unidentified_per_address)]
    max_unidentified_per_address: usize,
    /// Most topics and channels that one IPv4 address or IPv6 /64 network makes within --names-window and
    /// that are still there; a further one is refused. 127.0.0.1 and ::1 are excepted; 0 for no bound.
    #[arg(long, value_name = "N", default_value_t = Config::default().max_names_per_address)]
    max_names_per_address: usize,
    /// How long a topic or channel counts against the address that made it.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Config::default().names_window))]
    names_window: GoDuration,
}

impl StrangerFlags {
    /// Puts what these flags describe into a broker's settings.
    pub(crate) fn put(self, config: &mut Config) {
        config.handshake_timeout = self.handshake_timeout.0;
        config.max_unidentified = self.max_unidentified;
        config.max_unidentified_per_address = self.max_unidentified_per_address;
        config.max_names_per_address = self.max_names_per_address;
        config.names_window = self.names_window.0;
    }
}
