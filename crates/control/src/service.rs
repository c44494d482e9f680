//! The task that owns the control plane's state: commands, messages of brokers, time, and what
//! follows from them.
//!
//! Order matters in one place: a change that must survive a restart is written before the effects
//! that depend on it go out, and before its caller is answered. The store writes on its own thread;
//! nobody else waits for it. While it cannot be written, changes are refused, decisions wait, and
//! everything else goes on.

mod commands;
mod events;
mod keeping;
mod links;
mod outbox;
mod pace;
mod placing;
mod probe;
mod requests;
mod settle;
mod step;
mod surroundings;
mod turn;
mod waiting;
mod writer;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clock::Instant;
use link::{Order, ToBroker, ToController};
use tokio::sync::mpsc;

use crate::core::{BrokerNumber, Core, Effect, FitAnswer, Probe, ProbeAnswer, Refusal};
use crate::handle::{Command, Reply};
use crate::leadership::{Alone, Leadership};
use crate::link_server::RoomTaken;
use crate::store::{Change, Store};
use crate::view::TopicView;
use crate::{ControlError, ControlHandle, LinkProof};
use events::Events;
use keeping::Keeping;
use links::Links;
use outbox::Outbox;
pub use pace::{Pace, PaceView, TURN_GOAL};
use placing::Placing;
use requests::{REQUESTS_MAX, Requests};
use step::Step;
use surroundings::Process;
pub use surroundings::Surroundings;
use turn::Longest;
pub use turn::Next;
use writer::StoreThread;
pub use writer::{Writer, Written};

/// Commands that wait at most; askers wait beyond it.
const COMMANDS_MAX: usize = 4096;
/// Messages and events of links that wait at most; links are not read from beyond it.
const FROM_LINKS_MAX: usize = 4096;
/// As many are heard before what they change is written, at most: many changes at once are one commit.
const HEARD_AT_ONCE: usize = 256;
/// And for no longer than this, for the writing takes its time too.
const HEARING_TIME: Duration = Duration::from_millis(10);
/// While others have turns all the time, work done in parts has one turn after this many.
const TURNS_PER_PART: u32 = 8;
/// Changes that wait for the commit before them, and what rests on them; beyond either nothing is heard but the store.
const CHANGES_MAX: usize = 100_000;
const OUTPUTS_MAX: usize = 100_000;
/// Lives of the controller have numbers of their own where they are so long apart, kept or not.
const LIVES_APART: Duration = Duration::from_secs(1);
/// Time between two looks at what time brings.
const TICK: Duration = Duration::from_millis(50);

/// Events of a link.
#[derive(Debug)]
pub enum FromLink {
    /// A connection with its hello; orders go into `orders`.
    Hello {
        /// Number of the connection.
        link: u64,
        /// Where it comes from.
        from: IpAddr,
        /// Its hello.
        hello: Box<link::Hello>,
        /// Where its orders go; closed when the link is to be closed.
        orders: mpsc::Sender<Order>,
    },
    /// It said something; the room that it takes is free again once that was heard.
    Message(u64, Box<ToController>, RoomTaken),
    /// It is gone.
    Lost(u64),
}

/// Called to start one more broker: topic, and messages per second that fit nowhere.
pub type Spawner = Box<dyn FnMut(&str, f64) + Send>;

/// A service, the way in for whoever asks, and where links bring what brokers say.
pub type Opened = (Service, ControlHandle, mpsc::Sender<FromLink>);

/// The state and its surroundings.
pub struct Service {
    core: Core,
    keeping: Keeping,
    /// Outgoing messages, until the store has what they rest on.
    outbox: Outbox,
    requests: Requests,
    /// What was kept for the request that has come into force since.
    kept_first: Vec<Change>,
    /// Changes that came while the store was tried again; they are part of the next commit.
    left: Vec<Change>,
    links: Links,
    leadership: Box<dyn Leadership>,
    /// Another one leads: nothing is decided, kept or ordered here any more.
    is_deposed: bool,
    events: Events,
    spawner: Option<Spawner>,
    surroundings: Box<dyn Surroundings>,
    /// Callers that wait for a contract to be in force, by its number.
    waiting: BTreeMap<u64, (String, Reply<TopicView>)>,
    placing: Placing,
    /// Room taken by messages not yet heard in whole, by broker: links are not read while there is
    /// none.
    rooms: BTreeMap<BrokerNumber, Vec<RoomTaken>>,
    /// Callers that wait for a list of publishers to be taken.
    declared: BTreeMap<u64, (String, Reply<()>)>,
    /// Counts up when topics or channels have changed.
    holdings: Arc<AtomicU64>,
    pace: Pace,
    longest: Longest,
    commands: mpsc::Receiver<Command>,
    from_links: mpsc::Receiver<FromLink>,
    probed: mpsc::Receiver<(Probe, ProbeAnswer)>,
    fitted: mpsc::Receiver<FitAnswer>,
    written: mpsc::UnboundedReceiver<Written>,
}

