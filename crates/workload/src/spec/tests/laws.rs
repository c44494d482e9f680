//! Laws of every spec and every text.

use std::time::Duration;

use proptest::prelude::*;

use crate::{Class, Cluster, Failure, POLICIES, Pattern, Ramp, Spec, SpecError, Topic};

fn span(most_ms: u64) -> impl Strategy<Value = Duration> {
    (1..=most_ms * 1_000_000).prop_map(Duration::from_nanos)
}

fn class() -> impl Strategy<Value = Class> {
    let shape = (
        1u32..2000,
        0.001f64..1000.0,
        any::<bool>(),
        1u16..,
        1u32..=1 << 20,
    );
    let ramp = (0.0f64..10.0, 0.001f64..10.0, span(100_000));
    let pauses = (span(1000), span(1000));
    let groups = (0.0f64..1.0, 0.0f64..1.0);
    (
        shape,
        groups,
        proptest::option::of(pauses),
        proptest::option::of(ramp),
    )
        .prop_map(
            |(
                (count, rate, is_periodic, batch_messages, body_bytes),
                (size, part),
                pauses,
                ramp,
            )| {
                let group_publishers = 1 + (f64::from(count - 1) * size) as u32;
                let gap_s = f64::from(batch_messages) / (rate * 10.0);
                let spread = Duration::from_secs_f64((gap_s * part).min(3600.0));
                let (on, off) = pauses.unwrap_or_default();
                Class {
                    arrivals: [Pattern::Poisson, Pattern::Periodic][usize::from(is_periodic)],
                    batch_messages,
                    body_bytes,
                    group_publishers,
                    spread: if group_publishers > 1 {
                        spread
                    } else {
                        Duration::ZERO
                    },
                    on: if on.is_zero() {
                        on
                    } else {
                        on + Duration::from_millis(1)
                    },
                    off,
                    ramp: ramp.map(|(from, to, over)| Ramp { from, to, over }),
                    ..Class::new(count, rate)
                }
            },
        )
}

fn topic() -> impl Strategy<Value = Topic> {
    let limit = proptest::option::of((1e-3f64..1e9, 1.0f64..1e6));
    let words = (proptest::sample::select(&POLICIES[..]), any::<bool>());
    let promise = (span(10_000), 1e-3f64..99.999, span(100_000));
    (limit, 1.0f64..10.0, words, promise, any::<bool>()).prop_map(
        |(limit, headroom, (policy, is_measured), (slo, percentile, window), adaptor)| Topic {
            limited: limit.is_some() || adaptor,
            rate: limit.map(|(rate, _)| rate),
            burst: limit.map(|(_, burst)| burst),
            headroom,
            slo,
            percentile,
            policy: policy.to_owned(),
            fit: ["replay", "measure"][usize::from(is_measured)].to_owned(),
            window,
            adaptor,
        },
    )
}

fn cluster() -> impl Strategy<Value = Cluster> {
    let shape = (1u32..=1024, 1u32..=1024, 1u16..);
    let times = (span(10), span(10), span(10), span(10));
    let load = proptest::collection::vec(0.0f64..1e6, 0..5);
    (shape, times, load, proptest::option::of(1.0f64..1e6)).prop_map(
        |((brokers, cores, load_batch), times, mut load, mcap)| {
            load.truncate(brokers as usize);
            Cluster {
                brokers,
                cores,
                per_message: times.0,
                per_batch: times.1,
                per_active_connection: times.2,
                base: times.3,
                mcap,
                load,
                load_batch,
            }
        },
    )
}

fn spec() -> impl Strategy<Value = Spec> {
    let time = (any::<u64>(), span(1000), span(100_000));
    let classes = proptest::collection::vec(class(), 1..4);
    let failure = proptest::option::of((span(1000), span(1000)));
    (time, classes, topic(), cluster(), failure).prop_map(
        |((seed, warmup, duration), mut publishers, topic, cluster, failure)| {
            for (number, class) in publishers.iter_mut().enumerate() {
                class.name = format!("µ-\"{number}\\");
            }
            let failure = failure.map(|(at, away)| Failure {
                broker: 1,
                at,
                away,
            });
            Spec {
                seed,
                warmup,
                duration,
                publishers,
                topic,
                cluster,
                failures: failure.into_iter().collect(),
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_spec_reads_as_it_was_written(spec in spec()) {
        let text = spec.to_toml().map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(Spec::parse(&text), Ok(spec), "{}", text);
    }

    #[test]
    fn no_text_is_too_odd(text in "(\\[\\[publishers\\]\\]\n|[a-z]{1,9} = |[0-9\"\\[\\]{}.,\n= -]{1,9}|count|rate|µ){0,20}") {
        match Spec::parse(&text) {
            Ok(spec) => prop_assert_eq!(spec.check(), Ok(())),
            Err(SpecError::Syntax { place, .. }) => prop_assert!(place.line >= 1),
            Err(error) => prop_assert!(error.place().is_some()),
        }
    }
}
