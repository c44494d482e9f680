//! CPU shares asked for and obtained: three topics that always have work, at an endpoint and inside
//! the broker.
//!
//! At the endpoint three subscriptions get more than they can handle; each message costs its
//! callback the same fixed work, far shorter than the period T. Obtained are the time that each
//! task was served for and the messages it handled. Inside the broker three topics are flooded by a
//! publisher each; obtained is what `/v1/tasks` says. The floods' topics are ephemeral and nobody
//! subscribes, so the broker's queues never fill up and hold the publishers.
//!
//! With two scheduling threads a topic is still served by one at a time, so no topic gets more than
//! [`kernel::theory::largest_share`] of their time; the rest follows the shares.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kernel::theory::largest_share;
use serde::Serialize;

use super::endpoint::{Endpoint, Place, Publishing, Subscribing, Task, Window};
use super::render::Form;
use super::way::{Row, Way};
use crate::broker_port::BrokerPort;
use bench::BenchError;
use bench::peers::{Peer, PeerOptions};
use bench::report::Results;
use bench::sys;

/// Bodies at the endpoint: the paper's.
const BODY_BYTES: usize = 128;
/// Bodies of the flood: short, so that the broker has work and its publishers little.
const FLOOD_BODY_BYTES: usize = 16;
/// The channel that takes the flood and drops it: a topic without one would just fill its queue.
const SINK: &str = "sink#ephemeral";
/// Messages of a flood's MPUB at least.
const FLOOD_BATCH_MESSAGES: u64 = 1000;

/// Options of `srtm-evaluate tempo shares`.
#[derive(Debug, Clone, Args)]
pub struct SharesOptions {
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Shares of the topics; together at most 1.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SHARE",
        default_value = "0.5,0.3,0.2"
    )]
    pub shares: Vec<f64>,
    /// Iterations of a loop of about a nanosecond each, for every message at the endpoint.
    #[arg(long, default_value_t = 5000, value_name = "N")]
    pub work_iterations: u64,
    /// Load before each measurement.
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    pub warmup_ms: u64,
    /// Length of each measurement.
    #[arg(long, default_value_t = 10_000, value_name = "MS")]
    pub measure_ms: u64,
    /// Repetitions, interleaved.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub rounds: u32,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// File that results are appended to, a JSON line each.
    #[arg(long, default_value = "bench/results/tempo.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// Where shares are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Scene {
    /// At an endpoint with one scheduling thread.
    OneThread,
    /// At an endpoint with two, on two cores.
    TwoThreads,
    /// In a broker with one reactor.
    Broker,
}

/// The share that a topic asked for and the one it got.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Obtained {
    topic: String,
    /// Its share of what all of them together asked for.
    wanted: f64,
    /// Its part of the time that all of them were served for.
    of_time: f64,
    /// Its part of the messages that all of them handled; none where they are not counted.
    of_messages: Option<f64>,
    /// The most that it could get.
    most: f64,
}

/// A run's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Report {
    scene: Scene,
    topics: Vec<Obtained>,
    /// Time that all topics were served for, in cores.
    cores_served: f64,
}

/// Measures all scenes and prints the table.
///
/// # Errors
/// When the options are wrong, or a broker or an endpoint fails.
pub fn shares(options: &SharesOptions) -> Result<(), BenchError> {
    let sum: f64 = options.shares.iter().sum();
    let is_each_positive = options.shares.iter().all(|share| *share > 0.0);
    if options.shares.is_empty() || !is_each_positive || sum > 1.0 + 1e-9 {
        let text = "--shares: give numbers above 0 that add up to at most 1".to_owned();
        return Err(BenchError::Options(text));
    }
    let results = Results::new(Some(&options.results));
    let mut rows = Vec::new();
    for round in 1..=options.rounds {
        for scene in [Scene::OneThread, Scene::TwoThreads, Scene::Broker] {
            eprintln!(
                "tempo-shares {}, round {round} of {}",
                scene.name(),
                options.rounds
            );
            let report = match scene {
                Scene::OneThread | Scene::TwoThreads => at_endpoint(scene, options)?,
                Scene::Broker => in_broker(options)?,
            };
            let workload = (&options.shares, options.work_iterations, options.measure_ms);
            results.append("tempo-shares", scene.name(), round, &workload, &report)?;
            rows.extend(report.topics.iter().map(|topic| columns(&report, topic)));
        }
    }
    let header = [
        "where",
        "topic",
        "wanted",
        "of time",
        "off by",
        "of messages",
        "off by",
        "most",
        "cores served",
    ];
    print!("{}", Form::new(options.markdown).render(&header, &rows));
    Ok(())
}

