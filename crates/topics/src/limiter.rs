//! A topic's limit in force: the contract and its token bucket.
//!
//! A broker on its own enforces the whole limit. Under a controller the bucket has the share that
//! the controller granted ([`super::lease`]), and without a share nothing passes. A limit that
//! brokers share by gossip has the part that its policy sets ([`super::sharing`]).
//!
//! The bucket judges by the time of arrival, so nothing is delayed because it was read late. By
//! itself that would let a process that was stopped for ten seconds release ten seconds' tokens at
//! once. Therefore no message counts as arriving more than [`STALL_MAX`] before it is judged, and
//! releases, on the broker's own clock, never exceed r·t + b + r·[`STALL_MAX`]. Where a contract
//! asks for it ([`JudgedBy::Release`]) a message counts as arriving when it is judged, and releases
//! never exceed r·t + b.

mod in_force;
#[cfg(test)]
mod once_heard;

use std::time::Duration;

use clock::Instant;
use limit::sharing::Update;
use limit::{Grant, JudgedBy, LeaseHolder, Limit, OnExceed, Share, TokenBucket, Unit};

use in_force::InForce;

use super::lease::{Lease, Prolongations};
use super::sharing::{Gossiped, Groups, Known, LimitNumber, SharedLimit};
use super::store::Arrival;
use super::unjudged::Unjudged;
use super::witness::Witness;
use super::words::Said;

/// The lateness that a limit makes up for. Longer ones than a busy reactor's cost tokens.
pub const STALL_MAX: Duration = Duration::from_millis(20);

/// Limit and bucket of one topic.
#[derive(Debug)]
pub struct TopicLimiter {
    limit: Limit,
    way: Way,
    in_force: InForce,
    witness: Witness,
}

/// Who decides which part of the limit may pass here.
#[derive(Debug)]
enum Way {
    /// Nobody: all of it may.
    Whole,
    /// A controller, which grants shares.
    Leased(Box<Lease>),
    /// Brokers among themselves.
    Gossiped(Box<Gossiped>),
}

impl TopicLimiter {
    /// The whole limit. Begins with an empty bucket: a restart must not gift a burst.
    #[must_use]
    pub fn new(limit: Limit, now: Instant) -> TopicLimiter {
        let share = Share::whole(&limit);
        TopicLimiter {
            limit,
            way: Way::Whole,
            in_force: InForce::share(share, now),
            witness: Witness::new(Some(share), now),
        }
    }

    /// A part of the limit as its policy says, among the brokers that `groups` tells of; nothing passes before they are known.
    #[must_use]
    pub fn gossiping(
        limit: Limit,
        number: Option<LimitNumber>,
        groups: &Groups,
        now: Instant,
    ) -> TopicLimiter {
        let gossiped = Gossiped::new(&limit, number, groups, now);
        let part = gossiped.policy().map(SharedLimit::part);
        let mut limiter = TopicLimiter::waiting(limit, Way::Gossiped(Box::new(gossiped)), now);
        limiter.apply(part, now);
        limiter
    }

    /// Nothing passes until a controller has granted a share; `reports` knows what it was told lately.
    #[must_use]
    pub fn controlled(
        limit: Limit,
        reports: LeaseHolder,
        prolongations: &Prolongations,
        now: Instant,
    ) -> TopicLimiter {
        let way = Way::Leased(Box::new(Lease::new(reports, prolongations)));
        TopicLimiter::waiting(limit, way, now)
    }

    fn waiting(limit: Limit, way: Way, now: Instant) -> TopicLimiter {
        TopicLimiter {
            limit,
            way,
            in_force: InForce::nothing(Share::whole(&limit), now),
            witness: Witness::new(None, now),
        }
    }

    /// The contract.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Whether what may pass here is only a part of the limit: a controller shares it out, or brokers do.
    #[must_use]
    pub fn is_part(&self) -> bool {
        !matches!(self.way, Way::Whole)
    }

    /// The policy by which brokers share the limit, if they do and know each other.
    #[must_use]
    pub fn gossiped(&self) -> Option<&SharedLimit> {
        match &self.way {
            Way::Gossiped(gossiped) => gossiped.policy(),
            Way::Whole | Way::Leased(_) => None,
        }
    }

