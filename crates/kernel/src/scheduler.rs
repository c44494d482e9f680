//! The scheduler: tasks, their credits, and who is served next.
//!
//! A task has events in a queue of its own, elsewhere; the scheduler has only their number. The
//! writer whose event finds none makes the task schedulable; the thread that takes it serves it,
//! reports how long that took, and puts it back while events are left. So a task is with one thread
//! at most, and in between with none or in the queue: each event is counted before the thread looks
//! whether to put the task back, hence none is forgotten (Tempo, figure 3).
//!
//! Posting, taking, finishing and reading statistics take no lock; making and unmaking tasks and
//! changing shares do. Threads belong to the caller, and so do clocks: every call that needs the
//! time takes it.

use std::time::Duration;

use clock::Instant;

use crate::account::{OnOverrun, TaskStats};
use crate::error::KernelError;
use crate::fifo::NodeIndex;
use crate::schedulable::SchedulableTasks;
use crate::share::{CpuShare, Shares};
use crate::slot::{Arrival, Departure, Slot};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const BUCKETS_MAX: usize = 10_000;
const CAPACITY_MAX: usize = 1 << 20;
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// What a scheduler is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// T: the time that shares are fractions of. What it says about the wait of an event: [`crate::theory::wait_bound`].
    pub period: Duration,
    /// Steps in which credits are told apart.
    pub buckets: usize,
    /// Tasks that fit.
    pub tasks_max: usize,
    /// What happens to a task that is not conformant.
    pub on_overrun: OnOverrun,
}

impl Default for SchedulerConfig {
    /// The paper's setting: 10 ms in 100 buckets; room for 1,024 tasks; overruns are held against a task.
    fn default() -> Self {
        SchedulerConfig {
            period: Duration::from_millis(10),
            buckets: 100,
            tasks_max: 1024,
            on_overrun: OnOverrun::default(),
        }
    }
}

/// Names a task of one scheduler. A name outlives its task and then finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    index: u32,
    generation: u32,
}

impl TaskId {
    /// A number below the scheduler's `tasks_max` that no other present task has.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// A task that its holder serves at the moment. To be given back to [`Scheduler::finish`]; a task whose turn is lost is
/// never served again, nor its place given to another.
#[derive(Debug)]
#[must_use = "a turn that is not finished keeps its task from being served for ever"]
pub struct Turn {
    /// Whose turn.
    pub task: TaskId,
    /// The credits that it has: more time than this is an overrun.
    pub credits: Duration,
    /// Events that were counted when it began, at least one.
    pub events: usize,
    /// When it began.
    pub began: Instant,
    node: NodeIndex,
}

/// Counts of all tasks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerStats {
    /// Times that credits were given out anew.
    pub periods: u64,
    /// Tasks that exist.
    pub tasks: usize,
}

/// Tasks and their schedule. All methods may be called from any thread.
#[derive(Debug)]
pub struct Scheduler {
    period_ns: u64,
    on_overrun: OnOverrun,
    slots: Box<[Slot]>,
    schedulable: SchedulableTasks,
    /// Periods begun; a task with another one has credits of the past.
    epoch: AtomicU64,
    /// Credits of a task without a declared share.
    undeclared_ns: AtomicU64,
    registry: Mutex<Registry>,
}

#[derive(Debug)]
struct Registry {
    free: Vec<u32>,
    shares: Shares,
    tasks: usize,
}

impl Scheduler {
    /// A scheduler without tasks.
    ///
    /// # Errors
    /// [`KernelError::Period`], [`KernelError::Buckets`], [`KernelError::Capacity`].
    pub fn new(config: SchedulerConfig) -> Result<Scheduler, KernelError> {
        if config.period.is_zero() || config.period > PERIOD_MAX {
            return Err(KernelError::Period(config.period));
        }
        if !(1..=BUCKETS_MAX).contains(&config.buckets) {
            return Err(KernelError::Buckets(config.buckets));
        }
        if !(1..=CAPACITY_MAX).contains(&config.tasks_max) {
            return Err(KernelError::Capacity(config.tasks_max));
        }
        let period_ns = config.period.as_nanos() as u64;
        let count = config.tasks_max as u32;
        Ok(Scheduler {
            period_ns,
            on_overrun: config.on_overrun,
            slots: (0..count)
                .map(|task| Slot::vacant(SchedulableTasks::first_node(task)))
                .collect(),
            schedulable: SchedulableTasks::new(config.tasks_max, period_ns, config.buckets),
            epoch: AtomicU64::new(0),
            undeclared_ns: AtomicU64::new(period_ns),
            registry: Mutex::new(Registry {
                free: (0..count).rev().collect(),
                shares: Shares::default(),
                tasks: 0,
            }),
        })
    }

