//! Rates, gaps, ramps, pauses.

use super::*;

#[test]
fn rates_are_those_asked_for() {
    for (class, tolerance) in [(poisson(), 0.02), (periodic(), 0.001)] {
        for batch_messages in [1, 5, 10] {
            for group_publishers in [1, 10, 30] {
                let class = Class {
                    batch_messages,
                    group_publishers,
                    ..class.clone()
                };
                // As many turns of groups for each, so that the tolerance holds for all.
                let seconds = 50.0 * f64::from(batch_messages) * f64::from(group_publishers);
                let sent = messages(&between(&class, 0.0, seconds));
                let error = (sent / (1000.0 * seconds) - 1.0).abs();
                assert!(error < tolerance, "{class:?}: off by {error}");
            }
        }
    }
}

#[test]
fn classes_add_up() {
    let classes = vec![
        poisson(),
        Class::new(20, 100.0),
        Class {
            batch_messages: 4,
            ..Class::new(10, 50.0)
        },
    ];
    let mut sent = [0.0; 3];
    for arrival in spec(classes)
        .arrivals()
        .take_while(|arrival| arrival.at_ns < 60 * SECOND_NS)
    {
        let class = match arrival.publisher {
            0..100 => 0,
            100..120 => 1,
            _ => 2,
        };
        sent[class] += f64::from(arrival.messages);
    }
    for (class, per_second) in [1000.0, 2000.0, 500.0].into_iter().enumerate() {
        let error: f64 = sent[class] / 60.0 / per_second - 1.0;
        assert!(error.abs() < 0.03, "class {class}: off by {error}");
    }
}

#[test]
fn poisson_gaps_are_exponential_and_publishers_uniform() {
    let sends = first(&poisson(), 100_000);
    let gaps: Vec<f64> = sends
        .windows(2)
        .map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64)
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    // Largest distance to the exponential distribution (Kolmogorov, Smirnov): 99.9 % of draws are below 1.95 / √n.
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let distance = (1..)
        .zip(&sorted)
        .map(|(rank, gap)| (1.0 - (-gap / mean).exp() - f64::from(rank) / count).abs())
        .fold(0.0, f64::max);
    assert!(distance < 1.95 / count.sqrt(), "{distance}");
    // Neighbouring gaps know nothing of each other.
    let product = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
    let correlation = gaps.windows(2).map(product).sum::<f64>() / count / (mean * mean);
    assert!(correlation.abs() < 3.3 / count.sqrt(), "{correlation}");
    let mut counts = [0_f64; 100];
    for send in &sends {
        counts[send.publisher as usize] += 1.0;
    }
    // Chi-square with 99 degrees of freedom: 99.9 % of draws lie below 149.
    let square = |count: &f64| (count - 1000.0).powi(2) / 1000.0;
    let chi_square: f64 = counts.iter().map(square).sum();
    assert!(chi_square < 149.0, "{chi_square}");
}

#[test]
fn periodic_publishers_keep_their_gap_and_differ_in_phase() {
    let sends = first(&periodic(), 1000);
    for publisher in 0..100 {
        let mine: Vec<u64> = sends
            .iter()
            .filter(|send| send.publisher == publisher)
            .map(|send| send.at_ns)
            .collect();
        assert_eq!(mine.len(), 10);
        let is_kept = |pair: &[u64]| (pair[1] - pair[0]).abs_diff(SECOND_NS / 10) <= 1;
        assert!(mine.windows(2).all(is_kept));
    }
    let mut phases: Vec<u64> = sends[..100].iter().map(|send| send.at_ns).collect();
    phases.dedup();
    assert_eq!(phases.len(), 100);
    // Spread over the period: a tenth of them in each tenth, give or take.
    for tenth in 0..10 {
        let begin_ns = tenth * SECOND_NS / 100;
        let within = phases
            .iter()
            .filter(|at| (begin_ns..begin_ns + SECOND_NS / 100).contains(at));
        assert!((2..=20).contains(&within.count()), "tenth {tenth}");
    }
}

