//! The broker's side of the link (`broker/agent/{session,changes,orders}.rs`): dials, says hello, says what is here and what becomes of it, reports, measures.

use std::time::Duration;

use clock::Instant;
use limit::adaptor::HistoryLength;
use link::{
    Attachment, BrokerReport, Hello, ToBroker, ToController, TopicState, Traced, WindowReport,
};
use topics::{Told, TopicKey, TopicNews, WindowOrder};

use super::ground::Ground;
use super::{http_address, tcp_address};
use crate::event::{Actor, Packet, Port, StreamId};
use crate::outside::Outside;

/// A dial, and the answer to a hello, take at most so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between dials double from the first to the second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Reports that are wanted early are so far apart.
const EARLY_REPORT_SPACING: Duration = Duration::from_millis(100);
/// Histories of traffic are kept in steps of so long.
const HISTORY_STEP_MS: u64 = 1000;
/// Bytes that topics may take in one report.
const REPORT_BYTES_MAX: usize = 1 << 20;

/// The link, and what is kept between links.
#[derive(Debug)]
pub(super) struct Agent {
    standing: Standing,
    /// The life that the last Welcome named.
    pub(super) life: u64,
    /// The latest life of the controller that it has heard of.
    pub(super) epoch: u64,
    pause: Duration,
    /// When topics were counted last, on whichever link.
    reported_at: Instant,
    windows: Vec<OpenWindow>,
    /// Everything was said on this link.
    is_complete: bool,
}

#[derive(Debug)]
enum Standing {
    Away(Instant),
    Dialling(StreamId, Instant),
    Greeting(StreamId, Instant),
    Linked(Linked),
}

#[derive(Debug)]
struct Linked {
    stream: StreamId,
    reports: u64,
    interval: Duration,
    last_at: Instant,
    next_at: Instant,
}

/// A profiling window that is open.
#[derive(Debug)]
struct OpenWindow {
    number: u64,
    topic: String,
    key: TopicKey,
    order: WindowOrder,
    seconds: f64,
    until: Instant,
}

/// What is to be done for the link by who knows more than its topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    Report,
}

impl Agent {
    pub(super) fn new(now: Instant) -> Agent {
        Agent {
            standing: Standing::Away(now),
            life: 0,
            epoch: 0,
            pause: SHORTEST_PAUSE,
            reported_at: now,
            windows: Vec::new(),
            is_complete: false,
        }
    }

    /// Whether a stream is the link.
    pub(super) fn is_on(&self, stream: StreamId) -> bool {
        match &self.standing {
            Standing::Away(_) => false,
            Standing::Dialling(of, _) | Standing::Greeting(of, _) => *of == stream,
            Standing::Linked(linked) => linked.stream == stream,
        }
    }

    /// Whether the next report is the first on its link.
    pub(super) fn has_said_nothing(&self) -> bool {
        matches!(&self.standing, Standing::Linked(linked) if linked.reports == 0)
    }

    pub(super) fn is_told_all(&self) -> bool {
        self.is_complete && matches!(self.standing, Standing::Linked(_))
    }

    /// The link that words go over.
    pub(super) fn stream(&self) -> Option<StreamId> {
        match &self.standing {
            Standing::Linked(linked) => Some(linked.stream),
            _ => None,
        }
    }

    pub(super) fn report_early(&mut self, now: Instant) {
        if let Standing::Linked(linked) = &mut self.standing {
            let early = (linked.last_at + EARLY_REPORT_SPACING).max(now);
            linked.next_at = linked.next_at.min(early);
        }
    }

    pub(super) fn next_at(&self) -> Option<Instant> {
        let standing = match &self.standing {
            Standing::Away(at) | Standing::Dialling(_, at) | Standing::Greeting(_, at) => *at,
            Standing::Linked(linked) => linked.next_at,
        };
        let windows = self.windows.iter().map(|window| window.until);
        windows.chain([standing]).min()
    }

