//! The agent's effects and messages, step by step, in cases that matter and that a simulated
//! cluster rarely reaches.

use limit::{Grant, Limit};
use link::{Contract, Identity, TopicChange, TopicState};
use proptest::prelude::*;
use topics::Teller;

use super::*;
use crate::window::WindowResult;

const fn at(ms: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + ms * 1_000_000)
}

fn agent(pass_after: Option<Duration>) -> Agent {
    let hello = Hello {
        broker: String::from("b"),
        identity: Identity([1; 16]),
        life: 0,
        tcp_address: String::from("b:4150"),
        http_address: None,
        gossip_address: None,
        mcap: None,
        model: None,
    };
    let mut agent = Agent::new(hello, vec![String::from("c")], pass_after, (7, at(0)));
    agent.wake(at(0));
    agent
}

fn effects(agent: &mut Agent) -> Vec<Effect> {
    std::iter::from_fn(|| agent.next_effect()).collect()
}

fn errands(agent: &mut Agent) -> Vec<Errand> {
    let asked = effects(agent)
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Ask(errand) => Some(errand),
            _ => None,
        });
    asked.collect()
}

fn messages(agent: &mut Agent, now: Instant) -> Vec<ToController> {
    std::iter::from_fn(|| agent.next_message(now)).collect()
}

fn say(agent: &mut Agent, epoch: u64, order: ToBroker, now: Instant) {
    agent.heard(Order { epoch, order }, now);
}

fn welcome() -> ToBroker {
    ToBroker::Welcome {
        life: 5,
        report_interval_ms: 500,
        history_window_ms: 10_000,
    }
}

/// The controller takes it, and the broker is not ready for the link yet.
fn greet(agent: &mut Agent, epoch: u64, now: Instant) {
    assert!(matches!(effects(agent)[..], [Effect::Dial(_)]));
    agent.connected(now);
    assert!(matches!(messages(agent, now)[..], [ToController::Hello(_)]));
    say(agent, epoch, welcome(), now);
    assert!(matches!(
        errands(agent)[..],
        [Errand::BeginLink {
            history: Some(_),
            ..
        }]
    ));
}

/// A link on which everything was asked that begins it.
fn link(agent: &mut Agent, epoch: u64, now: Instant) {
    greet(agent, epoch, now);
    agent.answered(Answer::Done(Ok(())), now);
    assert!(matches!(
        errands(agent)[..],
        [
            Errand::TakeStock,
            Errand::Report {
                number: 1,
                is_first: true
            }
        ]
    ));
}

fn contract(topic: &str, ticket: u64) -> ToBroker {
    ToBroker::Contract {
        topic: topic.to_owned(),
        contract: Contract::of_limit(Limit::messages(10.0, 5.0).expect("valid")),
        limit_number: None,
        ticket,
    }
}

fn grant(topic: &str) -> ToBroker {
    ToBroker::Grant {
        topic: topic.to_owned(),
        grant: Grant {
            epoch: 1,
            seq: 1,
            share: None,
            floor: None,
            ttl_ms: 1000,
            answers_report: 1,
            round: 0,
        },
    }
}

fn in_force(topic: &str, ticket: u64) -> ToController {
    let topic = topic.to_owned();
    ToController::ContractInForce { topic, ticket }
}

fn deleted(topics: &[&str]) -> VecDeque<Told> {
    let topics = topics.iter().map(|topic| topic.parse().expect("valid"));
    let followed = topics.map(|topic| Told::Followed(topic, TopicChange::TopicDeleted));
    followed.collect()
}

/// Topics of which it is said that their deletion is kept.
fn kept(agent: &mut Agent, now: Instant) -> Vec<String> {
    let messages = messages(agent, now).into_iter();
    let kept = messages.filter_map(|message| match message {
        ToController::DeletionKept { topic, .. } => Some(topic),
        _ => None,
    });
    kept.collect()
}

