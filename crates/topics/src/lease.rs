//! A topic's share of a limit that a controller divides, and how it comes into force.
//!
//! Nothing passes before the first share, and its bucket begins empty. The end of a lease needs no
//! timer: it is looked for before the bucket is used, and the bucket is changed *as of* that
//! instant, so a process that was stopped meanwhile earns nothing at the former rate.
//! What prolongs all leases is said once for all of them ([`super::prolongations`]), and each hears it before its end is looked for.
//! A share only shrinks when its lease ends, hence a wake-up for a departure under the share is at worst
//! too early.

use std::sync::Arc;

use clock::Instant;
use limit::{Grant, Holder, Limit, Prolongation, Share};

use super::limiter::TopicLimiter;
use super::prolongations::Prolongations;
use super::sharing::{LimitNumber, own_number};
use super::table::{TopicKey, TopicTable};

/// Early reports for one want of a share. A topic that is denied one for good waits for the regular ones.
const ASKS_MAX: u32 = 10;

/// What a limiter under a controller knows of its share.
#[derive(Clone, Debug)]
pub struct Lease {
    holder: Holder,
    /// The end of the current lease has been put into force.
    has_ended: bool,
    /// No grant of the contract's present unit has come yet.
    is_void: bool,
    /// Reports that may be asked for before their time for want of a share.
    asks_left: u32,
    prolongations: Arc<Prolongations>,
    /// How many of them it has heard.
    heard: u64,
}

impl Lease {
    /// Nothing granted; `holder` knows the reports that were sent lately.
    #[must_use]
    pub fn new(holder: Holder, prolongations: &Arc<Prolongations>) -> Lease {
        Lease {
            holder,
            has_ended: true,
            is_void: true,
            asks_left: ASKS_MAX,
            prolongations: Arc::clone(prolongations),
            heard: prolongations.said(),
        }
    }

    /// Notes a report; see [`Holder::report_sent`].
    pub fn report_sent(&mut self, number: u64, now: Instant) {
        // By then it may be forgotten which report they mean.
        self.catch_up();
        self.holder.report_sent(number, now);
        if self.in_force(now).is_none() {
            self.asks_left = self.asks_left.saturating_sub(1);
        }
    }

    /// Hears what was said since it was looked at last, each as of when it was said.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.heard != self.prolongations.said() {
            self.hear();
        }
    }

    #[cold]
    fn hear(&mut self) {
        let holder = &mut self.holder;
        self.heard = self.prolongations.since(self.heard, |unheard| {
            unheard.for_each(|(at, by)| holder.prolong(by, at));
        });
    }

    /// When it ends, or ended, with what it has not heard yet.
    fn expires_at(&self) -> Option<Instant> {
        if self.heard == self.prolongations.said() {
            return self.holder.expires_at();
        }
        let mut expires_at = None;
        self.prolongations.since(self.heard, |unheard| {
            expires_at = self.holder.expires_after(unheard);
        });
        expires_at
    }

    /// Takes a grant; says whether it counts.
    pub fn receive(&mut self, grant: &Grant, now: Instant) -> bool {
        // What was said before means the lease before.
        self.catch_up();
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

    /// What was granted is in another unit than the contract from now on.
    pub fn void(&mut self) {
        self.is_void = true;
        self.has_ended = true;
    }

    /// What may be used at `now`.
    #[must_use]
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        let share = match now < self.expires_at()? {
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
        let at = self.expires_at().filter(|&at| at <= now)?;
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

impl TopicTable {
    /// [`TopicTable::set_shared_limit`] of a limit that gossip has no number for.
    #[cfg(test)]
    pub fn set_limit(&mut self, key: TopicKey, limit: Option<Limit>, now: Instant) {
        self.set_shared_limit(key, limit, None, now);
    }

    /// Puts a limit on a topic, changes the one in force, or takes it away. `number` is what gossip knows it by, where brokers
    /// share it among themselves under a controller; without one the topic's name says it.
    pub fn set_shared_limit(
        &mut self,
        key: TopicKey,
        limit: Option<Limit>,
        number: Option<LimitNumber>,
        now: Instant,
    ) {
        let Some(topic) = self.topics.get_mut(key) else {
            return;
        };
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
                *limiter = Some(TopicLimiter::gossiping(
                    limit,
                    number,
                    self.sharing.group,
                    now,
                ));
                self.effects.sharing_began = true;
            }
            (limiter, Some(limit)) if self.is_controlled => {
                *limiter = Some(TopicLimiter::controlled(
                    limit,
                    self.reporting.holder.clone(),
                    &self.reporting.prolongations,
                    now,
                ));
            }
            (limiter, limit) => *limiter = limit.map(|limit| TopicLimiter::new(limit, now)),
        }
        topic.release_at = None;
        if let Some(limiter) = &mut topic.limiter {
            if let Some(unjudged) = topic.reported.unjudged.take() {
                limiter.judge(&unjudged);
            }
            self.effects.report_wanted |= limiter.asks_for_share(now);
        }
        if limit.is_some_and(|limit| limit.is_gossiped()) {
            self.note_shared(key);
        }
        self.effects.catalog_changed = true;
        self.mark_dirty(key);
    }

    /// Prolongs all leases that have not ended at `now`: none grows by that, and one that has ended stays ended. Each hears of it when it
    /// is looked at next. Whether it is time to look at all ([`TopicTable::settle_lease`]).
    pub fn prolong_leases(&mut self, by: Prolongation, now: Instant) -> bool {
        self.reporting.prolongations.say(by, now)
    }

    /// Has the lease of the topic in a slot hear what it was prolonged by; whether there are slots behind.
    pub fn settle_lease(&mut self, slot: usize, now: Instant) -> bool {
        let topic = self.topics.key_at(slot);
        let topic = topic.and_then(|key| self.topics.get_mut(key));
        if let Some(limiter) = topic.and_then(|topic| topic.limiter.as_mut()) {
            limiter.settle(now);
        }
        slot + 1 < self.topics.slots()
    }

    /// Hands a topic the share that a controller granted; one that is out of date changes nothing. False where there
    /// is no limit to have a share of.
    pub fn grant(&mut self, key: TopicKey, grant: &Grant, now: Instant) -> bool {
        let Some(topic) = self.topics.get_mut(key) else {
            return false;
        };
        let Some(limiter) = &mut topic.limiter else {
            return false;
        };
        let before = limiter.share(now);
        if limiter.grant(grant, now) {
            // Others wait for what was given up: the sooner it is confirmed, the sooner they have it.
            self.effects.report_wanted |= has_shrunk(before, limiter.share(now));
            topic.release_at = None;
            self.mark_dirty(key);
        }
        true
    }
}

/// Whether any part of a share was given up.
fn has_shrunk(before: Option<Share>, after: Option<Share>) -> bool {
    before.is_some_and(|before| !after.is_some_and(|after| after.covers(&before)))
}
