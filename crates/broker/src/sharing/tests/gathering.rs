//! Brokers without a controller that find each other.

use super::*;
use link::Contract;

impl Sharer {
    /// A broker on its own that shares with those at `join`; a name that nobody has counts as one that is not heard.
    async fn gathering(join: &[SocketAddr], limit: Limit) -> Sharer {
        let sharing = SharingConfig {
            address: Some(([127, 0, 0, 1], 0).into()),
            key: Key::from_passphrase("between us").ok(),
            join: join.iter().map(SocketAddr::to_string).collect(),
        };
        let config = Config {
            tcp_address: ([127, 0, 0, 1], 0).into(),
            http_address: None,
            threads: 2,
            sharing: sharing.clone(),
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        Sharer::of(Broker::start(config).expect("starts"), sharing, limit).await
    }

    fn disagreements(&self) -> Vec<String> {
        self.broker.handle().sharing.figures().disagreements
    }
}

#[tokio::test]
async fn brokers_find_each_other_from_one_address_and_share_what_is_least() {
    let reserved = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    let nobody = reserved.local_addr().expect("bound");
    let first = Sharer::gathering(&[nobody], limit(RATE)).await;
    first
        .until("half of it, beside one that is not heard", |stats| {
            connected(stats) == Some((2, 1)) && rate(stats) == RATE / 2.0
        })
        .await;
    let second = Sharer::gathering(&[first.address], limit(RATE)).await;
    let third = Sharer::gathering(&[second.address], limit(RATE)).await;
    let all = [&first, &second, &third];
    for broker in all {
        broker
            .until("hears the others", |stats| connected(stats) == Some((4, 3)))
            .await;
    }
    assert!(first.broker.handle().sharing.forget(nobody));
    for broker in all {
        broker
            .until("counts one less", |stats| connected(stats) == Some((3, 3)))
            .await;
    }
    assert!(!first.broker.handle().sharing.forget(nobody));
    // One of them has less of a limit to keep than the others: it is that which they share.
    let handle = second.broker.handle();
    handle
        .set_contract(topic(), Contract::of_limit(limit(RATE / 10.0)))
        .await
        .expect("set");
    for broker in all {
        broker
            .until("the least", |stats| rate(stats) <= RATE / 10.0)
            .await;
    }
    let said = first.disagreements();
    assert!(
        said.iter().any(|said| said.contains("the smaller of each")),
        "{said:?}"
    );
    third.end().await;
    for broker in [&first, &second] {
        broker
            .until("goes on without one", |stats| {
                connected(stats) == Some((2, 2))
            })
            .await;
    }
    // One that ends without a word keeps its part.
    second.task.abort();
    first
        .until("its half", |stats| connected(stats) == Some((2, 1)))
        .await;
    first.end().await;
}

#[tokio::test]
async fn a_broker_without_the_topic_takes_part_and_leaves_it_all_to_the_others() {
    let reserved = std::net::UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
    let nobody = reserved.local_addr().expect("bound");
    let first = Sharer::gathering(&[nobody], limit(RATE)).await;
    let second = Sharer::gathering(&[first.address], limit(RATE)).await;
    first
        .until("both are found", |stats| connected(stats) == Some((3, 2)))
        .await;
    assert!(first.broker.handle().sharing.forget(nobody));
    second
        .broker
        .handle()
        .set_contract(topic(), Contract::default())
        .await
        .expect("set");
    first
        .until("both are there", |stats| connected(stats) == Some((2, 2)))
        .await;
    let handle = first.broker.handle();
    let load = tokio::spawn(async move {
        let channel: wire::ChannelName = "c".parse().expect("valid");
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
    load.abort();
    first.end().await;
    second.end().await;
}
