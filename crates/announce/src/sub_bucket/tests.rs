//! One publisher's side of dividing a limit, step by step. Many of them together are in `tests/shares.rs`.

use super::*;

const OWN: InstanceId = InstanceId(1);
const EXPIRY: Duration = Duration::from_secs(3);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn whole(rate: f64, burst: f64) -> Share {
    Share {
        rate: Rate::new(rate).expect("in range"),
        burst: Burst::new(burst).expect("in range"),
    }
}

fn alone(rate: f64, burst: f64) -> SubBucket {
    SubBucket::new(whole(rate, burst), OWN, EXPIRY, at(0))
}

/// A peer that knows `publishers`, itself among them, and uses `rate` and `burst`.
fn peer(instance: u64, publishers: &[u64], rate: f32, burst: f32) -> Peer {
    let members = publishers
        .iter()
        .fold(0, |all, &each| all ^ digest(InstanceId(each)));
    let held = Held {
        rate,
        burst,
        publishers: publishers.len() as u16,
        members,
    };
    Peer {
        instance: InstanceId(instance),
        held,
    }
}

/// Alone for an expiry, and then in use.
fn settled(rate: f64, burst: f64) -> SubBucket {
    let mut bucket = alone(rate, burst);
    bucket.announced(at(0));
    bucket.announced(at(2000));
    bucket.update([], at(3000));
    bucket
}

#[test]
fn a_newcomer_uses_nothing_until_it_has_listened() {
    let mut bucket = alone(100.0, 10.0);
    assert_eq!(bucket.update([], at(0)), None);
    // Listening begins with the first announcement: before it nobody can answer.
    assert_eq!(bucket.update([], at(10_000)), None);
    assert_eq!(bucket.next_change(at(10_000)), None);
    bucket.announced(at(10_000));
    assert_eq!(bucket.next_change(at(10_000)), Some(at(13_000)));
    bucket.announced(at(11_000));
    assert_eq!(bucket.update([], at(12_999)), None);
    assert_eq!(bucket.departure(at(12_999), 1.0), None);
    assert_eq!(bucket.take(at(12_999), 1.0), None);
    assert_eq!(bucket.update([], at(13_000)), Some(whole(100.0, 10.0)));
    // Its bucket begins empty then, whatever time has passed.
    assert_eq!(bucket.departure(at(13_000), 1.0), Some(at(13_010)));
    assert_eq!(bucket.take(at(13_010), 1.0), Some(at(13_010)));
    assert_eq!(bucket.departure(at(13_010), 1.0), Some(at(13_020)));
}

#[test]
fn shrinks_at_once_and_grows_when_all_agree() {
    // Others, as heard; what may be used of (120, 12) then, begun with all of it.
    type Row<'a> = (&'a str, &'a [Peer], Option<(f64, f64)>);
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        ("nobody",                  &[],                                                      Some((120.0, 12.0))),
        ("one who is new",          &[peer(2, &[2], 0.0, 0.0)],                               Some((60.0, 6.0))),
        ("two who are new",         &[peer(2, &[2], 0.0, 0.0), peer(3, &[3], 0.0, 0.0)],      Some((40.0, 4.0))),
        ("one agrees",              &[peer(2, &[1, 2], 60.0, 6.0)],                           Some((60.0, 6.0))),
        ("oneself among them",      &[peer(1, &[1], 120.0, 12.0), peer(2, &[1, 2], 0.0, 0.0)], Some((60.0, 6.0))),
        ("one uses too much",       &[peer(2, &[2], 100.0, 10.0)],                            Some((20.0, 2.0))),
        ("one uses all of it",      &[peer(2, &[2], 120.0, 12.0)],                            None),
        ("one has a greater limit", &[peer(2, &[1, 2], 500.0, 50.0)],                         None),
    ];
    for (name, peers, expected) in rows {
        let mut bucket = settled(120.0, 12.0);
        bucket.announced(at(3000));
        let found = bucket.update(peers.iter().copied(), at(3100));
        let expected = expected.map(|(rate, burst)| whole(rate, burst));
        assert_eq!(found, expected, "{name}");
        assert_eq!(bucket.in_force(at(3100)), expected, "{name}");
        assert_eq!(
            bucket.departure(at(3100), 1.0).is_some(),
            expected.is_some()
        );
    }
    #[rustfmt::skip]
    let rows: &[(&str, &[Peer], bool)] = &[
        ("all agree",                 &[peer(2, &[1, 2, 3], 40.0, 4.0), peer(3, &[1, 2, 3], 0.0, 0.0)], true),
        ("one does not know us",      &[peer(2, &[2, 3], 40.0, 4.0),    peer(3, &[1, 2, 3], 0.0, 0.0)], false),
        ("one knows another instead", &[peer(2, &[2, 3, 4], 40.0, 4.0), peer(3, &[1, 2, 3], 0.0, 0.0)], false),
        ("one knows one more",        &[peer(2, &[1, 2, 3, 4], 30.0, 3.0), peer(3, &[1, 2, 3], 0.0, 0.0)], false),
        ("one uses more",             &[peer(2, &[1, 2, 3], 60.0, 4.0), peer(3, &[1, 2, 3], 0.0, 0.0)], false),
        ("one has more at once",      &[peer(2, &[1, 2, 3], 40.0, 6.0), peer(3, &[1, 2, 3], 0.0, 0.0)], false),
    ];
    for (name, peers, grows) in rows {
        let mut bucket = alone(120.0, 12.0);
        bucket.announced(at(0));
        bucket.announced(at(2000));
        let found = bucket.update(peers.iter().copied(), at(3000));
        assert_eq!(found, grows.then(|| whole(40.0, 4.0)), "{name}");
    }
}