#[test]
fn a_ramp_sends_the_area_below_it() {
    // Multiples of 1,000 messages/s, from, to, over 10 s; then intervals in seconds and the messages in them.
    let cases = [
        (
            0.0,
            2.0,
            [
                (0.0, 5.0, 2500.0),
                (5.0, 10.0, 7500.0),
                (10.0, 12.0, 4000.0),
            ],
        ),
        (
            2.0,
            0.0,
            [(0.0, 5.0, 7500.0), (5.0, 10.0, 2500.0), (10.0, 12.0, 0.0)],
        ),
        (
            1.0,
            1.0,
            [
                (0.0, 5.0, 5000.0),
                (5.0, 10.0, 5000.0),
                (10.0, 12.0, 2000.0),
            ],
        ),
        (
            0.5,
            1.5,
            [
                (0.0, 5.0, 3750.0),
                (5.0, 10.0, 6250.0),
                (10.0, 12.0, 3000.0),
            ],
        ),
    ];
    for (from, to, intervals) in cases {
        for (class, tolerance) in [(poisson(), 4.0), (periodic(), 1.0)] {
            let class = Class {
                ramp: ramp(from, to, 10),
                ..class
            };
            for (begin_s, end_s, expected) in intervals {
                let sent = messages(&between(&class, begin_s, end_s));
                // Four standard deviations of a Poisson number; a periodic one is off by its 100 phases at most.
                let allowed = match class.arrivals {
                    Pattern::Poisson => tolerance * f64::sqrt(expected),
                    Pattern::Periodic => 100.0,
                };
                assert!(
                    (sent - expected).abs() <= allowed,
                    "{from} to {to}, {begin_s} s: {sent}"
                );
            }
        }
    }
}

#[test]
fn pauses_send_their_part_of_the_time() {
    let (on, off) = (Duration::from_millis(500), Duration::from_millis(1500));
    // The last: a gap ten times as long as the time on, and one that divides the cycle.
    for (class, tolerance) in [
        (poisson(), 0.03),
        (periodic(), 0.01),
        (
            Class {
                batch_messages: 50,
                ..periodic()
            },
            0.03,
        ),
        (
            Class {
                batch_messages: 20,
                ..periodic()
            },
            0.03,
        ),
        (
            Class {
                batch_messages: 10,
                group_publishers: 10,
                ..periodic()
            },
            0.03,
        ),
    ] {
        let class = Class { on, off, ..class };
        let seconds = 400.0;
        let sent = messages(&between(&class, 0.0, seconds));
        let error = sent / (100.0 * class.mean_rate() * seconds) - 1.0;
        assert!(error.abs() < tolerance, "{class:?}: off by {error}");
    }
}

#[test]
fn a_publisher_that_is_off_is_silent() {
    let (on, off) = (Duration::from_millis(300), Duration::from_millis(700));
    for class in [poisson(), periodic()] {
        let class = Class {
            on,
            off,
            count: 20,
            rate: 100.0,
            ..class
        };
        let sends = between(&class, 0.0, 20.0);
        for publisher in 0..20 {
            let mine = || sends.iter().filter(move |send| send.publisher == publisher);
            // In which part of a second is it on? Sent in at least 10 seconds, it covers a third of the circle.
            let mut hits = [false; 100];
            for send in mine() {
                hits[(send.at_ns % SECOND_NS / (SECOND_NS / 100)) as usize] = true;
            }
            let busy = hits.iter().filter(|hit| **hit).count();
            assert!((25..=31).contains(&busy), "{publisher}: {busy} hundredths");
            let edges = (0..100).filter(|i| hits[*i] != hits[(i + 1) % 100]).count();
            assert_eq!(
                edges, 2,
                "publisher {publisher} is on in one piece: {hits:?}"
            );
        }
    }
}

#[test]
fn a_periodic_clock_stands_still_while_off() {
    // On for 1 s of 4 s, a send each 0.25 s of its own time: four sends in each piece, 0.25 s apart, or one less gap.
    let class = Class {
        arrivals: Pattern::Periodic,
        on: Duration::from_secs(1),
        off: Duration::from_secs(3),
        ..Class::new(1, 4.0)
    };
    let sends = between(&class, 0.0, 400.0);
    let quarter_ns = SECOND_NS / 4;
    for pair in sends.windows(2) {
        let gap_ns = pair[1].at_ns - pair[0].at_ns;
        let is_kept = gap_ns.abs_diff(quarter_ns) <= 2;
        let is_kept_over_a_pause = gap_ns.abs_diff(quarter_ns + 3 * SECOND_NS) <= 2;
        assert!(is_kept || is_kept_over_a_pause, "{gap_ns}");
    }
    assert!((396..=404).contains(&sends.len()), "{}", sends.len());
}

#[test]
fn pauses_and_a_ramp_go_together() {
    for class in [poisson(), periodic()] {
        let class = Class {
            on: Duration::from_millis(100),
            off: Duration::from_millis(100),
            ramp: ramp(0.0, 2.0, 100),
            ..class
        };
        // Half the time on, the mean of the ramp 1, then 2.
        for (begin_s, end_s, expected) in [(0.0, 100.0, 50_000.0), (100.0, 150.0, 50_000.0)] {
            let sent = messages(&between(&class, begin_s, end_s));
            assert!(
                (sent / expected - 1.0).abs() < 0.03,
                "{:?}: {sent}",
                class.arrivals
            );
        }
    }
}
