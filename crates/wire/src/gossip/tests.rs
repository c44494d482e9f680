//! Datagrams by their bytes, tags and paths, numbers, and counters.

use core::net::SocketAddr;

use proptest::prelude::*;

use super::*;

const UPDATE: Update = Update {
    limit: LimitId(0x0102),
    sequence: 0x0607,
    epoch: 8,
    demand: 1.0,
    passed: 10_000_000.0,
    weight: 0.25,
};

fn endpoint(address: &str, incarnation: u64) -> Endpoint {
    Endpoint {
        address: address.parse().expect("an address"),
        incarnation,
    }
}

fn path(from: &str, to: &str) -> Path {
    let key = Key::from_passphrase("sesame").expect("not empty");
    key.path(endpoint(from, 5), endpoint(to, 6))
}

fn sealed(bytes: &[u8]) -> SealedUpdate<'_> {
    match decode(bytes) {
        Ok(Datagram::Update(sealed)) => sealed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_update_by_its_bytes() {
    let path = path("10.0.0.1:4000", "10.0.0.2:4000");
    let bytes = UPDATE.encode(&path, 0x4_0506_0607);
    // 1.0 is 0x3f800000, 10,000,000 is 0x4b189680 and 0.25 is 0x3e800000; 7 bits are dropped.
    let fields = [1, 2, 6, 7, 8, 0x7f, 0, 0, 0x96, 0x31, 0x2d, 0x7d, 0, 0];
    assert_eq!(bytes[..14], fields);
    assert_eq!(bytes.len() + 28, 48);
    let sealed = sealed(&bytes);
    assert_eq!((sealed.limit(), sealed.sequence()), (UPDATE.limit, 0x0607));
    assert_eq!(sealed.open(&path, 0x4_0506_0607), Ok(UPDATE));
}

#[test]
fn an_update_is_good_on_one_path_and_as_one_number() {
    let (a, b, c) = ("10.0.0.1:4000", "10.0.0.2:4000", "10.0.0.2:4001");
    let right = path(a, b);
    let bytes = UPDATE.encode(&right, 9);
    let key = Key::from_passphrase(" sesame\n").expect("not empty");
    let other_key = Key::from_passphrase("barley").expect("not empty");
    let to = endpoint(b, 6);
    let rows = [
        (key.path(endpoint(a, 5), to), 9, true),
        (key.path(endpoint("[::ffff:10.0.0.1]:4000", 5), to), 9, true),
        (right, 9 + 0x1_0000, false),
        (path(b, a), 9, false),
        (path(a, c), 9, false),
        (key.path(endpoint(a, 4), to), 9, false),
        (key.path(endpoint(a, 5), endpoint(b, 7)), 9, false),
        (other_key.path(endpoint(a, 5), to), 9, false),
    ];
    for (at, (path, counter, good)) in rows.into_iter().enumerate() {
        let opened = sealed(&bytes).open(&path, counter);
        let expected = match good {
            true => Ok(Update {
                sequence: 9,
                ..UPDATE
            }),
            false => Err(DatagramError::Forged),
        };
        assert_eq!(opened, expected, "row {at}");
    }
}

#[test]
fn membership_by_its_bytes() {
    let path = path("10.0.0.1:4000", "10.0.0.2:4000");
    let mut bytes = vec![1, 2, 3];
    put_membership(&mut bytes, &path, 5, 0x0102, b"swim").expect("it fits");
    let header = [1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 2];
    assert_eq!(bytes[..17], header);
    assert_eq!(bytes[17..21], *b"swim");
    assert_eq!(bytes.len(), 17 + 4 + 16);
    let Ok(Datagram::Membership(sealed)) = decode(&bytes) else {
        panic!("it is one");
    };
    assert_eq!((sealed.incarnation(), sealed.counter()), (5, 0x0102));
    assert_eq!(sealed.open(&path), Ok(&b"swim"[..]));
    for at in 1..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x80;
        let Ok(Datagram::Membership(sealed)) = decode(&changed) else {
            panic!("its kind was not changed");
        };
        assert_eq!(sealed.open(&path), Err(DatagramError::Forged), "byte {at}");
    }
}

#[test]
fn what_is_no_datagram_is_refused() {
    let path = path("10.0.0.1:4000", "10.0.0.2:4000");
    for length in (0..34)
        .filter(|length| *length != UPDATE_BYTES)
        .chain([1401, 9000])
    {
        assert_eq!(decode(&vec![1; length]), Err(DatagramError::Length(length)));
    }
    assert_eq!(decode(&[4; 34]), Err(DatagramError::Kind(4)));
    let mut out = Vec::new();
    for length in [0, 1368] {
        let refused = put_membership(&mut out, &path, 5, 1, &vec![0; length]);
        assert_eq!(refused, Err(DatagramError::Payload(length)));
    }
    assert_eq!(put_membership(&mut out, &path, 5, 1, &[0; 1367]), Ok(()));
    assert_eq!(out.len(), MAX_MEMBERSHIP_BYTES);

    // What even the right key cannot make a number.
    for (at, name) in [(5, "demand"), (8, "passed"), (11, "weight")] {
        for number in [[0xff, 0, 0], [0xff, 0, 1]] {
            let mut bytes = UPDATE.encode(&path, 1);
            bytes[at..at + 3].copy_from_slice(&number);
            let tag: [u8; 6] = path.tag(&[&1_u64.to_be_bytes(), &bytes[..14]]);
            bytes[14..].copy_from_slice(&tag);
            let opened = sealed(&bytes).open(&path, 1);
            assert_eq!(opened, Err(DatagramError::Number(name)));
            assert!(!DatagramError::Number(name).to_string().is_empty());
        }
    }
}

