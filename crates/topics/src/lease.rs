//! A topic's share of a limit that a controller divides, and how it comes into force.
//!
//! Nothing passes before the first share, and its bucket begins empty. The end of a lease needs no
//! timer: it is checked before the bucket is used, and the bucket is changed *as of* that instant,
//! so a process that was stopped meanwhile earns nothing at the former rate. What prolongs all
//! leases is announced once for all of them ([`super::words`]); the table has each lease hear it
//! before its end is checked, before a report and before another grant. A lease that missed some
//! announcements ends earlier, as if they had been lost on their way: shares in use never exceed
//! what the controller and the other brokers reckon with. A share only shrinks when its lease ends,
//! hence a wake-up for a departure under the share is at worst too early.

use clock::Instant;
use limit::{Grant, LeaseHolder, Limit, Prolongation, Share};

use super::effects::Effects;
use super::limiter::TopicLimiter;
use super::sharing::{LimitNumber, Shared, own_number};
use super::topic::Topic;
use super::words::{Said, Words};

/// Early reports for one want of a share. A topic that is permanently denied one waits for the
/// regular ones.
const ASKS_MAX: u32 = 10;

/// By what all leases of a table were prolonged.
pub type Prolongations = Words<Prolongation>;

/// After this many prolongations, all leases are made to hear them.
const HEARD_EVERY: u64 = 16;

/// A limiter's knowledge of its share under a controller.
#[derive(Clone, Debug)]
pub struct Lease {
    holder: LeaseHolder,
    /// The end of the current lease has been put into force.
    has_ended: bool,
    /// No grant of the contract's present unit has come yet.
    is_void: bool,
    /// Reports that may be asked for before their time for want of a share.
    asks_left: u32,
    /// How many prolongations it has heard.
    heard: u64,
}

impl Lease {
    /// Nothing granted, and no prolongation missed; `holder` knows the reports that were sent lately.
    #[must_use]
    pub fn new(holder: LeaseHolder, prolongations: &Prolongations) -> Lease {
        Lease {
            holder,
            has_ended: true,
            is_void: true,
            asks_left: ASKS_MAX,
            heard: prolongations.said(),
        }
    }

    /// Notes a report; see [`LeaseHolder::report_sent`]. It is to have heard everything before: afterwards it may be forgotten which
    /// report a prolongation means.
    pub fn report_sent(&mut self, number: u64, now: Instant) {
        self.holder.report_sent(number, now);
        if self.in_force(now).is_none() {
            self.asks_left = self.asks_left.saturating_sub(1);
        }
    }

    /// Hears the prolongations since it was looked at last, each as of when it was said.
    #[inline]
    pub fn hear(&mut self, prolongations: &Prolongations) {
        if self.heard != prolongations.said() {
            self.hear_all(prolongations);
        }
    }

    #[cold]
    fn hear_all(&mut self, prolongations: &Prolongations) {
        for (at, by) in prolongations.since(self.heard) {
            self.holder.prolong(by, at);
        }
        self.heard = prolongations.said();
    }

    /// Takes a grant; says whether it counts. It is to have heard everything before: what was said until now means the lease before.
    pub fn receive(&mut self, grant: &Grant, now: Instant) -> bool {
        let is_news = self.holder.receive(grant, now);
        if is_news {
            self.is_void = false;
            self.has_ended = self.holder.expires_at().is_none_or(|at| at <= now);
            if self.in_force(now).is_some() {
                self.asks_left = ASKS_MAX;
            }
        }
        is_news
    }

    /// From now on the contract has another unit than what was granted.
    pub fn void(&mut self) {
        self.is_void = true;
        self.has_ended = true;
    }

    /// What may be used at `now`.
    #[must_use]
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        let share = match now < self.holder.expires_at()? {
            true => self.holder.share(),
            false => self.holder.floor(),
        };
        share.filter(|_| !self.is_void)
    }

    /// Whether nothing passes for want of a share, and the controller may be bothered with it.
    #[must_use]
    pub fn asks_for_share(&self, now: Instant) -> bool {
        self.asks_left > 0 && self.in_force(now).is_none()
    }

    /// The instant at which the lease ended and what is in force since, if that is news.
    pub fn end(&self, now: Instant) -> Option<(Instant, Option<Share>)> {
        if self.has_ended {
            return None;
        }
        let at = self.holder.expires_at().filter(|&at| at <= now)?;
        Some((at, self.holder.floor()))
    }

    /// The end has been put into force.
    pub fn ended(&mut self) {
        self.has_ended = true;
    }

    /// (epoch, seq) of the grant in force.
    #[must_use]
    pub fn confirmation(&self) -> (u64, u64) {
        self.holder.confirmation()
    }
}

