//! Emulated service compared with placement's replay, rank by rank.

use model::ServiceModel;
use placement::{Arrival as Traced, PublisherIndex, Trace, replay};
use proptest::prelude::*;

use super::*;

/// Late by so much at worst, for the sake of fewer wake-ups; and the Recorder's microsecond.
const LATE_MAX_US: f64 = 101.0;

const ROOMY: Bounds = Bounds {
    mem_queue_size: 100_000,
    ..BOUNDS
};

proptest! {
    #[test]
    fn latencies_are_the_replays(
        commands in prop::collection::vec((prop_oneof![Just(0u64), 1..300u64, 1_000..9_000u64], 1..12u16), 1..80),
        per_message_us in 1u32..60,
        per_batch_us in 0u32..30,
        servers in 1u32..4,
        share in prop_oneof![Just(None), (500u32..20_000, 1u32..60).prop_map(Some)],
    ) {
        let model = ServiceModel {
            per_message_ns: f64::from(per_message_us) * 1000.0,
            per_batch_ns: f64::from(per_batch_us) * 1000.0,
            per_active_connection_ns: 0.0,
            base_ns: 0.0,
            servers,
        };
        let mut world = World::of(ROOMY, |table| table.emulating(&model));
        world.subscribe("t", "c", 1, u32::MAX);
        if let Some((rate, burst)) = share {
            world.limit("t", f64::from(rate), f64::from(burst));
            // A replay begins with a full bucket.
            world.advance_us(1_000_000);
        }
        let began_ns = world.now().as_nanos();
        let mut arrived = Vec::new();
        let mut trace = Trace { arrivals: Vec::new(), begin_ns: began_ns, end_ns: began_ns };
        for (gap_us, messages) in commands {
            world.advance_us(gap_us);
            let at_ns = world.now().as_nanos();
            trace.arrivals.push(Traced { at_ns, publisher: PublisherIndex(0), messages });
            trace.end_ns = at_ns;
            arrived.extend(vec![world.now(); usize::from(messages)]);
            world.publish("t", &vec!["m"; usize::from(messages)]);
        }
        world.advance_us(30_000_000);
        let released = world.released();
        prop_assert_eq!(released.len(), arrived.len());
        let latencies = released.iter().zip(&arrived).map(|(&released, &arrived)| released - arrived);
        let mut latencies: Vec<f64> = latencies.map(|latency| latency.as_secs_f64() * 1e6).collect();
        latencies.sort_by(f64::total_cmp);
        let limit = share.map(|(rate, burst)| Limit::messages(f64::from(rate), f64::from(burst)).expect("valid"));
        let mut expected = replay(&trace, |_| true, limit.map(|limit| (limit.rate, limit.burst)), &model, 0.0);
        let count = latencies.len() as f64;
        for (rank, latency) in latencies.into_iter().enumerate() {
            let expected = expected.percentile_us((rank as f64 + 0.5) / count * 100.0).expect("there are some");
            // Where each is late by at most so much, so are the sorted ones, rank by rank.
            let late = latency - expected;
            prop_assert!((-1.01..=LATE_MAX_US).contains(&late), "rank {}: {} us, replay {} us", rank, latency, expected);
        }
    }
}
