//! One site's limiter for one class, and the counts of its packets.

use clock::Instant;
use limit::sharing::{Limiter, Remote, SharingError, Update, Verdict};
use limit::{Burst, Rate};
use serde::Serialize;

use crate::config::OnFailure;

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Packets that were forwarded.
    pub forwarded_packets: u64,
    /// Their bytes, IP headers included.
    pub forwarded_bytes: u64,
    /// Packets that exceeded the limit.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

/// A site's stand towards one class.
#[derive(Debug)]
pub struct Standing {
    limiter: Option<Box<dyn Limiter>>,
    on_failure: OnFailure,
    contact: bool,
    update: Update,
    connected: u32,
    passed: Passed,
}

impl Standing {
    /// With `limiter`, or without one if all packets pass.
    pub(crate) fn new(limiter: Option<Box<dyn Limiter>>, on_failure: OnFailure) -> Standing {
        Standing {
            limiter,
            on_failure,
            contact: false,
            update: Update::default(),
            connected: 1,
            passed: Passed::default(),
        }
    }

    /// Decides about a packet of `bytes` at `now`.
    pub(crate) fn judge(&mut self, now: Instant, flow: u64, bytes: u16) -> Verdict {
        let verdict = match &mut self.limiter {
            None => Verdict::Forward,
            Some(limiter) if self.contact || self.on_failure == OnFailure::Keep => {
                limiter.handle(now, flow, bytes.into())
            }
            Some(limiter) if self.on_failure == OnFailure::Open => {
                limiter.observe(now, flow, bytes.into(), false);
                Verdict::Forward
            }
            Some(_) => Verdict::Drop,
        };
        self.passed.count(verdict, bytes);
        verdict
    }

    /// Ends an estimate interval; returns what to tell the others.
    pub(crate) fn estimate(&mut self, now: Instant, remote: Remote, alone: bool) -> Option<Update> {
        let limiter = self.limiter.as_mut()?;
        self.contact = alone || remote.connected > 1;
        self.connected = remote.connected;
        self.update = limiter.estimate(now, remote);
        Some(self.update)
    }

    /// Enforces another limit from now on.
    pub(crate) fn set_limit(
        &mut self,
        now: Instant,
        rate: Rate,
        burst: Burst,
    ) -> Result<(), SharingError> {
        match &mut self.limiter {
            Some(limiter) => limiter.set_limit(now, rate, burst),
            None => Ok(()),
        }
    }

    /// What became of its packets.
    pub const fn passed(&self) -> Passed {
        self.passed
    }

    /// What it may let through at present, bytes per second; `None` if all packets pass.
    pub fn local_limit(&self) -> Option<f64> {
        let limiter = self.limiter.as_ref()?;
        Some(limiter.part().rate.get())
    }

    /// What it told the others last.
    pub const fn update(&self) -> Update {
        self.update
    }

    /// Sites that it knows to be there, itself included.
    pub const fn connected(&self) -> u32 {
        self.connected
    }
}

impl Passed {
    pub(crate) fn count(&mut self, verdict: Verdict, bytes: u16) {
        let (packets, sum) = match verdict {
            Verdict::Forward => (&mut self.forwarded_packets, &mut self.forwarded_bytes),
            Verdict::Drop => (&mut self.dropped_packets, &mut self.dropped_bytes),
        };
        *packets += 1;
        *sum += u64::from(bytes);
    }
}
