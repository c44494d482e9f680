//! A topic's limit that brokers share by gossip (DRL), at one of these brokers.
//!
//! The policy ([`limit::sharing`]) decides which part of the limit passes here. Where the excess
//! waits, the topic's own bucket has that part and the policy is told what passes; where the excess
//! is dropped or refused, the policy decides itself. At the end of each estimate interval the
//! policy hears of the others and its part changes: the bucket keeps the tokens it holds, and room
//! that a greater part adds is empty.
//!
//! Not here: what brokers say to each other and when intervals end (`broker/sharing`). A broker on
//! its own is a group of one and has the whole limit.
//!
//! A controller numbers the limits. Brokers without one take the number from the topic's name, so
//! all of them find the same; `broker/sharing` finds topics whose names hash to the same number.

use std::fmt;
use std::time::Duration;

use clock::Instant;
use limit::sharing::{
    Limiter, Policy, Remote, Sharing, SharingConfig, SharingError, Update, Verdict,
};
use limit::{Limit, OnExceed, Share, SharePolicy, Unit};
use wire::TopicName;

use super::agenda::Agenda;
use super::topic::{Topic, TopicKey};
use super::words::Words;
use crate::arena::Arena;
use crate::stats::SharingStats;

/// The number that gossip knows a limit by, the same at all brokers.
pub type LimitNumber = u16;

/// The brokers that share limits, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// N.
    pub brokers: u32,
    /// Which of them this one is, from 0.
    pub me: u32,
    /// Tells this list of brokers from those before it.
    pub generation: u64,
    /// Length of an estimate interval of limits that do not set one.
    pub interval: Duration,
}

impl Group {
    /// A broker that shares with nobody.
    pub const ALONE: Group = Group {
        brokers: 1,
        me: 0,
        generation: 0,
        interval: Duration::from_millis(50),
    };
}

/// A shared limit's update at the end of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalEnd {
    /// What gossip knows the limit by.
    pub number: Option<LimitNumber>,
    /// Whose limit it is.
    pub topic: TopicName,
    /// As it was declared here.
    pub limit: Limit,
    /// What to tell the others; `None`: its interval is not over.
    pub update: Option<Update>,
}

/// What is known of a limit elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// What the other brokers say.
    pub remote: Remote,
    /// The least rate and burst that the limit was declared with anywhere, if that is known.
    pub least: Option<Share>,
}

impl Known {
    /// Nothing was heard of anybody.
    pub(super) const NOTHING: Known = Known {
        remote: Remote {
            others: Update::NOTHING,
            connected: 1,
        },
        least: None,
    };
}

/// What stands for a topic where its name is too long to be said (FNV-1a).
#[must_use]
pub fn identity(topic: &TopicName) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = topic.as_str().as_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The number that brokers without a controller know a topic's limit by: all bits of its identity, folded.
#[must_use]
pub fn own_number(topic: &TopicName) -> LimitNumber {
    let identity = identity(topic);
    let halves = (identity ^ identity >> 32) as u32;
    (halves ^ halves >> 16) as u16
}

/// The brokers that a table's topics have shared limits with, one group after the other.
pub type Groups = Words<Option<Group>>;

/// The brokers that share limits, and the limits.
#[derive(Debug)]
pub(super) struct Shared {
    /// The brokers; `None`: a controller is to say, or it is not known yet.
    group: Option<Group>,
    /// What limits hear of them.
    pub(super) groups: Groups,
    /// Topics with limits that are shared by gossip, each once, and some that had one.
    keys: Vec<TopicKey>,
}

impl Default for Shared {
    fn default() -> Self {
        Shared::among(Some(Group::ALONE))
    }
}

/// One topic's limit that is shared by gossip.
#[derive(Debug)]
pub struct Gossiped {
    /// What gossip knows it by.
    number: Option<LimitNumber>,
    /// Its policy among the brokers of the latest group that it has heard of; `None`: the brokers
    /// are not known, or the limit cannot be divided among them.
    policy: Option<Box<SharedLimit>>,
    /// How many groups it has heard of.
    heard: u64,
}

impl Gossiped {
    /// A limit that begins among the brokers of the latest of `groups`.
    #[must_use]
    pub fn new(
        limit: &Limit,
        number: Option<LimitNumber>,
        groups: &Groups,
        now: Instant,
    ) -> Gossiped {
        let mut gossiped = Gossiped {
            number,
            policy: None,
            heard: groups.said().saturating_sub(1),
        };
        if let Some((group, _)) = gossiped.hear_next(groups) {
            gossiped.begin(limit, group, now);
        }
        gossiped
    }

