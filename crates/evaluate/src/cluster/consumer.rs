//! A consumer that finds its brokers by lookup, as stock consumers do, and counts its messages.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use api::{Bounds, Client, Target};
use serde_json::Value;

use bench::BenchError;
use bench::protocol::Protocol;
use bench::protocol::nsq::{Acknowledgement, Nsq};
use bench::stamp::Stamp;
use bench::subscriber::Subscriber;
use bench::sys::{monotonic_ns, pause_for};

/// Interval at which lookup is asked; stock consumers ask every minute.
const LOOK_NS: u64 = 100_000_000;
/// Rest of a round.
const REST: Duration = Duration::from_millis(1);
/// A lookup that does not answer within this time is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A consumer of one channel, at every broker that lookup names.
pub struct Consumer {
    /// Where it asks, and for what.
    lookup: Option<(Client, Target)>,
    protocol: Protocol,
    connections: BTreeMap<SocketAddr, Subscriber>,
    looked_ns: u64,
    counts: BTreeMap<u64, u64>,
    latest_ns: u64,
}

impl Consumer {
    /// One that has no broker yet.
    pub fn new(lookup: SocketAddr, topic: &str, channel: &str) -> Consumer {
        let bounds = Bounds {
            timeout: ANSWER_TIMEOUT,
            ..Bounds::default()
        };
        let client = Client::new(&lookup.to_string(), bounds);
        Consumer {
            lookup: Some((client, Target::new("/lookup").query("topic", topic))),
            protocol: Protocol::Nsq(Nsq {
                topic: topic.to_owned(),
                channel: channel.to_owned(),
                acknowledgement: Acknowledgement::Each,
                unbuffered: true,
            }),
            connections: BTreeMap::new(),
            looked_ns: 0,
            counts: BTreeMap::new(),
            latest_ns: 0,
        }
    }

    /// One that is told its broker and asks nobody.
    ///
    /// # Errors
    /// Where the broker does not take it.
    pub fn at(broker: SocketAddr, topic: &str, channel: &str) -> Result<Consumer, BenchError> {
        let mut consumer = Consumer::new(broker, topic, channel);
        consumer.lookup = None;
        let subscriber = Subscriber::connect(broker, &consumer.protocol, None)?;
        consumer.connections.insert(broker, subscriber);
        Ok(consumer)
    }

    /// Where lookup says that the topic is; nowhere, too, while it does not answer.
    pub fn look(&self) -> Vec<SocketAddr> {
        let Some((client, target)) = &self.lookup else {
            return Vec::new();
        };
        let found: Value = client.get(target).unwrap_or_default();
        let producers = found["producers"].as_array().into_iter().flatten();
        let address = |producer: &Value| {
            let host = producer["broadcast_address"].as_str()?;
            format!("{host}:{}", producer["tcp_port"]).parse().ok()
        };
        producers.filter_map(address).collect()
    }

    /// Looks for brokers if it is time, and takes and finishes what has come.
    pub fn poll(&mut self) {
        let now_ns = monotonic_ns();
        if now_ns - self.looked_ns >= LOOK_NS {
            self.looked_ns = now_ns;
            for address in self.look() {
                if self.connections.contains_key(&address) {
                    continue;
                }
                // One that refuses is tried again with the next look.
                if let Ok(subscriber) = Subscriber::connect(address, &self.protocol, None) {
                    self.connections.insert(address, subscriber);
                }
            }
        }
        let (counts, latest_ns) = (&mut self.counts, &mut self.latest_ns);
        self.connections.retain(|_, subscriber| {
            let mut on_message = |delivery: bench::protocol::Delivery<'_>, now_ns: u64| {
                if let Some(stamp) = Stamp::read_from(delivery.body) {
                    *counts.entry(stamp.sequence).or_default() += 1;
                    *latest_ns = now_ns;
                }
            };
            let read = subscriber.read(&mut on_message);
            // A broker that has closed the connection is looked for again.
            read.is_ok() && subscriber.answer(monotonic_ns()).is_ok()
        });
    }

    /// Brokers that it is connected to.
    pub fn brokers(&self) -> usize {
        self.connections.len()
    }

    /// Messages that came, each counted once.
    pub fn got(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Of those, the ones that are numbered within `sequences`.
    pub fn got_of(&self, sequences: std::ops::Range<u64>) -> u64 {
        self.counts.range(sequences).count() as u64
    }

    /// Messages that came again.
    pub fn repeated(&self) -> u64 {
        self.counts.values().map(|times| times - 1).sum()
    }

    /// When the latest message came; 0: none has.
    pub fn latest_ns(&self) -> u64 {
        self.latest_ns
    }
}

/// Lets consumers take what comes until `is_done`, at most so long; whether it came true.
pub fn serve(
    consumers: &mut [&mut Consumer],
    at_most: Duration,
    mut is_done: impl FnMut(&[&mut Consumer]) -> bool,
) -> bool {
    let end_ns = monotonic_ns() + at_most.as_nanos() as u64;
    loop {
        for consumer in &mut *consumers {
            consumer.poll();
        }
        if is_done(consumers) {
            return true;
        }
        if monotonic_ns() >= end_ns {
            return false;
        }
        pause_for(REST);
    }
}
