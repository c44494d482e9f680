//! The control plane as a pure state machine: what is heard comes in with its time, what is to be done comes
//! out as [`Effect`]s and [`Change`]s. The shells around it ([`crate::service`]) own sockets, files and clocks.

mod beside;
mod broker;
mod catalog;
mod channels;
mod check;
mod contract;
mod cpu_share;
mod declaring;
mod due;
mod effect;
mod fit;
mod forgetting;
mod handover;
mod heard;
mod hearing;
mod held;
mod holdings;
mod inventory;
mod joining;
mod moves;
mod names;
mod overload;
mod parts;
mod persist;
mod place;
mod prepare;
mod presence;
mod publisher;
mod rates;
mod registry;
mod relief;
mod request;
mod rounds;
mod seats;
mod sharers;
mod shares;
mod tally;
mod topic;
mod trace;
mod turns;
mod views;
mod window;
mod words;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use clock::Instant;
use limit::{Burst, Rate, TokenBucket};
use rustc_hash::FxHashMap;

pub use broker::{Broker, BrokerNumber, Liveness};
pub use catalog::CHANNELS_MAX;
pub use declaring::Declared;
pub use due::Work;
pub use effect::{Effect, Event, Probe, ProbeAnswer};
pub use fit::{FitAnswer, FitJob};
pub use inventory::{Inventory, Topics};
pub use names::NAMES_MAX;
pub use persist::{check_settings, publisher_key};
pub use registry::{DEAD_KEPT, Refusal};
pub use topic::{Topic, no_publisher};

use crate::store::Change;

/// How the control plane behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length of a profiling window (SRTM-long, section 6.5: 60 s).
    pub profile_window: Duration,
    /// Quiet time between the last move and the window that follows it: longer than reports are apart, so that what they say
    /// of queues is of after the move, and long enough for buckets to fill.
    pub settle: Duration,
    /// How long the set of publishers must stay as it is before a fit begins.
    pub debounce: Duration,
    /// A fit stops within this part below the promise (SRTM-long, section 6.5: 0.2).
    pub band: f64,
    /// Time between reports of a broker.
    pub report_interval: Duration,
    /// How long a share holds without renewal.
    pub lease: Duration,
    /// Time between two changes of shares by the TB Adaptor.
    pub adapt_period: Duration,
    /// Length of the history that brokers report and shares follow (SRTM-long, section 5.4: 10 s).
    pub adapt_window: Duration,
    /// Whether shares follow traffic; otherwise they stay in proportion to what was placed.
    pub adapts: bool,
    /// A broker that has not reported for so long is silent: it gets no more publishers.
    pub silent_after: Duration,
    /// A broker that has been silent for so long loses its publishers to others.
    pub lost_after: Duration,
    /// Publishers told to move per second, at most.
    pub moves_per_s: f64,
    /// Messages per second that a broker carries which was not calibrated.
    pub mcap: f64,
    /// To how many others a broker tells its numbers per interval, where brokers share a limit by gossip; N − 1 or more: to
    /// all.
    pub gossip_branches: u16,
    /// Length of their estimate intervals (DRL: 50 ms).
    pub gossip_interval: Duration,
    /// The number of this life at least, beside those that were kept: seconds since 1970, so that a life which could not be kept
    /// does not share its number with the next.
    pub least_epoch: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            profile_window: Duration::from_secs(60),
            settle: Duration::from_secs(3),
            debounce: Duration::from_secs(2),
            band: 0.2,
            report_interval: Duration::from_secs(1),
            lease: Duration::from_secs(15),
            adapt_period: Duration::from_secs(1),
            adapt_window: Duration::from_secs(10),
            adapts: true,
            silent_after: Duration::from_secs(3),
            lost_after: Duration::from_secs(15),
            moves_per_s: 1000.0,
            mcap: 40_000.0,
            gossip_branches: 3,
            gossip_interval: Duration::from_millis(50),
            least_epoch: 0,
        }
    }
}

/// Brokers known at most, those that are not dead; as many dead ones are remembered.
pub const BROKERS_MAX: usize = 1024;
/// Topics known at most.
pub const TOPICS_MAX: usize = 131_072;
/// Publishers of all topics at most.
pub const PUBLISHERS_MAX: usize = 1_000_000;

