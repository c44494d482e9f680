//! The sums always agree with counting.

use proptest::prelude::*;

use super::attached::FORMER_MAX;
use super::*;
use crate::core::parts::Sizes;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, f64, u32, Option<u8>),
    Remove(u8),
    Place(u8, Option<u32>),
    Attach(u8, u32),
    Leave(u8, u32),
    Believe(u32, f64),
    Detach(u32),
    Promise(Option<u32>),
}

fn step() -> impl Strategy<Value = Step> {
    let broker = || prop::option::of(0u32..3);
    prop_oneof![
        (0u8..12, 0.1f64..1e6, 1u32..9, prop::option::of(0u8..3))
            .prop_map(|(id, rate, batch, group)| Step::Put(id, rate, batch, group)),
        (0u8..12).prop_map(Step::Remove),
        (0u8..12, broker()).prop_map(|(id, at)| Step::Place(id, at)),
        (0u8..12, 0u32..3).prop_map(|(id, at)| Step::Attach(id, at)),
        (0u8..12, 0u32..3).prop_map(|(id, at)| Step::Leave(id, at)),
        (0u32..3, 0.5f64..2.0).prop_map(|(at, factor)| Step::Believe(at, factor)),
        (0u32..3).prop_map(Step::Detach),
        prop::option::of(1u32..3).prop_map(Step::Promise),
    ]
}

fn apply(publishers: &mut Publishers, loads: &mut Loads, step: &Step) {
    let find = |publishers: &Publishers, id: u8| publishers.find(&format!("p{id}"));
    match *step {
        Step::Put(id, rate, batch, group) => {
            let spec = PublisherSpec {
                id: format!("p{id}"),
                rate,
                batch,
                group: group.map(|group| format!("g{group}")),
            };
            publishers.put(spec, loads);
        }
        Step::Remove(id) => drop(publishers.remove(&format!("p{id}"), loads)),
        Step::Place(id, at) => {
            if let Some(index) = find(publishers, id) {
                publishers.place(index, at, loads);
            }
        }
        Step::Attach(id, at) => {
            if let Some(index) = find(publishers, id) {
                publishers.attach(index, (at, 1), loads);
            }
        }
        Step::Leave(id, from) => {
            if let Some(index) = find(publishers, id) {
                publishers.detach(index, from, loads);
            }
        }
        Step::Believe(at, factor) => publishers.believe(loads, |_, row| {
            (row.attached == Some(at)).then(|| row.rate() * factor)
        }),
        Step::Detach(at) => {
            let looked = publishers.detach_stale(at, None, (usize::MAX, Sizes::default()), loads);
            assert_eq!(looked.rows_left, None);
        }
        Step::Promise(ms) => publishers.set_promise(ms.map(|ms| f64::from(ms) * 1e3), loads),
    }
}

fn check(publishers: &Publishers) {
    let rows = || publishers.rows().iter();
    for number in 0..3 {
        let none = Tally::default();
        let here = publishers.at(number).unwrap_or(&none);
        let is_placed = |row: &&Row| row.broker == Some(number);
        let is_attached = |row: &&Row| row.attached == Some(number);
        let is_present = |row: &&Row| is_placed(row) && row.attached.is_some();
        let agrees = |count: &Count, rows: Vec<&Row>| {
            let rate: f64 = rows.iter().map(|row| row.rate()).sum();
            assert_eq!(count.number(), rows.len());
            assert!((count.rate() - rate).abs() <= 1e-9 * rate.max(1.0));
        };
        agrees(&here.placed, rows().filter(is_placed).collect());
        agrees(&here.attached, rows().filter(is_attached).collect());
        agrees(&here.present, rows().filter(is_present).collect());
        let is_settled = |row: &&Row| row.broker == Some(number) && row.attached == row.broker;
        agrees(&here.settled, rows().filter(is_settled).collect());
        let batches = rows().filter(is_attached).map(|row| row.spec.batch);
        assert_eq!(here.largest_batch(), f64::from(batches.max().unwrap_or(1)));
    }
    let indices = |is_meant: &dyn Fn(&Row) -> bool| -> BTreeSet<u32> {
        let rows = (0u32..).zip(rows());
        rows.filter(|(_, row)| is_meant(row))
            .map(|(index, _)| index)
            .collect()
    };
    assert_eq!(*publishers.unplaced(), indices(&|row| row.broker.is_none()));
    assert_eq!(*publishers.misplaced(), indices(&Row::is_misplaced));
    for (&index, former) in &publishers.former {
        let attached = publishers.rows()[index as usize].attached;
        assert!(attached.is_some_and(|at| former.iter().all(|&(of, _)| of != at)));
        assert!((1..=FORMER_MAX).contains(&former.len()));
    }
    let mut bursts: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows() {
        let key = row.spec.group.clone().unwrap_or(row.spec.id.clone());
        *bursts.entry(key).or_default() += u64::from(row.spec.batch);
    }
    let largest = bursts.into_values().max().unwrap_or(0);
    assert_eq!(publishers.largest_burst(), largest);
}

