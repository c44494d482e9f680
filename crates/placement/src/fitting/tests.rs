//! The parts of a fit, and laws of the whole under any answers. Whole runs are in `tests/fitting.rs`.

use limit::Rate;
use proptest::prelude::*;

use super::search::Search;
use super::*;
use crate::{Arrival, GroupIndex, Neighbour, Policy, PublisherIndex, Trace};

fn publisher(rate: f64, group: Option<u32>) -> Publisher {
    Publisher {
        rate: Rate::new(rate).unwrap(),
        batch_messages: 1,
        group: group.map(GroupIndex),
    }
}

fn config(mode: Mode) -> FitConfig {
    FitConfig {
        policy: Policy::Srtm,
        mode,
        percentile: 99.0,
        slo_us: 1_000.0,
        band: 0.2,
        limit: None,
    }
}

fn broker(mcap: f64) -> BrokerState {
    BrokerState {
        mcap,
        load: 0.0,
        is_available: true,
    }
}

/// Window answers in which every broker's latency is its number of publishers times so much.
fn answers(places: &[Option<BrokerIndex>], brokers: usize, us_each: f64) -> Vec<BrokerWindow> {
    let mut windows = vec![BrokerWindow::default(); brokers];
    for place in places.iter().flatten() {
        let window = &mut windows[place.0 as usize];
        window.messages += 1;
        window.p99_us = Some(window.messages as f64 * us_each);
    }
    windows
}

#[test]
fn words_and_json_of_modes_and_status() {
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    let unknown = "guess".parse::<Mode>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "fit mode \"guess\" is unknown: use one of measure, replay"
    );
    let (fitting, _) = Fitting::begin(
        config(Mode::Measure),
        vec![publisher(1.0, None); 4],
        vec![broker(10.0)],
        vec![ServiceModel::default()],
    )
    .unwrap();
    let json = serde_json::to_value(fitting.status()).unwrap();
    assert_eq!(json["mode"], "measure");
    assert_eq!(json["state"], "placing");
    assert_eq!(json["iterations"][0]["k"], 1);
    assert_eq!(json["iterations"][0]["brokers"][0]["publishers"], 4);
    assert_eq!(
        serde_json::from_value::<FitStatus>(json).unwrap(),
        *fitting.status()
    );
}

#[test]
fn configurations_that_make_no_sense_are_refused_by_name() {
    type Spoil = fn(&mut FitConfig, &mut Vec<ServiceModel>);
    let cases: [(&str, Spoil); 8] = [
        ("percentile 0 is", |config, _| config.percentile = 0.0),
        ("percentile 100 is", |config, _| config.percentile = 100.0),
        ("percentile NaN is", |config, _| {
            config.percentile = f64::NAN
        }),
        ("SLO of -1 us", |config, _| config.slo_us = -1.0),
        ("SLO of inf us", |config, _| config.slo_us = f64::INFINITY),
        ("band 1 is", |config, _| config.band = 1.0),
        ("0 service models for 1 brokers", |_, models| models.clear()),
        ("model of broker 0", |_, models| {
            models[0].per_message_ns = f64::NAN
        }),
    ];
    for (text, spoil) in cases {
        let (mut config, mut models) = (config(Mode::Replay), vec![ServiceModel::default()]);
        spoil(&mut config, &mut models);
        let begun = Fitting::begin(config, vec![], vec![broker(1.0)], models);
        let error = begun.expect_err("refused").to_string();
        assert!(error.contains(text), "{error:?} lacks {text:?}");
    }
}

#[test]
fn a_search_settles_in_the_band_or_at_the_last_that_fits() {
    // Latency in proportion to the number: 10 us each, SLO 1,000, band 20 %: 80 to 100 settle.
    let mut search = Search::new(BrokerIndex(0), (0..1_000).collect(), None);
    let mut tried = Vec::new();
    while !search.is_settled() {
        tried.push(search.kept().len());
        search.narrow(Some(search.kept().len() as f64 * 10.0), 1_000.0, 0.2);
    }
    assert_eq!(tried, [500, 250, 125, 62, 93]);
    assert_eq!(
        (search.kept().len(), search.fitting_us()),
        (93, Some(930.0))
    );
    // A guess is tried first.
    let search = Search::new(BrokerIndex(0), (0..1_000).collect(), Some(0.9));
    assert_eq!(search.kept().len(), 900);
    // One publisher that does not fit: nothing is left to try.
    let search = Search::new(BrokerIndex(0), vec![7], None);
    assert!(search.is_settled() && search.kept().is_empty() && search.shed() == [7]);
}

