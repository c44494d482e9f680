//! The real scheduler in a simulated world: what it gives, how long events wait, and the theory of
//! both.

mod shares;
mod specs;
mod threads;
mod waits;

use std::time::Duration;

use kernel::CpuShare;

use super::*;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn share(value: f64) -> Option<CpuShare> {
    Some(CpuShare::new(value).expect("a share"))
}

/// A task that always has work: its writer is far ahead and blocked.
fn saturated(value: f64, service: Service) -> TaskSpec {
    TaskSpec {
        share: share(value),
        queue: 10,
        ..TaskSpec::new(&format!("asks {value}"), Arrivals::Periodic(1e6), service)
    }
}

/// A task with events at given times that take given times; nothing is dropped, no writer waits.
fn traced(name: &str, value: f64, events: &[(Duration, Duration)]) -> TaskSpec {
    let (arrivals, service): (_, Vec<_>) = events.iter().copied().unzip();
    let service = match &service[..] {
        [] => Service::Constant(us(1)),
        _ => Service::Measured(service),
    };
    TaskSpec {
        share: share(value),
        queue: events.len().max(1),
        ..TaskSpec::new(name, Arrivals::Trace(arrivals), service)
    }
}

/// Tasks on one thread that always runs, from the beginning.
fn spec(duration: Duration, tasks: Vec<TaskSpec>) -> Spec {
    let mut names = 0;
    let numbered = |mut task: TaskSpec| {
        names += 1;
        task.name = format!("{} ({names})", task.name);
        task
    };
    Spec {
        seed: 1,
        warmup: Duration::ZERO,
        duration,
        kernel: KernelSpec::default(),
        tasks: tasks.into_iter().map(numbered).collect(),
    }
}

fn run(spec: &Spec) -> Measured {
    simulate(spec).expect("a valid spec")
}