fn at_endpoint(scene: Scene, options: &SharesOptions) -> Result<Report, BenchError> {
    let threads = scene.threads();
    let between = Row::SrtmPeer.start(&options.programs)?;
    let names = topic_names(options.shares.len());
    let shares = options.shares.iter().copied().map(Some);
    let subscribing = Subscribing {
        way: between.way,
        topics: names.iter().cloned().zip(shares).collect(),
        threads,
        work_iterations: options.work_iterations,
    };
    let place = Place {
        core: (threads == 1).then_some(options.programs.broker_core),
        is_background: false,
    };
    let mut subscriber = Endpoint::start(&Task::Subscribe(subscribing), place)?;
    // Publishers are held back by their subscriber nearly all the time, and must not take the time that is shared out.
    let place = Place {
        core: (threads == 1).then_some(options.programs.generator_core),
        is_background: threads > 1,
    };
    let publish = |topic: &String| {
        let publishing = flood(between.way, topic, BODY_BYTES, 1);
        Endpoint::start(&Task::Publish(publishing), place)
    };
    let mut publishers: Vec<Endpoint> = names.iter().map(publish).collect::<Result<_, _>>()?;
    let window = window(options);
    subscriber.begin(&window)?;
    for publisher in &mut publishers {
        publisher.begin(&window)?;
    }
    let subscribed = subscriber.subscribed(&window)?;
    let used_ns: Vec<u64> = subscribed
        .topics
        .iter()
        .map(|topic| topic.used_ns)
        .collect();
    let messages = subscribed.topics.iter().map(|topic| topic.messages);
    let messages: Vec<u64> = messages.collect();
    Ok(Report::of(scene, options, &used_ns, Some(&messages)))
}

fn in_broker(options: &SharesOptions) -> Result<Report, BenchError> {
    let broker = Peer::Srtm.start(&options.programs, &[])?;
    let names = topic_names(options.shares.len());
    let port = BrokerPort::new(broker.http_address);
    for (name, share) in names.iter().zip(&options.shares) {
        port.set_cpu_share(name, *share)?;
        port.create_channel(name, SINK)?;
    }
    let way = Way::Nsq(broker.target.address);
    let place = Place {
        core: Some(options.programs.generator_core),
        is_background: false,
    };
    let publish = |topic: &String| {
        let publishing = flood(way, topic, FLOOD_BODY_BYTES, FLOOD_BATCH_MESSAGES);
        Endpoint::start(&Task::Publish(publishing), place)
    };
    let mut publishers: Vec<Endpoint> = names.iter().map(publish).collect::<Result<_, _>>()?;
    let window = window(options);
    for publisher in &mut publishers {
        publisher.begin(&window)?;
    }
    let used_ns = used_in(&port, &names, &window)?;
    for publisher in &mut publishers {
        publisher.published(&window)?;
    }
    Ok(Report::of(Scene::Broker, options, &used_ns, None))
}

/// What the broker says that each topic used within the window, nanoseconds.
fn used_in(port: &BrokerPort, names: &[String], window: &Window) -> Result<Vec<u64>, BenchError> {
    rest_until(window.start_ns);
    let before = port.used_us()?;
    rest_until(window.end_ns);
    let after = port.used_us()?;
    let used = |name: &String| {
        let of = |used: &std::collections::BTreeMap<String, u64>| used.get(name).copied();
        1000 * of(&after)
            .unwrap_or(0)
            .saturating_sub(of(&before).unwrap_or(0))
    };
    Ok(names.iter().map(used).collect())
}

/// A publisher that always has more.
fn flood(way: Way, topic: &str, body_bytes: usize, batch_messages: u64) -> Publishing {
    Publishing {
        way,
        topic: topic.to_owned(),
        rate: None,
        body_bytes,
        is_marked: false,
        under_way_messages: None,
        batch_messages,
        connections: 1,
        is_mpub: true,
    }
}

