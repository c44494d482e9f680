//! Which task pays for the work done in a turn.
//!
//! A turn is charged to the task that has it; work for another topic that comes up in it is charged
//! to that topic's task.

use std::time::Duration;

use clock::Instant;
use kernel::TaskId;

/// The books of one turn.
#[derive(Clone, Copy, Debug)]
pub(in crate::reactor) struct Payer {
    /// Whose turn it is: what nobody else pays is charged to it when the turn ends.
    turn: TaskId,
    /// Whom the present work is for, and since when.
    task: TaskId,
    since: Instant,
    /// Time of this turn that others have been charged with.
    lent: Duration,
    /// There is a turn; between turns nobody pays.
    is_turn: bool,
}

impl Payer {
    /// No turn yet.
    pub(in crate::reactor) fn new(task: TaskId) -> Payer {
        Payer {
            turn: task,
            task,
            since: Instant::ZERO,
            lent: Duration::ZERO,
            is_turn: false,
        }
    }

    /// A turn of `task` begins.
    pub(in crate::reactor) fn begin(&mut self, task: TaskId, now: Instant) {
        *self = Payer {
            since: now,
            is_turn: true,
            ..Payer::new(task)
        };
    }

    /// The turn has ended, its task being the one that [pays](Payer::pay); gives the time that others were charged with.
    pub(in crate::reactor) fn end(&mut self) -> Duration {
        self.is_turn = false;
        self.lent
    }

    /// Whose turn it is, or was last.
    pub(in crate::reactor) fn turn(&self) -> TaskId {
        self.turn
    }

    /// The task that pays.
    pub(in crate::reactor) fn task(&self) -> TaskId {
        self.task
    }

    /// Lets `task` pay from `now` on. Gives whom else to charge, and with what.
    pub(in crate::reactor) fn pay(
        &mut self,
        task: TaskId,
        now: Instant,
    ) -> Option<(TaskId, Duration)> {
        let (payer, since) = (self.task, self.since);
        (self.task, self.since) = (task, now);
        if !self.is_turn || payer == self.turn {
            return None;
        }
        let used = now.saturating_since(since);
        self.lent += used;
        Some((payer, used))
    }
}
