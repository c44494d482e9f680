//! The controller's process: the real service, and a shell that carries links, questions and probes.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::{Instant, Streams};
use control::core::{Declared, FitJob, Probe};
use control::handle::{Command, Reply};
use control::link_server::RoomTaken;
use control::service::{FromLink, Next, Service, Surroundings, Writer, Written};
use control::store::{Change, Store};
use control::{ControlError, Settings};
use link::{Order, ToBroker};
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::sync::oneshot;

use crate::chance::Chance;
use crate::disk::StoreDisk;
use crate::event::{Actor, Answer, Ask, Event, Packet, StreamId};
use crate::outside::Outside;

/// Between two looks of the service at what time brings.
const TICK: Duration = Duration::from_millis(50);
/// A disk that is busy takes longer with this probability.
const SLOW_WRITES: f64 = 0.05;
/// The fraction of writes that are complete of those under way when a process is killed.
const WHOLE_AFTER_KILL: f64 = 0.5;
/// Orders that wait for one broker at most.
const ORDERS_MAX: usize = 4096;
const ME: Actor = Actor::Controller;

/// A process of the controller, or its place while none runs.
pub struct Controller {
    settings: Settings,
    /// What it keeps.
    pub disk: StoreDisk,
    service: Option<Service>,
    around: Arc<Mutex<Around>>,
    /// Processes so far.
    pub life: u64,
    links: BTreeMap<StreamId, Link>,
    questions: Vec<(StreamId, Question)>,
    goes_on: bool,
    /// What is being written to the disk.
    writing: Option<Vec<Change>>,
}

/// The service's surroundings.
struct Around {
    now: Instant,
    chance: Chance,
    disk_chance: Chance,
    probes: Vec<Probe>,
    fits: Vec<FitJob>,
    writes: Option<Vec<Change>>,
}

/// The service's side of [`Around`].
#[derive(Clone)]
struct Shared(Arc<Mutex<Around>>);

struct Link {
    number: u64,
    orders: Option<mpsc::Receiver<Order>>,
}

/// What waits for an answer.
enum Question {
    Topic(oneshot::Receiver<Result<api::view::TopicView, ControlError>>),
    Publisher(oneshot::Receiver<Result<api::view::PublisherView, ControlError>>),
    Publishers(oneshot::Receiver<Result<Vec<api::view::PublisherView>, ControlError>>),
    /// Whether a publisher is declared; then it is looked up, as the handle does.
    Declared(String, String, oneshot::Receiver<Result<(), ControlError>>),
    Holdings(oneshot::Receiver<Result<control::handle::Holdings, ControlError>>),
    Broker(oneshot::Receiver<Result<api::view::BrokerView, ControlError>>),
    Nothing(oneshot::Receiver<Result<(), ControlError>>),
}

impl Controller {
    /// One that was never started.
    #[must_use]
    pub fn new(settings: Settings, streams: &Streams) -> Controller {
        let around = Around {
            now: Instant::ZERO,
            chance: Chance::new(streams, "secrets"),
            disk_chance: Chance::new(streams, "disk"),
            probes: Vec::new(),
            fits: Vec::new(),
            writes: None,
        };
        Controller {
            settings,
            disk: StoreDisk::default(),
            service: None,
            around: Arc::new(Mutex::new(around)),
            life: 0,
            links: BTreeMap::new(),
            questions: Vec::new(),
            goes_on: false,
            writing: None,
        }
    }

