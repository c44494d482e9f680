//! How long an event waits at worst, whatever other tasks do.
//!
//! The paper says that no event waits longer than a period T while all tasks are conformant (no
//! overruns) and stable (no lasting backlog). That is not enough, for two reasons. A stable task
//! may have a burst; its last event waits for its first ones, a period for every allotment of work
//! ahead of it. And credits are given out anew only when *all* tasks with work have used theirs: a
//! task that has used its own early waits until others have used theirs, and then, in the new
//! period, for those with more credits than it has.
//!
//! The bound computed here holds for one thread that always runs, with overruns held against a task
//! ([`crate::OnOverrun::Penalise`]). Let A_j be the credits of task j in a period, C_j its longest
//! event, q the width of a bucket, and w the work of its own that is ahead of an event of task i.
//! At worst the credits of i are spent, and its last event ran over by C_i. Then its event begins
//! in the k-th period from the next, k = ⌊(w + C_i)/A_i⌋ + 1, when c = k·A_i − w − C_i credits are
//! left to i. Until then another task j has been served for at most
//!
//! ```text
//! k·A_j  +  min(A_j, max(0, A_j − c + q))  +  C_j
//! ```
//!
//! once for the rest of the present period and each full one, then as long as it has more credits
//! than i, then one event that ran over; earlier overruns of others are missing from their credits.
//! The sum of that over all j, and w, is the bound. Without work ahead and with short events it is
//! (T − A_i) + Σ max(0, A_j − A_i), less than 2·T·(1 − S_i).

use std::time::Duration;

use crate::share::{CpuShare, Shares};

/// What a task may take: of the server's time in a period, and at one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// A: its credits of one period.
    pub allotment: Duration,
    /// C: the longest that one of its turns takes.
    pub turn_max: Duration,
}

/// Credits of tasks with these shares in a period, as [`crate::Scheduler`] gives them out with `buckets` buckets: what others
/// leave for those without a share, at least the width of a bucket. `turns_max` are their longest turns.
#[must_use]
pub fn claims(
    period: Duration,
    buckets: usize,
    shares: &[Option<CpuShare>],
    turns_max: &[Duration],
) -> Vec<Claim> {
    let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let quantum_ns = period_ns.div_ceil(buckets.max(1) as u64);
    let mut sum = Shares::default();
    for &share in shares {
        // Shares that exceed the whole are refused by a scheduler; here they only leave nothing.
        let _ = sum.add(share);
    }
    let undeclared_ns = sum.left_for_each_ns(period_ns).max(quantum_ns);
    let allotment_ns = |share: Option<CpuShare>| match share {
        Some(share) => share.of_ns(period_ns),
        None => undeclared_ns,
    };
    shares
        .iter()
        .zip(turns_max)
        .map(|(&share, &turn_max)| Claim {
            allotment: Duration::from_nanos(allotment_ns(share).max(1)),
            turn_max,
        })
        .collect()
}

/// The longest that an event of `tasks[task]` waits for its service to begin, with `work_ahead` of the same task before it,
/// whatever the other tasks do. `quantum` is the width of a bucket: the period by the number of buckets.
///
/// For one thread that always runs. A task without credits (an allotment of zero) waits for ever: `Duration::MAX`.
///
/// # Panics
/// Where there is no task of this number.
#[must_use]
pub fn wait_bound(
    tasks: &[Claim],
    task: usize,
    quantum: Duration,
    work_ahead: Duration,
) -> Duration {
    let own = tasks[task];
    let spent = work_ahead.saturating_add(own.turn_max);
    if own.allotment.is_zero() {
        return Duration::MAX;
    }
    let periods = spent.as_nanos() / own.allotment.as_nanos() + 1;
    let periods = u32::try_from(periods).unwrap_or(u32::MAX);
    let left = own.allotment.saturating_mul(periods).saturating_sub(spent);
    let others = tasks.iter().enumerate().filter(|&(other, _)| other != task);
    others.fold(work_ahead, |wait, (_, other)| {
        let before = (other.allotment + quantum).saturating_sub(left);
        wait.saturating_add(other.allotment.saturating_mul(periods))
            .saturating_add(before.min(other.allotment))
            .saturating_add(other.turn_max)
    })
}