    /// The number that gossip knows the limit by.
    #[must_use]
    pub fn number(&self) -> Option<LimitNumber> {
        self.number
    }

    /// By what it is divided, if it is.
    #[must_use]
    pub fn policy(&self) -> Option<&SharedLimit> {
        self.policy.as_deref()
    }

    /// The same, to change.
    #[inline]
    pub fn policy_mut(&mut self) -> Option<&mut SharedLimit> {
        self.policy.as_deref_mut()
    }

    /// Whether one of `groups` is news to it.
    #[inline]
    #[must_use]
    pub fn has_missed(&self, groups: &Groups) -> bool {
        self.heard != groups.said()
    }

    /// Begins anew among the brokers of the next group that it has not heard of; what may pass since then, and since when.
    pub fn join_next(
        &mut self,
        limit: &Limit,
        groups: &Groups,
    ) -> Option<(Option<Share>, Instant)> {
        let (group, at) = self.hear_next(groups)?;
        self.begin(limit, group, at);
        Some((self.policy().map(SharedLimit::part), at))
    }

    fn hear_next(&mut self, groups: &Groups) -> Option<(Option<Group>, Instant)> {
        let mut unheard = groups.since(self.heard);
        let first = unheard.next();
        self.heard = groups.said() - unheard.count() as u64;
        first.map(|(at, group)| (group, at))
    }

    /// What cannot be divided is not enforced by anybody, so nothing of it passes.
    fn begin(&mut self, limit: &Limit, group: Option<Group>, now: Instant) {
        self.policy = group
            .and_then(|group| SharedLimit::new(limit, self.number, group, now).ok())
            .map(Box::new);
    }
}

/// The policy of one topic's limit.
pub struct SharedLimit {
    limiter: Box<dyn Limiter>,
    policy: Policy,
    number: Option<LimitNumber>,
    group: Group,
    last: Update,
    connected: u32,
    interval: Duration,
    /// When the present interval ends.
    ends_at: Instant,
    /// As it was declared here.
    declared: Share,
    /// The least of what was declared here and elsewhere.
    in_force: Share,
}

impl SharedLimit {
    /// A policy that has heard of nobody: it begins with its N-th part, and empty.
    ///
    /// # Errors
    /// [`SharingError`] where the N-th part is nothing that could be enforced.
    pub fn new(
        limit: &Limit,
        number: Option<LimitNumber>,
        group: Group,
        now: Instant,
    ) -> Result<SharedLimit, SharingError> {
        let limiter = sharing(limit, number, group)?.limiter(group.me, now)?;
        let (declared, interval) = (Share::whole(limit), interval_of(limit, group));
        Ok(SharedLimit {
            limiter,
            interval,
            ends_at: now + interval,
            declared,
            in_force: declared,
            policy: policy(limit),
            number,
            group,
            last: Update::default(),
            connected: 1,
        })
    }

    /// The number that gossip knows the limit by.
    #[must_use]
    pub fn number(&self) -> Option<LimitNumber> {
        self.number
    }

    /// Takes another rate and burst while it runs; its present part stays in proportion.
    pub fn set_limit(&mut self, limit: &Limit, now: Instant) {
        self.declared = Share::whole(limit);
        self.enforce(self.declared, now);
    }

    /// Divides `limit` from now on. Numbers that cannot be divided leave the former ones, which are within what was declared
    /// before.
    fn enforce(&mut self, limit: Share, now: Instant) {
        if limit != self.in_force && self.limiter.set_limit(now, limit.rate, limit.burst).is_ok() {
            self.in_force = limit;
        }
    }

    /// The bucket of what may pass here at present.
    #[must_use]
    pub fn part(&self) -> Share {
        self.limiter.part()
    }

    /// Notes that a message passed; `waited`: its tokens were not there when it came.
    #[inline]
    pub fn passed(&mut self, now: Instant, flow: u32, cost: f64, waited: bool) {
        self.limiter.observe(now, u64::from(flow), cost, waited);
    }

    /// Decides about a message that arrived at `at`.
    #[inline]
    pub fn admits(&mut self, at: Instant, flow: u32, cost: f64) -> bool {
        self.limiter.handle(at, u64::from(flow), cost) == Verdict::Forward
    }