    /// Whether a process runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.service.is_some()
    }

    /// Starts a process with what is kept; one that cannot write its store ends at once.
    pub fn start(&mut self, out: &mut Outside) {
        self.lock().now = out.net.now;
        let shared = Shared(Arc::clone(&self.around));
        let (around, writer) = (Box::new(shared.clone()), Box::new(shared));
        let opened = Service::within(around, self.settings, &mut self.disk, writer);
        let Ok((service, ..)) = opened else {
            return;
        };
        self.life += 1;
        self.service = Some(service);
        out.net.begins(ME, self.life);
        out.net.after(TICK, Event::Wake(ME, self.life));
    }

    /// kill -9.
    pub fn kill(&mut self, out: &mut Outside) {
        if self.service.take().is_some() {
            self.links.clear();
            self.questions.clear();
            self.goes_on = false;
            let mut around = self.lock();
            around.probes.clear();
            around.fits.clear();
            around.writes = None;
            let is_whole = around.disk_chance.happens(WHOLE_AFTER_KILL);
            drop(around);
            if let Some(changes) = self.writing.take().filter(|_| is_whole) {
                // A full disk takes nothing, and nobody hears of it.
                let _ = self.disk.commit(&changes);
            }
            out.net.ends(ME);
        }
    }

    /// 50 ms have passed.
    pub fn wake(&mut self, life: u64, out: &mut Outside) {
        if life == self.life && self.is_running() {
            out.net.after(TICK, Event::Wake(ME, life));
            self.turn(Next::Tick, out);
        }
    }

    /// Goes on with what takes long.
    pub fn part(&mut self, life: u64, out: &mut Outside) {
        if life == self.life && std::mem::take(&mut self.goes_on) {
            self.turn(Next::Part, out);
        }
    }

    /// An answer to what one of its lives asked for.
    pub fn answered(&mut self, life: u64, next: Next, out: &mut Outside) {
        if life == self.life {
            self.turn(next, out);
        }
    }

    /// The disk has done what it was told by one of its lives.
    pub fn written(&mut self, life: u64, out: &mut Outside) {
        if life != self.life {
            return;
        }
        if let Some(changes) = self.writing.take() {
            let result = self.disk.commit(&changes);
            self.turn(Next::Written(Written { changes, result }), out);
        }
    }

    /// Asks the process that runs something from outside; nothing where it cannot answer before its disk has.
    pub fn observe<T>(
        &mut self,
        make: impl FnOnce(Reply<T>) -> Command,
        out: &mut Outside,
    ) -> Option<Result<T, ControlError>> {
        let (reply, mut answer) = oneshot::channel();
        self.turn(Next::Command(make(reply)), out);
        answer.try_recv().ok()
    }

    /// Something arrives on a stream.
    pub fn arrives(&mut self, stream: StreamId, packet: Packet, out: &mut Outside) {
        match packet {
            Packet::ToController(message) => self.hear(stream, *message, out),
            Packet::Frame(bytes) => match link::decode(&bytes) {
                Ok(message) => self.hear(stream, message, out),
                Err(error) => out
                    .books
                    .breaks("frames", format!("the controller reads {error}")),
            },
            Packet::Ask(ask) => self.asked(stream, *ask, out),
            _ => {}
        }
    }

    /// A stream is gone.
    pub fn gone(&mut self, stream: StreamId, out: &mut Outside) {
        self.questions.retain(|(of, _)| *of != stream);
        if let Some(link) = self.links.remove(&stream) {
            self.turn(Next::FromLink(FromLink::Lost(link.number)), out);
        }
    }

    fn hear(&mut self, stream: StreamId, message: link::ToController, out: &mut Outside) {
        let number = stream.0;
        let next = match message {
            link::ToController::Hello(hello) => {
                let (orders, taken) = mpsc::channel(ORDERS_MAX);
                let orders_taken = Some(taken);
                let link = Link {
                    number,
                    orders: orders_taken,
                };
                self.links.insert(stream, link);
                FromLink::Hello {
                    link: number,
                    from: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    hello: Box::new(hello),
                    orders,
                }
            }
            message => FromLink::Message(number, Box::new(message), RoomTaken::default()),
        };
        self.turn(Next::FromLink(next), out);
    }

    fn asked(&mut self, stream: StreamId, ask: Ask, out: &mut Outside) {
        let (command, question) = match ask {
            Ask::PutTopic(topic, spec) => {
                let (reply, answer) = oneshot::channel();
                let command = Command::PutTopic(topic, spec, reply);
                (command, Question::Topic(answer))
            }
            Ask::Register(topic, spec) => {
                let (reply, answer) = oneshot::channel();
                let id = spec.id.clone();
                let list = match Declared::new(vec![spec]) {
                    Ok(list) => list,
                    Err(error) => {
                        let refused = Answer::Refused(error);
                        return out.say(stream, ME, Packet::Answer(Box::new(refused)));
                    }
                };
                let command = Command::PutPublishers(topic.clone(), list, reply);
                (command, Question::Declared(topic, id, answer))
            }
            Ask::Place(topic, id, avoid) => {
                let (reply, answer) = oneshot::channel();
                let command = Command::Publisher {
                    topic,
                    id,
                    avoid,
                    reply,
                };
                (command, Question::Publisher(answer))
            }
            Ask::Holdings => {
                let (reply, answer) = oneshot::channel();
                let command = Command::Holdings(None, usize::MAX, reply);
                (command, Question::Holdings(answer))
            }
            Ask::Change(topic, change) => {
                let (reply, answer) = oneshot::channel();
                let command = Command::ChangeTopic(topic, change, reply);
                (command, Question::Nothing(answer))
            }
            Ask::Drain(broker, is_drained) => {
                let (reply, answer) = oneshot::channel();
                let command = match is_drained {
                    true => Command::DrainBroker(broker, reply),
                    false => Command::ResumeBroker(broker, reply),
                };
                (command, Question::Broker(answer))
            }
            Ask::Remove(broker) => {
                let (reply, answer) = oneshot::channel();
                let command = Command::RemoveBroker(broker, reply);
                (command, Question::Nothing(answer))
            }
            Ask::HandOver(..) => return,
        };
        self.questions.push((stream, question));
        self.turn(Next::Command(command), out);
    }

    /// One turn of the service, and what follows from it.
    fn turn(&mut self, next: Next, out: &mut Outside) {
        self.lock().now = out.net.now;
        let Some(service) = &mut self.service else {
            return;
        };
        service.turn(next);
        if service.is_busy() && !std::mem::replace(&mut self.goes_on, true) {
            let event = Event::Part(self.life);
            out.net.after(Duration::from_millis(1), event);
        }
        self.send_orders(out);
        self.answer(out);
        self.look_around(out);
    }

    fn send_orders(&mut self, out: &mut Outside) {
        for (&stream, link) in &mut self.links {
            let Some(orders) = &mut link.orders else {
                continue;
            };
            loop {
                match orders.try_recv() {
                    Ok(order) => {
                        if let ToBroker::Welcome { .. } = order.order {
                            let began = out.books.names.began(order.epoch, self.life);
                            out.books.check("names", began);
                        }
                        out.say(stream, ME, Packet::Order(Box::new(order)));
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => {
                        link.orders = None;
                        out.net.close(stream, ME);
                        break;
                    }
                }
            }
        }
    }

    fn answer(&mut self, out: &mut Outside) {
        let answered = |question: &mut (StreamId, Question)| Some((question.0, question.1.take()?));
        let mut waiting = Vec::new();
        let mut next = Vec::new();
        for mut question in std::mem::take(&mut self.questions) {
            match (answered(&mut question), &mut question.1) {
                (Some((stream, Answer::Done)), Question::Declared(topic, id, _)) => {
                    let (reply, answer) = oneshot::channel();
                    let (topic, ids) = (std::mem::take(topic), vec![std::mem::take(id)]);
                    next.push(Command::PublishersNamed(topic, ids, reply));
                    waiting.push((stream, Question::Publishers(answer)));
                }
                (Some((stream, answer)), _) => {
                    out.say(stream, ME, Packet::Answer(Box::new(answer)));
                }
                (None, _) => waiting.push(question),
            }
        }
        self.questions = waiting;
        for command in next {
            self.turn(Next::Command(command), out);
        }
    }

    fn look_around(&mut self, out: &mut Outside) {
        let mut around = self.lock();
        let probes = std::mem::take(&mut around.probes);
        let fits = std::mem::take(&mut around.fits);
        let writes = around.writes.take();
        let write = writes.map(|changes| (changes, around.write_takes()));
        drop(around);
        if let Some((changes, took)) = write {
            self.writing = Some(changes);
            out.net.after(took, Event::Written(self.life));
        }
        for probe in probes {
            let way = out.net.way();
            out.net.after(way, Event::Probe(self.life, probe));
        }
        for job in fits {
            let answer = Box::new(job.run());
            let took = out.net.way() + Duration::from_millis(5);
            out.net.after(took, Event::Fitted(self.life, answer));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Around> {
        self.around.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Around {
    /// How long the disk takes for the next write.
    fn write_takes(&mut self) -> Duration {
        match self.disk_chance.happens(SLOW_WRITES) {
            true => self.disk_chance.span_ms(5, 200),
            false => self.disk_chance.span_us(200, 3000),
        }
    }
}

impl Question {
    /// The answer, if there is one.
    fn take(&mut self) -> Option<Answer> {
        match self {
            Question::Topic(answer) => heard(answer, |_| Answer::Done),
            Question::Publisher(answer) => heard(answer, |view| Answer::Publishers(vec![view])),
            Question::Publishers(answer) => heard(answer, Answer::Publishers),
            Question::Declared(_, _, answer) => heard(answer, |()| Answer::Done),
            Question::Holdings(answer) => heard(answer, |held| Answer::Holdings(Box::new(held))),
            Question::Broker(answer) => heard(answer, |_| Answer::Done),
            Question::Nothing(answer) => heard(answer, |()| Answer::Done),
        }
    }
}

fn heard<T>(
    answer: &mut oneshot::Receiver<Result<T, ControlError>>,
    meaning: impl FnOnce(T) -> Answer,
) -> Option<Answer> {
    match answer.try_recv() {
        Ok(Ok(value)) => Some(meaning(value)),
        Ok(Err(error)) => Some(Answer::Refused(error)),
        Err(oneshot::error::TryRecvError::Empty) => None,
        Err(oneshot::error::TryRecvError::Closed) => Some(Answer::Refused(
            ControlError::Unavailable(String::from("nobody answers")),
        )),
    }
}

impl Surroundings for Shared {
    fn now(&self) -> Instant {
        self.lock().now
    }

    fn wall_ms(&self) -> u64 {
        self.lock().now.as_nanos() / 1_000_000
    }

    fn secret(&mut self) -> Result<String, ControlError> {
        let mut around = self.lock();
        let digits = (0..4).map(|_| format!("{:016x}", around.chance.number()));
        Ok(digits.collect())
    }

    fn probe(&mut self, probe: Probe) {
        self.lock().probes.push(probe);
    }

    fn fit(&mut self, job: Box<FitJob>) {
        self.lock().fits.push(*job);
    }

    fn dispose(&mut self, _rubbish: Box<dyn Any + Send>) {}
}

impl Writer for Shared {
    fn write(&mut self, changes: Vec<Change>) {
        self.lock().writes = Some(changes);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Around> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