#[test]
fn keys_are_of_32_bytes_or_of_a_phrase() {
    let digits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F";
    let key = Key::from_hex(digits).expect("a key");
    assert!(!format!("{key:?}").contains('1'));
    let path = key.path(endpoint("10.0.0.1:1", 1), endpoint("10.0.0.2:1", 1));
    let other = Key::from_hex(&digits.replace('f', "e")).expect("a key");
    let other = other.path(endpoint("10.0.0.1:1", 1), endpoint("10.0.0.2:1", 1));
    assert_ne!(UPDATE.encode(&path, 1), UPDATE.encode(&other, 1));
    assert_eq!(
        Key::from_hex(&digits[2..]).err(),
        Some(KeyError::Length(62))
    );
    assert_eq!(Key::from_hex("0x12").err(), Some(KeyError::Digit(1)));
    assert_eq!(Key::from_passphrase(" \n").err(), Some(KeyError::Empty));
}

#[test]
fn addresses_of_both_families_can_be_told_apart() {
    let key = Key::from_passphrase("sesame").expect("not empty");
    let at = |address: &str| endpoint(address, 1);
    let to = at("[fe80::1]:4000");
    let one = UPDATE.encode(&key.path(at("[fe80::2]:4000"), to), 1);
    let other = UPDATE.encode(&key.path(at("[fe80::3]:4000"), to), 1);
    assert_ne!(one, other);
    let scoped: SocketAddr = "[fe80::2%3]:4000".parse().expect("an address");
    let scoped = Endpoint {
        address: scoped,
        incarnation: 1,
    };
    assert_eq!(UPDATE.encode(&key.path(scoped, to), 1), one);
}

#[test]
fn numbers_that_travel_are_not_above_what_they_were() {
    let rows = [
        (0.0, 0.0),
        (-1.0, 0.0),
        (f64::NAN, 0.0),
        (1.0, 1.0),
        (131_071.0, 131_071.0),
        (131_073.0, 131_072.0),
        (1e15, (116_415_u64 << 33) as f32),
        (f64::INFINITY, f32::from_bits(0x7f7f_ff80)),
        (1e-60, 0.0),
    ];
    for (value, expected) in rows {
        assert_eq!(carried(value), expected, "{value}");
    }
}

#[test]
fn counters_are_latest_late_or_have_come_before() {
    let mut window = ReplayWindow::default();
    #[rustfmt::skip]
    let rows = [
        (0, Seen::Before), (1, Seen::Latest), (1, Seen::Before), (3, Seen::Latest), (2, Seen::Late),
        (2, Seen::Before), (66, Seen::Latest), (3, Seen::Before), (2, Seen::Before), (4, Seen::Late),
        (500, Seen::Latest), (436, Seen::Before), (437, Seen::Late), (437, Seen::Before),
    ];
    for (counter, expected) in rows {
        assert_eq!(window.look(counter), expected, "{counter}");
        window.note(counter);
    }
    assert_eq!(window.latest(), 500);
}

proptest! {
    #[test]
    fn a_number_loses_less_than_a_65536th(value in 1e-30..1e30_f64) {
        let there = f64::from(carried(value));
        prop_assert!(there <= value && value - there < value / 65_536.0);
        // And nothing the second time.
        prop_assert_eq!(f64::from(carried(there)), there);
    }

    #[test]
    fn three_bytes_are_a_number_or_none(bytes in any::<[u8; 3]>()) {
        match amount::from_bytes(bytes) {
            Some(number) => prop_assert_eq!(amount::to_bytes(number), bytes),
            None => prop_assert!(bytes[0] == 0xff),
        }
    }

    #[test]
    fn a_counter_is_found_from_its_low_bits(latest in 0..u64::MAX / 2, ahead in -32_768_i64..32_768) {
        let counter = latest.saturating_add_signed(ahead);
        prop_assume!(latest as i64 + ahead >= 0);
        prop_assert_eq!(counter_near(latest, counter as u16), counter);
    }

    #[test]
    fn a_window_says_of_each_counter_once_that_it_is_new(counters in prop::collection::vec(0_u64..200, 0..300)) {
        let mut window = ReplayWindow::default();
        let mut came = std::collections::HashSet::new();
        for counter in counters {
            let seen = window.look(counter);
            let too_old = counter == 0 || counter + REPLAY_WINDOW <= window.latest();
            prop_assert_eq!(seen == Seen::Before, too_old || came.contains(&counter));
            prop_assert_eq!(seen == Seen::Latest, counter > window.latest());
            window.note(counter);
            came.insert(counter);
        }
    }
}
