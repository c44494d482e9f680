//! One publisher and one subscriber: throughput and delay against the sending rate, and the
//! distribution of the delay.
//!
//! These are the Tempo paper's figures 4 and 5. The last point of a sweep has no rate: a bounded
//! number of messages is under way, and the result is the rate at which the row saturates; its
//! delay is the wait in that bound.

use std::time::Duration;

use clap::Args;

use super::render::{Form, time};
use super::series::{self, Cell, Point, SeriesOptions};
use super::trial::Sending;
use super::way::Row;
use bench::BenchError;

/// Options of `srtm-evaluate tempo rate`.
#[derive(Debug, Clone, Args)]
pub struct RateOptions {
    /// What all measurements share.
    #[command(flatten)]
    pub series: SeriesOptions,
    /// Systems to compare.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm-peer,srtm-broker,nsqd,nats"
    )]
    pub rows: Vec<Row>,
    /// Sending rates.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "MSG/S",
        default_value = "1000,10000,50000,120000,250000,500000,1000000"
    )]
    pub rates: Vec<f64>,
    /// Leave out the point that has no rate.
    #[arg(long)]
    pub no_saturated: bool,
    /// Length of each measurement.
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pub measure_ms: u64,
    /// Repetitions, interleaved; figures are medians.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub rounds: u32,
}

/// Options of `srtm-evaluate tempo distribution`.
#[derive(Debug, Clone, Args)]
pub struct DistributionOptions {
    /// What all measurements share.
    #[command(flatten)]
    pub series: SeriesOptions,
    /// Systems to compare.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "srtm-peer,srtm-broker"
    )]
    pub rows: Vec<Row>,
    /// Sending rates.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "MSG/S",
        default_value = "10000,120000"
    )]
    pub rates: Vec<f64>,
    /// Length of each measurement.
    #[arg(long, default_value_t = 30_000, value_name = "MS")]
    pub measure_ms: u64,
    /// Repetitions, interleaved; figures are medians.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub rounds: u32,
}

/// Measures throughput and delay against the rate, and prints the table.
///
/// # Errors
/// When the options are wrong or results cannot be written.
pub fn rate(options: &RateOptions) -> Result<(), BenchError> {
    let mut points = points(&options.rates, options.measure_ms, &options.series)?;
    if !options.no_saturated {
        let sending = sending(None, options.measure_ms, &options.series);
        points.push(("saturated".to_owned(), sending));
    }
    let cells = series::run(
        "tempo-rate",
        &options.rows,
        &points,
        options.rounds,
        &options.series,
    )?;
    let form = Form::new(options.series.markdown);
    print!("{}", series::render("msg/s", &cells, form));
    println!("\nhighest rate received:");
    for row in &options.rows {
        println!("{}: {:.0} msg/s", row.name(), highest(&cells, *row));
    }
    Ok(())
}

/// Measures the distribution of the delay, and prints figures and rows.
///
/// # Errors
/// When the options are wrong or results cannot be written.
pub fn distribution(options: &DistributionOptions) -> Result<(), BenchError> {
    let points = points(&options.rates, options.measure_ms, &options.series)?;
    let cells = series::run(
        "tempo-distribution",
        &options.rows,
        &points,
        options.rounds,
        &options.series,
    )?;
    let form = Form::new(options.series.markdown);
    print!("{}", series::render("msg/s", &cells, form));
    for cell in cells.iter().filter(|cell| !cell.trials.is_empty()) {
        println!(
            "\n{} msg/s, {}: delays of the sample",
            cell.label,
            cell.row.name()
        );
        print!("{}", histogram(cell, form));
    }
    Ok(())
}

fn points(
    rates: &[f64],
    measure_ms: u64,
    series: &SeriesOptions,
) -> Result<Vec<Point>, BenchError> {
    let point = |&rate: &f64| {
        if !(1.0..=1e8).contains(&rate) {
            let text = format!("--rates {rate}: give 1 to 100000000 messages per second");
            return Err(BenchError::Options(text));
        }
        Ok((rate.to_string(), sending(Some(rate), measure_ms, series)))
    };
    rates.iter().map(point).collect()
}

fn sending(rate: Option<f64>, measure_ms: u64, series: &SeriesOptions) -> Sending {
    Sending {
        topics: 1,
        rate_per_publisher: rate,
        body_bytes: series.body_bytes,
        warmup: Duration::from_millis(series.warmup_ms),
        measure: Duration::from_millis(measure_ms),
    }
}

/// The highest rate that the row received at in any trial.
fn highest(cells: &[Cell], row: Row) -> f64 {
    let trials = cells.iter().filter(|cell| cell.row == row);
    let trials = trials.flat_map(|cell| &cell.trials);
    trials
        .map(|trial| trial.received_per_second)
        .fold(0.0, f64::max)
}

/// The distribution of all rounds together.
fn histogram(cell: &Cell, form: Form) -> String {
    let mut rows: Vec<(f64, u64)> = Vec::new();
    for row in cell.trials.iter().flat_map(|trial| &trial.delays.rows) {
        match rows
            .iter_mut()
            .find(|(edge_us, _)| *edge_us == row.up_to_us)
        {
            Some((_, messages)) => *messages += row.messages,
            None => rows.push((row.up_to_us, row.messages)),
        }
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(edge_us, messages)| vec![time(*edge_us), messages.to_string()])
        .collect();
    form.render(&["up to", "messages"], &cells)
}

#[cfg(test)]
mod tests {
    use super::super::delay::Delays;
    use super::super::trial::Trial;
    use super::*;

    fn cell(row: Row, trials: Vec<Trial>) -> Cell {
        Cell {
            row,
            label: "10000".to_owned(),
            trials,
            failure: None,
        }
    }

    #[test]
    fn the_highest_rate_is_of_all_points_of_a_row() {
        let trial = |received_per_second| Trial {
            received_per_second,
            ..Trial::default()
        };
        let cells = [
            cell(Row::Nsqd, vec![trial(5.0), trial(7.0)]),
            cell(Row::Nats, vec![trial(9.0)]),
            cell(Row::Nsqd, vec![trial(6.0)]),
        ];
        assert_eq!(highest(&cells, Row::Nsqd), 7.0);
        assert_eq!(highest(&cells, Row::SrtmPeer), 0.0);
    }

    #[test]
    fn rounds_share_the_rows_of_a_distribution() {
        let trial = |delay_ns| Trial {
            delays: Delays::of([delay_ns]),
            ..Trial::default()
        };
        let cell = cell(
            Row::SrtmPeer,
            vec![trial(1_000_000), trial(999_000), trial(90_000)],
        );
        assert_eq!(
            histogram(&cell, Form::Text),
            "up to    messages\n100 us          1\n1.00 ms         2\n"
        );
    }
}
