//! The flags of a broker: one per setting, named as nsqd's where nsqd has it.

use std::path::PathBuf;
use std::time::Duration;

use broker::sharing::SharingConfig;
use broker::{ArrivalClock, Config, ControllerLink, http};
use clap::{Args, ValueEnum};
use kernel::OnOverrun;
use link::LinkKey;
use model::ServiceModel;
use realtime::{Priority, Realtime};
use wire::gossip::Key;

use crate::access_flags::AccessFlags;
use crate::address::ListenAddress;
use crate::announce_flags::AnnounceFlags;
use crate::auth_flags::AuthFlags;
use crate::byte_size::ByteSize;
use crate::disk_flags::DiskFlags;
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::http_flags::HttpFlags;
use crate::layer_flags::LayerFlags;
use crate::link_key;
use crate::lookupd_flags::LookupdFlags;
use crate::secure::{self, Secure};
use crate::statsd_flags::StatsdFlags;
use crate::stranger_flags::StrangerFlags;

/// Settings of one broker.
#[derive(Args, Clone, Debug)]
pub(crate) struct BrokerFlags {
    /// Address to accept NSQ clients on. Use :4150 to let other machines in; with port 0 the system
    /// chooses.
    #[arg(long, value_name = "ADDRESS", default_value_t = ListenAddress(defaults().tcp_address))]
    pub(crate) tcp_address: ListenAddress,
    /// Address to serve HTTP on, or none. Use :4151 to let other machines in.
    #[arg(long, value_name = "ADDRESS|none", default_value = "127.0.0.1:4151", value_parser = http_address)]
    pub(crate) http_address: HttpAddress,
    #[command(flatten)]
    http: HttpFlags,
    #[command(flatten)]
    pub(crate) access: AccessFlags,
    #[command(flatten)]
    auth: AuthFlags,
    /// Address of this host, for clients and in /info [default: the host's name].
    #[arg(long, value_name = "HOST")]
    pub(crate) broadcast_address: Option<String>,
    /// Folder to keep topics, channels, pauses, limits, shares and queued messages in over restarts.
    /// Queues that are longer than --mem-queue-size have the rest of their messages there [default:
    /// nothing is kept].
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) disk: DiskFlags,
    /// Reactor threads, 1 to 64 [default: one per core].
    #[arg(long, value_name = "N", default_value_t = defaults().threads, hide_default_value = true)]
    pub(crate) threads: usize,
    /// Node number in message ids, 0 to 1023 [default: from the host's name].
    #[arg(long, value_name = "N")]
    pub(crate) node_id: Option<u16>,
    /// Clock for the arrival time of messages.
    #[arg(long, value_enum, default_value_t = Clock::Kernel)]
    pub(crate) arrival_clock: Clock,
    /// Messages that each topic and each channel may queue in memory. With --data-path the rest goes
    /// to disk; without it, when a queue is full, publishers wait.
    #[arg(long, value_name = "N", default_value_t = defaults().mem_queue_size)]
    pub(crate) mem_queue_size: usize,
    /// Most deferred messages of a channel: this many from DPUB and this many from REQ. Beyond
    /// that, the DPUB or REQ fails.
    #[arg(long, value_name = "N", default_value_t = defaults().max_deferred)]
    pub(crate) max_deferred: usize,
    /// How long a channel may be without consumers; after that, when full, it drops its oldest
    /// messages, unless the topic's contract says otherwise.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().abandoned_after))]
    pub(crate) abandoned_after: GoDuration,
    /// Memory for messages and for input and output buffers. When a part of it is used up, whoever
    /// needs more waits [default: half the memory of the machine or the control group].
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_budget: Option<ByteSize>,
    /// Largest message body.
    #[arg(long, value_name = "BYTES", default_value_t = defaults().max_msg_size)]
    pub(crate) max_msg_size: u32,
    /// Largest body of an MPUB or IDENTIFY.
    #[arg(long, value_name = "BYTES", default_value_t = defaults().max_body_size)]
    pub(crate) max_body_size: u32,
    /// How long a message may be in flight before it is sent again.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().msg_timeout))]
    pub(crate) msg_timeout: GoDuration,
    /// Longest message timeout that a client may ask for.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().max_msg_timeout))]
    pub(crate) max_msg_timeout: GoDuration,
    /// Longest delay of a REQ or DPUB.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().max_req_timeout))]
    pub(crate) max_req_timeout: GoDuration,
    /// Heartbeat interval for clients that ask for none.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().heartbeat_interval))]
    pub(crate) heartbeat_interval: GoDuration,
    /// Longest heartbeat interval that a client may ask for.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().max_heartbeat_interval))]
    pub(crate) max_heartbeat_interval: GoDuration,
    /// Largest RDY count.
    #[arg(long, value_name = "N", default_value_t = defaults().max_rdy_count)]
    pub(crate) max_rdy_count: u32,
    /// Largest output buffer that a client may ask for.
    #[arg(long, value_name = "BYTES", default_value_t = defaults().max_output_buffer_size)]
    pub(crate) max_output_buffer_size: u32,
    /// Longest output buffer timeout that a client may ask for.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().max_output_buffer_timeout))]
    pub(crate) max_output_buffer_timeout: GoDuration,
    /// Shortest output buffer timeout that a client may ask for.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().min_output_buffer_timeout))]
    pub(crate) min_output_buffer_timeout: GoDuration,
    /// Output buffer timeout for clients that ask for none.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().output_buffer_timeout))]
    pub(crate) output_buffer_timeout: GoDuration,
    /// Most consumers of a channel; 0 for no bound.
    #[arg(long, value_name = "N", default_value_t = defaults().max_channel_consumers)]
    pub(crate) max_channel_consumers: usize,
    /// Most connections; any further one is closed at once.
    #[arg(long, value_name = "N", default_value_t = defaults().max_connections)]
    pub(crate) max_connections: usize,
    /// Most topics of a reactor thread; publishing to a further one fails.
    #[arg(long, value_name = "N", default_value_t = defaults().max_topics)]
    pub(crate) max_topics: usize,
    /// Most channels of a topic; subscribing to a further one fails.
    #[arg(long, value_name = "N", default_value_t = defaults().max_channels)]
    pub(crate) max_channels: usize,
    /// Shortest time between the starts of two event loop turns under load, at most 10ms. A longer
    /// time saves CPU and adds the same latency; with 0s the loop never rests.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().turn_spacing))]
    pub(crate) turn_spacing: GoDuration,
    #[command(flatten)]
    pub(crate) schedule: ScheduleFlags,
    #[command(flatten)]
    pub(crate) strangers: StrangerFlags,
    /// How long a stopping broker waits for connected consumers that finish no message; with
    /// --data-path, how long in all.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().drain_timeout))]
    pub(crate) drain_timeout: GoDuration,
    /// Most topics with series of their own in /metrics; all others are added up.
    #[arg(long, value_name = "N", default_value_t = defaults().metrics_max_topics)]
    pub(crate) metrics_max_topics: usize,
    /// Link address of the controller, or of each of several, of which one leads. It grants this
    /// broker its share of each limit.
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        group = "gossiping",
        requires = "proof"
    )]
    pub(crate) controller: Vec<String>,
    /// File with the key of the controller and its brokers. A controller logs its path at start.
    #[arg(long, value_name = "FILE", requires = "controller", group = "proof", value_parser = link_key::named)]
    pub(crate) link_key: Option<LinkKey>,
    /// Encrypts the link with the controller. Both ends need certificates of --tls-root-ca-file; the
    /// controller has the same flag.
    #[arg(long, requires_all = ["controller", "tls_root_ca_file"])]
    pub(crate) link_tls: bool,
    /// Folder of `srtm keys init`: the certificate of --broker-name, all keys and the authority come
    /// from there. Clients, HTTP and the link are encrypted, and all need certificates of it.
    #[arg(long, value_name = "FOLDER", groups = ["certificate", "proof", "gossip_secret"], value_parser = secure::named)]
    pub(crate) secure: Option<Secure>,
    /// Name of this broker in the cluster. It must stay the same over restarts [default: the host's
    /// name].
    #[arg(long, value_name = "NAME")]
    pub(crate) broker_name: Option<String>,
    /// What to do with unknown topics while the controller is silent: `hold` their messages, or,
    /// with `pass=30s`, let them flow without a limit after that time [default: hold].
    #[arg(long, value_name = "hold|pass=DURATION", requires = "controller", value_parser = without_controller)]
    pub(crate) without_controller: Option<WithoutController>,
    /// Makes each message take this long without using a core, to emulate a broker of known
    /// capacity.
    #[arg(long, value_name = "DURATION")]
    pub(crate) emulate_service_time: Option<GoDuration>,
    /// How many release times to keep per topic for /v1/topics/{t}/releases; 0 keeps none.
    #[arg(long, value_name = "N", default_value_t = defaults().release_log_messages)]
    pub(crate) release_log_messages: usize,
    #[command(flatten)]
    pub(crate) statsd: StatsdFlags,
    #[command(flatten)]
    pub(crate) layers: LayerFlags,
    #[command(flatten)]
    pub(crate) announce: AnnounceFlags,
    #[command(flatten)]
    pub(crate) gossip: GossipFlags,
    #[command(flatten)]
    pub(crate) lookupd: LookupdFlags,
}

