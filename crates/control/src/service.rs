//! The task that owns the control plane's state: commands, brokers' words, time, and what follows from them.
//!
//! Order matters in one place: what is to outlive a restart is written before the effects that rest on it go out, and before
//! whoever asked for it is answered. While the store cannot be written, changes are refused, what was decided waits, and
//! everything else goes on.

mod commands;
mod keeping;
mod pace;
mod placing;
mod probe;
mod settle;
mod step;
mod surroundings;
mod turn;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Instant;
use link::{LinkKey, ToBroker, ToController};
use tokio::sync::{broadcast, mpsc};

use crate::core::{BrokerNumber, Core, Effect, FitAnswer, Probe, ProbeAnswer, Refusal};
use crate::handle::{Command, Reply};
use crate::link_server::RoomTaken;
use crate::store::{Change, Store};
use crate::view::{EventView, TopicView};
use crate::{ControlError, ControlHandle};
use keeping::Keeping;
pub use pace::{Pace, PaceView, TURN_GOAL};
use placing::Placing;
use step::Step;
use surroundings::Process;
pub use surroundings::Surroundings;
use turn::Longest;
pub use turn::Next;
use waiting::Waiting;

/// Commands that wait at most; askers wait beyond it.
const COMMANDS_MAX: usize = 4096;
/// Words of brokers that wait at most; links are not read from beyond it.
const WORDS_MAX: usize = 4096;
/// Words that are heard before what they change is written, at most: many changes at once are one commit.
const WORDS_AT_ONCE: usize = 256;
/// And for no longer than this, for the writing takes its time too.
const WORDS_TIME: Duration = Duration::from_millis(10);
/// While others have turns all the time, what is worked off in parts has one after so many.
const TURNS_PER_PART: u32 = 8;
/// Events that a slow reader may lag behind.
const EVENTS_MAX: usize = 4096;
/// Lives of the controller have numbers of their own where they are so long apart, kept or not.
const LIVES_APART: Duration = Duration::from_secs(1);
/// Time between two looks at what time brings.
const TICK: Duration = Duration::from_millis(50);

/// What a link brings.
#[derive(Debug)]
pub enum LinkWord {
    /// A connection with its hello; orders go into `orders`.
    Hello {
        /// Number of the connection.
        link: u64,
        /// Where it comes from.
        from: IpAddr,
        /// What it said.
        hello: Box<link::Hello>,
        /// Where its orders go; closed when the link is to be closed.
        orders: mpsc::Sender<ToBroker>,
    },
    /// It said something; the room that it takes is free again once that was heard.
    Said(u64, Box<ToController>, RoomTaken),
    /// It is gone.
    Lost(u64),
}

/// Asked to start one more broker: topic, and messages per second that fit nowhere.
pub type Spawner = Box<dyn FnMut(&str, f64) + Send>;

/// The state and its surroundings.
pub struct Service {
    core: Core,
    keeping: Keeping,
    /// What was kept for the request that is coming into force.
    kept_first: Vec<Change>,
    /// What waits for the store.
    held_back: Waiting,
    spawner: Option<Spawner>,
    surroundings: Box<dyn Surroundings>,
    links: HashMap<u64, (BrokerNumber, mpsc::Sender<ToBroker>)>,
    link_of: HashMap<BrokerNumber, u64>,
    waiting: BTreeMap<u64, (String, Reply<TopicView>)>,
    placing: Placing,
    /// Room of words that were not heard in whole, by broker: links are not read from while there is none.
    rooms: BTreeMap<BrokerNumber, Vec<RoomTaken>>,
    /// Who waits for a list of publishers to be taken.
    declared: BTreeMap<u64, (String, Reply<()>)>,
    /// Counts up when topics or channels have changed.
    holdings: Arc<AtomicU64>,
    pace: Pace,
    longest: Longest,
    commands: mpsc::Receiver<Command>,
    words: mpsc::Receiver<LinkWord>,
    probed: mpsc::Receiver<(Probe, ProbeAnswer)>,
    fitted: mpsc::Receiver<FitAnswer>,
    events: broadcast::Sender<EventView>,
    event_number: u64,
}

