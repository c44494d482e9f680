//! Questions about everything, a turn at a time.

use std::sync::Arc;

use limit::sharing::Policy;
use limit::{Limit, Prolongation};
use tokio::sync::oneshot::Receiver;

use super::*;
use crate::Config;
use crate::handle::Request;
use crate::reactor::{Inbox, Shared};
use crate::stats::StatsFilter;

type Answered<T> = Receiver<Result<T, BrokerError>>;

/// A reactor that the test turns.
fn reactor(topics: usize) -> Reactor {
    let config = Config {
        threads: 1,
        // A slow machine takes many turns, and each publishes.
        mem_queue_size: usize::MAX / 2,
        ..Config::default()
    };
    let inbox = Arc::new(Inbox::new().expect("descriptors"));
    let shared = Arc::new(Shared::new(config, vec![inbox]));
    let mut reactor = Reactor::new(0, shared, None, None).expect("descriptors");
    for number in 0..topics {
        let made = reactor.topics.table.find_or_create(&format!("t{number}"));
        made.expect("within bounds");
    }
    reactor
}

fn ask<T>(reactor: &Reactor, request: impl FnOnce(Reply<T>) -> Request) -> Answered<T> {
    let (reply, answer) = Reply::new();
    let inbox = &reactor.shared.inboxes[0];
    inbox.ask(request(reply)).expect("within bounds");
    answer
}

fn stats(filter: StatsFilter) -> impl FnOnce(Reply<Box<Stats>>) -> Request {
    |reply| Request::Survey(Question::Stats(filter, reply))
}

fn turn(reactor: &mut Reactor) {
    reactor.turn(Some(Duration::ZERO));
}

/// Things gathered for the questions under way.
fn gathered(reactor: &Reactor) -> usize {
    let waiting = reactor.surveys.waiting.iter();
    let gathered = waiting.map(|survey| match &survey.subject {
        Subject::Stats(counting) => counting.stats.topics.len(),
        Subject::Tasks(report, _) => report.tasks.len(),
        Subject::Catalog(catalog, _) => catalog.topics.len(),
        Subject::Inventory(topics, _) => topics.len(),
        Subject::Intervals(_, ends, _) => ends.len(),
        Subject::Report(..) | Subject::Leases(_) => 0,
    });
    gathered.sum()
}

fn publish(topic: &str) -> impl FnOnce(Reply<()>) -> Request {
    move |reply| Request::Publish {
        topic: topic.parse().expect("valid"),
        bodies: vec![bytes::Bytes::from_static(b"x")],
        delay: Duration::ZERO,
        reply,
    }
}

/// Many topics are told of in slices, and a message is served in each turn.
fn is_told_in_slices<T>(
    what: &str,
    question: impl FnOnce(Reply<T>) -> Request,
    topics_of: impl FnOnce(T) -> usize,
) {
    const TOPICS: usize = 10_000;
    let mut reactor = reactor(TOPICS);
    let mut answered = ask(&reactor, question);
    let (mut turns, mut before) = (0, 0);
    let answer = loop {
        let mut canary = ask(&reactor, publish("t0"));
        turn(&mut reactor);
        turns += 1;
        canary.try_recv().expect("in the same turn").expect("taken");
        if let Ok(answer) = answered.try_recv() {
            break answer.expect("answered");
        }
        let now = gathered(&reactor);
        assert!(
            now - before <= STEPS_MAX,
            "{what}: {} in a turn",
            now - before
        );
        before = now;
    };
    assert_eq!(topics_of(answer), TOPICS, "{what}");
    assert!(turns >= TOPICS / STEPS_MAX, "{what}: {turns} turns");
}

#[test]
fn no_turn_tells_of_many_topics_and_messages_are_served_in_between() {
    let question = stats(StatsFilter::default());
    is_told_in_slices("stats", question, |stats| stats.topics.len());
    let question = |reply| Request::Survey(Question::Catalog(reply));
    is_told_in_slices("catalog", question, |catalog| catalog.topics.len());
    let question = |reply| Request::Survey(Question::Inventory(reply));
    is_told_in_slices("inventory", question, |topics| topics.len());
}

