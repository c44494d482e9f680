//! A publisher's part of a topic's limit (r, b) where no broker enforces it.
//!
//! The publishers of the topic that hear each other divide its limit equally: of n each uses at
//! most r/n and b/n. They only tell each other what they use ([`Held`]), at intervals, by datagrams
//! that may be lost:
//!
//! * A publisher that hears of a further one uses less at once.
//! * A new publisher uses nothing until it has announced itself and listened for a whole expiry.
//! * A publisher that may use more, after that or since somebody left, does so only when every
//!   other publisher that it knows has said that it knows exactly the same ones and uses no more
//!   than its part.
//! * Nobody uses more than what the words of the others leave of the limit.
//! * A publisher that has not announced itself for an expiry uses nothing any more: the others may
//!   have forgotten it. It is new then.
//!
//! The law: Σ r_l ≤ r at every instant, as long as every two publishers hear each other at least
//! once within every expiry. The reason: of two that use something, each has listened for an expiry
//! in which the other spoke, so all of those that use something know each other, and each uses at
//! most r divided by a number that counts them all. For b the same holds down to one token: a
//! bucket of less would let no message through, so beyond b publishers each has one token and they
//! have n together. Buckets begin empty and room that is added is empty, so together they let at
//! most max(b, n) + r·Δt through in any Δt.
//!
//! Where they do not hear each other the limit does not hold: each side of a partitioned network
//! divides the whole limit among those that it hears, so k sides use up to k·r. Where only one of
//! two hears the other, that one does not grow and yields to what the other says it uses. All
//! publishers of a topic must have one limit and one expiry; with different limits those with the
//! smaller one yield, those with the greater one do not know. The speeds of clocks must agree to
//! within what an announcement's way and the last interval leave of the expiry.

use std::time::Duration;

use clock::Instant;
use limit::{Burst, Rate, Share, TokenBucket};
use wire::announce::{Held, InstanceId};

/// Another publisher of the topic, by its last words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peer {
    /// Who.
    pub instance: InstanceId,
    /// What it uses, and among whom it reckons.
    pub held: Held,
}

/// One publisher's part of one topic's limit, with the bucket that enforces it.
#[derive(Clone, Debug)]
pub struct SubBucket {
    whole: Share,
    own: InstanceId,
    expiry: Duration,
    /// Nothing is in use.
    held: Option<InUse>,
    publishers: u16,
    members: u32,
    /// Of the latest announcement.
    announced_at: Option<Instant>,
    /// An expiry after the first announcement of this life.
    listened_at: Option<Instant>,
    bucket: TokenBucket,
    /// Since when the bucket lets nothing through.
    paused_since: Option<Instant>,
}

/// Amounts that an announcement says exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
struct InUse {
    rate: f32,
    burst: f32,
}

impl SubBucket {
    /// The part of `own` of the limit `whole`: nothing yet. `expiry` is that of its announcements.
    #[must_use]
    pub fn new(whole: Share, own: InstanceId, expiry: Duration, now: Instant) -> SubBucket {
        SubBucket {
            whole,
            own,
            expiry,
            held: None,
            publishers: 1,
            members: digest(own),
            announced_at: None,
            listened_at: None,
            bucket: whole.bucket(now),
            paused_since: Some(now),
        }
    }

    /// Reckons anew with the `peers` that are known now ([`crate::Directory::peers_of`]); says what may be used.
    ///
    /// To be called when the topic's publishers changed, and before an announcement.
    pub fn update(&mut self, peers: impl IntoIterator<Item = Peer>, now: Instant) -> Option<Share> {
        self.lapse(now);
        let peers: Vec<Peer> = peers
            .into_iter()
            .filter(|peer| peer.instance != self.own)
            .collect();
        self.publishers = u16::try_from(peers.len() + 1).unwrap_or(u16::MAX);
        self.members = peers
            .iter()
            .fold(digest(self.own), |all, peer| all ^ digest(peer.instance));
        let part = self.part_of(peers.len() + 1);
        let left = self.left_by(&peers);
        let most = InUse {
            rate: part.rate.min(left.rate),
            burst: part.burst.min(left.burst).max(1.0),
        };
        let may_grow = self.listened_at.is_some_and(|at| at <= now)
            && self.announced_at.is_some()
            && peers.iter().all(|peer| self.agrees(peer, part));
        let next = match self.held {
            _ if may_grow => most,
            Some(held) => InUse {
                rate: held.rate.min(most.rate),
                burst: held.burst.min(most.burst),
            },
            None => return None,
        };
        self.put_in_force(next, now);
        self.in_force(now)
    }

    /// What to announce of it: [`wire::announce::Entry::held`].
    #[must_use]
    pub fn held(&self, now: Instant) -> Held {
        let held = self.held.filter(|_| !self.has_lapsed(now));
        Held {
            rate: held.map_or(0.0, |held| held.rate),
            burst: held.map_or(0.0, |held| held.burst),
            publishers: self.publishers,
            members: self.members,
        }
    }