proptest! {
    #[test]
    fn what_is_kept_is_what_counting_comes_to(
        steps in prop::collection::vec((any::<bool>(), step()), 1..120)
    ) {
        let mut loads = Loads::default();
        let mut topics = [Publishers::new("t", None), Publishers::new("u", Some(500.0))];
        for (which, step) in &steps {
            apply(&mut topics[usize::from(*which)], &mut loads, step);
        }
        topics.iter().for_each(check);
        for number in 0..3 {
            let all = || topics.iter().filter_map(|topic| topic.at(number));
            let rate: f64 = all().map(|tally| tally.placed.rate()).sum();
            let load = loads.at(number);
            let placed: usize = all().map(|tally| tally.placed.number()).sum();
            let attached: usize = all().map(|tally| tally.attached.number()).sum();
            prop_assert_eq!((load.placed.number(), load.attached.number()), (placed, attached));
            prop_assert!((load.placed.rate() - rate).abs() <= 1e-9 * rate.max(1.0));
            let promises = topics.iter().filter(|topic| topic.is_placed_at(number));
            let tightest = promises.filter_map(|topic| topic.promise_us).reduce(f64::min);
            prop_assert_eq!(load.tightest_beside(None), tightest);
            let is_present = |topic: &&Publishers| topic.at(number).is_some_and(|tally| tally.present.number() > 0);
            let present = topics.iter().filter(is_present);
            let present: BTreeSet<Promised> = present
                .map(|topic| Promised::new(&topic.topic, topic.promise_us))
                .collect();
            prop_assert_eq!(&load.topics, &present);
            let settled: usize = all().map(|tally| tally.settled.number()).sum();
            prop_assert_eq!(load.settled.number(), settled);
        }
        let [topic, other] = &mut topics;
        topic.leave(&mut loads);
        other.leave(&mut loads);
        for number in 0..3 {
            prop_assert_eq!((loads.at(number).placed.number(), loads.at(number).placed.rate()), (0, 0.0));
            prop_assert_eq!(loads.at(number).tightest_beside(None), None);
        }
    }
}

#[test]
fn a_broker_that_says_late_that_a_publisher_came_and_went_takes_it_from_nobody() {
    let (mut loads, mut publishers) = (Loads::default(), Publishers::new("t", None));
    let spec = PublisherSpec {
        id: String::from("p"),
        rate: 1.0,
        batch: 1,
        group: None,
    };
    publishers.put(spec, &mut loads);
    let said: [(u32, bool, Option<u32>); 9] = [
        (0, true, Some(0)),
        // It moves.
        (1, true, Some(1)),
        (0, false, Some(1)),
        // Its former broker, stopped meanwhile, read a dial of before.
        (0, true, Some(0)),
        (0, false, Some(1)),
        // It moves, and the words come the other way round.
        (1, false, None),
        (2, true, Some(2)),
        (2, true, Some(2)),
        (2, false, None),
    ];
    for (step, (at, comes, expected)) in said.into_iter().enumerate() {
        match comes {
            true => publishers.attach(0, (at, 1), &mut loads),
            false => publishers.detach(0, at, &mut loads),
        }
        assert_eq!(publishers.rows()[0].attached, expected, "step {step}");
    }
    for at in [0, 1, 2] {
        publishers.attach(0, (at, 1), &mut loads);
    }
    publishers.detach_stale(1, None, (usize::MAX, Sizes::default()), &mut loads);
    // Nothing is heard of 2 any more, and 0 has said before that it is there.
    publishers.recall(2, (usize::MAX, Sizes::default()), &mut loads);
    assert_eq!(publishers.rows()[0].attached, Some(0), "one is gone");
    publishers.recall(0, (usize::MAX, Sizes::default()), &mut loads);
    assert_eq!(publishers.rows()[0].attached, Some(0), "nowhere else");
    publishers.detach(0, 0, &mut loads);
    assert_eq!(publishers.rows()[0].attached, None);
}

/// However many were elsewhere before, one part looks at no more of them than it may; in the end none is left.
#[test]
fn places_of_before_are_forgotten_in_parts() {
    let (mut publishers, mut loads) = (Publishers::new("t", None), Loads::default());
    for number in 0..100 {
        let spec = PublisherSpec {
            id: format!("p{number}"),
            rate: 1.0,
            batch: 1,
            group: None,
        };
        let index = publishers.put(spec, &mut loads).index();
        publishers.attach(index, (1, 7), &mut loads);
        publishers.attach(index, (2, 8), &mut loads);
    }
    let sizes = Sizes {
        looks: 10,
        ..Sizes::default()
    };
    let (mut parts, mut below) = (0, Some(publishers.rows().len()));
    while let Some(end) = below {
        let looked = publishers.detach_stale(1, Some(9), (end, sizes), &mut loads);
        assert!(looked.rows <= sizes.looks, "{looked:?}");
        assert!(publishers.former.len() >= 100 - 10 * (parts + 1));
        (parts, below) = (parts + 1, looked.rows_left);
    }
    assert_eq!((parts, publishers.former.len()), (10, 0));
    publishers.detach(3, 2, &mut loads);
    assert_eq!(publishers.rows()[3].attached, None);
}
