//! Limits the log lines that peers can cause: few, however many connections they open.

use std::time::Duration;

use clock::Instant;

/// Two lines are at least so far apart.
const SPACING: Duration = Duration::from_secs(10);

/// When the last line was written, and how many were not.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    again_at: Instant,
    left_out: u64,
}

impl Complaints {
    /// Whether there is to be a line now; if so, how many were left out since the last.
    pub(super) fn may_log(&mut self, now: Instant) -> Option<u64> {
        if now < self.again_at {
            self.left_out += 1;
            return None;
        }
        self.again_at = now + SPACING;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_ten_seconds_says_how_many_were_left_out() {
        let mut complaints = Complaints::default();
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let lines: Vec<_> = (1..=25)
            .filter_map(|second| complaints.may_log(at(second)))
            .collect();
        assert_eq!(lines, [0, 9, 9]);
    }
}