    /// Makes a task. Without a `share` it gets an equal part of what the declared ones leave.
    ///
    /// # Errors
    /// [`KernelError::Oversubscribed`], [`KernelError::Full`].
    pub fn add(&self, share: Option<CpuShare>) -> Result<TaskId, KernelError> {
        let mut registry = lock(&self.registry);
        let Some(&index) = registry.free.last() else {
            return Err(KernelError::Full(self.slots.len()));
        };
        registry.shares.add(share)?;
        registry.free.pop();
        registry.tasks += 1;
        self.publish_undeclared(&registry);
        let slot = self.slot(index);
        let epoch = self.epoch.load(Ordering::Acquire);
        slot.account.open(share, epoch, self.allotment_ns(share));
        Ok(TaskId {
            index,
            generation: slot.open(),
        })
    }

    /// Unmakes a task; its share is free at once. It may be served once more, by a thread that has taken it already, and its
    /// place is free when nobody has it any more: while it waits to be served, that takes a thread that comes by.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`].
    pub fn remove(&self, task: TaskId) -> Result<(), KernelError> {
        self.remove_with(task, &|_| ())
    }

    /// Changes what a task declares; in force with its next credits.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`], [`KernelError::Oversubscribed`]: the former share holds on.
    pub fn set_share(&self, task: TaskId, share: Option<CpuShare>) -> Result<(), KernelError> {
        let mut registry = lock(&self.registry);
        let slot = self.find(task).ok_or(KernelError::NoSuchTask)?;
        let mut shares = registry.shares;
        shares.remove(slot.account.share());
        shares.add(share)?;
        slot.account.set_share(share);
        registry.shares = shares;
        self.publish_undeclared(&registry);
        Ok(())
    }

    /// Notes that `events` were put into the task's queue. Says whether the task became schedulable by it, so that a
    /// sleeping thread is to be woken. Nothing happens where the task is gone.
    pub fn post(&self, task: TaskId, events: usize, now: Instant) -> bool {
        let Some(slot) = self.slots.get(task.index as usize) else {
            return false;
        };
        if events == 0 || slot.arrive(task.generation, events, now) != Arrival::Idle {
            return false;
        }
        // It was with nobody: from here until it is put in, it is with this writer.
        slot.account.settle();
        let epoch = self.epoch.load(Ordering::Acquire);
        if slot.account.epoch() != epoch {
            self.refresh(slot, epoch);
        }
        slot.account.wait_from(now);
        self.put(task.index, slot.node());
        true
    }

    /// Charges a task with time that was spent for it in the turn of another, or in none. It is missing from its credits as of its
    /// next turn, and counts as `used` at once. Nothing happens where the task is gone.
    pub fn charge(&self, task: TaskId, used: Duration) {
        if let Some(slot) = self.find(task) {
            slot.account.owe(used);
        }
    }

    /// Whether a task has used up its credits of this period.
    #[must_use]
    pub fn is_exhausted(&self, task: TaskId) -> bool {
        let epoch = self.epoch.load(Ordering::Acquire);
        self.find(task)
            .is_some_and(|slot| slot.account.is_exhausted(epoch))
    }

    /// Notes that a writer found the task's queue full.
    pub fn note_full(&self, task: TaskId) {
        if let Some(slot) = self.find(task) {
            slot.note_full();
        }
    }

    /// Takes the task with the most credits; `None` where no task has work.
    pub fn take(&self, now: Instant) -> Option<Turn> {
        self.take_with(now, &|_| ())
    }

    /// Ends a turn in which `events` were served: charges the time and puts the task back if it has more. Says whether
    /// it has. More events than are counted are not taken off the count.
    pub fn finish(&self, turn: Turn, events: usize, now: Instant) -> bool {
        self.finish_with(turn, events, now, &|_| ())
    }