impl Service {
    /// A service over what `store` holds, whose brokers prove `key`; the handle is the way in for HTTP, the sender for links.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the store cannot be read, or holds nothing and cannot be written. One that holds
    /// something and cannot be written is served from, and tried again.
    pub fn open(
        settings: crate::Settings,
        store: Box<dyn Store>,
        key: LinkKey,
        spawner: Option<Spawner>,
    ) -> Result<(Service, ControlHandle, mpsc::Sender<LinkWord>), ControlError> {
        let (probes, probed) = mpsc::channel(1024);
        let (fits, fitted) = mpsc::channel(64);
        let process = Box::new(Process::new(key, probes, fits));
        let (mut service, handle, words) = Service::within(process, settings, store, spawner)?;
        (service.probed, service.fitted) = (probed, fitted);
        Ok((service, handle, words))
    }

    /// The same with other surroundings than those of a process; driven by [`Service::turn`] instead of [`Service::run`].
    ///
    /// # Errors
    /// As [`Service::open`].
    pub fn within(
        mut surroundings: Box<dyn Surroundings>,
        settings: crate::Settings,
        store: Box<dyn Store>,
        spawner: Option<Spawner>,
    ) -> Result<(Service, ControlHandle, mpsc::Sender<LinkWord>), ControlError> {
        let settings = crate::Settings {
            least_epoch: surroundings.wall_ms() / 1000,
            ..settings
        };
        let mut core = Core::restore(settings, store.as_ref(), surroundings.now())?;
        let is_first = !core.has_gossip_key();
        if is_first {
            core.set_gossip_key(surroundings.secret()?);
        }
        core.set_handover_pass(surroundings.secret()?);
        let (commands_in, commands) = mpsc::channel(COMMANDS_MAX);
        let (words_in, words) = mpsc::channel(WORDS_MAX);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let holdings = Arc::new(AtomicU64::new(0));
        let (keeping, store_state) = Keeping::new(store);
        let pace = Pace::default();
        let shown = (Arc::clone(&holdings), pace.clone());
        let handle = ControlHandle::new(commands_in, events.clone(), shown, store_state);
        let mut service = Service {
            core,
            keeping,
            kept_first: Vec::new(),
            held_back: Waiting::default(),
            spawner,
            surroundings,
            links: HashMap::new(),
            link_of: HashMap::new(),
            waiting: BTreeMap::new(),
            placing: Placing::default(),
            rooms: BTreeMap::new(),
            declared: BTreeMap::new(),
            holdings,
            pace,
            longest: Longest::default(),
            commands,
            words,
            probed: mpsc::channel(1).1,
            fitted: mpsc::channel(1).1,
            events,
            event_number: 0,
        };
        service.settle();
        match service.keeping.failure().filter(|_| is_first) {
            None => Ok((service, handle, words_in)),
            Some(reason) => Err(ControlError::Unavailable(format!(
                "nothing was ever kept here, and nothing can be ({reason}); make room and start again"
            ))),
        }
    }

    /// Serves until told to stop.
    pub async fn run(mut self, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        if self.keeping.is_waiting() {
            // The number of this life is not kept: the next one begins in another second.
            tokio::select! {
                () = &mut stopped => return,
                () = tokio::time::sleep(LIVES_APART) => {}
            }
        }
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut others = 0;
        loop {
            let next = tokio::select! {
                () = &mut stopped => break,
                Some(command) = self.commands.recv() => Next::Command(command),
                Some(word) = self.words.recv() => Next::Word(word),
                Some((probe, answer)) = self.probed.recv() => Next::Probed(probe, answer),
                Some(answer) = self.fitted.recv() => Next::Fitted(answer),
                _ = tick.tick() => Next::Tick,
                // Others are heard between two parts of what takes long.
                () = tokio::task::yield_now(), if self.core.is_busy() => Next::Part,
            };
            others = match &next {
                Next::Part => 0,
                _ => others + 1,
            };
            self.turn(next);
            if others >= TURNS_PER_PART && self.core.is_busy() {
                others = 0;
                self.turn(Next::Part);
            }
        }
    }

