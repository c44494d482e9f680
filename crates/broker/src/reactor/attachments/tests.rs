//! What a controller knows in the end if it applies the reports one after another.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn topic(number: u8) -> TopicName {
    format!("t{number}").parse().expect("valid")
}

fn declaration(topic: u8, id: u8, batch: u32) -> Arc<Declaration> {
    Arc::new(Declaration {
        id: format!("s{id}"),
        topic: format!("t{topic}"),
        group: None,
        rate: None,
        batch,
    })
}

fn owner(connection: u64) -> Owner {
    Owner {
        reactor: 0,
        connection,
    }
}

impl Attachments {
    /// A report that names so many at most; the first of a link or another.
    fn report(&mut self, is_first: bool, at_most: usize) -> Vec<Attachment> {
        if is_first {
            self.begin_link();
        }
        let mut all = Vec::new();
        while all.len() < at_most {
            match self.next_news() {
                Some(news) => all.extend(news),
                None => break,
            }
        }
        all
    }
}

fn told(news: &[Attachment]) -> Vec<(&str, bool)> {
    news.iter()
        .map(|news| (news.publisher.id.as_str(), news.attached))
        .collect()
}

#[test]
fn a_name_belongs_to_the_newest_connection() {
    let mut attachments = Attachments::default();
    let (t, s) = (topic(0), declaration(0, 1, 1));
    assert_eq!(attachments.attach(&t, Arc::clone(&s), owner(1)), None);
    assert_eq!(attachments.attach(&t, Arc::clone(&s), owner(1)), None);
    assert_eq!(attachments.attach(&t, s, owner(2)), Some(owner(1)));
    assert_eq!(attachments.find(&t, "s1"), Some(owner(2)));
    attachments.detach(&t, "s1", owner(1));
    assert_eq!(
        (attachments.find(&t, "s1"), attachments.count()),
        (Some(owner(2)), 1),
        "the older connection's end changes nothing"
    );
    attachments.detach(&t, "s1", owner(2));
    assert_eq!((attachments.find(&t, "s1"), attachments.count()), (None, 0));
}

#[test]
fn the_first_report_names_all_and_later_ones_what_changed() {
    let mut attachments = Attachments::default();
    let t = topic(0);
    for id in 0..2 {
        attachments.attach(&t, declaration(0, id, 1), owner(u64::from(id)));
    }
    let mut first = attachments.report(true, 10);
    first.sort_by(|a, b| a.publisher.id.cmp(&b.publisher.id));
    assert_eq!(told(&first), [("s0", true), ("s1", true)]);
    assert_eq!(told(&attachments.report(false, 10)), []);
    attachments.detach(&t, "s0", owner(0));
    attachments.attach(&t, declaration(0, 2, 1), owner(2));
    attachments.attach(&t, declaration(0, 3, 1), owner(3));
    attachments.detach(&t, "s3", owner(3));
    assert_eq!(
        told(&attachments.report(false, 10)),
        [("s0", false), ("s2", true)],
        "nobody is told of one that came and went between"
    );
}

#[test]
fn a_connection_that_follows_another_is_no_departure() {
    let mut attachments = Attachments::default();
    let t = topic(0);
    attachments.attach(&t, declaration(0, 1, 1), owner(1));
    attachments.report(true, 10);
    attachments.attach(&t, declaration(0, 1, 5), owner(2));
    attachments.detach(&t, "s1", owner(1));
    let news = attachments.report(false, 10);
    assert_eq!(told(&news), [("s1", true)]);
    assert_eq!(news[0].publisher.batch, 5);
}

#[test]
fn nobody_listening_costs_no_memory() {
    let mut attachments = Attachments::default();
    let t = topic(0);
    for is_watched in [false, true] {
        if is_watched {
            attachments.report(true, 10);
        }
        for connection in 0..10_000 {
            attachments.attach(&t, declaration(0, 1, 1), owner(connection));
            attachments.detach(&t, "s1", owner(connection));
        }
        assert!(attachments.come.len() <= 70 && attachments.gone.is_empty());
    }
}

