//! The driver with real sockets: the follower's laws are tested in virtual time.

mod cluster;

use std::collections::BTreeSet;

use self::cluster::{Broker, Controller};
use super::*;

fn placed_at(broker: &Broker) -> String {
    format!(
        r#"{{"id":"s/1","rate":1.0,"batch":1,"broker":{{"broker":"b","tcp_address":"{}"}}}}"#,
        broker.name()
    )
}

/// A controller that places the publisher at `first`, and at `second` when it is to avoid `first`.
fn controller(first: &Broker, second: &Broker) -> Controller {
    let controller = Controller::start();
    let list = format!(r#"{{"publishers":[{}]}}"#, placed_at(first));
    controller.answers("POST /v1/topics/t/publishers", 200, &list);
    let avoiding = format!("GET /v1/topics/t/publishers/s%2F1?avoid={}", first.name());
    controller.answers(&avoiding, 200, &placed_at(second));
    controller
}

fn options(controller: &Controller) -> PlacedOptions {
    PlacedOptions {
        group: Some("g7".to_owned()),
        rate: 5.0,
        patience: Some(Duration::from_secs(60)),
        ..PlacedOptions::new(&controller.address, "t", "s/1")
    }
}

fn numbered(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

#[test]
fn a_move_takes_every_message_once() {
    let (first, second) = (Broker::start(), Broker::start());
    let controller = controller(&first, &second);
    let publisher = PlacedPublisher::start(options(&controller)).expect("valid");
    for body in numbered(0, 100) {
        publisher.publish(body.as_bytes()).expect("taken");
    }
    publisher.flush().expect("acknowledged");
    let mut frames = Vec::new();
    wire::put_throttled(&mut frames, "t", 12_000);
    wire::put_migrate(&mut frames, "t", &second.name());
    first.send(&frames);
    // Nothing is published meanwhile: it moves by itself.
    first.wait_for_close();
    assert_eq!(publisher.broker(), Some(second.name()));
    publisher.publish_batch(&numbered(100, 200)).expect("taken");
    assert_eq!(publisher.traffic().moves, 1);
    publisher.close().expect("acknowledged");
    assert_eq!(first.bodies(), numbered(0, 100));
    assert_eq!(second.bodies(), numbered(100, 200));
    for broker in [&first, &second] {
        let identities = broker.identities();
        assert_eq!(identities.len(), 1);
        let announced =
            r#""srtm":{"publisher":{"id":"s/1","topic":"t","group":"g7","rate":5.0,"batch":1}}"#;
        assert!(identities[0].contains(announced), "{identities:?}");
    }
    let asked = controller.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    for part in [r#""id":"s/1""#, r#""group":"g7""#, r#""rate":5.0"#] {
        assert!(asked[0].contains(part), "{asked:?}");
    }
}

#[test]
fn a_death_repeats_but_loses_nothing() {
    let (first, second) = (Broker::start(), Broker::start());
    let controller = controller(&first, &second);
    let publisher = PlacedPublisher::start(options(&controller)).expect("valid");
    first.mute();
    for body in numbered(0, 50) {
        publisher.publish(body.as_bytes()).expect("taken");
    }
    first.wait_for_bodies(50);
    first.kill();
    for body in numbered(50, 100) {
        publisher.publish(body.as_bytes()).expect("taken");
    }
    publisher.flush().expect("acknowledged");
    // Some of the later ones may have been written before the end of the connection was seen.
    assert!((50..=100).contains(&publisher.traffic().resent));
    assert_eq!(publisher.unacknowledged(), 0);
    let arrived: BTreeSet<String> = second.bodies().into_iter().collect();
    assert_eq!(arrived, numbered(0, 100).into_iter().collect());
    assert_eq!(second.bodies().len(), 100);
    assert!(publisher.trouble().contains(&first.name()));
}

#[test]
fn patience_ends_with_the_reason_and_nothing_is_lost() {
    let broker = Broker::start();
    let controller = Controller::start();
    let unplaced = r#"{"publishers":[{"id":"s/1","rate":1.0,"batch":1}]}"#;
    controller.answers("POST /v1/topics/t/publishers", 200, unplaced);
    let of_one = "GET /v1/topics/t/publishers/s%2F1";
    controller.answers(of_one, 503, r#"{"message":"no brokers"}"#);
    let options = PlacedOptions {
        patience: Some(Duration::from_millis(300)),
        window_messages: 1,
        ..options(&controller)
    };
    let publisher = PlacedPublisher::start(options).expect("valid");
    publisher.publish(b"a").expect("the window has room");
    let refused = publisher.publish(b"b").expect_err("no room, no broker");
    assert!(matches!(refused, ClientError::NoBroker { .. }), "{refused}");
    assert!(!refused.is_fatal());
    controller.answers(of_one, 200, &placed_at(&broker));
    broker.wait_for_bodies(1);
    publisher.close().expect("acknowledged");
    assert_eq!(broker.bodies(), ["a"]);
}

#[test]
fn a_controller_may_refuse_for_good() {
    let controller = Controller::start();
    let text = r#"{"message":"rate is above the topic's limit"}"#;
    controller.answers("POST /v1/topics/t/publishers", 400, text);
    let publisher = PlacedPublisher::start(options(&controller)).expect("valid");
    publisher.publish(b"a").ok();
    let refused = publisher.flush().expect_err("refused");
    assert!(matches!(refused, ClientError::NotPlaced(_)), "{refused}");
    assert!(refused.to_string().contains("above the topic's limit"));
}

#[test]
fn who_does_not_register_goes_to_the_topics_first_broker() {
    let broker = Broker::start();
    let controller = Controller::start();
    let placement = format!(
        r#"{{"topic":"t","exists":false,"brokers":[{{"broker":"b","tcp_address":"{}"}}],"publishers":{{}}}}"#,
        broker.name()
    );
    controller.answers("GET /v1/topics/t/placement", 200, &placement);
    let options = PlacedOptions {
        register: false,
        ..options(&controller)
    };
    let publisher = PlacedPublisher::start(options).expect("valid");
    publisher.publish(b"a").expect("taken");
    publisher.close().expect("acknowledged");
    assert_eq!(broker.bodies(), ["a"]);
    let asked = controller.asked();
    let expected = [
        "GET /v1/topics/t/publishers/s%2F1",
        "GET /v1/topics/t/placement",
    ];
    assert_eq!(asked, expected);
}

#[test]
fn dropping_does_not_wait() {
    let controller = Controller::start();
    let publisher = PlacedPublisher::start(options(&controller)).expect("valid");
    publisher.publish(b"a").expect("the window has room");
    assert!(format!("{publisher:?}").contains("published: 1"));
    drop(publisher);
}

#[test]
fn a_publisher_is_shared_by_threads() {
    let (first, second) = (Broker::start(), Broker::start());
    let controller = controller(&first, &second);
    let options = PlacedOptions {
        window_messages: 7,
        ..options(&controller)
    };
    let publisher = PlacedPublisher::start(options).expect("valid");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let publisher = &publisher;
            scope.spawn(move || {
                for number in 0..50 {
                    let body = format!("{thread}-{number}");
                    publisher.publish(body.as_bytes()).expect("taken");
                }
            });
        }
    });
    publisher.close().expect("acknowledged");
    let bodies: BTreeSet<String> = first.bodies().into_iter().collect();
    assert_eq!((bodies.len(), first.bodies().len()), (200, 200));
}
