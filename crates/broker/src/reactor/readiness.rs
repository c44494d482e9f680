//! What a connection is to be served for.

use crate::sys::Event;

/// Any number of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Readiness(u8);

impl Readiness {
    /// It is in a queue, whatever for.
    pub(super) const QUEUED: Readiness = Readiness(1);
    /// There is something to read.
    pub(super) const READABLE: Readiness = Readiness(2);
    /// There is room to write.
    pub(super) const WRITABLE: Readiness = Readiness(4);
    /// The peer has sent its end.
    pub(super) const CLOSING: Readiness = Readiness(8);
    /// It failed, or something lies in its error queue.
    pub(super) const ERROR: Readiness = Readiness(16);
    /// What it has sent already may be executed now.
    pub(super) const RESUMED: Readiness = Readiness(32);
    /// What has gathered for it is to be written.
    pub(super) const DUE: Readiness = Readiness(64);

    /// What epoll told.
    pub(super) fn of(event: &Event) -> Readiness {
        let told = [
            (event.readable, Readiness::READABLE),
            (event.writable, Readiness::WRITABLE),
            (event.closing, Readiness::CLOSING),
            (event.error, Readiness::ERROR),
        ];
        let bits = told.iter().map(|&(is, bit)| u8::from(is) * bit.0).sum();
        Readiness(bits)
    }

    /// Whether that is among it.
    pub(super) fn has(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds reasons.
    pub(super) fn add(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}
