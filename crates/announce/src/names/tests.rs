//! Identifiers: given out, hashed, contested; and that all endpoints agree in the end.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

fn hashed(topic: &TopicName, attempt: u8) -> TopicId {
    TopicId::hashed(topic, attempt)
}

/// Topics that meet: the first at `attempt`, the second at its first try.
fn meeting(attempt: u8) -> (TopicName, TopicName) {
    let names = || (0..400_000).map(|number| topic(&format!("t{number}")));
    let firsts: HashMap<TopicId, TopicName> = names()
        .take(100_000)
        .map(|name| (hashed(&name, attempt), name))
        .collect();
    let met = names().find_map(|second| {
        let first = firsts
            .get(&hashed(&second, 0))
            .filter(|&first| *first != second)?;
        Some((first.clone(), second))
    });
    met.expect("about twenty pairs are expected among so many")
}

fn pair() -> &'static (TopicName, TopicName) {
    static PAIR: OnceLock<(TopicName, TopicName)> = OnceLock::new();
    PAIR.get_or_init(|| meeting(0))
}

#[test]
fn without_a_service_names_are_hashed() {
    let mut names = Names::new(10);
    let tele = topic("tele");
    assert!(names.is_empty());
    assert_eq!(names.source_of(&tele), None);
    assert_eq!(names.topic_of(hashed(&tele, 0)), None);
    assert_eq!(names.id_of(&tele), hashed(&tele, 0));
    assert_eq!(names.topic_of(hashed(&tele, 0)), Some(&tele));
    assert_eq!(names.source_of(&tele), Some(Source::Hash));
    assert_eq!(names.hear(&tele, hashed(&tele, 0)), Heard::Known);
    // Somebody knows of a collision that this endpoint does not: it follows, and what comes late is still taken.
    assert_eq!(names.hear(&tele, hashed(&tele, 2)), Heard::Learnt);
    assert_eq!(names.generation(), 1);
    assert_eq!(names.id_of(&tele), hashed(&tele, 2));
    assert_eq!(names.topic_of(hashed(&tele, 0)), Some(&tele));
    assert_eq!(names.hear(&tele, hashed(&tele, 1)), Heard::Behind);
    for foreign in [TopicId(u32::MAX), hashed(&topic("other"), 0)] {
        assert_eq!(names.hear(&tele, foreign), Heard::Foreign);
    }
    assert_eq!(names.counts().foreign, 2);
    assert_eq!(names.generation(), 1);
    names.forget(&tele);
    assert!(names.is_empty());
    assert!((0..3).all(|attempt| names.topic_of(hashed(&tele, attempt)).is_none()));
}

#[test]
fn a_service_wins_over_hashes_and_over_what_others_say_of_it() {
    let mut names = Names::new(10);
    let (tele, b, c) = (topic("tele"), topic("b"), topic("c"));
    names.id_of(&tele);
    assert_eq!(names.hear(&tele, TopicId(5)), Heard::Learnt);
    assert_eq!(names.id_of(&tele), TopicId(5));
    assert_eq!(names.source_of(&tele), Some(Source::Service));
    // Messages of those that do not know yet.
    assert_eq!(names.topic_of(hashed(&tele, 0)), Some(&tele));
    assert_eq!(names.hear(&tele, hashed(&tele, 0)), Heard::Behind);
    assert_eq!(names.hear(&tele, hashed(&tele, 1)), Heard::Behind);
    assert_eq!(names.id_of(&tele), TopicId(5));
    // Two services, or one that lost its memory.
    assert_eq!(names.hear(&tele, TopicId(6)), Heard::Foreign);
    assert_eq!(names.hear(&b, TopicId(5)), Heard::Foreign);
    assert!(!names.by_topic.contains_key(&b));
    // The service says it itself: tele was known from others only and falls back.
    assert_eq!(names.assign(&b, TopicId(5)), Ok(false));
    assert_eq!(names.topic_of(TopicId(5)), Some(&b));
    assert_eq!(names.id_of(&tele), hashed(&tele, 1));
    assert_eq!(names.assign(&tele, TopicId(7)), Ok(true));
    assert_eq!(names.assign(&tele, TopicId(7)), Ok(false));
    let taken = names.assign(&c, TopicId(5)).expect_err("taken");
    assert!(
        taken.to_string().contains("already belongs to b"),
        "{taken}"
    );
    let wrong = names.assign(&c, TopicId(1 << 31)).expect_err("hashed");
    assert!(wrong.to_string().contains("top bit"), "{wrong}");
    assert_eq!(names.len(), 2);
    names.forget(&b);
    assert_eq!(names.topic_of(TopicId(5)), None);
}

#[test]
fn both_names_leave_a_contested_identifier() {
    let (one, other) = pair();
    let mut names = Names::new(10);
    let contested = names.id_of(one);
    let heard = names.hear(other, contested);
    assert_eq!(heard, Heard::Collision { with: one.clone() });
    assert_eq!(names.counts().collisions, 1);
    assert_eq!(names.topic_of(contested), None, "it may mean either");
    for name in [one, other] {
        assert_eq!(names.id_of(name), hashed(name, 1));
        assert_eq!(names.topic_of(hashed(name, 1)), Some(name));
    }
    names.forget(other);
    assert_eq!(names.topic_of(contested), Some(one));
}

