//! Access delays: the figures of docs/limits.md, equation (1), batches, splits, and their laws. Simulations are in
//! `tests/poisson.rs`.

use proptest::prelude::*;

use super::*;

/// Messages of a batch, what becomes of it, mean and percentile over 1, 2, 3 and 6 brokers.
type Split = (u16, Batches, [(f64, f64); 4]);

fn rate(per_second: f64) -> Rate {
    Rate::new(per_second).expect("in range")
}

fn burst(tokens: f64) -> Burst {
    Burst::new(tokens).expect("in range")
}

fn poisson(per_second: f64, batch_messages: u16) -> Poisson {
    Poisson {
        rate: rate(per_second),
        batch_messages,
    }
}

fn delay(load: f64, batch_messages: u16, r: f64, b: f64) -> AccessDelay {
    AccessDelay::new(poisson(load * r, batch_messages), rate(r), burst(b)).expect("stable")
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-9 * left.abs().max(right.abs())
}

/// docs/limits.md, "What a limit makes Poisson traffic wait": equation (1) beside the exact mean, in µs at 1,000/s.
#[test]
fn the_figures_of_docs_limits_md() {
    let rows = [
        (0.5, 1.0, 500.0, 500.0),
        (0.5, 2.0, 175.6, 148.7),
        (0.5, 5.0, 4.342, 3.455),
        (0.8, 1.0, 2000.0, 2000.0),
        (0.8, 5.0, 386.6, 358.9),
        (0.8, 20.0, 0.6033, 0.5601),
        (0.9, 1.0, 4500.0, 4500.0),
        (0.9, 5.0, 2037.7, 1967.4),
        (0.9, 20.0, 91.14, 87.99),
        (0.95, 20.0, 1399.2, 1375.5),
        (0.95, 50.0, 66.15, 65.03),
    ];
    for (load, b, paper_us, exact_us) in rows {
        let delay = delay(load, 1, 1000.0, b);
        let paper = delay.equation_1_s().expect("no batches") * 1e6;
        let exact = delay.mean_s(Which::Any) * 1e6;
        assert!(
            (paper / paper_us - 1.0).abs() < 1e-3,
            "{load} {b}: {paper} for {paper_us}"
        );
        assert!(
            (exact / exact_us - 1.0).abs() < 1e-3,
            "{load} {b}: {exact} for {exact_us}"
        );
    }
}

/// docs/limits.md, "Splitting": mean in µs and 99.9th percentile in ms, of any message.
#[test]
fn the_price_of_a_split_in_docs_limits_md() {
    let rows: [Split; 3] = [
        (
            1,
            Batches::Whole,
            [
                (0.022_18, 0.0),
                (22.17, 8.028),
                (264.0, 42.04),
                (4190.0, 144.1),
            ],
        ),
        (
            6,
            Batches::Whole,
            [
                (3850.0, 141.6),
                (21_690.0, 343.3),
                (45_960.0, 544.9),
                (129_800.0, 1150.0),
            ],
        ),
        (
            6,
            Batches::Divided,
            [
                (3850.0, 141.6),
                (3917.0, 142.1),
                (3984.0, 142.6),
                (4190.0, 144.1),
            ],
        ),
    ];
    for (batch, batches, expected) in rows {
        let penalties = delay(0.9, batch, 1000.0, 60.0);
        for (brokers, (mean_us, percentile_ms)) in [1, 2, 3, 6].into_iter().zip(expected) {
            let part = penalties.split(brokers, batches).expect("divisible");
            let mean = part.mean_s(Which::Any) * 1e6;
            let percentile = part.percentile_s(Which::Any, 99.9).expect("in range") * 1e3;
            assert!(
                (mean / mean_us - 1.0).abs() < 1e-3,
                "{batch} {brokers}: {mean}"
            );
            assert!(
                (percentile - percentile_ms).abs() <= 1e-3 * percentile_ms,
                "{batch} {brokers}: {percentile}"
            );
        }
    }
}

