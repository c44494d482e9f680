//! Both ways of moving packets, over socket pairs in place of devices.

use std::os::fd::OwnedFd;

use proptest::prelude::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;

/// A stand-in for a TUN device, and its far end: one packet per write and read.
fn stand_in() -> (Option<Tun>, OwnedFd) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (near, far) = pair.expect("a pair of sockets");
    (Some(Tun::from_descriptor(near)), far)
}

/// Each way that there is here.
fn carriers(tuns: &[Option<Tun>]) -> Vec<Carrier> {
    let ring = Carrier::open(Io::Uring, tuns);
    if let Err(error) = &ring {
        println!("skipped: io_uring ({error})");
    }
    [Carrier::Plain].into_iter().chain(ring).collect()
}

fn moved(transfers: &[Transfer]) -> Vec<Result<usize, Errno>> {
    transfers.iter().map(|transfer| transfer.outcome).collect()
}

#[test]
fn transfers_are_carried_out_in_the_order_of_their_list() {
    let (tun, far) = stand_in();
    let tuns = [tun];
    for mut carrier in carriers(&tuns) {
        let mut slots = Slots::new(200);
        for number in 0..200u8 {
            slots.get_mut(number.into()).fill(number);
        }
        // More than a ring has room for.
        let mut writes: Vec<_> = (0..200)
            .map(|slot| Transfer::write(0, slot, slot + 1))
            .collect();
        let calls = carrier.carry(&tuns, &mut slots, &mut writes);
        assert!(moved(&writes).into_iter().eq((1..=200).map(Ok)));
        let in_few = matches!(carrier, Carrier::Ring(_));
        assert_eq!(calls, if in_few { 2 } else { 200 });
        for number in 0..200u8 {
            let mut packet = [0; 300];
            let bytes = rustix::io::read(&far, &mut packet).expect("a packet");
            assert_eq!((bytes, packet[0]), (usize::from(number) + 1, number));
        }
    }
}

#[test]
fn a_device_that_has_nothing_is_not_waited_for() {
    let (tun, far) = stand_in();
    let tuns = [tun, None];
    for mut carrier in carriers(&tuns) {
        let mut slots = Slots::new(RING_LEAST);
        for packet in [[1u8; 3], [2; 3]] {
            rustix::io::write(&far, &packet).expect("room");
        }
        let mut reads: Vec<_> = (0..7).rev().map(|slot| Transfer::read(0, slot)).collect();
        reads.push(Transfer::read(1, 7));
        carrier.carry(&tuns, &mut slots, &mut reads);
        let (came, nothing) = (Ok(3), Err(Errno::AGAIN));
        let all = [&[came; 2][..], &[nothing; 5], &[Err(Errno::BADF)]].concat();
        assert_eq!(moved(&reads), all);
        assert_eq!(
            (slots.get(6)[..3].to_vec(), slots.get(5)[..3].to_vec()),
            (vec![1; 3], vec![2; 3])
        );
    }
}

#[test]
fn where_a_ring_cannot_be_used_there_is_none_or_an_error_as_one_likes() {
    // The kernel cannot read files of /proc without waiting.
    let file = std::fs::File::open("/proc/self/status").expect("a file");
    let tuns = [Some(Tun::from_descriptor(file.into()))];
    for io in [Io::Plain, Io::Auto] {
        let mut carrier = Carrier::open(io, &tuns).expect("a way");
        assert!(matches!(carrier, Carrier::Plain), "{carrier:?}");
        let mut reads = [Transfer::read(0, 0)];
        carrier.carry(&tuns, &mut Slots::new(1), &mut reads);
        assert!(reads[0].outcome.is_ok(), "{reads:?}");
    }
    let error = Carrier::open(Io::Uring, &tuns).expect_err("no way");
    assert!(error.to_string().contains("io = \"uring\""), "{error}");
}

#[test]
fn what_a_ring_that_fails_has_not_done_is_done_plainly() {
    let (tun, far) = stand_in();
    let tuns = [tun];
    for mut carrier in carriers(&tuns) {
        let Carrier::Ring(ring) = &carrier else {
            continue;
        };
        ring.spoil();
        let mut slots = Slots::new(20);
        (0..20).for_each(|slot| slots.get_mut(slot).fill(slot as u8));
        let mut writes: Vec<_> = (0..20).map(|slot| Transfer::write(0, slot, 100)).collect();
        let calls = carrier.carry(&tuns, &mut slots, &mut writes);
        assert_eq!(calls, 1 + 20);
        assert_eq!(moved(&writes), [Ok(100); 20]);
        assert!(matches!(carrier, Carrier::Plain));
        for number in 0..20 {
            let mut packet = [0; 200];
            assert_eq!(rustix::io::read(&far, &mut packet), Ok(100));
            assert_eq!(packet[0], number);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_ways_have_the_same_outcomes(
        waiting in proptest::collection::vec((0usize..2, 1usize..2000), 0..40),
        list in proptest::collection::vec((0usize..3, any::<bool>(), 1usize..2000), 1..60),
    ) {
        let run = |io: Io| {
            let (devices, fars): (Vec<_>, Vec<_>) = (0..2).map(|_| stand_in()).unzip();
            let mut carrier = Carrier::open(io, &devices).expect("one of both");
            let mut slots = Slots::new(list.len());
            for (device, bytes) in &waiting {
                rustix::io::write(&fars[*device], &vec![*bytes as u8; *bytes]).expect("room");
            }
            let mut transfers: Vec<_> = list.iter().enumerate().map(|(slot, (device, read, bytes))| {
                if *read { Transfer::read(*device, slot) } else { Transfer::write(*device, slot, *bytes) }
            }).collect();
            carrier.carry(&devices, &mut slots, &mut transfers);
            let read: Vec<u8> = (0..list.len()).map(|slot| slots.get(slot)[0]).collect();
            (moved(&transfers), read)
        };
        prop_assert_eq!(run(Io::Plain), run(Io::Auto));
    }
}
