//! The series of `/metrics` about the controller's own work.

use std::fmt;

use http::metrics::{Series, counter, float, gauge, put};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::service::PaceView;

/// The figures of one moment.
#[derive(Debug)]
pub(super) struct Pace(pub(super) PaceView);

const TURNS: &[Series<PaceView>] = &[
    gauge(
        "turn_longest_seconds",
        "The longest turn of the controller's loop within the last one to two minutes.",
        |pace| Some(pace.longest_s),
    ),
    counter(
        "turns_seconds",
        "Time that turns of the controller's loop took.",
        |pace| Some(pace.busy_s),
    ),
    counter("turns", "Turns of the controller's loop.", |pace| {
        float(pace.turns)
    }),
    counter("long_turns", "Turns that took longer than 50 ms.", |pace| {
        float(pace.long_turns)
    }),
    counter(
        "publishers_looked_at",
        "Publishers looked at to place or to move some.",
        |pace| float(pace.work.publishers),
    ),
    counter(
        "topics_looked_at",
        "Topics looked at because time has passed.",
        |pace| float(pace.work.topics),
    ),
    counter("topics_reported", "Topics named in reports.", |pace| {
        float(pace.work.reported)
    }),
];
const LONGEST_STEP: Series<f64> = gauge(
    "turn_step_longest_seconds",
    "The longest step of those turns, by kind.",
    |step_s| Some(*step_s),
);

impl Collector for Pace {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for series in TURNS {
            put(&mut encoder, series, [([], &self.0)])?;
        }
        let steps = self.0.longest_steps.iter();
        let steps = steps.map(|(step, step_s)| ([("step", *step)], step_s));
        put(&mut encoder, &LONGEST_STEP, steps)
    }
}

#[cfg(test)]
mod tests {
    use http::metrics::text_of;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn turns_read_as_open_metrics() {
        let mut registry = Registry::with_prefix("srtm_control");
        registry.register_collector(Box::new(Pace(PaceView {
            turns: 7,
            long_turns: 1,
            longest_s: 0.0625,
            longest_steps: vec![("report", 0.05)],
            ..PaceView::default()
        })));
        let page = text_of(&registry);
        for line in [
            "srtm_control_turn_longest_seconds 0.0625",
            "srtm_control_turn_step_longest_seconds{step=\"report\"} 0.05",
            "srtm_control_turns_total 7.0",
            "srtm_control_long_turns_total 1.0",
            "srtm_control_topics_looked_at_total 0.0",
        ] {
            assert!(page.lines().any(|each| each == line), "{line}\n{page}");
        }
    }
}
