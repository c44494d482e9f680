//! What a connection is ready for.

use crate::sys::Event;

/// Any number of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::reactor) struct Readiness(u8);

impl Readiness {
    /// It is in a queue, whatever for.
    pub(in crate::reactor) const QUEUED: Readiness = Readiness(1);
    /// There is something to read.
    pub(in crate::reactor) const READABLE: Readiness = Readiness(2);
    /// There is room to write.
    pub(in crate::reactor) const WRITABLE: Readiness = Readiness(4);
    /// The peer has sent its end.
    pub(in crate::reactor) const CLOSING: Readiness = Readiness(8);
    /// It failed, or something lies in its error queue.
    pub(in crate::reactor) const ERROR: Readiness = Readiness(16);
    /// Its earlier input may be executed now.
    pub(in crate::reactor) const RESUMED: Readiness = Readiness(32);
    /// Its gathered output is to be written.
    pub(in crate::reactor) const DUE: Readiness = Readiness(64);

    /// What epoll told.
    pub(in crate::reactor) fn of(event: &Event) -> Readiness {
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
    pub(in crate::reactor) fn has(self, other: Readiness) -> bool {
        self.0 & other.0 != 0
    }

    /// Adds reasons.
    pub(in crate::reactor) fn add(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}
