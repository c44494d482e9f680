//! Checks of a spec beyond its types: ranges, and values that must agree with each other.

use std::collections::HashSet;
use std::time::Duration;

use clock::DurationText;
use kernel::{CpuShare, Shares};
use workload::{Place, SpecError};

use super::spec::{Arrivals, KernelSpec, Service, Spec, TaskSpec};

/// Tasks of a spec.
pub(super) const TASKS_MAX: usize = 1_024;
/// Threads of a kernel: one bit each.
pub(super) const THREADS_MAX: u32 = 64;
/// Events of a run, all tasks together: an hour of a core's time.
const EVENTS_MAX: f64 = 1e10;
/// Room of all queues together.
const QUEUES_MAX: usize = 1 << 24;
const BUCKETS_MAX: usize = 10_000;
const PERIOD_MAX: Duration = Duration::from_secs(60);
const LENGTH_MAX: Duration = Duration::from_secs(24 * 3600);
const RATE_MAX: f64 = 1e9;

/// Something wrong, with its place in terms of keys.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) part: Part,
    pub(super) key: &'static str,
    text: String,
}

/// A table of the spec.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Top,
    Kernel,
    /// Which task, from 0.
    Task(usize),
}

impl Problem {
    /// The error, for people.
    pub(super) fn at(self, place: Option<Place>) -> SpecError {
        let key = match self.part {
            Part::Top => self.key.to_owned(),
            Part::Kernel => format!("kernel.{}", self.key),
            Part::Task(number) => format!("task[{}].{}", number + 1, self.key),
        };
        SpecError::Value {
            place,
            key,
            text: self.text,
        }
    }
}

impl Part {
    fn demand(
        self,
        key: &'static str,
        holds: bool,
        text: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if holds {
            return Ok(());
        }
        Err(Problem {
            part: self,
            key,
            text: text(),
        })
    }
}

/// Checks everything; the first problem ends it.
pub(super) fn check(spec: &Spec) -> Result<(), Problem> {
    let top = Part::Top;
    top.demand("duration", !spec.duration.is_zero(), || {
        String::from("must be longer than 0, as in \"60s\"")
    })?;
    top.demand("duration", spec.length() <= LENGTH_MAX, || {
        let length = DurationText(spec.length());
        format!("{length} with the warmup is more than a day")
    })?;
    check_kernel(&spec.kernel)?;
    let tasks = spec.tasks.len();
    top.demand("task", (1..=TASKS_MAX).contains(&tasks), || {
        format!("{tasks} tasks: write 1 to {TASKS_MAX} of [[task]]")
    })?;
    let (mut names, mut shares) = (HashSet::new(), Shares::default());
    let (mut events, mut room) = (0.0, 0_usize);
    for (number, task) in spec.tasks.iter().enumerate() {
        let part = Part::Task(number);
        part.demand("name", names.insert(task.name.as_str()), || {
            format!("{:?} is the name of another task", task.name)
        })?;
        check_share(part, &mut shares, task.share)?;
        check_task(part, task)?;
        events += task.arrivals.events_within(spec.length());
        part.demand("arrivals", events <= EVENTS_MAX, || {
            format!("{events:.0} events, counted up to this task: at most {EVENTS_MAX:.0} in a run")
        })?;
        room = room.saturating_add(task.queue);
        part.demand("queue", task.queue > 0 && room <= QUEUES_MAX, || {
            format!("write at least 1, and at most {QUEUES_MAX} in all tasks together")
        })?;
    }
    Ok(())
}

fn check_kernel(kernel: &KernelSpec) -> Result<(), Problem> {
    let part = Part::Kernel;
    let is_period = !kernel.period.is_zero() && kernel.period <= PERIOD_MAX;
    part.demand("period", is_period, || {
        String::from("write more than 0 and at most a minute, as in \"10ms\"")
    })?;
    part.demand(
        "buckets",
        (1..=BUCKETS_MAX).contains(&kernel.buckets),
        || {
            format!(
                "{} is out of range: write 1 to {BUCKETS_MAX}",
                kernel.buckets
            )
        },
    )?;
    part.demand(
        "threads",
        (1..=THREADS_MAX).contains(&kernel.threads),
        || {
            format!(
                "{} is out of range: write 1 to {THREADS_MAX}",
                kernel.threads
            )
        },
    )?;
    let is_part = kernel.availability >= 0.001 && kernel.availability <= 1.0;
    part.demand("availability", is_part, || {
        let availability = kernel.availability;
        format!("{availability} is out of range: write the part of the time, 0.001 to 1")
    })?;
    let is_slice = kernel.slice >= Duration::from_micros(1) && kernel.slice <= LENGTH_MAX;
    part.demand("slice", is_slice, || {
        String::from("write a microsecond to a day, as in \"100ms\"")
    })
}

fn check_share(part: Part, shares: &mut Shares, share: Option<CpuShare>) -> Result<(), Problem> {
    let added = shares.add(share).map_err(|error| error.to_string());
    let text = added.err();
    part.demand("share", text.is_none(), || text.clone().unwrap_or_default())
}

fn check_task(part: Part, task: &TaskSpec) -> Result<(), Problem> {
    let rate_of = |rate: f64| {
        // NaN is in no range.
        let is_rate = rate > 1e-6 && rate <= RATE_MAX;
        part.demand("arrivals", is_rate, || {
            format!("{rate} is not a rate: write events per second, 0.000001 to {RATE_MAX:.0}")
        })
    };
    match &task.arrivals {
        Arrivals::Poisson(rate) | Arrivals::Periodic(rate) => rate_of(*rate)?,
        Arrivals::Bursts { every, events } => {
            part.demand("arrivals", !every.is_zero() && *events > 0, || {
                String::from("write { bursts = { every = \"1s\", events = 50 } }, both above 0")
            })?;
        }
        Arrivals::Trace(times) => {
            part.demand("arrivals", times.is_sorted(), || {
                String::from("the times of a trace must not go back")
            })?;
        }
    }
    let is_service = match &task.service {
        Service::Constant(time) | Service::Exponential(time) => !time.is_zero(),
        Service::Uniform(from, to) => from <= to && !to.is_zero(),
        Service::Measured(times) => times.iter().any(|time| !time.is_zero()),
    } && task.service.mean() <= PERIOD_MAX;
    part.demand("service", is_service, || {
        String::from("write times above 0, at most a minute, the smaller first")
    })
}