    /// Notes that [`SubBucket::held`] is announced at `now`. To be called just before it is sent.
    pub fn announced(&mut self, now: Instant) {
        self.lapse(now);
        self.announced_at = Some(now);
        self.listened_at.get_or_insert(now + self.expiry);
    }

    /// What may be used at `now`; `None`: nothing.
    #[must_use]
    pub fn in_force(&self, now: Instant) -> Option<Share> {
        let held = self.held.filter(|_| !self.has_lapsed(now))?;
        Some(Share {
            rate: Rate::new(f64::from(held.rate)).ok()?,
            burst: Burst::new(f64::from(held.burst)).ok()?,
        })
    }

    /// When a message of `cost` tokens that is ready at `now` may leave; `None` while nothing may be used. Changes nothing.
    #[must_use]
    pub fn departure(&self, now: Instant, cost: f64) -> Option<Instant> {
        self.in_force(now)?;
        Some(self.bucket.departure(now, cost))
    }

    /// [`SubBucket::departure`], and books the tokens.
    ///
    /// Book what leaves now. What is booked for later stays booked when the part shrinks, so only a message of more tokens
    /// than the burst is to be booked ahead (see [`TokenBucket::departure`]).
    pub fn take(&mut self, now: Instant, cost: f64) -> Option<Instant> {
        self.lapse(now);
        self.in_force(now)?;
        Some(self.bucket.take(now, cost))
    }

    /// When [`SubBucket::update`] may say something else although nothing was heard; `None`: never.
    #[must_use]
    pub fn next_change(&self, now: Instant) -> Option<Instant> {
        if self.has_lapsed(now) {
            return None;
        }
        let ends_at = self.announced_at.map(|at| at + self.expiry);
        let listened_at = self.listened_at.filter(|&at| at > now);
        match (ends_at, listened_at) {
            (Some(ends_at), Some(listened_at)) => Some(ends_at.min(listened_at)),
            (ends_at, listened_at) => ends_at.or(listened_at),
        }
    }

    /// The limit as declared.
    #[must_use]
    pub fn whole(&self) -> Share {
        self.whole
    }

    /// An equal part among `publishers`.
    fn part_of(&self, publishers: usize) -> InUse {
        let among = publishers as f64;
        InUse {
            rate: at_most(self.whole.rate.get(), among),
            burst: at_most(self.whole.burst.get(), among).max(1.0),
        }
    }

    /// What the others' words leave of the limit.
    fn left_by(&self, peers: &[Peer]) -> InUse {
        let sum = |amount: fn(&Held) -> f32| -> f64 {
            peers.iter().map(|peer| f64::from(amount(&peer.held))).sum()
        };
        let left = |whole: f64, used: f64| at_most((whole - used).max(0.0), 1.0);
        InUse {
            rate: left(self.whole.rate.get(), sum(|held| held.rate)),
            burst: left(self.whole.burst.get(), sum(|held| held.burst)),
        }
    }

    /// Whether `peer` reckons with the same publishers and uses no more than its part.
    fn agrees(&self, peer: &Peer, part: InUse) -> bool {
        peer.held.publishers == self.publishers
            && peer.held.members == self.members
            && peer.held.rate <= part.rate
            && peer.held.burst <= part.burst
    }

    fn put_in_force(&mut self, next: InUse, now: Instant) {
        let (Ok(rate), Ok(burst)) = (
            Rate::new(f64::from(next.rate)),
            Burst::new(f64::from(next.burst)),
        ) else {
            // A rate of 0: the others use all of it.
            self.withdraw(now);
            return;
        };
        if let Some(since) = self.paused_since.take() {
            self.bucket.pause(since, now);
        }
        if self.held != Some(next) {
            self.bucket.resize(now, rate, burst);
        }
        self.held = Some(next);
    }

    fn withdraw(&mut self, at: Instant) {
        if self.held.take().is_some() {
            self.paused_since = Some(at);
        }
    }

    fn has_lapsed(&self, now: Instant) -> bool {
        self.announced_at.is_some_and(|at| at + self.expiry <= now)
    }

    /// Who was silent for too long begins anew.
    fn lapse(&mut self, now: Instant) {
        if let Some(at) = self.announced_at
            && at + self.expiry <= now
        {
            self.withdraw(at + self.expiry);
            self.announced_at = None;
            self.listened_at = None;
        }
    }
}

/// The greatest amount of which `among` are at most `whole`.
fn at_most(whole: f64, among: f64) -> f32 {
    let mut each = (whole / among) as f32;
    // A product of 24 and at most 29 bits is exact, and rounding was off by one step at most.
    while f64::from(each) * among > whole {
        each = each.next_down();
    }
    each.max(0.0)
}

/// A number per instance whose exclusive or tells sets apart (SplitMix64's last steps).
fn digest(instance: InstanceId) -> u32 {
    let mut z = instance.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

#[cfg(test)]
mod tests;
