//! A limiter's configuration: a TOML file, read strictly; errors name the line or field and the
//! remedy.
//!
//! Units are in the names of the fields; rates are written as [`Bandwidth`]s. docs/limiter.md shows
//! whole files.

mod check;
mod show;
mod site;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use access::InForce;
use limit::sharing::{Policy, Sharing, SharingConfig, SharingError};
use serde::{Deserialize, Serialize};

use crate::address::Prefix;
use crate::amount::Bandwidth;
use crate::class::Match;

pub use check::ConfigError;
pub use site::{Fleet, SiteConfig};

/// All of a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How packets come in.
    #[serde(default)]
    pub intake: Intake,
    /// Pairs of TUN devices.
    #[serde(default)]
    pub tun: Vec<TunPair>,
    /// How packets of TUN devices are moved.
    #[serde(default)]
    pub io: Io,
    /// Queues of the packet filter.
    #[serde(default)]
    pub nfqueue: Vec<Queue>,
    /// Sites, one by one.
    #[serde(default)]
    pub site: Vec<SiteConfig>,
    /// Many sites that differ by a number only; they are numbered behind the others.
    #[serde(default)]
    pub sites: Option<Fleet>,
    /// What is limited; the first class that a packet matches counts, and a packet without one passes.
    #[serde(default)]
    pub class: Vec<ClassConfig>,
    /// How the sites hear of each other.
    #[serde(default)]
    pub gossip: GossipConfig,
    /// A network's delays and bandwidths, for testbeds.
    #[serde(default)]
    pub emulate: Option<EmulateConfig>,
    /// Where HTTP is answered.
    #[serde(default)]
    pub http: Option<SocketAddr>,
    /// Further names by which HTTP may be asked to change something.
    #[serde(default)]
    pub http_hosts: Vec<String>,
    /// Who may do what over HTTP; `None`: everybody may do everything.
    #[serde(skip)]
    pub access: Option<InForce>,
    /// The file that is written to; see [`crate::config::Config::record_interval_ms`].
    #[serde(default)]
    pub record: Option<PathBuf>,
    /// Time that a line of the record covers, ms.
    #[serde(default = "record_interval_ms")]
    pub record_interval_ms: u64,
}

/// How packets come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Intake {
    /// TUN devices: this process is the link between two networks.
    #[default]
    Tun,
    /// NFQUEUE: the kernel forwards, and asks about each packet.
    Nfqueue,
}

/// How packets of TUN devices are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// By io_uring if the system lets one, else plainly.
    #[default]
    Auto,
    /// By io_uring, many in one system call; if that cannot be, there is an error.
    Uring,
    /// By one system call each.
    Plain,
}

/// Two TUN devices: what arrives from one leaves by the other.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TunPair {
    /// Towards the sources: what comes from here is limited.
    pub inner: Device,
    /// Towards the sinks: what comes from here passes.
    pub outer: Device,
    /// The site that all its packets belong to; without one, their destinations tell.
    #[serde(default)]
    pub site: Option<String>,
    /// The largest packet, bytes.
    #[serde(default = "mtu_bytes")]
    pub mtu_bytes: u16,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its name, at most 15 bytes. It is made if there is none.
    pub name: String,
    /// The network namespace that it is in, as `ip netns` names it; this process's own without one.
    #[serde(default)]
    pub netns: Option<String>,
}

/// A queue of NFQUEUE.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its number.
    pub number: u16,
    /// The site that all its packets belong to; without one, their destinations tell.
    #[serde(default)]
    pub site: Option<String>,
    /// The network namespace that it is in.
    #[serde(default)]
    pub netns: Option<String>,
    /// Packets that wait in the kernel at most.
    #[serde(default = "queue_packets")]
    pub queue_packets: u32,
}

/// What is limited, and how.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClassConfig {
    /// What it is called in metrics and HTTP.
    pub name: String,
    /// Which packets belong to it.
    #[serde(default, rename = "match")]
    pub matching: Match,
    /// Its limit; without one its packets pass and are counted.
    #[serde(default)]
    pub limit: Option<LimitConfig>,
}

/// A limit of all sites together.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitConfig {
    /// Bytes of IP packets per second.
    pub rate: Bandwidth,
    /// Depth of the bucket, bytes.
    pub burst_bytes: f64,
    /// How the sites share it.
    pub policy: Policy,
    /// What becomes of packets that the limit cannot be applied to.
    #[serde(default)]
    pub on_failure: OnFailure,
}

/// What becomes of packets while a site hears of no other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The site goes on with its part of the limit, 1/N (DRL, section 5.6).
    #[default]
    Keep,
    /// All pass.
    Open,
    /// None passes.
    Closed,
}

/// How the sites hear of each other.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GossipConfig {
    /// What carries it.
    pub transport: Transport,
    /// All N sites' addresses, in the same order everywhere; without them those of this file's sites.
    pub peers: Vec<SocketAddr>,
    /// A file with the passphrase that all sites have.
    pub key_file: Option<PathBuf>,
    /// To how many others each site speaks per interval.
    pub branches: Branching,
    /// The estimate interval, ms.
    pub interval_ms: u64,
    /// What is left of an old estimate after a second.
    pub ewma_1s: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

