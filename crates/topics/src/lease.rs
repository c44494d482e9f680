//! A topic's share of a limit that a controller divides, and how it comes into force.
//!
//! Nothing passes before the first share, and its bucket begins empty. The end of a lease needs no
//! timer: it is looked for before the bucket is used, and the bucket is changed *as of* that
//! instant, so a process that was stopped meanwhile earns nothing at the former rate.
//! A share only shrinks when its lease ends, hence a wake-up for a departure under the share is at worst
//! too early.

use clock::Instant;
use limit::{Grant, Holder, Limit, Share};

use super::limiter::TopicLimiter;
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
}

impl Lease {
    /// Nothing granted; `holder` knows the reports that were sent lately.
    #[must_use]
    pub fn new(holder: Holder) -> Lease {
        Lease {
            holder,
            has_ended: true,
            is_void: true,
            asks_left: ASKS_MAX,
        }
    }

    /// Notes a report; see [`Holder::report_sent`].
    pub fn report_sent(&mut self, number: u64, now: Instant) {
        self.holder.report_sent(number, now);
        if self.in_force(now).is_none() {
            self.asks_left = self.asks_left.saturating_sub(1);
        }
    }

    /// Takes a grant; says whether it counts.
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

    /// All brokers of `round` vouch for it until `until`; see [`Holder::hold`].
    pub fn hold(&mut self, round: u64, until: Instant, now: Instant) {
        self.holder.hold(round, until, now);
    }

    /// The controller renews it; see [`Holder::renew`].
    pub fn renew(&mut self, report: u64, now: Instant) {
        self.holder.renew(report, now);
    }

    /// What was granted is in another unit than the contract from now on.
    pub fn void(&mut self) {
        self.is_void = true;
        self.has_ended = true;
    }

    /// What may be used at `now`.
    #[must_use]
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        self.holder.in_force(now).filter(|_| !self.is_void)
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
        if let (Some(traffic), Some(limit)) = (&mut topic.traffic, limit)
            && unit.is_some_and(|unit| unit != limit.unit)
        {
            traffic.begin_anew(now);
        }
        match (&mut topic.limiter, limit) {
            (Some(limiter), Some(limit)) if limiter.is_kept_as(&limit, number) => {
                limiter.set(limit, now);
            }
            (limiter, Some(limit)) if limit.is_gossiped() => {
                *limiter = Some(TopicLimiter::gossiping(limit, number, self.group, now));
                self.effects.sharing_began = true;
            }
            (limiter, Some(limit)) if self.is_controlled => {
                *limiter = Some(TopicLimiter::controlled(limit, self.reports.clone(), now));
            }
            (limiter, limit) => *limiter = limit.map(|limit| TopicLimiter::new(limit, now)),
        }
        topic.release_at = None;
        if let Some(limiter) = &mut topic.limiter {
            if let Some(unjudged) = topic.unjudged.take() {
                limiter.judge(&unjudged);
            }
            self.effects.report_wanted |= limiter.asks_for_share(now);
        }
        self.effects.catalog_changed = true;
        self.mark_dirty(key);
    }

    /// Shares of `round` may be used until `until`, for all of its brokers vouch for it. None of them grows by that, and one
    /// whose lease has ended stays ended.
    pub fn hold_leases(&mut self, round: u64, until: Instant, now: Instant) {
        let keys: Vec<TopicKey> = self.topics.iter().map(|(key, _)| key).collect();
        for key in keys {
            let topic = self.topics.get_mut(key);
            if let Some(limiter) = topic.and_then(|topic| topic.limiter.as_mut()) {
                limiter.hold(round, until, now);
            }
        }
    }

    /// Leases that have not ended last as if their grants answered this report.
    pub fn renew_leases(&mut self, report: u64, now: Instant) {
        for topic in self.topics.values_mut() {
            if let Some(limiter) = &mut topic.limiter {
                limiter.renew(report, now);
            }
        }
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