/// After so long without a word from the controller topics flow that nobody here knows; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WithoutController(pub(crate) Option<Duration>);

/// `hold` or `pass=DURATION`.
fn without_controller(text: &str) -> Result<WithoutController, String> {
    if text == "hold" {
        return Ok(WithoutController(None));
    }
    let Some(duration) = text.strip_prefix("pass=") else {
        return Err(String::from("use hold, or pass=30s"));
    };
    let duration: GoDuration = duration.parse()?;
    Ok(WithoutController(Some(duration.0)))
}

/// How a broker shares limits with others by gossip.
#[derive(Args, Clone, Debug)]
pub(crate) struct GossipFlags {
    /// UDP address for gossip about shared limits, as the other brokers reach it. With port 0 the
    /// system chooses [default: the address and port of --tcp-address].
    #[arg(long, value_name = "IP:PORT", requires = "gossiping")]
    gossip_address: Option<std::net::SocketAddr>,
    /// File with the secret that signs gossip, the same at all brokers [default: the key that the
    /// controller hands out].
    #[arg(long, value_name = "FILE", requires = "gossiping", group = "gossip_secret", value_parser = gossip_key)]
    gossip_key_file: Option<Key>,
    /// Gossip addresses of the brokers to share limits with, when there is no controller. This
    /// broker may be in the list. Brokers that these know are found as well.
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        group = "gossiping",
        requires = "gossip_secret"
    )]
    gossip_join: Vec<String>,
}

