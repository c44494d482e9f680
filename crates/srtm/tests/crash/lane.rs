//! One broker with its data folder, killed again and again under load; at the end everything is consumed and the books are closed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::{Streams, Xoshiro256PlusPlus, below, uniform};
use serde_json::Value;

use crate::books::{Books, Verdict};
use crate::broker::{Addresses, Life};
use crate::clocks::{End, now};
use crate::connection::request;
use crate::consumers::Consumer;
use crate::publishers::{Kind, Publisher};

/// Topics: name, further words of the contract, channels. The last channel of a topic has no consumer most of the time.
const TOPICS: [(&str, &str, &[&str]); 3] = [
    ("one", "", &["work"]),
    ("two", "", &["work", "away"]),
    (
        "limited",
        r#""limit":{"rate":3000,"burst":300},"#,
        &["work", "away"],
    ),
];
/// Nothing more was finished for so long: the rest is lost.
const QUIET: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) durability: &'static str,
    pub(crate) threads: usize,
    /// `--mem-queue-size`.
    pub(crate) queue_messages: usize,
    pub(crate) kills: usize,
    /// It goes on beyond its kills until so many messages were accepted.
    pub(crate) messages: usize,
}

/// What a plan came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    pub(crate) kills: usize,
    /// RDY counts of a channel's consumers, summed, at most.
    pub(crate) in_flight_max: usize,
    pub(crate) slowest_start: Duration,
    pub(crate) verdict: Verdict,
    /// Where the data folder is, for those who look into it.
    pub(crate) folder: PathBuf,
}

/// A lane while it runs.
#[derive(Debug)]
struct Lane {
    plan: Plan,
    folder: PathBuf,
    streams: Streams,
    random: Xoshiro256PlusPlus,
    books: Arc<Mutex<Books>>,
    kills: usize,
    in_flight_max: usize,
    slowest_start: Duration,
}

/// Runs a plan to its end.
pub(crate) fn run(plan: Plan, folder: PathBuf) -> Outcome {
    // What a former run left there is of another seed.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let streams = Streams::new(plan.seed);
    let channels = TOPICS.map(|(_, _, channels)| channels.len());
    let mut lane = Lane {
        random: streams.stream("lane"),
        books: Arc::new(Mutex::new(Books::new(plan.seed, &channels))),
        streams,
        folder,
        kills: 0,
        in_flight_max: 0,
        slowest_start: Duration::ZERO,
        plan,
    };
    lane.found();
    while lane.kills < lane.plan.kills || lane.books().accepted_count() < lane.plan.messages {
        lane.live_and_die();
    }
    lane.settle();
    let verdict = lane.books().verdict(lane.in_flight_max);
    Outcome {
        plan: lane.plan,
        kills: lane.kills,
        in_flight_max: lane.in_flight_max,
        slowest_start: lane.slowest_start,
        verdict,
        folder: lane.folder,
    }
}

