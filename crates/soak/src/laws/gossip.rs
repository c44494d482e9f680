//! What passes of a topic whose limit brokers share by gossip: near the limit, but not below it at
//! every instant (`docs/sharing-topics.md`).
//!
//! Three things are promised, whatever is lost or late. A broker that knows no list passes nothing.
//! One that hears m of N, itself included, has at most m/N of the limit. And once nobody has come,
//! gone or been told anything for [`SETTLED`], all together pass at most r·Δt + b, plus what passes
//! of r in `EXCESS` and in the time in which all hear of a demand, the price of shifting demand,
//! plus `INEXACT` of r·Δt for what they learn of each other late; where one of them is cut off, the
//! others pass at most what is not its own. At least `USED` of what is asked for passes then.

use std::time::Duration;

use clock::Instant;
use limit::SharePolicy;
use topics::stats::TopicStats;

use super::limits::Bound;

/// Arrivals and departures are noticed within three seconds, sums have spread in one more, and
/// parts have settled five seconds later.
pub const SETTLED: Duration = Duration::from_secs(10);
/// What may pass beyond r·Δt + b where demand shifts, as time of the rate, beside that in which it is heard of: estimates follow it with a memory of 0.43 s.
const EXCESS: Duration = Duration::from_millis(500);
/// By which part the rate may be exceeded for long.
const INEXACT: f64 = 0.02;
/// The part of what is asked for, up to the limit, that passes at least.
const USED: f64 = 0.7;
/// The same under `gtb`, where what others let through drains every bucket until it is heard otherwise.
const USED_BY_GTB: f64 = 0.4;
/// How long traffic is observed before the law judges it.
const LOOKED_AT: Duration = Duration::from_secs(10);
/// Where flows cannot fill their parts, `fps` books this multiple of the limit.
const OVERBOOKING: f64 = 4.0 / 3.0;
/// Rounding.
const EPSILON: f64 = 1e-6;

/// How long it takes at most until all have heard of a changed demand: an interval where each tells all others, else as long as sums take to spread
/// (`gossip::Exchange::spreading_intervals`).
#[must_use]
pub fn heard_after((interval, branches): (Duration, u16), brokers: usize) -> Duration {
    let intervals = match usize::from(branches) + 1 < brokers {
        false => 1.0,
        true => {
            let worst = (brokers as f64).sqrt() / 0.005;
            (worst.ln() / (0.5 * (f64::from(branches) + 1.0).ln())).ceil() + 2.0
        }
    };
    interval.mul_f64(intervals)
}

/// One broker, as it was seen at a look.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Which process: place and life.
    pub process: (usize, u64),
    /// The list that it follows; 0: none.
    pub generation: u64,
    /// The limit that it was told.
    pub limit: Option<Bound>,
    /// Brokers that share it, and how many of them are heard.
    pub brokers: u32,
    /// See above.
    pub connected: u32,
    /// What may pass there.
    pub share: Option<Bound>,
}

/// The books of one topic.
#[derive(Debug)]
pub struct Gossiped {
    policy: SharePolicy,
    declared: Bound,
    /// The greatest of all that were declared.
    most: Bound,
    seen: Vec<Seen>,
    /// Since when nobody has come, gone or been told anything.
    since: Instant,
    whose: Whose,
    /// See [`heard_after`].
    heard_after: Duration,
    tokens: f64,
    at: Instant,
    /// Tokens that have passed since everything settled.
    passed: u64,
}

/// Who says which brokers share.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// A controller, and nothing goes wrong yet or still.
    Troubled,
    /// A controller, and nothing goes wrong any more, but that a broker may be cut off from `planned`, itself included.
    Calm {
        cut_off: Option<usize>,
        planned: u32,
    },
    /// They find each other.
    Found,
}

impl Seen {
    /// What statistics of a topic show.
    #[must_use]
    pub fn of(process: (usize, u64), generation: u64, stats: &TopicStats) -> Seen {
        let limit = stats.limit.map(|limit| Bound {
            rate: limit.rate.get(),
            burst: limit.burst.get(),
        });
        let share = stats.share.map(|share| Bound {
            rate: share.rate.get(),
            burst: share.burst.get(),
        });
        let sharing = stats.sharing.as_ref();
        Seen {
            process,
            generation,
            limit,
            brokers: sharing.map_or(0, |sharing| sharing.brokers),
            connected: sharing.map_or(0, |sharing| sharing.connected),
            share,
        }
    }

