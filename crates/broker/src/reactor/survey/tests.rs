//! Questions about everything, a turn at a time.

use std::sync::Arc;

use limit::{Limit, Prolongation, SharePolicy};
use link::Declaration;
use tokio::sync::oneshot::Receiver;
use topics::{Group, Teller};

use super::*;
use crate::Config;
use crate::handle::{Reply, Request};
use crate::reactor::attachments::Owner;
use crate::reactor::{Inbox, Reactor, Shared};
use crate::stats::StatsFilter;
use crate::window::ReportOrder;

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
        let made = reactor
            .hall
            .topics
            .table
            .find_or_create(&format!("t{number}"));
        made.expect("within bounds");
    }
    reactor
}

fn ask<T>(reactor: &Reactor, request: impl FnOnce(Reply<T>) -> Request) -> Answered<T> {
    let (reply, answer) = Reply::new();
    let inbox = &reactor.hall.shared.inboxes[0];
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
        Subject::Report(reporting, _) => reporting.publishers.len(),
        Subject::Stranded(..) | Subject::Settling => 0,
    });
    gathered.sum()
}

fn publish(topic: &str) -> impl FnOnce(Reply<()>) -> Request {
    move |reply| Request::Publish {
        maker: None,
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
        sharing: SharePolicy::Gtb,
        ..Limit::messages(10.0, 5.0).expect("valid")
    };
    for number in 0..SHARED {
        let topic = format!("t{}", number * TOPICS / SHARED);
        let key = reactor.hall.topics.table.find(&topic).expect("made");
        for limit in [Some(limit), None, Some(limit)] {
            reactor
                .hall
                .topics
                .table
                .set_shared_limit(key, limit, None, reactor.hall.time.now);
        }
    }
    let end = |reactor: &mut Reactor| {
        let question = |reply| Request::Survey(Question::CollectEstimates(Arc::default(), reply));
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
            .hall
            .topics
            .table
            .find(&format!("t{number}"))
            .expect("made");
        match number {
            0 => continue,
            1..2500 => {
                reactor
                    .hall
                    .topics
                    .table
                    .set_shared_limit(key, None, None, reactor.hall.time.now)
            }
            _ => reactor.hall.topics.table.delete(key),
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

/// Has something said of all topics; how many turns they hear it in, at most so many in each.
fn turns_to_settle(reactor: &mut Reactor, word: impl FnOnce(Reply<()>) -> Request) -> usize {
    let mut answered = ask(reactor, word);
    let (mut turns, mut before) = (0, 0);
    loop {
        turn(reactor);
        if turns == 0 {
            answered.try_recv().expect("at once").expect("done");
        }
        let Some(survey) = reactor.surveys.waiting.front() else {
            assert!(!reactor.hall.topics.table.is_settling());
            return turns;
        };
        turns += 1;
        let heard = survey.seen - before;
        assert!(heard <= STEPS_MAX, "{heard} in a turn");
        before = survey.seen;
    }
}

#[test]
fn leases_are_prolonged_by_a_word_and_looked_at_in_slices_now_and_then() {
    const TOPICS: usize = 5_000;
    let mut reactor = reactor(TOPICS);
    let looks = (0..64).filter(|&report| {
        let by = Prolongation::Renewed { report };
        turns_to_settle(&mut reactor, |reply| Request::Prolong(by, reply)) > 0
    });
    assert_eq!(looks.count(), 4);
}

#[test]
fn what_is_said_of_all_topics_is_heard_in_slices() {
    const TOPICS: usize = 5_000;
    let mut reactor = reactor(TOPICS);
    let least = TOPICS / STEPS_MAX;
    for (teller, least) in [
        (Teller::Answering, least),
        (Teller::Silent, 0),
        (Teller::GivenUp, least),
    ] {
        let turns = turns_to_settle(&mut reactor, |reply| Request::Hear(teller, reply));
        assert!(turns >= least, "{teller:?}: {turns} turns");
    }
    for (brokers, least) in [(2, least), (2, 0), (3, least)] {
        let group = Some(Group {
            brokers,
            ..Group::ALONE
        });
        let turns = turns_to_settle(&mut reactor, |reply| Request::Join(group, reply));
        assert!(turns >= least, "{brokers} brokers: {turns} turns");
    }
}

#[test]
fn words_that_follow_each_other_are_heard_by_all() {
    let mut reactor = reactor(5_000);
    for brokers in 2..6 {
        let group = Some(Group {
            brokers,
            ..Group::ALONE
        });
        let mut answered = ask(&reactor, |reply| Request::Join(group, reply));
        turn(&mut reactor);
        answered.try_recv().expect("at once").expect("done");
    }
    assert_eq!(reactor.surveys.waiting.len(), 1, "one way for all");
    while reactor.hall.topics.table.is_settling() {
        turn(&mut reactor);
    }
    assert!(reactor.surveys.waiting.is_empty());
}

#[test]
fn queues_to_hand_over_are_looked_for_in_slices() {
    const TOPICS: usize = 5_000;
    let mut reactor = reactor(TOPICS);
    let mut published = ask(&reactor, publish("t4999"));
    turn(&mut reactor);
    published.try_recv().expect("at once").expect("taken");
    let question = |reply| Request::Survey(Question::Stranded(Duration::ZERO, reply));
    let mut answered = ask(&reactor, question);
    let mut turns = 0;
    let queues = loop {
        turn(&mut reactor);
        turns += 1;
        if let Ok(answer) = answered.try_recv() {
            break answer.expect("answered");
        }
    };
    let found: Vec<&str> = queues.iter().map(|queue| queue.topic.as_str()).collect();
    assert_eq!(found, ["t4999"]);
    assert!(turns >= TOPICS / STEPS_MAX, "{turns} turns");
}

#[test]
fn publishers_are_reported_in_slices() {
    const PUBLISHERS: usize = 1_500;
    let mut reactor = reactor(1);
    let topic = "t0".parse().expect("valid");
    for number in 0..PUBLISHERS {
        let declaration = Arc::new(Declaration {
            id: format!("s{number}"),
            topic: String::from("t0"),
            group: None,
            rate: None,
            batch: 1,
        });
        let owner = Owner {
            reactor: 0,
            connection: number as u64,
        };
        reactor
            .hall
            .topics
            .attachments
            .attach(&topic, declaration, owner);
    }
    let order = ReportOrder {
        number: 1,
        is_first: true,
        bytes_max: usize::MAX,
    };
    let question = |reply| Request::Survey(Question::Report(order, reply));
    let mut answered = ask(&reactor, question);
    let (mut turns, mut before) = (0, 0);
    let report = loop {
        turn(&mut reactor);
        turns += 1;
        if let Ok(answer) = answered.try_recv() {
            break answer.expect("answered");
        }
        let told = gathered(&reactor) - before;
        assert!(told <= STEPS_MAX, "{told} in a turn");
        before += told;
    };
    assert_eq!(report.attachments.len(), PUBLISHERS);
    assert!(turns >= PUBLISHERS / STEPS_MAX, "{turns} turns");
}