proptest! {
    #[test]
    fn a_search_finds_the_last_that_fits_in_a_logarithm_of_rounds(
        members in 1usize..3_000, holds in 0usize..3_000, guess in prop::option::of(0.0f64..1.5),
    ) {
        let holds = holds.min(members - 1);
        let mut search = Search::new(BrokerIndex(0), (0..members as u32).collect(), guess);
        let mut rounds = 0;
        while !search.is_settled() {
            rounds += 1;
            let latency = if search.kept().len() <= holds { 1.0 } else { 2_000.0 };
            search.narrow(Some(latency), 1_000.0, 0.2);
        }
        prop_assert_eq!(search.kept().len(), holds);
        prop_assert_eq!(search.kept().len() + search.shed().len(), members);
        prop_assert!(rounds <= members.ilog2() + 2, "{} rounds", rounds);
    }

    #[test]
    fn every_prefix_of_the_shedding_order_is_a_fair_picture(
        groups in prop::collection::vec(prop::option::of(0u32..6), 1..120), prefix in 0.0f64..1.0,
    ) {
        let publishers: Vec<_> = groups.iter().map(|&group| publisher(1.0, group)).collect();
        let members: Vec<u32> = (0..publishers.len() as u32).collect();
        let order = shedding_order(&publishers, members.clone(), Policy::Srtm);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &members);
        let kept = (order.len() as f64 * prefix) as usize;
        let count = |members: &[u32], group| {
            members.iter().filter(|&&at| groups[at as usize] == group).count() as f64
        };
        for group in [None, Some(0), Some(1), Some(2), Some(3), Some(4), Some(5)] {
            let share = count(&order[..kept], group);
            let fair = count(&order, group) * kept as f64 / order.len() as f64;
            // All groups reach the same height, up to one step of the least group each.
            prop_assert!((share - fair).abs() <= 1.5 + 0.5 * fair.sqrt(), "{share} for {fair}");
        }
        prop_assert_eq!(shedding_order(&publishers, members.clone(), Policy::MaxMin), members);
    }
}

#[test]
fn what_is_shed_waits_at_brokers_that_are_not_measured() {
    let publishers: Vec<_> = (0..600).map(|at| publisher(1.0, Some(at % 20))).collect();
    let (brokers, models) = (vec![broker(700.0); 8], vec![ServiceModel::default(); 8]);
    let (mut fitting, mut step) =
        Fitting::begin(config(Mode::Measure), publishers, brokers, models).unwrap();
    let mut rounds = 0;
    // Each broker holds 125.
    while let Step::Measure(places) = &step {
        if let Phase::Searching(searches) = &fitting.phase {
            rounds += 1;
            for (place, home) in places.iter().zip(&fitting.places.home) {
                let Some(broker) = place else {
                    panic!("there is room to wait")
                };
                let is_searching = searches.iter().any(|search| search.broker == *broker);
                let is_measured = is_searching || fitting.places.full[broker.0 as usize];
                assert!(
                    home.is_none_or(|home| home == *broker),
                    "who has a home is there"
                );
                assert!(home.is_some() || !is_measured, "nobody waits at {broker:?}");
            }
        }
        let answers = answers(places, 8, 8.0);
        step = fitting.measured(&Window {
            brokers: &answers,
            trace: None,
            seconds: 60.0,
            neighbours: &[],
        });
    }
    assert!(matches!(step, Step::Done(_)), "{:?}", fitting.status());
    assert!(rounds >= 4, "{rounds}");
    // Where all are measured, those shed are withheld.
    let publishers = vec![publisher(1.0, None); 100];
    let (brokers, models) = (vec![broker(60.0); 2], vec![ServiceModel::default(); 2]);
    let (mut fitting, step) =
        Fitting::begin(config(Mode::Measure), publishers, brokers, models).unwrap();
    let Step::Measure(places) = step else {
        panic!("two hold them by rate")
    };
    let answers = answers(&places, 2, 80.0);
    let step = fitting.measured(&Window {
        brokers: &answers,
        trace: None,
        seconds: 60.0,
        neighbours: &[],
    });
    let Step::Measure(places) = step else {
        panic!("searches")
    };
    assert_eq!(places.iter().filter(|place| place.is_none()).count(), 50);
}

#[test]
fn before_brokers_are_called_for_the_even_distribution_is_tried() {
    // Brokers hold 45 publishers, but fewer than 30 with a tiny share of the limit: the third would be left with too few.
    let publishers = vec![publisher(1.0, None); 100];
    let (brokers, models) = (vec![broker(200.0); 3], vec![ServiceModel::default(); 3]);
    let (mut fitting, mut step) =
        Fitting::begin(config(Mode::Measure), publishers, brokers, models).unwrap();
    while let Step::Measure(places) = &step {
        let mut answers = answers(places, 3, 22.0);
        for answer in answers.iter_mut().filter(|answer| answer.messages < 30) {
            answer.p99_us = answer.p99_us.map(|_| 5_000.0);
        }
        step = fitting.measured(&Window {
            brokers: &answers,
            trace: None,
            seconds: 60.0,
            neighbours: &[],
        });
    }
    let Step::Done(places) = step else {
        panic!("{:?}", fitting.status())
    };
    for at in 0..3 {
        let there = places.iter().filter(|place| place.0 == at).count();
        assert!((33..=34).contains(&there), "{there}");
    }
    assert_eq!(fitting.status().iterations.last().unwrap().rounds, 1);
}

