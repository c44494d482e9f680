//! One broker of a [`World`](super::World): a queue served in virtual time, windows over it, and
//! reports.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use clock::Instant;
use link::{
    Attachment, BrokerReport, Declaration, Lateness, ToController, TopicReport, Traced,
    WindowReport,
};

use super::{Sensor, Who};

#[derive(Default)]
pub(super) struct Waiting {
    pub(super) done_ns: u64,
    pub(super) arrived_ns: u64,
    pub(super) topic: String,
}

#[derive(Default)]
pub(super) struct Here {
    pub(super) messages: u64,
    pub(super) lateness: Lateness,
    pub(super) promise_us: Option<f64>,
    pub(super) depth: u64,
}

pub(super) struct Window {
    pub(super) number: u64,
    pub(super) begin_ns: u64,
    pub(super) until: Instant,
    pub(super) seconds: f64,
    pub(super) percentile: f64,
    pub(super) with_trace: bool,
    pub(super) latencies_us: Vec<f64>,
    pub(super) arrivals: Vec<(u64, String, u32)>,
}

pub(in crate::core::tests) struct Node {
    pub(super) number: u32,
    /// Its process's life, as the controller numbers it.
    pub(super) life: u64,
    pub(super) is_dead: bool,
    pub(super) link: u64,
    pub(super) reports: u64,
    pub(super) reported_at: Instant,
    pub(super) free_at_ns: u64,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) topics: BTreeMap<String, Here>,
    pub(super) changes: Vec<(Who, bool)>,
    pub(super) windows: BTreeMap<String, Window>,
}

impl Node {
    /// One that has said nothing.
    pub(super) fn new(now: Instant) -> Node {
        Node {
            number: 0,
            life: 0,
            is_dead: false,
            link: 0,
            reports: 0,
            reported_at: now,
            free_at_ns: 0,
            queue: VecDeque::new(),
            topics: BTreeMap::new(),
            changes: Vec::new(),
            windows: BTreeMap::new(),
        }
    }

    /// What it says of windows that are over.
    pub(super) fn windows_over(&mut self, now: Instant) -> Vec<ToController> {
        let over = self.windows.extract_if(.., |_, window| window.until <= now);
        let due: Vec<(String, Window)> = over.collect();
        let mut said = Vec::new();
        for (topic, mut window) in due {
            if window.with_trace {
                let mut publishers: Vec<String> = Vec::new();
                let mut arrivals = Vec::new();
                for (at_ns, id, batch) in window.arrivals {
                    let place = publishers.iter().position(|known| *known == id);
                    let place = place.unwrap_or_else(|| {
                        publishers.push(id);
                        publishers.len() - 1
                    });
                    arrivals.push((at_ns, place as u32, batch));
                }
                let part = Traced {
                    window: window.number,
                    topic: topic.clone(),
                    publishers,
                    arrivals,
                };
                said.push(ToController::Trace(part));
            }
            window.latencies_us.sort_by(f64::total_cmp);
            let count = window.latencies_us.len();
            let at = |percentile: f64| {
                let rank = (percentile / 100.0 * count as f64).ceil().max(1.0) as usize;
                (count >= 20).then(|| window.latencies_us[rank - 1])
            };
            let report = WindowReport {
                window: window.number,
                topic,
                seconds: window.seconds,
                messages: count as u64,
                latency_us: at(window.percentile),
                p50_us: at(50.0),
                samples: count as u64,
                is_trace_cut: false,
            };
            said.push(ToController::Window(report));
        }
        said
    }

    /// How it fares.
    pub(super) fn report(&mut self, sensors: &BTreeMap<Who, Sensor>, now: Instant) -> BrokerReport {
        let since: Duration = now - self.reported_at;
        self.reported_at = now;
        self.reports += 1;
        let mut topics = Vec::new();
        for (topic, here) in &mut self.topics {
            let lateness = std::mem::take(&mut here.lateness);
            topics.push(TopicReport {
                topic: topic.clone(),
                channels: vec![String::from("all")],
                messages: std::mem::take(&mut here.messages),
                depth: here.depth,
                lateness: here.promise_us.map(|_| Lateness {
                    backlog: here.depth,
                    ..lateness
                }),
                ..TopicReport::default()
            });
        }
        let attachments = std::mem::take(&mut self.changes);
        let attachments = attachments.into_iter().map(|((topic, id), attached)| {
            let spec = &sensors[&(topic.clone(), id.clone())].spec;
            Attachment {
                publisher: Declaration {
                    id,
                    topic,
                    group: spec.group.clone(),
                    rate: Some(spec.rate),
                    batch: spec.batch,
                },
                attached,
                refused: None,
            }
        });
        BrokerReport {
            number: self.reports,
            seconds: since.as_secs_f64(),
            topics,
            attachments: attachments.collect(),
            ..BrokerReport::default()
        }
    }
}
