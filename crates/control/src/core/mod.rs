//! The control plane as a pure state machine: messages come in with their time, and [`Effect`]s and
//! [`Change`]s come out. The shells around it ([`crate::service`]) own sockets, files and clocks.

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
mod ground;
mod handover;
mod heard;
mod hearing;
mod held;
mod holdings;
mod inventory;
mod joining;
mod moves;
mod names;
mod operate;
mod outbox;
mod overload;
mod owed;
mod parts;
mod persist;
mod place;
mod prepare;
mod presence;
mod publisher;
mod rates;
mod registry;
mod relief;
mod reports;
mod request;
mod rounds;
mod seats;
mod settings;
mod sharers;
mod shares;
mod tally;
mod teller;
mod topic;
mod topics;
mod trace;
mod turns;
mod views;
mod window;

use std::any::Any;
use std::time::Duration;

use clock::Instant;

use catalog::Catalog;
use channels::Channels;
use contract::Contracts;
use declaring::Declaring;
use due::Due;
use fit::{Fitter, fit_due};
use forgetting::Forgetting;
use ground::Ground;
use handover::Handovers;
use moves::{Mover, Moves};
use names::Names;
use outbox::Outbox;
use parts::{Job, Jobs, Sizes};
use place::Distributor;
use prepare::next_late;
use publisher::Row;
use registry::Brokers;
use relief::Rebalancer;
use rounds::Rounds;
use settings::Rules;
use sharers::Sharing;
use shares::Adaptor;
use teller::Teller;
use turns::BrokerTurns;
use views::Views;
use window::Windows;

pub use broker::{Broker, BrokerNumber, Liveness};
pub use catalog::CHANNELS_MAX;
pub use declaring::Declared;
pub use due::Work;
pub use effect::{Effect, Event, Probe, ProbeAnswer};
pub use fit::{FitAnswer, FitJob};
pub use inventory::{Inventory, Topics};
pub use names::NAMES_MAX;
pub use persist::publisher_key;
pub use registry::{DEAD_KEPT, Refusal};
pub use settings::{Settings, check_settings};
pub use topic::{Topic, no_publisher};

use crate::ControlError;
use crate::store::{Change, Store};

/// Brokers known at most, those that are not dead; as many dead ones are remembered.
pub const BROKERS_MAX: usize = 1024;
/// Topics known at most.
pub const TOPICS_MAX: usize = 131_072;
/// Publishers of all topics at most.
pub const PUBLISHERS_MAX: usize = 1_000_000;

/// The state of the control plane: parts that each own what they are about. What takes several of them borrows just these.
#[derive(Debug)]
pub struct Core {
    rules: Rules,
    brokers: Brokers,
    topics: topics::Topics,
    contracts: Contracts,
    catalog: Catalog,
    names: Names,
    sharing: Sharing,
    rounds: Rounds,
    handovers: Handovers,
    moves: Moves,
    windows: Windows,
    due: Due,
    /// Brokers that join, in parts.
    joining: BrokerTurns,
    /// Brokers with reports that were not heard in whole.
    hearing: BrokerTurns,
    jobs: Jobs,
    declaring: Declaring,
    forgetting: Forgetting,
    out: Outbox,
}

/// Between two looks at the brokers there is less time than this, unless the controller was kept from running.
const PAUSE_MIN: Duration = Duration::from_secs(1);

impl Core {
    /// An empty control plane in its `epoch`-th life.
    #[must_use]
    pub fn new(settings: Settings, epoch: u64, now: Instant) -> Core {
        let sizes = Sizes::default();
        Core {
            rules: Rules {
                settings,
                epoch,
                sizes,
            },
            brokers: Brokers::new(now),
            topics: topics::Topics::default(),
            contracts: Contracts::default(),
            catalog: Catalog::default(),
            names: Names::default(),
            sharing: Sharing::default(),
            rounds: Rounds::default(),
            handovers: Handovers::default(),
            moves: Moves::new(settings.moves_per_s, now),
            windows: Windows::default(),
            due: Due::default(),
            joining: BrokerTurns::default(),
            hearing: BrokerTurns::default(),
            jobs: Jobs::default(),
            declaring: Declaring::default(),
            forgetting: Forgetting::default(),
            out: Outbox::default(),
        }
    }

    /// Reads back what a former life kept and begins the next one.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the store cannot be read, or holds what cannot be understood.
    pub fn restore(
        settings: Settings,
        store: &dyn Store,
        now: Instant,
    ) -> Result<Core, ControlError> {
        persist::restore(settings, store, now)
    }