    /// Ends the estimate interval, if it is over, with what is known of the others; what to tell them.
    pub fn end_interval(&mut self, now: Instant, known: Known) -> Option<Update> {
        // Who calls is not exact to the nanosecond, and calls for all limits at the same instants.
        if now + self.interval / 4 < self.ends_at {
            return None;
        }
        self.ends_at = (self.ends_at + self.interval).max(now + self.interval / 2);
        let (own, least) = (self.declared, known.least.unwrap_or(self.declared));
        let in_force = Share {
            rate: if least.rate < own.rate {
                least.rate
            } else {
                own.rate
            },
            burst: if least.burst < own.burst {
                least.burst
            } else {
                own.burst
            },
        };
        self.enforce(in_force, now);
        self.connected = known.remote.connected.clamp(1, self.group.brokers);
        self.last = self.limiter.estimate(now, known.remote);
        Some(self.last)
    }

    /// Its state, for statistics.
    #[must_use]
    pub fn stats(&self) -> SharingStats {
        SharingStats {
            policy: self.policy,
            brokers: self.group.brokers,
            connected: self.connected,
            demand: self.last.demand(),
            passed: self.last.passed(),
        }
    }
}

impl fmt::Debug for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimit")
            .field("limiter", &self.limiter)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// No limit yet, with the brokers of `group` from the first one on.
    pub(super) fn among(group: Option<Group>) -> Shared {
        let mut groups = Groups::default();
        groups.say(group, Instant::ZERO);
        Shared {
            group,
            groups,
            keys: Vec::new(),
        }
    }

    /// Limits are shared with the brokers of `group` from now on, and each limit hears of it when
    /// it is looked at; false where that is so already.
    pub(super) fn join(&mut self, group: Option<Group>, now: Instant) -> bool {
        let is_news = self.group != group;
        if is_news {
            self.group = group;
            self.groups.say(group, now);
        }
        is_news
    }

    /// Ends the estimate interval of the next shared limit, if it is over; see
    /// [`TopicTable::end_next_interval`](super::TopicTable::end_next_interval).
    pub(super) fn end_next_interval(
        &mut self,
        place: &mut usize,
        (topics, agenda): (&mut Arena<Topic>, &mut Agenda),
        now: Instant,
        known: impl Fn(LimitNumber) -> Option<Known>,
        ends: &mut Vec<IntervalEnd>,
    ) -> bool {
        let Some(&key) = self.keys.get(*place) else {
            return false;
        };
        let topic = topics.get_mut(key);
        let Some(topic) = topic.filter(|topic| topic.shares_limit()) else {
            // The last one takes its place.
            self.keys.swap_remove(*place);
            if let Some(topic) = topics.get_mut(key) {
                topic.is_among_shared = false;
            }
            return true;
        };
        *place += 1;
        if let Some(end) = topic.end_interval(&self.groups, now, known) {
            if end.update.is_some() {
                look_again(key, topic, agenda);
            }
            ends.push(end);
        }
        true
    }

    /// A limit of that topic is shared from now on.
    pub(super) fn note(&mut self, key: TopicKey, topic: &mut Topic) {
        if !std::mem::replace(&mut topic.is_among_shared, true) {
            self.keys.push(key);
        }
    }
}

/// The part of a limit has changed: the head of the queue may go earlier or later.
pub(super) fn look_again(key: TopicKey, topic: &mut Topic, agenda: &mut Agenda) {
    if topic.depth() > 0 {
        topic.release_at = None;
        agenda.mark(key, topic);
    }
}

/// The estimate interval of a limit.
#[must_use]
pub fn interval_of(limit: &Limit, group: Group) -> Duration {
    limit.gossip.interval().unwrap_or(group.interval)
}

/// The policy of the brokers' limiters; what nobody gossips about is an N-th part each.
fn policy(limit: &Limit) -> Policy {
    limit.sharing.gossiped().unwrap_or(Policy::Static)
}

fn sharing(
    limit: &Limit,
    number: Option<LimitNumber>,
    group: Group,
) -> Result<Sharing, SharingError> {
    let (rate, burst) = (limit.rate.get(), limit.burst.get());
    let config = match limit.unit {
        Unit::Messages => SharingConfig::messages(policy(limit), rate, burst, group.brokers)?,
        Unit::Bytes => SharingConfig::bytes(policy(limit), rate, burst, group.brokers)?,
    };
    debug_assert!(
        limit.sharing != SharePolicy::Grd || limit.on_exceed != OnExceed::Delay,
        "refused with the contract"
    );
    let config = SharingConfig {
        seed: group.generation ^ u64::from(number.unwrap_or_default()) << 48,
        estimate_interval: interval_of(limit, group),
        ewma_1s: limit.gossip.ewma.unwrap_or(config.ewma_1s),
        ..config
    };
    config.checked()
}