impl GossipFlags {
    fn config(self) -> SharingConfig {
        SharingConfig {
            address: self.gossip_address,
            key: self.gossip_key_file,
            join: self.gossip_join,
        }
    }
}

/// The key of a word in a file.
fn gossip_key(path: &str) -> Result<Key, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Key::from_passphrase(&text)
        .map_err(|error| format!("{path}: {error}; write a long secret into it"))
}

/// Where HTTP is served, if at all. Wrapped because clap reads an `Option` as a flag that may be absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpAddress(pub(crate) Option<std::net::SocketAddr>);

/// Which clock gives a message its arrival time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// The kernel's timestamp of the packet.
    Kernel,
    /// The time at which the broker read the message.
    Read,
}

/// How topics share the time of a broker's threads.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScheduleFlags {
    /// Period over which CPU shares hold (`srtm topic set --cpu-share`). With a shorter one, a topic
    /// with credits waits less, and CPU shares are less exact.
    #[arg(long, value_name = "DURATION", default_value_t = GoDuration(defaults().share_period))]
    share_period: GoDuration,
    /// What to do when a topic was served for longer than its credits.
    #[arg(long, value_enum, default_value_t = Overrun::Penalise)]
    on_overrun: Overrun,
}

/// What to do when a topic was served for longer than its credits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overrun {
    /// Count it.
    Report,
    /// Count it and take the excess off the topic's next credits.
    Penalise,
}

