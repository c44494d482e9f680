//! The M/D/1 tail against exact arithmetic, the classical series, known means and its own laws.

use proptest::prelude::*;

use super::*;

fn queue(load: f64) -> Md1 {
    Md1::new(load).expect("stable")
}

/// Load, x, P(W > x), from the alternating series in decimal arithmetic of 60 to 1,260 digits.
const TAILS: [(f64, f64, f64); 66] = [
    (0.01, 0.25, 0.007521903670262866),
    (0.01, 1.75, 3.414921921447533e-06),
    (0.01, 5.0, 1.6241153112580958e-15),
    (0.01, 10.0, 1.3529454235539018e-29),
    (0.1, 0.25, 0.07721639152801404),
    (0.1, 1.75, 0.0006355852335903188),
    (0.1, 5.0, 4.732763276663934e-09),
    (0.1, 10.0, 6.621657130856992e-17),
    (0.3, 0.25, 0.2454810943807579),
    (0.3, 1.75, 0.01391963393485468),
    (0.3, 5.0, 1.6873475610281125e-05),
    (0.3, 10.0, 5.543669729659445e-10),
    (0.3, 20.75, 1.273555382221458e-19),
    (0.5, 0.25, 0.43342577346658684),
    (0.5, 1.75, 0.07337324325736379),
    (0.5, 5.0, 0.0012357297307816898),
    (0.5, 10.0, 2.309878709285986e-06),
    (0.5, 20.75, 3.14580569446623e-12),
    (0.7, 0.25, 0.6426261350162925),
    (0.7, 1.75, 0.24499744378246113),
    (0.7, 5.0, 0.027275963088120813),
    (0.7, 10.0, 0.0009311257035013243),
    (0.7, 20.75, 6.53818598874832e-07),
    (0.7, 63.5, 1.8818781108746242e-19),
    (0.7, 65.25, 5.770623183075528e-20),
    (0.8, 0.25, 0.7557194483679661),
    (0.8, 1.75, 0.4076142626779262),
    (0.8, 5.0, 0.10049723824639821),
    (0.8, 10.0, 0.011657108265013453),
    (0.8, 20.75, 0.00011353573905469802),
    (0.8, 63.5, 1.1378309317963612e-12),
    (0.8, 65.25, 5.353416656495999e-13),
    (0.9, 0.25, 0.8747677283808136),
    (0.9, 1.75, 0.6494980640669369),
    (0.9, 5.0, 0.33129084949155935),
    (0.9, 10.0, 0.11759697957028051),
    (0.9, 20.75, 0.012685231521756175),
    (0.9, 63.5, 1.8088308957166012e-06),
    (0.9, 65.25, 1.2588194564856116e-06),
    (0.9, 200.5, 8.560991630913597e-19),
    (0.95, 0.25, 0.936596250160464),
    (0.95, 1.75, 0.8090185390345604),
    (0.95, 5.0, 0.5812775507845401),
    (0.95, 10.0, 0.3495359207174908),
    (0.95, 20.75, 0.11710484527662965),
    (0.95, 63.5, 0.0015133927511149423),
    (0.95, 65.25, 0.0012666003042190806),
    (0.95, 200.5, 1.3412869424970308e-09),
    (0.99, 0.25, 0.9871918063761628),
    (0.99, 1.75, 0.959053543821502),
    (0.99, 5.0, 0.8985036220998022),
    (0.99, 10.0, 0.8127268838153133),
    (0.99, 20.75, 0.655025153429344),
    (0.99, 63.5, 0.27777307312867494),
    (0.99, 65.25, 0.26818768335842724),
    (0.99, 200.5, 0.017771744783084745),
    (0.99, 1000.0, 1.914511354107583e-09),
    (0.999, 0.25, 0.998716295549544),
    (0.999, 1.75, 0.9958404321588267),
    (0.999, 5.0, 0.9893865049116607),
    (0.999, 10.0, 0.9795386728593609),
    (0.999, 20.75, 0.95869649818159),
    (0.999, 63.5, 0.8801092331852157),
    (0.999, 65.25, 0.8770332113658574),
    (0.999, 200.5, 0.6691141237345503),
    (0.999, 1000.0, 0.13515486627215384),
];

#[test]
fn tails_are_those_of_exact_arithmetic() {
    for (load, x, expected) in TAILS {
        let tail = queue(load).tail(x);
        assert!(
            (tail / expected - 1.0).abs() < 1e-12,
            "load {load} x {x}: {tail:e} {expected:e}"
        );
    }
}

