//! The brokers of a comparison: how each is started alone on its core, spoken to, and stopped.
//!
//! Every start is a fresh process with an empty working folder and free ports on the loopback
//! interface. Go's scheduler is told of the one core. Queue limits that would make a peer drop or
//! spill messages at these rates are lifted, and logging of messages is off. A process is only ever
//! stopped by its process number.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use api::{Bounds, Client};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::generator::Target;
use crate::protocol::Protocol;
use crate::protocol::jetstream::JetStream;
use crate::protocol::mqtt::Mqtt;
use crate::protocol::nats::Nats;
use crate::protocol::nsq::{Acknowledgement, Nsq};
use crate::sys;

mod certificate;

/// Topic, channel and subject of all runs.
pub const TOPIC: &str = "bench";
const CHANNEL: &str = "bench";
/// How long a broker may take to accept its first connection.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a broker may take to end when asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// A broker in one configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// SRTM, OK per PUB.
    Srtm,
    /// SRTM, cumulative acknowledgements.
    SrtmAcks,
    /// As `srtm`, within TLS.
    SrtmTls,
    /// As `srtm-acks`, within TLS.
    SrtmAcksTls,
    /// The floor, OK per PUB.
    RelayOk,
    /// The floor, cumulative acknowledgements.
    Relay,
    /// SRTM, the topic's messages in its log before their OK.
    SrtmDisk,
    /// SRTM, the topic's messages synced to the disk before their OK.
    SrtmFsync,
    /// As `srtm-fsync`, with cumulative acknowledgements.
    SrtmFsyncAcks,
    /// nsqd, output buffer off: written at once.
    Nsqd,
    /// nsqd with its default output buffer (16 KiB, 250 ms).
    NsqdBuffered,
    /// As `nsqd`, within TLS.
    NsqdTls,
    /// As `nsqd-buffered`, within TLS.
    NsqdBufferedTls,
    /// As `nsqd`, with all messages in files (`-mem-queue-size=0`).
    NsqdDisk,
    /// As `nsqd-disk`, synced after each message; the OK does not wait for it.
    NsqdSync,
    /// NATS core, which acknowledges nothing.
    Nats,
    /// NATS JetStream, a stream in files.
    Jetstream,
    /// NATS JetStream, synced before each acknowledgement (`sync_interval: always`).
    JetstreamSync,
    /// mosquitto, QoS 0: acknowledges nothing.
    MosquittoQos0,
    /// mosquitto, QoS 1: an acknowledgement per message on both sides.
    MosquittoQos1,
}

/// Where the programs are, and where they run.
#[derive(Debug, Clone, Serialize, Args)]
pub struct PeerOptions {
    /// Folder of nsqd and nats-server (made by bench/peers/build.sh).
    #[arg(long, default_value = "build/bin", value_name = "DIR")]
    pub bin_dir: PathBuf,
    /// The srtm program.
    #[arg(long, default_value = "target/release/srtm", value_name = "FILE")]
    pub srtm: PathBuf,
    /// Further argument of `srtm broker`; may be repeated.
    #[arg(long = "srtm-arg", value_name = "ARG", allow_hyphen_values = true)]
    pub srtm_args: Vec<String>,
    /// Reactor threads of `srtm broker`, all on the broker's core.
    #[arg(long, default_value_t = 1)]
    pub broker_threads: usize,
    /// The mosquitto program.
    #[arg(long, default_value = "/usr/sbin/mosquitto", value_name = "FILE")]
    pub mosquitto: PathBuf,
    /// Folder for the brokers' data and logs; emptied at each start.
    #[arg(long, default_value = "build/bench", value_name = "DIR")]
    pub work_dir: PathBuf,
    /// Core that the broker runs on.
    #[arg(long, default_value_t = 1)]
    pub broker_core: usize,
    /// Core that the generator and the subscriber run on.
    #[arg(long, default_value_t = 0)]
    pub generator_core: usize,
}

/// A broker that was started; ends with this value.
#[derive(Debug)]
pub struct RunningPeer {
    name: String,
    child: Child,
    /// Where its HTTP interface listens, when it has one.
    pub http_address: SocketAddr,
    /// The target for the generator.
    pub target: Target,
}

