//! The part of a limit that may pass at present, and its bucket.

use clock::Instant;
use limit::{Refused, Share, TokenBucket};

/// A part of a limit, or nothing of it, with the tokens that are held.
#[derive(Debug)]
pub(super) struct InForce {
    state: State,
    /// Of the part that is or was in force; means nothing before the first.
    bucket: TokenBucket,
    /// When the message at the head has its tokens, where it took them before it may pass.
    booked: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing may pass, and nothing ever could.
    Nothing,
    /// So much may.
    Part(Share),
    /// Nothing may since then.
    Withdrawn(Instant),
}

impl InForce {
    /// All of `share`, with an empty bucket.
    pub(super) fn share(share: Share, now: Instant) -> InForce {
        InForce {
            state: State::Part(share),
            ..InForce::nothing(share, now)
        }
    }

    /// Nothing may pass before the first part of `whole` is there.
    pub(super) fn nothing(whole: Share, now: Instant) -> InForce {
        InForce {
            state: State::Nothing,
            bucket: whole.bucket(now),
            booked: None,
        }
    }

    /// What may pass; `None`: nothing.
    #[inline]
    pub(super) fn part(&self) -> Option<Share> {
        match self.state {
            State::Part(share) => Some(share),
            State::Nothing | State::Withdrawn(_) => None,
        }
    }

    /// Its bucket, where something may pass.
    pub(super) fn bucket(&self) -> Option<TokenBucket> {
        self.part().map(|_| self.bucket)
    }

    /// Whether the message at the head has taken its tokens.
    pub(super) fn has_booked(&self) -> bool {
        self.booked.is_some()
    }

    /// When a message of that cost has its tokens that counts as arriving at `seen`. One that costs more than the burst is booked.
    #[inline]
    pub(super) fn departure(&mut self, seen: Instant, cost: f64) -> Instant {
        if self.part().is_none() {
            return Instant::MAX;
        }
        if self.booked.is_none() && cost > self.bucket.burst().get() {
            self.booked = Some(self.bucket.take(seen, cost));
        }
        self.booked
            .unwrap_or_else(|| self.bucket.departure(seen, cost))
    }

    /// Takes the tokens of a message that passes.
    #[inline]
    pub(super) fn take(&mut self, seen: Instant, cost: f64) {
        self.bucket.take(seen, cost);
    }

    /// When the message at the head has its tokens, if it was booked; it is not any more.
    #[inline]
    pub(super) fn take_booked(&mut self) -> Option<Instant> {
        self.booked.take()
    }

    /// A message that was booked for `booked` passed at `paid_at`, and left the bucket empty.
    pub(super) fn pay_late(&mut self, booked: Instant, paid_at: Instant) {
        if paid_at > booked {
            self.bucket.pause(booked, paid_at);
        }
    }

    /// Takes the tokens of a message if they are there.
    pub(super) fn try_take(&mut self, seen: Instant, cost: f64) -> bool {
        self.part().is_some() && self.bucket.try_take(seen, cost)
    }

    /// Takes the tokens of a whole command if they are there.
    pub(super) fn try_take_batch(&mut self, seen: Instant, cost: f64) -> Result<(), Refused> {
        self.bucket.try_take_batch(seen, cost)
    }

    /// Nothing may pass, as if nothing ever could.
    pub(super) fn begin_anew(&mut self) {
        (self.state, self.booked) = (State::Nothing, None);
    }

    /// Has another part in force; held tokens stay, up to its burst, and bookings stay as they are.
    pub(super) fn resize(&mut self, share: Share, now: Instant) {
        self.bucket.resize(now, share.rate, share.burst);
        self.state = State::Part(share);
    }

    /// Puts `share` into force as of `at`; says whether that is another than before.
    pub(super) fn apply(&mut self, share: Option<Share>, at: Instant) -> bool {
        if share == self.part() {
            return false;
        }
        let Some(share) = share else {
            self.state = State::Withdrawn(at);
            return true;
        };
        match self.state {
            State::Nothing => self.bucket = share.bucket(at),
            State::Withdrawn(since) => {
                self.bucket.pause(since, at);
                self.change(share, at);
            }
            State::Part(_) => self.change(share, at),
        }
        self.state = State::Part(share);
        true
    }

    fn change(&mut self, share: Share, at: Instant) {
        self.bucket.resize(at, share.rate, share.burst);
        // Its tokens are not there before the debt that it left is paid at the new rate.
        let paid_at = self.bucket.departure(at, 0.0);
        self.booked = self.booked.map(|booked| booked.max(paid_at));
    }
}
