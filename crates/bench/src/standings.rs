//! The table of a comparison: a row for each broker, with the reasons to doubt it.

use crate::generator::Outcome;
use crate::peers::Peer;
use crate::report::table;
use statistics::median;

/// Lateness of the generator (p99) above which a row is called doubtful.
const MAX_LATE_US: f64 = 1000.0;
/// Part of the broker's core used by others above which a row is called doubtful.
const MAX_OTHERS: f64 = 0.05;

/// One peer's results over the rounds of one load.
#[derive(Debug)]
pub struct Row {
    /// The broker.
    pub peer: Peer,
    /// One outcome a round.
    pub outcomes: Vec<Outcome>,
    /// Why it was left out.
    pub failure: Option<String>,
}

/// The table of the peers that ran, then a line for each that did not, then what makes figures doubtful.
pub fn render(rows: &[Row]) -> String {
    let header = [
        "peer",
        "msg/s",
        "CPU us/msg",
        "/relay",
        "/nsqd",
        "core busy",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "late p99",
        "gen us/msg",
        "gen busy",
        "missing",
        "dup",
    ];
    let cpu_of = |peer: Peer| {
        rows.iter()
            .find(|row| row.peer == peer)
            .map_or(f64::NAN, Row::cpu)
    };
    let (relay, nsqd) = (cpu_of(Peer::Relay), cpu_of(Peer::Nsqd));
    let ran = rows.iter().filter(|row| row.failure.is_none());
    let lines: Vec<Vec<String>> = ran.map(|row| row.cells(relay, nsqd)).collect();
    let mut text = table(&header, &lines);
    for row in rows {
        match &row.failure {
            Some(failure) => text.push_str(&format!("{}: left out: {failure}\n", row.peer.name())),
            None => row.doubts().iter().for_each(|doubt| {
                text.push_str(&format!("{}: doubtful: {doubt}\n", row.peer.name()));
            }),
        }
    }
    text
}

impl Row {
    fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
        median(self.outcomes.iter().map(figure))
    }

    fn cpu(&self) -> f64 {
        self.median(|outcome| outcome.broker_us_per_message.unwrap_or(f64::NAN))
    }

    fn cells(&self, relay_cpu: f64, nsqd_cpu: f64) -> Vec<String> {
        let ratio = |base: f64| {
            if base.is_nan() {
                "-".to_owned()
            } else {
                format!("{:.2}", self.cpu() / base)
            }
        };
        let micros = |figure: fn(&Outcome) -> f64| format!("{:.0}", self.median(figure));
        let sum =
            |figure: fn(&Outcome) -> u64| self.outcomes.iter().map(figure).sum::<u64>().to_string();
        vec![
            self.peer.name().to_owned(),
            micros(|outcome| outcome.achieved_per_second),
            format!("{:.2}", self.cpu()),
            ratio(relay_cpu),
            ratio(nsqd_cpu),
            format!(
                "{:.2}",
                self.median(|outcome| outcome.broker_cpu.map_or(f64::NAN, |used| used.core_busy))
            ),
            micros(|outcome| outcome.latency.p50_us),
            micros(|outcome| outcome.latency.p99_us),
            micros(|outcome| outcome.latency.p999_us),
            micros(|outcome| outcome.lateness.p99_us),
            format!(
                "{:.2}",
                self.median(|outcome| outcome.generator_us_per_message)
            ),
            format!("{:.2}", self.median(|outcome| outcome.generator_busy)),
            sum(|outcome| outcome.counts.missing),
            sum(|outcome| outcome.counts.duplicates),
        ]
    }

    /// What else than the broker the figures may show.
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let late_us = self.median(|outcome| outcome.lateness.p99_us);
        if late_us > MAX_LATE_US {
            doubts.push(format!(
                "the generator was late, p99 {late_us:.0} us; that is part of the latency"
            ));
        }
        let others = self.median(Outcome::core_used_by_others);
        if others > MAX_OTHERS {
            doubts.push(format!(
                "other work took {:.0} % of the broker's core",
                100.0 * others
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_time::CpuUse;
    use crate::measurement::{Counts, Percentiles};

    fn outcome(broker_us: f64, p99_us: f64, late_us: f64, core_busy: f64) -> Outcome {
        Outcome {
            offered_per_second: 20_000.0,
            achieved_per_second: 20_000.0,
            latency: Percentiles {
                p99_us,
                ..Percentiles::default()
            },
            lateness: Percentiles {
                p99_us: late_us,
                ..Percentiles::default()
            },
            counts: Counts {
                missing: 1,
                ..Counts::default()
            },
            broker_us_per_message: Some(broker_us),
            broker_cpu: Some(CpuUse {
                process_us: 0.0,
                core_busy,
                core_stolen: 0.0,
            }),
            generator_us_per_message: 5.0,
            generator_busy: 0.1,
            stalls: 0,
            samples: Vec::new(),
        }
    }

    fn row(peer: Peer, outcomes: Vec<Outcome>) -> Row {
        Row {
            peer,
            outcomes,
            failure: None,
        }
    }

    #[test]
    fn cells_are_medians_and_ratios() {
        let rows = [
            row(
                Peer::Srtm,
                [8.0, 9.0, 100.0]
                    .map(|us| outcome(us, us, 1.0, 0.18))
                    .to_vec(),
            ),
            row(Peer::Relay, vec![outcome(6.0, 50.0, 1.0, 0.12)]),
            row(Peer::Nsqd, vec![outcome(18.0, 50.0, 1.0, 0.36)]),
        ];
        let text = render(&rows);
        let cells: Vec<&str> = text
            .lines()
            .nth(1)
            .expect("a row")
            .split_ascii_whitespace()
            .collect();
        assert_eq!(cells[..5], ["srtm", "20000", "9.00", "1.50", "0.50"]);
        assert_eq!(cells[7], "9");
        assert_eq!(cells[12], "3", "missing messages are added up");
        assert!(!text.contains("doubtful"), "{text}");
    }

    #[test]
    fn ratios_without_a_base_are_left_out() {
        let text = render(&[row(Peer::Nats, vec![outcome(6.0, 50.0, 1.0, 0.12)])]);
        let cells: Vec<&str> = text
            .lines()
            .nth(1)
            .expect("a row")
            .split_ascii_whitespace()
            .collect();
        assert_eq!(cells[3..5], ["-", "-"]);
    }

    #[test]
    fn failures_and_doubts_are_told_below_the_table() {
        let missing = Row {
            peer: Peer::Srtm,
            outcomes: Vec::new(),
            failure: Some("not found: x".to_owned()),
        };
        let disturbed = row(Peer::Relay, vec![outcome(6.0, 50.0, 5000.0, 0.9)]);
        let text = render(&[missing, disturbed]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "srtm: left out: not found: x");
        assert!(
            lines[1].starts_with("relay: doubtful: the generator was late, p99 5000 us"),
            "{text}"
        );
        assert_eq!(
            lines[2],
            "relay: doubtful: other work took 78 % of the broker's core"
        );
    }
}
