//! Three views of one latency: the truth, the broker's figure, and that of echoes.
//!
//! On one machine all processes share a clock, so the truth is known: every message carries the
//! instant of its send, and the subscriber reads the same clock when it has it. Beside it stand the
//! broker's *end to end*, which needs no common clock and ends in the subscriber's kernel, and the
//! UDP method of the client library, which ends in the subscribing program and includes the echo's
//! way back. Latency counts from the send here and not from the schedule: the check is of the
//! measuring, not of the broker.
//!
//! `--work-us` lets the subscriber work that long before it finishes a message. Acknowledgements
//! then wait for the answer, and a measurement by acknowledgements alone would report that as
//! latency.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use clap::Args;
use client::{
    ClientError, EchoListener, Echoer, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};
use serde::Serialize;

use crate::broker_port::BrokerPort;
use bench::BenchError;
use bench::measurement::Percentiles;
use bench::peers::{Peer, PeerOptions, RunningPeer, TOPIC};
use bench::report::{Results, table};
use bench::stamp::Stamp;
use bench::sys;
use bench::workload::Workload;

/// Longest wait for messages that are under way when the last one was sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the subscriber checks whether it has them all.
const LOOK: Duration = Duration::from_millis(50);
/// The last of a wait for a due message is spent awake.
const WAKE_EARLY_NS: u64 = 80_000;

/// Options of `srtm-evaluate latency`.
#[derive(Debug, Clone, Args)]
pub struct LatencyOptions {
    /// The load; one message per send.
    #[command(flatten)]
    pub workload: Workload,
    /// Where the srtm program is and which cores are used.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Marks one message in this many for an echo.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub mark_every: u32,
    /// Work of the subscriber before it finishes a message.
    #[arg(long, default_value_t = 0, value_name = "US")]
    pub work_us: u64,
    /// Limit of the topic in messages per second, with a burst of 1; none if absent.
    #[arg(long, value_name = "MSG/S")]
    pub limit_rate: Option<f64>,
    /// File that the result is appended to.
    #[arg(
        long,
        default_value = "bench/results/latency.jsonl",
        value_name = "FILE"
    )]
    pub results: PathBuf,
}

/// The result of a check. Times in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyReport {
    /// Work of the subscriber before it finishes a message.
    pub work_us: u64,
    /// Limit of the topic in messages per second.
    pub limit_rate: Option<f64>,
    /// Messages sent.
    pub sent: u64,
    /// From the send to the subscriber's read, of all messages.
    pub truth: View,
    /// The broker's stage `end_to_end`.
    pub broker: View,
    /// The broker's stage `total`: up to the copy into the subscriber's output.
    pub broker_total: View,
    /// From the mark to the echo.
    pub echo: View,
    /// Broker CPU per message.
    pub broker_us_per_message: f64,
}

/// One view of the latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct View {
    /// Messages that it stands for.
    pub messages: u64,
    /// Half are at most this.
    pub p50_us: f64,
    /// 99 of 100 are.
    pub p99_us: f64,
    /// The largest.
    pub max_us: f64,
}