impl Service {
    /// A service over what `store` holds, whose brokers prove what `proof` says; the handle is the way in for HTTP, the sender for links.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where the store cannot be read, or holds nothing and cannot be written. One that holds
    /// something and cannot be written is served from, and tried again.
    pub fn open(
        settings: crate::Settings,
        mut store: Box<dyn Store>,
        proof: impl Into<LinkProof>,
        spawner: Option<Spawner>,
    ) -> Result<Opened, ControlError> {
        let (probes, probed) = mpsc::channel(1024);
        let (fits, fitted) = mpsc::channel(64);
        let mut process = Process::new(proof.into(), probes, fits);
        let begun = Begun::new(&mut process, settings, store.as_mut())?;
        let (writer, written) = StoreThread::begin(store)?;
        let (mut service, handle, from_links) =
            Service::over(begun, Box::new(process), Box::new(writer), spawner);
        (service.probed, service.fitted, service.written) = (probed, fitted, written);
        Ok((service, handle, from_links))
    }

    /// The same with other surroundings than those of a process, which bring what `writer` has made of `store`; driven by
    /// [`Service::turn`] instead of [`Service::run`].
    ///
    /// # Errors
    /// As [`Service::open`].
    pub fn within(
        mut surroundings: Box<dyn Surroundings>,
        settings: crate::Settings,
        store: &mut dyn Store,
        writer: Box<dyn Writer>,
    ) -> Result<Opened, ControlError> {
        let begun = Begun::new(surroundings.as_mut(), settings, store)?;
        Ok(Service::over(begun, surroundings, writer, None))
    }

    fn over(
        begun: Begun,
        surroundings: Box<dyn Surroundings>,
        writer: Box<dyn Writer>,
        spawner: Option<Spawner>,
    ) -> Opened {
        let (commands_in, commands) = mpsc::channel(COMMANDS_MAX);
        let (to_service, from_links) = mpsc::channel(FROM_LINKS_MAX);
        let (events, listeners) = Events::new();
        let holdings = Arc::new(AtomicU64::new(0));
        let (keeping, store_state) = Keeping::new(writer);
        let pace = Pace::default();
        let shown = (Arc::clone(&holdings), pace.clone());
        let handle = ControlHandle::new(commands_in, listeners, shown, store_state);
        let epoch = begun.core.epoch();
        let mut service = Service {
            core: begun.core,
            keeping,
            outbox: Outbox::default(),
            requests: Requests::default(),
            kept_first: Vec::new(),
            left: Vec::new(),
            links: Links::new(epoch),
            leadership: Box::new(Alone { epoch }),
            is_deposed: false,
            events,
            spawner,
            surroundings,
            waiting: BTreeMap::new(),
            placing: Placing::default(),
            rooms: BTreeMap::new(),
            declared: BTreeMap::new(),
            holdings,
            pace,
            longest: Longest::default(),
            commands,
            from_links,
            probed: mpsc::channel(1).1,
            fitted: mpsc::channel(1).1,
            written: mpsc::unbounded_channel().1,
        };
        if let Some((changes, error)) = begun.unkept {
            let now = service.now();
            service.not_written(changes, Vec::new(), &error, now);
        }
        (service, handle, to_service)
    }

    /// The same, leading only as long as `leadership` says so, and in the life of the store's next number. From then on it answers
    /// questions about what it knew, and says to whoever wants more where the one that leads is.
    #[must_use]
    pub fn led_by(mut self, leadership: Box<dyn Leadership>) -> Service {
        self.leadership = leadership;
        self
    }