#[test]
fn a_deletion_is_called_kept_once_a_catalog_without_it_is_on_disk() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    agent.answered(Answer::Stock(Ok(Vec::new())), at(1));
    agent.changed(deleted(&["t", "u"]), at(2));
    assert!(matches!(errands(&mut agent)[..], [Errand::Keep]));
    // What is deleted once more may have been there again when the catalog was read.
    agent.changed(deleted(&["t"]), at(3));
    assert_eq!(kept(&mut agent, at(3)), [""; 0]);
    agent.answered(Answer::Kept(Ok(())), at(4));
    assert_eq!(kept(&mut agent, at(4)), ["u"]);
    assert!(matches!(errands(&mut agent)[..], [Errand::Keep]));
    agent.answered(Answer::Kept(Ok(())), at(5));
    assert_eq!(kept(&mut agent, at(5)), ["t"]);
    assert_eq!(errands(&mut agent).len(), 0);
    // On the next link the controller says again what it was not told.
    agent.changed(deleted(&["v"]), at(6));
    assert!(matches!(errands(&mut agent)[..], [Errand::Keep]));
    agent.ended(Ended::Lost(String::from("cut")), at(7));
    agent.answered(Answer::Kept(Ok(())), at(8));
    assert_eq!(kept(&mut agent, at(8)), [""; 0]);
}

#[test]
fn what_follows_of_one_kind_is_done_at_once_and_never_past_another() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    let orders = [
        contract("a", 1),
        contract("b", 2),
        contract("c", 3),
        grant("a"),
        grant("b"),
        contract("d", 4),
        ToBroker::Complete,
    ];
    for order in orders {
        say(&mut agent, 1, order, at(1));
    }
    let mut sizes = Vec::new();
    loop {
        let asked = errands(&mut agent);
        let [errand] = &asked[..] else {
            assert!(asked.is_empty(), "one at a time: {asked:?}");
            break;
        };
        let answer = match errand {
            Errand::Declare(contracts) => {
                sizes.push(contracts.len());
                Answer::Declared(contracts.iter().map(|_| Ok(())).collect(), None)
            }
            Errand::Grant(grants) => {
                sizes.push(grants.len());
                Answer::Granted(Vec::new(), Vec::new())
            }
            _ => Answer::Done(Ok(())),
        };
        agent.answered(answer, at(2));
    }
    assert_eq!(sizes, [1, 2, 2, 1], "the first is not kept waiting");
    assert!(agent.is_told_all());
    let said = messages(&mut agent, at(2));
    let topics = ["a", "b", "c", "d"];
    let expected = topics
        .iter()
        .zip(1..)
        .map(|(topic, at)| in_force(topic, at));
    assert_eq!(said, expected.collect::<Vec<_>>());
}

#[test]
fn what_a_former_link_began_is_waited_for_and_told_to_nobody() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    say(&mut agent, 1, contract("a", 1), at(1));
    assert!(matches!(errands(&mut agent)[..], [Errand::Declare(_)]));
    say(&mut agent, 1, grant("a"), at(1));
    agent.ended(Ended::Lost(String::from("reset")), at(2));
    let again = agent.next_wake().expect("it dials again");
    agent.wake(again);
    assert!(matches!(effects(&mut agent)[..], [Effect::Dial(_)]));
    agent.connected(again);
    say(&mut agent, 2, welcome(), again);
    assert!(errands(&mut agent).is_empty(), "the contract is on its way");
    let outcomes = Answer::Declared(vec![Ok(())], None);
    agent.answered(outcomes, again);
    // The grant went with its link.
    assert!(matches!(
        errands(&mut agent)[..],
        [Errand::BeginLink {
            history: Some(_),
            ..
        }]
    ));
    agent.answered(Answer::Done(Ok(())), again);
    // Stock and a report are on their way for the former link: only behind them come those of this one.
    assert!(errands(&mut agent).is_empty());
    agent.answered(Answer::Stock(Ok(Vec::new())), again);
    agent.answered(Answer::Reported(Ok(Figures::default())), again);
    assert_eq!(errands(&mut agent).len(), 2);
    assert!(!agent.takes_changes(), "stock comes first");
    assert!(
        matches!(&messages(&mut agent, again)[..], [ToController::Hello(hello)] if hello.life == 5)
    );
}