    fn now(&self) -> Instant {
        self.surroundings.now()
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(number, message) => self.order(number, *message),
            Effect::CloseLink(link) => {
                self.links.remove(&link);
            }
            Effect::Probe(probe) => self.surroundings.probe(probe),
            Effect::Fit(job) => self.surroundings.fit(job),
            Effect::Spawn { topic, missing } => {
                if let Some(spawner) = &mut self.spawner {
                    spawner(&topic, missing);
                }
            }
            Effect::ContractSettled { ticket, missing } => self.contract_settled(ticket, &missing),
            Effect::Declared(number) => self.list_declared(number),
            Effect::Prepared { topic } => {
                let kept = (&self.core, &self.keeping);
                self.placing.prepared(kept, topic.as_deref());
            }
            Effect::Tell(event) => self.tell(event),
        }
    }

    /// A broker that does not take its orders is as good as away: the link is closed, leases do the rest.
    fn send(&mut self, number: BrokerNumber, message: ToBroker) {
        let Some(link) = self.link_of.get(&number).copied() else {
            return;
        };
        let Some((_, orders)) = self.links.get(&link) else {
            return;
        };
        if orders.try_send(message).is_err() {
            self.links.remove(&link);
        }
    }

    /// Hears a word, and those that have come meanwhile.
    fn words_from(&mut self, first: LinkWord) {
        let (mut next, began) = (Some(first), self.now());
        for count in 1.. {
            let Some(word) = next.take() else {
                return;
            };
            if matches!(word, LinkWord::Hello { .. }) {
                // Orders that are to go are for the link before this one.
                self.settle();
            }
            let (step, heard_at) = (Step::from(&word), self.now());
            self.word(word);
            let has_time = self.note_step(step, heard_at) - began < WORDS_TIME;
            if count < WORDS_AT_ONCE && has_time {
                next = self.words.try_recv().ok();
            }
        }
    }

    fn word(&mut self, word: LinkWord) {
        let now = self.now();
        if word.touches_holdings() {
            self.holdings.fetch_add(1, Ordering::Release);
        }
        match word {
            LinkWord::Hello {
                link,
                from,
                hello,
                orders,
            } => match self.core.hello((link, from), &hello, now) {
                Ok(number) => {
                    self.held_back.forget(number);
                    self.links.insert(link, (number, orders));
                    self.link_of.insert(number, link);
                }
                Err(Refusal { reason, passes }) => {
                    tracing::warn!(broker = hello.broker, "hello refused: {reason}");
                    // It has room for its first message.
                    let _ = orders.try_send(ToBroker::Refused { reason, passes });
                }
            },
            LinkWord::Said(link, message, room) => {
                if let Some(&(number, _)) = self.links.get(&link)
                    && self.link_of.get(&number) == Some(&link)
                {
                    self.core.heard(number, *message, now);
                    if self.core.is_hearing(number) {
                        self.rooms.entry(number).or_default().push(room);
                    }
                }
            }
            LinkWord::Lost(link) => {
                self.links.remove(&link);
                self.core.link_lost(link, now);
            }
        }
    }
}

impl LinkWord {
    /// Whether topics or channels may be others afterwards.
    fn touches_holdings(&self) -> bool {
        match self {
            LinkWord::Hello { .. } | LinkWord::Lost(_) => true,
            LinkWord::Said(_, word, _) => matches!(
                **word,
                ToController::Inventory { .. }
                    | ToController::Changed { .. }
                    | ToController::TopicAsked { .. }
                    | ToController::TopicReady { .. }
            ),
        }
    }
}

/// Whoever asked may have gone; then nobody misses the answer.
fn answer<T>(reply: Reply<T>, with: Result<T, ControlError>) {
    let _ = reply.send(with);
}

#[cfg(test)]
mod tests;