    /// Whether no task waits to be served.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.schedulable.is_empty()
    }

    /// How a task has fared up to `now`; `None` where it is gone. Keeps no thread waiting: each figure is right, but two may
    /// be a turn apart.
    #[must_use]
    pub fn stats_of(&self, task: TaskId, now: Instant) -> Option<TaskStats> {
        Some(self.find(task)?.stats(now))
    }

    /// Counts of all tasks together.
    #[must_use]
    pub fn stats(&self) -> SchedulerStats {
        SchedulerStats {
            periods: self.epoch.load(Ordering::Acquire),
            tasks: lock(&self.registry).tasks,
        }
    }

    /// [Removes](Scheduler::remove) a task; `farewell` is called with its place by whoever has it last.
    pub(crate) fn remove_with(
        &self,
        task: TaskId,
        farewell: &dyn Fn(usize),
    ) -> Result<(), KernelError> {
        let mut registry = lock(&self.registry);
        let slot = self.find(task).ok_or(KernelError::NoSuchTask)?;
        registry.shares.remove(slot.account.share());
        registry.tasks -= 1;
        self.publish_undeclared(&registry);
        let is_ours = slot.close();
        drop(registry);
        if is_ours {
            self.retire(task.index, slot.node(), farewell);
        }
        Ok(())
    }

    /// [Takes](Scheduler::take) a task; those that are met leaving are done away with.
    pub(crate) fn take_with(&self, now: Instant, farewell: &dyn Fn(usize)) -> Option<Turn> {
        loop {
            let (index, node) = self.schedulable.take()?;
            let slot = self.slot(index);
            let Some((generation, events)) = slot.occupant() else {
                self.retire(index, node, farewell);
                continue;
            };
            // What it was charged with since it was put in may have made it one of the last.
            let was_exhausted = slot.account.credits_ns() <= 0;
            slot.account.settle();
            let epoch = self.epoch.load(Ordering::Acquire);
            self.renew(slot, epoch);
            let credits_ns = slot.account.credits_ns();
            if credits_ns <= 0 {
                self.put(index, node);
                if was_exhausted {
                    self.begin_period(epoch);
                }
                continue;
            }
            slot.account.begin(now);
            return Some(Turn {
                task: TaskId { index, generation },
                credits: Duration::from_nanos(credits_ns.unsigned_abs()),
                events,
                began: now,
                node,
            });
        }
    }

    /// [Finishes](Scheduler::finish) a turn; a task that is leaving is done away with.
    pub(crate) fn finish_with(
        &self,
        turn: Turn,
        events: usize,
        now: Instant,
        farewell: &dyn Fn(usize),
    ) -> bool {
        let TaskId { index, generation } = turn.task;
        let slot = self.slot(index);
        let events = slot.present(generation, events);
        let used = now.saturating_since(turn.began);
        slot.account.settle();
        slot.account
            .charge(used, events, self.schedulable.quantum_ns());
        if slot.present(generation, usize::MAX) == events {
            slot.account.fall_idle();
        }
        // The credits may have been given out anew meanwhile.
        self.renew(slot, self.epoch.load(Ordering::Acquire));
        slot.account.wait_from(now);
        match slot.depart(generation, events, turn.node, now) {
            Departure::Empty => false,
            Departure::Busy => {
                self.put(index, turn.node);
                true
            }
            Departure::Leaving => {
                self.retire(index, turn.node, farewell);
                false
            }
        }
    }

    /// Gives out credits anew where all tasks with work have none: the thread that counts the period up does it, others
    /// find it done, or do it to the tasks that they meet first.
    fn begin_period(&self, epoch: u64) {
        let is_ours = self
            .epoch
            .compare_exchange(epoch, epoch + 1, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if !is_ours {
            return;
        }
        // Those put back without credits meanwhile are not met twice.
        for _ in 0..self.schedulable.exhausted() {
            let Some((index, node)) = self.schedulable.take_exhausted() else {
                return;
            };
            self.renew(self.slot(index), epoch + 1);
            self.put(index, node);
        }
    }

    /// Credits of the period `epoch` for a task that has had work since another one. For the owner.
    fn renew(&self, slot: &Slot, epoch: u64) {
        if slot.account.epoch() != epoch {
            slot.account.stay_busy();
            self.refresh(slot, epoch);
        }
    }

    fn refresh(&self, slot: &Slot, epoch: u64) {
        let allotment_ns = self.allotment_ns(slot.account.share());
        slot.account.refresh(epoch, allotment_ns, self.on_overrun);
    }

    /// Makes a task schedulable. For the owner, who is that no longer when this returns.
    fn put(&self, index: u32, node: NodeIndex) {
        let credits_ns = self.slot(index).account.credits_ns();
        self.schedulable.put(index, node, credits_ns);
    }

    fn allotment_ns(&self, share: Option<CpuShare>) -> u64 {
        match share {
            Some(share) => share.of_ns(self.period_ns),
            None => self.undeclared_ns.load(Ordering::Relaxed),
        }
    }

    /// A task that declares nothing gets at least one step of credits, also where others have declared the whole.
    fn publish_undeclared(&self, registry: &Registry) {
        let each_ns = registry.shares.left_for_each_ns(self.period_ns);
        self.undeclared_ns.store(
            each_ns.max(self.schedulable.quantum_ns()),
            Ordering::Relaxed,
        );
    }

    /// Leaves the place of a task that is leaving to the next one. For the owner.
    fn retire(&self, index: u32, node: NodeIndex, farewell: &dyn Fn(usize)) {
        farewell(index as usize);
        self.slot(index).keep_node(node);
        lock(&self.registry).free.push(index);
    }

    fn find(&self, task: TaskId) -> Option<&Slot> {
        let slot = self.slots.get(task.index as usize)?;
        slot.is_of(task.generation).then_some(slot)
    }

    fn slot(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl TaskId {
    /// The number of its place, below [`SchedulerConfig::tasks_max`]; others have it after it.
    pub(crate) fn place(self) -> usize {
        self.index as usize
    }
}
