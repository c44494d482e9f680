//! What a limiter will have in force once it has heard all announcements, computed without making
//! it hear them.

use clock::Instant;
use limit::Share;

use super::{TopicLimiter, Way};
use crate::lease::Lease;
use crate::words::Said;

impl TopicLimiter {
    /// [`TopicLimiter::share`] once it has heard what was said.
    pub fn share_once_heard(&self, said: Said<'_>, now: Instant) -> Option<Share> {
        match self.lease_once_heard(said) {
            Some(lease) => lease.in_force(now),
            None => self.share(now),
        }
    }

    /// [`TopicLimiter::tokens_at`] once it has heard what was said.
    pub fn tokens_once_heard(&self, said: Said<'_>, now: Instant) -> f64 {
        self.bucket_by(self.lease_once_heard(said).as_ref(), now)
            .map_or(0.0, |bucket| bucket.tokens_at(now))
    }

    fn lease_once_heard(&self, said: Said<'_>) -> Option<Lease> {
        let Way::Leased(lease) = &self.way else {
            return None;
        };
        let mut lease = Lease::clone(lease);
        lease.hear(said.prolongations);
        Some(lease)
    }
}
