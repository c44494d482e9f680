//! What a calibration prints while it runs and at its end.

use super::knee::{Knee, SearchOptions};
use super::model::{self, Fitted};
use super::options::{CalibrateOptions, Effort};
use crate::report::table;
use crate::trial::Trial;
use ::model::{Calibration, Purpose, Run};

/// Time of a run beside its load: starting, connecting, stopping.
const AROUND_A_RUN_MS: u64 = 700;

/// What will be done and how long it may take.
pub(super) fn plan(options: &CalibrateOptions, effort: &Effort) -> String {
    let model_runs = u64::from(effort.model_rounds) * model::LOADS.len() as u64;
    let model_ms =
        model_runs * (AROUND_A_RUN_MS + effort.model_warmup_ms + effort.model_measure_ms);
    let mcap_ms =
        effort.max_runs as u64 * (AROUND_A_RUN_MS + effort.mcap_warmup_ms + effort.mcap_measure_ms);
    format!(
        "calibrating for p99 <= {:.0} us; at most {} s; keep this machine otherwise idle",
        options.slo_p99_us(),
        (model_ms + mcap_ms).div_ceil(1000)
    )
}

/// One run for the model.
pub(super) fn model_run(round: u32, run: &Run) -> String {
    format!(
        "model, round {round}: {:>5} publishers{}{}, {:>6.0} msg/s: {:>5.2} us/msg CPU, p50 {:.0} us",
        run.publishers,
        batch_text(run),
        group_text(run),
        run.offered_per_second,
        run.broker_ns_per_message / 1000.0,
        run.p50_us
    )
}

/// The loads with what they cost, what the model says, and how far the rounds lie apart.
pub(super) fn model(runs: &[Run], fitted: &Fitted) -> String {
    let header = ["load", "msg/s", "CPU us/msg", "spread", "model", "residual"];
    let loads = model::LOADS.len().min(runs.len());
    let row = |load: usize| {
        // Rounds follow each other, so a load comes back after all others.
        let rounds = || (load..runs.len()).step_by(loads.max(1));
        let costs_us = || rounds().map(|place| runs[place].broker_ns_per_message / 1000.0);
        let count = rounds().count().max(1) as f64;
        let mean_us = costs_us().sum::<f64>() / count;
        let least_us = costs_us().fold(f64::INFINITY, f64::min);
        let most_us = costs_us().fold(0.0, f64::max);
        let residual = rounds().map(|place| fitted.residuals[place]).sum::<f64>() / count;
        let run = &runs[load];
        vec![
            format!(
                "{} publishers{}{}",
                run.publishers,
                batch_text(run),
                group_text(run)
            ),
            format!("{:.0}", run.offered_per_second),
            format!("{mean_us:.2}"),
            format!("{:.0} %", 100.0 * (most_us - least_us) / mean_us),
            format!("{:.2}", mean_us * (1.0 - residual)),
            format!("{:+.0} %", 100.0 * residual),
        ]
    };
    let rows: Vec<Vec<String>> = (0..loads).map(row).collect();
    format!("\n{}\n", table(&header, &rows))
}

/// One run of the search.
pub(super) fn trial(number: usize, search: &SearchOptions, run: &Run, trial: &Trial) -> String {
    let verdict = if trial.meets(search.slo_p99_us) {
        "met"
    } else {
        "missed"
    };
    let doubt = match (trial.generator_limited, trial.kept_up) {
        (true, _) => ", the generator was late itself",
        (false, false) => ", did not keep up",
        (false, true) => "",
    };
    format!(
        "mcap, run {number:>2} of at most {}: {:>7.0} msg/s, {:>5} publishers: p50 {:>5.0}, p99 {:>6.0} us: {verdict}{doubt}",
        search.max_runs, trial.rate, run.publishers, run.p50_us, run.p99_us
    )
}

/// The result of the search, and how certain it is.
pub(super) fn knee(knee: &Knee, search: &SearchOptions, mcap: f64) -> String {
    let spread = knee
        .spread_at(mcap)
        .map_or_else(String::new, |(least, most)| {
            format!(" (p99 {least:.0} to {most:.0} us there)")
        });
    let bound = match knee.missed {
        None => format!(
            "no rate up to {:.0} msg/s missed it: mcap is a lower bound",
            search.most
        ),
        Some(missed) if knee.is_generator_limited => {
            format!("{missed:.0} msg/s missed it, but so did the generator: mcap is a lower bound")
        }
        Some(missed) => format!("{missed:.0} msg/s missed it"),
    };
    let open = match knee.missed {
        Some(_) if !knee.is_exact => "; the runs ended before the two were close",
        _ => "",
    };
    format!("\n{mcap:.0} msg/s met the promise{spread}; {bound}{open}\n")
}

