//! What a broker is told at its start. Flags and files are read elsewhere; here are values.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use kernel::{OnOverrun, Scheduler, SchedulerConfig};
use link::{Identity, LinkKey};
use model::ServiceModel;
use realtime::Realtime;
use wire::announce::MAX_EXPIRY_MS;

use crate::BrokerError;
use crate::agent::{CONTROLLERS_MAX, EpochFile};
use crate::announce::AnnounceConfig;
use crate::backlog::BacklogConfig;
use crate::lookupd::{LookupdConfig, are_addresses};
use crate::memory::default_budget;
use crate::sharing::SharingConfig;
use crate::tls::{TlsConfig, TlsRequired};

/// Longest time between two loop turns that may be asked for.
const TURN_SPACING_MAX: Duration = Duration::from_millis(10);

/// Longest name of a broker, in bytes.
const BROKER_NAME_MAX: usize = 64;

/// The least budget, in largest commands, so that each part holds at least one.
const COMMANDS_IN_BUDGET: u64 = 8;

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
    /// What it takes to offer TLS; `None`: it is not offered.
    pub tls: Option<TlsConfig>,
    /// Who is not served without it.
    pub tls_required: TlsRequired,
    /// Whether snappy is offered to clients.
    pub snappy: bool,
    /// Whether deflate is offered to clients.
    pub deflate: bool,
    /// Highest level of deflate that a client may ask for, 1 to 9.
    pub max_deflate_level: u32,
    /// Connections in all; one more is closed at once.
    pub max_connections: usize,
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
    /// Time a new connection has for its protocol magic.
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
            max_topics: 65_536,
            max_channels: 1024,
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

    /// Checks ranges that types cannot hold.
    ///
    /// # Errors
    /// [`BrokerError::Config`] naming the option, the value and what is allowed.
    pub fn validate(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if self.threads == 0 || self.threads > 64 {
            return bad(
                "--threads",
                format!("{} is not within 1..=64", self.threads),
            );
        }
        if self.node_id >= 1024 {
            return bad(
                "--node-id",
                format!("{} is not within 0..1024", self.node_id),
            );
        }
        if self.mem_queue_size == 0 {
            return bad(
                "--mem-queue-size",
                "0 would hold no message; use 1 or more".into(),
            );
        }
        if self.max_msg_size == 0 || self.max_msg_size > 1 << 30 {
            return bad(
                "--max-msg-size",
                format!("{} is not within 1..=1073741824 bytes", self.max_msg_size),
            );
        }
        if self.max_body_size < self.max_msg_size || self.max_body_size > 1 << 30 {
            let (body, message) = (self.max_body_size, self.max_msg_size);
            return bad(
                "--max-body-size",
                format!("{body} is not within {message} (--max-msg-size) ..=1073741824 bytes"),
            );
        }
        let least = COMMANDS_IN_BUDGET * u64::from(self.max_body_size);
        if self.memory_budget_bytes < least {
            let budget = self.memory_budget_bytes;
            return bad(
                "--memory-budget",
                format!(
                    "{budget} is less than {least} bytes, eight times --max-body-size; allow more, or smaller bodies"
                ),
            );
        }
        if self.turn_spacing > TURN_SPACING_MAX {
            let (spacing, most) = (self.turn_spacing, TURN_SPACING_MAX);
            return bad(
                "--turn-spacing",
                format!("{spacing:?} is more than {most:?}"),
            );
        }
        if self.service_time.is_some_and(|model| !model.is_sane()) {
            return bad(
                "--emulate-service-time",
                "it is out of range: give at most 1000 s per message".into(),
            );
        }
        if self.max_connections == 0 {
            return bad(
                "--max-connections",
                "0 would accept nobody; use 1 or more".into(),
            );
        }
        self.validate_layers()?;
        self.validate_threads()?;
        self.validate_links()
    }

    /// TLS and compression; files are read later.
    fn validate_layers(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        let level = self.max_deflate_level;
        if !(1..=9).contains(&level) {
            return bad(
                "--max-deflate-level",
                format!("{level} is not within 1..=9"),
            );
        }
        let required = self.tls_required.is_for_clients();
        if required && self.tls.is_none() {
            let reason =
                "without a certificate nobody could connect; give --tls-cert and --tls-key";
            return bad("--tls-required", reason.into());
        }
        if self.https_address.is_some() && (self.tls.is_none() || self.http_address.is_none()) {
            let reason = "HTTPS is served beside HTTP and with a certificate; give --http-address, --tls-cert and --tls-key";
            return bad("--https-address", reason.into());
        }
        if required && self.announce.is_some() {
            let reason = "Tempo's connections are not encrypted; leave out --announce-address or --tls-required";
            return bad("--announce-address", reason.into());
        }
        Ok(())
    }

    /// How reactors are scheduled, and what they schedule.
    fn validate_threads(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if let Some(realtime) = &self.realtime {
            let (cpus, threads) = (realtime.cpus().len(), self.threads);
            if cpus > 0 && cpus < threads {
                return bad(
                    "--cpus",
                    format!(
                        "{cpus} CPUs for {threads} reactor threads: name one for each, or set --threads"
                    ),
                );
            }
        }
        match Scheduler::new(self.scheduler()) {
            Ok(_) => Ok(()),
            Err(error) => bad("--share-period", error.to_string()),
        }
    }

    /// Controller and announcements.
    fn validate_links(&self) -> Result<(), BrokerError> {
        let bad = |option, reason: String| Err(BrokerError::Config { option, reason });
        if let Some(link) = &self.controller {
            if link.broker_name.is_empty() || link.broker_name.len() > BROKER_NAME_MAX {
                let name = &link.broker_name;
                return bad(
                    "--broker-name",
                    format!("{name:?} is not 1 to {BROKER_NAME_MAX} characters long"),
                );
            }
            if let Some(wrong) = link.addresses.iter().find(|each| !each.contains(':')) {
                return bad("--controller", format!("{wrong:?} is not HOST:PORT"));
            }
            let count = link.addresses.len();
            if !(1..=CONTROLLERS_MAX).contains(&count) {
                let reason = format!("{count} addresses are named; give 1 to {CONTROLLERS_MAX}");
                return bad("--controller", reason);
            }
        }
        self.validate_lookups()?;
        if let Some(announce) = &self.announce {
            let most = Duration::from_millis(u64::from(MAX_EXPIRY_MS) / 3);
            if announce.interval.is_zero() || announce.interval > most {
                let interval = announce.interval;
                return bad(
                    "--announce-interval",
                    format!(
                        "{interval:?} is out of range: give more than zero and at most {most:?}"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Registration with nsqlookupds.
    fn validate_lookups(&self) -> Result<(), BrokerError> {
        let list = &self.lookupd.tcp_addresses;
        let reason = if list.is_empty() {
            return Ok(());
        } else if !are_addresses(list) {
            format!("{list:?} is not a list of 1 to 64 HOST:PORT")
        } else if self.controller.is_some() {
            String::from(
                "a broker with a controller is found at the controller's lookup; leave out one of the two flags",
            )
        } else if self.http_address.is_none() {
            String::from("nsqlookupd accepts no broker without HTTP; give an --http-address")
        } else {
            return Ok(());
        };
        let option = "--lookupd-tcp-address";
        Err(BrokerError::Config { option, reason })
    }
}
