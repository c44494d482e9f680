//! The neighbour's figures in one run, and the tables over all rounds.

use serde::Serialize;

use super::super::render::{Form, time};
use super::{SITUATIONS, Situation};
use crate::broker_port::Stage;
use bench::measurement::Percentiles;
use statistics::median;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reading {
    /// What the other topic did.
    pub situation: Situation,
    /// Messages of it that a core of the broker carries in a second.
    pub flood_capacity_per_second: f64,
    /// Messages of it that were due in a second.
    pub flood_wanted_per_second: f64,
    /// Messages of it that the broker took in a second.
    pub flood_sent_per_second: f64,
    /// The neighbour's messages received per second.
    pub received_per_second: f64,
    /// Messages of the neighbour that never came.
    pub missing: u64,
    /// From the scheduled instant to the subscriber's read, at the client.
    pub latency: Percentiles,
    /// How late the client itself sent: a part of the latency.
    pub lateness: Percentiles,
    /// The broker's figure from arrival to the copy into the subscriber's output.
    pub broker_total: Option<Stage>,
    /// The broker's figure from the publisher's send to the subscriber's kernel, sampled.
    pub broker_end_to_end: Option<Stage>,
    /// Part of the time that the broker's core was busy.
    pub broker_core_busy: f64,
}

impl Reading {
    /// One line for whoever waits.
    pub fn progress(&self, row: &str, round: u32, rounds: u32) -> String {
        let broker = self.broker_total.map_or(f64::NAN, |stage| stage.p99_us);
        format!(
            "{row}, {}, round {round} of {rounds}: p99 {} at the client, {} in the broker; flood {:.0} msg/s",
            self.situation.name(),
            time(self.latency.p99_us),
            time(broker),
            self.flood_sent_per_second
        )
    }
}

/// Rounds of a row, each with its readings by situation.
pub(super) type Rounds<'a> = (&'a str, &'a [Vec<Reading>]);

/// A figure of a reading.
type Figure = fn(&Reading) -> f64;

