//! One publisher and one subscriber, as fast as the broker goes: a closed loop with a window.
//!
//! The publisher keeps a fixed number of messages unacknowledged and writes several commands at
//! once, as a pipelining client does. It also stops when too much waits inside the broker, so that
//! a broker that accepts faster than it delivers is measured by what it delivers.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use client::{Line, OutputBuffer};
use serde::Serialize;

use crate::cpu_time::{CpuReading, CpuUse};
use crate::error::BenchError;
use crate::generator::Target;
use crate::measurement::{Measurement, Percentiles};
use crate::protocol::{Batch, Protocol, Template};
use crate::publishers::{connect, is_transient, unblock, write_some};
use crate::stamp::Stamp;
use crate::subscriber::Subscriber;
use crate::sys;

/// Size of a message.
pub const BODY_BYTES: usize = 128;
/// Messages that may be in the broker: accepted but not delivered.
const MAX_BACKLOG: u64 = 100_000;
const WARM_UP: Duration = Duration::from_secs(1);

/// How the publisher feeds the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Name in the table.
    pub name: &'static str,
    /// Messages written at once.
    pub batch_messages: u32,
    /// Whether they are one MPUB.
    pub mpub: bool,
    /// Messages that may be unacknowledged.
    pub window_messages: u64,
}

/// The flows that are compared.
pub const FLOWS: [Flow; 3] = [
    Flow {
        name: "PUB window 1000",
        batch_messages: 50,
        mpub: false,
        window_messages: 1000,
    },
    Flow {
        name: "PUB window 100",
        batch_messages: 5,
        mpub: false,
        window_messages: 100,
    },
    Flow {
        name: "MPUB of 100",
        batch_messages: 100,
        mpub: true,
        window_messages: 1000,
    },
];

/// The result of a flow.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Messages delivered per second.
    pub achieved_per_second: f64,
    /// Broker CPU time per delivered message in microseconds.
    pub broker_us_per_message: f64,
    /// CPU of broker and core.
    pub broker_cpu: CpuUse,
    /// From write to read; it is mostly the wait in the window.
    pub latency: Percentiles,
    /// Part of the time that this side was at work; near 1 it is this side that was measured.
    pub generator_busy: f64,
}

/// Drives `flow` through the broker for `measure` after a second of warm-up.
///
/// # Errors
/// When the broker refuses, closes a connection or breaks its protocol.
pub fn run(target: &Target, flow: Flow, measure: Duration) -> Result<Outcome, BenchError> {
    let pid = target
        .pid
        .ok_or_else(|| BenchError::Options("the broker's process is not known".to_owned()))?;
    let subscriber = Subscriber::connect(target.address, &target.protocol, target.trust.as_ref())?;
    let mut pump = Pump::new(target, flow, subscriber, measure)?;
    let window = pump.window_ns.clone();
    while pump.turn()? < window.start {}
    let (before, busy_before_ns) = (CpuReading::take(pid, target.core)?, pump.busy_ns);
    while pump.turn()? < window.end {}
    let (cpu, busy_ns) = (
        CpuReading::take(pid, target.core)?.since(&before),
        pump.busy_ns - busy_before_ns,
    );
    let received = pump.measurement.counts().received_in_window as f64;
    Ok(Outcome {
        achieved_per_second: received / measure.as_secs_f64(),
        broker_us_per_message: cpu.process_us / received.max(1.0),
        broker_cpu: cpu,
        latency: pump.measurement.latency(),
        generator_busy: busy_ns as f64 / measure.as_nanos() as f64,
    })
}

struct Pump {
    protocol: Protocol,
    flow: Flow,
    template: Template,
    subscriber: Subscriber,
    stream: Line,
    unsent: Vec<u8>,
    replies: Vec<u8>,
    scratch: Vec<u8>,
    measurement: Measurement,
    window_ns: std::ops::Range<u64>,
    sent: u64,
    acknowledged: u64,
    received: u64,
    busy_ns: u64,
}