#[test]
fn a_latency_that_no_service_time_explains_leaves_the_model_alone() {
    let publishers = vec![publisher(10.0, None); 45];
    let (brokers, models) = (vec![broker(1e4); 2], vec![ServiceModel::default(); 2]);
    let (mut fitting, _) =
        Fitting::begin(config(Mode::Replay), publishers, brokers, models.clone()).unwrap();
    let slow = [BrokerWindow {
        p99_us: Some(1e7),
        messages: 1_000,
    }; 2];
    let trace = small_trace();
    fitting.measured(&Window {
        brokers: &slow,
        trace: Some(&trace),
        seconds: 60.0,
        neighbours: &[],
    });
    let told = |text: &str| {
        fitting
            .status()
            .problems
            .iter()
            .any(|problem| problem.contains(text))
    };
    assert!(
        told("broker 0: no service time explains the 10000000 us"),
        "{:?}",
        fitting.status()
    );
    assert_eq!(fitting.recording.calibration.believed(), models);
}

#[test]
fn groups_that_become_known_count_from_the_next_step_on() {
    let publishers = vec![publisher(1.0, None); 40];
    let (brokers, models) = (vec![broker(100.0); 2], vec![ServiceModel::default(); 2]);
    let (mut fitting, _) =
        Fitting::begin(config(Mode::Measure), publishers, brokers, models).unwrap();
    // Contiguous groups of four, which a group-blind order would keep together.
    let groups: Vec<_> = (0..40).map(|at| Some(GroupIndex(at / 4))).collect();
    fitting.regroup(&groups[1..]);
    assert!(fitting.places.publishers[0].group.is_none(), "one too few");
    fitting.regroup(&groups);
    let slow = [BrokerWindow {
        p99_us: Some(2_000.0),
        messages: 40,
    }; 2];
    let step = fitting.measured(&Window {
        brokers: &slow,
        trace: None,
        seconds: 60.0,
        neighbours: &[],
    });
    let Step::Measure(places) = step else {
        panic!("searches")
    };
    for group in places.chunks(4) {
        assert_eq!(
            group
                .iter()
                .filter(|place| **place == Some(BrokerIndex(0)))
                .count(),
            2
        );
    }
}

/// What may happen to a fit between two of its steps.
#[derive(Clone, Debug)]
enum Event {
    Answer(Vec<(Option<f64>, u64)>, bool),
    Add(f64),
    Lose(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let latency = prop_oneof![
        3 => (1.0f64..3_000.0).prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec![f64::NAN, 0.0, -3.0, f64::INFINITY, 1e300]).prop_map(Some),
    ];
    let answer = prop::collection::vec((latency, 0u64..3), 0..6);
    prop_oneof![
        20 => (answer, any::<bool>()).prop_map(|(answer, traced)| Event::Answer(answer, traced)),
        1 => prop::sample::select(vec![0.0, 30.0, f64::NAN]).prop_map(Event::Add),
        1 => (0u32..7).prop_map(Event::Lose),
    ]
}

