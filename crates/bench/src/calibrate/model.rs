//! The service model from CPU times: which loads are run, what each should cost, and the fit.
//!
//! CPU time per message is taken to be
//!
//! `per_message + (per_batch + per_active_connection × together) / batch + per_turn × turns per
//! message`
//!
//! with `together`, the publishers active in the same millisecond, counted exactly as
//! `placement::replay` counts them. Turns of the broker's loop are not part of the model: a message
//! that finds the broker idle pays one alone, under load many share one. Without the term in the
//! fit, messages would seem dear at low rates. Pure.

use ::model::{Fit, Run, ServiceModel};
use placement::{Arrival, PublisherIndex, Trace, replay};

use super::least_squares::{COLUMNS, Row, fit_non_negative, predict};
use crate::error::BenchError;
use crate::workload::Workload;

/// Span in which publishers count as active together; that of `placement::replay`.
const ACTIVE_SPAN_NS: u64 = 1_000_000;
/// Shortest time between the beginnings of two turns under load: the default of `srtm broker --turn-spacing`.
const TURN_SPACING_S: f64 = 100e-6;
/// Span of a schedule over which active publishers are counted.
const COUNTED_NS: u64 = 1_000_000_000;
/// Span of the replay that the model is checked by.
const REPLAYED_NS: u64 = 5_000_000_000;

/// A load of the model's runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Publisher connections.
    pub publishers: u32,
    /// Messages per second of each.
    pub rate_per_publisher: f64,
    /// Messages per publish command.
    pub batch_messages: u32,
    /// Publishers that send at the same instant.
    pub group_publishers: u32,
}

/// The loads that a model is fitted to. The first is the lightest: it tells the latency outside the queue. Few and
/// many connections, single messages and batches, independent sends and simultaneous ones, all well below what a core
/// carries.
pub const LOADS: [Load; 8] = [
    load(200, 10.0, 1, 1),
    load(1000, 10.0, 1, 1),
    load(4000, 5.0, 1, 1),
    load(1000, 20.0, 1, 10),
    load(4000, 5.0, 1, 50),
    load(200, 50.0, 10, 1),
    load(1000, 40.0, 10, 1),
    load(4000, 10.0, 10, 1),
];

/// A model and how well it fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The model.
    pub model: ServiceModel,
    /// Its residuals, and the cost of a turn.
    pub fit: Fit,
    /// Residual of each run, as a part of what was measured; positive where the run cost more than the model says.
    pub residuals: Vec<f64>,
}

impl Load {
    /// The same rate from at most `max_publishers`.
    #[must_use]
    pub fn within(&self, max_publishers: u32) -> Self {
        let publishers = self.publishers.min(max_publishers.max(1));
        Self {
            publishers,
            rate_per_publisher: self.rate_per_publisher * f64::from(self.publishers)
                / f64::from(publishers),
            group_publishers: self.group_publishers.min(publishers),
            ..*self
        }
    }

    /// The load as a workload like `base`.
    pub fn workload(&self, base: &Workload) -> Workload {
        Workload {
            publishers: self.publishers,
            rate_per_publisher: self.rate_per_publisher,
            batch_messages: self.batch_messages,
            mpub: self.batch_messages > 1,
            group_publishers: self.group_publishers,
            ..base.clone()
        }
    }
}

/// Fits a model to `runs`. Of the latencies, those of the first run's load are used, which has to be light; `servers`
/// are the broker's reactors.
///
/// # Errors
/// When the runs say nothing: no CPU time was measured.
pub fn fit(runs: &[Run], base: &Workload, servers: u32) -> Result<Fitted, BenchError> {
    let rows: Vec<Row> = runs.iter().map(|run| row(run, base)).collect();
    let unmeasured = || BenchError::Broker {
        name: "srtm".to_owned(),
        text: "its CPU time could not be measured".to_owned(),
    };
    if !rows.iter().all(|row| row.target > 0.0) {
        return Err(unmeasured());
    }
    let coefficients = fit_non_negative(&rows).ok_or_else(unmeasured)?;
    let residuals: Vec<f64> = rows
        .iter()
        .map(|row| 1.0 - predict(row, &coefficients) / row.target)
        .collect();
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let [
        per_message_ns,
        per_batch_ns,
        per_active_connection_ns,
        per_turn_ns,
    ] = coefficients;
    // A message that waits for nobody is served once, which a replay adds to the base.
    let alone_ns = per_message_ns + per_batch_ns + per_active_connection_ns;
    Ok(Fitted {
        model: ServiceModel {
            per_message_ns,
            per_batch_ns,
            per_active_connection_ns,
            base_ns: (light_p50_us(runs) * 1000.0 - alone_ns).max(0.0),
            servers,
        },
        fit: Fit {
            per_turn_ns,
            residual: (squares / rows.len() as f64).sqrt(),
            residual_max: residuals
                .iter()
                .fold(0.0, |most, residual| residual.abs().max(most)),
            replayed_p99_us: None,
        },
        residuals,
    })
}

