//! Flags by which a broker registers with nsqlookupds; nsqd's.

use broker::lookupd::LookupdConfig;
use clap::Args;

use crate::duration::GoDuration;

/// How a broker on its own registers with nsqlookupds.
#[derive(Args, Clone, Debug)]
pub(crate) struct LookupdFlags {
    /// TCP address of an nsqlookupd that the broker registers with, and that new topics get their channels from; may be
    /// given several times [default: none].
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "controller")]
    lookupd_tcp_address: Vec<String>,
    /// Port for NSQ clients that lookups and /info tell [default: the one that is bound].
    #[arg(long, value_name = "PORT")]
    broadcast_tcp_port: Option<u16>,
    /// Port for HTTP that lookups and /info tell [default: the one that is bound].
    #[arg(long, value_name = "PORT")]
    broadcast_http_port: Option<u16>,
    /// Longest wait for an nsqlookupd's HTTP to accept a connection.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(LookupdConfig::default().connect_timeout))]
    http_client_connect_timeout: GoDuration,
    /// Longest time that a new topic waits for what nsqlookupds say of its channels.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(LookupdConfig::default().request_timeout))]
    http_client_request_timeout: GoDuration,
}

impl LookupdFlags {
    /// What these flags describe; a broker's settings judge whether it is in range.
    pub(crate) fn config(self) -> LookupdConfig {
        LookupdConfig {
            tcp_addresses: self.lookupd_tcp_address,
            // nsqd reads 0 as the port that is bound.
            broadcast_tcp_port: self.broadcast_tcp_port.filter(|port| *port != 0),
            broadcast_http_port: self.broadcast_http_port.filter(|port| *port != 0),
            connect_timeout: self.http_client_connect_timeout.0,
            request_timeout: self.http_client_request_timeout.0,
        }
    }
}
