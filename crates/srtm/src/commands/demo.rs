//! The demo workload of `srtm up --demo`: a thousand sensors in correlated bursts against a limit.
//!
//! On average the sensors send less than the limit allows, but fifty of them send at the same
//! instant, more than the bucket holds: the broker holds the excess back, and the price is seen in
//! the 99th percentile. One thread plays all sensors, each with a connection of its own, on the
//! open-loop schedule of `bench`; one thread subscribes. Latency counts from the instant a message
//! was due.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bench::protocol::Protocol;
use bench::protocol::nsq::{Acknowledgement, Nsq};
use bench::publishers::Publishers;
use bench::schedule::Schedule;
use bench::stamp::Stamp;
use bench::sys::{monotonic_ns, pause_for};
use bench::workload::{Arrivals, Workload};
use broker::Handle;
use broker::stats::StatsFilter;
use client::{Subscriber, SubscriberOptions};
use hdrhistogram::Histogram;
use limit::Limit;

use crate::commands::subscribe::histogram;
use crate::daemon::Daemon;
use crate::error::Failure;
use crate::time::now;

const TOPIC: &str = "sensors";
const CHANNEL: &str = "demo";
const SENSORS: u32 = 1000;
const MESSAGES_PER_SECOND_EACH: f64 = 2.0;
/// Sensors that send at the same instant.
const GROUP: u32 = 50;
const LIMIT_RATE: f64 = 2200.0;
const LIMIT_BURST: f64 = 20.0;

/// Longest sleep: how late the threads may notice that the demo ends.
const NAP: Duration = Duration::from_millis(50);
/// How often blocked connections are tried again and answers are read.
const UPKEEP_NS: u64 = 200_000_000;
const LINES_PER_HEADER: u64 = 20;

/// The running workload.
pub(super) struct Demo {
    handle: Handle,
    shared: Arc<Shared>,
    sensors: JoinHandle<Result<(), Failure>>,
    reader: JoinHandle<Result<(), Failure>>,
}

/// The demo after its sensors fell silent: its subscriber still takes what the broker holds.
pub(super) struct Silenced {
    sensors: Result<(), Failure>,
    reader: JoinHandle<Result<(), Failure>>,
}

struct Shared {
    silent: AtomicBool,
    sent: AtomicU64,
    latency_us: Mutex<Histogram<u64>>,
}

impl Demo {
    /// Puts the limit on the topic and starts both threads.
    pub(super) async fn start(daemon: &Daemon) -> Result<Demo, Failure> {
        let handle = daemon.handle();
        let topic = TOPIC
            .parse()
            .map_err(|error| Failure::Usage(format!("{error}")))?;
        let limit = Limit::messages(LIMIT_RATE, LIMIT_BURST)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        handle.set_limit(topic, Some(limit)).await?;
        let offered = f64::from(SENSORS) * MESSAGES_PER_SECOND_EACH;
        println!(
            "{SENSORS} sensors offer {offered} msg/s on topic {TOPIC}, {GROUP} of them at the same instant;"
        );
        println!(
            "the limit lets {LIMIT_RATE} msg/s and bursts of {LIMIT_BURST} through and delays the rest.\n"
        );
        let address = daemon.tcp_address();
        let shared = Arc::new(Shared {
            silent: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            latency_us: Mutex::new(histogram()?),
        });
        let for_reader = Arc::clone(&shared);
        let for_sensors = Arc::clone(&shared);
        Ok(Demo {
            handle,
            shared,
            reader: spawn("demo-reader", move || read(address, &for_reader))?,
            sensors: spawn("demo-sensors", move || send(address, &for_sensors))?,
        })
    }

    /// Prints a line per second, until a thread ends.
    pub(super) async fn print(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let mut last = (now(), 0, 0);
        ticks.tick().await;
        for line in 0u64.. {
            ticks.tick().await;
            if self.sensors.is_finished() || self.reader.is_finished() {
                return;
            }
            let filter = StatsFilter {
                topic: TOPIC.to_owned(),
                ..StatsFilter::default()
            };
            let Ok(stats) = self.handle.stats(filter).await else {
                return;
            };
            let Some(topic) = stats.topics.first() else {
                continue;
            };
            let second = now();
            let elapsed_s = (second - last.0).as_secs_f64();
            let (received, delayed) = (topic.message_count, topic.delayed_count);
            let histogram = self.shared.take();
            if line.is_multiple_of(LINES_PER_HEADER) {
                println!("{HEADER}");
            }
            let rate = |count: u64| count as f64 / elapsed_s;
            let ms = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1000.0;
            println!(
                "{:>10.0} {:>10.0} {:>10.0} {:>10} {:>10.3} {:>10.3}",
                rate(received - last.1),
                rate(histogram.len()),
                rate(delayed - last.2),
                topic.depth,
                ms(0.5),
                ms(0.99),
            );
            last = (second, received, delayed);
        }
    }

