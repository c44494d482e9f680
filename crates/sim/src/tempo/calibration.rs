//! Tasks in theory and in simulation, and the CPU shares that wanted waits need.
//!
//! A task's guaranteed rate uses the mean service time of its own events, not that of the server,
//! so that a task of long events is not promised the rate of short ones.

use std::time::Duration;

use kernel::CpuShare;
use kernel::theory::{
    Found, Infeasible, Mm1, ShareSearch, claims, guaranteed_rate, largest_share, wait_bound,
};
use serde::Serialize;
use workload::SpecError;

use super::measured::{Measured, TaskMeasured};
use super::simulate;
use super::spec::{Service, Spec, TaskSpec};
use crate::parallel;

/// The least share that is looked at.
const LEAST_SHARE: f64 = 0.005;
/// How close the share found is to one that does not hold.
const TOLERANCE: f64 = 0.02;
/// Simulations of one search.
const SIMULATIONS_MAX: u32 = 24;
/// A task whose queue is full for more than this part of its arrivals is unstable, whatever the others wait.
const FULL_PART_MAX: f64 = 0.01;

/// Tasks of a spec, calibrated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// By task, in the spec's order.
    pub tasks: Vec<TaskCalibration>,
    /// The largest part of all scheduling time that one task can have: [`kernel::theory::largest_share`].
    pub largest_share: f64,
    /// What was simulated with the shares of the spec.
    pub measured: Measured,
}

/// One task: theory, and the share that its wanted wait needs. What was simulated is in [`Calibration::measured`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskCalibration {
    /// What it is called.
    pub name: String,
    /// Its share; where it declares none, its part of what others leave.
    pub share: f64,
    /// λ, events per second, as simulated.
    pub arrival_rate: f64,
    /// μ_j, events per second.
    pub guaranteed_rate: f64,
    /// ρ = λ/μ_j.
    pub intensity: f64,
    /// 1/(μ_j − λ); `None`: it grows without end.
    pub mm1_response_us: Option<f64>,
    /// [`kernel::theory::wait_bound`] without work ahead. `None` where it does not apply: more than one thread, one that does not
    /// always run, service times without a maximum, overruns without a penalty.
    pub wait_bound_us: Option<f64>,
    /// The mean wait that is wanted.
    pub want_wait_us: Option<f64>,
    /// The share that it needs; `None` where no wait is wanted.
    pub needed: Option<Needed>,
}

/// The share that a wanted wait needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Needed {
    /// `None`: infeasible.
    pub share: Option<f64>,
    /// The mean wait under this share; where infeasible the shortest that was measured.
    pub wait_us: Option<f64>,
    /// Why no share is enough.
    pub why: Option<String>,
    /// Simulations that it took.
    pub measurements: u32,
}

/// Simulates a spec, and for every task with a wanted wait the shares that might hold it, on at most `jobs` threads.
///
/// # Errors
/// [`SpecError::Value`], as [`Spec::check`].
pub fn calibrate(spec: &Spec, jobs: usize) -> Result<Calibration, SpecError> {
    let measured = simulate(spec)?;
    let numbers: Vec<usize> = (0..spec.tasks.len()).collect();
    let shares = effective_shares(spec);
    let sum = shares.iter().sum();
    let tasks = parallel::map(
        jobs,
        &numbers,
        |&task| of_task(spec, &measured.tasks[task], task, shares[task], sum),
        || {},
    );
    Ok(Calibration {
        tasks: tasks.into_iter().collect::<Result<_, _>>()?,
        largest_share: largest_share(spec.kernel.threads, spec.kernel.availability),
        measured,
    })
}

fn of_task(
    spec: &Spec,
    measured: &TaskMeasured,
    task: usize,
    share: f64,
    shares: f64,
) -> Result<TaskCalibration, SpecError> {
    let its = &spec.tasks[task];
    let whole_rate = 1.0 / its.service.mean().as_secs_f64();
    let queue = Mm1 {
        arrival_rate: measured.arrival_rate,
        service_rate: guaranteed_rate(whole_rate, share, shares),
    };
    let needed = its.want_wait.map(|wanted| search(spec, task, wanted));
    Ok(TaskCalibration {
        name: its.name.clone(),
        share,
        arrival_rate: queue.arrival_rate,
        guaranteed_rate: queue.service_rate,
        intensity: queue.intensity(),
        mm1_response_us: queue.mean_response().map(micros),
        wait_bound_us: bound(spec, task).map(micros),
        want_wait_us: its.want_wait.map(micros),
        needed: needed.transpose()?,
    })
}

