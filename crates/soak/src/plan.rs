//! The plan of a run: how many processes of each kind, and what they do. Drawn from the seed.

use std::time::Duration;

use api::view::{Contract, PublisherSpec, Slo, TopicSpec};
use clock::Streams;
use control::Settings;
use limit::{JudgedBy, Limit, OnExceed, SharePolicy};
use link::{Durability, OnFull};

use crate::chance::Chance;
use crate::faults::{LOSSES, Loss};
use crate::network::Weather;

/// Channels that every topic has, and every message reaches.
pub const CHANNELS: [&str; 2] = ["archive", "live"];

/// How limits are shared: mostly by leases.
const SHARING: [SharePolicy; 8] = [
    SharePolicy::Lease,
    SharePolicy::Lease,
    SharePolicy::Lease,
    SharePolicy::Lease,
    SharePolicy::Lease,
    SharePolicy::Fps,
    SharePolicy::Gtb,
    SharePolicy::Grd,
];

/// What is to become of messages where brokers have disks for them: mostly they are durable.
pub const DURABILITIES: [Durability; 4] = [
    Durability::Fsync,
    Durability::Fsync,
    Durability::Disk,
    Durability::Memory,
];

/// Bytes that messages on a broker's disk may take.
const DISK_BYTES: [u64; 3] = [48 * 1024, 256 * 1024, 16 * 1024 * 1024];

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that it is drawn from.
    pub seed: u64,
    /// Places of brokers.
    pub brokers: usize,
    /// Topics.
    pub topics: Vec<PlannedTopic>,
    /// How packets fare while nothing is wrong.
    pub weather: Weather,
    /// Messages of links travel as bytes.
    pub in_bytes: bool,
    /// Publishers want cumulative acknowledgements.
    pub is_cumulative: bool,
    /// Brokers have data folders.
    pub have_folders: bool,
    /// Brokers have disks for messages, with so many bytes.
    pub disk_bytes: Option<u64>,
    /// Part of messages that consumers do not simply finish.
    pub badness: f64,
    /// How brokers gossip about limits that they share: length of an interval, and to how many others.
    pub gossip: (Duration, u16),
    /// A broker that is permanently lost when everything else comes right, and how.
    pub lost: Option<(usize, Loss)>,
}

/// A topic, its publishers and consumers.
#[derive(Clone, Debug)]
pub struct PlannedTopic {
    /// Its name.
    pub name: String,
    /// Messages per second, and at once, over all brokers.
    pub limit: Option<(f64, f64)>,
    /// How brokers share that.
    pub sharing: SharePolicy,
    /// What its messages are to outlive.
    pub durability: Durability,
    /// Whether a latency is promised.
    pub has_promise: bool,
    /// Those who publish.
    pub publishers: Vec<PublisherSpec>,
    /// Consumers of each channel.
    pub consumers: usize,
}

impl PlannedTopic {
    /// Whether what exceeds the limit is dropped: this policy lets nothing wait.
    #[must_use]
    pub fn drops(&self) -> bool {
        self.sharing == SharePolicy::Grd
    }

    /// The declaration, with its limit multiplied.
    ///
    /// # Panics
    /// For a factor that is none.
    #[must_use]
    pub fn spec(&self, factor: f64) -> TopicSpec {
        let limit = self.limit.map(|(rate, burst)| {
            let burst = (burst * factor).max(20.0);
            let limit =
                Limit::messages(rate * factor, burst).expect("limits of plans are in range");
            Limit {
                // What is read late must not leave early: the law sees releases.
                judged_by: JudgedBy::Release,
                sharing: self.sharing,
                on_exceed: match self.drops() {
                    true => OnExceed::Drop,
                    false => OnExceed::Delay,
                },
                ..limit
            }
        });
        TopicSpec {
            contract: Contract {
                limit,
                on_full: Some(OnFull::Block),
                durability: self.durability,
                ..Contract::default()
            },
            slo: self.has_promise.then_some(Slo {
                percentile: 99.0,
                latency_us: 500_000.0,
            }),
            ..TopicSpec::default()
        }
    }
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Plan {
        let streams = Streams::new(seed);
        let mut chance = Chance::new(&streams, "plan");
        let brokers = 2 + chance.below(3);
        let weather = Weather {
            least_us: 100,
            most_us: chance.pick(&[1000, 5000, 30_000]),
            slow: 0.001,
            slow_ms: 300,
            lost: 0.01,
            twice: 0.02,
        };
        let mut limited = topic("limited", true, &mut chance);
        let open = topic("open", false, &mut chance);
        // From a stream of its own: all else is as it would be with leases.
        let mut shared = Chance::new(&streams, "sharing");
        limited.sharing = shared.pick(&SHARING);
        if limited.sharing != SharePolicy::Lease && shared.happens(0.5) {
            // Much less than is asked for: only then does it matter what brokers know of each other.
            limited.limit = limited
                .limit
                .map(|(rate, burst)| (rate * 0.5, burst.min(30.0)));
        }
        let interval_ms = shared.pick(&[50, 50, 100, 200]);
        let gossip = (
            Duration::from_millis(interval_ms),
            shared.pick(&[3, 3, 2, 1]),
        );
        Plan {
            seed,
            brokers,
            topics: vec![limited, open],
            weather,
            in_bytes: chance.happens(0.1),
            is_cumulative: chance.happens(0.5),
            badness: chance.pick(&[0.0, 0.05, 0.3]),
            gossip,
            have_folders: chance.happens(0.75),
            disk_bytes: None,
            lost: chance
                .happens(0.3)
                .then(|| (chance.below(brokers), chance.pick(&LOSSES))),
        }
    }

    /// The same plan for brokers that keep messages on disk.
    #[must_use]
    pub fn durable(seed: u64) -> Plan {
        let mut plan = Plan::of(seed);
        let mut chance = Chance::new(&Streams::new(seed), "durable");
        for topic in &mut plan.topics {
            topic.durability = chance.pick(&DURABILITIES);
        }
        plan.have_folders = true;
        plan.disk_bytes = Some(chance.pick(&DISK_BYTES));
        plan
    }

    /// How the controller behaves: as ever, with shorter spans.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            profile_window: Duration::from_secs(3),
            settle: Duration::from_secs(1),
            debounce: Duration::from_millis(500),
            report_interval: Duration::from_millis(500),
            lease: Duration::from_secs(3),
            adapt_window: Duration::from_secs(3),
            silent_after: Duration::from_millis(1500),
            lost_after: Duration::from_secs(5),
            mcap: 200.0,
            gossip_interval: self.gossip.0,
            gossip_branches: self.gossip.1,
            ..Settings::default()
        }
    }
}

fn topic(name: &str, is_limited: bool, chance: &mut Chance) -> PlannedTopic {
    let count = 3 + chance.below(6);
    let specs = (0..count).map(|number| PublisherSpec {
        id: format!("{name}-{number}"),
        rate: 2.0 + chance.below(5) as f64,
        batch: chance.pick(&[1, 1, 3]),
        group: None,
    });
    let publishers: Vec<PublisherSpec> = specs.collect();
    let rate: f64 = publishers.iter().map(|publisher| publisher.rate).sum();
    // Sometimes the limit is below what is published: publishers are held.
    let part = chance.pick(&[0.9, 1.3, 2.5]);
    PlannedTopic {
        name: name.to_owned(),
        limit: is_limited.then_some((rate * part, (rate * part / 2.0).max(20.0))),
        sharing: SharePolicy::Lease,
        durability: Durability::Memory,
        has_promise: chance.happens(0.5),
        publishers,
        consumers: 1 + chance.below(2),
    }
}
