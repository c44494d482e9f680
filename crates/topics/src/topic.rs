//! A topic: its parts, and its own decisions.

use std::time::Duration;

use clock::Instant;
use kernel::{CpuShare, TaskId};
use limit::OnExceed;
use link::{Durability, OnFull};
use wire::TopicName;

use super::agenda::Target;
use super::awaited::Awaited;
use super::bounds::Bounds;
use super::channel::ChannelKey;
use super::handover::{HandoverAccount, QueueName};
use super::latency::Stage;
use super::limiter::TopicLimiter;
use super::log::TopicLog;
use super::names::NameShare;
use super::observed::Observed;
use super::queue;
use super::report::LastReport;
use super::service;
use super::sharing::{Groups, IntervalEnd, Known, LimitNumber, SharedLimit};
use super::spill::{QueueKey, SpilledQueue};
use super::store::{Arrival, Store, Stored};
use super::traffic::{Asked, Traffic};
use super::unjudged::Unjudged;
use super::waiting::Waiting;
use super::waiting_publishers::Publishers;
use super::words::Said;
use crate::arena::Key;

/// A wait is not estimated beyond; a throttled frame's field ends not far behind.
const LONGEST_WAIT: Duration = Duration::from_secs(4000);

/// About the time in which a controller grants a share of a limit, or says what a topic has.
const WORD_WAIT: Duration = Duration::from_secs(1);

/// Names a topic.
pub type TopicKey = Key<Topic>;

/// One topic: a queue, perhaps a limit, and the channels that get a copy of everything.
#[derive(Debug)]
pub struct Topic {
    /// Its name.
    pub name: TopicName,
    /// Nothing is passed to the channels while set.
    pub paused: bool,
    /// Something happened to it since it was run.
    pub(super) dirty: bool,
    /// It is among those whose limits are shared.
    pub(super) is_among_shared: bool,
    /// What has to be told before anything is passed on.
    pub(super) awaited: Option<Awaited>,
    /// How much it has heard of what was said of all topics.
    pub(super) heard: u64,
    /// Its task in the reactor's schedule, once it has been served.
    pub task: Option<TaskId>,
    pub(super) channels: Vec<ChannelKey>,
    pub(super) waiting: Waiting,
    pub(super) limiter: Option<TopicLimiter>,
    /// The instant that it is woken at for the head of its queue.
    pub(super) release_at: Option<Instant>,
    /// What fell due of its channels and consumers, to be done when it is run.
    pub(super) due: Vec<Target>,
    /// Counts of its messages.
    pub counts: Counts,
    /// What its contract says beside the limit.
    pub declared: Declared,
    pub(super) publishers: Publishers,
    pub(super) observed: Observed,
    pub(super) reported: Reported,
    pub(super) handing: HandoverAccount,
    /// Memory is short: its queues are to have more of theirs outside.
    pub(super) is_pressed: bool,
    /// Where it is durable, what is logged of it.
    pub(super) log: Option<Box<TopicLog>>,
    /// Counts against its maker while it is there.
    pub(super) name_share: Option<NameShare>,
}

/// Counts of a topic's messages since it was created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Accepted from publishers, dropped ones included.
    pub messages: u64,
    /// Body bytes of those.
    pub bytes: u64,
    /// Those from connections that are not declared publishers of it: nobody can move those.
    pub fixed: u64,
    /// Passed on to the channels.
    pub passed: u64,
    /// Discarded by a limit with `drop`, by a full ephemeral queue, by an order to empty, or lost outside of memory.
    pub dropped: u64,
    /// Publish commands refused: by a limit with `reject`, and delayed ones at the bound of deferred messages.
    pub rejected: u64,
    /// Messages that waited for a token.
    pub delayed: u64,
    /// Messages that a former life of the broker had accepted, and that were outside when this one began.
    pub restored: u64,
}

/// What a contract says beside the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Declared {
    /// The share of each reactor's time that the topic is entitled to; none: an equal part of what others leave.
    pub cpu_share: Option<CpuShare>,
    /// The behaviour of its full channels; `None`: it depends on whether they have consumers.
    pub on_full: Option<OnFull>,
    /// Where its messages are once they are accepted.
    pub durability: Durability,
}