#[test]
fn equation_1_is_exact_for_a_burst_of_one_and_an_upper_bound_beyond() {
    for load in [0.1, 0.5, 0.8, 0.9, 0.95, 0.999] {
        let one = delay(load, 1, 250.0, 1.0);
        let paper = one.equation_1_s().expect("no batches");
        assert!(near(paper, one.mean_s(Which::Any)), "{load}");
        for b in [1.5, 2.0, 5.0, 20.0, 50.0, 1e4] {
            let delay = delay(load, 1, 250.0, b);
            let (paper, exact) = (
                delay.equation_1_s().expect("no batches"),
                delay.mean_s(Which::Any),
            );
            let most = delay.queue.decay() / (2.0 * delay.queue.idle());
            assert!(paper >= exact * (1.0 - 1e-9), "{load} {b}");
            // Between whole bursts it is further off.
            assert!(
                b == 1.5 || paper <= exact * most * 1.01,
                "{load} {b}: {}",
                paper / exact
            );
        }
    }
}

/// The last message of a batch of m under (r, b) waits like a message on its own under (r/m, b/m).
#[test]
fn a_batch_scales_rate_and_burst_down() {
    for (load, b) in [(0.5, 30.0), (0.8, 35.0), (0.95, 200.0)] {
        let batches = delay(load, 10, 1000.0, b);
        let single = delay(load, 1, 100.0, b / 10.0);
        let last = Which::LastOfBatch;
        assert!(near(batches.mean_s(last), single.mean_s(last)));
        assert_eq!(batches.equation_1_s(), single.equation_1_s());
        assert!(near(batches.tail(last, 0.02), single.tail(last, 0.02)));
        let percentile_s = |delay: &AccessDelay| delay.percentile_s(last, 99.0).expect("in range");
        assert!(near(percentile_s(&batches), percentile_s(&single)));
        assert!(batches.mean_s(Which::Any) < batches.mean_s(last));
        let any = batches.percentile_s(Which::Any, 99.0).expect("in range");
        assert!(any <= percentile_s(&batches));
    }
}

/// A batch that is larger than the burst: the first b leave as if alone, the rest never at once.
#[test]
fn a_batch_larger_than_the_burst_waits_even_alone() {
    let rare = delay(1e-9, 10, 1000.0, 4.0);
    // Messages 5 to 10 wait 1 to 6 ms.
    assert!((rare.mean_s(Which::Any) - 0.0021).abs() < 1e-9);
    assert!((rare.mean_s(Which::LastOfBatch) - 0.006).abs() < 1e-9);
    assert!((rare.tail(Which::Any, 0.0035) - 0.3).abs() < 1e-6);
    assert!((rare.percentile_s(Which::Any, 65.0).expect("in range") - 0.003).abs() < 1e-9);
    assert_eq!(rare.percentile_s(Which::Any, 39.0), Ok(0.0));
    assert_eq!(rare.equation_1_s(), None);
}

#[test]
fn littles_law() {
    let delay = delay(0.9, 1, 1000.0, 1.0);
    // With a burst of one, who waits for tokens is who waits in an M/D/1 queue: ρ²/(2(1 − ρ)).
    assert!(near(delay.waiting_messages(), 0.81 / 0.2));
}

#[test]
fn a_split_costs_at_least_k_times() {
    let one = delay(0.9, 1, 1000.0, 60.0);
    let penalties = one.penalties(6, Batches::Whole, 99.9).expect("60 over 6");
    assert_eq!(penalties.len(), 6);
    assert_eq!(penalties[0].mean_ratio, Some(1.0));
    for pair in penalties.windows(2) {
        assert!(pair[1].mean_s > pair[0].mean_s && pair[1].percentile_s >= pair[0].percentile_s);
    }
    for penalty in &penalties {
        let alone = delay(
            0.9,
            1,
            1000.0 / f64::from(penalty.brokers),
            60.0 / f64::from(penalty.brokers),
        );
        assert!(near(penalty.mean_s, alone.mean_s(Which::Any)));
        assert!(
            penalty.mean_ratio >= Some(f64::from(penalty.brokers)),
            "{penalty:?}"
        );
    }
    // Batches of 6 kept apart meet buckets that are as much smaller: only the rate's part is left.
    let batches = delay(0.9, 6, 1000.0, 60.0);
    let last = |delay: &AccessDelay| delay.mean_s(Which::LastOfBatch);
    for brokers in [2, 3, 6] {
        let divided = batches
            .split(brokers, Batches::Divided)
            .expect("6 is divisible");
        assert!(near(last(&divided), last(&batches)));
        let whole = batches.split(brokers, Batches::Whole).expect("60 over 6");
        assert!(last(&whole) > f64::from(brokers) * last(&batches));
    }
}

