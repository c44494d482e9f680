//! Round trip times, and the timeouts that follow from them.

use std::time::Duration;

/// The least that a timeout is above the round trip (Linux; RFC 6298 would have a whole second in all).
const LEAST_MARGIN: Duration = Duration::from_millis(200);

/// The timeout before anything was measured.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest timeout.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A probe comes this much after two round trips.
const PROBE_MARGIN: Duration = Duration::from_millis(4);

/// What a flow knows of its round trips. Time stamps tell which transmission an acknowledgement answers, so repeated segments
/// count as well (Karn's problem does not arise).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Duration,
    deviation: Duration,
    shortest: Option<Duration>,
    /// Times that the timeout was doubled since the last measurement.
    backoff: u32,
}

impl RoundTrip {
    pub(super) fn measured(&mut self, time: Duration) {
        self.backoff = 0;
        match self.shortest {
            None => {
                self.smoothed = time;
                self.deviation = time / 2;
                self.shortest = Some(time);
            }
            Some(shortest) => {
                let off = time.abs_diff(self.smoothed);
                self.deviation = (self.deviation * 3 + off) / 4;
                self.smoothed = (self.smoothed * 7 + time) / 8;
                self.shortest = Some(shortest.min(time));
            }
        }
    }

    pub(super) fn timed_out(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// Whether nothing was measured since the last timeout.
    pub(super) fn is_backed_off(&self) -> bool {
        self.backoff > 0
    }

    /// The timeout, backed off.
    pub(super) fn timeout(&self) -> Duration {
        let timeout = match self.shortest {
            None => FIRST_TIMEOUT,
            Some(_) => self.smoothed + (self.deviation * 4).max(LEAST_MARGIN),
        };
        (timeout * (1 << self.backoff)).min(LONGEST_TIMEOUT)
    }

    /// How long to wait for an acknowledgement until the end of the window is probed. One segment alone may wait for
    /// the receiver's delayed acknowledgement.
    pub(super) fn probe_timeout(&self, segments: u32) -> Duration {
        let margin = if segments == 1 {
            LEAST_MARGIN
        } else {
            PROBE_MARGIN
        };
        self.smoothed * 2 + margin
    }

    pub(super) fn shortest(&self) -> Duration {
        self.shortest.unwrap_or_default()
    }

    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed
    }
}
