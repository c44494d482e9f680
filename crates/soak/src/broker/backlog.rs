//! What queues have on disk, and logs of durable topics: the product's own [`Keeper`] on simulated disks, driven as its thread drives it
//! (`broker/backlog/worker.rs`) (`broker/reactor/relay.rs`).

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use broker::{BacklogConfig, BacklogHealth, Keeper, Recovered};
use clock::{Instant, Streams, WallTime};
use disk::DiskError;
use link::Durability;
use topics::{BacklogAnswer, BacklogBounds, BacklogOrder, LogAnswer, LogOrder};

use super::ground::Ground;
use super::handing::Handing;
use super::session::Sessions;
use super::waiters::Who;
use crate::chance::Chance;
use crate::medium::{Ailment, Medium};
use crate::outside::Outside;

/// Longest until the thread gets to what it is given, drawn for each process.
const SLOWNESS_MS: [u64; 4] = [0, 2, 20, 200];
/// A process ends after at most so many operations of what its thread had still to do.
const LAST_OPERATIONS: usize = 12;

/// What a place has for messages: a disk for segments, and one for logs.
#[derive(Clone, Debug)]
pub struct MessageDisk {
    segments: Medium,
    logs: Medium,
    bytes_max: u64,
}

/// The keeper, and what it has not got to.
#[derive(Debug)]
pub(super) struct Backlog {
    keeper: Keeper<Medium>,
    works: VecDeque<Work>,
    work_at: Option<Instant>,
    slowness_ms: u64,
}

#[derive(Debug)]
enum Work {
    Order(BacklogOrder),
    Log(LogOrder),
}

/// The answers of a turn of the thread.
#[derive(Debug, Default)]
struct Answers {
    segments: Vec<BacklogAnswer>,
    logs: Vec<LogAnswer>,
}

impl MessageDisk {
    /// Empty disks of a place, whose files may have so many bytes.
    #[must_use]
    pub fn new(place: usize, bytes_max: u64, streams: &Streams) -> MessageDisk {
        let medium = |name| Medium::new(Chance::new(streams, &format!("{name}-{place}")));
        MessageDisk {
            segments: medium("segments"),
            logs: medium("logs"),
            bytes_max,
        }
    }

    /// The host has lost its power.
    pub fn crash(&self) {
        self.segments.crash();
        self.logs.crash();
    }

    /// What is wrong with it from now on, if anything is.
    pub fn ails(&self, ailment: Option<Ailment>) {
        self.segments.ails(ailment);
        self.logs.ails(ailment);
    }

    /// As topics need to know it.
    pub(super) fn bounds(&self) -> BacklogBounds {
        self.config().bounds()
    }

    /// Small, so that what is bounded is at its bound now and then.
    fn config(&self) -> BacklogConfig {
        BacklogConfig {
            segment_messages: 20,
            segment_bytes: 4096,
            messages_max: 200,
            bytes_max: self.bytes_max,
            file_bytes_max: 8192,
            sync_every: 50,
            sync_timeout: Duration::from_millis(500),
            ..BacklogConfig::within(PathBuf::new())
        }
    }

    /// Opens what is there.
    pub(super) fn open(
        &self,
        now: (Instant, WallTime),
        out: &mut Outside,
    ) -> Result<(Backlog, Recovered), DiskError> {
        self.segments.begin();
        self.logs.begin();
        let (seed, health) = (out.chance.number(), BacklogHealth::default());
        let media = (self.segments.clone(), self.logs.clone());
        let (keeper, recovered) = Keeper::open(media, &self.config(), seed, now, health)?;
        let backlog = Backlog {
            keeper,
            works: VecDeque::new(),
            work_at: None,
            slowness_ms: out.chance.pick(&SLOWNESS_MS),
        };
        Ok((backlog, recovered))
    }

