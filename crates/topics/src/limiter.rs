//! A topic's limit in force: the contract and its token bucket.
//!
//! On its own a broker enforces the whole limit. Under a controller the bucket is that of the share
//! it granted ([`super::lease`]), and where there is none nothing passes. A limit that brokers share by gossip has the
//! part that its policy says ([`super::sharing`]).
//!
//! The bucket judges by the time of arrival, so that nothing is delayed because it was read late. Taken
//! alone that would let a process that was stopped for ten seconds release ten seconds' tokens at once;
//! therefore no message counts as arriving more than [`STALL_MAX`] before it is judged, and releases,
//! on the broker's own clock, never exceed r·t + b + r·[`STALL_MAX`]. Where a contract asks for it
//! ([`JudgedBy::Release`]) a message counts as arriving when it is judged, and they never exceed r·t + b.

use std::time::Duration;

use clock::Instant;
use limit::sharing::Update;
use limit::{Grant, Holder, JudgedBy, Limit, OnExceed, Share, TokenBucket, Unit};

use super::lease::Lease;
use super::sharing::{Group, Known, LimitNumber, SharedLimit};
use super::store::Arrival;
use super::unjudged::Unjudged;
use super::witness::Witness;

/// The lateness that a limit makes up for. Longer ones than a busy reactor's cost tokens.
pub const STALL_MAX: Duration = Duration::from_millis(20);

/// Early reports for one want of a share. A topic that is denied one for good waits for the regular ones.
const ASKS_MAX: u32 = 10;

/// Limit and bucket of one topic.
#[derive(Debug)]
pub struct TopicLimiter {
    limit: Limit,
    /// What is in force; `None`: nothing passes.
    share: Option<Share>,
    /// Of the share that is or was in force; means nothing before the first.
    bucket: TokenBucket,
    has_begun: bool,
    withdrawn_at: Instant,
    booked: Option<Instant>,
    lease: Option<Box<Lease>>,
    gossiped: Option<Gossiped>,
    /// Reports that may be asked for before their time for want of a share.
    asks_left: u32,
    witness: Witness,
}

/// A limit that brokers share by gossip.
#[derive(Debug)]
struct Gossiped {
    number: Option<LimitNumber>,
    /// None: it is not known yet who shares, and nothing passes.
    policy: Option<Box<SharedLimit>>,
}

impl TopicLimiter {
    /// The whole limit. Begins with an empty bucket: a restart must not gift a burst.
    #[must_use]
    pub fn new(limit: Limit, now: Instant) -> TopicLimiter {
        let share = Share::whole(&limit);
        TopicLimiter {
            limit,
            share: Some(share),
            bucket: share.bucket(now),
            has_begun: true,
            withdrawn_at: now,
            booked: None,
            lease: None,
            gossiped: None,
            asks_left: ASKS_MAX,
            witness: Witness::new(Some(share), now),
        }
    }

    /// A part of the limit as its policy says, among the brokers of `group`; nothing passes before they are known.
    #[must_use]
    pub fn gossiping(
        limit: Limit,
        number: Option<LimitNumber>,
        group: Option<Group>,
        now: Instant,
    ) -> TopicLimiter {
        let mut limiter = TopicLimiter {
            share: None,
            has_begun: false,
            gossiped: Some(Gossiped {
                number,
                policy: None,
            }),
            witness: Witness::new(None, now),
            ..TopicLimiter::new(limit, now)
        };
        limiter.join(group, now);
        limiter
    }