/// Loads a fresh broker and prints the three views.
///
/// # Errors
/// When the options are wrong, or the broker is missing, fails, or loses messages.
pub fn check_latency(options: &LatencyOptions) -> Result<LatencyReport, BenchError> {
    let workload = &options.workload;
    workload.check()?;
    if workload.batch_messages != 1 || workload.mpub {
        let text =
            "srtm-evaluate latency sends one message at a time: no --batch-messages, no --mpub";
        return Err(BenchError::Options(text.to_owned()));
    }
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    sys::pin_to_core(options.programs.generator_core).map_err(BenchError::io("run on one core"))?;
    let running = Peer::Srtm.start(&options.programs, &[])?;
    if let Some(rate) = options.limit_rate {
        BrokerPort::new(running.http_address).limit_messages(TOPIC, rate, 1.0)?;
    }
    let all_sent = Arc::new(AtomicU64::new(u64::MAX));
    let subscriber = subscribe(&running, options.work_us, Arc::clone(&all_sent))?;
    let mut listener = EchoListener::bind("127.0.0.1:0", options.mark_every).map_err(failed)?;
    let cpu_before = broker_cpu_ns(&running)?;
    let sent = send_all(workload, &running, &mut listener)?;
    all_sent.store(sent, Ordering::Release);
    let truth = join(subscriber)?;
    if truth.len() as u64 != sent {
        let text = format!("{sent} messages sent, {} received", truth.len());
        return Err(BenchError::protocol("nsq", text));
    }
    let cpu_ns = broker_cpu_ns(&running)? - cpu_before;
    let echoes = listener.latencies();
    let report = LatencyReport {
        work_us: options.work_us,
        limit_rate: options.limit_rate,
        sent,
        truth: View::of(truth),
        broker: broker_view(&running, "end_to_end")?,
        broker_total: broker_view(&running, "total")?,
        echo: View::of(echoes.iter().map(|echo| echo.as_nanos() as u64)),
        broker_us_per_message: cpu_ns as f64 / 1000.0 / sent.max(1) as f64,
    };
    let results = Results::new(Some(&options.results));
    results.append("latency", Peer::Srtm.name(), 1, workload, &report)?;
    print!("{}", render(&report));
    Ok(report)
}

impl View {
    fn of(times_ns: impl IntoIterator<Item = u64>) -> View {
        let mut messages = 0;
        let times_ns = times_ns.into_iter().inspect(|_| messages += 1);
        let percentiles = Percentiles::of_times(times_ns);
        View {
            messages,
            p50_us: percentiles.p50_us,
            p99_us: percentiles.p99_us,
            max_us: percentiles.max_us,
        }
    }
}

/// Sends what is due, each message from its publisher's connection; gives how many.
fn send_all(
    workload: &Workload,
    running: &RunningPeer,
    listener: &mut EchoListener,
) -> Result<u64, BenchError> {
    let mut publishers = Vec::new();
    for _ in 0..workload.publishers {
        let publisher = Publisher::connect(running.target.address, PublisherOptions::default());
        publishers.push(publisher.map_err(failed)?);
    }
    let start_ns = sys::monotonic_ns();
    let mut body = vec![0; workload.body_bytes];
    let mut sent = 0;
    let end_ns = workload.duration_ns();
    for send in workload.schedule().take_while(|send| send.at_ns < end_ns) {
        wait_until(start_ns + send.at_ns);
        let stamp = Stamp {
            run: 0,
            publisher: send.publisher,
            sequence: sent,
            scheduled_ns: sys::monotonic_ns(),
        };
        stamp.write_to(&mut body);
        let publisher = &mut publishers[send.publisher as usize];
        publisher
            .publish_marked(TOPIC, &body, listener)
            .map_err(failed)?;
        sent += 1;
    }
    for publisher in &mut publishers {
        publisher.flush().map_err(failed)?;
    }
    Ok(sent)
}

/// A thread that receives until it has as many messages as `all_sent` says; gives their true latencies.
fn subscribe(
    running: &RunningPeer,
    work_us: u64,
    all_sent: Arc<AtomicU64>,
) -> Result<JoinHandle<Result<Vec<u64>, ClientError>>, BenchError> {
    let options = SubscriberOptions::default();
    let mut subscriber =
        Subscriber::connect(running.target.address, TOPIC, "check", options).map_err(failed)?;
    let mut echoer = Echoer::bind("127.0.0.1:0").map_err(failed)?;
    let work = Duration::from_micros(work_us);
    let receive = move || {
        let mut times_ns = Vec::new();
        let mut idle = Duration::ZERO;
        while (times_ns.len() as u64) < all_sent.load(Ordering::Acquire) && idle < PATIENCE {
            let Some(message) = subscriber.next_message_within(LOOK)? else {
                let is_over = all_sent.load(Ordering::Acquire) != u64::MAX;
                idle += if is_over { LOOK } else { Duration::ZERO };
                continue;
            };
            let now_ns = sys::monotonic_ns();
            let body = echoer.echo(message.body);
            let sent_ns = Stamp::read_from(body).map_or(now_ns, |stamp| stamp.scheduled_ns);
            times_ns.push(now_ns.saturating_sub(sent_ns));
            let id = message.id;
            if !work.is_zero() {
                sys::pause_for(work);
            }
            subscriber.finish(id)?;
        }
        subscriber.flush()?;
        Ok(times_ns)
    };
    let thread = std::thread::Builder::new().name("subscriber".to_owned());
    thread
        .spawn(receive)
        .map_err(BenchError::io("start the subscriber"))
}

