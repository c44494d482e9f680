//! A broker's configuration, as values. Flags and files are read elsewhere.

mod validate;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use access::InForce;
use kernel::{OnOverrun, SchedulerConfig};
use link::{Identity, LinkKey};
use model::ServiceModel;
use realtime::Realtime;

use crate::agent::EpochFile;
use crate::announce::AnnounceConfig;
use crate::auth::AuthConfig;
use crate::backlog::BacklogConfig;
use crate::lookupd::LookupdConfig;
use crate::memory::default_budget;
use crate::sharing::SharingConfig;
use crate::statsd::StatsdConfig;
use crate::tls::{TlsConfig, TlsRequired};

/// Which clock gives a message its arrival time (long version, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalClock {
    /// The kernel's stamp of the TCP segment that carried the message's last byte.
    Kernel,
    /// The time at which the reactor read the bytes; for comparison.
    Read,
}

/// The controller that a broker obeys.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerLink {
    /// Addresses at which controllers listen for brokers, `host:port` each; one of them leads. Names are resolved again with every attempt.
    pub addresses: Vec<String>,
    /// What both ends prove that they know.
    pub key: LinkKey,
    /// Whether words are hidden, and both ends need a certificate.
    pub is_encrypted: bool,
    /// The broker's name, unique in the cluster and kept over restarts.
    pub broker_name: String,
    /// Which broker of that name ([`crate::agent::identity`]).
    pub identity: Identity,
    /// Where the latest life of a controller is kept; `None`: it ends with the process.
    pub epoch_file: Option<EpochFile>,
    /// The address for NSQ clients, `host:port`, if it is not the one that the listener is bound to.
    pub advertised_tcp_address: Option<String>,
    /// The address for HTTP, `host:port`, if it is not the one that the listener is bound to.
    pub advertised_http_address: Option<String>,
    /// Where other brokers gossip with this one, `ip:port`, if they can.
    pub gossip_address: Option<String>,
    /// Messages per second that the broker carries under its SLO, if it was calibrated.
    pub mcap: Option<f64>,
    /// Its service model, if it was calibrated. The broker tells an emulated one by itself.
    pub model: Option<ServiceModel>,
    /// Time without a word from the controller after which unknown topics flow without a limit; `None`: they wait until it
    /// speaks.
    pub pass_after: Option<Duration>,
}

impl ControllerLink {
    /// The link of broker `broker_name` to the controller at `address`, of which nothing else is known, its identity
    /// neither.
    #[must_use]
    pub fn new(address: String, broker_name: String, key: LinkKey) -> ControllerLink {
        ControllerLink {
            addresses: vec![address],
            key,
            is_encrypted: false,
            broker_name,
            identity: Identity([0; 16]),
            epoch_file: None,
            advertised_tcp_address: None,
            advertised_http_address: None,
            gossip_address: None,
            mcap: None,
            model: None,
            pass_after: None,
        }
    }
}

/// What is measured of the time from a message's arrival to its FIN, per channel. nsqd's: end-to-end processing latency.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessingConfig {
    /// Percentiles to tell, each above 0 and at most 1; empty: nothing is measured.
    pub percentiles: Vec<f64>,
    /// Over how long a time.
    pub window: Duration,
}

impl Default for ProcessingConfig {
    fn default() -> ProcessingConfig {
        ProcessingConfig {
            percentiles: Vec::new(),
            window: Duration::from_secs(600),
        }
    }
}

