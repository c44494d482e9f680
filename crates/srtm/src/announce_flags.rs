//! Flags of a broker's part in Tempo's announcements.

use std::net::SocketAddr;
use std::time::Duration;

use broker::announce::AnnounceConfig;
use clap::Args;
use wire::announce::Key;

use crate::address::ListenAddress;
use crate::duration::GoDuration;

/// How a broker takes part in announcements.
#[derive(Args, Clone, Debug)]
pub(crate) struct AnnounceFlags {
    /// UDP address that publishers and subscribers of `srtm pub --peer` announce themselves to [default: none, no part in
    /// announcements].
    #[arg(long, value_name = "ADDRESS")]
    announce_address: Option<ListenAddress>,
    /// Multicast group that is listened to as well.
    #[arg(long, value_name = "ADDRESS", requires = "announce_address")]
    announce_group: Option<SocketAddr>,
    /// Word shared with all that are to be believed; announcements are signed with it.
    #[arg(long, value_name = "TEXT", requires = "announce_address")]
    announce_key: Option<String>,
    /// Time between two announcements; one counts for three of them.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(Duration::from_secs(1)), requires = "announce_address")]
    announce_interval: GoDuration,
}

impl AnnounceFlags {
    /// What these flags describe, if they ask for it.
    pub(crate) fn config(self) -> Option<AnnounceConfig> {
        Some(AnnounceConfig {
            address: self.announce_address?.0,
            group: self.announce_group,
            key: self.announce_key.as_deref().map(Key::from_text),
            interval: self.announce_interval.0,
        })
    }
}