#[test]
fn orders_of_a_life_before_end_the_link() {
    let mut started_again = agent(None).obeying(8);
    assert_eq!(effects(&mut started_again).len(), 1);
    started_again.connected(at(0));
    say(&mut started_again, 7, welcome(), at(0));
    assert!(matches!(effects(&mut started_again)[..], [Effect::HangUp]));
    let mut agent = agent(None);
    link(&mut agent, 8, at(0));
    say(&mut agent, 7, contract("a", 1), at(1));
    assert!(matches!(effects(&mut agent)[..], [Effect::HangUp]));
    assert!(messages(&mut agent, at(1)).is_empty());
    say(&mut agent, 8, contract("a", 1), at(1));
    assert!(
        errands(&mut agent).is_empty(),
        "nobody is heard without a link"
    );
}

#[test]
fn a_controller_that_stays_away_is_given_up_once_for_each_time() {
    let mut agent = agent(Some(Duration::from_secs(3)));
    assert!(matches!(effects(&mut agent)[..], [Effect::Dial(_)]));
    agent.wake(at(3000));
    let asked = errands(&mut agent);
    assert!(matches!(asked[..], [Errand::Hear(Teller::GivenUp)]));
    assert!(agent.is_given_up());
    // It comes while reactors are told that it stays away: they hear of it behind that.
    agent.connected(at(3001));
    say(&mut agent, 1, welcome(), at(3001));
    say(&mut agent, 1, ToBroker::Complete, at(3001));
    assert!(errands(&mut agent).is_empty());
    agent.answered(Answer::Done(Ok(())), at(3002));
    assert!(matches!(
        errands(&mut agent)[..],
        [Errand::BeginLink { .. }]
    ));
    agent.answered(Answer::Done(Ok(())), at(3002));
    let asked = errands(&mut agent);
    assert!(
        matches!(asked[0], Errand::Hear(Teller::Answering)),
        "{asked:?}"
    );
    assert!(!agent.is_given_up() && agent.is_told_all());
    agent.ended(Ended::Lost(String::from("reset")), at(4000));
    assert!(!agent.is_told_all());
    agent.answered(Answer::Done(Ok(())), at(4001));
    agent.wake(at(6999));
    assert!(!agent.is_given_up());
    agent.wake(at(7000));
    assert!(agent.is_given_up());
}

#[test]
fn a_window_of_the_same_topic_takes_the_place_of_the_one_before() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    let measure = |window, seconds| ToBroker::Measure {
        window,
        topic: String::from("t"),
        seconds,
        percentile: 99.0,
        promise_us: None,
        with_trace: false,
    };
    say(&mut agent, 1, measure(1, 1.0), at(0));
    agent.answered(Answer::Done(Ok(())), at(0));
    agent.wake(at(1000));
    let asked = errands(&mut agent);
    assert!(
        matches!(asked[..], [Errand::BeginWindow(..), Errand::EndWindow(_)]),
        "{asked:?}"
    );
    say(&mut agent, 1, measure(2, 1.0), at(1001));
    assert!(errands(&mut agent).is_empty(), "the first one is ending");
    let topic = "t".parse::<wire::TopicName>().expect("valid");
    let ended = Answer::Window(topic.clone(), Ok(WindowResult::default()));
    agent.answered(ended, at(1002));
    say(&mut agent, 1, measure(3, 1.0), at(1002));
    agent.answered(Answer::Done(Ok(())), at(1002));
    agent.answered(Answer::Done(Ok(())), at(1003));
    agent.wake(at(2002));
    assert!(
        errands(&mut agent)
            .iter()
            .all(|errand| matches!(errand, Errand::BeginWindow(..))),
        "the second one is forgotten"
    );
    agent.wake(at(2003));
    assert!(matches!(errands(&mut agent)[..], [Errand::EndWindow(_)]));
    agent.answered(Answer::Window(topic, Ok(WindowResult::default())), at(2003));
    let said = messages(&mut agent, at(2003));
    let numbers = said.iter().filter_map(|message| match message {
        ToController::Window(report) => Some(report.window),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 3], "{said:?}");
}

