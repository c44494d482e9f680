//! One broker: a holder on its own clock, and a bucket that releases all it may.

use clock::Instant;
use limit::{Grant, LeaseHolder, Prolongation, Share, TokenBucket, Vouches};

/// A clock that began somewhere else and runs a little faster or slower.
#[derive(Clone, Copy, Debug)]
pub struct Skew {
    pub offset_ns: u64,
    pub parts_per_billion: i64,
}

impl Skew {
    pub fn local(&self, now: Instant) -> Instant {
        let ns = i128::from(now.as_nanos());
        let skewed = ns + ns * i128::from(self.parts_per_billion) / 1_000_000_000;
        Instant::from_nanos(u64::try_from(skewed).expect("small") + self.offset_ns)
    }

    /// The first true instant at which the local clock shows at least `local`.
    pub fn true_time(&self, local: Instant) -> Instant {
        let shown = i128::from(local.as_nanos().saturating_sub(self.offset_ns));
        let near = shown * 1_000_000_000 / i128::from(1_000_000_000 + self.parts_per_billion);
        let mut ns = u64::try_from((near - 3).max(0)).expect("small");
        while self.local(Instant::from_nanos(ns)) < local {
            ns += 1;
        }
        Instant::from_nanos(ns)
    }
}

pub struct Broker {
    pub skew: Skew,
    pub is_alive: bool,
    pub is_stopped: bool,
    /// A report was due while it was stopped.
    pub is_tick_missed: bool,
    pub life: u64,
    pub link: u64,
    pub next_report: u64,
    pub holder: LeaseHolder,
    pub vouches: Vouches,
    /// The other brokers of its round, in the order of the list.
    pub others: Vec<u32>,
    pub weight: f64,
    pub releases: Vec<Instant>,
    bucket: Option<TokenBucket>,
    /// Since when nothing is in force.
    paused_since: Option<Instant>,
    /// Up to here everything that could be released was.
    released_until: Instant,
    /// The end of the present lease has not been applied to the bucket yet.
    is_leased: bool,
}

impl Broker {
    pub fn new(skew: Skew, weight: f64) -> Self {
        Broker {
            skew,
            is_alive: false,
            is_stopped: false,
            is_tick_missed: false,
            life: 0,
            link: 0,
            next_report: 1,
            holder: LeaseHolder::new(),
            vouches: Vouches::new(),
            others: Vec::new(),
            weight,
            releases: Vec::new(),
            bucket: None,
            paused_since: None,
            released_until: Instant::ZERO,
            is_leased: false,
        }
    }

    /// A process begins: nothing is known, no token is held.
    pub fn start(&mut self, now: Instant, first_report: u64) {
        self.is_alive = true;
        self.is_stopped = false;
        self.is_tick_missed = false;
        self.life += 1;
        self.next_report = first_report;
        self.holder = LeaseHolder::new();
        self.vouches = Vouches::new();
        self.others.clear();
        self.bucket = None;
        self.paused_since = None;
        self.released_until = now;
        self.is_leased = false;
    }

    /// What is truly in force, whether the process runs or is stopped.
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        if self.is_alive {
            self.holder.in_force(self.skew.local(now))
        } else {
            None
        }
    }

    /// Takes a grant; the instant at which its lease ends, if it was accepted.
    pub fn receive(&mut self, grant: &Grant, now: Instant) -> Option<Instant> {
        self.release(now);
        let local = self.skew.local(now);
        if !self.holder.receive(grant, local) {
            return None;
        }
        if let (Some(share), Some(floor)) = (grant.share, grant.floor) {
            assert!(share.covers(&floor), "a floor above its share");
        }
        self.is_leased = true;
        self.apply(self.holder.in_force(local), now);
        self.holder
            .expires_at()
            .map(|ends| self.skew.true_time(ends))
    }

    /// Holds on to its share for as long as all others vouch; the instant at which its lease ends then.
    pub fn hold(&mut self, now: Instant) -> Option<Instant> {
        self.release(now);
        let until = self.vouches.held_until()?;
        let local = self.skew.local(now);
        let round = self.vouches.round();
        self.holder
            .prolong(Prolongation::Held { round, until }, local);
        self.holder
            .expires_at()
            .map(|ends| self.skew.true_time(ends))
    }

    /// The controller began a round with these brokers.
    pub fn told(&mut self, round: u64, others: Vec<u32>, now: Instant) {
        if round > self.vouches.round() {
            self.vouches.told(round, others.len(), self.skew.local(now));
            self.others = others;
        }
    }

    /// Releases everything up to `now`, with the end of the lease where it was.
    pub fn release(&mut self, now: Instant) {
        if !self.is_alive || self.is_stopped {
            return;
        }
        if self.is_leased {
            let ends = self.holder.expires_at().expect("a lease");
            let ends = self.skew.true_time(ends);
            if ends <= now {
                self.release_before(ends);
                self.apply(self.holder.floor(), ends);
                self.is_leased = false;
            }
        }
        self.release_before(now);
    }

    /// Goes on after it was stopped: nothing was released meanwhile.
    pub fn resume(&mut self, now: Instant) {
        self.is_stopped = false;
        self.released_until = now;
        self.release(now);
    }

    fn release_before(&mut self, end: Instant) {
        let from = self.released_until;
        self.released_until = from.max(end);
        let Some(bucket) = self.bucket.as_mut().filter(|_| self.paused_since.is_none()) else {
            return;
        };
        while bucket.departure(from, 1.0) < end {
            self.releases.push(bucket.take(from, 1.0));
        }
    }

    fn apply(&mut self, share: Option<Share>, now: Instant) {
        match (&mut self.bucket, share) {
            (None, None) => {}
            (None, Some(share)) => self.bucket = Some(share.bucket(now)),
            (Some(_), None) => {
                self.paused_since.get_or_insert(now);
            }
            (Some(bucket), Some(share)) => {
                if let Some(since) = self.paused_since.take() {
                    bucket.pause(since, now);
                }
                bucket.resize(now, share.rate, share.burst);
            }
        }
    }
}
