//! One task's remaining credits, its use, and its behaviour.
//!
//! An account belongs to whoever took its task out of SchedulableTasks, or made it schedulable;
//! nobody else writes to it meanwhile (Tempo, section on scalability for multi-core architectures).
//! So it needs no lock, and reading it for statistics keeps nobody waiting: each figure is right,
//! but two may be a turn apart.

use std::time::Duration;

use clock::Instant;

use crate::share::CpuShare;
use crate::sync::Tally;

/// Overruns that are held against a task count at most so many times its credits of one period: a task that ran wild
/// once is served again after as many periods.
const DEFICIT_PERIODS_MAX: i64 = 16;

/// A task counts as unstable if it has not emptied its queue for this many periods in a row.
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
    pub share: Option<CpuShare>,
    /// Credits of one period.
    pub allotment: Duration,
    /// Events that wait or are being served.
    pub queued_events: usize,
    /// Events that have been served.
    pub served_events: u64,
    /// Times that it was served.
    pub turns: u64,
    /// Time that it was served for, in its turns and outside them.
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
    /// Written under the registry's lock, not by the owner; 0: none is declared.
    share_ppm: Tally,
    /// Two's complement.
    credits_ns: Tally,
    /// Time spent for it outside its turns that its credits have not been charged with. Anybody adds to it.
    owed_ns: Tally,
    epoch: Tally,
    since_ns: Tally,
    allotment_ns: Tally,
    busy_periods: Tally,
    unstable_spells: Tally,
    served_events: Tally,
    turns: Tally,
    used_ns: Tally,
    overruns: Tally,
    overrun_max_ns: Tally,
    wait_max_ns: Tally,
    waited_ns: Tally,
}

impl Account {
    /// Begins anew, for a new task.
    pub(crate) fn open(&self, share: Option<CpuShare>, epoch: u64, allotment_ns: u64) {
        for tally in [
            &self.credits_ns,
            &self.owed_ns,
            &self.since_ns,
            &self.busy_periods,
            &self.unstable_spells,
            &self.served_events,
            &self.turns,
            &self.used_ns,
            &self.overruns,
            &self.overrun_max_ns,
            &self.wait_max_ns,
            &self.waited_ns,
        ] {
            tally.set(0);
        }
        self.set_share(share);
        self.epoch.set(epoch.wrapping_sub(1));
        self.refresh(epoch, allotment_ns, OnOverrun::Report);
    }

    pub(crate) fn share(&self) -> Option<CpuShare> {
        CpuShare::from_ppm(self.share_ppm.get() as u32)
    }

    pub(crate) fn set_share(&self, share: Option<CpuShare>) {
        self.share_ppm
            .set(share.map_or(0, |share| share.as_ppm().into()));
    }

    pub(crate) fn credits_ns(&self) -> i64 {
        self.credits_ns.get().cast_signed()
    }

    /// The period that its credits are of.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Notes time that was spent for the task outside its turns; whoever owns it next [settles](Account::settle) it. For anybody.
    pub(crate) fn owe(&self, used: Duration) {
        let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.owed_ns.add_shared(used_ns);
    }

    /// Takes what is owed from the credits, those of its present period.
    pub(crate) fn settle(&self) {
        let owed_ns = self.owed_ns.take_shared();
        if owed_ns > 0 {
            self.spend(owed_ns);
        }
    }

    /// Whether the credits of the period `epoch` are used up, with what is owed.
    pub(crate) fn is_exhausted(&self, epoch: u64) -> bool {
        let owed_ns = i64::try_from(self.owed_ns.get()).unwrap_or(i64::MAX);
        self.epoch() == epoch && self.credits_ns() <= owed_ns
    }

    /// Credits for the period `epoch`, a later one than that of its present credits. An overrun is worked off in all periods
    /// between them, also in those in which the task had nothing to do.
    pub(crate) fn refresh(&self, epoch: u64, allotment_ns: u64, on_overrun: OnOverrun) {
        // A task that is entitled to next to nothing still gets its turn in every period.
        let allotment_ns = i64::try_from(allotment_ns).unwrap_or(i64::MAX).max(1);
        let credits_ns = match on_overrun {
            OnOverrun::Report => allotment_ns,
            OnOverrun::Penalise => {
                let worst_ns = allotment_ns.saturating_mul(-DEFICIT_PERIODS_MAX);
                let deficit_ns = self.credits_ns().clamp(worst_ns, 0);
                let periods = epoch.wrapping_sub(self.epoch());
                let periods = i64::try_from(periods).unwrap_or(i64::MAX);
                let earned_ns = allotment_ns.saturating_mul(periods);
                deficit_ns.saturating_add(earned_ns).min(allotment_ns)
            }
        };
        self.credits_ns.set(credits_ns.cast_unsigned());
        self.allotment_ns.set(allotment_ns.unsigned_abs());
        self.epoch.set(epoch);
    }

    /// Notes that a period ended in which it could not empty its queue.
    pub(crate) fn stay_busy(&self) {
        let periods = self.busy_periods.get().saturating_add(1);
        self.busy_periods.set(periods);
        if periods == u64::from(UNSTABLE_PERIODS) {
            self.unstable_spells.add(1);
        }
    }

    /// Notes that its queue is empty.
    pub(crate) fn fall_idle(&self) {
        self.busy_periods.set(0);
    }

    /// Notes that it has work and is not served from `now` on.
    pub(crate) fn wait_from(&self, now: Instant) {
        self.since_ns.set(now.as_nanos());
    }

    /// Notes that its turn begins.
    pub(crate) fn begin(&self, now: Instant) {
        let waited_ns = now.as_nanos().saturating_sub(self.since_ns.get());
        self.waited_ns.add(waited_ns);
        self.wait_max_ns.raise(waited_ns);
    }

    /// Charges a turn that took `used` for `events` events.
    pub(crate) fn charge(&self, used: Duration, events: usize, quantum_ns: u64) {
        let used_ns = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.spend(used_ns);
        self.turns.add(1);
        self.served_events.add(events as u64);
        let overrun_ns = self.credits_ns().min(0).unsigned_abs();
        if overrun_ns > quantum_ns {
            self.overruns.add(1);
            self.overrun_max_ns.raise(overrun_ns);
        }
    }

    fn spend(&self, used_ns: u64) {
        let credits_ns = self
            .credits_ns()
            .saturating_sub(i64::try_from(used_ns).unwrap_or(i64::MAX));
        self.credits_ns.set(credits_ns.cast_unsigned());
        self.used_ns.add(used_ns);
    }

    /// Everything that is known here; the rest is for the caller to fill in.
    pub(crate) fn stats(&self) -> TaskStats {
        TaskStats {
            share: self.share(),
            allotment: Duration::from_nanos(self.allotment_ns.get()),
            served_events: self.served_events.get(),
            turns: self.turns.get(),
            used: Duration::from_nanos(self.used_ns.get() + self.owed_ns.get()),
            overruns: self.overruns.get(),
            overrun_max: Duration::from_nanos(self.overrun_max_ns.get()),
            wait_max: Duration::from_nanos(self.wait_max_ns.get()),
            waited: Duration::from_nanos(self.waited_ns.get()),
            is_unstable: self.busy_periods.get() >= u64::from(UNSTABLE_PERIODS),
            unstable_spells: self.unstable_spells.get(),
            ..TaskStats::default()
        }
    }
}
