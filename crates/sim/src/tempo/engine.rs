//! The running kernel: events arrive, threads take turns, processors come and go.
//!
//! An agenda holds future events, one entry per task and thread. Everything due at an instant
//! happens before threads without work look for some, in the order of their numbers. The scheduler
//! is the real one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use clock::{Instant, Streams};
use kernel::theory::Demand;
use kernel::{Scheduler, SchedulerConfig, TaskId, TaskStats, Turn};
use workload::SpecError;

use super::arrivals::EventSource;
use super::measured::{Measured, Served, TaskMeasured};
use super::spec::{LosesProcessor, ServedBy, Spec};
use super::task::{Fate, Task};
use super::thread::{Serving, Thread};

/// Simulates a spec.
///
/// # Errors
/// [`SpecError::Value`], as [`Spec::check`].
pub fn simulate(spec: &Spec) -> Result<Measured, SpecError> {
    simulate_with(spec, |_| {})
}

/// As [`simulate`]; `observe` is told of every event that was served, in the order of their ends.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with(spec: &Spec, observe: impl FnMut(&Served)) -> Result<Measured, SpecError> {
    spec.check()?;
    let mut engine = Engine::new(spec, observe);
    engine.run_until(nanos(spec.warmup));
    engine.begin_window();
    engine.run_until(nanos(spec.length()));
    Ok(engine.measured())
}

struct Engine<'a, F> {
    spec: &'a Spec,
    tasks: Vec<Task<'a>>,
    threads: Vec<Thread>,
    line: Line,
    agenda: BinaryHeap<Reverse<(u64, Entry)>>,
    /// Threads that have a processor and no turn, a bit each.
    free: u64,
    now_ns: u64,
    is_measured: bool,
    demand: Demand,
    ran_before_ns: u64,
    steps: u64,
    hash: u64,
    observe: F,
}

/// What is to happen; at the same instant in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Entry {
    /// An event of a task arrives.
    Arrival(usize),
    /// The turn of a thread ends, unless it lost its processor meanwhile.
    TurnEnd(usize),
    /// A thread gains its processor, or loses it.
    Processor(usize),
}

/// Who is served next.
enum Line {
    Credits {
        scheduler: Box<Scheduler>,
        ids: Vec<TaskId>,
        /// Tasks by the scheduler's number.
        task_of: Vec<usize>,
    },
    /// Tasks of events in the order of arrival.
    Arrival(VecDeque<usize>),
}

impl<'a, F: FnMut(&Served)> Engine<'a, F> {
    fn new(spec: &'a Spec, observe: F) -> Self {
        let streams = Streams::new(spec.seed);
        let kernel = &spec.kernel;
        let task = |(number, task): (usize, &'a super::TaskSpec)| {
            let streams = streams.family(&format!("task {number}"));
            let source = EventSource::new(&task.arrivals, &task.service, streams);
            Task::new(task, source, kernel.period)
        };
        let thread = |number| {
            let random = streams.stream(&format!("thread {number}"));
            Thread::new(kernel.availability, kernel.slice, random)
        };
        let mut engine = Engine {
            tasks: spec.tasks.iter().enumerate().map(task).collect(),
            threads: (0..kernel.threads).map(thread).collect(),
            line: Line::new(spec),
            agenda: BinaryHeap::new(),
            free: 0,
            now_ns: 0,
            is_measured: false,
            demand: Demand::new(kernel.period),
            ran_before_ns: 0,
            steps: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            observe,
            spec,
        };
        for task in 0..engine.tasks.len() {
            engine.await_arrival(task);
        }
        for thread in 0..engine.threads.len() {
            if engine.threads[thread].has_processor() {
                engine.free |= 1 << thread;
            }
            if kernel.availability < 1.0 {
                engine.await_processor(thread);
            }
        }
        engine
    }

    fn run_until(&mut self, until_ns: u64) {
        while let Some(&Reverse((at_ns, _))) = self.agenda.peek()
            && at_ns < until_ns
        {
            self.now_ns = at_ns;
            while let Some(&Reverse((next_ns, entry))) = self.agenda.peek()
                && next_ns == at_ns
            {
                self.agenda.pop();
                match entry {
                    Entry::Arrival(task) => self.arrive(task),
                    Entry::TurnEnd(thread) => self.end_turn(thread),
                    Entry::Processor(thread) => self.change_processor(thread),
                }
            }
            self.begin_turns();
        }
        self.now_ns = until_ns;
    }

