//! The scheduler: tasks, their credits, and who is served next.
//!
//! A task has events in a queue of its own, wherever that is: here is only their number. The writer whose events found none
//! makes the task schedulable; the thread that takes it serves it, says what that took, and puts it back while events are
//! left. So a task is with one thread at most, and in between with none or in the queue: each event is counted before
//! the thread looks whether to put the task back, hence none is forgotten (Tempo, figure 3).
//!
//! Threads belong to the caller, and so do clocks: every call that needs the time takes it.

use std::time::Duration;

use clock::Instant;

use crate::account::{Account, OnOverrun, TaskStats};
use crate::error::KernelError;
use crate::schedulable::{NodeIndex, SchedulableTasks};
use crate::share::{Share, Shares};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

const BUCKETS_MAX: usize = 10_000;
const CAPACITY_MAX: usize = 1 << 20;
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// A reader tries so often to find a task's counters between two changes.
const READS_MAX: usize = 100;

/// What a scheduler is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// T: the time that shares are fractions of. While all are conformant and stable no event waits longer.
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

/// A task that its holder serves at the moment. To be given back to [`Scheduler::finish`]; a task whose turn is lost is
/// never served again.
#[derive(Debug)]
#[must_use = "a turn that is not finished keeps its task from being served for ever"]
pub struct Turn {
    /// Whose turn.
    pub task: TaskId,
    /// The credits that it has: more time than this is an overrun.
    pub credits: Duration,
    /// When it began.
    pub began: Instant,
    epoch: u64,
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
struct Slot {
    generation: AtomicU32,
    /// Events that wait or are being served.
    events: AtomicUsize,
    /// Since when it has had work and not been served.
    since_ns: AtomicU64,
    /// Departures × time − arrivals × time, in event nanoseconds, wrapping: with the present events' part added it is the
    /// time that all events have spent here.
    area_ns: AtomicU64,
    full: AtomicU64,
    /// The node that it goes into a queue with; belongs to whoever may put it in.
    node: AtomicU32,
    account: Mutex<Account>,
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
            slots: (0..count).map(Slot::vacant).collect(),
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
    pub fn add(&self, share: Option<Share>) -> Result<TaskId, KernelError> {
        let mut registry = lock(&self.registry);
        if registry.free.is_empty() {
            return Err(KernelError::Full(self.slots.len()));
        }
        registry.shares.add(share)?;
        registry.tasks += 1;
        let index = registry.free.pop().expect("it is not empty");
        self.publish_undeclared(&registry);
        drop(registry);
        let slot = self.slot(index);
        let epoch = self.epoch.load(Ordering::Acquire);
        *lock(&slot.account) = Account::new(share, epoch, self.allotment_ns(share));
        slot.area_ns.store(0, Ordering::Relaxed);
        slot.full.store(0, Ordering::Relaxed);
        slot.events.store(0, Ordering::Release);
        Ok(TaskId {
            index,
            generation: slot.generation.load(Ordering::Acquire),
        })
    }

    /// Unmakes a task. It may be served once more, by a thread that has taken it already.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`].
    pub fn remove(&self, task: TaskId, now: Instant) -> Result<(), KernelError> {
        let mut registry = lock(&self.registry);
        let slot = self.find(task).ok_or(KernelError::NoSuchTask)?;
        let mut account = lock(&slot.account);
        account.is_leaving = true;
        registry.shares.remove(account.share);
        registry.tasks -= 1;
        self.publish_undeclared(&registry);
        slot.generation.fetch_add(1, Ordering::AcqRel);
        drop((account, registry));
        // Whoever takes it next frees its slot; where it is idle that takes an event.
        self.put_events(task.index, 1, now);
        Ok(())
    }

    /// Changes what a task declares; in force with its next credits.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`], [`KernelError::Oversubscribed`]: the former share holds on.
    pub fn set_share(&self, task: TaskId, share: Option<Share>) -> Result<(), KernelError> {
        let mut registry = lock(&self.registry);
        let slot = self.find(task).ok_or(KernelError::NoSuchTask)?;
        let mut account = lock(&slot.account);
        let mut shares = registry.shares;
        shares.remove(account.share);
        shares.add(share)?;
        account.share = share;
        registry.shares = shares;
        self.publish_undeclared(&registry);
        Ok(())
    }

    /// Notes that `events` were put into the task's queue. Says whether the task became schedulable by it, so that a
    /// sleeping thread is to be woken. Nothing happens where the task is gone.
    pub fn post(&self, task: TaskId, events: usize, now: Instant) -> bool {
        self.find(task).is_some() && self.put_events(task.index, events, now)
    }

