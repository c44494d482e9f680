//! A subscriber of several topics in one process: counts messages, echoes marks, and works for each
//! message if told to.
//!
//! In Tempo each topic is a task of one messaging kernel, and each task's use of its threads is
//! reported too. In the other protocols each topic has a connection and a thread.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::Echoer;
use client::tempo::{Activity, CpuShare, Node, Subscription, SubscriptionOptions};
use serde::{Deserialize, Serialize};

use super::outlet::node_options;
use super::{Window, client_failed, rest_until};
use crate::tempo::way::Way;
use bench::BenchError;
use bench::subscriber::Subscriber;
use bench::sys;

/// What the protocol itself may use where topics have declared shares.
const CONTROL_SHARE: f64 = 0.02;
/// Longest sleep of a thread that waits for messages: acknowledgements are due after a millisecond.
const LOOK: Duration = Duration::from_millis(1);

/// A subscriber's task.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Subscribing {
    /// The way to the publishers.
    pub way: Way,
    /// The topics, each with its share of the endpoint's time where there are shares; all of them together are 1.
    pub topics: Vec<(String, Option<f64>)>,
    /// Scheduling threads, in Tempo.
    pub threads: usize,
    /// Work for each message: iterations of a loop of about a nanosecond.
    pub work_iterations: u64,
}

/// A subscriber's results in the window.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subscribed {
    /// In the order of the topics.
    pub topics: Vec<TopicUse>,
}

/// One topic's results in the window.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TopicUse {
    /// Messages received.
    pub messages: u64,
    /// Time that its task was served for, nanoseconds; 0 in protocols other than Tempo's.
    pub used_ns: u64,
}

/// Where figures of all topics are read.
enum Source {
    Tempo(Box<Node>, Vec<Subscription>),
    Streams(Vec<Arc<AtomicU64>>, Arc<Mutex<Option<String>>>),
}

/// Subscribes, measures in the window, says so, and goes on receiving until `at_end` returns.
pub(super) fn subscribe(
    subscribing: &Subscribing,
    await_window: impl FnOnce() -> Result<Window, BenchError>,
    at_end: impl FnOnce(Subscribed) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    let source = match subscribing.way.channel() {
        Some(_) => subscribe_tempo(subscribing)?,
        None => subscribe_streams(subscribing)?,
    };
    let window = await_window()?;
    rest_until(window.start_ns);
    let before = source.read()?;
    rest_until(window.end_ns);
    let after = source.read()?;
    let pairs = after.iter().zip(&before);
    let topics = pairs.map(|(after, before)| TopicUse {
        messages: after.messages - before.messages,
        used_ns: after.used_ns - before.used_ns,
    });
    at_end(Subscribed {
        topics: topics.collect(),
    })
}

fn subscribe_tempo(subscribing: &Subscribing) -> Result<Source, BenchError> {
    let has_shares = subscribing.topics.iter().any(|(_, share)| share.is_some());
    let mut options = node_options(subscribing.way, subscribing.threads)?;
    if has_shares {
        options.control_share = share(CONTROL_SHARE)?;
    }
    let node = Node::start(options).map_err(client_failed)?;
    let work_iterations = subscribing.work_iterations;
    let mut subscriptions = Vec::new();
    for (topic, part) in &subscribing.topics {
        let mut echoer = Echoer::bind("127.0.0.1:0").map_err(client_failed)?;
        let options = SubscriptionOptions {
            share: part
                .map(|part| share(part * (1.0 - CONTROL_SHARE)))
                .transpose()?,
        };
        let callback = move |message: &client::tempo::TempoMessage<'_>| {
            echoer.echo(message.body);
            work(work_iterations);
        };
        subscriptions.push(
            node.subscribe(topic, options, callback)
                .map_err(client_failed)?,
        );
    }
    Ok(Source::Tempo(Box::new(node), subscriptions))
}

fn subscribe_streams(subscribing: &Subscribing) -> Result<Source, BenchError> {
    let failure = Arc::new(Mutex::new(None));
    let mut counts = Vec::new();
    for (topic, _) in &subscribing.topics {
        let Some((address, protocol)) = subscribing.way.protocol(topic) else {
            return Err(BenchError::Options("the way is Tempo's".to_owned()));
        };
        let subscriber = Subscriber::connect(address, &protocol, None)?;
        let count = Arc::new(AtomicU64::new(0));
        let (counted, failure) = (Arc::clone(&count), Arc::clone(&failure));
        let echoer = Echoer::bind("127.0.0.1:0").map_err(client_failed)?;
        let work_iterations = subscribing.work_iterations;
        let receive = move || {
            if let Err(error) = receive(subscriber, echoer, &counted, work_iterations) {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            }
        };
        std::thread::Builder::new()
            .name("subscriber".to_owned())
            .spawn(receive)
            .map_err(BenchError::io("start a subscriber"))?;
        counts.push(count);
    }
    Ok(Source::Streams(counts, failure))
}

/// Receives until the broker closes the connection; the end of the process is the usual end.
fn receive(
    mut subscriber: Subscriber,
    mut echoer: Echoer,
    count: &AtomicU64,
    work_iterations: u64,
) -> Result<(), BenchError> {
    loop {
        let mut messages = 0;
        let received = subscriber.read(&mut |delivery, _| {
            messages += 1;
            echoer.echo(delivery.body);
            work(work_iterations);
        })?;
        count.fetch_add(messages, Ordering::Relaxed);
        subscriber.answer(sys::monotonic_ns())?;
        if !received {
            subscriber.wait(LOOK)?;
        }
    }
}

impl Source {
    fn read(&self) -> Result<Vec<TopicUse>, BenchError> {
        match self {
            Self::Tempo(node, subscriptions) => Ok(read_tasks(node, subscriptions)),
            Self::Streams(counts, failure) => {
                let failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(text) = failure.as_ref() {
                    return Err(BenchError::protocol("subscriber", text.clone()));
                }
                let read = |count: &Arc<AtomicU64>| TopicUse {
                    messages: count.load(Ordering::Relaxed),
                    used_ns: 0,
                };
                Ok(counts.iter().map(read).collect())
            }
        }
    }
}

fn read_tasks(node: &Node, subscriptions: &[Subscription]) -> Vec<TopicUse> {
    let stats = node.stats();
    let used = |subscription: &Subscription| {
        let topic = subscription.topic().as_str();
        let mut tasks = stats.tasks.iter();
        let found = tasks.find_map(|report| match report.activity {
            Activity::Subscription(counts) if report.name == topic => Some(TopicUse {
                messages: counts.messages,
                used_ns: report.task.used.as_nanos() as u64,
            }),
            _ => None,
        });
        found.unwrap_or_default()
    };
    subscriptions.iter().map(used).collect()
}

fn share(value: f64) -> Result<CpuShare, BenchError> {
    CpuShare::new(value).map_err(|error| BenchError::Options(error.to_string()))
}

/// Uses the core for a time that depends on `iterations` alone.
#[inline]
fn work(iterations: u64) {
    let mut value = 1_u64;
    for step in 0..iterations {
        value = black_box(
            value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(step),
        );
    }
}