    fn arrive(&mut self, task: usize) {
        match self.tasks[task].offer(self.now_ns) {
            Fate::Queued => self.post(task),
            Fate::Dropped => self.line.note_full(task),
            Fate::Blocked => {
                self.line.note_full(task);
                return;
            }
        }
        self.await_arrival(task);
    }

    /// An event was put into the queue of `task`.
    fn post(&mut self, task: usize) {
        self.steps += 1;
        let now = Instant::from_nanos(self.now_ns);
        self.demand.add(now, self.tasks[task].newest_work());
        self.line.post(task, now);
    }

    fn begin_turns(&mut self) {
        while self.free != 0 {
            let now = Instant::from_nanos(self.now_ns);
            let Some((task, turn)) = self.line.take(now) else {
                return;
            };
            let thread = self.free.trailing_zeros() as usize;
            self.free &= self.free - 1;
            let event = self.tasks[task].pop();
            let ends_ns = self.now_ns + event.service_ns;
            self.threads[thread].serving = Some(Serving {
                turn,
                task,
                event,
                began_ns: self.now_ns,
                ends_ns,
            });
            self.agenda.push(Reverse((ends_ns, Entry::TurnEnd(thread))));
        }
    }

    fn end_turn(&mut self, thread: usize) {
        let now_ns = self.now_ns;
        let its = &mut self.threads[thread];
        let is_due = |serving: &mut Serving| serving.ends_ns == now_ns;
        if !its.has_processor() {
            return;
        }
        let Some(serving) = its.serving.take_if(is_due) else {
            return;
        };
        let (is_leaving, task) = (its.is_leaving(), serving.task);
        self.steps += 1;
        self.tasks[task].finish(&serving.event, serving.began_ns, now_ns, self.is_measured);
        self.tell(&serving);
        if let (Some(turn), Line::Credits { scheduler, .. }) = (serving.turn, &self.line) {
            scheduler.finish(turn, 1, Instant::from_nanos(now_ns));
        }
        if self.tasks[task].unblock(now_ns) {
            self.post(task);
            self.await_arrival(task);
        }
        if is_leaving {
            self.threads[thread].lose_processor(now_ns);
            self.await_processor(thread);
        } else {
            self.free |= 1 << thread;
        }
    }

    fn change_processor(&mut self, thread: usize) {
        let its = &mut self.threads[thread];
        let is_serving = its.serving.is_some();
        if !its.has_processor() {
            its.gain_processor(self.now_ns);
            match &its.serving {
                Some(serving) => {
                    let end = (serving.ends_ns, Entry::TurnEnd(thread));
                    self.agenda.push(Reverse(end));
                }
                None => self.free |= 1 << thread,
            }
        } else if is_serving && self.spec.kernel.loses_processor == LosesProcessor::BetweenTurns {
            its.leave_after_turn();
            return;
        } else {
            its.lose_processor(self.now_ns);
            self.free &= !(1 << thread);
        }
        self.await_processor(thread);
    }

    fn await_arrival(&mut self, task: usize) {
        if let Some(at_ns) = self.tasks[task].next_arrival_ns() {
            let at_ns = at_ns.max(self.now_ns);
            self.agenda.push(Reverse((at_ns, Entry::Arrival(task))));
        }
    }

    fn await_processor(&mut self, thread: usize) {
        let at_ns = self.now_ns + self.threads[thread].until_change_ns();
        self.agenda.push(Reverse((at_ns, Entry::Processor(thread))));
    }

    fn tell(&mut self, serving: &Serving) {
        for word in [
            serving.task as u64,
            serving.event.arrived_ns,
            serving.began_ns,
            self.now_ns,
        ] {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            self.hash ^= self.hash >> 29;
        }
        (self.observe)(&Served {
            task: serving.task,
            arrived: Instant::from_nanos(serving.event.arrived_ns),
            began: Instant::from_nanos(serving.began_ns),
            ended: Instant::from_nanos(self.now_ns),
            work_ahead: Duration::from_nanos(serving.event.ahead_ns),
        });
    }

    fn ran_ns(&self) -> u64 {
        let ran = self.threads.iter().map(|thread| thread.ran_ns(self.now_ns));
        ran.sum()
    }

    fn begin_window(&mut self) {
        self.is_measured = true;
        self.ran_before_ns = self.ran_ns();
        self.demand = Demand::new(self.spec.kernel.period);
        for task in &mut self.tasks {
            task.begin_window(self.now_ns, self.spec.kernel.period);
        }
    }