/// Settings of one broker. Defaults are nsqd's where nsqd has the option, but that only this machine reaches the listeners.
#[derive(Clone, Debug)]
pub struct Config {
    /// NSQ TCP listener.
    pub tcp_address: SocketAddr,
    /// HTTP listener; `None` starts none.
    pub http_address: Option<SocketAddr>,
    /// Listener for HTTP within TLS; `None` starts none.
    pub https_address: Option<SocketAddr>,
    /// Further names by which HTTP may be asked to change something.
    pub http_hosts: Vec<String>,
    /// Tokens that there are, and what they are for; `None`: everybody may do everything, but for what [`Config::auth`] says of NSQ's
    /// clients.
    pub access: Option<InForce>,
    /// The auth servers that are asked about NSQ's clients.
    pub auth: AuthConfig,
    /// Address told to clients and in `/info`.
    pub broadcast_address: String,
    /// Folder for the catalog (topics, channels, limits); `None` keeps nothing.
    pub data_path: Option<PathBuf>,
    /// Reactor threads.
    pub threads: usize,
    /// How reactor threads are scheduled, with all memory locked; `None`: as ordinary threads.
    pub realtime: Option<Realtime>,
    /// Node number in message ids, 0..1024.
    pub node_id: u16,
    /// Arrival clock for limits and latencies.
    pub arrival_clock: ArrivalClock,
    /// Messages that each queue of a topic or channel holds; at the bound publishers wait.
    pub mem_queue_size: usize,
    /// Deferred messages of a channel: this many that publishers delay, and this many that consumers give back with a delay. Beyond that,
    /// the DPUB or REQ fails.
    pub max_deferred: usize,
    /// Time without consumers after which a channel drops its oldest message at the bound of its queue, unless its topic's contract
    /// says otherwise.
    pub abandoned_after: Duration,
    /// What queues may have on disk; `None`: nothing, and a stop loses what they have.
    pub backlog: Option<BacklogConfig>,
    /// Memory for messages, input and output, in bytes; at the bound of a part, whoever needs more of it waits.
    pub memory_budget_bytes: u64,
    /// Largest message body in bytes.
    pub max_msg_size: u32,
    /// Largest MPUB or IDENTIFY body in bytes.
    pub max_body_size: u32,
    /// Default time a message may be in flight.
    pub msg_timeout: Duration,
    /// Longest message timeout that a client may ask for.
    pub max_msg_timeout: Duration,
    /// Longest REQ or DPUB delay.
    pub max_req_timeout: Duration,
    /// Heartbeat interval of clients that ask for none.
    pub heartbeat_interval: Duration,
    /// Longest heartbeat interval a client may ask for.
    pub max_heartbeat_interval: Duration,
    /// Largest RDY count.
    pub max_rdy_count: u32,
    /// Largest output buffer a client may ask for, bytes.
    pub max_output_buffer_size: u32,
    /// Longest output buffer timeout a client may ask for.
    pub max_output_buffer_timeout: Duration,
    /// Shortest output buffer timeout a client may ask for.
    pub min_output_buffer_timeout: Duration,
    /// nsqd's default answer for clients that ask for none.
    pub output_buffer_timeout: Duration,
    /// Consumers per channel, 0 = no bound.
    pub max_channel_consumers: usize,
    /// Certificate and key for TLS; `None`: TLS is not offered.
    pub tls: Option<TlsConfig>,
    /// Which clients are refused without TLS.
    pub tls_required: TlsRequired,
    /// Whether snappy is offered to clients.
    pub snappy: bool,
    /// Whether deflate is offered to clients.
    pub deflate: bool,
    /// Highest level of deflate that a client may ask for, 1 to 9.
    pub max_deflate_level: u32,
    /// Connections in all; one more is closed at once.
    pub max_connections: usize,
    /// Connections that have not said who they are; at the bound the one goes that has kept the broker waiting longest.
    pub max_unidentified: usize,
    /// Those of one IPv4 address or of one /64 network, but for this machine's own.
    pub max_unidentified_per_address: usize,
    /// Topics on one reactor; publishing to one more fails.
    pub max_topics: usize,
    /// Channels of one topic; subscribing to one more fails.
    pub max_channels: usize,
    /// Least time between the beginnings of two loop turns under load. A longer one lets more messages share a wake-up and a write,
    /// and adds the same time to their latency; an idle reactor never waits.
    pub turn_spacing: Duration,
    /// T: the period over which CPU shares hold. With a shorter one, a topic waits less for others with credits, and shares are less
    /// exact.
    pub share_period: Duration,
    /// What happens to a topic that was served for longer than its credits.
    pub on_overrun: OnOverrun,
    /// Topics and channels that one IPv4 address or /64 network has made within `names_window` and that are there, this machine's own
    /// excepted; making one more fails. 0: no bound.
    pub max_names_per_address: usize,
    /// How long a topic or channel counts against its maker.
    pub names_window: Duration,
    /// Time a new connection has for its protocol magic and its first command, and for a handshake of TLS.
    pub handshake_timeout: Duration,
    /// How long a stop waits while connected consumers finish no message.
    pub drain_timeout: Duration,
    /// Topics with a series of their own in `/metrics`; the others are summed up as `other`.
    pub metrics_max_topics: usize,
    /// The controller that grants shares of limits: nothing passes a limit before it has granted one. `None`: the broker enforces
    /// each limit alone.
    pub controller: Option<ControllerLink>,
    /// Emulates a broker with these costs per message and per command, on this many servers per reactor; the
    /// other fields are not emulated.
    pub service_time: Option<ServiceModel>,
    /// How it takes part in Tempo's announcements; `None`: it does not, and refuses Tempo's data connections.
    pub announce: Option<AnnounceConfig>,
    /// How it shares limits with other brokers by gossip.
    pub sharing: SharingConfig,
    /// How it registers with nsqlookupds.
    pub lookupd: LookupdConfig,
    /// What it sends to statsd.
    pub statsd: StatsdConfig,
    /// What it measures of the time from a message's arrival to its FIN.
    pub processing: ProcessingConfig,
    /// How many instants of releases are kept per topic for `GET /v1/topics/{topic}/releases`, 8 bytes each; 0: none. For tests.
    pub release_log_messages: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            tcp_address: ([127, 0, 0, 1], 4150).into(),
            http_address: Some(([127, 0, 0, 1], 4151).into()),
            https_address: None,
            http_hosts: Vec::new(),
            access: None,
            auth: AuthConfig::default(),
            broadcast_address: String::from("localhost"),
            data_path: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            realtime: None,
            node_id: 0,
            arrival_clock: ArrivalClock::Kernel,
            mem_queue_size: 10_000,
            max_deferred: 100_000,
            abandoned_after: Duration::from_secs(60),
            backlog: None,
            memory_budget_bytes: default_budget(),
            max_msg_size: 1024 * 1024,
            max_body_size: 5 * 1024 * 1024,
            msg_timeout: Duration::from_secs(60),
            max_msg_timeout: Duration::from_secs(15 * 60),
            max_req_timeout: Duration::from_secs(60 * 60),
            heartbeat_interval: Duration::from_secs(30),
            max_heartbeat_interval: Duration::from_secs(60),
            max_rdy_count: 2500,
            max_output_buffer_size: 64 * 1024,
            max_output_buffer_timeout: Duration::from_secs(30),
            min_output_buffer_timeout: Duration::from_millis(25),
            output_buffer_timeout: Duration::from_millis(250),
            max_channel_consumers: 0,
            tls: None,
            tls_required: TlsRequired::No,
            snappy: true,
            deflate: true,
            max_deflate_level: 6,
            max_connections: 65_536,
            max_unidentified: 4096,
            max_unidentified_per_address: 2048,
            max_topics: 65_536,
            max_channels: 1024,
            max_names_per_address: 10_000,
            names_window: Duration::from_secs(24 * 60 * 60),
            turn_spacing: Duration::from_micros(100),
            share_period: SchedulerConfig::default().period,
            on_overrun: OnOverrun::default(),
            handshake_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(5),
            metrics_max_topics: 200,
            controller: None,
            service_time: None,
            announce: None,
            sharing: SharingConfig::default(),
            lookupd: LookupdConfig::default(),
            statsd: StatsdConfig::default(),
            processing: ProcessingConfig::default(),
            release_log_messages: 0,
        }
    }
}

impl Config {
    /// How topics share a reactor.
    pub(crate) fn scheduler(&self) -> SchedulerConfig {
        SchedulerConfig {
            period: self.share_period,
            on_overrun: self.on_overrun,
            ..SchedulerConfig::default()
        }
    }
}
