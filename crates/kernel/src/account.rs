//! What one task has left, has used, and how it has behaved.
//!
//! An account belongs to whoever took its task out of SchedulableTasks, or made it schedulable; nobody else writes to
//! it meanwhile (Tempo, section on scalability for multi-core architectures).

use std::time::Duration;

use clock::Instant;

use crate::share::Share;

/// Overruns that are held against a task count at most so many times its credits of one period: a task that ran wild
/// once is served again after as many periods.
const DEFICIT_PERIODS_MAX: i64 = 16;

/// In so many periods on end a task must not have emptied its queue to count as unstable.
pub const UNSTABLE_PERIODS: u32 = 100;

/// What happens to a task that has used more credits than it had (is not conformant).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOverrun {
    /// It is counted; the next period begins with full credits.
    Report,
    /// It is counted, and what it overran by is missing from its credits of the next periods: over time every task gets
    /// its share, whatever the lengths of its turns.
    #[default]
    Penalise,
}

/// How a task has fared since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskStats {
    /// The share that it declared; none: an equal part of what others leave.
    pub share: Option<Share>,
    /// Credits of one period.
    pub allotment: Duration,
    /// Events that wait or are being served.
    pub queued_events: usize,
    /// Events that have been served.
    pub served_events: u64,
    /// Times that it was served.
    pub turns: u64,
    /// Time that it was served for.
    pub used: Duration,
    /// Turns that ended more than a bucket's width of credits below zero: it was not conformant.
    pub overruns: u64,
    /// The worst of them.
    pub overrun_max: Duration,
    /// Longest time that it had work and was not served.
    pub wait_max: Duration,
    /// Sum over all turns of the time that it had work and waited.
    pub waited: Duration,
    /// Sum over all events of the time from their arrival to the end of their service: divided by the time it was measured over
    /// it is the mean queue length.
    pub sojourn: Duration,
    /// It has not emptied its queue for [`UNSTABLE_PERIODS`] periods.
    pub is_unstable: bool,
    /// Times that it became so.
    pub unstable_spells: u64,
    /// Times that a writer found its queue full.
    pub full: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) share: Option<Share>,
    pub(crate) credits_ns: i64,
    pub(crate) epoch: u64,
    pub(crate) is_leaving: bool,
    allotment_ns: i64,
    busy_periods: u32,
    stats: TaskStats,
}

impl Account {
    pub(crate) fn new(share: Option<Share>, epoch: u64, allotment_ns: u64) -> Account {
        let mut account = Account {
            share,
            ..Account::default()
        };
        account.refresh(epoch, allotment_ns, OnOverrun::Report);
        account
    }

    /// Credits for the period `epoch`.
    pub(crate) fn refresh(&mut self, epoch: u64, allotment_ns: u64, on_overrun: OnOverrun) {
        // A task that is entitled to next to nothing still gets its turn in every period.
        let allotment_ns = i64::try_from(allotment_ns).unwrap_or(i64::MAX).max(1);
        let deficit_ns = match on_overrun {
            OnOverrun::Report => 0,
            OnOverrun::Penalise => self
                .credits_ns
                .min(0)
                .max(allotment_ns.saturating_mul(-DEFICIT_PERIODS_MAX)),
        };
        self.credits_ns = allotment_ns.saturating_add(deficit_ns);
        self.allotment_ns = allotment_ns;
        self.epoch = epoch;
    }

    /// Notes that a period ended in which it could not empty its queue.
    pub(crate) fn stay_busy(&mut self) {
        self.busy_periods = self.busy_periods.saturating_add(1);
        if self.busy_periods == UNSTABLE_PERIODS {
            self.stats.is_unstable = true;
            self.stats.unstable_spells += 1;
        }
    }

    /// Notes that its queue is empty.
    pub(crate) fn fall_idle(&mut self) {
        self.busy_periods = 0;
        self.stats.is_unstable = false;
    }

    pub(crate) fn begin(&mut self, since: Instant, now: Instant) {
        let waited = now.saturating_since(since);
        self.stats.waited += waited;
        self.stats.wait_max = self.stats.wait_max.max(waited);
    }

    /// Charges a turn that took `used` for `events` events.
    pub(crate) fn charge(&mut self, used: Duration, events: usize, quantum_ns: u64) {
        let used_ns = i64::try_from(used.as_nanos()).unwrap_or(i64::MAX);
        self.credits_ns = self.credits_ns.saturating_sub(used_ns);
        self.stats.used += used;
        self.stats.turns += 1;
        self.stats.served_events += events as u64;
        let overrun_ns = self.credits_ns.min(0).unsigned_abs();
        if overrun_ns > quantum_ns {
            self.stats.overruns += 1;
            let overrun = Duration::from_nanos(overrun_ns);
            self.stats.overrun_max = self.stats.overrun_max.max(overrun);
        }
    }

    /// Everything that is known here; the rest is for the caller to fill in.
    pub(crate) fn stats(&self) -> TaskStats {
        TaskStats {
            share: self.share,
            allotment: Duration::from_nanos(self.allotment_ns.max(0).unsigned_abs()),
            ..self.stats
        }
    }
}