    /// Serves until told to stop; what was decided by then is kept, if it can be.
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
            let (hears, is_busy) = (!self.is_behind(), self.is_busy());
            let takes = hears && self.requests.waiting() < REQUESTS_MAX;
            let next = tokio::select! {
                () = &mut stopped => break,
                written = self.written.recv() => match written {
                    Some(written) => Next::Written(written),
                    None => break tracing::error!("the store's thread has ended, and the controller with it"),
                },
                Some(command) = self.commands.recv(), if takes => Next::Command(command),
                Some(brought) = self.from_links.recv(), if hears => Next::FromLink(brought),
                Some((probe, answer)) = self.probed.recv(), if hears => Next::Probed(probe, answer),
                Some(answer) = self.fitted.recv(), if hears => Next::Fitted(answer),
                _ = tick.tick(), if hears => Next::Tick,
                // Others are heard between two parts of what takes long.
                () = tokio::task::yield_now(), if hears && is_busy => Next::Part,
            };
            others = match &next {
                Next::Part => 0,
                _ => others + 1,
            };
            self.turn(next);
            if others >= TURNS_PER_PART && self.is_busy() && !self.is_behind() {
                others = 0;
                self.turn(Next::Part);
            }
        }
        self.finish().await;
    }

    /// Whether so much waits for the store that nothing more is heard before it has taken some.
    fn is_behind(&self) -> bool {
        self.core.changes() > CHANGES_MAX || self.outbox.waiting() > OUTPUTS_MAX
    }

    /// Has everything written that was decided, and done what rests on it; not what cannot be written.
    async fn finish(&mut self) {
        self.requests.give_up();
        self.settle();
        while self.keeping.is_writing() {
            let Some(written) = self.written.recv().await else {
                return;
            };
            self.requests.give_up();
            self.turn(Next::Written(written));
        }
    }

    fn now(&self) -> Instant {
        self.surroundings.now()
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(number, order) => self.links.order(&self.keeping, number, *order),
            Effect::CloseLink(link) => self.links.close(link),
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
                let prepared = self.placing.prepared(&self.core, topic.as_deref());
                for asker in prepared {
                    self.tell_place(asker);
                }
            }
            Effect::Tell(event) => self.events.tell(event, self.surroundings.wall_ms()),
        }
    }

    /// Hears what a link brings, and what others have brought meanwhile.
    fn hear_links(&mut self, first: FromLink) {
        let (mut next, began) = (Some(first), self.now());
        for count in 1.. {
            let Some(brought) = next.take() else {
                return;
            };
            if matches!(brought, FromLink::Hello { .. }) {
                // Orders that are to go are for the link before this one.
                self.settle();
            }
            let (step, heard_at) = (Step::from(&brought), self.now());
            self.hear_link(brought);
            let has_time = self.note_step(step, heard_at) - began < HEARING_TIME;
            if count < HEARD_AT_ONCE && has_time {
                next = self.from_links.try_recv().ok();
            }
        }
    }

    fn hear_link(&mut self, brought: FromLink) {
        let now = self.now();
        if brought.touches_holdings() {
            self.holdings.fetch_add(1, Ordering::Release);
        }
        match brought {
            FromLink::Hello {
                link,
                from,
                hello,
                orders,
            } => match self.core.hello((link, from), &hello, now) {
                Ok(number) => self.links.joined(number, link, orders),
                Err(Refusal { reason, passes }) => {
                    tracing::warn!(broker = hello.broker, "hello refused: {reason}");
                    let refusal = ToBroker::Refused { reason, passes };
                    self.links.refuse(&orders, refusal);
                }
            },
            FromLink::Message(link, message, room) => {
                if let Some(number) = self.links.broker(link) {
                    self.core.heard(number, *message, now);
                    if self.core.is_hearing(number) {
                        self.rooms.entry(number).or_default().push(room);
                    }
                }
            }
            FromLink::Lost(link) => {
                self.links.close(link);
                self.core.link_lost(link, now);
            }
        }
    }
}

/// What a life begins with.
struct Begun {
    core: Core,
    /// What could not be kept at the beginning, and why.
    unkept: Option<(Vec<Change>, ControlError)>,
}

impl Begun {
    /// Reads back what `store` holds, and keeps that another life has begun.
    fn new(
        surroundings: &mut dyn Surroundings,
        settings: crate::Settings,
        store: &mut dyn Store,
    ) -> Result<Begun, ControlError> {
        let settings = crate::Settings {
            least_epoch: surroundings.wall_ms() / 1000,
            ..settings
        };
        let mut core = Core::restore(settings, store, surroundings.now())?;
        let is_first = !core.has_gossip_key();
        if is_first {
            core.set_gossip_key(surroundings.secret()?);
        }
        core.set_handover_pass(surroundings.secret()?);
        let changes = core.take_changes();
        let unkept = store.commit(&changes).err();
        match unkept.as_ref().filter(|_| is_first) {
            None => Ok(Begun {
                core,
                unkept: unkept.map(|error| (changes, error)),
            }),
            Some(reason) => Err(ControlError::Unavailable(format!(
                "nothing has been kept here yet, and nothing can be ({reason}); make room and start again"
            ))),
        }
    }
}

impl FromLink {
    /// Whether topics or channels may be others afterwards.
    fn touches_holdings(&self) -> bool {
        match self {
            FromLink::Hello { .. } | FromLink::Lost(_) => true,
            FromLink::Message(_, message, _) => matches!(
                **message,
                ToController::Inventory { .. }
                    | ToController::Changed { .. }
                    | ToController::TopicAsked { .. }
                    | ToController::TopicReady { .. }
            ),
        }
    }
}

/// The caller may have gone; then nobody misses the answer.
fn answer<T>(reply: Reply<T>, with: Result<T, ControlError>) {
    let _ = reply.send(with);
}

#[cfg(test)]
mod tests;
