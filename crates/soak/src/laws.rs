//! What must hold, whatever fails. Each law keeps its own books, from what is seen at the processes' edges.

pub mod delivery;
pub mod limits;
pub mod names;

use clock::Instant;

use delivery::Deliveries;
use limits::Limits;
use names::Names;

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in simulated time since the beginning.
    pub at: Instant,
    /// Which.
    pub law: &'static str,
    /// What happened.
    pub what: String,
}

/// The books of all laws; the first violation counts.
#[derive(Debug, Default)]
pub struct Books {
    /// The instant that it is.
    pub now: Instant,
    /// What is delivered, and how often.
    pub deliveries: Deliveries,
    /// What passes of topics with a limit.
    pub limits: Limits,
    /// Lives and epochs.
    pub names: Names,
    violation: Option<Violation>,
}

impl Books {
    /// A law is broken.
    pub fn breaks(&mut self, law: &'static str, what: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, law, what });
    }

    /// Takes note of what a look at a law came to.
    pub fn check(&mut self, law: &'static str, looked: Result<(), String>) {
        if let Err(what) = looked {
            self.breaks(law, what);
        }
    }

    /// The first law that was broken.
    #[must_use]
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }
}
