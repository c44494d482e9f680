//! CPU shares with two reactors: who is charged for what. Charged time is counted within one run,
//! with no clock of the test's own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use broker::{Broker, BrokerError, Config, Handle, Operation, TaskRow};
use kernel::CpuShare;
use link::Contract;
use tokio::runtime::Runtime;

const REACTORS: usize = 2;

/// Messages of one command, and commands that are on their way before one is waited for.
const MESSAGES: usize = 200;
const WINDOW: usize = 64;

struct Fixture {
    broker: Broker,
    handle: Handle,
    runtime: Runtime,
}

/// Connections that publish.
struct Flood(Vec<JoinHandle<()>>);

/// What one reactor has charged, and how long it was busy.
#[derive(Clone, Debug)]
struct Charged {
    busy: Duration,
    tasks: Vec<Task>,
}

#[derive(Clone, Debug)]
struct Task {
    topic: Option<String>,
    is_home: bool,
    share: Option<f64>,
    used: Duration,
    waited: Duration,
}

impl Charged {
    fn task(&self, topic: &str) -> Option<&Task> {
        let mut tasks = self.tasks.iter();
        tasks.find(|task| task.topic.as_deref() == Some(topic))
    }

    fn of(&self, topic: &str) -> Duration {
        self.task(topic).map_or(Duration::ZERO, |task| task.used)
    }

    fn is_home(&self, topic: &str) -> bool {
        self.task(topic).is_some_and(|task| task.is_home)
    }

    /// What came between this and a later reading.
    fn to(&self, later: &Charged) -> Charged {
        let mut spent = later.clone();
        spent.busy -= self.busy;
        for task in &mut spent.tasks {
            let is_same = |before: &&Task| before.topic == task.topic;
            let before = self.tasks.iter().find(is_same);
            if let Some(before) = before {
                task.used -= before.used;
                task.waited -= before.waited;
            }
        }
        spent
    }

    fn since((before, after): (&Charged, &Charged)) -> Charged {
        before.to(after)
    }
}