    /// Whether it keeps such a limit already: by gossip under that number, or otherwise.
    #[must_use]
    pub fn is_kept_as(&self, limit: &Limit, number: Option<LimitNumber>) -> bool {
        match &self.way {
            Way::Gossiped(gossiped) => {
                let way = |limit: &Limit| (limit.sharing, limit.unit, limit.gossip);
                way(limit) == way(&self.limit) && gossiped.number() == number
            }
            Way::Whole | Way::Leased(_) => !limit.is_gossiped(),
        }
    }

    /// Hears what was announced since it was looked at last, as of the instant of each
    /// announcement. Whoever uses the limiter, or asks it something, has it hear first.
    #[inline]
    pub fn hear(&mut self, said: Said<'_>) {
        match &mut self.way {
            Way::Whole => {}
            Way::Leased(lease) => lease.hear(said.prolongations),
            Way::Gossiped(_) => self.hear_groups(said.groups),
        }
    }

    /// Hears whom brokers share the limit with: it begins with its N-th part, and no more tokens than the bucket holds. Nothing passes
    /// where nobody is known.
    #[inline]
    pub fn hear_groups(&mut self, groups: &Groups) {
        if let Way::Gossiped(gossiped) = &self.way
            && gossiped.has_missed(groups)
        {
            self.join(groups);
        }
    }

    #[cold]
    fn join(&mut self, groups: &Groups) {
        let limit = self.limit;
        while let Way::Gossiped(gossiped) = &mut self.way
            && let Some((part, at)) = gossiped.join_next(&limit, groups)
        {
            self.apply(part, at);
        }
    }

    /// Ends the estimate interval, if it is over; what to tell the others.
    pub fn end_interval(&mut self, now: Instant, known: Known) -> Option<Update> {
        let policy = self.policy()?;
        let update = policy.end_interval(now, known)?;
        let part = policy.part();
        self.apply(Some(part), now);
        Some(update)
    }

    /// Notes that a report was sent, which a grant may answer; see [`LeaseHolder::report_sent`].
    pub fn report_sent(&mut self, number: u64, now: Instant) {
        self.settle(now);
        if let Way::Leased(lease) = &mut self.way {
            lease.report_sent(number, now);
        }
    }

    /// (epoch, seq) of the grant in force; zeros before the first.
    #[must_use]
    pub fn confirmation(&self) -> (u64, u64) {
        match &self.way {
            Way::Leased(lease) => lease.confirmation(),
            Way::Whole | Way::Gossiped(_) => (0, 0),
        }
    }

    /// What may be used at `now`: the whole limit, or the share that was granted.
    #[must_use]
    pub fn share(&self, now: Instant) -> Option<Share> {
        match &self.way {
            Way::Leased(lease) => lease.in_force(now),
            Way::Whole | Way::Gossiped(_) => self.in_force.part(),
        }
    }

    /// Changes the contract; tokens held stay, up to the new burst. Another unit begins anew, empty. Under
    /// a controller it is the next share that brings the new numbers.
    pub fn set(&mut self, limit: Limit, now: Instant) {
        let has_other_unit = limit.unit != self.limit.unit;
        match &mut self.way {
            Way::Leased(lease) => {
                self.limit = limit;
                if has_other_unit {
                    lease.void();
                    self.in_force.begin_anew();
                    self.witness = Witness::new(None, now);
                }
            }
            Way::Gossiped(gossiped) => {
                self.limit = limit;
                if let Some(policy) = gossiped.policy_mut() {
                    policy.set_limit(&limit, now);
                    let part = policy.part();
                    self.apply(Some(part), now);
                }
            }
            Way::Whole if has_other_unit => *self = TopicLimiter::new(limit, now),
            Way::Whole if limit != self.limit => {
                let share = Share::whole(&limit);
                self.witness = Witness::new(Some(share), now);
                self.in_force.resize(share, now);
                self.limit = limit;
            }
            Way::Whole => {}
        }
    }

    /// Whether nothing passes for want of a share, and the controller may be bothered with it.
    #[must_use]
    pub fn asks_for_share(&self, now: Instant) -> bool {
        match &self.way {
            Way::Leased(lease) => lease.asks_for_share(now),
            Way::Whole | Way::Gossiped(_) => false,
        }
    }

