//! The kernel with handlers: threads lend themselves, tasks are served, and whoever finds no work
//! rests.
//!
//! A task's handler is with the thread that has the task, so handlers need no locks of their own.
//! No thread is started here and no clock is read but the one that the lending thread gives.
//!
//! A handler that panics harms nobody else: its task is removed, and [`KernelStats`] says how often
//! that happened, to which task last, and with what words.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use clock::Instant;

use crate::account::TaskStats;
use crate::bell::Rest;
use crate::error::KernelError;
use crate::scheduler::{Scheduler, SchedulerConfig, TaskId, Turn};
use crate::share::CpuShare;
use crate::spin::Spin;
use crate::sync::{AtomicBool, Mutex, Ordering, fence, lock};

/// A busy thread looks at the place of rest this often.
const GLANCE_INTERVAL: Duration = Duration::from_micros(50);

/// What a task does.
pub trait Serve: Send {
    /// Serves events of its task, in their order; returns how many: at least 1 unless nothing was there. Turns are not
    /// interrupted, so one that takes longer than `turn.credits` is an overrun; one event per turn is what the paper does.
    fn serve(&mut self, turn: &Turn) -> usize;
}

type Handler = Option<Box<dyn Serve>>;

/// A [`Scheduler`] whose tasks have handlers. All methods may be called from any thread, also from handlers.
pub struct Kernel {
    scheduler: Scheduler,
    /// By the place of the task.
    handlers: Box<[Mutex<Handler>]>,
    rest: Arc<dyn Rest>,
    cores: usize,
    is_stopping: AtomicBool,
    panics: Mutex<Panics>,
}

/// Counts of all tasks together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStats {
    /// Times that credits were given out anew.
    pub periods: u64,
    /// Tasks that exist.
    pub tasks: usize,
    /// Handlers that panicked; each lost its task.
    pub panics: u64,
    /// The last of them.
    pub last_panic: Option<Panic>,
}

/// A handler's panic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The task that it had; it is gone.
    pub task: TaskId,
    /// What it said.
    pub message: String,
}

#[derive(Debug, Default)]
struct Panics {
    count: u64,
    last: Option<Panic>,
}

impl Kernel {
    /// A kernel without tasks, whose threads rest at `rest`. They never spin, as on one core: see
    /// [`with_cores`](Kernel::with_cores).
    ///
    /// # Errors
    /// Those of [`Scheduler::new`].
    pub fn new(config: SchedulerConfig, rest: Arc<dyn Rest>) -> Result<Kernel, KernelError> {
        Ok(Kernel {
            scheduler: Scheduler::new(config)?,
            handlers: (0..config.tasks_max).map(|_| Mutex::new(None)).collect(),
            rest,
            cores: 1,
            is_stopping: AtomicBool::new(false),
            panics: Mutex::new(Panics::default()),
        })
    }

    /// Says how many threads run at a time on this machine. With more than one, threads without work look for some a number of
    /// times before they rest, the more often the more often that helped of late.
    #[must_use]
    pub fn with_cores(mut self, cores: usize) -> Kernel {
        self.cores = cores;
        self
    }

    /// Makes a task that `handler` serves. Without a `share` it gets an equal part of what the declared ones leave.
    ///
    /// # Errors
    /// [`KernelError::Oversubscribed`], [`KernelError::Full`]; the handler is dropped.
    pub fn add(
        &self,
        share: Option<CpuShare>,
        handler: Box<dyn Serve>,
    ) -> Result<TaskId, KernelError> {
        let task = self.scheduler.add(share)?;
        *lock(&self.handlers[task.place()]) = Some(handler);
        Ok(task)
    }

    /// Changes what a task declares; in force with its next credits.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`], [`KernelError::Oversubscribed`]: the former share holds on.
    pub fn set_share(&self, task: TaskId, share: Option<CpuShare>) -> Result<(), KernelError> {
        self.scheduler.set_share(task, share)
    }

    /// Unmakes a task. After this returns its handler may run at most once more, where a thread has it already. The handler is
    /// dropped as soon as nobody has the task: at once where it is idle, after its turn where it is being served, and when it
    /// is met where it waits for its turn.
    ///
    /// # Errors
    /// [`KernelError::NoSuchTask`].
    pub fn remove(&self, task: TaskId) -> Result<(), KernelError> {
        self.scheduler
            .remove_with(task, &|place| self.drop_handler(place))
    }

