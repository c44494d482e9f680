//! CPU shares, as endpoints see them.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use client::tempo::{
    Activity, CpuShare, NodeStats, OnFull, PublicationOptions, SubscriptionOptions, TaskReport,
};

use crate::world::{PATIENCE, group, node, wait_until};

fn report<'s>(stats: &'s NodeStats, topic: &str) -> &'s TaskReport {
    let mut reports = stats.tasks.iter();
    let is_it = |report: &&TaskReport| {
        report.name == topic && matches!(report.activity, Activity::Subscription(_))
    };
    reports.find(is_it).expect("the subscription is a task")
}

#[test]
fn flooded_subscriptions_divide_the_time_by_their_shares() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let mut subscriptions = Vec::new();
    let mut publishers = Vec::new();
    for (topic, share) in [("much", 0.6), ("little", 0.2)] {
        let options = SubscriptionOptions {
            share: Some(CpuShare::new(share).expect("a share")),
        };
        // Work that takes longer than publishing, so that both queues are always full.
        let work = |_: &client::tempo::TempoMessage<'_>| {
            black_box((0..4000_u64).fold(0, |sum, number| black_box(sum ^ number)));
        };
        let subscription = subscribing.subscribe(topic, options, work);
        subscriptions.push(subscription.expect("it subscribes"));
        let options = PublicationOptions {
            on_full: OnFull::Block,
            ..PublicationOptions::default()
        };
        let publisher = publishing.publisher(topic, options);
        let publisher = publisher.expect("it publishes");
        assert!(publisher.wait_for_subscriber(PATIENCE));
        publishers.push(publisher);
    }
    let used = |stats: &NodeStats, topic: &str| report(stats, topic).task.used.as_secs_f64();
    let is_enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for publisher in &publishers {
            scope.spawn(|| {
                (0..200_000)
                    .take_while(|_| !is_enough.load(Ordering::Relaxed))
                    .try_for_each(|_| publisher.publish(&[0; 100]))
            });
        }
        let both_are_busy = || {
            let done = |number: usize| subscriptions[number].counts().messages;
            done(0) > 2_000 && done(1) > 500
        };
        wait_until("both are being served", both_are_busy);
        // How well is measured in virtual time; equal treatment would be 1. Here a pause of the machine is charged to whoever
        // was running and made up for later, so that it may take a while to even out.
        let before = subscribing.stats();
        let from = subscriptions[0].counts().messages;
        let ratio_after = |messages: u64| {
            wait_until("a while passes", || {
                subscriptions[0].counts().messages > from + messages
            });
            let after = subscribing.stats();
            let share = |topic: &str| used(&after, topic) - used(&before, topic);
            share("much") / share("little")
        };
        let mut ratios = (1..=5).map(|windows| ratio_after(windows * 10_000));
        let divides = ratios.any(|ratio| {
            println!("0.6 to 0.2 came out as {ratio}");
            (1.5..6.0).contains(&ratio)
        });
        is_enough.store(true, Ordering::Relaxed);
        assert!(divides, "never by their shares");
    });
    assert_eq!(
        report(&subscribing.stats(), "much").task.share,
        CpuShare::new(0.6).ok()
    );
}

#[test]
fn a_flood_on_one_topic_does_not_starve_another() {
    let group = group();
    let (publishing, subscribing) = (node(group), node(group));
    let flooded = subscribing
        .subscribe("flood", SubscriptionOptions::default(), |_| {
            black_box((0..2000_u64).fold(0, |sum, number| black_box(sum ^ number)));
        })
        .expect("it subscribes");
    let (_quiet, received) = crate::world::subscribe(&subscribing, "quiet");
    let flood = publishing.publisher("flood", PublicationOptions::default());
    let flood = flood.expect("it publishes");
    let quiet = publishing.publisher("quiet", PublicationOptions::default());
    let quiet = quiet.expect("it publishes");
    assert!(flood.wait_for_subscriber(PATIENCE) && quiet.wait_for_subscriber(PATIENCE));
    std::thread::scope(|scope| {
        scope.spawn(|| (0..100_000).try_for_each(|_| flood.publish(&[0; 100])));
        wait_until("it is flooded", || flooded.counts().messages > 100);
        for number in 0..50_u8 {
            let before = flooded.counts().messages;
            quiet.publish(&[number]).expect("it is taken");
            assert_eq!(received.recv_timeout(PATIENCE).expect("it comes"), [number]);
            // Turns of the other end after their time: never thousands of messages come first.
            let passed = flooded.counts().messages - before;
            assert!(passed < 20_000, "{passed} messages of the flood came first");
        }
    });
}
