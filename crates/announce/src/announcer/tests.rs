//! When an endpoint speaks and what it says.

use clock::stream;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::announce::{InstanceId, TopicId};

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn entry(name: &str, id: u32) -> Entry {
    Entry {
        role: Role::Publisher,
        id: TopicId(id),
        topic: name.parse().expect("valid"),
        held: None,
    }
}

fn announcer(seed: u64) -> Announcer {
    let speaker = Speaker::new(InstanceId(1), ([0, 0, 0, 0], 4000).into()).with_udp(true);
    let random = stream(seed, "announcer");
    Announcer::new(speaker, AnnouncerConfig::default(), random, at(0))
}

/// The next datagrams, at the time at which they are due.
fn next(announcer: &mut Announcer) -> (Instant, Vec<Announcement>) {
    let now = announcer.next_due();
    (now, announcer.due(now).expect("due"))
}

fn names(said: &Announcement) -> Vec<&str> {
    said.entries.iter().map(|e| e.topic.as_str()).collect()
}

#[test]
fn speaks_soon_and_then_once_an_interval() {
    let mut announcer = announcer(1);
    assert!(announcer.next_due() <= at(50));
    let (mut last, said) = next(&mut announcer);
    let presence = Announcement {
        instance: InstanceId(1),
        sequence: 1,
        is_proxy: false,
        is_leaving: false,
        expiry_ms: 3000,
        data: ([0, 0, 0, 0], 4000).into(),
        udp: true,
        entries: Vec::new(),
    };
    assert_eq!(said, [presence]);
    let mut gaps = Vec::new();
    for sequence in 2..100 {
        let just_before = announcer.next_due() - Duration::from_nanos(1);
        assert_eq!(announcer.due(just_before), None);
        let (now, said) = next(&mut announcer);
        assert_eq!(said[0].sequence, sequence);
        gaps.push(now - last);
        last = now;
    }
    let (least, most) = (Duration::from_millis(750), Duration::from_secs(1));
    assert!(gaps.iter().all(|gap| (least..=most).contains(gap)));
    gaps.dedup();
    assert!(gaps.len() > 90, "{} different gaps", gaps.len());
}

#[test]
fn news_is_said_soon_and_what_is_gone_is_said_to_leave() {
    let mut announcer = announcer(2);
    announcer.set_entries(vec![entry("t", 1), entry("u", 2)], at(0));
    let (first, said) = next(&mut announcer);
    assert_eq!(names(&said[0]), ["t", "u"]);
    // The same entries are no news.
    let regular = announcer.next_due();
    announcer.set_entries(vec![entry("t", 1), entry("u", 2)], first);
    assert_eq!(announcer.next_due(), regular);
    let later = first + Duration::from_millis(200);
    announcer.set_entries(vec![entry("t", 9)], later);
    assert!((later..=later + Duration::from_millis(50)).contains(&announcer.next_due()));
    let (_, said) = next(&mut announcer);
    let found: Vec<(u32, bool, Vec<&str>)> = said
        .iter()
        .map(|part| (part.sequence, part.is_leaving, names(part)))
        .collect();
    assert_eq!(found, [(2, true, vec!["u"]), (3, false, vec!["t"])]);
    assert_eq!(said[1].entries[0].id, TopicId(9));
    let (_, said) = next(&mut announcer);
    assert_eq!(said.len(), 1, "it is said once");
    // Given up and taken up again before anybody heard of it.
    let now = announcer.next_due() - Duration::from_millis(100);
    announcer.set_entries(Vec::new(), now);
    announcer.set_entries(vec![entry("t", 9)], now);
    let (_, said) = next(&mut announcer);
    assert!(said.iter().all(|part| !part.is_leaving));
}

#[test]
fn many_entries_are_many_datagrams_with_numbers_of_their_own() {
    let mut announcer = announcer(3);
    let entries: Vec<Entry> = (0..300)
        .map(|id| entry(&format!("topic-{id}"), id))
        .collect();
    announcer.set_entries(entries, at(0));
    let (_, said) = next(&mut announcer);
    let sequences: Vec<u32> = said.iter().map(|part| part.sequence).collect();
    assert!(said.len() > 3);
    assert_eq!(sequences, (1..=said.len() as u32).collect::<Vec<u32>>());
    let (_, again) = next(&mut announcer);
    assert_eq!(again[0].sequence, said.len() as u32 + 1);
}

#[test]
fn answers_are_spread_by_how_many_may_answer() {
    for (instances, within_ms) in [(1, 50), (50, 50), (400, 400), (5000, 1000)] {
        let mut latest = Duration::ZERO;
        for seed in 0..200 {
            let mut announcer = announcer(seed);
            let (spoke_at, _) = next(&mut announcer);
            let now = spoke_at + Duration::from_millis(50);
            announcer.answer(instances, now);
            latest = latest.max(announcer.next_due().saturating_since(now));
        }
        let within = Duration::from_millis(within_ms);
        assert!(
            latest <= within && latest > within / 2,
            "{instances}: {latest:?}"
        );
    }
}

#[test]
fn who_has_left_says_nothing_more() {
    let mut announcer = announcer(4);
    announcer.set_entries(vec![entry("t", 1)], at(0));
    next(&mut announcer);
    let leaving = announcer.leave();
    assert_eq!(leaving.len(), 1);
    assert!(leaving[0].is_leaving && leaving[0].entries.is_empty());
    assert_eq!(leaving[0].sequence, 2);
    assert_eq!(announcer.next_due(), Instant::MAX);
    assert_eq!(announcer.due(Instant::MAX), None);
}

proptest! {
    /// Whatever happens, there is a pause between rounds, no interval is missed, and news waits for no longer than it may.
    #[test]
    fn never_too_often_and_never_too_late(events in vec((0..400u64, any::<bool>(), 0..3u32), 0..60), seed: u64) {
        let mut announcer = announcer(seed);
        let config = AnnouncerConfig::default();
        let (mut now, mut spoke_at) = (at(0), None);
        let mut news_since = None;
        for (after_ms, is_new, id) in events {
            now += Duration::from_millis(after_ms);
            while announcer.next_due() <= now {
                let (due, _) = next(&mut announcer);
                if let Some(spoke_at) = spoke_at {
                    prop_assert!(due - spoke_at >= config.soon);
                    prop_assert!(due - spoke_at <= config.interval);
                }
                if let Some(since) = news_since.take() {
                    prop_assert!(due.saturating_since(since) <= config.soon * 2);
                }
                spoke_at = Some(due);
            }
            if is_new {
                announcer.answer(1, now);
            } else {
                announcer.set_entries(vec![entry("t", id)], now);
            }
            let is_news = announcer.next_due() <= now + config.soon * 2;
            prop_assert!(is_news || !is_new);
            if is_new {
                news_since.get_or_insert(now);
            }
        }
    }
}