/// How the threads that serve are scheduled; for brokers of SRTM's own command line, nsqd has no such thing.
#[derive(Args, Clone, Debug)]
pub(crate) struct RealtimeFlags {
    /// Runs the serving threads under SCHED_FIFO and locks all memory. Fails if the system does not
    /// permit it.
    #[arg(long)]
    realtime: bool,
    /// SCHED_FIFO priority of the serving threads, 1 to 99.
    #[arg(long, value_name = "P", default_value_t = Priority::default(), requires = "realtime")]
    realtime_priority: Priority,
    /// CPUs for the serving threads, one each and in order, such as 2,3 [default: any].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "realtime"
    )]
    cpus: Vec<usize>,
}

impl RealtimeFlags {
    /// What these flags describe, if they ask for it. Whether it is permitted shows when it is begun.
    pub(crate) fn realtime(&self) -> Result<Option<Realtime>, Failure> {
        if !self.realtime {
            return Ok(None);
        }
        let realtime = Realtime::new(self.realtime_priority, self.cpus.clone());
        let realtime = realtime.map_err(|error| Failure::Usage(format!("--cpus: {error}")))?;
        Ok(Some(realtime))
    }
}

impl ScheduleFlags {
    /// Puts what these flags describe into a broker's settings, which judge whether it is in range.
    pub(crate) fn put(&self, config: &mut Config) {
        config.share_period = self.share_period.0;
        config.on_overrun = match self.on_overrun {
            Overrun::Report => OnOverrun::Report,
            Overrun::Penalise => OnOverrun::Penalise,
        };
    }

    /// The same flags for another broker.
    pub(crate) fn arguments(&self) -> [String; 2] {
        let overrun = match self.on_overrun {
            Overrun::Report => "report",
            Overrun::Penalise => "penalise",
        };
        [
            format!("--share-period={}", self.share_period),
            format!("--on-overrun={overrun}"),
        ]
    }
}

impl BrokerFlags {
    /// The settings that these flags describe; ranges are checked when the broker starts.
    ///
    /// # Errors
    /// [`Failure::Usage`] where the folder of --secure has nothing for this broker.
    pub(crate) fn into_config(self) -> Result<Config, Failure> {
        let hostname = http::hostname();
        let broadcast_address = self.broadcast_address.unwrap_or_else(|| hostname.clone());
        let name = self.broker_name.unwrap_or_else(|| hostname.clone());
        // Neither flag is without the other.
        let controllers = self.controller;
        let from_folder = self.secure.as_ref().map(|secure| secure.link_key.clone());
        let key = self
            .link_key
            .or(from_folder)
            .filter(|_| !controllers.is_empty());
        let controller = key.map(|key| ControllerLink {
            addresses: controllers,
            is_encrypted: self.link_tls,
            pass_after: self.without_controller.and_then(|choice| choice.0),
            ..ControllerLink::new(String::new(), name.clone(), key)
        });
        let mut config = Config {
            controller,
            service_time: self.emulate_service_time.map(emulated),
            release_log_messages: self.release_log_messages,
            announce: self.announce.config(),
            sharing: self.gossip.config(),
            lookupd: self.lookupd.config(),
            tcp_address: self.tcp_address.0,
            http_address: self.http_address.0,
            http_hosts: self.http.hosts,
            access: self.access.in_force(),
            node_id: self.node_id.unwrap_or_else(|| node_id_of(&hostname)),
            broadcast_address,
            backlog: self.disk.config(self.data_path.as_deref()),
            data_path: self.data_path,
            threads: self.threads,
            arrival_clock: self.arrival_clock.into(),
            mem_queue_size: self.mem_queue_size,
            max_deferred: self.max_deferred,
            abandoned_after: self.abandoned_after.0,
            memory_budget_bytes: self
                .memory_budget
                .map_or(defaults().memory_budget_bytes, |size| size.0),
            max_msg_size: self.max_msg_size,
            max_body_size: self.max_body_size,
            msg_timeout: self.msg_timeout.0,
            max_msg_timeout: self.max_msg_timeout.0,
            max_req_timeout: self.max_req_timeout.0,
            heartbeat_interval: self.heartbeat_interval.0,
            max_heartbeat_interval: self.max_heartbeat_interval.0,
            max_rdy_count: self.max_rdy_count,
            max_output_buffer_size: self.max_output_buffer_size,
            max_output_buffer_timeout: self.max_output_buffer_timeout.0,
            min_output_buffer_timeout: self.min_output_buffer_timeout.0,
            output_buffer_timeout: self.output_buffer_timeout.0,
            max_channel_consumers: self.max_channel_consumers,
            max_connections: self.max_connections,
            max_topics: self.max_topics,
            max_channels: self.max_channels,
            turn_spacing: self.turn_spacing.0,
            drain_timeout: self.drain_timeout.0,
            metrics_max_topics: self.metrics_max_topics,
            // What nsqd does not have and other flags describe.
            ..Config::default()
        };
        self.schedule.put(&mut config);
        let layers = self.layers.clone();
        self.layers.put(&mut config);
        self.auth.put(&mut config);
        self.strangers.put(&mut config);
        self.statsd.put(&mut config);
        if let Some(secure) = &self.secure {
            layers.secure(secure, &name, &mut config)?;
        }
        Ok(config)
    }
}