    fn is_as(&self, other: &Seen) -> bool {
        let how = |seen: &Seen| (seen.process, seen.generation, seen.limit, seen.connected);
        how(self) == how(other)
    }
}

impl Gossiped {
    /// A topic that is declared.
    #[must_use]
    pub fn new(policy: SharePolicy, bound: Bound, heard_after: Duration, now: Instant) -> Gossiped {
        Gossiped {
            policy,
            declared: bound,
            most: bound,
            seen: Vec::new(),
            since: now,
            whose: Whose::Troubled,
            heard_after,
            tokens: 0.0,
            at: now,
            passed: 0,
        }
    }

    /// The topic of brokers that find each other.
    #[must_use]
    pub fn among_found(
        policy: SharePolicy,
        bound: Bound,
        heard_after: Duration,
        now: Instant,
    ) -> Gossiped {
        Gossiped {
            whose: Whose::Found,
            ..Gossiped::new(policy, bound, heard_after, now)
        }
    }

    /// Something goes wrong, or is mended.
    pub fn disturbed(&mut self, now: Instant) {
        self.since = now;
    }

    /// Another limit is declared.
    pub fn declare(&mut self, bound: Bound, now: Instant) {
        if bound != self.declared {
            self.declared = bound;
            self.most = self.most.max(bound);
            self.since = now;
        }
    }

    /// Nothing goes wrong from now on, but that one broker may stay cut off.
    pub fn calm(&mut self, cut_off: Option<usize>, brokers: usize, now: Instant) {
        let planned = brokers as u32;
        self.whose = Whose::Calm { cut_off, planned };
        self.since = now;
    }

    /// Whether all is as it has been for long enough.
    #[must_use]
    pub fn is_settled(&self, now: Instant) -> bool {
        let is_judged = !matches!(self.whose, Whose::Troubled);
        is_judged && now.saturating_since(self.since) >= SETTLED
    }

    /// Takes note of all brokers that run.
    ///
    /// # Errors
    /// One has more than its part.
    pub fn look(&mut self, seen: Vec<Seen>, now: Instant) -> Result<(), String> {
        let cut_off = self.cut_off();
        let counts = |seen: &&Seen| Some(seen.process.0) != cut_off;
        let here: Vec<&Seen> = seen.iter().filter(counts).collect();
        let were: Vec<&Seen> = self.seen.iter().filter(counts).collect();
        let is_as_it_was =
            here.len() == were.len() && here.iter().zip(were).all(|(now, was)| now.is_as(was));
        if !is_as_it_was {
            self.since = now;
        }
        if let Whose::Found = self.whose {
            // Each is told for itself.
            let told = seen.iter().filter_map(|seen| seen.limit);
            self.most = told.fold(self.most, Bound::max);
        }
        let wrong = seen.iter().find_map(|seen| self.exceeds(seen));
        self.seen = seen;
        wrong.map_or(Ok(()), Err)
    }

    fn exceeds(&self, seen: &Seen) -> Option<String> {
        let share = seen.share?;
        if seen.generation == 0 {
            return Some(format!("{seen:?} knows no list and has a part"));
        }
        let part = f64::from(seen.connected) / f64::from(seen.brokers.max(1));
        let overbooking = match self.policy {
            SharePolicy::Fps => OVERBOOKING,
            _ => 1.0,
        };
        let rate = self.most.rate * part * overbooking;
        let is_within = share.rate <= rate * (1.0 + EPSILON) + EPSILON;
        (!is_within).then(|| format!("{seen:?} has more than {rate:.3} of {:?}", self.most))
    }