    /// Does what time brings: heartbeats that did not come, windows, moves, leases. To be called every
    /// 100 ms or so.
    pub fn tick(&mut self, now: Instant) {
        self.watch_brokers(now);
        self.watch_answers(now);
        self.drive_sharers();
        self.drive_rounds();
        handover::drive(&mut self.brokers, &mut self.out);
        self.due.begin(self.topics.loads.moving.len());
        self.go_on_due(now);
        self.go_on(now);
        self.contracts.expire(&self.brokers, &mut self.out, now);
    }

    /// Whether something is being worked off in parts: [`Core::go_on`] does the next.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let is_idle = self.joining.is_empty() && self.hearing.is_empty() && !self.jobs.is_busy();
        let is_told = !self.declaring.is_busy() && !self.forgetting.is_busy();
        self.due.is_busy() || self.catalog.is_busy() || !is_told || !is_idle
    }

    /// Does the next part of everything that is worked off in parts.
    pub fn go_on(&mut self, now: Instant) {
        let sizes = self.rules.sizes;
        self.channels().go_on_joining(now);
        self.go_on_hearing(now);
        self.catalog.go_on_orphans(&self.brokers, sizes.topics);
        self.go_on_declaring(now);
        self.forgetting.go_on(sizes.rows, &mut self.out);
        self.go_on_due(now);
        let (jobs, mut by) = self.jobs();
        jobs.go_on(&mut by, now);
    }

    /// The next part of what time brings for topics.
    fn go_on_due(&mut self, now: Instant) {
        let part = self.due.next(&mut self.topics, self.rules.sizes.topics);
        for name in part.fits {
            self.fitter().drive(&name, now);
        }
        for name in part.moving {
            self.mover().drive(&name, now);
        }
        for name in part.shares {
            self.adaptor().drive(&name, now);
        }
    }

    /// Takes the effects to carry out.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.out.take_effects()
    }

    /// Takes what is to be made durable; before the effects that were taken after it are carried out. Where it cannot be,
    /// [`Core::hold`] is next.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.out.take_changes()
    }

    /// How many changes have to be made durable.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.out.changes_count()
    }

    /// Takes what is not needed any more: to be dropped where nobody waits for it.
    pub fn take_rubbish(&mut self) -> Vec<Box<dyn Any + Send>> {
        self.out.take_rubbish()
    }

    /// The changes that were taken last cannot be kept now, nor those since. They are to be tried again until they are, those of
    /// [`Table::Shares`](crate::store::Table::Shares) excepted, which are taken back with the grants among `effects`: all that were
    /// not carried out. Gives the other effects, of which those that rest on the changes are to wait. Until [`Core::release`] no
    /// change of shares is made.
    pub fn hold(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let (topics, epoch) = (&mut self.topics, self.rules.epoch);
        held::hold(effects, topics, &self.brokers, epoch, &mut self.out)
    }

    /// Everything that was taken is kept now: shares may grow again.
    pub fn release(&mut self) {
        self.out.held.release();
    }

    /// Looks who has not reported for too long.
    ///
    /// A controller that was kept from running, by a busy machine or as a stopped process, has not read what was reported
    /// meanwhile: such a pause is nobody's silence.
    pub(super) fn watch_brokers(&mut self, now: Instant) {
        let settings = self.rules.settings;
        let pause = self.brokers.watch(now);
        if pause >= PAUSE_MIN {
            for broker in self.brokers.iter_mut() {
                broker.silent_since = now.min(broker.silent_since + pause);
                for since in broker.inventory.waiting.values_mut() {
                    *since = now.min(*since + pause);
                }
            }
        }
        for number in self.brokers.numbers() {
            let (silent_after, lost_after) = (settings.silent_after, settings.lost_after);
            let broker = &mut self.brokers[number];
            let quiet = now - broker.silent_since;
            match broker.liveness {
                Liveness::Up if quiet >= silent_after => {
                    broker.liveness = Liveness::Silent(now);
                    let text = format!("{} has not reported for {quiet:.1?}", broker.name);
                    self.out
                        .tell("broker-silent", None, Some(&self.brokers[number]), text);
                    self.look_at_all_shares();
                }
                Liveness::Silent(_) if quiet >= lost_after && !broker.is_given_up => {
                    broker.is_given_up = true;
                    let text = format!(
                        "{} stays silent: its publishers are placed elsewhere",
                        broker.name
                    );
                    self.out
                        .tell("broker-lost", None, Some(&self.brokers[number]), text);
                    self.give_up_placements(number, now);
                    self.recall_publishers(number, now);
                }
                _ => self
                    .brokers
                    .probe_due(number, &settings, &mut self.out, now),
            }
        }
        self.brokers.forget_long_dead(&mut self.out, now);
        self.brokers.departed.forget_old(&mut self.out, now);
    }

    /// Looks which brokers do not answer.
    pub(super) fn watch_answers(&mut self, now: Instant) {
        for number in self.brokers.numbers() {
            let broker = &mut self.brokers[number];
            if broker.inventory.waiting.is_empty() || broker.link.is_none() {
                continue;
            }
            let late = next_late(&mut broker.inventory, self.rules.sizes, now);
            for topic in late {
                if self.mover().waited(number, &topic) {
                    self.give_up_places(topic.as_str(), number, now);
                }
                self.mover().remind(number, &topic, now);
            }
        }
    }

    /// Publishers that are to go to a broker and are not there are placed elsewhere.
    fn give_up_places(&mut self, name: &str, number: BrokerNumber, now: Instant) {
        let is_meant = |row: &Row| row.broker == Some(number) && row.attached != Some(number);
        let mut rows_left = Some(usize::MAX);
        while let Some(below) = rows_left.take()
            && let Some(topic) = self.topics.get(name)
        {
            let sizes = self.rules.sizes;
            let looked = topic.publishers.look_below(below, sizes, is_meant);
            let mut distributor = self.distributor();
            distributor.place_elsewhere(name, &looked.found, now);
            rows_left = looked.rows_left;
        }
        self.mover().prepare_places(name, now);
    }

    /// Tells brokers who shares limits by gossip, if that has changed.
    fn drive_sharers(&mut self) {
        self.sharing
            .drive(&self.rules, &self.brokers, &mut self.out);
    }

    /// Begins another round if other brokers are there than before.
    fn drive_rounds(&mut self) {
        let (epoch, key) = (self.rules.epoch, self.sharing.key.as_ref());
        let is_new = self.rounds.drive(epoch, key, &self.brokers, &mut self.out);
        if is_new {
            self.look_at_all_shares();
        }
    }

    fn look_at_all_shares(&mut self) {
        self.due.look_at_all(self.topics.all().len());
    }

    fn fit_due(&mut self, name: &str, now: Instant) {
        let (topics, due) = (&mut self.topics, &mut self.due);
        fit_due(topics, due, &self.rules.settings, name, now);
    }

    fn begin_job(&mut self, job: Job, now: Instant) {
        let (jobs, mut by) = self.jobs();
        jobs.begin(job, &mut by, now);
    }

    /// The jobs over all topics, and the part that does them.
    fn jobs(&mut self) -> (&mut Jobs, Rebalancer<'_>) {
        let by = Rebalancer {
            rules: &self.rules,
            brokers: &mut self.brokers,
            topics: &mut self.topics,
            rounds: &self.rounds,
            due: &mut self.due,
            windows: &mut self.windows,
            moves: &self.moves,
            out: &mut self.out,
        };
        (&mut self.jobs, by)
    }

    /// How overload is answered.
    fn rebalancer(&mut self) -> Rebalancer<'_> {
        self.jobs().1
    }

    /// Who may use how much of a limit.
    fn adaptor(&mut self) -> Adaptor<'_> {
        let ground = self.fitter().ground;
        Adaptor { ground }
    }

    /// Where publishers go.
    fn distributor(&mut self) -> Distributor<'_> {
        let ground = self.fitter().ground;
        Distributor { ground }
    }

    /// How promises are fitted.
    fn fitter(&mut self) -> Fitter<'_> {
        Fitter {
            ground: Ground {
                rules: &self.rules,
                brokers: &self.brokers,
                topics: &mut self.topics,
                rounds: &self.rounds,
                due: &mut self.due,
                out: &mut self.out,
            },
            windows: &mut self.windows,
        }
    }

    /// Who moves now.
    fn mover(&mut self) -> Mover<'_> {
        Mover {
            teller: Teller {
                catalog: &self.catalog,
                contracts: &mut self.contracts,
                brokers: &mut self.brokers,
                out: &mut self.out,
            },
            topics: &mut self.topics,
            moves: &mut self.moves,
            due: &mut self.due,
        }
    }

    /// Who is told what of topics and channels.
    fn channels(&mut self) -> Channels<'_> {
        Channels {
            rules: &self.rules,
            topics: &self.topics,
            brokers: &mut self.brokers,
            catalog: &mut self.catalog,
            contracts: &mut self.contracts,
            joining: &mut self.joining,
            out: &mut self.out,
        }
    }

    /// What answers are made of.
    fn views(&self) -> Views<'_> {
        Views {
            rules: &self.rules,
            topics: &self.topics,
            brokers: &self.brokers,
            catalog: &self.catalog,
        }
    }
}

#[cfg(test)]
mod tests;
