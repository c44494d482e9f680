//! The broker's side of the link (`broker/agent/{session,changes}.rs`): dials, says hello, says what is here and what becomes of it, reports.

use std::time::Duration;

use clock::Instant;
use limit::adaptor::Window;
use link::{BrokerReport, Hello, ToController, TopicState};
use topics::{Told, TopicKey, TopicNews, WindowOrder};

use super::{Process, http_address, tcp_address};
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
    pause: Duration,
    /// When topics were counted last, on whichever link.
    reported_at: Instant,
    pub(super) windows: Vec<OpenWindow>,
    /// Everything was said on this link.
    pub(super) is_complete: bool,
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
pub(super) struct OpenWindow {
    pub(super) number: u64,
    pub(super) topic: String,
    pub(super) key: TopicKey,
    pub(super) order: WindowOrder,
    pub(super) seconds: f64,
    pub(super) until: Instant,
}

impl Agent {
    pub(super) fn new(now: Instant) -> Agent {
        Agent {
            standing: Standing::Away(now),
            life: 0,
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
}

impl Process {
    /// Does what is due of the link.
    pub(super) fn drive_link(&mut self, out: &mut Outside) {
        let now = out.net.now;
        self.end_windows(out);
        match &self.agent.standing {
            Standing::Away(at) if *at <= now => {
                let stream = out.net.dial(self.me, Actor::Controller, Port::Link);
                self.agent.standing = Standing::Dialling(stream, now + ANSWER_TIMEOUT);
            }
            Standing::Dialling(stream, until) | Standing::Greeting(stream, until)
                if *until <= now =>
            {
                out.net.close(*stream, self.me);
                self.link_lost(out);
            }
            Standing::Linked(linked) if linked.next_at <= now => self.report(out),
            _ => {}
        }
    }

    /// A dial has come through.
    pub(super) fn connected(&mut self, stream: StreamId, out: &mut Outside) {
        if !self.agent.is_on(stream) {
            return self.hand_over_connected(stream, out);
        }
        let address = self.gossip_address();
        let hello = Hello {
            broker: self.name.clone(),
            identity: self.identity,
            life: self.agent.life,
            tcp_address: tcp_address(self.place),
            http_address: Some(http_address(self.place)),
            gossip_address: Some(address),
            mcap: None,
            model: None,
        };
        self.agent.standing = Standing::Greeting(stream, out.net.now + ANSWER_TIMEOUT);
        let hello = Packet::Word(Box::new(ToController::Hello(hello)));
        out.say(stream, self.me, hello);
    }

    /// The controller takes this broker: what is here is said, then what becomes of it.
    pub(super) fn welcomed(
        &mut self,
        life: u64,
        (report_interval_ms, history_ms): (u64, u64),
        out: &mut Outside,
    ) {
        let Standing::Greeting(stream, _) = self.agent.standing else {
            return;
        };
        let process = (self.place, self.life);
        let (name, identity) = (self.name.clone(), self.identity);
        let welcomed = out.books.names.welcomed((&name, identity), (life, process));
        out.books.check("names", welcomed);
        let now = out.net.now;
        self.agent.life = life;
        self.agent.pause = SHORTEST_PAUSE;
        self.agent.is_complete = false;
        let steps = usize::try_from(history_ms / HISTORY_STEP_MS).unwrap_or(1);
        if let Ok(window) = Window::new(steps.max(1), HISTORY_STEP_MS) {
            self.table.set_history_window(window);
        }
        self.handing.begin_link();
        self.agent.standing = Standing::Linked(Linked {
            stream,
            reports: 0,
            interval: Duration::from_millis(report_interval_ms),
            last_at: now,
            next_at: now,
        });
        self.table.effects.told.clear();
        self.attached.begin();
        self.say_inventory(out);
        self.report(out);
    }

    pub(super) fn link_lost(&mut self, out: &mut Outside) {
        // What became of topics meanwhile is said whole with the next link.
        self.agent.windows.clear();
        self.agent.is_complete = false;
        let pause = self.agent.pause;
        self.agent.pause = (pause * 2).min(LONGEST_PAUSE);
        let jitter = 0.5 + 0.5 * (out.chance.below(1024) as f64 / 1024.0);
        self.agent.standing = Standing::Away(out.net.now + pause.mul_f64(jitter));
    }

    /// Refused: somebody has to change something, or only time has to pass.
    pub(super) fn turned_away(&mut self, passes: bool, out: &mut Outside) {
        if let Standing::Greeting(stream, _) = self.agent.standing {
            out.net.close(stream, self.me);
        }
        if !passes {
            self.agent.pause = LONGEST_PAUSE;
        }
        self.link_lost(out);
    }

    pub(super) fn tell(&mut self, word: ToController, out: &mut Outside) {
        if let Some(stream) = self.agent.stream() {
            out.say(stream, self.me, Packet::Word(Box::new(word)));
        }
    }

    /// Says what became of topics and channels, in its order; without a link nobody hears it.
    pub(super) fn tell_changes(&mut self, out: &mut Outside) {
        for told in std::mem::take(&mut self.table.effects.told) {
            let word = match told {
                Told::Changed(topic, change) => ToController::Changed {
                    topic: topic.to_string(),
                    change,
                },
                Told::Asked(topic) => ToController::TopicAsked {
                    topic: topic.to_string(),
                },
            };
            self.tell(word, out);
        }
    }

    fn say_inventory(&mut self, out: &mut Outside) {
        let slots = 0..self.table.topic_slots();
        let keys = slots.filter_map(|slot| self.table.topic_at(slot));
        let mut topics: Vec<TopicState> =
            keys.filter_map(|key| self.table.topic_state(key)).collect();
        topics.sort_by(|a, b| a.topic.cmp(&b.topic));
        let last = topics.split_off(topics.len() / 2);
        for (topics, is_last) in [(topics, false), (last, true)] {
            self.tell(ToController::Inventory { topics, is_last }, out);
        }
    }

    fn report(&mut self, out: &mut Outside) {
        let now = out.net.now;
        let Standing::Linked(linked) = &mut self.agent.standing else {
            return;
        };
        linked.reports += 1;
        let number = linked.reports;
        let local = now + self.offset;
        if number == 1 {
            self.table.begin_reports();
        }
        let mut walk = self.table.begin_report(number, REPORT_BYTES_MAX, local);
        while self.table.report_next(&mut walk, local) {}
        let TopicNews {
            topics,
            gone,
            has_more,
        } = self.table.end_report(walk);
        let report = BrokerReport {
            number,
            seconds: (now - self.agent.reported_at).as_secs_f64(),
            topics,
            has_more,
            gone,
            attachments: self.attached.news(),
            left_rounds: self.vouching.left(local),
            memory: None,
        };
        self.agent.reported_at = now;
        let interval = match has_more {
            true => EARLY_REPORT_SPACING,
            false => linked.interval,
        };
        (linked.last_at, linked.next_at) = (now, now + interval);
        self.tell(ToController::Report(report), out);
    }
}