/// All figures of all rows, medians over the rounds.
pub(super) fn figures(rows: &[Rounds<'_>], form: Form) -> String {
    let header = [
        "row",
        "situation",
        "flood wanted/s",
        "flood taken/s",
        "p50",
        "p99",
        "p99.9",
        "late p99",
        "broker p50",
        "broker p99",
        "broker p99.9",
        "end to end p99",
        "core busy",
        "missing",
    ];
    let mut lines = Vec::new();
    for (name, rounds) in rows {
        for situation in SITUATIONS {
            let of = |figure: Figure| middle(rounds, situation, figure);
            if of(|reading| reading.latency.p50_us).is_nan() {
                continue;
            }
            let cells = vec![
                (*name).to_owned(),
                situation.name().to_owned(),
                format!("{:.0}", of(|reading| reading.flood_wanted_per_second)),
                format!("{:.0}", of(|reading| reading.flood_sent_per_second)),
                time(of(|reading| reading.latency.p50_us)),
                time(of(|reading| reading.latency.p99_us)),
                time(of(|reading| reading.latency.p999_us)),
                time(of(|reading| reading.lateness.p99_us)),
                time(of(|reading| total(reading).p50_us)),
                time(of(|reading| total(reading).p99_us)),
                time(of(|reading| total(reading).p999_us)),
                time(of(|reading| end_to_end(reading).p99_us)),
                format!("{:.2}", of(|reading| reading.broker_core_busy)),
                format!("{:.0}", of(|reading| reading.missing as f64)),
            ];
            lines.push(cells);
        }
    }
    form.render(&header, &lines)
}

/// By how much the flood moves the neighbour's p99: medians of the ratios within rounds.
pub(super) fn ratios(rows: &[Rounds<'_>], form: Form) -> String {
    let header = [
        "p99 of the neighbour",
        "flood / at share",
        "flood / alone",
        "broker: flood / at share",
        "broker: flood / alone",
    ];
    let client: Figure = |reading| reading.latency.p99_us;
    let broker: Figure = |reading| total(reading).p99_us;
    let line = |(name, rounds): &Rounds<'_>| {
        let ratio = |figure, to| shown(ratio(rounds, to, figure));
        vec![
            (*name).to_owned(),
            ratio(client, Situation::AtShare),
            ratio(client, Situation::Alone),
            ratio(broker, Situation::AtShare),
            ratio(broker, Situation::Alone),
        ]
    };
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    form.render(&header, &lines)
}

fn middle(rounds: &[Vec<Reading>], situation: Situation, figure: Figure) -> f64 {
    let readings = rounds.iter().filter_map(|round| find(round, situation));
    median(readings.map(figure))
}

/// The median over the rounds of the figure under flood divided by the one in the situation `to`.
fn ratio(rounds: &[Vec<Reading>], to: Situation, figure: Figure) -> f64 {
    let of_round = |round: &Vec<Reading>| {
        let (flood, other) = (find(round, Situation::Flood)?, find(round, to)?);
        Some(figure(flood) / figure(other))
    };
    median(rounds.iter().filter_map(of_round))
}

fn find(round: &[Reading], situation: Situation) -> Option<&Reading> {
    round.iter().find(|reading| reading.situation == situation)
}

fn total(reading: &Reading) -> Stage {
    reading.broker_total.unwrap_or(UNKNOWN)
}

fn end_to_end(reading: &Reading) -> Stage {
    reading.broker_end_to_end.unwrap_or(UNKNOWN)
}

const UNKNOWN: Stage = Stage {
    messages: 0,
    p50_us: f64::NAN,
    p99_us: f64::NAN,
    p999_us: f64::NAN,
    max_us: f64::NAN,
};

fn shown(ratio: f64) -> String {
    if ratio.is_nan() {
        "-".to_owned()
    } else {
        format!("{ratio:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(situation: Situation, p99_us: f64, broker_p99_us: Option<f64>) -> Reading {
        let latency = Percentiles {
            p99_us,
            ..Percentiles::default()
        };
        let broker_total = broker_p99_us.map(|p99_us| Stage {
            p99_us,
            ..Stage::default()
        });
        Reading {
            situation,
            flood_capacity_per_second: 1e6,
            flood_wanted_per_second: 0.0,
            flood_sent_per_second: 0.0,
            received_per_second: 2000.0,
            missing: 0,
            latency,
            lateness: Percentiles::default(),
            broker_total,
            broker_end_to_end: None,
            broker_core_busy: 0.5,
        }
    }

    #[test]
    fn ratios_are_of_runs_of_one_round() {
        // The machine was half as fast in the second round: that cancels out.
        let round = |slow: f64| {
            vec![
                reading(Situation::Alone, 100.0 * slow, Some(10.0 * slow)),
                reading(Situation::AtShare, 150.0 * slow, Some(20.0 * slow)),
                reading(Situation::Flood, 300.0 * slow, Some(22.0 * slow)),
            ]
        };
        let rounds = [round(1.0), round(2.0), round(1.5)];
        let text = ratios(&[("srtm", &rounds)], Form::Markdown);
        let last = text.lines().last().expect("a row");
        assert_eq!(last, "| srtm | 2.00 | 3.00 | 1.10 | 2.20 |");
    }

    #[test]
    fn rows_without_figures_of_the_broker_show_none() {
        let rounds = [vec![
            reading(Situation::AtShare, 100.0, None),
            reading(Situation::Flood, 100.0, None),
        ]];
        let text = ratios(&[("nats", &rounds)], Form::Markdown);
        let last = text.lines().last().expect("a row");
        assert_eq!(last, "| nats | 1.00 | - | - | - |");
        let figures = figures(&[("nats", &rounds)], Form::Markdown);
        // Header, rule, and the two situations that were run.
        assert_eq!(figures.lines().count(), 4, "{figures}");
    }
}
