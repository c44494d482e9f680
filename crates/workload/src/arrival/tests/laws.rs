//! Laws of every load.

use proptest::prelude::*;

use super::*;

fn class() -> impl Strategy<Value = Class> {
    let shape = (1u32..60, 1.0f64..1000.0, 1u16..20, any::<bool>());
    let groups = (0.0f64..1.0, prop_oneof![Just(0.0), 0.0f64..1.0]);
    let ramps = (0.0f64..3.0, 0.0f64..3.0, 1u64..5);
    let pauses = (1u64..500, 1u64..2000);
    (
        shape,
        groups,
        proptest::option::of(ramps),
        proptest::option::of(pauses),
    )
        .prop_map(
            |((count, rate, batch_messages, is_periodic), (size, spread), ramps, pauses)| {
                let group_publishers = 1 + (f64::from(count - 1) * size) as u32;
                let most = ramps.map_or(1.0, |(from, to, _)| f64::max(from, to).max(0.1));
                let gap_s = f64::from(batch_messages) / (rate * most);
                let is_spread = group_publishers > 1;
                let (on, off) = pauses.unwrap_or_default();
                Class {
                    arrivals: [Pattern::Poisson, Pattern::Periodic][usize::from(is_periodic)],
                    batch_messages,
                    group_publishers,
                    spread: Duration::from_secs_f64(if is_spread { gap_s * spread } else { 0.0 }),
                    on: Duration::from_millis(on),
                    off: Duration::from_millis(off),
                    ramp: ramps.and_then(|(from, to, over)| ramp(from, to + 0.1, over)),
                    ..Class::new(count, rate)
                }
            },
        )
        .prop_filter("allowed", |class| {
            Spec {
                publishers: vec![class.clone()],
                ..spec(vec![poisson()])
            }
            .check()
            .is_ok()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn time_goes_on_and_everybody_is_known(classes in proptest::collection::vec(class(), 1..5)) {
        let spec = spec(classes);
        let profiles = spec.profiles();
        let mut last_ns = 0;
        for arrival in spec.arrivals().take(2000) {
            prop_assert!(arrival.at_ns >= last_ns);
            last_ns = arrival.at_ns;
            let profile = profiles.get(arrival.publisher as usize);
            prop_assert_eq!(profile.map(|profile| profile.batch_messages), Some(arrival.messages));
        }
        let again: Vec<Arrival> = spec.arrivals().take(200).collect();
        let first: Vec<Arrival> = spec.arrivals().take(200).collect();
        prop_assert_eq!(again, first);
    }

    #[test]
    fn the_mean_rate_is_kept(class in class()) {
        // After the ramp, over at least 400 turns of the class and 400 cycles of its pauses.
        let over_s = class.ramp.map_or(0.0, |ramp| ramp.over.as_secs_f64());
        let turns_per_second = class.mean_rate() * f64::from(class.groups()) / f64::from(class.batch_messages);
        let seconds = (400.0 / turns_per_second).max(400.0 * (class.on + class.off).as_secs_f64());
        let turns = turns_per_second * seconds;
        prop_assume!(turns * f64::from(class.group_publishers) < 300_000.0);
        let sent = messages(&between(&class, over_s, over_s + seconds));
        let expected = class.mean_rate() * f64::from(class.count) * seconds;
        // Groups may differ in size; five standard deviations of Poisson turns.
        let allowed = 5.0 / turns.sqrt() * expected * 1.5;
        prop_assert!((sent - expected).abs() < allowed, "{sent} for {expected}");
    }
}