/// Erlang's series, which an `f64` can bear for small x.
#[test]
fn tails_are_those_of_the_classical_series() {
    for step in 1..100u32 {
        let load = f64::from(step) / 100.0;
        for tenths in 0..40u32 {
            let x = f64::from(tenths) / 10.0;
            let (mut below, mut factorial) = (0.0, 1.0);
            for j in 0..=x.floor() as i32 {
                factorial *= f64::from(j.max(1));
                let work = load * (x - f64::from(j));
                below += work.exp() * (-work).powi(j) / factorial;
            }
            let expected = 1.0 - (1.0 - load) * below;
            let tail = queue(load).tail(x);
            assert!(
                (tail - expected).abs() < 1e-12,
                "load {load} x {x}: {tail} {expected}"
            );
        }
    }
}

/// Pollaczek and Khinchine: E[W] = ρ/(2(1 − ρ)).
#[test]
fn the_mean_wait_is_the_known_one() {
    for load in [
        1e-9,
        1e-3,
        0.1,
        0.5,
        0.9,
        0.99,
        0.999,
        1.0 - 1e-9,
        1.0 - 1e-15,
    ] {
        let queue = queue(load);
        let expected = load / (2.0 * queue.idle());
        assert!(
            (queue.excess(0.0) / expected - 1.0).abs() < 1e-12,
            "load {load}"
        );
        assert!((queue.tail(0.0) / load - 1.0).abs() < 1e-12, "load {load}");
        let decay = queue.decay();
        let left = load * decay.exp_m1() / decay;
        assert!(
            (left - 1.0).abs() < 1e-12,
            "load {load} decay {decay}: {left}"
        );
    }
}

/// The excess is the integral of the tail, here by Simpson's rule between the kinks.
#[test]
fn the_excess_is_the_integral_of_the_tail() {
    for load in [0.1, 0.5, 0.8, 0.95] {
        let queue = queue(load);
        for (from, to) in [
            (0.0, 1.0),
            (0.5, 1.0),
            (3.0, 3.75),
            (20.0, 21.0),
            (63.0, 64.0),
            (70.0, 71.0),
        ] {
            let width = (to - from) / 200.0;
            let at = |step: i32| queue.tail(from + width * f64::from(step));
            let panel = |n: i32| at(2 * n) + 4.0 * at(2 * n + 1) + at(2 * n + 2);
            // The tail jumps only at 0; approach the upper end from below.
            let integral: f64 = (0..100).map(panel).sum::<f64>() * width / 3.0;
            let excess = queue.excess(from) - queue.excess(to);
            assert!(
                (integral - excess).abs() <= 1e-9 * queue.excess(from),
                "load {load} {from} to {to}: {integral:e} {excess:e}"
            );
        }
    }
}

#[test]
fn edges() {
    for load in [f64::NAN, f64::INFINITY, -0.5, 0.0, 1.0, 2.0] {
        assert!(
            matches!(Md1::new(load), Err(TheoryError::Load { .. })),
            "{load}"
        );
    }
    for load in [f64::MIN_POSITIVE, 1e-12, 0.5, 0.999, 1.0 - f64::EPSILON] {
        let queue = queue(load);
        for x in [0.0, 1e-300, 0.5, 1.0, 63.999_999, 64.0, 1e4, 1e12, f64::MAX] {
            let (tail, excess) = (queue.tail(x), queue.excess(x));
            assert!((0.0..=1.0).contains(&tail), "load {load} x {x}: {tail}");
            assert!(
                excess >= 0.0 && excess.is_finite(),
                "load {load} x {x}: {excess}"
            );
        }
        assert_eq!(queue.tail(-1e-9), 1.0);
        assert!((queue.excess(-3.0) - queue.excess(0.0) - 3.0).abs() < 1e-9 * queue.excess(-3.0));
        assert_eq!(queue.quantile(1.0), 0.0);
        assert!(queue.quantile(1e-300).is_finite());
    }
}

proptest! {
    #[test]
    fn tails_fall_with_x_and_grow_with_the_load(
        load in 0.01f64..0.999,
        more in 0.0f64..1.0,
        x in 0.0f64..130.0,
        further in 0.0f64..5.0,
    ) {
        let tail = queue(load).tail(x);
        prop_assert!(queue(load).tail(x + further) <= tail * (1.0 + 1e-10));
        let greater = load + (0.999 - load) * more;
        prop_assert!(queue(greater).tail(x) >= tail * (1.0 - 1e-10));
        prop_assert!(queue(load).excess(x + further) <= queue(load).excess(x) * (1.0 + 1e-10));
        prop_assert!(queue(greater).excess(x) >= queue(load).excess(x) * (1.0 - 1e-10));
    }

    #[test]
    fn a_quantile_undoes_a_tail(load in 0.05f64..0.999, power in 0.0f64..25.0) {
        let queue = queue(load);
        let probability = 10f64.powf(-power);
        let x = queue.quantile(probability);
        prop_assert!(queue.tail(x) <= probability * (1.0 + 1e-9));
        if x > 0.0 {
            prop_assert!(queue.tail(x * (1.0 - 1e-9)) >= probability * (1.0 - 1e-9));
        }
    }
}