impl Lane {
    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.books.lock().expect("no panic")
    }

    fn begin(&self) -> Life {
        let (threads, queue) = (
            self.plan.threads.to_string(),
            self.plan.queue_messages.to_string(),
        );
        let flags = [
            "--threads",
            &threads,
            "--mem-queue-size",
            &queue,
            "--drain-timeout",
            "1s",
        ];
        Life::begin(&self.folder, &flags)
    }

    fn listening(&mut self, life: &mut Life) -> Addresses {
        let (addresses, took) = life.listening();
        self.slowest_start = self.slowest_start.max(took);
        addresses
    }

    /// Topics, contracts and channels are made, and are in the catalog.
    fn found(&mut self) {
        let mut life = self.begin();
        let http = self.listening(&mut life).http;
        for (topic, words, channels) in TOPICS {
            let durability = self.plan.durability;
            let contract = format!(r#"{{{words}"on_full":"block","durability":"{durability}"}}"#);
            let line = format!("PUT /v1/topics/{topic}");
            ask(&http, &line, contract.as_bytes());
            for channel in channels {
                let line = format!("POST /channel/create?topic={topic}&channel={channel}");
                ask(&http, &line, b"");
            }
        }
        // A stop writes the catalog.
        let (status, log) = life.stop();
        assert!(status.success(), "{status}:\n{}", log.join("\n"));
    }

    /// One life under load.
    fn live_and_die(&mut self) {
        let mut life = self.begin();
        // Some do not live to see a client.
        let is_stillborn = below(&mut self.random, 8) == 0;
        let span = 0.06 * uniform(&mut self.random);
        if is_stillborn {
            life.addresses(Duration::from_secs_f64(span));
        } else {
            let addresses = self.listening(&mut life);
            let end = Arc::new(End::default());
            let clients = self.clients(&addresses, &end);
            let is_long = below(&mut self.random, 15) == 0;
            let span_s = if is_long { 2.5 } else { 0.3 };
            let span = Duration::from_secs_f64(0.02 + span_s * uniform(&mut self.random));
            // Nobody else tells the end.
            end.told_within(span);
            life.kill();
            end.tell();
            for client in clients {
                client.join().expect("a client goes on to the end");
            }
        }
        life.kill();
        self.kills += 1;
        self.books().next_life();
    }

    fn clients(&mut self, addresses: &Addresses, end: &Arc<End>) -> Vec<JoinHandle<()>> {
        let mut clients = Vec::new();
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let publisher = self.publisher(index, kind, end);
            let addresses = addresses.clone();
            clients.push(std::thread::spawn(move || publisher.run(&addresses)));
        }
        // Rarely, those who are away come.
        let are_all_here = below(&mut self.random, 10) == 0;
        for (topic, (_, _, channels)) in TOPICS.iter().enumerate() {
            for channel in 0..channels.len() {
                let count = match channel {
                    0 => 1 + below(&mut self.random, 2),
                    _ => u32::from(are_all_here),
                };
                let consumers = (0..count).map(|each| self.consumer((topic, channel), each, end));
                let consumers: Vec<Consumer> = consumers.collect();
                let ready = consumers.iter().map(|each| each.ready as usize).sum();
                self.in_flight_max = self.in_flight_max.max(ready);
                for consumer in consumers {
                    let tcp = addresses.tcp.clone();
                    clients.push(std::thread::spawn(move || {
                        // What fails is the broker's death.
                        let _gone = consumer.run(&tcp);
                    }));
                }
            }
        }
        clients
    }

    fn publisher(&self, index: usize, kind: Kind, end: &Arc<End>) -> Publisher {
        let name = format!("publisher {index} of life {}", self.kills);
        let mut random = self.streams.stream(&name);
        let topic = below(&mut random, TOPICS.len() as u32) as usize;
        Publisher {
            kind,
            seed: self.plan.seed,
            topic,
            topic_name: TOPICS[topic].0.to_owned(),
            messages_max: 20 + below(&mut random, 400) as usize,
            random,
            books: Arc::clone(&self.books),
            end: Arc::clone(end),
        }
    }

    fn consumer(&self, channel: (usize, usize), each: u32, end: &Arc<End>) -> Consumer {
        let (topic, number) = channel;
        let name = format!("consumer {each} of {topic}/{number} in life {}", self.kills);
        let mut random = self.streams.stream(&name);
        let (topic, _, channels) = TOPICS[topic];
        Consumer {
            channel,
            names: (topic.to_owned(), channels[number].to_owned()),
            ready: 1 + below(&mut random, 60),
            is_plain: false,
            random,
            books: Arc::clone(&self.books),
            end: Arc::clone(end),
        }
    }

    /// A last life, in which everything is consumed; then a stop, after which nothing is left.
    fn settle(&mut self) {
        let mut life = self.begin();
        let addresses = self.listening(&mut life);
        let end = Arc::new(End::default());
        let mut clients = Vec::new();
        for (topic, (_, _, channels)) in TOPICS.iter().enumerate() {
            for channel in 0..channels.len() {
                let plain = Consumer {
                    ready: 200,
                    is_plain: true,
                    ..self.consumer((topic, channel), 0, &end)
                };
                let tcp = addresses.tcp.clone();
                clients.push(std::thread::spawn(move || plain.run(&tcp)));
            }
        }
        let (mut last, mut since) = ((0, 0), now());
        loop {
            let (is_empty, finished) = (is_empty(&addresses.http), self.books().verdict(0));
            let state = (finished.deliveries, finished.finished);
            if state != last {
                (last, since) = (state, now());
            }
            // An empty broker gives nothing more.
            if is_empty && (finished.lost == 0 || now() - since > 10 * POLL) {
                break;
            }
            if now() - since > QUIET {
                break;
            }
            end.told_within(POLL);
        }
        end.tell();
        for client in clients {
            let ended = client.join().expect("no panic");
            ended.expect("the broker lives until it is stopped");
        }
        let (status, log) = life.stop();
        assert!(status.success(), "{status}:\n{}", log.join("\n"));
    }
}

/// Whether nothing waits, is deferred or in flight anywhere.
fn is_empty(http: &str) -> bool {
    let stats = ask(http, "GET /stats?format=json", b"");
    let stats: Value = serde_json::from_slice(&stats).expect("JSON");
    let count = |value: &Value| value.as_u64().expect("a number");
    let topics = stats["topics"].as_array().expect("a list");
    topics.iter().all(|topic| {
        let channels = topic["channels"].as_array().expect("a list");
        let waiting = channels.iter().map(|channel| {
            let counts = ["depth", "in_flight_count", "deferred_count"];
            counts.map(|name| count(&channel[name])).iter().sum::<u64>()
        });
        count(&topic["depth"]) + waiting.sum::<u64>() == 0
    })
}

/// What a broker answers that is not killed meanwhile.
fn ask(http: &str, line: &str, body: &[u8]) -> Vec<u8> {
    let (status, answer) = request(http, line, body).expect("it lives");
    let shown = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(status, 200, "{line}: {shown}");
    answer
}