    /// Notes that `events` were put into the task's queue, before this call, and wakes a thread if the task had none before. Says
    /// whether it had none. Nothing happens where the task is gone.
    pub fn post(&self, task: TaskId, events: usize, now: Instant) -> bool {
        let is_new = self.scheduler.post(task, events, now);
        if is_new {
            // Pairs with that of `is_idle`: either the sleeper sees the task, or the waker the sleeper.
            fence(Ordering::SeqCst);
            self.rest.wake();
        }
        is_new
    }

    /// Notes that a writer found the task's queue full.
    pub fn note_full(&self, task: TaskId) {
        self.scheduler.note_full(task);
    }

    /// How a task has fared up to `now`; `None` where it is gone.
    #[must_use]
    pub fn stats_of(&self, task: TaskId, now: Instant) -> Option<TaskStats> {
        self.scheduler.stats_of(task, now)
    }

    /// Counts of all tasks together.
    #[must_use]
    pub fn stats(&self) -> KernelStats {
        let stats = self.scheduler.stats();
        let panics = lock(&self.panics);
        KernelStats {
            periods: stats.periods,
            tasks: stats.tasks,
            panics: panics.count,
            last_panic: panics.last.clone(),
        }
    }

    /// Who is served next. Tasks are to be made and unmade through the kernel.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Lends the calling thread until [`stop`](Kernel::stop). Any number of threads may, as a rule one per core.
    pub fn work(&self, clock: &dyn Fn() -> Instant) {
        let mut spin = Spin::new(self.cores);
        let mut now = clock();
        let mut glanced = now;
        while !self.is_stopping() {
            let turn = self
                .scheduler
                .take_with(now, &|place| self.drop_handler(place));
            if let Some(turn) = turn {
                // The end of a turn is the beginning of the next.
                now = self.serve(turn, clock);
                if now.saturating_since(glanced) < GLANCE_INTERVAL {
                    continue;
                }
                self.rest.glance();
            } else {
                self.wait(&mut spin);
            }
            now = clock();
            glanced = now;
        }
    }

    /// Ends the work of all threads for good, each after the turn that it is in. Events that wait stay where they are.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        self.rest.wake_all();
    }

    /// Serves a task for one turn; returns when that ended.
    fn serve(&self, turn: Turn, clock: &dyn Fn() -> Instant) -> Instant {
        let task = turn.task;
        let served = {
            // Free: the task is with this thread.
            let mut handler = lock(&self.handlers[task.place()]);
            match handler.as_mut() {
                Some(handler) => catch_unwind(AssertUnwindSafe(|| handler.serve(&turn))),
                None => Ok(0),
            }
        };
        let now = clock();
        let served = served.unwrap_or_else(|panic| {
            self.note_panic(task, panic);
            // Another thread may have removed it meanwhile.
            let _gone = self.remove(task);
            0
        });
        // A handler that found nothing has served before what was counted only then: the turn settles it.
        self.scheduler
            .finish_with(turn, served.max(1), now, &|place| self.drop_handler(place));
        now
    }

    /// Looks for work a number of times, then rests until there is some.
    fn wait(&self, spin: &mut Spin) {
        let looks = spin.looks();
        let found = (0..looks).position(|_| {
            std::hint::spin_loop();
            !self.is_idle()
        });
        match found {
            Some(look) => spin.note(look as u32 + 1, true),
            None => {
                spin.note(looks, false);
                self.rest.rest(&|| self.is_idle());
            }
        }
    }

    /// Whether there is nothing to do for a thread.
    fn is_idle(&self) -> bool {
        fence(Ordering::SeqCst);
        self.scheduler.is_idle() && !self.is_stopping()
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn drop_handler(&self, place: usize) {
        let handler = lock(&self.handlers[place]).take();
        // Not under the lock: what it does at its end may want another task's.
        if catch_unwind(AssertUnwindSafe(|| drop(handler))).is_err() {
            lock(&self.panics).count += 1;
        }
    }

    fn note_panic(&self, task: TaskId, panic: Box<dyn Any + Send>) {
        let message = if let Some(text) = panic.downcast_ref::<&str>() {
            (*text).to_owned()
        } else if let Some(text) = panic.downcast_ref::<String>() {
            text.clone()
        } else {
            "without words".to_owned()
        };
        let mut panics = lock(&self.panics);
        panics.count += 1;
        panics.last = Some(Panic { task, message });
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
