//! Searches on brokers whose knee is known.

use clock::Xoshiro256PlusPlus;
use proptest::prelude::*;

use super::*;

const CONFIDENCE: Confidence = Confidence {
    level: 0.95,
    draws: 400,
};

fn options(seed: u64) -> SearchOptions {
    SearchOptions {
        start: 20_000.0,
        least: 200.0,
        most: 200_000.0,
        tolerance: 0.05,
        repeats: 5,
        max_runs: 120,
        seed,
    }
}

/// Runs a whole search; `run` gives the verdict at a rate.
fn found(options: SearchOptions, mut run: impl FnMut(f64) -> Verdict) -> Search {
    let mut search = Search::new(options);
    while let Some(step) = search.next_step() {
        let verdict = run(search.rate(step));
        search.record(step, verdict);
    }
    search
}

/// A broker whose knee is `knee`, in each run a little elsewhere: the logarithm has the deviation `noise`.
fn broker(knee: f64, noise: f64, mut random: Xoshiro256PlusPlus) -> impl FnMut(f64) -> Verdict {
    move |rate| {
        let this_run = knee * (noise * normal(&mut random)).exp();
        verdict(rate <= this_run)
    }
}

fn verdict(met: bool) -> Verdict {
    if met { Verdict::Met } else { Verdict::Missed }
}

/// A standard normal number (Box and Muller, 1958).
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// The knees of the 200 searches of [`intervals_hold_the_knee_as_often_as_they_say`].
fn knee_of(search: u64) -> f64 {
    let mut random = stream(search, "knee");
    let part = random.next_u64() as f64 / u64::MAX as f64;
    2000.0 * 50.0_f64.powf(part)
}

#[test]
fn intervals_hold_the_knee_as_often_as_they_say() {
    for noise in [0.0, 0.01, 0.03, 0.06, 0.12] {
        let (mut covered, mut runs, mut width, mut error) = (0, 0, 0.0, 0.0);
        for seed in 0..200 {
            let knee = knee_of(seed);
            let search = found(options(seed), broker(knee, noise, stream(seed, "noise")));
            assert!(search.is_settled(), "noise {noise}, seed {seed}");
            let Finding::Knee(estimate) = search.finding(CONFIDENCE) else {
                panic!(
                    "noise {noise}, seed {seed}: {:?}",
                    search.finding(CONFIDENCE)
                );
            };
            covered += u32::from(estimate.low <= knee && knee <= estimate.high);
            runs += search.runs();
            width += (estimate.high / estimate.low).ln() / 200.0;
            error += (estimate.knee / knee).ln() / 200.0;
        }
        println!(
            "noise {noise}: {covered} of 200 covered, {} runs, width {width:.3}, bias {error:+.4}",
            runs / 200
        );
        assert!(covered >= 185, "noise {noise}: {covered} of 200");
        assert!(error.abs() < 0.02, "noise {noise}: bias {error}");
        assert!(width < 0.06 + 4.0 * noise, "noise {noise}: width {width}");
    }
}

#[test]
fn one_lucky_or_unlucky_run_is_outvoted() {
    for odd_run in 0..12 {
        let mut run = 0;
        let search = found(options(7), |rate| {
            run += 1;
            verdict((rate <= 47_000.0) != (run == odd_run))
        });
        let Finding::Knee(estimate) = search.finding(CONFIDENCE) else {
            panic!("run {odd_run}: no knee");
        };
        assert!(
            (estimate.knee / 47_000.0).ln().abs() < 0.05,
            "run {odd_run}: {}",
            estimate.knee
        );
    }
}

#[test]
fn a_goal_that_no_rate_meets_is_infeasible() {
    let search = found(options(1), |_| Verdict::Missed);
    let Finding::Infeasible { rate } = search.finding(CONFIDENCE) else {
        panic!("{:?}", search.finding(CONFIDENCE));
    };
    assert!((200.0..=210.0).contains(&rate), "{rate}");
    let last = search.votes().next().map(|(_, votes)| votes.missed);
    assert_eq!(last, Some(5), "it is repeated before it is said");
}

#[test]
fn a_goal_that_every_rate_meets_gives_a_lower_bound() {
    let search = found(options(1), |_| Verdict::Met);
    let Finding::AtLeast { rate, limit } = search.finding(CONFIDENCE) else {
        panic!("{:?}", search.finding(CONFIDENCE));
    };
    assert!((190_000.0..=200_000.0).contains(&rate), "{rate}");
    assert_eq!(limit, Limit::HighestRate);
}