    /// The end of a process: it is cut off anywhere in what it has still to do.
    pub(super) fn cut_off(&self, mut backlog: Backlog, ground: &Ground, out: &mut Outside) {
        for medium in [&self.segments, &self.logs] {
            medium.cut_off_after(out.chance.below(LAST_OPERATIONS));
        }
        // Nobody hears it.
        let _ = backlog.work(ground.local(out.net.now));
    }
}

impl Backlog {
    /// When its thread is to be let go on.
    pub(super) fn next_at(&self, ground: &Ground) -> Option<Instant> {
        let due = self.keeper.due().map(|at| ground.outer(at));
        self.work_at.into_iter().chain(due).min()
    }

    /// Takes what was logged and what queues put out; in the order of `broker/reactor/relay.rs`.
    pub(super) fn take(&mut self, ground: &mut Ground, sessions: &mut Sessions, out: &mut Outside) {
        let effects = &mut ground.table.effects;
        let ends = std::mem::take(&mut effects.log_ends);
        let logged = std::mem::take(&mut effects.logged);
        let orders = std::mem::take(&mut effects.backlog);
        let undurable = std::mem::take(&mut effects.undurable);
        for topic in ends {
            let deliveries = &mut out.books.deliveries;
            deliveries.not_kept_any_more(topic.as_str(), ground.place);
            self.give(Work::Log(LogOrder::End(topic)), out);
        }
        for topic in logged {
            for batch in ground.table.take_logged(topic) {
                self.give(Work::Log(LogOrder::Write(Box::new(batch))), out);
            }
        }
        for order in orders {
            self.give(Work::Order(order), out);
        }
        for answer in undurable {
            hear_log(answer, ground, sessions, out);
        }
    }

    /// Lets the thread go on, if it is time.
    pub(super) fn drive(
        &mut self,
        ground: &mut Ground,
        sessions: &mut Sessions,
        out: &mut Outside,
    ) {
        if self.next_at(ground).is_none_or(|at| at > out.net.now) {
            return;
        }
        let now = ground.local(out.net.now);
        let answers = self.work(now);
        if !self.keeper.is_behind() {
            out.books.deliveries.settled(ground.memory());
        }
        for answer in answers.segments {
            ground.table.hear_backlog(answer, now);
        }
        for answer in answers.logs {
            hear_log(answer, ground, sessions, out);
        }
    }

    fn give(&mut self, work: Work, out: &mut Outside) {
        self.works.push_back(work);
        let slowness_ms = self.slowness_ms;
        self.work_at
            .get_or_insert_with(|| out.net.now + out.chance.span_ms(0, slowness_ms));
    }

    /// Does what it has been given, in its order, and writes.
    fn work(&mut self, now: Instant) -> Answers {
        self.work_at = None;
        let mut answers = Answers::default();
        for work in std::mem::take(&mut self.works) {
            match work {
                Work::Order(order) => answers.segments.extend(self.keeper.carry_out(order)),
                Work::Log(order) => self.keeper.log(0, order, now),
            }
        }
        let logs = self.keeper.commit(now).into_iter();
        answers.logs = logs.map(|(_, answer)| answer).collect();
        answers
    }
}

/// A topic hears how far its log is, and those are answered whose messages are durable.
fn hear_log(answer: LogAnswer, ground: &mut Ground, sessions: &mut Sessions, out: &mut Outside) {
    ground.table.hear_log(answer);
    let is_logged = ground.table.is_logged(answer.topic);
    let is_synced = ground.durability(answer.topic) == Durability::Fsync;
    while answer.is_durable
        && let Some(waiter) = ground.waiters.pop(answer)
    {
        for &key in waiter.keys.iter().filter(|_| is_logged) {
            let is_synced = is_synced && waiter.is_synced;
            out.books.deliveries.kept(key, ground.memory(), is_synced);
        }
        match waiter.who {
            Who::Publisher(stream, messages) => sessions.accept(stream, messages),
            Who::Broker(stream) => Handing::confirm(stream, ground, out),
        }
    }
}