impl Declared {
    /// Whether nothing is declared.
    pub(super) fn is_empty(&self) -> bool {
        *self == Declared::default()
    }
}

/// What is kept for a controller; nothing without one.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// The traffic to report.
    pub(super) traffic: Option<Box<Traffic>>,
    /// The last report.
    pub(super) told: Option<Box<LastReport>>,
    /// Passed while there could have been a limit that was not known.
    pub(super) unjudged: Option<Box<Unjudged>>,
}

impl Topic {
    pub(super) fn new(name: TopicName, bounds: &Bounds) -> Topic {
        Topic {
            waiting: Waiting::new(bounds.queue(name.is_ephemeral())),
            name,
            paused: false,
            dirty: false,
            is_among_shared: false,
            awaited: None,
            heard: 0,
            task: None,
            channels: Vec::new(),
            limiter: None,
            release_at: None,
            due: Vec::new(),
            counts: Counts::default(),
            declared: Declared::default(),
            publishers: Publishers::default(),
            observed: Observed::default(),
            reported: Reported::default(),
            handing: HandoverAccount::default(),
            is_pressed: false,
            log: None,
            name_share: None,
        }
    }

    /// Its queue, as orders call it.
    pub(super) fn spilled(&self, key: TopicKey) -> SpilledQueue {
        SpilledQueue {
            key: QueueKey::Topic(key),
            name: QueueName {
                topic: self.name.clone(),
                channel: None,
            },
        }
    }

    /// Messages waiting in the topic itself.
    #[inline]
    #[must_use]
    pub fn depth(&self) -> usize {
        self.waiting.queue.len() + self.waiting.fresh.len()
    }

    /// Of those, the ones in memory.
    #[inline]
    pub(super) fn in_memory(&self) -> usize {
        self.waiting.queue.in_memory() + self.waiting.fresh.len()
    }