/// Shares as the scheduler gives them out.
fn effective_shares(spec: &Spec) -> Vec<f64> {
    let period_s = spec.kernel.period.as_secs_f64();
    let turns = vec![Duration::ZERO; spec.tasks.len()];
    let claims = claims(
        spec.kernel.period,
        spec.kernel.buckets,
        &declared(spec),
        &turns,
    );
    let allotments = claims.iter().map(|claim| claim.allotment.as_secs_f64());
    allotments.map(|allotment| allotment / period_s).collect()
}

fn declared(spec: &Spec) -> Vec<Option<CpuShare>> {
    spec.tasks.iter().map(|task| task.share).collect()
}

/// How long an event waits at worst that finds none of its own.
fn bound(spec: &Spec, task: usize) -> Option<Duration> {
    let kernel = &spec.kernel;
    let applies = kernel.threads == 1
        && kernel.availability >= 1.0
        && kernel.on_overrun == kernel::OnOverrun::Penalise
        && kernel.served_by == super::ServedBy::Credits;
    let turns: Option<Vec<Duration>> = spec.tasks.iter().map(longest_turn).collect();
    let turns = turns.filter(|_| applies)?;
    let claims = claims(kernel.period, kernel.buckets, &declared(spec), &turns);
    let quantum = kernel.period / u32::try_from(kernel.buckets).unwrap_or(u32::MAX);
    let rounded_up = quantum + Duration::from_nanos(1);
    Some(wait_bound(&claims, task, rounded_up, Duration::ZERO))
}

fn longest_turn(task: &TaskSpec) -> Option<Duration> {
    match &task.service {
        Service::Constant(time) | Service::Uniform(_, time) => Some(*time),
        Service::Measured(times) => times.iter().max().copied(),
        Service::Exponential(_) => None,
    }
}

fn search(spec: &Spec, task: usize, wanted: Duration) -> Result<Needed, SpecError> {
    let others = spec.tasks.iter().enumerate();
    let others = others.filter(|&(other, _)| other != task);
    let taken: f64 = others
        .filter_map(|(_, other)| other.share.map(CpuShare::as_f64))
        .sum();
    let Ok(most) = CpuShare::new(1.0 - taken) else {
        return Ok(Needed {
            share: None,
            wait_us: None,
            why: Some(String::from("the other tasks have declared all of it")),
            measurements: 0,
        });
    };
    let search = ShareSearch {
        wanted,
        least: CpuShare::new(LEAST_SHARE).unwrap_or(most),
        most,
        tolerance: TOLERANCE,
        measurements_max: SIMULATIONS_MAX,
    };
    let mut trial = spec.clone();
    let outcome = search.run(|share| {
        trial.tasks[task].share = Some(share);
        let measured = simulate(&trial)?;
        Ok::<_, SpecError>(mean_wait(&measured.tasks[task]))
    })?;
    Ok(needed(outcome))
}

/// The mean wait; `None` where it would be longer in a queue with more room.
fn mean_wait(task: &TaskMeasured) -> Option<Duration> {
    let is_full = task.full as f64 > FULL_PART_MAX * task.arrived as f64;
    let wait = Duration::try_from_secs_f64(task.wait.mean_us / 1e6).ok()?;
    (!task.unstable && !is_full).then_some(wait)
}

fn needed(outcome: Result<Found, Infeasible>) -> Needed {
    match outcome {
        Ok(found) => Needed {
            share: Some(found.share.as_f64()),
            wait_us: Some(micros(found.wait)),
            why: None,
            measurements: found.measurements,
        },
        Err(infeasible) => Needed {
            share: None,
            wait_us: infeasible.best.map(|(_, wait)| micros(wait)),
            why: Some(infeasible.why.to_string()),
            measurements: infeasible.measurements,
        },
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