/// A name has moved on by word of others before the other one is heard: its former identifier is no
/// longer free.
#[test]
fn an_identifier_that_was_left_is_not_taken() {
    let (one, other) = pair();
    let contested = hashed(one, 0);
    let mut names = Names::new(10);
    assert_eq!(names.hear(one, hashed(one, 1)), Heard::Learnt);
    names.id_of(other);
    assert_eq!(names.topic_of(contested), None);
    assert_eq!(names.id_of(one), hashed(one, 1));
    assert_eq!(names.id_of(other), hashed(other, 1));
    // The same where a service gave the first name another identifier.
    let mut names = Names::new(10);
    assert_eq!(names.assign(one, TopicId(1)), Ok(false));
    assert_eq!(names.id_of(other), hashed(other, 1));
    assert_eq!(names.id_of(one), TopicId(1));
    assert_eq!(names.topic_of(contested), None);
}

#[test]
fn a_name_may_meet_another_on_its_way() {
    let (one, other) = pair();
    let (mover, sitter) = meeting(1);
    let mut names = Names::new(10);
    names.id_of(&sitter);
    names.hear(&mover, hashed(&mover, 0));
    let heard = names.hear(&mover, hashed(&mover, 1));
    assert_eq!(
        heard,
        Heard::Collision {
            with: sitter.clone()
        }
    );
    assert_eq!(names.id_of(&mover), hashed(&mover, 2));
    assert_eq!(names.id_of(&sitter), hashed(&sitter, 1));
    names.id_of(one);
    names.id_of(other);
    assert_eq!(names.counts().exhausted, 0);
}

#[test]
fn what_is_heard_is_bounded_and_ones_own_is_not() {
    let mut names = Names::new(2);
    for (name, expected) in [
        ("a", Heard::Learnt),
        ("b", Heard::Learnt),
        ("c", Heard::Full),
    ] {
        let name = topic(name);
        assert_eq!(names.hear(&name, hashed(&name, 0)), expected);
    }
    assert_eq!(names.id_of(&topic("c")), hashed(&topic("c"), 0));
    assert_eq!((names.len(), names.counts().full), (3, 1));
}

/// Names that meet in several ways, and some that do not.
fn pool() -> &'static [TopicName] {
    static POOL: OnceLock<Vec<TopicName>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut names: BTreeSet<TopicName> = ["x", "y"].map(topic).into();
        names.extend([pair().0.clone(), pair().1.clone()]);
        for attempt in [1, 2] {
            let (mover, sitter) = meeting(attempt);
            names.extend([mover, sitter]);
        }
        names.into_iter().collect()
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The endpoint has the topic itself from now on.
    Has(usize, usize),
    /// The second endpoint hears the first announce the topic.
    Hears(usize, usize, usize),
}

const ENDPOINTS: usize = 4;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (endpoint, name) = (0..ENDPOINTS, 0..pool().len());
    let has = (endpoint.clone(), name.clone()).prop_map(|(who, what)| Step::Has(who, what));
    let hears = (endpoint.clone(), endpoint, name)
        .prop_map(|(speaker, listener, what)| Step::Hears(speaker, listener, what));
    vec(prop_oneof![1 => has, 3 => hears], 0..80)
}

proptest! {
    /// Whatever is heard in whatever order, once everybody has heard everybody all have the same identifiers, each topic
    /// its own. And at no time does an endpoint take what it is sent under an identifier that it announced for a topic
    /// for another topic's.
    #[test]
    fn endpoints_converge_and_never_mix_up_topics(steps in steps()) {
        let mut endpoints = vec![Names::new(100); ENDPOINTS];
        let mut announced: Vec<Vec<(TopicName, TopicId)>> = vec![Vec::new(); ENDPOINTS];
        let mut owned = vec![BTreeSet::new(); ENDPOINTS];
        for step in steps {
            match step {
                Step::Has(who, what) => {
                    endpoints[who].id_of(&pool()[what]);
                    owned[who].insert(what);
                }
                Step::Hears(speaker, listener, what) if owned[speaker].contains(&what) => {
                    let name = &pool()[what];
                    let id = endpoints[speaker].id_of(name);
                    announced[speaker].push((name.clone(), id));
                    endpoints[listener].hear(name, id);
                }
                Step::Hears(..) => {}
            }
            for (names, announced) in endpoints.iter().zip(&announced) {
                for (name, id) in announced {
                    prop_assert!(names.topic_of(*id).is_none_or(|found| found == name));
                }
            }
        }
        // Everybody hears everybody until nothing moves any more; soon, since attempts only grow.
        for round in 0.. {
            prop_assert!(round < 20, "no end");
            let before: Vec<u64> = endpoints.iter().map(Names::generation).collect();
            for speaker in 0..ENDPOINTS {
                for &what in &owned[speaker].clone() {
                    let id = endpoints[speaker].id_of(&pool()[what]);
                    for names in &mut endpoints {
                        names.hear(&pool()[what], id);
                    }
                }
            }
            if round > 0 && endpoints.iter().map(Names::generation).eq(before) {
                break;
            }
        }
        let everybodys: BTreeSet<usize> = owned.iter().flatten().copied().collect();
        let ids = |names: &mut Names| -> Vec<TopicId> {
            everybodys.iter().map(|&what| names.id_of(&pool()[what])).collect()
        };
        let expected = ids(&mut endpoints[0]);
        let distinct: BTreeSet<TopicId> = expected.iter().copied().collect();
        prop_assert_eq!(distinct.len(), expected.len());
        for names in &mut endpoints {
            prop_assert_eq!(&ids(names), &expected);
            for (&what, &id) in everybodys.iter().zip(&expected) {
                prop_assert_eq!(names.topic_of(id), Some(&pool()[what]));
            }
        }
    }
}