/// The state of the control plane.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    epoch: u64,
    brokers: Vec<Broker>,
    broker_by_name: FxHashMap<String, BrokerNumber>,
    /// Numbers that stand for no broker any more, since when; in this order.
    free_numbers: VecDeque<(Instant, BrokerNumber)>,
    /// Processes of brokers so far, in this life.
    processes: u64,
    /// The life of a broker that was numbered last.
    lives: u64,
    topics: BTreeMap<String, Topic>,
    catalog: catalog::Catalog,
    names: names::Names,
    publishers: usize,
    /// Topics that something is promised of.
    promised: BTreeSet<String>,
    /// What the publishers of all topics come to, by broker.
    loads: tally::Loads,
    due: due::Due,
    /// Brokers that join, in parts, and whose part was the last.
    joining: BTreeSet<BrokerNumber>,
    joined_last: BrokerNumber,
    /// Brokers with reports that were not heard in whole, and whose part was the last.
    hearing: BTreeSet<BrokerNumber>,
    heard_last: BrokerNumber,
    /// What is done for all topics, and how far it has come.
    jobs: BTreeMap<parts::Job, parts::Place>,
    /// Lists of publishers that were not taken in whole.
    declaring: declaring::Declaring,
    /// Topics that were removed, whose publishers' records are still there.
    forgetting: forgetting::Forgetting,
    /// Where the search for `#ephemeral` topics that no broker has goes on behind, if it does.
    orphans: Option<Option<wire::TopicName>>,
    /// What is not needed any more, and takes long to take apart.
    rubbish: Vec<Box<dyn Any + Send>>,
    sizes: parts::Sizes,
    work: Work,
    move_budget: TokenBucket,
    moved: moves::MovedLately,
    last_ticket: u64,
    last_window: u64,
    /// Topics by the number of the window that they have open.
    windows: BTreeMap<u64, String>,
    last_ledger: u64,
    /// When brokers were looked at last.
    watched_at: Instant,
    sharing: sharers::Sharing,
    rounds: rounds::Rounds,
    handover_pass: Option<String>,
    contracts: BTreeMap<u64, contract::Pending>,
    effects: Vec<Effect>,
    changes: Vec<Change>,
    held: held::Held,
}

impl Core {
    /// An empty control plane in its `epoch`-th life.
    #[must_use]
    pub fn new(settings: Settings, epoch: u64, now: Instant) -> Core {
        let moves = settings.moves_per_s.clamp(0.1, 1e9);
        let rate = Rate::new(moves).expect("clamped into range");
        let burst = Burst::new(moves.max(1.0)).expect("clamped into range");
        Core {
            settings,
            epoch,
            brokers: Vec::new(),
            broker_by_name: FxHashMap::default(),
            free_numbers: VecDeque::new(),
            processes: 0,
            lives: 0,
            topics: BTreeMap::new(),
            catalog: catalog::Catalog::default(),
            names: names::Names::default(),
            publishers: 0,
            promised: BTreeSet::new(),
            loads: tally::Loads::default(),
            due: due::Due::default(),
            joining: BTreeSet::new(),
            joined_last: 0,
            hearing: BTreeSet::new(),
            heard_last: 0,
            jobs: BTreeMap::new(),
            declaring: declaring::Declaring::default(),
            forgetting: forgetting::Forgetting::new(),
            orphans: None,
            rubbish: Vec::new(),
            sizes: parts::Sizes::default(),
            work: Work::default(),
            move_budget: TokenBucket::full(rate, burst, now),
            moved: moves::MovedLately::default(),
            last_ticket: 0,
            last_window: 0,
            windows: BTreeMap::new(),
            last_ledger: 0,
            watched_at: now,
            sharing: sharers::Sharing::default(),
            rounds: rounds::Rounds::default(),
            handover_pass: None,
            contracts: BTreeMap::new(),
            effects: Vec::new(),
            changes: Vec::new(),
            held: held::Held::default(),
        }
    }

    /// Does what time brings: heartbeats that did not come, windows, moves, leases. To be called every
    /// 100 ms or so.
    pub fn tick(&mut self, now: Instant) {
        self.watch_brokers(now);
        self.watch_answers(now);
        self.drive_sharers();
        self.drive_rounds();
        self.drive_handovers();
        self.drive_due(now);
        self.go_on(now);
        self.expire_contracts(now);
    }

    /// Takes what is to be done.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Takes what is to be made durable; before the effects that were taken after it are carried out. Where it cannot be,
    /// [`Core::hold`] is next.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.held.taken();
        std::mem::take(&mut self.changes)
    }

    /// Takes what is not needed any more: to be dropped where nobody waits for it.
    pub fn take_rubbish(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.rubbish)
    }

    fn discard(&mut self, thing: impl Any + Send) {
        self.rubbish.push(Box::new(thing));
    }

    /// Number of this life.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

#[cfg(test)]
mod tests;