/// Messages per second of `workload`'s kind at which `servers` would never rest, if messages went on to cost what they
/// did in the busiest run of that kind. Too low rather than too high: turns are shared more and more.
pub fn saturation(runs: &[Run], workload: &Workload, servers: u32) -> f64 {
    let is_batched = workload.batch_messages > 1;
    let alike = |run: &&Run| (run.batch_messages > 1) == is_batched && run.group_publishers == 1;
    let busiest = runs
        .iter()
        .filter(alike)
        .max_by(|a, b| a.offered_per_second.total_cmp(&b.offered_per_second));
    let cost_ns = busiest.map_or(f64::INFINITY, |run| run.broker_ns_per_message.max(1.0));
    1e9 * f64::from(servers) / cost_ns
}

/// p99 that `model` gives for `workload`, in microseconds; `None` when it sends nothing.
pub fn replayed_p99_us(model: &ServiceModel, workload: &Workload) -> Option<f64> {
    let arrivals = sends_before(workload, REPLAYED_NS)
        .map(|(at_ns, publisher)| Arrival {
            at_ns,
            publisher: PublisherIndex(publisher),
            messages: workload.batch_messages.try_into().unwrap_or(u16::MAX),
        })
        .collect();
    let trace = Trace::new(arrivals, 0, REPLAYED_NS);
    replay(&trace, |_| true, None, model, 0.0).percentile_us(99.0)
}

/// The smallest p50 of the runs with the load of the first: noise only adds.
fn light_p50_us(runs: &[Run]) -> f64 {
    let same = |run: &&Run| {
        let first = &runs[0];
        run.publishers == first.publishers
            && run.batch_messages == first.batch_messages
            && run.group_publishers == first.group_publishers
            && run.offered_per_second < 1.5 * first.offered_per_second
    };
    let light = runs.iter().filter(same).map(|run| run.p50_us);
    light.fold(f64::INFINITY, f64::min)
}

fn row(run: &Run, base: &Workload) -> Row {
    let batch = f64::from(run.batch_messages.max(1));
    let workload = Workload {
        publishers: run.publishers,
        batch_messages: run.batch_messages,
        group_publishers: run.group_publishers,
        ..base.clone()
    }
    .at_rate(run.offered_per_second);
    let columns: [f64; COLUMNS] = [
        1.0,
        1.0 / batch,
        mean_active_together(&workload) / batch,
        turns_per_second(&workload) / run.offered_per_second.max(1.0),
    ];
    Row {
        columns,
        target: run.broker_ns_per_message,
    }
}

/// Turns of the broker's loop. One begins with an arrival, at least the spacing after the one before: with Poisson
/// arrivals of rate λ and spacing s the mean distance is s + exp(−λs) / λ.
fn turns_per_second(workload: &Workload) -> f64 {
    let instants_per_second = workload.offered_per_second()
        / (f64::from(workload.batch_messages) * f64::from(workload.group_publishers));
    let expected_wait = (-instants_per_second * TURN_SPACING_S).exp() / instants_per_second;
    1.0 / (TURN_SPACING_S + expected_wait)
}

/// Mean over the publish commands of the publishers seen in the command's millisecond so far, its own included.
fn mean_active_together(workload: &Workload) -> f64 {
    let mut seen_in = vec![u64::MAX; workload.publishers as usize];
    let (mut span, mut active, mut sum, mut commands) = (0, 0_u64, 0_u64, 0_u64);
    for (at_ns, publisher) in sends_before(workload, COUNTED_NS) {
        if at_ns / ACTIVE_SPAN_NS != span {
            (span, active) = (at_ns / ACTIVE_SPAN_NS, 0);
        }
        if let Some(seen) = seen_in.get_mut(publisher as usize)
            && *seen != span
        {
            *seen = span;
            active += 1;
        }
        sum += active;
        commands += 1;
    }
    sum as f64 / commands.max(1) as f64
}

/// Instant and publisher of every send before `end_ns`.
fn sends_before(workload: &Workload, end_ns: u64) -> impl Iterator<Item = (u64, u32)> {
    workload
        .schedule()
        .map(|send| (send.at_ns, send.publisher))
        .take_while(move |(due_ns, _)| *due_ns < end_ns)
}

const fn load(
    publishers: u32,
    rate_per_publisher: f64,
    batch_messages: u32,
    group_publishers: u32,
) -> Load {
    Load {
        publishers,
        rate_per_publisher,
        batch_messages,
        group_publishers,
    }
}

#[cfg(test)]
mod tests;