    /// All was said that there is.
    pub(super) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Does what is due of the link.
    pub(super) fn drive(&mut self, ground: &mut Ground, out: &mut Outside) -> Due {
        let now = out.net.now;
        self.end_windows(ground, out);
        match &self.standing {
            Standing::Away(at) if *at <= now => {
                let stream = out.net.dial(ground.me, Actor::Controller, Port::Link);
                self.standing = Standing::Dialling(stream, now + ANSWER_TIMEOUT);
            }
            Standing::Dialling(stream, until) | Standing::Greeting(stream, until)
                if *until <= now =>
            {
                out.net.close(*stream, ground.me);
                self.lost(out);
            }
            Standing::Linked(linked) if linked.next_at <= now => return Due::Report,
            _ => {}
        }
        Due::Nothing
    }

    /// A dial has come through.
    pub(super) fn connected(&mut self, stream: StreamId, ground: &Ground, out: &mut Outside) {
        let hello = Hello {
            broker: ground.name.clone(),
            identity: ground.identity,
            life: self.life,
            tcp_address: tcp_address(ground.place),
            http_address: Some(http_address(ground.place)),
            gossip_address: Some(tcp_address(ground.place)),
            mcap: None,
            model: None,
        };
        self.standing = Standing::Greeting(stream, out.net.now + ANSWER_TIMEOUT);
        let hello = Packet::Word(Box::new(ToController::Hello(hello)));
        out.say(stream, ground.me, hello);
    }

    /// The controller takes this broker: what is here is said, and a report is due. False: it was not asked.
    pub(super) fn welcomed(
        &mut self,
        life: u64,
        (report_interval_ms, history_ms): (u64, u64),
        ground: &mut Ground,
        out: &mut Outside,
    ) -> bool {
        let Standing::Greeting(stream, _) = self.standing else {
            return false;
        };
        let owner = (ground.name.as_str(), ground.identity);
        let welcomed = out.books.names.welcomed(owner, (life, ground.memory()));
        out.books.check("names", welcomed);
        let now = out.net.now;
        self.life = life;
        self.pause = SHORTEST_PAUSE;
        self.is_complete = false;
        let steps = usize::try_from(history_ms / HISTORY_STEP_MS).unwrap_or(1);
        if let Ok(length) = HistoryLength::new(steps.max(1), HISTORY_STEP_MS) {
            ground.table.set_history_length(length);
        }
        self.standing = Standing::Linked(Linked {
            stream,
            reports: 0,
            interval: Duration::from_millis(report_interval_ms),
            last_at: now,
            next_at: now,
        });
        ground.table.effects.told.clear();
        self.say_inventory(ground, out);
        true
    }

    /// The link is gone.
    pub(super) fn lost(&mut self, out: &mut Outside) {
        // What became of topics meanwhile is said whole with the next link.
        self.windows.clear();
        self.is_complete = false;
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        let jitter = 0.5 + 0.5 * (out.chance.below(1024) as f64 / 1024.0);
        self.standing = Standing::Away(out.net.now + pause.mul_f64(jitter));
    }

    /// Refused: somebody has to change something, or only time has to pass.
    pub(super) fn turned_away(&mut self, passes: bool, ground: &Ground, out: &mut Outside) {
        if let Standing::Greeting(stream, _) = self.standing {
            out.net.close(stream, ground.me);
        }
        if !passes {
            self.pause = LONGEST_PAUSE;
        }
        self.lost(out);
    }

    pub(super) fn tell(&self, word: ToController, ground: &Ground, out: &mut Outside) {
        if let Some(stream) = self.stream() {
            out.say(stream, ground.me, Packet::Word(Box::new(word)));
        }
    }

    /// Says what became of topics and channels, in its order; without a link nobody hears it.
    pub(super) fn tell_changes(&self, ground: &mut Ground, out: &mut Outside) {
        for told in std::mem::take(&mut ground.table.effects.told) {
            let word = match told {
                Told::Changed(topic, change) => ToController::Changed {
                    topic: topic.to_string(),
                    change,
                },
                Told::Followed(topic, change) => ToController::Followed {
                    topic: topic.to_string(),
                    change,
                },
                Told::Asked(topic) => ToController::TopicAsked {
                    topic: topic.to_string(),
                },
            };
            self.tell(word, ground, out);
        }
    }

