//! Real-time scheduling for the threads that serve: SCHED_FIFO, affinity, locked memory.
//!
//! Shares of a messaging kernel divide the time that its threads get; how much that is, and when, the thread scheduler of the
//! operating system decides. Tempo becomes a real-time system where the whole of it is a task of a real-time discipline
//! ("Toward scalable real-time messaging", introduction). On Linux that is: a fixed priority above all ordinary
//! threads, a CPU of its own for each thread that serves, and no page that must be fetched first.
//!
//! Each of these needs a privilege. [`Realtime::check`] finds out whether all are there before anything has begun, and names
//! the missing ones.
//!
//! Deliberately not here: which threads serve, and what they do; SCHED_DEADLINE, whose budget cuts a thread off in the
//! middle of a turn; interrupts, which a machine's operator keeps off the CPUs (docs/operating.md).

mod error;
mod priority;
mod privilege;
mod sys;
#[cfg(test)]
mod tests;

pub use error::RealtimeError;
pub use priority::Priority;
pub use privilege::Privilege;

/// How threads that serve are to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Realtime {
    priority: Priority,
    cpus: Vec<usize>,
}

impl Realtime {
    /// SCHED_FIFO at `priority`; the thread with number i on the i-th of `cpus`, anywhere where there are none.
    ///
    /// # Errors
    /// [`RealtimeError::CpuTwice`]: of two threads of one priority on one CPU the second waits until the first sleeps.
    /// [`RealtimeError::NoSuchCpu`] for a number that no system has. Whether this one has it, [`Realtime::check`] says.
    pub fn new(priority: Priority, cpus: Vec<usize>) -> Result<Realtime, RealtimeError> {
        for (index, &cpu) in cpus.iter().enumerate() {
            if cpu >= sys::CPUS_MAX {
                return Err(sys::no_such_cpu(cpu));
            }
            if cpus[..index].contains(&cpu) {
                return Err(RealtimeError::CpuTwice(cpu));
            }
        }
        Ok(Realtime { priority, cpus })
    }

    /// The priority.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// CPUs by number of the thread; empty: any.
    #[must_use]
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Finds out whether all of it is permitted. Scheduling is tried by a thread that ends at once, so that what control
    /// groups forbid is found too; locking memory cannot be tried without doing it and is judged by privileges.
    ///
    /// # Errors
    /// [`RealtimeError::NotPermitted`] with everything that is missing, [`RealtimeError::NoSuchCpu`],
    /// [`RealtimeError::System`]. Nothing has changed.
    pub fn check(&self) -> Result<(), RealtimeError> {
        let scheduling = self.try_scheduling()?;
        let missing: Vec<Privilege> = [scheduling, privilege::memory_lock()]
            .into_iter()
            .flatten()
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(RealtimeError::NotPermitted(missing))
        }
    }

    /// Schedules the calling thread, which has number `number`. Threads that it starts are ordinary ones.
    ///
    /// # Errors
    /// [`RealtimeError::CpuMissing`] for a number beyond the CPUs, and as [`Realtime::check`]. The thread is scheduled as
    /// before then.
    pub fn apply_to_this_thread(&self, number: usize) -> Result<(), RealtimeError> {
        let cpu = self.cpu_of(number)?;
        let former = cpu.map(sys::move_to_cpu).transpose()?;
        sys::set_fifo(self.priority).map_err(|error| {
            if let Some(former) = former {
                sys::restore_cpus(&former);
            }
            self.scheduling_refused(error)
        })
    }

    /// Keeps every page of the process in memory, those that it has and those to come: none is fetched while a message
    /// waits.
    ///
    /// # Errors
    /// [`RealtimeError::NotPermitted`], and [`RealtimeError::System`] where memory does not suffice.
    pub fn lock_memory(&self) -> Result<(), RealtimeError> {
        if let Some(missing) = privilege::memory_lock() {
            return Err(RealtimeError::NotPermitted(vec![missing]));
        }
        sys::lock_memory()
    }

    fn cpu_of(&self, number: usize) -> Result<Option<usize>, RealtimeError> {
        if self.cpus.is_empty() {
            return Ok(None);
        }
        let cpu = self.cpus.get(number).copied();
        cpu.map(Some).ok_or(RealtimeError::CpuMissing {
            number,
            cpus: self.cpus.len(),
        })
    }

    /// On a thread of its own, on each CPU in turn.
    fn try_scheduling(&self) -> Result<Option<Privilege>, RealtimeError> {
        let tried = std::thread::scope(|scope| {
            let attempt = || {
                for &cpu in &self.cpus {
                    sys::move_to_cpu(cpu)?;
                }
                sys::set_fifo(self.priority).map_err(|error| self.scheduling_refused(error))
            };
            let thread = std::thread::Builder::new().name(String::from("realtime-check"));
            let thread = thread.spawn_scoped(scope, attempt);
            let thread = thread.map_err(RealtimeError::system("starting a thread"))?;
            let panicked = |_| std::io::Error::other("the thread panicked");
            thread
                .join()
                .map_err(panicked)
                .map_err(RealtimeError::system("trying SCHED_FIFO"))?
        });
        match tried {
            Ok(()) => Ok(None),
            Err(RealtimeError::NotPermitted(mut missing)) => Ok(missing.pop()),
            Err(error) => Err(error),
        }
    }

    fn scheduling_refused(&self, error: std::io::Error) -> RealtimeError {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            RealtimeError::NotPermitted(vec![privilege::scheduling(self.priority)])
        } else {
            RealtimeError::system("setting SCHED_FIFO")(error)
        }
    }
}
