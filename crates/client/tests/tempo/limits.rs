//! A topic's limit among publishers without a broker.

use std::collections::BTreeMap;

use client::ClientError;
use client::tempo::{Limit, PublicationOptions};
use limit::OnExceed;
use wire::announce::Role;

use crate::stranger::Stranger;
use crate::world::{PATIENCE, group, node, subscribe, wait_until};

fn limited(rate: f64, burst: f64, on_exceed: OnExceed) -> PublicationOptions {
    let limit = Limit::messages(rate, burst).expect("a limit");
    PublicationOptions {
        limit: Some(Limit { on_exceed, ..limit }),
        ..PublicationOptions::default()
    }
}

#[test]
fn excess_waits_and_arrives() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let (_subscription, received) = subscribe(&subscribing, "delayed");
    let publisher = publishing
        .publisher("delayed", limited(500.0, 5.0, OnExceed::Delay))
        .expect("it publishes");
    assert!(publisher.wait_for_subscriber(PATIENCE));
    for number in 0..100_u8 {
        publisher.publish(&[number]).expect("it is taken");
    }
    for number in 0..100_u8 {
        assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), [number]);
    }
    assert_eq!(publisher.counts().dropped_limit, 0);
}

#[test]
fn excess_is_dropped_or_rejected_and_counted() {
    for on_exceed in [OnExceed::Drop, OnExceed::Reject] {
        let group = group();
        let (publishing, subscribing) = (node(group), node(group));
        let (subscription, received) = subscribe(&subscribing, "excess");
        let publisher = publishing
            .publisher("excess", limited(50.0, 10.0, on_exceed))
            .expect("it publishes");
        assert!(publisher.wait_for_subscriber(PATIENCE));
        let (mut offered, mut rejected) = (0, 0);
        // A newcomer may use nothing until it has listened; then some get through, and not all that follow at once.
        let mut arrived = 0;
        wait_until("some get through and some do not", || {
            for _ in 0..100 {
                offered += 1;
                match publisher.publish(b"x") {
                    Ok(()) => {}
                    Err(ClientError::OverLimit { .. }) => rejected += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            arrived += received.try_iter().count();
            arrived > 0 && publisher.counts().dropped_limit > 0
        });
        assert!(publisher.flush(PATIENCE));
        let counts = publisher.counts();
        assert_eq!(counts.published + counts.dropped_limit, offered);
        let is_rejected = on_exceed == OnExceed::Reject;
        assert_eq!(rejected, if is_rejected { counts.dropped_limit } else { 0 });
        wait_until("all arrive", || {
            subscription.counts().messages == counts.published
        });
    }
}

#[test]
fn publishers_never_say_that_they_use_more_than_the_limit() {
    let group = group();
    let stranger = Stranger::new(group);
    let nodes = [node(group), node(group), node(group)];
    let publish = |node: &client::tempo::Node| {
        node.publisher("shared", limited(900.0, 30.0, OnExceed::Delay))
            .expect("it publishes")
    };
    let mut publishers = vec![publish(&nodes[0])];
    let mut used = BTreeMap::new();
    let mut joined = 1;
    loop {
        let said = stranger.hear().0;
        let held = said
            .entries
            .iter()
            .find(|entry| entry.role == Role::Publisher);
        let Some(held) = held.and_then(|entry| entry.held) else {
            continue;
        };
        used.insert(said.instance, held);
        let sum: f32 = used.values().map(|held| held.rate).sum();
        assert!(sum <= 900.0, "{used:?}");
        let alike = |held: &&wire::announce::Held| {
            usize::from(held.publishers) == joined && held.rate > 899.0 / joined as f32
        };
        if used.values().filter(alike).count() < joined {
            continue;
        }
        // All that joined have their part; the next one makes it smaller.
        if joined == nodes.len() {
            break;
        }
        publishers.push(publish(&nodes[joined]));
        joined += 1;
    }
    assert_eq!(publishers.len(), 3);
}