#[test]
fn intervals_of_many_shared_limits_end_in_slices() {
    const TOPICS: usize = 5_000;
    const SHARED: usize = 1_000;
    let mut reactor = reactor(TOPICS);
    let limit = Limit {
        sharing: Policy::Gtb,
        ..Limit::messages(10.0, 5.0).expect("valid")
    };
    for number in 0..SHARED {
        let topic = format!("t{}", number * TOPICS / SHARED);
        let key = reactor.topics.table.find(&topic).expect("made");
        for limit in [Some(limit), None, Some(limit)] {
            reactor
                .topics
                .table
                .set_shared_limit(key, limit, None, reactor.time.now);
        }
    }
    let end = |reactor: &mut Reactor| {
        let question = |reply| Request::Survey(Question::EndInterval(Arc::default(), reply));
        let mut answered = ask(reactor, question);
        let (mut turns, mut before) = (0, 0);
        loop {
            turn(reactor);
            turns += 1;
            if let Ok(answer) = answered.try_recv() {
                break (answer.expect("answered").len(), turns);
            }
            let now = gathered(reactor);
            assert!(now - before <= STEPS_MAX, "{} in a turn", now - before);
            before = now;
        }
    };
    let (ended, turns) = end(&mut reactor);
    assert_eq!(ended, SHARED, "each once");
    assert!(turns >= SHARED / STEPS_MAX, "{turns} turns");
    for number in 0..TOPICS {
        let key = reactor
            .topics
            .table
            .find(&format!("t{number}"))
            .expect("made");
        match number {
            0 => continue,
            1..2500 => reactor
                .topics
                .table
                .set_shared_limit(key, None, None, reactor.time.now),
            _ => reactor.topics.table.delete(key),
        }
    }
    assert_eq!(end(&mut reactor).0, 1, "those that are left");
    assert_eq!(end(&mut reactor).0, 1, "again");
}

#[test]
fn a_short_question_does_not_wait_for_a_long_one() {
    let mut reactor = reactor(5000);
    let mut long = ask(&reactor, stats(StatsFilter::default()));
    turn(&mut reactor);
    let mut short = ask(
        &reactor,
        stats(StatsFilter {
            topic: "t77".to_owned(),
            ..StatsFilter::default()
        }),
    );
    while short.try_recv().is_err() {
        turn(&mut reactor);
    }
    assert!(long.try_recv().is_err(), "the long one is under way");
}

#[test]
fn who_left_is_not_answered() {
    let mut reactor = reactor(5000);
    drop(ask(&reactor, stats(StatsFilter::default())));
    turn(&mut reactor);
    assert!(reactor.surveys.waiting.is_empty());
    assert_eq!(reactor.surveys.due(), None);
}

#[test]
fn what_happened_before_the_question_is_told() {
    let mut reactor = reactor(3000);
    let mut published = ask(&reactor, publish("t2999"));
    turn(&mut reactor);
    published.try_recv().expect("at once").expect("taken");
    let mut answered = ask(&reactor, stats(StatsFilter::default()));
    let stats = loop {
        turn(&mut reactor);
        if let Ok(answer) = answered.try_recv() {
            break answer.expect("answered");
        }
    };
    let told = stats.topics.iter().find(|topic| topic.topic == "t2999");
    assert_eq!(told.map(|topic| topic.message_count), Some(1));
}

#[test]
fn slices_take_a_tenth_of_the_time_that_others_need() {
    let mut surveys = Surveys::default();
    let now = Instant::from_nanos(1_000_000);
    surveys.rest(SLICE, now, true);
    assert_eq!(surveys.rests_until, now + 9 * SLICE);
    surveys.rest(SLICE, now, false);
    assert_eq!(surveys.rests_until, now);
}

#[test]
fn leases_are_prolonged_by_a_word_and_looked_at_in_slices_now_and_then() {
    const TOPICS: usize = 5_000;
    let mut reactor = reactor(TOPICS);
    let mut in_slices = 0;
    for report in 0..64 {
        let by = Prolongation::Renewed { report };
        let mut answered = ask(&reactor, |reply| Request::Prolong(by, reply));
        turn(&mut reactor);
        if answered.try_recv().is_ok() {
            continue;
        }
        in_slices += 1;
        let mut before = 0;
        while let Some(survey) = reactor.surveys.waiting.front() {
            let seen = survey.seen;
            assert!(seen - before <= STEPS_MAX, "{} in a turn", seen - before);
            before = seen;
            turn(&mut reactor);
        }
        answered.try_recv().expect("answered").expect("done");
    }
    assert_eq!(in_slices, 4);
}