impl Peer {
    /// The name in tables and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Srtm => "srtm",
            Self::SrtmAcks => "srtm-acks",
            Self::SrtmTls => "srtm-tls",
            Self::SrtmAcksTls => "srtm-acks-tls",
            Self::SrtmDisk => "srtm-disk",
            Self::SrtmFsync => "srtm-fsync",
            Self::SrtmFsyncAcks => "srtm-fsync-acks",
            Self::RelayOk => "relay-ok",
            Self::Relay => "relay",
            Self::Nsqd => "nsqd",
            Self::NsqdBuffered => "nsqd-buffered",
            Self::NsqdTls => "nsqd-tls",
            Self::NsqdBufferedTls => "nsqd-buffered-tls",
            Self::NsqdDisk => "nsqd-disk",
            Self::NsqdSync => "nsqd-sync",
            Self::Nats => "nats",
            Self::Jetstream => "jetstream",
            Self::JetstreamSync => "jetstream-sync",
            Self::MosquittoQos0 => "mosquitto-qos0",
            Self::MosquittoQos1 => "mosquitto-qos1",
        }
    }

    /// The protocol that the generator speaks to it.
    pub fn protocol(self) -> Protocol {
        let nsq = |acknowledgement, unbuffered| {
            Protocol::Nsq(Nsq {
                topic: TOPIC.to_owned(),
                channel: CHANNEL.to_owned(),
                acknowledgement,
                unbuffered,
            })
        };
        match self {
            Self::Srtm
            | Self::SrtmTls
            | Self::SrtmDisk
            | Self::SrtmFsync
            | Self::RelayOk
            | Self::NsqdBuffered
            | Self::NsqdBufferedTls => nsq(Acknowledgement::Each, false),
            Self::SrtmAcks | Self::SrtmAcksTls | Self::SrtmFsyncAcks | Self::Relay => {
                nsq(Acknowledgement::Cumulative, false)
            }
            Self::Nsqd | Self::NsqdTls | Self::NsqdDisk | Self::NsqdSync => {
                nsq(Acknowledgement::Each, true)
            }
            Self::Nats => Protocol::Nats(Nats {
                subject: TOPIC.to_owned(),
            }),
            Self::Jetstream | Self::JetstreamSync => Protocol::JetStream(JetStream {
                subject: TOPIC.to_owned(),
            }),
            Self::MosquittoQos0 => Protocol::Mqtt(Mqtt {
                topic: TOPIC.to_owned(),
                acknowledged: false,
            }),
            Self::MosquittoQos1 => Protocol::Mqtt(Mqtt {
                topic: TOPIC.to_owned(),
                acknowledged: true,
            }),
        }
    }

    /// The program file, and what is missing when it is not there.
    ///
    /// # Errors
    /// When the program is not there.
    pub fn program(self, options: &PeerOptions) -> Result<PathBuf, BenchError> {
        let program = match self {
            _ if self.is_srtm() => options.srtm.clone(),
            // The program that is running, whatever its name and place.
            Self::Relay | Self::RelayOk => PathBuf::from("/proc/self/exe"),
            Self::Nats | Self::Jetstream | Self::JetstreamSync => {
                options.bin_dir.join("nats-server")
            }
            Self::MosquittoQos0 | Self::MosquittoQos1 => options.mosquitto.clone(),
            _ => options.bin_dir.join("nsqd"),
        };
        fs::canonicalize(&program).map_err(|_| BenchError::Broker {
            name: self.name().to_owned(),
            text: format!("not found: {}", program.display()),
        })
    }

    /// Starts it on its core and waits until it accepts connections. `relaunch` are the arguments after which this
    /// program understands `relay`.
    ///
    /// # Errors
    /// When the program is not there, ends at once, or accepts no connection in time.
    pub fn start(
        self,
        options: &PeerOptions,
        relaunch: &[String],
    ) -> Result<RunningPeer, BenchError> {
        let program = self.program(options)?;
        let folder = options.work_dir.join(self.name());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(BenchError::io("empty the working folder"))?;
        }
        fs::create_dir_all(&folder).map_err(BenchError::io("make the working folder"))?;
        let (address, http_address) = (free_address()?, free_address()?);
        let log = File::create(folder.join("log")).map_err(BenchError::io("make the log file"))?;
        let errors = log
            .try_clone()
            .map_err(BenchError::io("make the log file"))?;
        let mut command = Command::new(program);
        let threads = options.broker_threads;
        command.args(self.arguments(threads, address, http_address, &folder, relaunch)?);
        let trust = match self.tls_flags() {
            None => None,
            Some(flags) => {
                command.args(flags);
                let now = UNIX_EPOCH + Duration::from_nanos(sys::realtime_ns());
                Some(certificate::make(&folder, now)?)
            }
        };
        if self.is_srtm() {
            command.args(&options.srtm_args);
        }
        command.env("GOMAXPROCS", "1").current_dir(&folder);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        sys::pin_command(&mut command, options.broker_core);
        let child = command
            .spawn()
            .map_err(BenchError::io(format!("start {}", self.name())))?;
        let target = Target {
            address,
            protocol: self.protocol(),
            trust,
            pid: Some(child.id()),
            core: options.broker_core,
        };
        let mut running = RunningPeer {
            name: self.name().to_owned(),
            child,
            http_address,
            target,
        };
        running.wait_until_accepting(&folder)?;
        if let Some(durability) = self.durability() {
            running.make_durable(durability)?;
        }
        Ok(running)
    }

    fn arguments(
        self,
        threads: usize,
        address: SocketAddr,
        http_address: SocketAddr,
        folder: &Path,
        relaunch: &[String],
    ) -> Result<Vec<String>, BenchError> {
        let text = match self {
            _ if self.is_srtm() => {
                let kept = if self.durability().is_some() {
                    " --data-path ."
                } else {
                    ""
                };
                format!(
                    "broker --threads {threads} --tcp-address {address} --http-address {http_address}{kept}"
                )
            }
            Self::RelayOk => format!("{} relay --listen {address} --ok", relaunch.join(" ")),
            Self::Relay => format!("{} relay --listen {address}", relaunch.join(" ")),
            Self::Nats | Self::Jetstream | Self::JetstreamSync => {
                fs::write(folder.join("nats.conf"), self.nats_config(address))
                    .map_err(BenchError::io("write nats.conf"))?;
                "-c nats.conf".to_owned()
            }
            Self::MosquittoQos0 | Self::MosquittoQos1 => {
                let config = mosquitto_config(address);
                fs::write(folder.join("mosquitto.conf"), config)
                    .map_err(BenchError::io("write mosquitto.conf"))?;
                "-c mosquitto.conf".to_owned()
            }
            _ => {
                let queues = match self {
                    Self::NsqdDisk => "-mem-queue-size=0",
                    Self::NsqdSync => "-mem-queue-size=0 -sync-every=1",
                    _ => "-mem-queue-size=1000000",
                };
                format!(
                    "-tcp-address={address} -http-address={http_address} -data-path=. {queues} -log-level=error"
                )
            }
        };
        Ok(text.split_ascii_whitespace().map(str::to_owned).collect())
    }

    pub(crate) fn is_srtm(self) -> bool {
        matches!(
            self,
            Self::Srtm
                | Self::SrtmAcks
                | Self::SrtmTls
                | Self::SrtmAcksTls
                | Self::SrtmDisk
                | Self::SrtmFsync
                | Self::SrtmFsyncAcks
        )
    }

    /// The flags by which it finds its certificate, where it is to speak TLS.
    fn tls_flags(self) -> Option<[String; 2]> {
        let dashes = match self {
            Self::SrtmTls | Self::SrtmAcksTls => "--",
            Self::NsqdTls | Self::NsqdBufferedTls => "-",
            _ => return None,
        };
        let flag = |what: &str, file: &str| format!("{dashes}tls-{what}={file}");
        Some([
            flag("cert", certificate::CERTIFICATE),
            flag("key", certificate::KEY),
        ])
    }

    /// The word of the topic's contract, where messages are to outlive SRTM's process.
    fn durability(self) -> Option<&'static str> {
        match self {
            Self::SrtmDisk => Some("disk"),
            Self::SrtmFsync | Self::SrtmFsyncAcks => Some("fsync"),
            _ => None,
        }
    }

    fn nats_config(self, address: SocketAddr) -> String {
        let stored = match self {
            Self::Jetstream => "jetstream { store_dir: \"stored\" }\n",
            Self::JetstreamSync => "jetstream { store_dir: \"stored\", sync_interval: always }\n",
            _ => "",
        };
        format!("listen: \"{address}\"\nping_interval: \"10m\"\n{stored}")
    }
}