impl From<Clock> for ArrivalClock {
    fn from(clock: Clock) -> ArrivalClock {
        match clock {
            Clock::Kernel => ArrivalClock::Kernel,
            Clock::Read => ArrivalClock::Read,
        }
    }
}

/// A broker to which each message takes this long.
fn emulated(time: GoDuration) -> ServiceModel {
    ServiceModel {
        per_message_ns: time.0.as_secs_f64() * 1e9,
        per_batch_ns: 0.0,
        per_active_connection_ns: 0.0,
        servers: 1,
        ..ServiceModel::default()
    }
}

fn defaults() -> Config {
    Config::default()
}

fn http_address(text: &str) -> Result<HttpAddress, String> {
    if text == "none" {
        return Ok(HttpAddress(None));
    }
    text.parse::<ListenAddress>()
        .map(|address| HttpAddress(Some(address.0)))
}

/// A number that differs between most hosts and is the same at every start (FNV-1a).
fn node_id_of(hostname: &str) -> u16 {
    let mix = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = hostname.bytes().fold(0x811c_9dc5_u32, mix);
    (hash % 1024) as u16
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::link_key::KeyFile;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        flags: BrokerFlags,
        #[command(flatten)]
        realtime: RealtimeFlags,
    }

    fn config(arguments: &[&str]) -> Config {
        let all = ["test"].iter().chain(arguments);
        Only::try_parse_from(all)
            .expect("valid flags")
            .flags
            .into_config()
            .expect("nothing from a folder")
    }

    #[test]
    fn no_flags_mean_the_default_settings() {
        let expected = Config {
            node_id: config(&[]).node_id,
            broadcast_address: http::hostname(),
            ..Config::default()
        };
        assert_eq!(format!("{:?}", config(&[])), format!("{expected:?}"));
        assert!(config(&[]).validate().is_ok());
    }

    #[test]
    fn only_this_machine_reaches_a_broker_that_was_not_told_otherwise() {
        let config = config(&[]);
        let http = config.http_address.expect("served");
        assert!(config.tcp_address.ip().is_loopback() && http.ip().is_loopback());
    }

    #[test]
    fn flags_become_settings() {
        let config = config(&[
            "--tcp-address=:4250",
            "--http-address=none",
            "--msg-timeout=1m30s",
            "--arrival-clock=read",
            "--node-id=7",
            "--data-path=/data",
            "--mem-queue-size=5",
            "--drain-timeout=250ms",
            "--share-period=2ms",
            "--on-overrun=report",
        ]);
        assert_eq!(config.tcp_address.to_string(), "0.0.0.0:4250");
        assert_eq!(
            (config.http_address, config.node_id, config.mem_queue_size),
            (None, 7, 5)
        );
        assert_eq!(config.msg_timeout, Duration::from_secs(90));
        assert_eq!(config.drain_timeout, Duration::from_millis(250));
        assert_eq!(config.arrival_clock, ArrivalClock::Read);
        assert_eq!(config.data_path, Some(PathBuf::from("/data")));
        assert_eq!(
            (config.share_period, config.on_overrun),
            (Duration::from_millis(2), OnOverrun::Report)
        );
    }

    #[test]
    fn a_broker_may_know_several_controllers() {
        let file = KeyFile::open(None, None).expect("made");
        let file = format!("--link-key={}", file.path.display());
        let flags = ["--controller=a:1,b:2", "--controller=c:3", &file];
        let link = config(&flags).controller.expect("named");
        assert_eq!(link.addresses, ["a:1", "b:2", "c:3"]);
    }

    #[test]
    fn the_absence_of_a_controller_is_the_operators_choice() {
        let pass_after = |choice: &[&str]| {
            let file = KeyFile::open(None, None).expect("made");
            let file = format!("--link-key={}", file.path.display());
            let all = [&["--controller=127.0.0.1:4170", &file], choice].concat();
            config(&all).controller.expect("named").pass_after
        };
        assert_eq!(pass_after(&[]), None);
        assert_eq!(pass_after(&["--without-controller=hold"]), None);
        let after = pass_after(&["--without-controller=pass=30s"]);
        assert_eq!(after, Some(Duration::from_secs(30)));
    }

    #[test]
    fn a_schedule_is_handed_on() {
        for (period, overrun) in [("2ms", "report"), ("1.5s", "penalise")] {
            let told = [
                format!("--share-period={period}"),
                format!("--on-overrun={overrun}"),
            ];
            let first = config(&[&told[0], &told[1]]);
            let flags = Only::try_parse_from([String::from("test")].iter().chain(&told));
            let handed_on = flags.expect("valid flags").flags.schedule.arguments();
            let second = config(&[&handed_on[0], &handed_on[1]]);
            assert_eq!(
                (second.share_period, second.on_overrun),
                (first.share_period, first.on_overrun)
            );
        }
    }

    #[test]
    fn real_time_is_asked_for_as_a_whole() {
        let parse = |arguments: &[&str]| {
            let all = ["test"].iter().chain(arguments);
            Only::try_parse_from(all).map(|only| only.realtime)
        };
        let none = parse(&[]).expect("no flags").realtime();
        assert_eq!(none.expect("nothing to check"), None);
        let flags = parse(&["--realtime", "--realtime-priority=42", "--cpus=3,1"]).expect("valid");
        let realtime = flags.realtime().expect("valid").expect("asked for");
        assert_eq!(
            (realtime.priority().get(), realtime.cpus()),
            (42, &[3, 1][..])
        );
        for bad in [
            &["--realtime-priority=5"][..],
            &["--cpus=0"],
            &["--realtime", "--realtime-priority=0"],
            &["--realtime", "--realtime-priority=100"],
            &["--realtime", "--cpus=a"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let twice = parse(&["--realtime", "--cpus=1,1"])
            .expect("numbers")
            .realtime();
        let error = twice.expect_err("one CPU for two").to_string();
        assert!(error.contains("CPU 1 is named twice"), "{error}");
    }

    #[test]
    fn node_ids_are_in_range() {
        for name in [
            "",
            "a",
            "broker-1",
            "broker-2",
            "a.very.long.host.name.example",
        ] {
            assert!(node_id_of(name) < 1024);
        }
        assert_ne!(node_id_of("broker-1"), node_id_of("broker-2"));
    }
}
