//! Several topics at once, one publisher each, all subscribers in one process: throughput and delay
//! against their number.
//!
//! This is the Tempo paper's figure 6: up to the number of cores, throughput should grow with the
//! number of topics.

use std::time::Duration;

use clap::Args;

use super::render::Form;
use super::series::{self, Point, SeriesOptions};
use super::trial::Sending;
use super::way::Row;
use bench::BenchError;

/// Most topics of a run: each has a publisher's process.
const TOPICS_MAX: u32 = 64;

/// Options of `srtm-evaluate tempo topics`.
#[derive(Debug, Clone, Args)]
pub struct TopicsOptions {
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
    /// Numbers of topics.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        default_value = "1,2,3,4,5,6,7,8"
    )]
    pub topics: Vec<u32>,
    /// Messages per second of each publisher.
    #[arg(long, default_value_t = 70_000.0, value_name = "MSG/S")]
    pub rate_per_publisher: f64,
    /// Length of each measurement.
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    pub measure_ms: u64,
    /// Repetitions, interleaved; figures are medians.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub rounds: u32,
}

/// Measures throughput and delay against the number of topics, and prints the table.
///
/// # Errors
/// When the options are wrong or results cannot be written.
pub fn topics(options: &TopicsOptions) -> Result<(), BenchError> {
    let points = points(options)?;
    let cells = series::run(
        "tempo-topics",
        &options.rows,
        &points,
        options.rounds,
        &options.series,
    )?;
    let form = Form::new(options.series.markdown);
    print!("{}", series::render("topics", &cells, form));
    Ok(())
}

fn points(options: &TopicsOptions) -> Result<Vec<Point>, BenchError> {
    let rate = options.rate_per_publisher;
    if !(1.0..=1e8).contains(&rate) {
        let text = format!("--rate-per-publisher {rate}: give 1 to 100000000");
        return Err(BenchError::Options(text));
    }
    let point = |&topics: &u32| {
        if topics == 0 || topics > TOPICS_MAX {
            let text = format!("--topics {topics}: give 1 to {TOPICS_MAX}");
            return Err(BenchError::Options(text));
        }
        let sending = Sending {
            topics,
            rate_per_publisher: Some(rate),
            body_bytes: options.series.body_bytes,
            warmup: Duration::from_millis(options.series.warmup_ms),
            measure: Duration::from_millis(options.measure_ms),
        };
        Ok((topics.to_string(), sending))
    };
    options.topics.iter().map(point).collect()
}
