//! The ground of the tests: a group of their own, endpoints in it, and waiting for conditions.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use client::tempo::{Channel, Node, NodeOptions, Subscription, SubscriptionOptions};

/// Nothing here takes so long unless it never happens.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A multicast group on a port that was free a moment ago. Joined on the loopback interface (`interface`), it needs no
/// network: Linux delivers multicast sent out of `lo` to whoever joined it there.
pub fn group() -> SocketAddr {
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    SocketAddr::from(([239, 255, 77, 78], port))
}

/// Endpoints of the tests have one thread, and speak so often that nothing takes long, and so seldom that who is kept from
/// running for a while is not forgotten.
pub fn options(channel: Channel) -> NodeOptions {
    NodeOptions {
        channel,
        interface: Ipv4Addr::LOCALHOST,
        threads: 1,
        announce_interval: Duration::from_millis(500),
        data_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        ..NodeOptions::default()
    }
}

/// An endpoint in a group.
pub fn node(group: SocketAddr) -> Node {
    Node::start(options(Channel::Group(group))).expect("it starts")
}

/// A subscription that hands out the bodies it gets.
pub fn subscribe(node: &Node, topic: &str) -> (Subscription, Receiver<Vec<u8>>) {
    let (bodies, received) = channel();
    let subscription = node
        .subscribe(topic, SubscriptionOptions::default(), move |message| {
            // The test may have seen enough.
            let _unread = bodies.send(message.body.to_vec());
        })
        .expect("it subscribes");
    (subscription, received)
}

/// Waits until `is_so`; fails with `what` if it never is.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = now() + PATIENCE;
    while !is_so() {
        assert!(now() < deadline, "never came about: {what}");
        // Counters cannot be waited for; they are looked at again.
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that would wait for ever has to end"
)]
fn now() -> Instant {
    Instant::now()
}
