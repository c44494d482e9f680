//! Three publishers at one broker and seven at another, each of which sends as soon as its last message was accepted.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::view::TopicSpec;
use client::OutputBuffer;
use limit::{OnExceed, SharePolicy};
use serde::{Deserialize, Serialize};
use sim::experiment::Verdict;

use super::{ClusterOptions, TOPIC, Way, limit};
use crate::cluster::checks::{excess, releases, releases_of};
use crate::cluster::{Cluster, Setup};
use crate::judged::{Judged, verdict};
use bench::BenchError;
use bench::protocol::nsq::{Acknowledgement, Nsq};
use bench::protocol::{Batch, Protocol, Template};
use bench::publishers::connect;
use bench::stamp::Stamp;
use bench::subscriber::Subscriber;
use bench::sys::{monotonic_ns, pause_for};
use bench::workload::Workload;

/// Publishers at the two brokers.
const PUBLISHERS: [u32; 2] = [3, 7];
/// Time until shares have settled, and time that is measured.
const SETTLE: Duration = Duration::from_secs(15);
const MEASURE: Duration = Duration::from_secs(20);
/// A publisher that hears nothing for so long looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(200);

/// Who got how much.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parts {
    /// Messages per second that passed at the brokers, of three publishers and of seven.
    per_second: [f64; 2],
    /// Part of the three; 0.3 is fair.
    part: f64,
    /// All that passed, as a multiple of the limit's rate.
    of_limit: f64,
    /// Messages by which the worst window exceeded r·t + b, once shares had settled.
    worst_excess: f64,
}

impl Judged for Parts {
    const KIND: &'static str = "cluster-sharing-greedy";

    fn verdicts(&self) -> Vec<Verdict> {
        let finding =
            "three of ten greedy publishers get three tenths of what passes, within a tenth";
        let is_fair = (self.part / 0.3 - 1.0).abs() <= 0.1;
        let figures = format!("{:.3}", self.part);
        vec![verdict(Self::KIND, finding, is_fair, figures)]
    }
}

/// Ten publishers; how fast they send is up to the limit.
pub(super) fn workload() -> Workload {
    Workload {
        publishers: PUBLISHERS.iter().sum(),
        ..Workload::default()
    }
}

pub(super) fn measure(options: &ClusterOptions) -> Result<Parts, BenchError> {
    let mut setup = Setup {
        brokers: 2,
        ..options.setup("sharing-greedy")?
    };
    let flags = [
        "--release-log-messages",
        "4000000",
        "--mem-queue-size",
        "100",
    ];
    setup.broker_flags.extend(flags.map(String::from));
    let cluster = Cluster::start(setup)?;
    let way = Way {
        name: "fps",
        policy: SharePolicy::Fps,
        adaptor: true,
        on_exceed: OnExceed::Delay,
    };
    let limit = limit(options, way)?;
    let spec = TopicSpec::of_limit(limit);
    cluster.api().put_topic(TOPIC, &spec)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut threads = Vec::new();
    for (broker, publishers) in cluster.brokers.iter().zip(PUBLISHERS) {
        let (address, over) = (broker.tcp, Arc::clone(&is_over));
        threads.push(std::thread::spawn(move || subscribe(address, &over)));
        for _ in 0..publishers {
            let over = Arc::clone(&is_over);
            threads.push(std::thread::spawn(move || publish(address, &over)));
        }
    }
    pause_for(SETTLE);
    // Emptied; what follows is measured.
    releases(&cluster)?;
    let began_ns = monotonic_ns();
    pause_for(MEASURE);
    let seconds = (monotonic_ns() - began_ns) as f64 / 1e9;
    let mut per_second = [0.0; 2];
    let mut all = Vec::new();
    for (number, rate) in per_second.iter_mut().enumerate() {
        let released = releases_of(&cluster.brokers[number])?;
        *rate = released.len() as f64 / seconds;
        all.extend(released);
    }
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(BenchError::protocol("greedy publishers", "one panicked")))?;
    }
    all.sort_unstable();
    let total: f64 = per_second.iter().sum();
    Ok(Parts {
        per_second,
        part: per_second[0] / total,
        of_limit: total / limit.rate.get(),
        worst_excess: excess(&all, limit.rate, limit.burst),
    })
}

fn protocol() -> Protocol {
    Protocol::Nsq(Nsq {
        topic: TOPIC.to_owned(),
        channel: String::from("bench"),
        acknowledgement: Acknowledgement::Each,
        unbuffered: true,
    })
}

fn publish(address: SocketAddr, is_over: &AtomicBool) -> Result<(), BenchError> {
    let protocol = protocol();
    let io = BenchError::io;
    let mut stream = connect(address, None, OutputBuffer::default())?;
    protocol.greet_as_publisher(&mut stream, 0)?;
    let patient = stream.socket().set_read_timeout(Some(PATIENCE));
    patient.map_err(io("set up a publisher"))?;
    let mut template: Template = protocol.template(&Batch {
        messages: 1,
        body_bytes: 100,
        mpub: false,
    });
    let (mut input, mut answers, mut sequence) = (Vec::new(), Vec::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let stamp = Stamp {
            run: 0,
            publisher: 0,
            sequence,
            scheduled_ns: monotonic_ns(),
        };
        sequence += 1;
        stream
            .write_all(template.stamp(stamp))
            .map_err(io("publish"))?;
        let mut accepted = 0;
        while accepted == 0 && !is_over.load(Ordering::Relaxed) {
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(0) => return Err(BenchError::protocol("broker", "closed a connection")),
                Ok(read) => input.extend_from_slice(&bytes[..read]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) => return Err(io("hear of a message")(error)),
            }
            let replies = protocol.read_replies(&input, &mut answers)?;
            input.drain(..replies.consumed);
            accepted = replies.acknowledged;
            stream
                .write_all(&answers)
                .map_err(io("answer a heartbeat"))?;
            answers.clear();
        }
    }
    Ok(())
}

fn subscribe(address: SocketAddr, is_over: &AtomicBool) -> Result<(), BenchError> {
    let mut subscriber = Subscriber::connect(address, &protocol(), None)?;
    while !is_over.load(Ordering::Relaxed) {
        let came = subscriber.read(&mut |_: bench::protocol::Delivery<'_>, _: u64| {})?;
        subscriber.answer(monotonic_ns())?;
        if !came {
            pause_for(Duration::from_micros(500));
        }
    }
    Ok(())
}
