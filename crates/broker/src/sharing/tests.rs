//! Brokers that gossip over real sockets. Each step waits for what the brokers themselves show.

mod gathering;

use std::time::Duration;

use limit::{Limit, OnExceed, SharePolicy};
use link::Contract;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use topics::Teller;
use wire::TopicName;

use super::*;
use crate::handle::DeclaredContract;
use crate::stats::{StatsFilter, TopicStats};
use crate::{Broker, Config, ControllerLink, Operation};

const RATE: f64 = 100_000.0;

struct Sharer {
    broker: Broker,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Sharer {
    /// A broker that would obey a controller; the test plays it.
    async fn start() -> Sharer {
        let config = Config {
            tcp_address: ([127, 0, 0, 1], 0).into(),
            http_address: None,
            threads: 2,
            controller: Some(ControllerLink::new(
                String::from("127.0.0.1:1"),
                String::from("b"),
                link::LinkKey::new([1; 32]),
            )),
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let broker = Broker::start(config).expect("starts");
        let sharing = SharingConfig {
            address: Some(([127, 0, 0, 1], 0).into()),
            key: None,
            join: Vec::new(),
        };
        let sharer = Sharer::of(broker, sharing, limit(RATE)).await;
        let handle = sharer.broker.handle();
        let set = handle.put_into_force(DeclaredContract {
            maker: None,
            topic: topic(),
            contract: Contract::of_limit(limit(RATE)),
            number: Some(3),
        });
        set.await.expect("in range");
        sharer
    }

    /// A broker that has the topic with a limit, and gossips as it is told.
    async fn of(broker: Broker, sharing: SharingConfig, limit: Limit) -> Sharer {
        let port = SharingPort::bind(sharing, broker.tcp_address(), "localhost", true);
        let port = port.expect("a free port");
        let address = port.address().expect("bound");
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(port.run(broker.handle(), async {
            let _ = stopped.await;
        }));
        let sharer = Sharer {
            broker,
            address,
            stop,
            task,
        };
        let handle = sharer.broker.handle();
        handle
            .set_contract(topic(), Contract::of_limit(limit))
            .await
            .expect("in range");
        let channel = "c".parse().expect("valid");
        handle
            .channel(topic(), channel, Operation::Create)
            .await
            .expect("made");
        // What a controller would say.
        let heard = handle.told().hear(Teller::Answering).await;
        heard.expect("runs");
        sharer
    }

    fn list(&self, sharers: &Sharers) {
        self.broker.handle().sharing.listed(sharers.clone());
    }

    async fn stats(&self) -> TopicStats {
        let mut stats = self
            .broker
            .handle()
            .stats(StatsFilter::default())
            .await
            .expect("runs");
        stats.topics.remove(0)
    }

    /// Waits until the topic stands as `holds` says.
    async fn until(&self, what: &str, holds: impl Fn(&TopicStats) -> bool) {
        let wait = async {
            while !holds(&self.stats().await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let met = tokio::time::timeout(Duration::from_secs(60), wait).await;
        assert!(
            met.is_ok(),
            "{what}: {:?} {:?}",
            self.stats().await,
            self.broker.handle().sharing.figures()
        );
    }

    async fn end(self) {
        let _ = self.stop.send(());
        self.task.await.expect("ends");
        let broker = self.broker;
        tokio::task::spawn_blocking(move || broker.stop())
            .await
            .expect("stops");
    }
}

fn limit(rate: f64) -> Limit {
    Limit {
        sharing: SharePolicy::Fps,
        on_exceed: OnExceed::Delay,
        ..Limit::messages(rate, 100.0).expect("in range")
    }
}

fn topic() -> TopicName {
    "t".parse().expect("valid")
}

fn sharers(generation: u64, brokers: &[&Sharer], key: &str) -> Sharers {
    Sharers {
        generation,
        addresses: brokers
            .iter()
            .map(|broker| broker.address.to_string())
            .collect(),
        key: Some(key.repeat(32)),
        branches: 3,
        interval_ms: 20,
    }
}

fn connected(stats: &TopicStats) -> Option<(u32, u32)> {
    stats
        .sharing
        .map(|sharing| (sharing.brokers, sharing.connected))
}

fn rate(stats: &TopicStats) -> f64 {
    stats.share.map_or(0.0, |share| share.rate.get())
}

fn count(broker: &Sharer, outcome: &str) -> u64 {
    let figures = broker.broker.handle().sharing.figures();
    let found = figures.datagrams.iter().find(|(name, _)| *name == outcome);
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn a_broker_is_reached_where_it_listens_or_where_it_says() {
    let at = |text: &str| text.parse().expect("an address");
    for (tcp, host, expected) in [
        ("127.0.0.1:4150", "somewhere", Some("127.0.0.1:4150")),
        ("0.0.0.0:4150", "10.0.0.7", Some("10.0.0.7:4150")),
        ("0.0.0.0:4150", "somewhere", None),
    ] {
        assert_eq!(reachable(at(tcp), host), expected.map(at), "{tcp} {host}");
    }
}

#[tokio::test]
async fn brokers_find_each_other_by_a_list_and_lose_those_that_go() {
    let (first, second) = (Sharer::start().await, Sharer::start().await);
    let alone = first.stats().await;
    assert_eq!(
        (alone.share, alone.sharing),
        (None, None),
        "no list, no part"
    );
    let both = sharers(1, &[&first, &second], "ab");
    first.list(&both);
    first
        .until("its N-th part", |stats| {
            connected(stats) == Some((2, 1)) && rate(stats) == RATE / 2.0
        })
        .await;
    second.list(&both);
    for broker in [&first, &second] {
        broker
            .until("hears the other", |stats| connected(stats) == Some((2, 2)))
            .await;
    }
    // Traffic at the first and none at the second.
    let handle = first.broker.handle();
    let channel: wire::ChannelName = "c".parse().expect("valid");
    let load = tokio::spawn(async move {
        loop {
            let bodies = vec![bytes::Bytes::from_static(b"m"); 200];
            let published = handle.publish(topic(), bodies, Duration::ZERO).await;
            if published.is_err() {
                return;
            }
            let _ = handle
                .channel(topic(), channel.clone(), Operation::Empty)
                .await;
        }
    });
    first
        .until("most of the limit", |stats| rate(stats) > 0.8 * RATE)
        .await;
    second
        .until("little of it", |stats| rate(stats) < 0.2 * RATE)
        .await;
    second.end().await;
    first
        .until("its part and no more", |stats| {
            connected(stats) == Some((2, 1)) && rate(stats) <= RATE / 2.0
        })
        .await;
    load.abort();
    assert!(count(&first, "sent") > 0 && count(&first, "received") > 0);
    first.end().await;
}

#[tokio::test]
async fn another_key_is_not_believed_and_a_list_without_this_broker_stops_it() {
    let (first, second) = (Sharer::start().await, Sharer::start().await);
    first.list(&sharers(1, &[&first, &second], "ab"));
    second.list(&sharers(1, &[&first, &second], "cd"));
    let wait = async {
        while count(&first, "forged") == 0 || count(&second, "forged") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("they try");
    assert_eq!(connected(&first.stats().await), Some((2, 1)));
    // The controller sees to it that all have one key, and that all are on the list.
    let both = sharers(2, &[&first, &second], "ef");
    first.list(&both);
    second.list(&both);
    first
        .until("hears the other", |stats| connected(stats) == Some((2, 2)))
        .await;
    second.list(&sharers(3, &[&first], "ef"));
    second
        .until("nothing passes", |stats| stats.share.is_none())
        .await;
    let problem = second.broker.handle().sharing.figures().problem;
    assert!(problem.is_some_and(|text| text.contains("does not name")));
    first.end().await;
    second.end().await;
}

/// Until when a broker may hold on to shares, if all others vouch.
fn held_until(broker: &Sharer) -> Option<clock::Instant> {
    let until = broker.broker.handle().sharing.held().until();
    until.map(|(_, until)| until)
}

#[tokio::test]
async fn brokers_of_a_round_vouch_for_each_other_while_both_are_there() {
    let (first, second) = (Sharer::start().await, Sharer::start().await);
    let told = |broker: &Sharer, other: &Sharer| {
        broker.broker.handle().sharing.told_round(&link::Round {
            number: 7,
            others: vec![other.address.to_string()],
            key: Some("ab".repeat(32)),
        });
    };
    told(&first, &second);
    told(&second, &first);
    let wait = async {
        let vouched = |broker| held_until(broker).is_some_and(|until| until > sys::monotonic_now());
        while !vouched(&first) || !vouched(&second) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        second.end().await;
        while held_until(&first).is_some_and(|until| until > sys::monotonic_now()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait)
        .await
        .expect("they hear each other, and then not");
    first.end().await;
}