    /// The fault in what passes, where `asked` messages per second are published.
    #[must_use]
    pub fn disorder(&self, asked: f64, now: Instant) -> Option<String> {
        let quiet = now.saturating_since(self.since);
        if quiet < SETTLED + LOOKED_AT {
            return Some(format!(
                "brokers that gossip about {:?} have been as they are for {quiet:?} only: {:?}",
                self.declared, self.seen
            ));
        }
        let seconds = (quiet - SETTLED).as_secs_f64();
        let told = self.seen.iter().filter_map(|seen| seen.limit);
        let limit = told.fold(self.declared.rate, |least, told| least.min(told.rate));
        let used = match self.policy {
            SharePolicy::Gtb => USED_BY_GTB,
            _ => USED,
        };
        let least = used * asked.min(limit * self.part()) * seconds;
        let is_used = self.passed as f64 >= least;
        (!is_used).then(|| {
            format!(
                "{} messages of {asked:.1}/s have passed in {seconds:.1} s of {:?} by {:?}, {least:.0} at least are to: {:?}",
                self.passed, self.declared, self.policy, self.seen
            )
        })
    }

    /// Messages pass at `now`, which never runs back, at a broker in that place.
    ///
    /// # Errors
    /// Too many.
    pub fn pass(&mut self, messages: usize, place: usize, now: Instant) -> Result<(), String> {
        let depth = self.depth();
        if !self.is_settled(now) {
            (self.tokens, self.at, self.passed) = (depth, now, 0);
            return Ok(());
        }
        if self.cut_off() == Some(place) {
            return Ok(());
        }
        self.passed += messages as u64;
        let earned = now.saturating_since(self.at).as_secs_f64()
            * self.in_force().rate
            * self.part()
            * (1.0 + INEXACT);
        self.tokens = (self.tokens + earned).min(depth) - messages as f64;
        self.at = self.at.max(now);
        match self.tokens >= -EPSILON {
            true => Ok(()),
            false => Err(format!(
                "{:.3} messages more than {:?} and {EXCESS:?} of it and {:?} have passed by {:?}: {:?}",
                -self.tokens, self.declared, self.heard_after, self.policy, self.seen
            )),
        }
    }

    /// The greatest of what was declared and what brokers were told: one that could not write a contract goes on with the former one.
    fn in_force(&self) -> Bound {
        let told = self.seen.iter().filter_map(|seen| seen.limit);
        match self.whose {
            // Of those that hear each other the least counts.
            Whose::Found if self.strangers().is_none() => told.fold(self.most, Bound::min),
            Whose::Found => told.fold(self.declared, Bound::max),
            _ => told.fold(self.declared, Bound::max),
        }
    }

    fn cut_off(&self) -> Option<usize> {
        match self.whose {
            Whose::Calm { cut_off, .. } => cut_off,
            _ => None,
        }
    }

    /// A broker that runs and does not hear all others that do.
    #[must_use]
    pub fn strangers(&self) -> Option<String> {
        let all = self.seen.len() as u32;
        let is_stranger = |seen: &&Seen| seen.generation == 0 || seen.connected != all;
        let lists = self.seen.iter().map(|seen| seen.brokers);
        let is_one = lists.clone().min() == lists.max();
        let stranger = self.seen.iter().find(is_stranger);
        let stranger = stranger.or(self.seen.first().filter(|_| !is_one));
        stranger.map(|stranger| format!("{stranger:?} has not found all of {:?}", self.seen))
    }

    /// The part of a limit that is with brokers which hear each other.
    fn part(&self) -> f64 {
        let listed = self.seen.iter().map(|seen| seen.brokers).max();
        let listed = listed.unwrap_or(1).max(1);
        let missing = match self.whose {
            // Once somebody has said that it is dead it is on no list any more.
            Whose::Calm { cut_off, planned } => u32::from(cut_off.is_some() && listed == planned),
            Whose::Troubled => 0,
            Whose::Found => {
                // Each that runs brings its part of the list that it goes by; one without the limit is on the others'.
                let lists = self.seen.iter().filter(|seen| seen.generation > 0);
                let lists = lists.map(|seen| match seen.brokers {
                    0 => listed,
                    brokers => brokers,
                });
                return lists.map(|brokers| 1.0 / f64::from(brokers)).sum();
            }
        };
        f64::from(listed - missing) / f64::from(listed)
    }

    /// What may pass at once.
    fn depth(&self) -> f64 {
        let Bound { rate, burst } = self.in_force();
        let buckets = match self.policy {
            // Each broker's bucket is as deep as the limit's.
            SharePolicy::Gtb => self.seen.len().max(1) as f64,
            _ => 1.0,
        };
        // Parts of a bucket hold a message at least.
        burst * buckets + self.seen.len() as f64 + rate * (EXCESS + self.heard_after).as_secs_f64()
    }
}
