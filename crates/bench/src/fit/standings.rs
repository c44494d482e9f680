//! The output of a fit: its plan, a line for each run, the table, and the caveats.

use serde::Serialize;

use super::contest::Run;
use super::options::{FitOptions, Goal, Grow};
use super::search::{Finding, Limit, SearchOptions, Verdict, Votes};
use crate::report::table;
use crate::workload::Workload;

/// Time of a run beside its load: starting, connecting, stopping.
const AROUND_A_RUN_MS: u64 = 1000;
/// Steps that are repeated around a sharp knee.
const REPEATED_STEPS: u32 = 4;
/// Runs until a knee is enclosed, mostly.
const ENCLOSING_RUNS: u32 = 8;
/// Part of the broker's core used by others above which a row is called doubtful.
const MAX_OTHERS: f64 = 0.05;

/// The result of one broker.
#[derive(Debug, Serialize)]
pub(super) struct Standing {
    /// The broker.
    #[serde(skip)]
    pub(super) peer: String,
    pub(super) goal: Goal,
    pub(super) grow: Grow,
    /// The knee, or what is known of it; none when it failed.
    pub(super) finding: Option<Finding>,
    /// The rate that the next two figures are of, in messages per second.
    pub(super) quoted_rate: Option<f64>,
    /// Median of the goal's percentile of the latency, in microseconds.
    pub(super) latency_us: Option<f64>,
    /// Median of the broker's CPU time per message, in microseconds.
    pub(super) broker_us_per_message: Option<f64>,
    /// Whether every rate that matters had its repetitions.
    pub(super) is_settled: bool,
    /// Median of the part of the broker's core that others used, 0 to 1.
    pub(super) core_used_by_others: Option<f64>,
    /// Rates in messages per second with their verdicts.
    pub(super) steps: Vec<(f64, Votes)>,
    /// What broke single runs.
    pub(super) broken: Vec<String>,
    /// Why it was left out.
    pub(super) failure: Option<String>,
}

/// What will be done and how long it may take.
pub(super) fn plan(options: &FitOptions, search: &SearchOptions) -> String {
    let brokers = options.address.map_or(options.peers.len(), |_| 1) as u64;
    let runs = ENCLOSING_RUNS + REPEATED_STEPS * options.repeats;
    let runs = u64::from(runs.min(search.max_runs));
    let run_ms = AROUND_A_RUN_MS + options.workload.warmup_ms + options.workload.measure_ms;
    format!(
        "highest load with {}, {:.0} to {:.0} msg/s, of {brokers} broker{}: {runs} runs each when the knee is sharp, \
         about {} min; keep this machine otherwise idle",
        options.goal(),
        search.least,
        search.most,
        if brokers == 1 { "" } else { "s" },
        (brokers * runs * run_ms).div_ceil(60_000),
    )
}

/// One run.
pub(super) fn progress(name: &str, number: u32, load: &Workload, run: &Run) -> String {
    let offered = format!(
        "{name:<14} run {number:>3}: {:>7.0} msg/s, {:>5} publishers",
        run.rate, load.publishers
    );
    if let Some(broken) = &run.broken {
        return format!("{offered}: missed, the run broke: {broken}");
    }
    let (Some(outcome), Some(latency_us)) = (&run.outcome, run.latency_us) else {
        return offered;
    };
    let lost = outcome.counts.missing + outcome.counts.refused;
    let verdict = match run.verdict {
        Verdict::Met => "met".to_owned(),
        Verdict::Missed if lost > 0 => format!("missed, {lost} lost"),
        Verdict::Missed => "missed".to_owned(),
        Verdict::Vain => "not counted, the generator was late itself".to_owned(),
    };
    let median = match run.goal.percentile {
        50.0 => String::new(),
        _ => format!("p50 {:>6.0}, ", outcome.latency.p50_us),
    };
    let percentile = run.goal.name();
    format!("{offered}: {median}{percentile} {latency_us:>7.0} us: {verdict}")
}

/// The table of the brokers that ran, then a line for whatever a reader has to know beside it.
pub(super) fn render(goal: &Goal, level: f64, standings: &[Standing]) -> String {
    let interval = format!("{} % interval", (1e4 * level).round() / 100.0);
    let percentile = format!("{} us", goal.name());
    let header = [
        "peer",
        "msg/s",
        &interval,
        &percentile,
        "CPU us/msg",
        "ratio",
        "runs",
    ];
    let ran: Vec<&Standing> = standings
        .iter()
        .filter(|standing| standing.failure.is_none())
        .collect();
    let base = ran.first().and_then(|first| first.finding.as_ref());
    let rows: Vec<Vec<String>> = ran
        .iter()
        .map(|standing| standing.cells(base, level))
        .collect();
    let mut text = format!("\nhighest load with {goal}\n{}", table(&header, &rows));
    for standing in standings {
        for note in standing.notes() {
            text.push_str(&format!("{}: {note}\n", standing.peer));
        }
    }
    text
}