/// The result as people read it.
pub(super) fn summary(calibration: &Calibration) -> String {
    let (model, fit) = (&calibration.model, &calibration.fit);
    let mut text = format!(
        "\nmcap                       {:.0} msg/s with p99 <= {:.0} us\n",
        calibration.mcap, calibration.slo_p99_us
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<26} {value}\n"));
    line("per message", us(model.per_message_ns));
    line("per publish command", us(model.per_batch_ns));
    line("per active connection", us(model.per_active_connection_ns));
    line("base latency", us(model.base_ns));
    line("servers", model.servers.to_string());
    line("beside the model, per turn", us(fit.per_turn_ns));
    line(
        "residuals",
        format!(
            "{:.0} % (RMS), {:.0} % at most",
            100.0 * fit.residual,
            100.0 * fit.residual_max
        ),
    );
    if let (Some(replayed_us), Some(measured_us)) =
        (fit.replayed_p99_us, measured_at_mcap_us(calibration))
    {
        let both = format!("p99 {replayed_us:.0} us, measured {measured_us:.0} us");
        line("replayed at mcap", both);
    }
    let machine = &calibration.machine;
    line(
        "measured on",
        format!(
            "{}, {} cores, Linux {}",
            machine.cpu, machine.cores, machine.kernel
        ),
    );
    if let Some(doubt) = calibration.doubt() {
        line("doubtful", doubt);
    }
    text
}

/// The median p99 of the runs at mcap.
fn measured_at_mcap_us(calibration: &Calibration) -> Option<f64> {
    // Poisson arrivals offer a little more or less than they were meant to.
    let near = |run: &&Run| {
        run.purpose == Purpose::Mcap
            && (run.offered_per_second / calibration.mcap - 1.0).abs() < 0.02
    };
    let p99 = calibration.runs.iter().filter(near).map(|run| run.p99_us);
    Some(statistics::median(p99)).filter(|median| median.is_finite())
}

fn us(nanoseconds: f64) -> String {
    format!("{:.2} us", nanoseconds / 1000.0)
}

fn batch_text(run: &Run) -> String {
    match run.batch_messages {
        1 => String::new(),
        batch => format!(", batch {batch}"),
    }
}

fn group_text(run: &Run) -> String {
    match run.group_publishers {
        1 => String::new(),
        group => format!(", {group} at once"),
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use ::model::{Fit, Machine, ServiceModel};

    fn run(purpose: Purpose, offered_per_second: f64, p99_us: f64) -> Run {
        Run {
            purpose,
            publishers: 5000,
            batch_messages: 1,
            group_publishers: 1,
            offered_per_second,
            achieved_per_second: offered_per_second,
            broker_ns_per_message: 10_000.0,
            p50_us: 120.0,
            p99_us,
            generator_late_p99_us: 10.0,
            core_used_by_others: 0.0,
            lost: 0,
        }
    }

    fn calibration(runs: Vec<Run>) -> Calibration {
        Calibration {
            version: Calibration::VERSION,
            at_s: 0,
            machine: Machine {
                cpu: "Fast One".to_owned(),
                cores: 2,
                kernel: "6.1".to_owned(),
            },
            slo_p99_us: 1000.0,
            mcap: 50_000.0,
            missed: None,
            model: ServiceModel::default(),
            fit: Fit {
                replayed_p99_us: Some(700.0),
                ..Fit::default()
            },
            runs,
        }
    }

    #[test]
    fn the_summary_holds_the_replay_against_the_runs_at_mcap() {
        let text = summary(&calibration(vec![
            run(Purpose::Model, 50_000.0, 1.0),
            run(Purpose::Mcap, 50_100.0, 900.0),
            run(Purpose::Mcap, 49_900.0, 940.0),
            run(Purpose::Mcap, 60_000.0, 9_000.0),
        ]));
        assert!(text.contains("50000 msg/s with p99 <= 1000 us"), "{text}");
        assert!(text.contains("p99 700 us, measured 920 us"), "{text}");
        assert!(!text.contains("doubtful"), "{text}");
    }

    #[test]
    fn a_disturbed_calibration_is_called_doubtful() {
        let disturbed = Run {
            core_used_by_others: 0.4,
            ..run(Purpose::Mcap, 50_000.0, 900.0)
        };
        let text = summary(&calibration(vec![run(Purpose::Model, 1.0, 1.0), disturbed]));
        assert!(
            text.contains("in 1 of 2 runs") && text.contains("up to 40 %"),
            "{text}"
        );
    }

    #[test]
    fn a_search_says_when_its_result_is_a_lower_bound() {
        let search = SearchOptions {
            slo_p99_us: 1000.0,
            start: 1.0,
            least: 1.0,
            most: 90_000.0,
            tolerance: 0.05,
            max_runs: 12,
        };
        let found = Knee {
            met: Some(50_000.0),
            missed: Some(52_000.0),
            is_exact: true,
            ..Knee::default()
        };
        assert!(!knee(&found, &search, 50_000.0).contains("lower bound"));
        let cut_short = Knee {
            is_exact: false,
            ..found.clone()
        };
        assert!(knee(&cut_short, &search, 50_000.0).contains("before the two were close"));
        let generator = Knee {
            is_generator_limited: true,
            ..found.clone()
        };
        let unbounded = Knee {
            missed: None,
            ..found
        };
        for bounded_below in [generator, unbounded] {
            assert!(knee(&bounded_below, &search, 50_000.0).contains("lower bound"));
        }
    }
}