    /// Nothing passes until a controller has granted a share; `reports` knows what it was told lately.
    #[must_use]
    pub fn controlled(limit: Limit, reports: Holder, now: Instant) -> TopicLimiter {
        TopicLimiter {
            share: None,
            has_begun: false,
            lease: Some(Box::new(Lease::new(reports))),
            witness: Witness::new(None, now),
            ..TopicLimiter::new(limit, now)
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
        self.lease.is_some() || self.gossiped.is_some()
    }

    /// The policy by which brokers share the limit, if they do and know each other.
    #[must_use]
    pub fn gossiped(&self) -> Option<&SharedLimit> {
        self.gossiped.as_ref()?.policy.as_deref()
    }

    /// Whether this is how the limit is to be kept: by gossip under that number, or otherwise.
    #[must_use]
    pub fn is_kept_as(&self, limit: &Limit, number: Option<LimitNumber>) -> bool {
        match &self.gossiped {
            Some(gossiped) => {
                let way = |limit: &Limit| (limit.sharing, limit.unit, limit.gossip);
                way(limit) == way(&self.limit) && gossiped.number == number
            }
            None => !limit.is_gossiped(),
        }
    }

    /// Begins to share with the brokers of `group`: with the N-th part, and no more tokens than the bucket holds. Nothing
    /// passes where there is none.
    pub fn join(&mut self, group: Option<Group>, now: Instant) {
        let limit = self.limit;
        let Some(gossiped) = &mut self.gossiped else {
            return;
        };
        // What cannot be divided is not enforced by anybody, so nothing of it passes.
        let policy =
            group.and_then(|group| SharedLimit::new(&limit, gossiped.number, group, now).ok());
        gossiped.policy = policy.map(Box::new);
        let share = self.gossiped().map(SharedLimit::share);
        self.apply(share, now);
    }

    /// Ends the estimate interval, if it is over; what to tell the others.
    pub fn end_interval(&mut self, now: Instant, known: Known) -> Option<Update> {
        let policy = self.gossiped.as_mut()?.policy.as_mut()?;
        let update = policy.end_interval(now, known)?;
        let share = policy.share();
        self.apply(Some(share), now);
        Some(update)
    }

    /// Notes that a report was sent, which a grant may answer; see [`Holder::report_sent`].
    pub fn report_sent(&mut self, number: u64, now: Instant) {
        if let Some(lease) = &mut self.lease {
            lease.report_sent(number, now);
            if lease.in_force(now).is_none() {
                self.asks_left = self.asks_left.saturating_sub(1);
            }
        }
    }

    /// (epoch, seq) of the grant in force; zeros before the first.
    #[must_use]
    pub fn confirmation(&self) -> (u64, u64) {
        self.lease
            .as_ref()
            .map_or((0, 0), |lease| lease.confirmation())
    }

    /// What may be used at `now`: the whole limit, or the share that was granted.
    #[must_use]
    pub fn share(&self, now: Instant) -> Option<Share> {
        match &self.lease {
            Some(lease) => lease.in_force(now),
            None => self.share,
        }
    }

    /// Changes the contract; tokens held stay, up to the new burst. Another unit begins anew, empty. Under
    /// a controller it is the next share that brings the new numbers.
    pub fn set(&mut self, limit: Limit, now: Instant) {
        let has_other_unit = limit.unit != self.limit.unit;
        if let Some(lease) = &mut self.lease {
            self.limit = limit;
            if has_other_unit {
                lease.void();
                self.apply(None, now);
                self.has_begun = false;
                self.booked = None;
                self.witness = Witness::new(None, now);
            }
        } else if let Some(gossiped) = &mut self.gossiped {
            self.limit = limit;
            if let Some(policy) = &mut gossiped.policy {
                policy.set_limit(&limit, now);
                let share = policy.share();
                self.apply(Some(share), now);
            }
        } else if has_other_unit {
            *self = TopicLimiter::new(limit, now);
        } else if limit != self.limit {
            let share = Share::whole(&limit);
            self.witness = Witness::new(Some(share), now);
            self.bucket.resize(now, limit.rate, limit.burst);
            (self.share, self.limit) = (Some(share), limit);
        }
    }

    /// Whether nothing passes for want of a share, and the controller may be bothered with it.
    #[must_use]
    pub fn asks_for_share(&self, now: Instant) -> bool {
        self.lease.is_some() && self.asks_left > 0 && self.share(now).is_none()
    }

    /// Takes a grant; says whether it counts.
    pub fn grant(&mut self, grant: &Grant, now: Instant) -> bool {
        self.settle(now);
        let Some(lease) = &mut self.lease else {
            return false;
        };
        if !lease.receive(grant, now) {
            return false;
        }
        let share = lease.in_force(now);
        if share.is_some() {
            self.asks_left = ASKS_MAX;
        }
        self.apply(share, now);
        true
    }

    /// Holds on to a share of `round` until `until`; see [`Holder::hold`].
    pub fn hold(&mut self, round: u64, until: Instant, now: Instant) {
        self.settle(now);
        if let Some(lease) = &mut self.lease {
            lease.hold(round, until, now);
        }
    }

    /// Its lease is renewed by the controller; see [`Holder::renew`].
    pub fn renew(&mut self, report: u64, now: Instant) {
        self.settle(now);
        if let Some(lease) = &mut self.lease {
            lease.renew(report, now);
        }
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
        if self.share.is_none() {
            return Instant::MAX;
        }
        let seen = self.seen(arrival, now);
        let cost = self.cost(body_bytes);
        if self.booked.is_none() && cost > self.bucket.burst().get() {
            self.booked = Some(self.bucket.take(seen, cost));
        }
        self.booked
            .unwrap_or_else(|| self.bucket.departure(seen, cost))
    }

    /// Takes the tokens of the message at the head, which passes now.
    #[inline]
    pub fn take(&mut self, arrival: &Arrival, body_bytes: usize, has_waited: bool, now: Instant) {
        let cost = self.cost(body_bytes);
        if let Some(Gossiped {
            policy: Some(policy),
            ..
        }) = &mut self.gossiped
        {
            policy.passed(now, arrival.flow, cost, has_waited);
        }
        match self.booked.take() {
            None => {
                self.bucket.take(self.seen(arrival.at, now), cost);
            }
            // It leaves an empty bucket, whenever it goes: late by a stall, it took later tokens too.
            Some(booked) => {
                let paid_at = self.seen(booked, now);
                if paid_at > booked {
                    self.bucket.pause(booked, paid_at);
                }
            }
        }
        self.witness.release(now, cost);
    }

    /// The message at the head is discarded without having passed.
    pub fn forget_head(&mut self) {
        self.booked = None;
    }

    /// Judges a message at its arrival (`drop`); one that does not conform takes nothing.
    pub fn try_take(&mut self, arrival: &Arrival, body_bytes: usize, now: Instant) -> bool {
        self.settle(now);
        let cost = self.cost(body_bytes);
        let seen = self.seen(arrival.at, now);
        let admits = match &mut self.gossiped {
            Some(Gossiped {
                policy: Some(policy),
                ..
            }) => policy.admits(seen, arrival.flow, cost),
            _ => self.share.is_some() && self.bucket.try_take(seen, cost),
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
        let Some(share) = self.share else {
            let (rate, burst) = (self.limit.rate, self.limit.burst);
            return Err(format!(
                "rate limit ({rate} {unit}/s, burst {burst}): this broker has no share of the limit yet; retry"
            ));
        };
        let total = bodies.map(|body| self.cost(body.len())).sum();
        let seen = self.seen(arrival.at, now);
        if let Some(Gossiped {
            policy: Some(policy),
            ..
        }) = &mut self.gossiped
        {
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
        let judged = self.bucket.try_take_batch(seen, total);
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
        let taken = self.booked.map_or(0.0, |_| self.cost(head_bytes));
        Some(bucket.departure(now, tokens - taken).saturating_since(now))
    }

    /// The bucket in force at `now`.
    fn bucket_at(&self, now: Instant) -> Option<TokenBucket> {
        let mut bucket = self.bucket;
        if let Some((at, floor)) = self.lease.as_ref().and_then(|lease| lease.end(now)) {
            let floor = floor?;
            bucket.resize(at, floor.rate, floor.burst);
        }
        self.share.map(|_| bucket)
    }

    /// Tokens that the bucket is short of being full at `now`: U of appendix A without what waits unbooked.
    #[must_use]
    pub fn unfinished_at(&self, now: Instant) -> f64 {
        self.share.map_or(0.0, |_| self.bucket.unfinished_at(now))
    }

    /// Tokens that messages of so many bytes in all ask for.
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
    fn settle(&mut self, now: Instant) {
        let Some(lease) = &mut self.lease else {
            return;
        };
        if let Some((at, floor)) = lease.end(now) {
            lease.ended();
            self.apply(floor, at);
        }
    }

    fn apply(&mut self, share: Option<Share>, at: Instant) {
        if share == self.share {
            return;
        }
        match share {
            None => self.withdrawn_at = at,
            Some(share) if !self.has_begun => {
                self.bucket = share.bucket(at);
                self.has_begun = true;
            }
            Some(share) => {
                if self.share.is_none() {
                    self.bucket.pause(self.withdrawn_at, at);
                }
                self.bucket.resize(at, share.rate, share.burst);
                // Its tokens are not there before the debt that it left is paid at the new rate.
                let paid_at = self.bucket.departure(at, 0.0);
                self.booked = self.booked.map(|booked| booked.max(paid_at));
            }
        }
        self.share = share;
        self.witness.change(share, at);
    }
}