#[test]
fn another_link_looks_at_nobody_and_each_step_at_one() {
    let mut attachments = Attachments::default();
    let t = topic(0);
    for id in 0..100 {
        attachments.attach(&t, declaration(0, id, 1), owner(u64::from(id)));
    }
    attachments.report(true, usize::MAX);
    for id in 50..100u8 {
        attachments.detach(&t, &format!("s{id}"), owner(u64::from(id)));
    }
    // The former link's departures are passed over one by one, then come those who are here.
    attachments.begin_link();
    assert_eq!((attachments.gone.len(), attachments.seen), (50, 0));
    let (mut steps, mut told) = (0, 0);
    loop {
        let before = attachments.gone.len() + attachments.come.len() + 100 - attachments.seen;
        let Some(news) = attachments.next_news() else {
            break;
        };
        told += usize::from(news.is_some_and(|news| news.attached));
        steps += 1;
        let after = attachments.gone.len() + attachments.come.len() + 100 - attachments.seen;
        assert_eq!(before - after, 1, "one a step");
    }
    assert_eq!((steps, told), (150, 50));
}

#[test]
fn who_comes_and_goes_between_two_slices_of_a_new_link_is_told_once() {
    let mut attachments = Attachments::default();
    let t = topic(0);
    for id in 0..4 {
        attachments.attach(&t, declaration(0, id, 1), owner(u64::from(id)));
    }
    assert_eq!(
        told(&attachments.report(true, 2)),
        [("s0", true), ("s1", true)]
    );
    attachments.attach(&t, declaration(0, 3, 7), owner(13));
    attachments.detach(&t, "s0", owner(0));
    attachments.detach(&t, "s2", owner(2));
    attachments.attach(&t, declaration(0, 5, 1), owner(5));
    let rest = attachments.report(false, 10);
    assert_eq!(told(&rest), [("s0", false), ("s3", true), ("s5", true)]);
    assert_eq!(rest[1].publisher.batch, 7);
    assert_eq!(told(&attachments.report(false, 10)), []);
}

#[derive(Debug, Clone)]
enum Step {
    Attach { topic: u8, id: u8, owner: u64 },
    Detach { topic: u8, id: u8, owner: u64 },
    Report { at_most: usize },
    Relink,
}

fn steps() -> impl Strategy<Value = Step> {
    let names = || (0..2u8, 0..4u8, 0..4u64);
    prop_oneof![
        4 => names().prop_map(|(topic, id, owner)| Step::Attach { topic, id, owner }),
        4 => names().prop_map(|(topic, id, owner)| Step::Detach { topic, id, owner }),
        2 => (1..4usize).prop_map(|at_most| Step::Report { at_most }),
        1 => Just(Step::Relink),
    ]
}

proptest! {
    #[test]
    fn a_controller_ends_up_knowing_who_is_attached(steps in prop::collection::vec(steps(), 0..200)) {
        let mut attachments = Attachments::default();
        let mut truth: BTreeMap<(String, String), (u64, u32)> = BTreeMap::new();
        let mut known: BTreeMap<(String, String), u32> = BTreeMap::new();
        let mut linked = false;
        let hear = |known: &mut BTreeMap<_, _>, news: Vec<Attachment>| {
            for Attachment { publisher, attached, .. } in news {
                let name = (publisher.topic, publisher.id);
                if attached { known.insert(name, publisher.batch); } else { known.remove(&name); }
            }
        };
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Attach { topic: t, id, owner: o } => {
                    let batch = number as u32 + 1;
                    let former = attachments.attach(&topic(t), declaration(t, id, batch), owner(o));
                    let name = (format!("t{t}"), format!("s{id}"));
                    let expected = truth.insert(name, (o, batch)).map(|(former, _)| former).filter(|former| *former != o);
                    prop_assert_eq!(former, expected.map(owner));
                }
                Step::Detach { topic: t, id, owner: o } => {
                    attachments.detach(&topic(t), &format!("s{id}"), owner(o));
                    let name = (format!("t{t}"), format!("s{id}"));
                    if truth.get(&name).is_some_and(|(holder, _)| *holder == o) {
                        truth.remove(&name);
                    }
                }
                Step::Report { at_most } if linked => {
                    let news = attachments.report(false, at_most);
                    prop_assert!(news.len() <= at_most);
                    hear(&mut known, news);
                }
                Step::Report { .. } => {}
                Step::Relink => {
                    linked = true;
                    known.clear();
                    hear(&mut known, attachments.report(true, 2));
                }
            }
            prop_assert_eq!(attachments.count(), truth.len());
            prop_assert!(attachments.gone.len() <= 8, "names that were told of and are gone");
        }
        if !linked {
            hear(&mut known, attachments.report(true, 2));
        }
        for _ in 0..200 {
            hear(&mut known, attachments.report(false, 2));
        }
        let truth: BTreeMap<_, _> = truth.into_iter().map(|(name, (_, batch))| (name, batch)).collect();
        prop_assert_eq!(known, truth);
    }
}
