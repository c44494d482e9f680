//! The broker's statistics: snapshots that reactors fill and HTTP renders.

use std::time::Duration;

pub use topics::stats::{
    Catalog, CatalogChannel, CatalogTopic, ChannelStats, ClientStats, ProcessingStats,
    SharingStats, StageLatency, StatsFilter, TopicStats,
};

/// Everything one broker knows at one moment, merged over its reactors.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// One entry per topic, ordered by name.
    pub topics: Vec<TopicStats>,
    /// Connections that have published and hold no subscription.
    pub producers: Vec<ClientStats>,
    /// Counters of the reactors themselves.
    pub reactors: Vec<ReactorStats>,
}

/// One reactor's own counters.
#[derive(Clone, Debug, Default)]
pub struct ReactorStats {
    /// Connections open.
    pub connections: u64,
    /// Those that have published and hold no subscription.
    pub producers: u64,
    /// Loop turns since the start.
    pub turns: u64,
    /// Time that it was neither waiting for something to do nor resting.
    pub busy: Duration,
    /// Messages held by the store (queued, in flight or deferred; once each).
    pub messages_stored: u64,
    /// Body bytes of those.
    pub bytes_stored: u64,
    /// Of the connections, those that have not said who they are.
    pub strangers: u64,
    /// Strangers closed to make room for others.
    pub strangers_gave_way: u64,
    /// Strangers closed because magic and first command, or their handshake of TLS, did not come in time.
    pub strangers_late: u64,
    /// Strangers closed because there was no place, or no memory for their first command.
    pub strangers_refused: u64,
    /// Connections refused at the connection limit.
    pub connections_refused: u64,
    /// Times the listener backed off for want of file descriptors.
    pub accept_backoffs: u64,
    /// Attached publishers that declared themselves for topics of this reactor.
    pub publishers: u64,
    /// Publishers told to move to another broker.
    pub moves_sent: u64,
    /// Orders to move publishers that are not attached, or to an invalid address.
    pub moves_unknown: u64,
    /// Throttled notices sent to publishers.
    pub throttled_sent: u64,
    /// Tempo messages with an identifier that stands for no topic.
    pub tempo_unknown_ids: u64,
    /// Connections that began with Tempo's magic but sent no valid hello.
    pub tempo_hellos_refused: u64,
    /// Times that a connection was not read from because its output was full.
    pub unread_pauses: u64,
    /// Connections closed because their peers read too slowly.
    pub unread_closed: u64,
    /// Connections closed because the rest of a command came too slowly.
    pub half_closed: u64,
    /// Times that a client was found to be permitted something, by a token or an auth server.
    pub auths: u64,
    /// Commands refused for want of a permission.
    pub auths_refused: u64,
    /// TLS handshakes that are done.
    pub tls_handshakes: u64,
    /// TLS handshakes that failed.
    pub tls_handshakes_failed: u64,
    /// Connections closed because there was no memory for their TLS or compression.
    pub layers_refused: u64,
}
