//! Which message is followed, when it has arrived, and how long it took.

use proptest::prelude::*;
use topics::TopicKey;

use super::*;

fn at_us(micros: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + micros * 1000)
}

const HOME: usize = 3;

/// A message that arrived at `micros` and was copied 10 µs later.
fn probe(micros: u64) -> Followed {
    let probe = Probe {
        topic: TopicKey::from_bits(0),
        arrived: at_us(micros),
        copied: at_us(micros + 10),
        half_rtt_us: 100,
        weight: 1,
    };
    Followed { home: HOME, probe }
}

const PATH: Path = Path {
    min_rtt_us: 40,
    unsent_bytes: 0,
    retransmits: 3,
};

/// Follows a message of 50 bytes, written whole at `taken_us`.
fn follow(probes: &mut Probes, arrived_us: u64, taken_us: u64, path: Path) {
    probes.follow(probe(arrived_us), 50, |_| 0);
    assert_eq!(probes.next_end(), Some(50));
    assert!(probes.count(Taken::as_it_is(50)));
    assert_eq!(probes.taken(at_us(taken_us), path), None);
}

#[test]
fn a_message_lands_half_a_round_trip_after_it_left_unless_its_ack_proves_otherwise() {
    const DELIBERATE_US: u64 = 40_000;
    const LOST_US: u64 = 400_000;
    // (path, acknowledged after µs, retransmits seen then, expected µs from arrival to subscriber)
    let blocked = Path {
        unsent_bytes: 9,
        ..PATH
    };
    for (path, acknowledged_us, retransmits, expected_us, why) in [
        (PATH, 45, None, 50, "a prompt acknowledgement"),
        (
            PATH,
            DELIBERATE_US,
            Some(3),
            50,
            "one that waited for an answer",
        ),
        (
            PATH,
            DELIBERATE_US,
            Some(4),
            30 + DELIBERATE_US - 20,
            "one after a loss",
        ),
        (
            PATH,
            LOST_US,
            Some(3),
            30 + LOST_US - 20,
            "later than any deliberate delay",
        ),
        (
            blocked,
            900,
            None,
            30 + 900 - 20,
            "the socket had to keep it",
        ),
        (blocked, 5, None, 30, "never before it was taken"),
    ] {
        let mut probes = Probes::new(false);
        follow(&mut probes, 0, 30, path);
        let at = at_us(30 + acknowledged_us);
        assert_eq!(probes.is_late(at), acknowledged_us > 1040, "{why}");
        let Landing { home, landed } = probes
            .pop_landed(49, at, retransmits)
            .expect("acknowledged");
        assert_eq!(home, HOME);
        let expected = Duration::from_micros(100 + expected_us);
        assert_eq!((landed.end_to_end, landed.weight), (expected, 1), "{why}");
        assert_eq!(
            landed.beyond_total(),
            expected - Duration::from_micros(10),
            "{why}"
        );
        assert_eq!(probes.awaited(), 0);
    }
}

#[test]
fn one_acknowledgement_stands_for_all_before_it() {
    let mut probes = Probes::new(false);
    for number in 0..3 {
        follow(&mut probes, 100 * number, 100 * number + 30, PATH);
    }
    assert_eq!(
        probes.pop_landed(48, at_us(400), None),
        None,
        "a byte is missing"
    );
    let mut landed = 0;
    while probes.pop_landed(99, at_us(400), None).is_some() {
        landed += 1;
    }
    assert_eq!((landed, probes.awaited()), (2, 1));
}

#[test]
fn a_write_cut_short_goes_on_to_the_end_of_the_message() {
    let mut probes = Probes::new(false);
    probes.follow(probe(0), 50, |_| 0);
    assert!(!probes.count(Taken::as_it_is(20)));
    assert_eq!(probes.next_end(), Some(30));
    assert!(probes.count(Taken::as_it_is(30)));
    assert_eq!(probes.next_end(), None, "what follows it needs no end");
    assert_eq!(probes.taken(at_us(1), PATH), None);
    assert_eq!((probes.next_end(), probes.awaited()), (None, 1));
    assert_eq!(
        probes.pop_landed(19, at_us(2), None),
        None,
        "the stamp of the first part"
    );
    assert!(probes.pop_landed(49, at_us(3), None).is_some());
}

