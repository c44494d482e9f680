//! Runs of several rows over several points, in interleaved rounds: shared by the measurements of
//! rate and of topics.
//!
//! All rows take their turn at a point before the next point, so that other work on the machine
//! affects all of them alike. A row that fails at a point is reported with its reason and goes on
//! with the next one.

use std::path::PathBuf;

use clap::Args;

use super::render::{Form, time};
use super::trial::{self, Sending, Trial, middle};
use super::way::Row;
use bench::BenchError;
use bench::peers::PeerOptions;
use bench::report::Results;
use bench::sys;

/// Options that all measurements of Tempo share.
#[derive(Debug, Clone, Args)]
pub struct SeriesOptions {
    /// Where the brokers' programs are.
    #[command(flatten)]
    pub programs: PeerOptions,
    /// Size of a message, at least 40.
    #[arg(long, default_value_t = 128, value_name = "BYTES")]
    pub body_bytes: usize,
    /// Load before each measurement.
    #[arg(long, default_value_t = 700, value_name = "MS")]
    pub warmup_ms: u64,
    /// Print the tables as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// File that results are appended to, a JSON line each.
    #[arg(long, default_value = "bench/results/tempo.jsonl", value_name = "FILE")]
    pub results: PathBuf,
}

/// All trials of one row at one point.
#[derive(Debug)]
pub struct Cell {
    /// The row.
    pub row: Row,
    /// Its label at this point.
    pub label: String,
    /// One a round.
    pub trials: Vec<Trial>,
    /// Why there are fewer.
    pub failure: Option<String>,
}

/// A point: its label, and what is sent there.
pub type Point = (String, Sending);

/// Runs every point on every row.
///
/// # Errors
/// When results cannot be written; not when a row fails.
pub fn run(
    kind: &str,
    rows: &[Row],
    points: &[Point],
    rounds: u32,
    options: &SeriesOptions,
) -> Result<Vec<Cell>, BenchError> {
    sys::raise_open_files().map_err(BenchError::io("raise the limit of open files"))?;
    let results = Results::new(Some(&options.results));
    let cell = |label: &str, row: Row| Cell {
        row,
        label: label.to_owned(),
        trials: Vec::new(),
        failure: None,
    };
    let pairs = points
        .iter()
        .flat_map(|(label, _)| rows.iter().map(|row| cell(label, *row)));
    let mut cells: Vec<Cell> = pairs.collect();
    for round in 1..=rounds {
        let sendings = points
            .iter()
            .flat_map(|(_, sending)| rows.iter().map(move |_| sending));
        for (cell, sending) in cells.iter_mut().zip(sendings) {
            let name = cell.row.name();
            match trial::run(cell.row, sending, &options.programs) {
                Ok(trial) => {
                    progress(kind, &cell.label, name, round, rounds, &trial);
                    results.append(kind, name, round, sending, &trial)?;
                    cell.trials.push(trial);
                }
                Err(error) => {
                    eprintln!("{kind} {}, {name}, round {round}: {error}", cell.label);
                    cell.failure = Some(error.to_string());
                }
            }
        }
    }
    Ok(cells)
}

/// The table of the cells, then a line for each failure. `heading` names the labels.
pub fn render(heading: &str, cells: &[Cell], form: Form) -> String {
    let header = [
        heading,
        "row",
        "sent/s",
        "received/s",
        "mean",
        "p50",
        "p95",
        "p99",
        "max",
        "late p99",
        "late max",
        "CPU us/msg",
        "cores used",
    ];
    let ran = cells.iter().filter(|cell| !cell.trials.is_empty());
    let rows: Vec<Vec<String>> = ran.map(Cell::columns).collect();
    let mut text = form.render(&header, &rows);
    for cell in cells {
        if let Some(failure) = &cell.failure {
            text.push_str(&format!("{}, {}: {failure}\n", cell.label, cell.row.name()));
        }
    }
    text
}

impl Cell {
    fn columns(&self) -> Vec<String> {
        let middle = |figure: fn(&Trial) -> f64| middle(&self.trials, figure);
        let cores = self.trials.first().map_or(0, |trial| trial.cores);
        vec![
            self.label.clone(),
            self.row.name().to_owned(),
            format!("{:.0}", middle(|trial| trial.sent_per_second)),
            format!("{:.0}", middle(|trial| trial.received_per_second)),
            time(middle(|trial| trial.delays.mean_us)),
            time(middle(|trial| trial.delays.p50_us)),
            time(middle(|trial| trial.delays.p95_us)),
            time(middle(|trial| trial.delays.p99_us)),
            time(middle(|trial| trial.delays.max_us)),
            time(middle(|trial| trial.lateness.p99_us)),
            time(middle(|trial| trial.lateness.max_us)),
            format!("{:.2}", middle(|trial| trial.cpu_us_per_message)),
            format!("{:.2} of {cores}", middle(|trial| trial.cores_used)),
        ]
    }
}

fn progress(kind: &str, label: &str, row: &str, round: u32, rounds: u32, trial: &Trial) {
    eprintln!(
        "{kind} {label}, {row}, round {round} of {rounds}: {:.0} msg/s, mean {}, max {}",
        trial.received_per_second,
        time(trial.delays.mean_us),
        time(trial.delays.max_us)
    );
}

#[cfg(test)]
mod tests {
    use super::super::delay::Delays;
    use super::*;

    #[test]
    fn the_table_has_a_line_per_cell_that_ran_and_the_failures_follow() {
        let trial = Trial {
            received_per_second: 119_999.6,
            delays: Delays::of([1_000_000, 2_000_000]),
            cores: 2,
            cores_used: 1.25,
            ..Trial::default()
        };
        let cells = [
            Cell {
                row: Row::SrtmPeer,
                label: "120000".to_owned(),
                trials: vec![trial],
                failure: None,
            },
            Cell {
                row: Row::Nats,
                label: "120000".to_owned(),
                trials: Vec::new(),
                failure: Some("not found".to_owned()),
            },
        ];
        let text = render("rate", &cells, Form::Markdown);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[2].starts_with("| 120000 | srtm-peer | 0 | 120000 | 1.50 ms |"),
            "{text}"
        );
        assert!(lines[2].ends_with("| 1.25 of 2 |"), "{text}");
        assert_eq!(lines[3], "120000, nats: not found");
    }
}