fn join(subscriber: JoinHandle<Result<Vec<u64>, ClientError>>) -> Result<Vec<u64>, BenchError> {
    match subscriber.join() {
        Ok(times_ns) => times_ns.map_err(failed),
        Err(_) => Err(BenchError::protocol("nsq", "the subscriber panicked")),
    }
}

/// A stage of the topic as `/stats` tells it.
fn broker_view(running: &RunningPeer, stage: &str) -> Result<View, BenchError> {
    let told = BrokerPort::new(running.http_address).stage(TOPIC, stage)?;
    Ok(View {
        messages: told.messages,
        p50_us: told.p50_us,
        p99_us: told.p99_us,
        max_us: told.max_us,
    })
}

fn broker_cpu_ns(running: &RunningPeer) -> Result<u64, BenchError> {
    let pid = running.target.pid.unwrap_or(0);
    sys::process_cpu_ns(pid).map_err(BenchError::io("read the broker's CPU time"))
}

fn wait_until(due_ns: u64) {
    let ahead_ns = due_ns.saturating_sub(sys::monotonic_ns());
    if ahead_ns > 2 * WAKE_EARLY_NS {
        sys::pause_for(Duration::from_nanos(ahead_ns - WAKE_EARLY_NS));
    }
    while sys::monotonic_ns() < due_ns {
        std::hint::spin_loop();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: ClientError) -> BenchError {
    BenchError::protocol("nsq", error.to_string())
}

fn render(report: &LatencyReport) -> String {
    let row = |name: &str, view: &View| {
        let us = |value: f64| format!("{value:.0}");
        vec![
            name.to_owned(),
            view.messages.to_string(),
            us(view.p50_us),
            us(view.p99_us),
            us(view.max_us),
        ]
    };
    let rows = [
        row("truth: send to read", &report.truth),
        row("broker: end to end", &report.broker),
        row("broker: total", &report.broker_total),
        row("echo by UDP", &report.echo),
    ];
    let header = ["latency us", "messages", "p50", "p99", "max"];
    let cost = report.broker_us_per_message;
    format!(
        "{}{cost:.1} us of broker CPU per message\n",
        table(&header, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_of_all_times() {
        let view = View::of((1..=1000).map(|us| us * 1000));
        assert_eq!(view.messages, 1000);
        for (value, expected) in [
            (view.p50_us, 500.0),
            (view.p99_us, 990.0),
            (view.max_us, 1000.0),
        ] {
            assert!((value - expected).abs() <= expected / 100.0, "{view:?}");
        }
        assert_eq!(View::of([]), View::default());
    }

    #[test]
    fn the_table_has_a_row_per_view() {
        let view = View {
            messages: 7,
            p50_us: 1.4,
            p99_us: 2.6,
            max_us: 3.0,
        };
        let report = LatencyReport {
            work_us: 0,
            limit_rate: None,
            sent: 7,
            truth: view,
            broker: view,
            broker_total: view,
            echo: view,
            broker_us_per_message: 12.34,
        };
        let text = render(&report);
        assert_eq!(text.lines().count(), 6, "{text}");
        for part in [
            "broker: end to end",
            "echo by UDP",
            "7    1    3    3",
            "12.3 us",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }
}