    /// Notes that a writer found the task's queue full.
    pub fn note_full(&self, task: TaskId) {
        if let Some(slot) = self.find(task) {
            slot.full.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the task with the most credits; `None` where no task has work.
    pub fn take(&self, now: Instant) -> Option<Turn> {
        loop {
            let (index, node) = self.schedulable.take()?;
            let slot = self.slot(index);
            let mut account = lock(&slot.account);
            if account.is_leaving {
                drop(account);
                self.free(index, node);
                continue;
            }
            let epoch = self.epoch.load(Ordering::Acquire);
            if account.epoch != epoch {
                self.refresh(&mut account, epoch);
            }
            if account.credits_ns <= 0 {
                let credits_ns = account.credits_ns;
                drop(account);
                self.schedulable.put(index, node, credits_ns);
                self.begin_period(epoch);
                continue;
            }
            let since = Instant::from_nanos(slot.since_ns.load(Ordering::Relaxed));
            account.begin(since, now);
            let generation = slot.generation.load(Ordering::Acquire);
            return Some(Turn {
                task: TaskId { index, generation },
                credits: Duration::from_nanos(account.credits_ns.unsigned_abs()),
                began: now,
                epoch: account.epoch,
                node,
            });
        }
    }

    /// Ends a turn in which `events` were served, at most as many as there were: charges the time and puts the task back
    /// if it has more. Says whether it has.
    pub fn finish(&self, turn: Turn, events: usize, now: Instant) -> bool {
        let index = turn.task.index;
        let slot = self.slot(index);
        let mut account = lock(&slot.account);
        let used = now.saturating_since(turn.began);
        account.charge(used, events, self.schedulable.quantum_ns());
        let epoch = self.epoch.load(Ordering::Acquire);
        if turn.epoch != epoch {
            // The credits were given out anew meanwhile.
            account.stay_busy();
            self.refresh(&mut account, epoch);
        }
        let credits_ns = account.credits_ns;
        drop(account);
        slot.since_ns.store(now.as_nanos(), Ordering::Relaxed);
        slot.node.store(turn.node, Ordering::Relaxed);
        let area = (events as u64).wrapping_mul(now.as_nanos());
        slot.area_ns.fetch_add(area, Ordering::AcqRel);
        let before = slot.events.fetch_sub(events, Ordering::AcqRel);
        debug_assert!(before >= events, "{events} events served of {before}");
        let has_more = before > events;
        if has_more {
            self.schedulable.put(index, turn.node, credits_ns);
        }
        has_more
    }

    /// Whether no task waits to be served.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.schedulable.is_empty()
    }

    /// How a task has fared up to `now`; `None` where it is gone.
    #[must_use]
    pub fn stats_of(&self, task: TaskId, now: Instant) -> Option<TaskStats> {
        let slot = self.find(task)?;
        let stats = lock(&slot.account).stats();
        let (events, sojourn) = slot.sojourn(now);
        Some(TaskStats {
            queued_events: events,
            sojourn,
            full: slot.full.load(Ordering::Relaxed),
            ..stats
        })
    }

    /// Counts of all tasks together.
    #[must_use]
    pub fn stats(&self) -> SchedulerStats {
        SchedulerStats {
            periods: self.epoch.load(Ordering::Acquire),
            tasks: lock(&self.registry).tasks,
        }
    }

    fn put_events(&self, index: u32, events: usize, now: Instant) -> bool {
        if events == 0 {
            return false;
        }
        let slot = self.slot(index);
        let area = (events as u64).wrapping_mul(now.as_nanos());
        slot.area_ns.fetch_sub(area, Ordering::AcqRel);
        if slot.events.fetch_add(events, Ordering::AcqRel) > 0 {
            return false;
        }
        // It was with nobody: from here until it is put in, it is with this writer.
        slot.since_ns.store(now.as_nanos(), Ordering::Relaxed);
        let mut account = lock(&slot.account);
        account.fall_idle();
        let epoch = self.epoch.load(Ordering::Acquire);
        if account.epoch != epoch {
            self.refresh(&mut account, epoch);
        }
        let credits_ns = account.credits_ns;
        drop(account);
        let node = slot.node.load(Ordering::Relaxed);
        self.schedulable.put(index, node, credits_ns);
        true
    }

    /// Gives out credits anew where all tasks with work have none: the thread that counts the period up does it, others
    /// find it done.
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
            let mut account = lock(&self.slot(index).account);
            account.stay_busy();
            self.refresh(&mut account, epoch + 1);
            let credits_ns = account.credits_ns;
            drop(account);
            self.schedulable.put(index, node, credits_ns);
        }
    }

    fn refresh(&self, account: &mut Account, epoch: u64) {
        let allotment_ns = self.allotment_ns(account.share);
        account.refresh(epoch, allotment_ns, self.on_overrun);
    }

    fn allotment_ns(&self, share: Option<Share>) -> u64 {
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

    fn free(&self, index: u32, node: NodeIndex) {
        self.slot(index).node.store(node, Ordering::Release);
        lock(&self.registry).free.push(index);
    }

    fn find(&self, task: TaskId) -> Option<&Slot> {
        let slot = self.slots.get(task.index as usize)?;
        (slot.generation.load(Ordering::Acquire) == task.generation).then_some(slot)
    }

    fn slot(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}

impl Slot {
    fn vacant(index: u32) -> Slot {
        Slot {
            generation: AtomicU32::new(0),
            // Never zero while there is no task: a writer that comes too late puts nothing in.
            events: AtomicUsize::new(1),
            since_ns: AtomicU64::new(0),
            area_ns: AtomicU64::new(0),
            full: AtomicU64::new(0),
            node: AtomicU32::new(SchedulableTasks::first_node(index)),
            account: Mutex::new(Account::default()),
        }
    }

    /// Events present, and the time that all events have spent here up to `now`.
    fn sojourn(&self, now: Instant) -> (usize, Duration) {
        let read = || {
            let events = self.events.load(Ordering::Acquire);
            (events, self.area_ns.load(Ordering::Acquire))
        };
        let mut seen = read();
        for _ in 0..READS_MAX {
            // A writer changes one after the other; two readings alike were hardly taken in between.
            let again = read();
            if again == seen {
                break;
            }
            seen = again;
        }
        let (events, area_ns) = seen;
        let present = (events as u64).wrapping_mul(now.as_nanos());
        let area_ns = area_ns.wrapping_add(present).cast_signed().max(0);
        (events, Duration::from_nanos(area_ns.unsigned_abs()))
    }
}
