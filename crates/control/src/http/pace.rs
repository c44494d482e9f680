//! What `/metrics` says of the controller's own work.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::service::PaceView;

/// The figures of one moment.
#[derive(Debug)]
pub(super) struct Pace(pub(super) PaceView);

impl Collector for Pace {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let Pace(PaceView {
            turns,
            busy_s,
            long_turns,
            longest_s,
            longest_steps,
            work,
        }) = self;
        let help = "The longest turn of the controller's loop within the last one to two minutes.";
        let longest =
            encoder.encode_descriptor("turn_longest_seconds", help, None, MetricType::Gauge)?;
        ConstGauge::new(*longest_s).encode(longest)?;
        let help = "The longest step of those turns, by kind.";
        let name = "turn_step_longest_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (step, step_s) in longest_steps {
            let labels = [("step", *step)];
            ConstGauge::new(*step_s).encode(family.encode_family(&labels)?)?;
        }
        let help = "Time that turns of the controller's loop took.";
        let busy = encoder.encode_descriptor("turns_seconds", help, None, MetricType::Counter)?;
        ConstCounter::new(*busy_s).encode(busy)?;
        let counters = [
            ("turns", "Turns of the controller's loop.", *turns),
            (
                "long_turns",
                "Turns that took longer than 50 ms.",
                *long_turns,
            ),
            (
                "publishers_looked_at",
                "Publishers looked at to place or to move some.",
                work.publishers,
            ),
            (
                "topics_looked_at",
                "Topics looked at because time has passed.",
                work.topics,
            ),
            ("topics_reported", "Topics named in reports.", work.reported),
        ];
        for (name, help, value) in counters {
            let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(counter)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
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
        let mut page = String::new();
        text::encode(&mut page, &registry).expect("a String");
        for line in [
            "srtm_control_turn_longest_seconds 0.0625",
            "srtm_control_turn_step_longest_seconds{step=\"report\"} 0.05",
            "srtm_control_turns_total 7",
            "srtm_control_long_turns_total 1",
            "srtm_control_topics_looked_at_total 0",
        ] {
            assert!(page.lines().any(|each| each == line), "{line}\n{page}");
        }
    }
}
