//! How long topics that this broker does not know wait for a controller that stays away.

use std::time::Duration;

use clock::Instant;

/// Whether the controller has said everything on the link that stands, and since when it is missed.
#[derive(Debug)]
pub(super) struct Absence {
    longest: Option<Duration>,
    /// Since when nothing was heard; `None`: it is there, or was given up.
    since: Option<Instant>,
    is_there: bool,
    is_given_up: bool,
}

impl Absence {
    /// It has not spoken yet. Topics flow after `longest` without it; `None`: they are held until it speaks.
    pub(super) fn new(longest: Option<Duration>, now: Instant) -> Absence {
        Absence {
            longest,
            since: Some(now),
            is_there: false,
            is_given_up: false,
        }
    }

    /// Whether it has said everything.
    pub(super) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether topics flow without its answer, which did not come in time.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// It has said everything.
    pub(super) fn begins(&mut self) {
        tracing::info!("the controller has told all contracts and topics");
        (self.is_there, self.is_given_up, self.since) = (true, false, None);
    }

    /// The link is gone.
    pub(super) fn ends(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_there) {
            self.since = Some(now);
        }
    }

    /// When it is to be given up.
    pub(super) fn next_at(&self) -> Option<Instant> {
        Some(self.since? + self.longest?)
    }

    /// Whether it is to be given up now; said once for each time that it is away.
    pub(super) fn is_late(&mut self, now: Instant) -> bool {
        let is_late = self.next_at().is_some_and(|at| at <= now);
        if is_late {
            self.since = None;
        }
        is_late
    }

    /// Topics flow without it, unless it is there by now.
    pub(super) fn gives_up(&mut self) -> bool {
        if self.is_there {
            return false;
        }
        self.is_given_up = true;
        let longest = self.longest.unwrap_or_default();
        tracing::warn!(
            "no word from the controller for {longest:?}: until it speaks, topics unknown to this broker flow without a limit (--without-controller)"
        );
        true
    }
}