fn small_trace() -> Trace {
    let arrival = |at: u64| Arrival {
        at_ns: at * 1_000_000,
        publisher: PublisherIndex((at % 45) as u32),
        messages: 3,
    };
    Trace::new((0..400).map(arrival).collect(), 0, 1_000_000_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn any_answers_end_a_fit_and_lose_nobody(
        events in prop::collection::vec(event(), 1..400),
        is_by_replay in any::<bool>(),
        mcap in prop::sample::select(vec![5.0, 20.0, 100.0]),
    ) {
        let mode = if is_by_replay { Mode::Replay } else { Mode::Measure };
        let publishers: Vec<_> = (0..40).map(|at| publisher(1.0, Some(at % 7))).collect();
        let (brokers, models) = (vec![broker(mcap); 4], vec![ServiceModel::default(); 4]);
        let begun = Fitting::begin(config(mode), publishers, brokers, models);
        let (mut fitting, mut step) = begun.expect("a sane configuration");
        let trace = small_trace();
        let mut windows_since_change = 0;
        for event in events {
            step = match event {
                Event::Answer(answer, is_traced) => {
                    let answer: Vec<_> = answer
                        .into_iter()
                        .map(|(p99_us, messages)| BrokerWindow { p99_us, messages })
                        .collect();
                    let trace = is_traced.then_some(&trace);
                    let window = Window { brokers: &answer, trace, seconds: 60.0, neighbours: &[] };
                    windows_since_change += u32::from(matches!(step, Step::Measure(_)));
                    fitting.measured(&window)
                }
                Event::Add(mcap) => {
                    windows_since_change = 0;
                    fitting.add_broker(broker(mcap), ServiceModel::default())
                }
                Event::Lose(at) => {
                    windows_since_change = 0;
                    fitting.broker_lost(BrokerIndex(at))
                }
            };
            let brokers = fitting.places.brokers.clone();
            let is_usable = |place: &BrokerIndex| brokers[place.0 as usize].is_available;
            match &step {
                Step::Measure(places) => {
                    prop_assert_eq!(places.len(), 40);
                    prop_assert!(places.iter().flatten().all(is_usable));
                }
                Step::Done(places) => {
                    prop_assert_eq!(places.len(), 40);
                    prop_assert!(places.iter().all(is_usable));
                }
                Step::OutOfBrokers { best, missing, .. } => {
                    prop_assert!(best.iter().flatten().all(is_usable));
                    let is_any = brokers.iter().any(|broker| broker.is_available && broker.mcap >= 5.0);
                    prop_assert!(!is_any || best.iter().all(Option::is_some));
                    prop_assert!(*missing >= 0.0);
                }
            }
            // Each iteration is a window and a search of six rounds, each repeated twice at most.
            let iterations = 2 * brokers.len() as u32 + 9;
            prop_assert!(windows_since_change <= 3 * 8 * iterations);
            let status = fitting.status();
            prop_assert!(status.problems.len() <= FitStatus::MOST_PROBLEMS);
            prop_assert!(status.iterations.len() <= FitStatus::MOST_ITERATIONS);
        }
        // Without changes from outside it ends.
        let mut more = 0;
        while let Step::Measure(places) = &step {
            let answers = answers(places, fitting.places.brokers.len(), 300.0);
            let window = Window { brokers: &answers, trace: None, seconds: 60.0, neighbours: &[] };
            step = fitting.measured(&window);
            more += 1;
            prop_assert!(more < 1_000, "{:?}", fitting.status());
        }
    }
}

#[test]
fn a_neighbours_promise_counts_like_ones_own() {
    // The newcomer alone would hold all of its 100 publishers on one broker; a neighbour at the first is 10 us per publisher
    // beyond 300 us away from its promise of 500 us.
    let publishers = vec![publisher(1.0, None); 100];
    let (brokers, models) = (vec![broker(200.0); 2], vec![ServiceModel::default(); 2]);
    let (mut fitting, mut step) =
        Fitting::begin(config(Mode::Measure), publishers, brokers, models).unwrap();
    while let Step::Measure(places) = &step {
        let answers = answers(places, 2, 1.0);
        let beside = [Some(300.0 + 10.0 * answers[0].messages as f64), None];
        let neighbour = Neighbour {
            name: "quiet",
            percentile: 99.0,
            promise_us: 500.0,
            limit: None,
            publishers: &[],
            placed: &[],
            latency_us: &beside,
            trace: None,
        };
        step = fitting.measured(&Window {
            brokers: &answers,
            trace: None,
            seconds: 60.0,
            neighbours: &[neighbour],
        });
    }
    let Step::Done(places) = step else {
        panic!("{:?}", fitting.status())
    };
    let first = places.iter().filter(|place| place.0 == 0).count();
    // Within the band of a fifth below the promise, and never above it.
    assert!((10..=20).contains(&first), "{first}");
    let deciding = fitting.status().decided_by.as_ref().expect("a neighbour");
    assert_eq!(
        (deciding.topic.as_str(), deciding.broker),
        ("quiet", BrokerIndex(0))
    );
    assert!(deciding.latency_us > deciding.promise_us);
}

#[test]
fn brokers_to_avoid_are_avoided_while_others_have_room() {
    for (mcap, expected) in [(100.0, 0), (40.0, 20)] {
        let publishers = vec![publisher(1.0, None); 60];
        let brokers = vec![broker(100.0), broker(mcap)];
        let models = vec![ServiceModel::default(); 2];
        let (_, step) = Fitting::begin_avoiding(
            config(Mode::Replay),
            publishers,
            brokers,
            models,
            &[true, false],
        )
        .unwrap();
        let Step::Measure(places) = step else {
            panic!("{step:?}")
        };
        let avoided = places
            .iter()
            .filter(|place| **place == Some(BrokerIndex(0)));
        let avoided = avoided.count();
        assert_eq!(
            avoided == 0,
            expected == 0,
            "{avoided} with {mcap} elsewhere"
        );
    }
}