/// What leases of one table have in common.
#[derive(Debug)]
pub(super) struct Leases {
    /// Limits are shared by several brokers; what may pass here is for a controller to grant.
    pub(super) is_controlled: bool,
    /// Reports sent lately, for limits that come between a report and its answer.
    holder: LeaseHolder,
    /// Prolongations of all leases; each hears of them when it is looked at.
    pub(super) prolongations: Prolongations,
}

impl Default for Leases {
    fn default() -> Self {
        Leases {
            is_controlled: false,
            holder: LeaseHolder::new(),
            prolongations: Prolongations::default(),
        }
    }
}

impl Leases {
    /// What limiters are to hear before they are used; `shared` knows the brokers.
    #[inline]
    pub(super) fn said<'a>(&'a self, shared: &'a Shared) -> Said<'a> {
        Said {
            prolongations: &self.prolongations,
            groups: &shared.groups,
        }
    }

    /// Notes a report, which grants may answer.
    pub(super) fn report_sent(&mut self, number: u64, now: Instant) {
        self.holder.report_sent(number, now);
    }

    /// Prolongs all leases that have not ended at `now`; whether it is time to look at all.
    pub(super) fn prolong(&mut self, by: Prolongation, now: Instant) -> bool {
        self.prolongations.say(by, now).is_multiple_of(HEARD_EVERY)
    }

    /// Puts a limit on a topic, changes the one in force, or takes it away. Where brokers share it by gossip, they are those of
    /// `said`, and it is known by `number`.
    pub(super) fn put_limit(
        &self,
        topic: &mut Topic,
        limit: Option<Limit>,
        (number, said): (Option<LimitNumber>, Said<'_>),
        effects: &mut Effects,
        now: Instant,
    ) {
        let number = match self.is_controlled {
            true => number,
            false => Some(own_number(&topic.name)),
        };
        let unit = topic.limiter.as_ref().map(|limiter| limiter.limit().unit);
        if let (Some(traffic), Some(limit)) = (&mut topic.reported.traffic, limit)
            && unit.is_some_and(|unit| unit != limit.unit)
        {
            traffic.begin_anew(now);
        }
        match (&mut topic.limiter, limit) {
            (Some(limiter), Some(limit)) if limiter.is_kept_as(&limit, number) => {
                limiter.set(limit, now);
            }
            (limiter, Some(limit)) if limit.is_gossiped() => {
                *limiter = Some(TopicLimiter::gossiping(limit, number, said.groups, now));
                effects.sharing_began = true;
            }
            (limiter, Some(limit)) if self.is_controlled => {
                let holder = self.holder.clone();
                let prolongations = said.prolongations;
                *limiter = Some(TopicLimiter::controlled(limit, holder, prolongations, now));
            }
            (limiter, limit) => *limiter = limit.map(|limit| TopicLimiter::new(limit, now)),
        }
        topic.release_at = None;
        if let Some(limiter) = &mut topic.limiter {
            if let Some(unjudged) = topic.reported.unjudged.take() {
                limiter.judge(&unjudged);
            }
            effects.report_wanted |= limiter.asks_for_share(now);
        }
    }

    /// Hands a topic the share that a controller granted; an outdated one changes nothing. Returns
    /// whether it counts, `None` where there is no limit to have a share of.
    pub(super) fn grant(
        &self,
        topic: &mut Topic,
        grant: &Grant,
        effects: &mut Effects,
        now: Instant,
    ) -> Option<bool> {
        let limiter = topic.limiter.as_mut()?;
        let before = limiter.share(now);
        let is_news = limiter.grant(grant, now);
        if is_news {
            // Others wait for what was given up: the sooner it is confirmed, the sooner they have it.
            effects.report_wanted |= has_shrunk(before, limiter.share(now));
            topic.release_at = None;
        }
        Some(is_news)
    }

    /// Whether the topic's limit is one that a controller shares out.
    pub(super) fn is_granted(&self, topic: &Topic) -> bool {
        self.is_controlled && topic.limiter.is_some()
    }
}

/// Whether any part of a share was given up.
fn has_shrunk(before: Option<Share>, after: Option<Share>) -> bool {
    before.is_some_and(|before| !after.is_some_and(|after| after.covers(&before)))
}