#[test]
fn what_has_no_answer_is_refused() {
    let new = |arriving, batch, r| AccessDelay::new(poisson(arriving, batch), rate(r), burst(10.0));
    for arriving in [100.0, 101.0] {
        let error = new(arriving, 1, 100.0).expect_err("unstable").to_string();
        assert!(error.contains("must be below the rate"), "{error}");
    }
    assert_eq!(
        new(1.0, 0, 2.0).expect_err("empty"),
        TheoryError::EmptyBatch
    );
    let ten = new(50.0, 10, 100.0).expect("stable");
    for (brokers, batches, text) in [
        (0, Batches::Whole, "cannot be split over 0"),
        (0, Batches::Divided, "cannot be split over 0"),
        (
            11,
            Batches::Whole,
            "a burst of 10 cannot be split over 11 brokers",
        ),
        (
            4,
            Batches::Divided,
            "a batch of 10 messages cannot be divided evenly over 4",
        ),
    ] {
        let error = ten.split(brokers, batches).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    }
    assert!(ten.penalties(10, Batches::Whole, 99.0).is_ok());
    assert!(ten.penalties(11, Batches::Whole, 99.0).is_err());
    for percentile in [-1.0, 100.0, f64::NAN] {
        assert!(ten.percentile_s(Which::Any, percentile).is_err());
        let least = smallest_burst(poisson(1.0, 1), rate(2.0), percentile, Duration::ZERO);
        assert!(least.is_err());
    }
}

#[test]
fn edges_stay_finite() {
    for load in [1e-9, 0.5, 0.999, 1.0 - 1e-12] {
        for batch in [1, 10, 1000] {
            for b in [1.0, 1.5, 1e4, 1e12] {
                let delay = delay(load, batch, 1e4, b);
                for which in [Which::Any, Which::LastOfBatch] {
                    let mean_s = delay.mean_s(which);
                    assert!(
                        mean_s >= 0.0 && mean_s.is_finite(),
                        "{load} {batch} {b}: {mean_s}"
                    );
                    let percentile_s = delay.percentile_s(which, 99.999).expect("in range");
                    assert!(percentile_s >= 0.0 && percentile_s.is_finite());
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn delays_fall_with_the_burst_and_grow_with_the_load(
        load in 0.05f64..0.98,
        more in 0.0f64..1.0,
        b in 1.0f64..100.0,
        room in 0.0f64..20.0,
        batch in prop_oneof![Just(1u16), 2u16..20],
        percentile in 1.0f64..99.99,
    ) {
        let figures = |delay: AccessDelay| {
            let percentile_s = delay.percentile_s(Which::Any, percentile).expect("in range");
            [delay.mean_s(Which::Any), percentile_s, delay.mean_s(Which::LastOfBatch)]
        };
        let these = figures(delay(load, batch, 500.0, b));
        let roomier = figures(delay(load, batch, 500.0, b + room));
        let busier = figures(delay(load + (0.98 - load) * more, batch, 500.0, b));
        for (figure, this) in these.into_iter().enumerate() {
            prop_assert!(roomier[figure] <= this * (1.0 + 1e-9) + 1e-12);
            prop_assert!(busier[figure] >= this * (1.0 - 1e-9) - 1e-12);
        }
    }

    #[test]
    fn the_smallest_burst_meets_the_target_and_one_less_misses_it(
        load in 0.05f64..0.999,
        batch in prop_oneof![Just(1u16), 2u16..20],
        percentile in 1.0f64..99.999,
        target_us in prop_oneof![Just(0u64), 1u64..50_000],
    ) {
        let (traffic, r) = (poisson(load * 700.0, batch), rate(700.0));
        let target = Duration::from_micros(target_us);
        let least = smallest_burst(traffic, r, percentile, target).expect("in range");
        let tail = |b: Burst| {
            let delay = AccessDelay::new(traffic, r, b).expect("stable");
            delay.tail(Which::Any, target.as_secs_f64())
        };
        let above = (100.0 - percentile) / 100.0;
        prop_assert!(tail(least) <= above * (1.0 + 1e-12));
        if least.get() > 1.0 {
            prop_assert!(tail(burst(least.get() - 1.0)) > above * (1.0 - 1e-12));
        }
    }
}