#[test]
fn of_several_in_one_write_one_is_followed_for_all() {
    for (draws, followed_end) in [([1, 1], 50), ([0, 1], 100), ([1, 0], 150), ([0, 0], 150)] {
        let mut probes = Probes::new(false);
        let mut draws = draws.iter();
        for number in 1..=3 {
            probes.follow(probe(number), 50 * number as usize, |bound| {
                assert_eq!(u64::from(bound), number, "the weights so far");
                *draws.next().expect("the first one needs no draw")
            });
        }
        assert_eq!(probes.next_end(), Some(followed_end));
        assert!(probes.count(Taken::as_it_is(followed_end)));
        probes.taken(at_us(10), PATH);
        let landed = probes.pop_landed(followed_end as u32 - 1, at_us(20), None);
        assert_eq!(landed.map(|landing| landing.landed.weight), Some(3));
    }
}

#[test]
fn too_many_awaited_give_up_the_oldest() {
    let mut probes = Probes::new(false);
    for number in 0..AWAITED_MAX as u64 {
        follow(&mut probes, number, number + 30, PATH);
    }
    probes.follow(probe(999), 50, |_| 0);
    assert!(probes.count(Taken::as_it_is(50)));
    let oldest = probes
        .taken(at_us(1030), PATH)
        .expect("it left at once, so it has landed");
    assert_eq!(oldest.landed.end_to_end, Duration::from_micros(100 + 50));
    assert_eq!(probes.awaited(), AWAITED_MAX);
}

#[test]
fn nothing_is_followed_where_the_kernel_cannot() {
    let mut probes = Probes::new(true);
    probes.follow(probe(0), 50, |_| 0);
    assert_eq!(probes.next_end(), None);
    assert!(!probes.count(Taken::as_it_is(50)));
}

proptest! {
    /// Whatever is written in whatever pieces, around the wrap of the count too: every followed message is
    /// awaited exactly once and lands with the stamp of its own last byte or a later one.
    #[test]
    fn counts_follow_the_kernels(
        before in prop_oneof![Just(0_u32), Just(u32::MAX - 100), any::<u32>()],
        head in prop_oneof![Just(0_usize), 1_usize..40],
        writes in prop::collection::vec((1_usize..300, 1_usize..300, 1_usize..80), 1..40),
    ) {
        let mut probes = Probes::new(false);
        (probes.taken, probes.written) = (before, before);
        let mut kernel = before;
        for (message, behind, piece) in writes {
            probes.follow(probe(0), message, |_| 0);
            let mut unsent = message + behind;
            let mut end = None;
            while unsent > 0 {
                let want = probes.next_end().unwrap_or(unsent);
                let plain = want.min(piece);
                // What carries them on the wire goes in two pieces, and counts with the second.
                let wire = [head, plain];
                let of_head = Taken { plain: 0, wire: wire[0] };
                prop_assert!(!probes.count(of_head));
                kernel = kernel.wrapping_add((wire[0] + wire[1]) as u32);
                if probes.count(Taken { plain, wire: wire[1] }) {
                    prop_assert!(end.is_none());
                    end = Some(kernel);
                    probes.taken(at_us(5), PATH);
                }
                unsent -= plain;
            }
            prop_assert!(probes.awaited() == 1);
            let end = end.expect("it was taken");
            prop_assert!(probes.pop_landed(end.wrapping_sub(2), at_us(6), None).is_none());
            prop_assert!(probes.pop_landed(end.wrapping_sub(1), at_us(6), None).is_some());
        }
    }
}
