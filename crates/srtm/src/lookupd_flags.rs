//! Flags by which a broker registers with nsqlookupds; nsqd's.

use broker::lookupd::LookupdConfig;
use clap::Args;

use crate::duration::GoDuration;

/// How a broker on its own registers with nsqlookupds.
#[derive(Args, Clone, Debug)]
pub(crate) struct LookupdFlags {
    /// TCP address of an nsqlookupd to register with. New topics get their channels from it. May be
    /// repeated [default: none].
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "controller")]
    lookupd_tcp_address: Vec<String>,
    /// Port for NSQ clients that lookups and /info give out [default: the bound port].
    #[arg(long, value_name = "PORT")]
    broadcast_tcp_port: Option<u16>,
    /// Port for HTTP that lookups and /info give out [default: the bound port].
    #[arg(long, value_name = "PORT")]
    broadcast_http_port: Option<u16>,
    /// How long to wait for an nsqlookupd to accept an HTTP connection.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(LookupdConfig::default().connect_timeout))]
    http_client_connect_timeout: GoDuration,
    /// How long a new topic waits for nsqlookupds to name its channels.
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
