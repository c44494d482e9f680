//! The load generator: one thread that sends what is due, reads what has come, and never waits for
//! either.
//!
//! Open loop: the schedule alone decides when a message is due. The loop sends at most a slice of
//! the due messages before it looks at the subscriber, so that neither side makes the other late by
//! much. While the next message is close the loop turns without sleeping, since waking up costs
//! more than the wait; the time of turns that did work is added up as the generator's own cost.

use std::net::SocketAddr;
use std::time::Duration;

use ::workload::{Arrival, Arrivals};
use client::Trust;
use serde::Serialize;

use crate::cpu_time::{CpuReading, CpuUse};
use crate::error::BenchError;
use crate::load::Load;
use crate::measurement::{Counts, Measurement, Percentiles, Sample};
use crate::protocol::Protocol;
use crate::publishers::Publishers;
use crate::stamp::Stamp;
use crate::subscriber::Subscriber;
use crate::sys;
use crate::workload::Workload;

/// Sends between two looks at the subscriber.
const SENDS_PER_SLICE: usize = 16;
/// Gap to the next send above which the loop sleeps.
const SPIN_NS: u64 = 200_000;
/// How much earlier than the next send a sleep ends.
const WAKE_EARLY_NS: u64 = 80_000;
/// Time from the end of the greetings to the first instant of the schedule.
const START_DELAY_NS: u64 = 50_000_000;
/// How often blocked connections are tried again.
const RETRY_NS: u64 = 500_000;

/// The target of a run.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where publishers and subscriber connect.
    pub address: SocketAddr,
    /// Their protocol.
    pub protocol: Protocol,
    /// Whose certificate they believe, where they are to speak TLS.
    pub trust: Option<Trust>,
    /// The broker's process, when its CPU time is to be measured.
    pub pid: Option<u32>,
    /// The core that the broker runs on.
    pub core: usize,
}

/// How a run is made, apart from its load.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions {
    /// Longest wait for messages that are still under way when the last one has been sent.
    pub drain: Duration,
    /// Whether to keep a [`Sample`] of every message.
    pub keep_samples: bool,
}

/// The result of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Messages that were due per second of the window.
    pub offered_per_second: f64,
    /// Messages that the subscriber read per second of the window.
    pub achieved_per_second: f64,
    /// From the scheduled instant to the subscriber's read.
    pub latency: Percentiles,
    /// From the scheduled instant to the send: the generator's own delay, a part of the latency.
    pub lateness: Percentiles,
    /// Numbers of messages.
    pub counts: Counts,
    /// Broker CPU time per message received in the window, in microseconds.
    pub broker_us_per_message: Option<f64>,
    /// CPU of broker and core in the window.
    pub broker_cpu: Option<CpuUse>,
    /// Time per message that the generator spent in turns that did work, in microseconds.
    pub generator_us_per_message: f64,
    /// Part of the window that the generator was at work; near 1 it is the generator that was measured.
    pub generator_busy: f64,
    /// Times that the kernel took less than a whole batch.
    pub stalls: u64,
    /// Every message, when asked for.
    #[serde(skip)]
    pub samples: Vec<Sample>,
}

impl Outcome {
    /// Part of the window in which the broker's core was busy with something else; 0 to 1. NaN when not measured.
    pub fn core_used_by_others(&self) -> f64 {
        let (Some(cpu), Some(us_per_message)) = (self.broker_cpu, self.broker_us_per_message)
        else {
            return f64::NAN;
        };
        (cpu.core_busy - us_per_message * self.achieved_per_second / 1e6).max(0.0)
    }
}

/// Loads `target` with what the flags of `workload` say, and measures.
///
/// # Errors
/// As [`run_load`].
pub fn run(
    workload: &Workload,
    target: &Target,
    options: RunOptions,
) -> Result<Outcome, BenchError> {
    run_load(&workload.load()?, target, options)
}

/// Loads `target` with `load` and measures.
///
/// # Errors
/// When the load is out of range, or the broker refuses, closes a connection or breaks its protocol.
pub fn run_load(load: &Load, target: &Target, options: RunOptions) -> Result<Outcome, BenchError> {
    load.check()?;
    if load.mpub && !matches!(target.protocol, Protocol::Nsq(_)) {
        return Err(BenchError::Options(
            "--mpub needs a broker that speaks NSQ".to_owned(),
        ));
    }
    let trust = target.trust.as_ref();
    let subscriber = Subscriber::connect(target.address, &target.protocol, trust)?;
    let publishers = Publishers::connect(target, load)?;
    let mut generator = Generator::new(load, subscriber, publishers, options);
    generator.send_all(target)?;
    generator.drain(options.drain)?;
    Ok(generator.outcome(load))
}

struct Generator {
    schedule: Arrivals,
    /// `None`: nothing is sent any more.
    next: Option<Arrival>,
    subscriber: Subscriber,
    publishers: Publishers,
    measurement: Measurement,
    samples: Option<Vec<Sample>>,
    run: u32,
    sequence: u64,
    start_ns: u64,
    window_start_ns: u64,
    end_ns: u64,
    last_retry_ns: u64,
    busy_ns: u64,
    window_busy_ns: u64,
    window_cpu: Option<CpuUse>,
}

impl Generator {
    fn new(
        load: &Load,
        subscriber: Subscriber,
        publishers: Publishers,
        options: RunOptions,
    ) -> Self {
        let start_ns = sys::monotonic_ns() + START_DELAY_NS;
        let window_start_ns = start_ns + load.spec.warmup.as_nanos() as u64;
        let end_ns = start_ns + load.spec.length().as_nanos() as u64;
        // Differs from run to run, which is all that is asked of it.
        let run = (sys::realtime_ns() >> 10) as u32;
        let mut schedule = load.schedule();
        Self {
            next: schedule.next(),
            schedule,
            subscriber,
            publishers,
            measurement: Measurement::new(
                run,
                load.spec.publisher_count(),
                window_start_ns..end_ns,
            ),
            samples: options.keep_samples.then(Vec::new),
            run,
            sequence: 0,
            start_ns,
            window_start_ns,
            end_ns,
            last_retry_ns: 0,
            busy_ns: 0,
            window_busy_ns: 0,
            window_cpu: None,
        }
    }