    /// Messages that are in the topic itself, in whatever state.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        (self.depth() + self.handing.lifted()) as u64
    }

    /// Conservation: what was accepted, in this life or before, is passed on, dropped, handed over, or still here.
    pub(super) fn is_conserved(&self) -> bool {
        let gone = self.counts.passed + self.counts.dropped + self.handing.over();
        let come = self.counts.messages + self.counts.restored + self.handing.taken();
        come == gone + self.unfinished()
    }

    #[inline]
    pub(super) fn is_full_for(&self, messages: usize, mem_queue_size: usize) -> bool {
        let queue = &self.waiting.queue;
        let passes_on = queue.passes_on() && self.waiting.fresh.is_empty();
        !passes_on && !queue::fit(self.in_memory(), messages, mem_queue_size)
    }

    /// Has the limit hear what was said of all.
    #[inline]
    pub(super) fn hear(&mut self, said: Said<'_>) {
        if let Some(limiter) = &mut self.limiter {
            limiter.hear(said);
        }
    }

    /// Lets a limit with `reject` judge a command.
    pub(super) fn admit<'a>(
        &mut self,
        arrival: &Arrival,
        bodies: impl Iterator<Item = &'a [u8]>,
        now: Instant,
    ) -> Result<(), String> {
        match &mut self.limiter {
            Some(limiter) if limiter.limit().on_exceed == OnExceed::Reject => {
                limiter.try_take_batch(arrival, bodies, now)
            }
            _ => Ok(()),
        }
    }

    /// Lets a limit with `drop` judge a message.
    #[inline]
    pub(super) fn exceeds(&mut self, arrival: &Arrival, body: &[u8], now: Instant) -> bool {
        match &mut self.limiter {
            Some(limiter) if limiter.limit().on_exceed == OnExceed::Drop => {
                !limiter.try_take(arrival, body.len(), now)
            }
            _ => false,
        }
    }

    /// Keeps the books on a message that leaves the queue at `now`, with its tokens since `departure`.
    #[inline]
    pub(super) fn note_release(&mut self, stored: &Stored, departure: Instant, now: Instant) {
        self.counts.passed += 1;
        self.waiting.bytes -= stored.body.len() as u64;
        self.counts.delayed += u64::from(stored.has_waited);
        let Some(latency) = &mut self.observed.latency else {
            return;
        };
        let read = stored.arrival.read;
        if stored.has_waited {
            let due = departure.max(stored.served).max(read);
            latency.record(Stage::Release, now - due, 1);
        }
        latency.record(Stage::Limiter, now - read, 1);
    }

    /// When to look again for a head that has its tokens and its service at the two instants of `head`, in a queue that is
    /// served by `last`; `None` if that is asked for already, or if nothing but a new share can help.
    pub(super) fn sleep(
        &mut self,
        (departure, served): (Instant, Instant),
        last: Instant,
        now: Instant,
    ) -> Option<Instant> {
        if departure == Instant::MAX {
            self.release_at = None;
            return None;
        }
        let (earliest, latest) = match departure > now {
            true => (departure.max(served), departure.max(served)),
            false => (served, service::wake_at(served, last, now)),
        };
        let is_asked = |&at: &Instant| (earliest..=latest).contains(&at);
        if self.release_at.as_ref().is_some_and(is_asked) {
            return None;
        }
        self.release_at = Some(latest);
        self.release_at
    }

    /// About how long the message at the end of the queue waits for its tokens from `now`.
    pub(super) fn expected_wait(&self, store: &Store, now: Instant) -> Duration {
        if self.depth() == 0 {
            return Duration::ZERO;
        }
        if self.awaited.is_some() {
            return WORD_WAIT;
        }
        let Some(limiter) = self.limiter.as_ref().filter(|limiter| limiter.delays()) else {
            return Duration::ZERO;
        };
        let tokens = limiter.tokens_of(self.depth() as u64, self.waiting.bytes);
        let head = self.waiting.queue.front();
        let head_bytes = head.map_or(0, |&head| store.get(head).body.len());
        match limiter.wait_of(tokens, head_bytes, now) {
            Some(wait) => wait.min(LONGEST_WAIT),
            None => WORD_WAIT,
        }
    }

    /// Notes a command, refused messages included: they asked for tokens too.
    pub(super) fn note_asked(&mut self, asked: &Asked, now: Instant) {
        let tokens = match &self.limiter {
            Some(limiter) => limiter.tokens_of(asked.messages, asked.bytes),
            None => asked.messages as f64,
        };
        let refused = match &self.limiter {
            Some(limiter) => limiter.tokens_of(asked.refused_messages, asked.refused_bytes),
            None => 0.0,
        };
        let unfinished = self.unfinished_tokens(now) + refused;
        let traffic = self
            .reported
            .traffic
            .get_or_insert_with(|| Box::new(Traffic::new(now)));
        traffic.asked(now, tokens, unfinished);
    }

    /// Whether messages wait, or would, for a share of the limit.
    pub(super) fn asks_for_share(&self, now: Instant) -> bool {
        let limiter = self.limiter.as_ref();
        limiter.is_some_and(|limiter| limiter.asks_for_share(now))
    }

    /// Everything that waits for tokens, and what the bucket is short of being full.
    pub(super) fn unfinished_tokens(&self, now: Instant) -> f64 {
        let Some(limiter) = &self.limiter else {
            return 0.0;
        };
        // Where nobody subscribes, messages do not wait for tokens.
        let waiting = if limiter.delays() && !self.channels.is_empty() && !self.paused {
            limiter.tokens_of(self.depth() as u64, self.waiting.bytes)
        } else {
            0.0
        };
        waiting + limiter.unfinished_at(now)
    }

    /// Whether brokers share its limit by gossip.
    pub(super) fn shares_limit(&self) -> bool {
        let limiter = self.limiter.as_ref();
        limiter.is_some_and(|limiter| limiter.limit().is_gossiped())
    }

    /// Ends the estimate interval of a limit that brokers share, if it is over.
    pub(super) fn end_interval(
        &mut self,
        groups: &Groups,
        now: Instant,
        known: impl Fn(LimitNumber) -> Option<Known>,
    ) -> Option<IntervalEnd> {
        let limiter = self.limiter.as_mut()?;
        limiter.hear_groups(groups);
        let number = limiter.gossiped().map(SharedLimit::number)?;
        let known = number.and_then(&known).unwrap_or(Known::NOTHING);
        let update = limiter.end_interval(now, known);
        Some(IntervalEnd {
            number,
            topic: self.name.clone(),
            limit: *limiter.limit(),
            update,
        })
    }
}
