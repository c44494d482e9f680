//! A topic's limit that brokers share by gossip (DRL), as one broker of them keeps it.
//!
//! The policy ([`limit::sharing`]) says what part of the limit passes here. Where the excess waits, the topic's own bucket
//! has that part and the policy is told what passes; where it is dropped or refused, the policy decides itself. At the
//! end of each estimate interval the policy hears of the others and its part changes: the bucket keeps the tokens it holds,
//! and room that a greater part adds is empty.
//!
//! Not here: what brokers say to each other and when intervals end ([`crate::sharing`]). A broker on its own is a group of
//! one and has the whole limit.

use std::fmt;

use clock::Instant;
use limit::sharing::{
    Limiter, Policy, Remote, Sharing, SharingConfig, SharingError, Update, Verdict,
};
use limit::{Limit, OnExceed, Share, Unit};

use super::table::{TopicKey, TopicTable};
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
}

impl Group {
    /// A broker that shares with nobody.
    pub const ALONE: Group = Group {
        brokers: 1,
        me: 0,
        generation: 0,
    };
}

/// What is to be said of a shared limit when an interval ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntervalEnd {
    /// The limit; `None` where a broker on its own keeps it.
    pub number: Option<LimitNumber>,
    /// What to tell the others.
    pub update: Update,
}

/// The policy of one topic's limit.
pub struct SharedLimit {
    limiter: Box<dyn Limiter>,
    policy: Policy,
    number: Option<LimitNumber>,
    group: Group,
    last: Update,
    connected: u32,
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
        Ok(SharedLimit {
            limiter,
            policy: limit.sharing,
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
        // Numbers that cannot be divided leave the former ones, which are within what was declared before.
        let _ = self.limiter.set_limit(now, limit.rate, limit.burst);
    }

    /// The bucket of what may pass here at present.
    #[must_use]
    pub fn share(&self) -> Share {
        self.limiter.share()
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

    /// Ends an estimate interval with what is known of the others; what to tell them.
    pub fn end_interval(&mut self, now: Instant, remote: Remote) -> IntervalEnd {
        self.connected = remote.connected.clamp(1, self.group.brokers);
        self.last = self.limiter.estimate(now, remote);
        IntervalEnd {
            number: self.number,
            update: self.last,
        }
    }

    /// How it stands, for who wants to see it.
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

impl TopicTable {
    /// Shares limits with the brokers of `group` from now on. Another group than before begins anew: every shared limit
    /// with its N-th part, and with no tokens but those that its bucket held. `None`: nothing of such limits passes.
    pub fn join(&mut self, group: Option<Group>, now: Instant) {
        if self.group == group {
            return;
        }
        self.group = group;
        for key in self.shared_keys() {
            if let Some(limiter) = self
                .topics
                .get_mut(key)
                .and_then(|topic| topic.limiter.as_mut())
            {
                limiter.join(group, now);
            }
            self.look_again(key);
        }
    }

    /// Ends an estimate interval of every shared limit; `remote` says what is known of the others.
    pub fn end_interval(
        &mut self,
        now: Instant,
        remote: impl Fn(LimitNumber) -> Option<Remote>,
    ) -> Vec<IntervalEnd> {
        let mut ends = Vec::new();
        for key in self.shared_keys() {
            let Some(limiter) = self
                .topics
                .get_mut(key)
                .and_then(|topic| topic.limiter.as_mut())
            else {
                continue;
            };
            let known = limiter
                .gossiped()
                .and_then(SharedLimit::number)
                .and_then(&remote);
            let remote = known.unwrap_or(Remote {
                others: Update::default(),
                connected: 1,
            });
            if let Some(end) = limiter.end_interval(now, remote) {
                ends.push(end);
                self.look_again(key);
            }
        }
        ends
    }

    /// The part of a limit has changed: the head of the queue may go earlier or later.
    fn look_again(&mut self, key: TopicKey) {
        if let Some(topic) = self.topics.get_mut(key)
            && topic.depth() > 0
        {
            topic.release_at = None;
            self.mark_dirty(key);
        }
    }

    fn shared_keys(&self) -> Vec<TopicKey> {
        let all = self.topics.iter();
        let shared = all.filter(|(_, topic)| {
            topic
                .limiter
                .as_ref()
                .is_some_and(|limiter| limiter.limit().is_gossiped())
        });
        shared.map(|(key, _)| key).collect()
    }
}

fn sharing(
    limit: &Limit,
    number: Option<LimitNumber>,
    group: Group,
) -> Result<Sharing, SharingError> {
    let (rate, burst) = (limit.rate.get(), limit.burst.get());
    let config = match limit.unit {
        Unit::Messages => SharingConfig::messages(limit.sharing, rate, burst, group.brokers)?,
        Unit::Bytes => SharingConfig::bytes(limit.sharing, rate, burst, group.brokers)?,
    };
    debug_assert!(
        limit.sharing != Policy::Grd || limit.on_exceed != OnExceed::Delay,
        "refused with the contract"
    );
    let config = SharingConfig {
        seed: group.generation ^ u64::from(number.unwrap_or_default()) << 48,
        ..config
    };
    config.checked()
}