impl Fixture {
    fn start() -> Fixture {
        let config = Config {
            tcp_address: SocketAddr::from(([127, 0, 0, 1], 0)),
            http_address: None,
            threads: REACTORS,
            mem_queue_size: 1_000,
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let broker = Broker::start(config).expect("a broker starts on a free port");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Fixture {
            handle: broker.handle(),
            broker,
            runtime: runtime.expect("a runtime"),
        }
    }

    fn declare(&self, topic: &str, share: f64) {
        self.try_declare(topic, Some(share)).expect("it fits");
    }

    fn try_declare(&self, topic: &str, share: Option<f64>) -> Result<(), BrokerError> {
        let contract = Contract {
            cpu_share: share.map(|share| CpuShare::new(share).expect("a share")),
            ..Contract::default()
        };
        let topic = topic.parse().expect("valid");
        self.runtime
            .block_on(self.handle.set_contract(topic, contract))
    }

    fn charged(&self) -> Vec<Charged> {
        let reports = self.runtime.block_on(self.handle.tasks()).expect("it runs");
        let charged = reports.into_iter().map(|report| {
            let task = |row: TaskRow| Task {
                topic: row.topic,
                is_home: row.is_home,
                share: row.stats.share.map(CpuShare::as_f64),
                used: row.stats.used,
                waited: row.stats.waited,
            };
            Charged {
                busy: report.busy,
                tasks: report.tasks.into_iter().map(task).collect(),
            }
        });
        charged.collect()
    }

    /// Connections on both reactors that publish to `topics` in turn, until they have done it `commands` times or it is over.
    fn flood(&self, topics: &[&str], commands: usize, is_over: &Arc<AtomicBool>) -> Flood {
        let each: Vec<Vec<u8>> = topics
            .iter()
            .map(|topic| {
                let mut command = Vec::new();
                wire::command::put_mpub(&mut command, topic, &[[7; 16]; MESSAGES]);
                command
            })
            .collect();
        let connect = |_| {
            let mut stream = TcpStream::connect(self.broker.tcp_address()).expect("connects");
            stream.write_all(wire::MAGIC_V2).expect("written");
            // An answer says that it lives somewhere; the next one is dealt to the other reactor.
            stream.write_all(&each[0]).expect("written");
            read_ok(&mut stream);
            let (each, is_over) = (each.clone(), Arc::clone(is_over));
            thread::spawn(move || {
                let mut unanswered = 0;
                for (_, command) in (0..commands).zip(each.iter().cycle()) {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    stream.write_all(command).expect("written");
                    unanswered += 1;
                    if unanswered > WINDOW {
                        read_ok(&mut stream);
                        unanswered -= 1;
                    }
                }
                for _ in 0..unanswered {
                    read_ok(&mut stream);
                }
            })
        };
        Flood((0..2 * REACTORS).map(connect).collect())
    }

    /// Two topics that live on different reactors, or on the same one.
    fn two_topics(&self, are_together: bool) -> [String; 2] {
        let mut homes: Vec<(String, usize)> = Vec::new();
        for number in 0.. {
            let topic = format!("t{number}#ephemeral");
            self.declare(&topic, 0.01);
            let charged = self.charged();
            let home = charged.iter().position(|reactor| reactor.is_home(&topic));
            let home = home.expect("it was made");
            let other = homes
                .iter()
                .find(|(_, other)| (home == *other) == are_together);
            if let Some((other, _)) = other {
                return [other.clone(), topic];
            }
            homes.push((topic, home));
        }
        unreachable!("names are many")
    }
}

impl Flood {
    fn end(self) {
        for thread in self.0 {
            thread.join().expect("no publisher panics");
        }
    }
}

fn read_ok(stream: &mut TcpStream) {
    let mut ok = [0; wire::OK_FRAME.len()];
    stream.read_exact(&mut ok).expect("an OK");
}

fn part(of: Duration, whole: Duration) -> f64 {
    of.as_secs_f64() / whole.as_secs_f64()
}

#[test]
fn what_a_flood_costs_is_charged_to_its_topic_on_every_reactor() {
    let fixture = Fixture::start();
    let [topic, _] = fixture.two_topics(false);
    fixture.declare(&topic, 0.1);
    let before = fixture.charged();
    let is_over = Arc::default();
    fixture.flood(&[&topic], 400, &is_over).end();
    let spent: Vec<Charged> = before
        .iter()
        .zip(&fixture.charged())
        .map(Charged::since)
        .collect();
    let busy: Duration = spent.iter().map(|reactor| reactor.busy).sum();
    let charged: Duration = spent.iter().map(|reactor| reactor.of(&topic)).sum();
    assert!(part(charged, busy) >= 0.9, "{charged:?} of {busy:?}");
    for reactor in &spent {
        // Its publishers are read and answered where they are, so it uses more than one core.
        let here = reactor.of(&topic);
        assert!(part(here, charged) > 0.02, "{here:?} of {charged:?}");
    }
    fixture.broker.stop();
}

#[test]
fn a_topic_keeps_its_part_beside_a_flood_from_elsewhere() {
    for are_together in [true, false] {
        let fixture = Fixture::start();
        let [calm, flood] = fixture.two_topics(are_together);
        fixture.declare(&calm, 0.5);
        fixture.declare(&flood, 0.1);
        let is_over = Arc::default();
        let floods = fixture.flood(&[&flood], usize::MAX, &is_over);
        let before = fixture.charged();
        fixture.flood(&[&calm], 400, &is_over).end();
        let after = fixture.charged();
        is_over.store(true, Ordering::Relaxed);
        floods.end();
        // All of it passes its home. Its part of the time in which it has work there is 0.5 to 0.1.
        let home = after.iter().position(|reactor| reactor.is_home(&calm));
        let home = home.expect("it has one");
        let spent = before[home].to(&after[home]);
        let calm = spent.task(&calm).expect("it is there");
        let had_work = calm.used + calm.waited;
        assert!(
            part(calm.used, had_work) >= 0.6,
            "{calm:?} beside {flood}: {spent:?}"
        );
        assert!(spent.of(&flood) > Duration::ZERO, "{spent:?}");
        fixture.broker.stop();
    }
}

#[test]
fn a_connection_that_publishes_to_two_topics_charges_both() {
    for are_together in [true, false] {
        let fixture = Fixture::start();
        let topics = fixture.two_topics(are_together);
        let before = fixture.charged();
        let is_over = Arc::default();
        let names = [topics[0].as_str(), topics[1].as_str()];
        fixture.flood(&names, 400, &is_over).end();
        let spent: Vec<Charged> = before
            .iter()
            .zip(&fixture.charged())
            .map(Charged::since)
            .collect();
        let of = |topic: &str| -> Duration { spent.iter().map(|reactor| reactor.of(topic)).sum() };
        let [first, second] = names.map(of);
        let least = part(first.min(second), first + second);
        assert!(least >= 0.2, "{first:?} and {second:?}: {spent:?}");
        fixture.broker.stop();
    }
}

#[test]
fn every_reactor_knows_every_share() {
    let fixture = Fixture::start();
    let [one, other] = fixture.two_topics(false);
    fixture.declare(&one, 0.7);
    let of = |topic: &str| -> Vec<Option<f64>> {
        let charged = fixture.charged();
        let of = |reactor: &Charged| reactor.task(topic).and_then(|task| task.share);
        charged.iter().map(of).collect()
    };
    assert_eq!(of(&one), [Some(0.7); REACTORS]);
    // Another reactor owns it, and refuses it all the same.
    let refused = fixture.try_declare(&other, Some(0.4));
    assert!(
        matches!(refused, Err(BrokerError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(of(&other), [Some(0.01); REACTORS]);
    let gone = fixture
        .handle
        .topic(one.parse().expect("valid"), Operation::Delete);
    fixture.runtime.block_on(gone).expect("it was there");
    fixture.try_declare(&other, Some(1.0)).expect("all is free");
    assert_eq!(
        (of(&one), of(&other)),
        (vec![None; REACTORS], vec![Some(1.0); REACTORS])
    );
    fixture.try_declare(&other, None).expect("less is free");
    assert_eq!(of(&other), [None; REACTORS]);
    fixture.broker.stop();
}
