//! Pairs of devices, with socket pairs in place of them and both ways of moving packets.

use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

/// The far ends of a pair.
struct Far {
    inner: OwnedFd,
    outer: OwnedFd,
}

const INNER: u64 = 1;

/// So many pairs, for each way of moving packets.
fn each_way(pairs: usize, test: impl Fn(Devices, Vec<Far>)) {
    for io in ["plain", "auto"] {
        let text = format!(
            "io = '{io}'\n[[tun]]\ninner = {{ name = 'i' }}\nouter = {{ name = 'o' }}\n[[site]]\nname = 'one'"
        );
        let config = Config::parse(&text, |_| {}).expect("a configuration");
        let stand_in = || {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
                .expect("a pair of sockets")
        };
        let pairs = (0..pairs).map(|_| {
            let ((inner, far_inner), (outer, far_outer)) = (stand_in(), stand_in());
            // A small queue, as a device's is.
            set_socket_send_buffer_size(&outer, 50_000).expect("a smaller buffer");
            let far = Far {
                inner: far_inner,
                outer: far_outer,
            };
            ([inner, outer], far)
        });
        let (near, far): (Vec<_>, Vec<_>) = pairs.unzip();
        test(Devices::stand_ins(near, &config).expect("devices"), far);
    }
}

fn put(to: &OwnedFd, numbers: impl IntoIterator<Item = u8>) {
    for number in numbers {
        rustix::io::write(to, &vec![number; 10 + usize::from(number)]).expect("room");
    }
}

/// The numbers of all packets that wait.
fn get(from: &OwnedFd) -> Vec<u8> {
    let mut packet = [0; 2048];
    let packets = std::iter::from_fn(|| {
        let bytes = rustix::io::read(from, &mut packet)
            .ok()
            .filter(|bytes| *bytes > 0)?;
        assert_eq!(bytes, 10 + usize::from(packet[0]), "a whole packet");
        Some(packet[0])
    });
    packets.collect()
}

/// Nothing is lost or used twice.
fn assert_slots(devices: &Devices) {
    let mut slots = devices.free.clone();
    slots.extend(devices.tray.iter().map(|transfer| transfer.slot));
    slots.sort_unstable();
    assert!(slots.into_iter().eq(0..SLOTS));
}

#[test]
fn packets_keep_their_order_and_only_those_that_pass_leave() {
    each_way(1, |mut devices, far| {
        put(&far[0].inner, 0..100);
        let mut seen = Vec::new();
        for most in [64, 64, 64] {
            devices.drain(INNER, most, |from, packet| {
                assert_eq!(
                    from,
                    Port {
                        pair: 0,
                        side: Side::Inner
                    }
                );
                seen.push(packet[0]);
                packet[0] % 3 != 0
            });
            assert_slots(&devices);
            assert!(
                seen.len() <= 64 || seen.len() == 100,
                "no more than asked for"
            );
        }
        devices.flush();
        assert_slots(&devices);
        assert!(seen.into_iter().eq(0..100));
        assert!(
            get(&far[0].outer)
                .into_iter()
                .eq((0..100).filter(|number| number % 3 != 0))
        );
        let counters = devices.counters();
        assert_eq!((counters.moved, counters.refused), (100 + 66, 0));
        if matches!(devices.carrier, Carrier::Ring(_)) {
            // It asks for 2, 4, 8, 16, 32 and 2 until it has 64, then for 32 and 32, then in vain; short lists go plainly.
            assert!(counters.calls <= 16, "{counters:?}");
        }
    });
}

#[test]
fn both_directions_share_slots() {
    each_way(1, |mut devices, far| {
        put(&far[0].inner, 0..64);
        put(&far[0].outer, 100..164);
        for token in [INNER, INNER + 1] {
            devices.drain(token, 64, |_, _| true);
            assert_slots(&devices);
        }
        devices.flush();
        assert!(get(&far[0].outer).into_iter().eq(0..64));
        assert!(get(&far[0].inner).into_iter().eq(100..164));
    });
}

#[test]
fn what_was_held_back_leaves_in_order_however_much_it_is() {
    each_way(2, |mut devices, far| {
        let numbers = || 0..=200u8;
        for number in numbers() {
            let port = Port {
                pair: usize::from(number % 2),
                side: Side::Inner,
            };
            devices.send(port, &vec![number; 10 + usize::from(number)]);
        }
        devices.flush();
        assert_slots(&devices);
        for (pair, far) in far.iter().enumerate() {
            let own = numbers().filter(|number| usize::from(number % 2) == pair);
            assert!(get(&far.inner).into_iter().eq(own));
        }
    });
}

#[test]
fn what_a_device_does_not_take_is_counted() {
    each_way(1, |mut devices, far| {
        let mut sent = 0;
        while devices.counters().refused == 0 {
            assert!(sent < 100_000, "a bounded queue");
            put(&far[0].inner, [200; 50]);
            devices.drain(INNER, 64, |_, _| true);
            devices.flush();
            sent += 50;
        }
        assert_slots(&devices);
        let counters = devices.counters();
        let received = get(&far[0].outer).len() as u64;
        assert_eq!(counters.refused + received, sent);
        assert_eq!(counters.moved, sent + received);
    });
}

#[test]
fn a_pair_that_is_gone_takes_its_packets_along_and_no_others() {
    each_way(2, |mut devices, mut far| {
        let gone = far.remove(0);
        put(&gone.inner, 0..3);
        put(&far[0].inner, 0..3);
        drop(gone);
        devices.drain(INNER, 64, |_, _| true);
        assert_eq!(devices.counters().gone, 1);
        assert_eq!((devices.each().count(), devices.all_gone()), (2, false));
        assert_slots(&devices);
        // Those that are asked all the same, and those that come too late for it.
        devices.drain(INNER + 1, 64, |_, _| panic!("nothing comes"));
        devices.send(
            Port {
                pair: 0,
                side: Side::Outer,
            },
            &[1; 11],
        );
        devices.drain(INNER + 2, 64, |_, _| true);
        devices.flush();
        assert_slots(&devices);
        assert_eq!(get(&far[0].outer), [0, 1, 2]);
        assert_eq!(devices.counters().gone, 1);
        far.clear();
        devices.drain(INNER + 2, 64, |_, _| true);
        assert!(devices.all_gone());
    });
}

#[test]
fn the_largest_packet_is_read_whole() {
    each_way(1, |mut devices, far| {
        let packet: Vec<u8> = (0..65_535u32).map(|number| number as u8).collect();
        rustix::net::sockopt::set_socket_send_buffer_size(&far[0].inner, 200_000).expect("room");
        rustix::io::write(&far[0].inner, &packet).expect("room");
        let mut seen = Vec::new();
        devices.drain(INNER, 64, |_, packet| {
            seen.extend_from_slice(packet);
            false
        });
        assert!(seen == packet);
    });
}