    /// Takes a grant; says whether it counts.
    pub fn grant(&mut self, grant: &Grant, now: Instant) -> bool {
        self.settle(now);
        let Way::Leased(lease) = &mut self.way else {
            return false;
        };
        if !lease.receive(grant, now) {
            return false;
        }
        let share = lease.in_force(now);
        self.apply(share, now);
        true
    }

    /// Whether messages wait for tokens (rather than being refused at their arrival).
    #[inline]
    #[must_use]
    pub fn delays(&self) -> bool {
        self.limit.on_exceed == OnExceed::Delay
    }

    /// Whether a message that arrived at `arrival` and has its tokens at `departure` waits for them at `now`,
    /// and not only for the broker.
    #[inline]
    #[must_use]
    pub fn has_waited(&self, arrival: Instant, departure: Instant, now: Instant) -> bool {
        departure > self.seen(arrival, now)
    }

    /// The arrival that the bucket sees of a message that arrived at `arrival` and is judged at `now`.
    #[inline]
    fn seen(&self, arrival: Instant, now: Instant) -> Instant {
        match self.limit.judged_by {
            JudgedBy::Arrival => arrival.max(now - STALL_MAX),
            JudgedBy::Release => now,
        }
    }

    /// When the message at the head of the queue may pass, as judged at `now` (equation (2));
    /// [`Instant::MAX`]: when a share has come.
    ///
    /// One that costs more than the burst is booked at once: were it only looked at, each change of
    /// the limit would start its wait anew, and it could wait for ever.
    #[inline]
    pub fn departure(&mut self, arrival: Instant, body_bytes: usize, now: Instant) -> Instant {
        self.settle(now);
        let (seen, cost) = (self.seen(arrival, now), self.cost(body_bytes));
        self.in_force.departure(seen, cost)
    }

    /// Takes the tokens of the message at the head, which passes now.
    #[inline]
    pub fn take(&mut self, arrival: &Arrival, body_bytes: usize, has_waited: bool, now: Instant) {
        let cost = self.cost(body_bytes);
        if let Some(policy) = self.policy() {
            policy.passed(now, arrival.flow, cost, has_waited);
        }
        match self.in_force.take_booked() {
            None => {
                let seen = self.seen(arrival.at, now);
                self.in_force.take(seen, cost);
            }
            // It leaves an empty bucket, whenever it goes: late by a stall, it took later tokens too.
            Some(booked) => {
                let paid_at = self.seen(booked, now);
                self.in_force.pay_late(booked, paid_at);
            }
        }
        self.witness.release(now, cost);
    }

    /// The message at the head is discarded without having passed.
    pub fn forget_head(&mut self) {
        self.in_force.take_booked();
    }

    /// Judges a message at its arrival (`drop`); one that does not conform takes nothing.
    pub fn try_take(&mut self, arrival: &Arrival, body_bytes: usize, now: Instant) -> bool {
        self.settle(now);
        let cost = self.cost(body_bytes);
        let seen = self.seen(arrival.at, now);
        let admits = match self.policy() {
            Some(policy) => policy.admits(seen, arrival.flow, cost),
            None => self.in_force.try_take(seen, cost),
        };
        if admits {
            self.witness.release(seen, cost);
        }
        admits
    }