    fn measured(mut self) -> Measured {
        let scheduling_ns = self.ran_ns() - self.ran_before_ns;
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for (number, task) in self.tasks.iter_mut().enumerate() {
            task.pass(self.now_ns);
            let stats = self.line.stats(number, Instant::from_nanos(self.now_ns));
            tasks.push(of_task(self.spec, task, &stats, self.now_ns, scheduling_ns));
        }
        Measured {
            tasks,
            measured_s: self.spec.duration.as_secs_f64(),
            scheduling_s: scheduling_ns as f64 / 1e9,
            demand_periods_max: self.demand.largest().as_secs_f64()
                / self.spec.kernel.period.as_secs_f64(),
            periods: self.line.periods(),
            steps: self.steps,
            hash: self.hash,
        }
    }
}

fn of_task(
    spec: &Spec,
    task: &Task<'_>,
    stats: &TaskStats,
    now_ns: u64,
    scheduling_ns: u64,
) -> TaskMeasured {
    let (counts, window) = (&task.counts, &task.measured);
    let queued = task.present() as u64;
    assert_eq!(
        counts.arrived,
        counts.served + counts.dropped + queued,
        "events of {:?}",
        task.spec.name
    );
    let measured_s = spec.duration.as_secs_f64();
    let period_s = spec.kernel.period.as_secs_f64();
    TaskMeasured {
        name: task.spec.name.clone(),
        share: task.spec.share.map(kernel::CpuShare::as_f64),
        arrived: counts.arrived,
        served: counts.served,
        dropped: counts.dropped,
        queued,
        full: counts.full,
        blocked_s: task.blocked_ns(now_ns) as f64 / 1e9,
        arrival_rate: (counts.arrived - window.counts_before.arrived) as f64 / measured_s,
        throughput: (counts.served - window.counts_before.served) as f64 / measured_s,
        obtained_share: window.used_ns as f64 / (scheduling_ns as f64).max(1.0),
        wait: window.wait.times(),
        response: window.response.times(),
        mean_present: window.present_ns as f64 / 1e9 / measured_s,
        turn_wait_max_us: stats.wait_max.as_secs_f64() * 1e6,
        demand_periods_max: window.demand.largest().as_secs_f64() / period_s,
        overruns: stats.overruns,
        overrun_max_us: stats.overrun_max.as_secs_f64() * 1e6,
        unstable: stats.is_unstable,
        unstable_spells: stats.unstable_spells,
    }
}

impl Line {
    /// Of the tasks of a spec that was checked.
    fn new(spec: &Spec) -> Line {
        if spec.kernel.served_by == ServedBy::Arrival {
            return Line::Arrival(VecDeque::new());
        }
        let config = SchedulerConfig {
            period: spec.kernel.period,
            buckets: spec.kernel.buckets,
            tasks_max: spec.tasks.len(),
            on_overrun: spec.kernel.on_overrun,
        };
        let scheduler = Scheduler::new(config).expect("the spec was checked");
        let shares = spec.tasks.iter().map(|task| task.share);
        let ids: Vec<TaskId> = shares
            .map(|share| scheduler.add(share).expect("the spec was checked"))
            .collect();
        let mut task_of = vec![0; ids.len()];
        for (task, id) in ids.iter().enumerate() {
            task_of[id.index()] = task;
        }
        Line::Credits {
            scheduler: Box::new(scheduler),
            ids,
            task_of,
        }
    }

    fn post(&mut self, task: usize, now: Instant) {
        match self {
            Line::Credits { scheduler, ids, .. } => {
                scheduler.post(ids[task], 1, now);
            }
            Line::Arrival(tasks) => tasks.push_back(task),
        }
    }

    fn take(&mut self, now: Instant) -> Option<(usize, Option<Turn>)> {
        match self {
            Line::Credits {
                scheduler, task_of, ..
            } => {
                let turn = scheduler.take(now)?;
                Some((task_of[turn.task.index()], Some(turn)))
            }
            Line::Arrival(tasks) => tasks.pop_front().map(|task| (task, None)),
        }
    }

    fn note_full(&self, task: usize) {
        if let Line::Credits { scheduler, ids, .. } = self {
            scheduler.note_full(ids[task]);
        }
    }

    fn stats(&self, task: usize, now: Instant) -> TaskStats {
        match self {
            Line::Credits { scheduler, ids, .. } => {
                scheduler.stats_of(ids[task], now).unwrap_or_default()
            }
            Line::Arrival(_) => TaskStats::default(),
        }
    }

    fn periods(&self) -> u64 {
        match self {
            Line::Credits { scheduler, .. } => scheduler.stats().periods,
            Line::Arrival(_) => 0,
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