fn topic_names(count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("share{number}")).collect()
}

fn window(options: &SharesOptions) -> Window {
    Window::soon(
        Duration::from_millis(options.warmup_ms),
        Duration::from_millis(options.measure_ms),
    )
}

fn rest_until(at_ns: u64) {
    let ahead_ns = at_ns.saturating_sub(sys::monotonic_ns());
    sys::pause_for(Duration::from_nanos(ahead_ns));
}

impl Scene {
    fn name(self) -> &'static str {
        match self {
            Self::OneThread => "endpoint, 1 thread",
            Self::TwoThreads => "endpoint, 2 threads",
            Self::Broker => "broker, 1 reactor",
        }
    }

    fn threads(self) -> usize {
        match self {
            Self::OneThread | Self::Broker => 1,
            Self::TwoThreads => 2,
        }
    }
}

impl Report {
    fn of(
        scene: Scene,
        options: &SharesOptions,
        used_ns: &[u64],
        messages: Option<&[u64]>,
    ) -> Self {
        let wanted: f64 = options.shares.iter().sum();
        let all_ns: u64 = used_ns.iter().sum();
        let threads = scene.threads() as f64;
        let seconds = options.measure_ms as f64 / 1000.0;
        let cores_served = all_ns as f64 / 1e9 / seconds;
        let most = largest_share(scene.threads() as u32, (cores_served / threads).min(1.0));
        let part = |values: &[u64], index: usize| {
            let all: u64 = values.iter().sum();
            values[index] as f64 / all.max(1) as f64
        };
        let names = topic_names(options.shares.len());
        let rows = names.into_iter().zip(&options.shares).enumerate();
        let topics = rows.map(|(index, (topic, share))| Obtained {
            topic,
            wanted: share / wanted,
            of_time: part(used_ns, index),
            of_messages: messages.map(|messages| part(messages, index)),
            most,
        });
        Self {
            scene,
            topics: topics.collect(),
            cores_served,
        }
    }
}

fn columns(report: &Report, topic: &Obtained) -> Vec<String> {
    let off = |obtained: f64| format!("{:+.2} %", 100.0 * (obtained / topic.wanted - 1.0));
    let share = |value: f64| format!("{value:.4}");
    let of_messages = topic.of_messages;
    vec![
        report.scene.name().to_owned(),
        topic.topic.clone(),
        share(topic.wanted),
        share(topic.of_time),
        off(topic.of_time),
        of_messages.map_or_else(|| "-".to_owned(), share),
        of_messages.map_or_else(|| "-".to_owned(), off),
        share(topic.most),
        format!("{:.2}", report.cores_served),
    ]
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SharesOptions,
    }

    #[test]
    fn obtained_shares_are_parts_of_what_was_served() {
        let line = Line::try_parse_from(["bench", "--measure-ms", "1000"]).expect("defaults");
        let used_ns = [450_000_000, 270_000_000, 180_000_000];
        let report = Report::of(Scene::OneThread, &line.options, &used_ns, Some(&[4, 4, 2]));
        let of_time: Vec<f64> = report.topics.iter().map(|topic| topic.of_time).collect();
        assert_eq!(of_time, [0.5, 0.3, 0.2]);
        assert_eq!(report.topics[0].of_messages, Some(0.4));
        assert!((report.cores_served - 0.9).abs() < 1e-9);
        let cells = columns(&report, &report.topics[0]);
        assert_eq!(cells[4], "+0.00 %");
        assert_eq!(cells[6], "-20.00 %");
    }

    #[test]
    fn two_busy_threads_serve_one_topic_half_their_time_at_most() {
        let line = Line::try_parse_from(["bench", "--measure-ms", "1000"]).expect("defaults");
        let used_ns = [1_000_000_000, 600_000_000, 400_000_000];
        let report = Report::of(Scene::TwoThreads, &line.options, &used_ns, None);
        assert!((report.topics[0].most - 0.5).abs() < 1e-6);
        assert_eq!(columns(&report, &report.topics[0])[5], "-");
    }
}