    fn say_inventory(&self, ground: &Ground, out: &mut Outside) {
        let table = &ground.table;
        let keys = (0..table.topic_slots()).filter_map(|slot| table.topic_at(slot));
        let mut topics: Vec<TopicState> = keys.filter_map(|key| table.topic_state(key)).collect();
        topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        let last = topics.split_off(topics.len() / 2);
        for (topics, is_last) in [(topics, false), (last, true)] {
            self.tell(ToController::Inventory { topics, is_last }, ground, out);
        }
    }

    /// Says how topics fare, who came and went, and which rounds are left.
    pub(super) fn report(
        &mut self,
        ground: &mut Ground,
        attachments: Vec<Attachment>,
        left_rounds: u64,
        out: &mut Outside,
    ) {
        let now = out.net.now;
        let Standing::Linked(linked) = &mut self.standing else {
            return;
        };
        linked.reports += 1;
        let number = linked.reports;
        let local = ground.local(now);
        let table = &mut ground.table;
        if number == 1 {
            table.begin_reports();
        }
        let mut walk = table.begin_report(number, REPORT_BYTES_MAX, local);
        while table.report_next(&mut walk, local) {}
        let TopicNews {
            topics,
            gone,
            has_more,
        } = table.end_report(walk);
        let report = BrokerReport {
            number,
            seconds: (now - self.reported_at).as_secs_f64(),
            topics,
            has_more,
            gone,
            attachments,
            left_rounds,
            memory: None,
        };
        self.reported_at = now;
        let interval = match has_more {
            true => EARLY_REPORT_SPACING,
            false => linked.interval,
        };
        (linked.last_at, linked.next_at) = (now, now + interval);
        self.tell(ToController::Report(report), ground, out);
    }

    /// Carries out an order to measure.
    pub(super) fn begin_window(&mut self, order: ToBroker, ground: &mut Ground, out: &mut Outside) {
        let ToBroker::Measure {
            window,
            topic,
            seconds,
            percentile,
            promise_us,
            with_trace,
        } = order
        else {
            return;
        };
        self.windows.retain(|open| open.topic != topic);
        let Some(key) = ground.table.find(&topic) else {
            let report = WindowReport {
                window,
                topic,
                seconds,
                ..WindowReport::default()
            };
            return self.tell(ToController::Window(report), ground, out);
        };
        let order = WindowOrder {
            percentile,
            promise_us,
            with_trace,
        };
        let now = ground.local(out.net.now);
        ground.table.begin_window(key, &order, now);
        self.windows.push(OpenWindow {
            number: window,
            topic,
            key,
            order,
            seconds,
            until: out.net.now + Duration::from_secs_f64(seconds),
        });
    }

    /// Says what the windows showed whose time is over.
    fn end_windows(&mut self, ground: &mut Ground, out: &mut Outside) {
        let (now, local) = (out.net.now, ground.local(out.net.now));
        let windows = std::mem::take(&mut self.windows);
        let (over, open): (Vec<_>, Vec<_>) =
            windows.into_iter().partition(|window| window.until <= now);
        self.windows = open;
        for window in over {
            let mut result = ground
                .table
                .end_window(window.key, local)
                .unwrap_or_default();
            result.arrivals.sort_unstable();
            if window.order.with_trace {
                let part = Traced {
                    window: window.number,
                    topic: window.topic.clone(),
                    publishers: result.publishers,
                    arrivals: result.arrivals,
                };
                self.tell(ToController::Trace(part), ground, out);
            }
            let report = WindowReport {
                window: window.number,
                topic: window.topic,
                seconds: window.seconds,
                messages: result.messages,
                latency_us: result.latency_us,
                p50_us: result.p50_us,
                samples: result.samples,
                is_trace_cut: result.is_trace_cut,
            };
            self.tell(ToController::Window(report), ground, out);
        }
    }
}