/// What carries gossip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP between the sites' addresses.
    #[default]
    Udp,
    /// This process's memory: all sites are in this file and hear each other's exact numbers.
    Memory,
}

/// To how many others each site speaks per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Branching {
    /// So many, picked at random.
    Random(u16),
    /// All of them.
    Mesh(Mesh),
}

/// The word for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mesh {
    /// `"mesh"`.
    Mesh,
}

/// A network's delays and bandwidths. Off unless the file has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EmulateConfig {
    /// Delay of each packet between limiter and sink, each way, µs; [`EmulateConfig::path`] has exceptions.
    pub delay_us: u64,
    /// What each site's link from the sources carries.
    pub link: Option<Bandwidth>,
    /// Bytes that wait for the link at most.
    pub link_queue_bytes: u64,
    /// Delays by sink.
    pub path: Vec<PathConfig>,
    /// Narrow places between some sources and the limiter.
    pub bottleneck: Vec<BottleneckConfig>,
    /// Delay of gossip, µs.
    pub gossip_delay_us: u64,
    /// Part of the gossip that gets lost, 0 to 1.
    pub gossip_loss: f64,
    /// Packets that are held back at once at most.
    pub held_packets: usize,
}

/// A delay of its own.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// The sinks.
    pub destination: Prefix,
    /// Delay each way, µs.
    pub delay_us: u64,
}

/// A narrow place between sources and limiter, with a queue that drops from its tail.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BottleneckConfig {
    /// The sources behind it.
    pub source: Prefix,
    /// What it carries.
    pub rate: Bandwidth,
    /// Bytes that wait for it at most.
    pub queue_bytes: u64,
    /// It is there from this time after the start, s,
    #[serde(default)]
    pub at_s: f64,
    /// until this one; for ever without it.
    #[serde(default)]
    pub until_s: Option<f64>,
}

impl Config {
    /// What `text` says, and `change` says instead, checked.
    ///
    /// # Errors
    /// [`ConfigError`], with the line or the field.
    pub fn parse(text: &str, change: impl FnOnce(&mut Config)) -> Result<Config, ConfigError> {
        let mut config: Config = toml::from_str(text)?;
        change(&mut config);
        if let Some(fleet) = &config.sites {
            config.site.extend(fleet.sites()?);
        }
        config.check()?;
        Ok(config)
    }

    /// N: the sites that share each limit, in this process and elsewhere.
    pub fn limiters(&self) -> u32 {
        let known = match self.gossip.transport {
            Transport::Udp if !self.gossip.peers.is_empty() => self.gossip.peers.len(),
            _ => self.site.len(),
        };
        u32::try_from(known).unwrap_or(u32::MAX)
    }

    /// Each site's number among all N, from 0.
    pub fn site_numbers(&self) -> Vec<u32> {
        let number = |(here, site): (usize, &SiteConfig)| {
            let named = self
                .gossip
                .peers
                .iter()
                .position(|peer| Some(*peer) == site.gossip);
            u32::try_from(named.unwrap_or(here)).unwrap_or(u32::MAX)
        };
        self.site.iter().enumerate().map(number).collect()
    }

    /// The limit of a class as its limiters need it.
    ///
    /// # Errors
    /// [`SharingError`] when its numbers cannot be.
    pub fn sharing(&self, limit: &LimitConfig, class: usize) -> Result<Sharing, SharingError> {
        let rate = limit.rate.bytes_per_s();
        let config = SharingConfig::bytes(limit.policy, rate, limit.burst_bytes, self.limiters())?;
        SharingConfig {
            estimate_interval: self.gossip.interval(),
            ewma_1s: self.gossip.ewma_1s,
            seed: self.gossip.seed.wrapping_add(class as u64),
            ..config
        }
        .checked()
    }
}

impl GossipConfig {
    /// The estimate interval.
    pub const fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }
}

impl Default for GossipConfig {
    fn default() -> Self {
        GossipConfig {
            transport: Transport::default(),
            peers: Vec::new(),
            key_file: None,
            branches: Branching::Mesh(Mesh::Mesh),
            interval_ms: 50,
            ewma_1s: 0.1,
            seed: 0,
        }
    }
}

impl Default for EmulateConfig {
    fn default() -> Self {
        EmulateConfig {
            delay_us: 0,
            link: None,
            link_queue_bytes: 1_000_000,
            path: Vec::new(),
            bottleneck: Vec::new(),
            gossip_delay_us: 0,
            gossip_loss: 0.0,
            held_packets: 65_536,
        }
    }
}

const fn record_interval_ms() -> u64 {
    100
}

const fn mtu_bytes() -> u16 {
    1500
}

const fn queue_packets() -> u32 {
    8192
}

#[cfg(test)]
mod tests;
