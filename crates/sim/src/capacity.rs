//! The benchmark phase in virtual time: how much a broker carries under a promise.

use model::ServiceModel;
use placement::{Gate, Left, PublisherIndex, Station};

use crate::gap::exponential_ns;

/// Publish commands of one run.
const COMMANDS: u32 = 100_000;

/// Bisections of the rate.
const ROUNDS: u32 = 16;

/// mcap: the highest rate in messages per second at which the latency of independent (Poisson) publishers who send
/// batches of `batch_messages` stays within `slo_us` at `percentile` (SRTM-long, section 4.2, step 1). Zero if even an
/// idle broker breaks the promise.
#[must_use]
pub fn capacity(model: &ServiceModel, batch_messages: u16, slo_us: f64, percentile: f64) -> f64 {
    let batch = f64::from(batch_messages.max(1));
    let per_command_ns = model.per_message_ns * batch + model.per_batch_ns;
    let saturated = 1e9 * batch * f64::from(model.servers) / per_command_ns.max(1.0);
    let keeps = |rate: f64| latency_us(model, batch_messages, rate, percentile) <= slo_us;
    let (mut met, mut missed) = (0.0, saturated);
    for _ in 0..ROUNDS {
        let rate = (met + missed) / 2.0;
        if keeps(rate) {
            met = rate;
        } else {
            missed = rate;
        }
    }
    met
}

/// The latency at `percentile` at this rate of messages per second, in microseconds.
fn latency_us(model: &ServiceModel, batch_messages: u16, rate: f64, percentile: f64) -> f64 {
    let mut random = clock::stream(1, "capacity");
    let mean_gap_ns = 1e9 * f64::from(batch_messages.max(1)) / rate;
    let mut station = Station::new(*model, Gate::Open);
    let mut latencies_ns = Vec::new();
    let mut at_ns = 0.0;
    for command in 0..COMMANDS {
        at_ns += exponential_ns(&mut random, mean_gap_ns);
        let gone = |left: Left| latencies_ns.push(left.left_ns - left.due_ns as f64);
        // The gate is open: nobody waits, so nobody is refused.
        let _ = station.arrive(
            at_ns as u64,
            at_ns as u64,
            PublisherIndex(command % 1000),
            batch_messages,
            gone,
        );
    }
    let rank = (percentile / 100.0 * latencies_ns.len() as f64).ceil() as usize;
    let place = rank.clamp(1, latencies_ns.len()) - 1;
    let (_, latency_ns, _) = latencies_ns.select_nth_unstable_by(place, f64::total_cmp);
    (*latency_ns + model.base_ns) / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(per_message_ns: f64, per_batch_ns: f64, servers: u32) -> ServiceModel {
        ServiceModel {
            per_message_ns,
            per_batch_ns,
            per_active_connection_ns: 0.0,
            base_ns: 100_000.0,
            servers,
        }
    }

    #[test]
    fn a_tight_promise_leaves_less_and_none_can_be_kept_below_the_base() {
        let of = |slo_us: f64| capacity(&model(14_000.0, 20_000.0, 2), 1, slo_us, 99.0);
        assert_eq!(of(99.0), 0.0);
        let rates = [of(150.0), of(300.0), of(1_000.0), of(10_000.0)];
        assert!(rates.is_sorted(), "{rates:?}");
        // 34 us on two servers saturate at 58,824 messages/s.
        assert!(rates[2] > 50_000.0 && rates[3] < 58_824.0, "{rates:?}");
    }

    #[test]
    fn batches_spare_what_a_command_costs() {
        let of = |batch: u16| capacity(&model(14_000.0, 20_000.0, 2), batch, 1_000.0, 99.0);
        assert!(of(10) > 1.5 * of(1), "{} and {}", of(10), of(1));
    }
}