    /// Turns until the window has ended; reads the broker's CPU clock at both ends of it.
    fn send_all(&mut self, target: &Target) -> Result<(), BenchError> {
        let read_cpu = || {
            target
                .pid
                .map(|pid| CpuReading::take(pid, target.core))
                .transpose()
        };
        while self.turn(self.window_start_ns)? {}
        let (busy_before, cpu_before) = (self.busy_ns, read_cpu()?);
        while self.turn(self.end_ns)? {}
        let cpu_after = read_cpu()?;
        self.window_cpu = cpu_after
            .zip(cpu_before)
            .map(|(after, before)| after.since(&before));
        self.window_busy_ns = self.busy_ns - busy_before;
        Ok(())
    }

    /// One turn of the loop; false when `until_ns` has passed and everything due before it has been sent.
    fn turn(&mut self, until_ns: u64) -> Result<bool, BenchError> {
        let turn_start_ns = sys::monotonic_ns();
        let sent = self.send_slice(turn_start_ns, until_ns)?;
        let received = self.receive()?;
        let now_ns = sys::monotonic_ns();
        if sent || received {
            self.busy_ns += now_ns - turn_start_ns;
        }
        let next_due_ns = self.next_due_ns().min(until_ns);
        if next_due_ns == until_ns && now_ns >= until_ns {
            return Ok(false);
        }
        let gap_ns = next_due_ns.saturating_sub(now_ns);
        if !received && gap_ns > SPIN_NS {
            self.subscriber
                .wait(Duration::from_nanos(gap_ns - WAKE_EARLY_NS))?;
        }
        Ok(true)
    }

    /// When the next send is due; at the end of time if there is none.
    fn next_due_ns(&self) -> u64 {
        let due = |next: Arrival| self.start_ns.saturating_add(next.at_ns);
        self.next.map_or(u64::MAX, due)
    }

    /// Sends what is due, at most a slice of it.
    fn send_slice(&mut self, mut now_ns: u64, until_ns: u64) -> Result<bool, BenchError> {
        if self.publishers.has_blocked() && now_ns - self.last_retry_ns > RETRY_NS {
            self.last_retry_ns = now_ns;
            self.publishers.retry_blocked()?;
        }
        for index in 0..SENDS_PER_SLICE {
            let scheduled_ns = self.next_due_ns();
            let Some(next) = self.next else {
                return Ok(index > 0);
            };
            if scheduled_ns > now_ns || scheduled_ns >= until_ns {
                return Ok(index > 0);
            }
            let (publisher, messages) = (next.publisher, u64::from(next.messages));
            let stamp = Stamp {
                run: self.run,
                publisher,
                sequence: self.sequence,
                scheduled_ns,
            };
            if self.publishers.send(stamp)? {
                self.measurement.on_send(scheduled_ns, now_ns, messages);
            } else {
                self.measurement.on_refuse(messages);
            }
            self.sequence += messages;
            self.next = self.schedule.next();
            now_ns = sys::monotonic_ns();
        }
        Ok(true)
    }

    /// Reads one piece from the subscriber's connection.
    fn receive(&mut self) -> Result<bool, BenchError> {
        let (measurement, samples) = (&mut self.measurement, &mut self.samples);
        // Read once for each piece, and after it: a delay in between may make it late but never early.
        let mut received_ns = None;
        let received = self.subscriber.read(&mut |delivery, now_ns| {
            let Some(stamp) = Stamp::read_from(delivery.body) else {
                return;
            };
            measurement.on_receive(stamp, now_ns);
            if let Some(samples) = samples {
                samples.push(Sample {
                    broker_ns: delivery.timestamp_ns,
                    received_ns: *received_ns.get_or_insert_with(sys::realtime_ns),
                    publisher: stamp.publisher,
                    sequence: stamp.sequence,
                });
            }
        })?;
        self.subscriber.answer(sys::monotonic_ns())?;
        Ok(received)
    }

    /// Reads on after the last send, until everything has come or the time is up.
    fn drain(&mut self, longest: Duration) -> Result<(), BenchError> {
        let until_ns = sys::monotonic_ns() + longest.as_nanos() as u64;
        while !self.measurement.is_complete() && sys::monotonic_ns() < until_ns {
            self.publishers.retry_blocked()?;
            if !self.receive()? {
                self.subscriber.wait(Duration::from_millis(1))?;
            }
        }
        self.publishers.read_all_replies()
    }

    fn outcome(self, load: &Load) -> Outcome {
        let counts = self.measurement.counts();
        let window_s = load.spec.duration.as_secs_f64();
        let received = (counts.received_in_window as f64).max(1.0);
        Outcome {
            offered_per_second: counts.sent_in_window as f64 / window_s,
            achieved_per_second: counts.received_in_window as f64 / window_s,
            latency: self.measurement.latency(),
            lateness: self.measurement.lateness(),
            counts,
            broker_us_per_message: self.window_cpu.map(|used| used.process_us / received),
            broker_cpu: self.window_cpu,
            generator_us_per_message: self.window_busy_ns as f64 / 1000.0 / received,
            generator_busy: self.window_busy_ns as f64 / 1e9 / window_s,
            stalls: self.publishers.stalls(),
            samples: self.samples.unwrap_or_default(),
        }
    }
}
