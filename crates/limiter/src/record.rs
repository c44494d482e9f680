//! The record of a run: JSON lines, for drawing pictures and for checking what a limit did.
//!
//! The first line says what the numbers in the others stand for; then there is a line per class and
//! interval, with one number per site; at the end a line per flow, and one with everything else.
//! docs/limiter.md names the fields. A thread of its own writes; if the disk cannot keep up, lines
//! are left out and counted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Instant;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::LimiterError;
use crate::router::{FLOWS_MAX, Router};
use crate::site::Passed;
use crate::sys;

/// The most lines that wait to be written.
const LINES_MAX: usize = 8192;

/// Writes a record of what the limits did; the module says what is in it.
#[derive(Debug)]
pub(crate) struct Recorder {
    lines: SyncSender<String>,
    writer: JoinHandle<std::io::Result<()>>,
    start: Instant,
    interval: Duration,
    due: Instant,
    sites: usize,
    classes: Vec<String>,
    /// The counts at the end of the last interval, by class, then by site.
    before: Vec<Passed>,
    left_out: u64,
}

impl Recorder {
    /// Begins the record, if `config` asks for one.
    pub(crate) fn open(config: &Config, start: Instant) -> Result<Option<Recorder>, LimiterError> {
        let Some(path) = &config.record else {
            return Ok(None);
        };
        let file = File::create(path);
        let file = file.map_err(LimiterError::io(format!(
            "creating the record {}",
            path.display()
        )))?;
        let (lines, received) = sync_channel(LINES_MAX);
        let writer = std::thread::Builder::new().name("record".to_owned());
        let writer = writer.spawn(move || write(file, &received));
        let writer = writer.map_err(LimiterError::io(
            "starting the thread that writes the record",
        ))?;
        let interval = Duration::from_millis(config.record_interval_ms);
        let mut recorder = Recorder {
            lines,
            writer,
            start,
            interval,
            due: start + interval,
            sites: config.site.len(),
            classes: config
                .class
                .iter()
                .map(|class| class.name.clone())
                .collect(),
            before: vec![Passed::default(); config.site.len() * config.class.len()],
            left_out: 0,
        };
        recorder.say(&json!({
            "kind": "start",
            "unix_ns": sys::unix_ns(),
            "monotonic_ns": start.as_nanos(),
            "interval_ms": config.record_interval_ms,
            "sites": config.site.iter().map(|site| &site.name).collect::<Vec<_>>(),
            "classes": recorder.classes,
        }));
        Ok(Some(recorder))
    }

    /// When [`Recorder::turn`] has something to write.
    pub(crate) const fn due(&self) -> Instant {
        self.due
    }

    /// Writes the interval that ended by `now`, if one did.
    pub(crate) fn turn(&mut self, now: Instant, router: &Router) {
        if now < self.due {
            return;
        }
        for class in 0..self.classes.len() {
            let line = self.interval(now, class, router);
            self.say(&line);
        }
        while self.due <= now {
            self.due += self.interval;
        }
    }

    /// Writes what is left to say, and waits for the disk.
    pub(crate) fn end(
        mut self,
        now: Instant,
        router: &Router,
        refused: u64,
    ) -> Result<(), LimiterError> {
        for class in 0..self.classes.len() {
            let line = self.interval(now, class, router);
            self.say_in_time(&line);
        }
        if let Some(flows) = router.flows() {
            for flow in flows.each() {
                let line = json!({
                    "kind": "flow",
                    "site": flow.site,
                    "class": self.classes[flow.class],
                    "source": flow.header.source,
                    "destination": flow.header.destination,
                    "protocol": flow.header.protocol,
                    "ports": flow.header.ports,
                    "first_s": self.since_start(flow.first),
                    "last_s": self.since_start(flow.last),
                    "passed": flow.passed,
                });
                self.say_in_time(&line);
            }
        }
        let counters = router.counters();
        let line = json!({
            "kind": "end",
            "at_s": self.since_start(now),
            "cpu_s": sys::thread_cpu_ns() as f64 / 1e9,
            "flows_max": FLOWS_MAX,
            "other_flows": router.flows().map(crate::router::Flows::others),
            "returned_packets": counters.returned,
            "returned_bytes": counters.returned_bytes,
            "unclassed_packets": counters.unclassed,
            "unplaced_packets": counters.unplaced,
            "odd_packets": counters.odd.iter().sum::<u64>(),
            "lost_at_bottlenecks": counters.lost_at_bottlenecks,
            "lost_at_links": counters.lost_at_links,
            "lost_in_hold": counters.lost_in_hold,
            "refused_by_devices": refused,
            "delivered_packets": counters.delivered,
            "late_mean_us": counters.late_ns as f64 / 1e3 / counters.delivered.max(1) as f64,
            "late_max_us": counters.latest_ns as f64 / 1e3,
            "lines_left_out": self.left_out,
        });
        self.say_in_time(&line);
        drop(self.lines);
        let written = self.writer.join();
        let written = written.unwrap_or_else(|_| Err(std::io::Error::other("its thread panicked")));
        written.map_err(LimiterError::io("writing the record"))
    }

    fn interval(&mut self, now: Instant, class: usize, router: &Router) -> Value {
        let sites = self.sites;
        let mut line = Line::with_room(sites);
        for site in 0..sites {
            let standing = router.standing(site, class);
            let passed = standing.passed();
            let before = std::mem::replace(&mut self.before[class * sites + site], passed);
            line.forwarded_bytes
                .push(passed.forwarded_bytes - before.forwarded_bytes);
            line.forwarded_packets
                .push(passed.forwarded_packets - before.forwarded_packets);
            line.dropped_bytes
                .push(passed.dropped_bytes - before.dropped_bytes);
            line.dropped_packets
                .push(passed.dropped_packets - before.dropped_packets);
            line.local_limit.push(standing.local_limit());
            line.demand.push(standing.update().demand());
            line.connected.push(standing.connected());
        }
        json!({
            "kind": "interval",
            "at_s": self.since_start(now),
            "class": self.classes[class],
            "forwarded_bytes": line.forwarded_bytes,
            "forwarded_packets": line.forwarded_packets,
            "dropped_bytes": line.dropped_bytes,
            "dropped_packets": line.dropped_packets,
            "local_limit": line.local_limit,
            "demand": line.demand,
            "connected": line.connected,
        })
    }

    fn since_start(&self, at: Instant) -> f64 {
        at.saturating_since(self.start).as_secs_f64()
    }

    fn say(&mut self, line: &Value) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line.to_string()) {
            self.left_out += 1;
        }
    }

    /// At the end nothing else waits.
    fn say_in_time(&mut self, line: &Value) {
        let _ = self.lines.send(line.to_string());
    }
}

/// Numbers of one class by site.
struct Line {
    forwarded_bytes: Vec<u64>,
    forwarded_packets: Vec<u64>,
    dropped_bytes: Vec<u64>,
    dropped_packets: Vec<u64>,
    local_limit: Vec<Option<f64>>,
    demand: Vec<f64>,
    connected: Vec<u32>,
}

impl Line {
    fn with_room(sites: usize) -> Line {
        Line {
            forwarded_bytes: Vec::with_capacity(sites),
            forwarded_packets: Vec::with_capacity(sites),
            dropped_bytes: Vec::with_capacity(sites),
            dropped_packets: Vec::with_capacity(sites),
            local_limit: Vec::with_capacity(sites),
            demand: Vec::with_capacity(sites),
            connected: Vec::with_capacity(sites),
        }
    }
}

fn write(file: File, lines: &Receiver<String>) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.flush()
}