impl Standing {
    fn runs(&self) -> u32 {
        let runs = |(_, votes): &(f64, Votes)| votes.counted() + votes.vain;
        self.steps.iter().map(runs).sum()
    }

    fn cells(&self, base: Option<&Finding>, level: f64) -> Vec<String> {
        let figure = |number: Option<f64>, decimals: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.decimals$}"))
        };
        let (rate, interval) = match &self.finding {
            Some(Finding::Knee(knee)) => {
                (format!("{:.0}", knee.knee), bounds(knee.low, knee.high, 0))
            }
            Some(Finding::AtLeast { rate, .. }) => (format!(">= {rate:.0}"), "-".to_owned()),
            Some(Finding::Infeasible { .. }) => ("none".to_owned(), "-".to_owned()),
            Some(Finding::Unknown { .. }) | None => ("unknown".to_owned(), "-".to_owned()),
        };
        vec![
            self.peer.clone(),
            rate,
            interval,
            figure(self.latency_us, 0),
            figure(self.broker_us_per_message, 2),
            ratio(self.finding.as_ref(), base, level),
            self.runs().to_string(),
        ]
    }

    fn notes(&self) -> Vec<String> {
        if let Some(failure) = &self.failure {
            return vec![format!("left out: {failure}")];
        }
        let mut notes: Vec<String> = self
            .finding
            .iter()
            .filter_map(|found| self.told(found))
            .collect();
        if matches!(self.finding, Some(Finding::Knee(_))) && !self.is_settled {
            notes.push(
                "the runs ended before every rate had its repetitions (--max-runs)".to_owned(),
            );
        }
        let vain: u32 = self.steps.iter().map(|(_, votes)| votes.vain).sum();
        if vain > 0 {
            let runs = self.runs();
            notes.push(format!(
                "{vain} of {runs} runs not counted: the generator was late itself"
            ));
        }
        if let Some(last) = self.broken.last() {
            notes.push(format!(
                "runs that broke and count as missed: {}, the last: {last}",
                self.broken.len()
            ));
        }
        if let Some(others) = self
            .core_used_by_others
            .filter(|others| *others > MAX_OTHERS)
        {
            let percent = 100.0 * others;
            notes.push(format!(
                "doubtful: other work took {percent:.0} % of the broker's core"
            ));
        }
        notes
    }

    /// What the figures of a finding do not show by themselves.
    fn told(&self, finding: &Finding) -> Option<String> {
        match finding {
            Finding::Knee(knee) if knee.low <= 0.0 || knee.high.is_infinite() => Some(
                "too few runs to bound the interval on both sides: raise --repeats or --max-runs".to_owned(),
            ),
            Finding::Knee(_) => None,
            Finding::AtLeast { rate, limit } => Some(format!(
                "at least {rate:.0} msg/s: {}",
                match limit {
                    Limit::Generator => "above it the generator was late itself",
                    Limit::HighestRate => "the highest rate allowed (--most) met the goal",
                    Limit::Runs => "the runs ended before a rate missed the goal (--max-runs)",
                }
            )),
            Finding::Infeasible { rate } => {
                let name = self.goal.name();
                let seen = self.latency_us.map_or_else(String::new, |latency_us| {
                    format!(": there {name} was {latency_us:.0} us")
                });
                Some(format!(
                    "infeasible: {} is missed even at {rate:.0} msg/s, the least rate{seen}",
                    self.goal
                ))
            }
            Finding::Unknown { limit } => Some(match limit {
                Limit::Generator => {
                    "unknown: the generator was late at every rate; something else keeps this machine busy".to_owned()
                }
                Limit::HighestRate | Limit::Runs => {
                    "unknown: the runs ended before a rate met the goal (--max-runs)".to_owned()
                }
            }),
        }
    }
}

/// A finding as a multiple of the first one.
fn ratio(finding: Option<&Finding>, base: Option<&Finding>, level: f64) -> String {
    match (finding, base) {
        (Some(finding), Some(base)) if std::ptr::eq(finding, base) => "1".to_owned(),
        (Some(Finding::Knee(knee)), Some(Finding::Knee(base))) => {
            let (ratio, low, high) = knee.ratio_to(base, level);
            format!("{ratio:.2} ({})", bounds(low, high, 2))
        }
        (Some(Finding::AtLeast { rate, .. }), Some(Finding::Knee(base))) => {
            format!(">= {:.2}", rate / base.knee)
        }
        (Some(Finding::Knee(knee)), Some(Finding::AtLeast { rate, .. })) => {
            format!("<= {:.2}", knee.knee / rate)
        }
        _ => "-".to_owned(),
    }
}

fn bounds(low: f64, high: f64, decimals: usize) -> String {
    match (low > 0.0, high.is_finite()) {
        (true, true) => format!("{low:.decimals$} - {high:.decimals$}"),
        (true, false) => format!(">= {low:.decimals$}"),
        (false, true) => format!("<= {high:.decimals$}"),
        (false, false) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests;