impl RunningPeer {
    fn make_durable(&self, durability: &str) -> Result<(), BenchError> {
        let broker = Client::new(&self.http_address.to_string(), Bounds::default());
        let target = api::Target::new("/v1/topics").segment(TOPIC);
        let contract = serde_json::json!({ "durability": durability });
        let answer = broker.put::<serde_json::Value>(&target, &contract);
        answer.map(drop).map_err(|error| BenchError::Broker {
            name: self.name.clone(),
            text: error.to_string(),
        })
    }

    fn wait_until_accepting(&mut self, folder: &Path) -> Result<(), BenchError> {
        let failed = |text: String| BenchError::Broker {
            name: self.name.clone(),
            text,
        };
        let deadline_ns = sys::monotonic_ns() + START_TIMEOUT.as_nanos() as u64;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or("nothing in its log");
                return Err(failed(format!("ended at start ({status}): {last}")));
            }
            if TcpStream::connect(self.target.address).is_ok() {
                return Ok(());
            }
            if sys::monotonic_ns() > deadline_ns {
                return Err(failed(format!(
                    "accepts no connection within {} s",
                    START_TIMEOUT.as_secs()
                )));
            }
            sys::pause_for(POLL);
        }
    }

    /// Asks the process to end, and ends it when it does not.
    pub fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        let deadline_ns = sys::monotonic_ns() + STOP_TIMEOUT.as_nanos() as u64;
        let asked = sys::signal(self.child.id(), sys::Signal::Terminate).is_ok();
        while asked && sys::monotonic_ns() < deadline_ns {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            sys::pause_for(POLL);
        }
        // It may have ended between the two calls, which is as good.
        let _already_gone = self.child.kill();
        let _status = self.child.wait();
    }
}