#[test]
fn what_is_announced_is_what_is_in_force() {
    let mut bucket = settled(100.0, 10.0);
    bucket.announced(at(3000));
    let peers = [peer(2, &[2], 0.0, 0.0), peer(3, &[3], 0.0, 0.0)];
    bucket.update(peers, at(3100));
    let held = bucket.held(at(3100));
    let expected = peer(1, &[1, 2, 3], at_most(100.0, 3.0), at_most(10.0, 3.0)).held;
    assert_eq!(held, expected);
    assert!(f64::from(held.rate) * 3.0 <= 100.0);
    let share = bucket.in_force(at(3100)).expect("in force");
    assert_eq!(share.rate.get(), f64::from(held.rate));
    assert_eq!(share.burst.get(), f64::from(held.burst));
    // Once it has lapsed it is nothing.
    assert_eq!(bucket.held(at(6000)).rate, 0.0);
    assert_eq!(bucket.held(at(6000)).burst, 0.0);
}

#[test]
fn who_was_silent_for_an_expiry_begins_anew() {
    let mut bucket = settled(100.0, 10.0);
    bucket.announced(at(3000));
    assert_eq!(bucket.next_change(at(3000)), Some(at(6000)));
    assert!(bucket.in_force(at(5999)).is_some());
    assert_eq!(bucket.in_force(at(6000)), None);
    assert_eq!(bucket.next_change(at(6000)), None);
    // Stopped until now: nothing was earned meanwhile, and it listens as at the beginning.
    assert_eq!(bucket.take(at(60_000), 1.0), None);
    assert_eq!(bucket.update([], at(60_000)), None);
    bucket.announced(at(60_000));
    bucket.announced(at(62_000));
    assert_eq!(bucket.update([], at(62_999)), None);
    assert!(bucket.update([], at(63_000)).is_some());
    assert_eq!(bucket.departure(at(63_000), 1.0), Some(at(63_010)));
}

#[test]
fn a_burst_is_never_below_one_token() {
    let mut bucket = settled(100.0, 2.0);
    bucket.announced(at(3000));
    let peers: Vec<Peer> = (2..=5).map(|id| peer(id, &[id], 0.0, 0.0)).collect();
    let found = bucket.update(peers, at(3100));
    assert_eq!(found, Some(whole(20.0, 1.0)));
}

#[test]
fn parts_are_rounded_so_that_all_of_them_are_no_more_than_the_whole() {
    for whole in [1.0, 10.0, 1e12, 0.1, 1e-30, 3.3333333, 16_777_217.0] {
        for among in 1..=1000u32 {
            let each = f64::from(at_most(whole, f64::from(among)));
            assert!(each * f64::from(among) <= whole, "{whole} among {among}");
            assert!(
                each * f64::from(among) >= whole * (1.0 - 3e-7),
                "{whole} among {among}"
            );
        }
    }
    assert_eq!(at_most(1e-60, 1.0), 0.0);
}

#[test]
fn digests_tell_sets_apart() {
    // The first number that SplitMix64 gives from the state 0 is known: other programs find the same digests.
    assert_eq!(digest(InstanceId(0)), 0xe220_a839);
    let mut seen = std::collections::HashSet::new();
    for set in 0u32..1 << 10 {
        let all = (0..10).filter(|id| set & (1 << id) != 0);
        let members = all.fold(0, |all, id| all ^ digest(InstanceId(id)));
        assert!(seen.insert(members), "{set:b}");
    }
}