#[test]
fn a_controller_that_takes_nothing_is_told_no_more_than_it_has_room_for() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    let mut asked = 0;
    for ticket in 0.. {
        if !agent.takes_orders() {
            break;
        }
        let state = TopicState {
            topic: String::from("t"),
            is_paused: false,
            channels: Vec::new(),
        };
        say(&mut agent, 1, ToBroker::Topic { state, ticket }, at(0));
        if errands(&mut agent).len() == 1 {
            asked += 1;
            agent.answered(Answer::Learned(Ok(true)), at(0));
            asked += errands(&mut agent).len();
        }
    }
    assert_eq!(asked, outbox::OUTBOX_MAX);
    assert!(!agent.takes_changes());
    assert_eq!(messages(&mut agent, at(0)).len(), outbox::OUTBOX_MAX);
    assert_eq!(errands(&mut agent).len(), 1, "it goes on where it stopped");
}

#[test]
fn a_report_that_is_wanted_comes_early_and_not_too_often() {
    let mut agent = agent(None);
    link(&mut agent, 1, at(0));
    // Wanted while one is on its way, which may not know of it.
    agent.report_wanted(at(10));
    agent.answered(Answer::Reported(Ok(Figures::default())), at(20));
    agent.wake(at(119));
    assert!(errands(&mut agent).is_empty());
    agent.wake(at(120));
    assert!(matches!(
        errands(&mut agent)[..],
        [Errand::Report { number: 2, .. }]
    ));
    agent.answered(Answer::Reported(Ok(Figures::default())), at(120));
    agent.report_wanted(at(400));
    assert!(matches!(
        errands(&mut agent)[..],
        [Errand::Report { number: 3, .. }]
    ));
}

proptest! {
    /// Whatever comes in which order, at most one order is on its way, and an answer that nobody waits for says nothing.
    #[test]
    fn one_order_at_a_time(steps in prop::collection::vec(0_u8..8, 0..200)) {
        let mut agent = agent(Some(Duration::from_secs(1)));
        let (mut now_ms, mut on_their_way) = (0, Vec::new());
        for step in steps {
            now_ms += 30;
            let now = at(now_ms);
            match step {
                0 => agent.connected(now),
                1 => say(&mut agent, 1, welcome(), now),
                2 => say(&mut agent, 1, contract("a", now_ms), now),
                3 => say(&mut agent, 1, ToBroker::Complete, now),
                4 => agent.ended(Ended::Lost(String::from("reset")), now),
                5 if !on_their_way.is_empty() => {
                    let answer = match on_their_way.remove(0) {
                        Errand::Declare(contracts) => {
                            Answer::Declared(contracts.iter().map(|_| Ok(())).collect(), None)
                        }
                        Errand::TakeStock => Answer::Stock(Ok(Vec::new())),
                        Errand::Report { .. } => Answer::Reported(Ok(Figures::default())),
                        _ => Answer::Done(Ok(())),
                    };
                    agent.answered(answer, now);
                }
                6 => drop(messages(&mut agent, now)),
                _ => agent.wake(now),
            }
            on_their_way.extend(errands(&mut agent));
            let lane = |errand: &&Errand| {
                !matches!(errand, Errand::TakeStock | Errand::Report { .. })
            };
            prop_assert!(on_their_way.iter().filter(lane).count() <= 1, "{on_their_way:?}");
            prop_assert!(on_their_way.len() <= 3, "{on_their_way:?}");
        }
    }
}
