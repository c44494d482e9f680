//! The state without a thread that serves it: the test moves time.

use std::time::Duration;

use kernel::SchedulerConfig;
use wire::announce::{Announcement, Entry, Role};

use super::*;

#[test]
fn what_waits_unread_is_heard_before_anybody_is_forgotten() {
    let speaker = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let options = NodeOptions {
        channel: Channel::Broker(speaker.local_addr().expect("bound")),
        interface: Ipv4Addr::LOCALHOST,
        data_address: (Ipv4Addr::LOCALHOST, 0).into(),
        ..NodeOptions::default()
    };
    let poller = Poller::new().expect("an epoll set");
    let rest: Arc<Poller> = Arc::clone(&poller);
    let kernel = Kernel::new(SchedulerConfig::default(), rest).expect("a kernel");
    let control = Control::open(InstanceId(1), options, &Arc::new(kernel), &poller);
    let control = control.expect("free ports");
    let mut state = control.state();
    let to = state.ways[0].1.socket.local_addr().expect("bound");
    let say = |sequence| {
        let topic: TopicName = "t".parse().expect("valid");
        let said = Announcement {
            instance: InstanceId(2),
            sequence,
            is_proxy: false,
            is_leaving: false,
            expiry_ms: 1000,
            data: ([127, 0, 0, 1], 9).into(),
            udp: false,
            entries: vec![Entry {
                role: Role::Subscriber,
                id: TopicId::hashed(&topic, 0),
                topic,
                held: None,
            }],
        };
        let mut datagram = Vec::new();
        said.encode(None, &mut datagram);
        let sent = speaker.send_to(&datagram, to).expect("sent");
        assert_eq!(sent, datagram.len());
    };
    let arrives = |state: &State| {
        (0..1_000_000).any(|_| {
            std::thread::yield_now();
            state.ways[0].1.socket.peek_from(&mut [0; 1]).is_ok()
        })
    };
    let began = now();
    say(1);
    assert!(arrives(&state));
    state.hear(WAYS, began);
    say(2);
    assert!(arrives(&state));
    let late = began + Duration::from_secs(5);
    for (after_ms, known) in [(0, 1), (999, 1), (1000, 0)] {
        state.go_on(late + Duration::from_millis(after_ms));
        let instances = state.directory.instances();
        assert_eq!(instances, known, "{after_ms} ms after it was heard late");
    }
}