    /// Ends the sensors; the subscriber goes on until the broker closes its connection.
    pub(super) fn silence(self) -> Silenced {
        self.shared.silent.store(true, Ordering::Relaxed);
        let sensors = tokio::task::block_in_place(|| join(self.sensors));
        println!(
            "sensors silent after {} messages",
            self.shared.sent.load(Ordering::Relaxed)
        );
        Silenced {
            sensors,
            reader: self.reader,
        }
    }
}

const HEADER: &str = "  in msg/s  out msg/s  delayed/s       held     p50 ms     p99 ms";

impl Silenced {
    /// Waits for the subscriber and says whether all went well.
    pub(super) fn end(self) -> Result<(), Failure> {
        self.sensors
            .and(tokio::task::block_in_place(|| join(self.reader)))
    }
}

impl Shared {
    fn record(&self, latency_us: u64) {
        self.latency_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .saturating_record(latency_us);
    }

    /// The latencies since the last call.
    fn take(&self) -> Histogram<u64> {
        let mut histogram = self
            .latency_us
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let taken = histogram.clone();
        histogram.reset();
        taken
    }

    fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }
}

fn workload() -> Workload {
    Workload {
        publishers: SENSORS,
        rate_per_publisher: MESSAGES_PER_SECOND_EACH,
        arrivals: Arrivals::Periodic,
        group_publishers: GROUP,
        ..Workload::default()
    }
}

/// All sensors, on one thread.
fn send(address: SocketAddr, shared: &Shared) -> Result<(), Failure> {
    let workload = workload();
    let protocol = Protocol::Nsq(Nsq {
        topic: TOPIC.to_owned(),
        channel: CHANNEL.to_owned(),
        acknowledgement: Acknowledgement::Cumulative,
        unbuffered: true,
    });
    let mut publishers = Publishers::connect(address, &protocol, &workload)?;
    let mut schedule = Schedule::new(&workload);
    let (start_ns, mut upkeep_ns) = (monotonic_ns(), monotonic_ns());
    for sequence in 0.. {
        let due = schedule.next_send();
        let scheduled_ns = start_ns + due.due_ns;
        loop {
            if shared.is_silent() {
                return Ok(());
            }
            let now_ns = monotonic_ns();
            if now_ns - upkeep_ns > UPKEEP_NS {
                upkeep_ns = now_ns;
                publishers.retry_blocked()?;
                publishers.read_all_replies()?;
            }
            let wait = Duration::from_nanos(scheduled_ns.saturating_sub(now_ns));
            if wait.is_zero() {
                break;
            }
            pause_for(wait.min(NAP));
        }
        // A refused message is one that a real sensor would have lost for want of memory.
        if publishers.send(Stamp {
            run: 0,
            publisher: due.publisher,
            sequence,
            scheduled_ns,
        })? {
            shared.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The subscriber; the end of its connection is the end of the demo.
fn read(address: SocketAddr, shared: &Shared) -> Result<(), Failure> {
    let failed = |error| Failure::client(&address.to_string())(error);
    let options = SubscriberOptions {
        client_id: "srtm-demo".to_owned(),
        ready_messages: 2500,
        output_buffer_timeout: Some(Duration::ZERO),
        ..SubscriberOptions::default()
    };
    let mut subscriber = Subscriber::connect(address, TOPIC, CHANNEL, options).map_err(failed)?;
    loop {
        let id = match subscriber.next_message_within(NAP) {
            Ok(Some(message)) => {
                if let Some(stamp) = Stamp::read_from(message.body) {
                    shared.record(monotonic_ns().saturating_sub(stamp.scheduled_ns) / 1000);
                }
                message.id
            }
            Ok(None) => continue,
            Err(_) if shared.is_silent() => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        match subscriber.finish(id) {
            Err(_) if shared.is_silent() => return Ok(()),
            result => result.map_err(failed)?,
        }
    }
}

fn spawn(
    name: &str,
    work: impl FnOnce() -> Result<(), Failure> + Send + 'static,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(Failure::io("starting a thread of the demo"))
}

fn join(thread: JoinHandle<Result<(), Failure>>) -> Result<(), Failure> {
    thread
        .join()
        .unwrap_or_else(|_| Err(Failure::Usage("a thread of the demo panicked".to_owned())))
}
