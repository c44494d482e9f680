//! Links: a rate, and what waits for it.

use std::time::Duration;

use clock::Instant;

use super::scenario::Bottleneck;

/// An access link: packets one after the other, without a bound on what waits, as the windows of its flows are one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    ns_per_byte: f64,
    free_at: Instant,
}

/// A link with a queue that drops what does not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowLink {
    link: Link,
    queue: Duration,
    since: Instant,
}

impl Link {
    pub(super) fn new(mbps: f64) -> Self {
        Link {
            ns_per_byte: 8e3 / mbps,
            free_at: Instant::ZERO,
        }
    }

    /// When a packet that is ready at `ready` has passed.
    pub(super) fn pass(&mut self, ready: Instant, bytes: u32) -> Instant {
        let begin = ready.max(self.free_at);
        self.free_at = begin + self.takes(f64::from(bytes));
        self.free_at
    }

    fn takes(&self, bytes: f64) -> Duration {
        Duration::from_nanos((self.ns_per_byte * bytes) as u64)
    }
}

impl SlowLink {
    pub(super) fn new(bottleneck: &Bottleneck) -> Self {
        let link = Link::new(bottleneck.mbps);
        SlowLink {
            link,
            queue: link.takes(bottleneck.queue_bytes),
            since: at_s(bottleneck.start_s),
        }
    }

    /// When a packet has passed; `None` if it is dropped.
    pub(super) fn pass(&mut self, now: Instant, bytes: u32) -> Option<Instant> {
        if now < self.since {
            return Some(now);
        }
        if self.link.free_at - now + self.link.takes(f64::from(bytes)) > self.queue {
            return None;
        }
        Some(self.link.pass(now, bytes))
    }
}

/// The instant `seconds` after the beginning.
pub(super) fn at_s(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}