#[test]
fn where_the_generator_gives_up_the_result_is_a_lower_bound() {
    let search = found(options(1), |rate| {
        if rate > 61_000.0 {
            Verdict::Vain
        } else {
            Verdict::Met
        }
    });
    let Finding::AtLeast { rate, limit } = search.finding(CONFIDENCE) else {
        panic!("{:?}", search.finding(CONFIDENCE));
    };
    assert!((58_000.0..=61_000.0).contains(&rate), "{rate}");
    assert_eq!(limit, Limit::Generator);
}

#[test]
fn misses_beyond_the_generator_do_not_count() {
    let search = found(options(1), |rate| match rate {
        rate if rate > 80_000.0 => Verdict::Missed,
        rate if rate > 61_000.0 => Verdict::Vain,
        _ => Verdict::Met,
    });
    assert!(matches!(
        search.finding(CONFIDENCE),
        Finding::AtLeast { rate, limit: Limit::Generator } if (58_000.0..=61_000.0).contains(&rate)
    ));
}

#[test]
fn a_generator_that_is_always_late_leaves_it_open() {
    let search = found(options(1), |_| Verdict::Vain);
    let unknown = Finding::Unknown {
        limit: Limit::Generator,
    };
    assert_eq!(search.finding(CONFIDENCE), unknown);
    assert!(search.runs() <= 16, "it does not go on for long");
}

#[test]
fn vain_runs_now_and_then_are_repeated_and_change_nothing() {
    let mut run = 0;
    let search = found(options(2), |rate| {
        run += 1;
        if run % 3 == 0 {
            Verdict::Vain
        } else {
            verdict(rate <= 33_000.0)
        }
    });
    let Finding::Knee(estimate) = search.finding(CONFIDENCE) else {
        panic!("{:?}", search.finding(CONFIDENCE));
    };
    assert!(
        estimate.low <= 33_000.0 && 33_000.0 <= estimate.high,
        "{estimate:?}"
    );
}

#[test]
fn a_search_cut_short_says_so() {
    let cut = |max_runs, knee: f64| {
        let options = SearchOptions {
            max_runs,
            ..options(1)
        };
        let search = found(options, |rate| verdict(rate <= knee));
        assert!(!search.is_settled());
        search.finding(CONFIDENCE)
    };
    let first = Finding::AtLeast {
        rate: 20_000.0,
        limit: Limit::Runs,
    };
    assert_eq!(cut(1, 50_000.0), first);
    assert_eq!(cut(0, 50_000.0), Finding::Unknown { limit: Limit::Runs });
    assert_eq!(cut(2, 1000.0), Finding::Unknown { limit: Limit::Runs });
    assert!(matches!(cut(8, 50_000.0), Finding::Knee(_)));
}

#[test]
fn repetitions_are_not_run_in_rising_order() {
    let mut rates = Vec::new();
    found(options(1), |rate| {
        rates.push(rate);
        verdict(rate <= 30_000.0)
    });
    let repetitions = &rates[rates.len() - 12..];
    let rising = repetitions
        .windows(2)
        .filter(|pair| pair[0] < pair[1])
        .count();
    assert!((2..=9).contains(&rising), "{repetitions:?}");
}

proptest! {
    #[test]
    fn every_search_ends_within_its_bounds(
        knee in 50.0..1e6_f64,
        noise in 0.0..0.3_f64,
        vain_part in 0.0..0.6_f64,
        tolerance in 0.01..0.3_f64,
        max_runs in 1_u32..150,
        start in 200.0..200_000.0_f64,
        seed in any::<u64>(),
    ) {
        let options = SearchOptions { start, tolerance, max_runs, ..options(seed) };
        let mut broker = broker(knee, noise, stream(seed, "noise"));
        let mut random = stream(seed, "vain");
        let mut rates = Vec::new();
        let search = found(options, |rate| {
            rates.push(rate);
            let is_vain = (random.next_u64() as f64) < vain_part * u64::MAX as f64;
            if is_vain { Verdict::Vain } else { broker(rate) }
        });
        prop_assert!(search.runs() <= max_runs && search.runs() as usize == rates.len());
        prop_assert!(rates.iter().all(|rate| (199.99..200_000.01).contains(rate)), "{rates:?}");
        // Without the bound it ends as well.
        if max_runs > 120 && vain_part < 0.05 && noise < tolerance {
            prop_assert!(search.is_settled());
        }
    }

    #[test]
    fn equal_seeds_run_equal_searches(knee in 1000.0..100_000.0_f64, seed in any::<u64>()) {
        let run = || {
            let search = found(options(seed), broker(knee, 0.05, stream(seed, "noise")));
            (search.votes().collect::<Vec<_>>(), search.finding(CONFIDENCE))
        };
        prop_assert_eq!(run(), run());
    }
}