    /// Judges a whole command at its arrival (`reject`), all of its messages or none.
    ///
    /// # Errors
    /// A text for the publisher: what refuses it, by how much, and when to come again.
    pub fn try_take_batch<'a>(
        &mut self,
        arrival: &Arrival,
        bodies: impl Iterator<Item = &'a [u8]>,
        now: Instant,
    ) -> Result<(), String> {
        self.settle(now);
        let unit = self.limit.unit;
        let Some(share) = self.in_force.part() else {
            let (rate, burst) = (self.limit.rate, self.limit.burst);
            return Err(format!(
                "rate limit ({rate} {unit}/s, burst {burst}): this broker has no share of the limit yet; retry"
            ));
        };
        let total = bodies.map(|body| self.cost(body.len())).sum();
        let seen = self.seen(arrival.at, now);
        if let Some(policy) = self.policy() {
            if policy.admits(seen, arrival.flow, total) {
                self.witness.release(seen, total);
                return Ok(());
            }
            let (sharing, rate, burst) = (self.limit.sharing, share.rate, share.burst);
            return Err(format!(
                "rate limit exceeded (this broker's part by {sharing} is {rate:.1} {unit}/s, burst {burst:.1}, at present): \
                 {total} {unit} do not fit now; retry, or send fewer at once"
            ));
        }
        let judged = self.in_force.try_take_batch(seen, total);
        if judged.is_ok() {
            self.witness.release(seen, total);
        }
        judged.map_err(|refused| {
            let (rate, burst) = (share.rate, share.burst);
            format!("rate limit exceeded ({rate} {unit}/s, burst {burst}): {refused}")
        })
    }

    /// Tokens by which the worst window of releases since the limit was set exceeded r·(t − s) + b;
    /// negative where none reached it. Messages that wait are counted when they leave (`delay`).
    #[must_use]
    pub fn window_excess(&self) -> f64 {
        self.witness.excess()
    }

    /// Judges what passed before the limit was known here.
    pub fn judge(&mut self, unjudged: &Unjudged) {
        if let Some(excess) = unjudged.excess_over(&self.limit) {
            self.witness.found(excess);
        }
    }

    /// Tokens held at `now`; none where nothing is in force.
    #[must_use]
    pub fn tokens_at(&self, now: Instant) -> f64 {
        self.bucket_at(now)
            .map_or(0.0, |bucket| bucket.tokens_at(now))
    }

    /// How long the last of waiting messages waits from `now` that ask for `tokens` together, the first of them for
    /// `head_bytes` bytes if bytes are counted. None where nothing is in force.
    #[must_use]
    pub fn wait_of(&self, tokens: f64, head_bytes: usize, now: Instant) -> Option<Duration> {
        let bucket = self.bucket_at(now)?;
        // The bucket gave a head that is booked its tokens already.
        let taken = match self.in_force.has_booked() {
            true => self.cost(head_bytes),
            false => 0.0,
        };
        Some(bucket.departure(now, tokens - taken).saturating_since(now))
    }

    /// The bucket in force at `now`.
    fn bucket_at(&self, now: Instant) -> Option<TokenBucket> {
        let lease = match &self.way {
            Way::Leased(lease) => Some(&**lease),
            Way::Whole | Way::Gossiped(_) => None,
        };
        self.bucket_by(lease, now)
    }

    /// The bucket at `now`, if its share is what `lease` says.
    fn bucket_by(&self, lease: Option<&Lease>, now: Instant) -> Option<TokenBucket> {
        let mut bucket = self.in_force.bucket()?;
        if let Some((at, floor)) = lease.and_then(|lease| lease.end(now)) {
            let floor = floor?;
            bucket.resize(at, floor.rate, floor.burst);
        }
        Some(bucket)
    }

    /// Tokens that the bucket is short of being full at `now`: U of appendix A without what waits unbooked.
    #[must_use]
    pub fn unfinished_at(&self, now: Instant) -> f64 {
        let bucket = self.in_force.bucket();
        bucket.map_or(0.0, |bucket| bucket.unfinished_at(now))
    }

    /// Tokens that messages of this many bytes in all ask for.
    #[inline]
    #[must_use]
    pub fn tokens_of(&self, messages: u64, bytes: u64) -> f64 {
        match self.limit.unit {
            Unit::Messages => messages as f64,
            Unit::Bytes => bytes as f64,
        }
    }

    #[inline]
    fn cost(&self, body_bytes: usize) -> f64 {
        match self.limit.unit {
            Unit::Messages => 1.0,
            Unit::Bytes => body_bytes as f64,
        }
    }

    /// Puts the end of a lease into force, as of when it was.
    #[inline]
    pub fn settle(&mut self, now: Instant) {
        if let Way::Leased(lease) = &mut self.way
            && let Some((at, floor)) = lease.end(now)
        {
            lease.ended();
            self.apply(floor, at);
        }
    }

    /// The policy by which brokers share the limit, if they do and know each other.
    #[inline]
    fn policy(&mut self) -> Option<&mut SharedLimit> {
        match &mut self.way {
            Way::Gossiped(gossiped) => gossiped.policy_mut(),
            Way::Whole | Way::Leased(_) => None,
        }
    }

    fn apply(&mut self, share: Option<Share>, at: Instant) {
        if self.in_force.apply(share, at) {
            self.witness.change(share, at);
        }
    }
}