impl Pump {
    fn new(
        target: &Target,
        flow: Flow,
        subscriber: Subscriber,
        measure: Duration,
    ) -> Result<Self, BenchError> {
        let mut stream = connect(
            target.address,
            target.trust.as_ref(),
            OutputBuffer::default(),
        )?;
        target.protocol.greet_as_publisher(&mut stream, 0)?;
        unblock(&stream)?;
        let batch = Batch {
            messages: flow.batch_messages,
            body_bytes: BODY_BYTES,
            mpub: flow.mpub,
        };
        let start_ns = sys::monotonic_ns() + WARM_UP.as_nanos() as u64;
        let window_ns = start_ns..start_ns + measure.as_nanos() as u64;
        Ok(Self {
            protocol: target.protocol.clone(),
            flow,
            template: target.protocol.template(&batch),
            subscriber,
            stream,
            unsent: Vec::new(),
            replies: Vec::new(),
            scratch: vec![0; 64 << 10],
            measurement: Measurement::new(0, 1, window_ns.clone()),
            window_ns,
            sent: 0,
            acknowledged: 0,
            received: 0,
            busy_ns: 0,
        })
    }

    /// One turn: write what the window allows, read both sides; returns the time.
    fn turn(&mut self) -> Result<u64, BenchError> {
        let start_ns = sys::monotonic_ns();
        let wrote = self.write(start_ns)?;
        let replied = self.read_replies()?;
        let (measurement, received) = (&mut self.measurement, &mut self.received);
        let read = self.subscriber.read(&mut |delivery, now_ns| {
            if let Some(stamp) = Stamp::read_from(delivery.body) {
                measurement.on_receive(stamp, now_ns);
                *received += 1;
            }
        })?;
        self.subscriber.answer(start_ns)?;
        let end_ns = sys::monotonic_ns();
        if wrote || replied || read {
            self.busy_ns += end_ns - start_ns;
        }
        Ok(end_ns)
    }

    fn write(&mut self, now_ns: u64) -> Result<bool, BenchError> {
        if !self.unsent.is_empty() || self.stream.has_unwritten() {
            let written = write_some(&mut self.stream, &self.unsent)?;
            self.unsent.drain(..written);
            return Ok(written > 0);
        }
        let batch = u64::from(self.flow.batch_messages);
        let under_way = self.sent - self.acknowledged;
        if under_way + batch > self.flow.window_messages || self.sent - self.received > MAX_BACKLOG
        {
            return Ok(false);
        }
        let stamp = Stamp {
            run: 0,
            publisher: 0,
            sequence: self.sent,
            scheduled_ns: now_ns,
        };
        let bytes = self.template.stamp(stamp);
        let written = write_some(&mut self.stream, bytes)?;
        self.unsent.extend_from_slice(&bytes[written..]);
        self.measurement.on_send(now_ns, now_ns, batch);
        self.sent += batch;
        Ok(true)
    }

    fn read_replies(&mut self) -> Result<bool, BenchError> {
        let readable = sys::wait_any_readable(&[self.stream.as_raw_fd()], Duration::ZERO)
            .map_err(BenchError::io("wait for answers"))?;
        if !readable && !self.stream.has_more() {
            return Ok(false);
        }
        match self.stream.read(&mut self.scratch) {
            Ok(0) => {
                return Err(BenchError::protocol(
                    "connection",
                    "the broker closed the publisher's connection",
                ));
            }
            Ok(read) => self.replies.extend_from_slice(&self.scratch[..read]),
            Err(error) if is_transient(error.kind()) => return Ok(false),
            Err(error) => return Err(BenchError::io("read answers")(error)),
        }
        let mut answers = Vec::new();
        let replies = self.protocol.read_replies(&self.replies, &mut answers)?;
        self.replies.drain(..replies.consumed);
        self.unsent.extend_from_slice(&answers);
        let per_reply = if self.flow.mpub {
            u64::from(self.flow.batch_messages)
        } else {
            1
        };
        self.acknowledged += replies.acknowledged * per_reply;
        if let Some(total) = replies.acknowledged_total {
            self.acknowledged = total;
        }
        if self.acknowledged > self.sent {
            return Err(BenchError::protocol(
                "nsq",
                "more acknowledged than was sent",
            ));
        }
        Ok(true)
    }
}