impl Drop for RunningPeer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A loopback address that was free a moment ago.
fn free_address() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::io("find a free port"))?;
    listener
        .local_addr()
        .map_err(BenchError::io("find a free port"))
}

fn mosquitto_config(address: SocketAddr) -> String {
    format!(
        "listener {} {}\nallow_anonymous true\nuser root\npersistence false\nset_tcp_nodelay true\n\
         max_inflight_messages 0\nmax_queued_messages 0\nmax_queued_bytes 0\nsys_interval 0\nlog_type error\n",
        address.port(),
        address.ip()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> PeerOptions {
        PeerOptions {
            bin_dir: PathBuf::from("no/such/folder"),
            srtm: PathBuf::from("no/such/srtm"),
            srtm_args: Vec::new(),
            mosquitto: PathBuf::from("no/such/mosquitto"),
            broker_threads: 1,
            work_dir: PathBuf::from("no/such/work"),
            broker_core: 0,
            generator_core: 0,
        }
    }

    #[test]
    fn a_missing_program_is_named() {
        for peer in Peer::value_variants() {
            let found = peer.program(&options());
            if matches!(peer, Peer::Relay | Peer::RelayOk) {
                assert!(found.is_ok());
                continue;
            }
            let text = found.expect_err("there is no such program").to_string();
            assert!(
                text.contains(peer.name()) && text.contains("not found: "),
                "{text}"
            );
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for peer in Peer::value_variants() {
            let value = peer.to_possible_value().expect("every peer can be chosen");
            assert_eq!(value.get_name(), peer.name());
        }
    }
}
