//! The layout by its bytes, refusals and their reasons, and round trips.

use core::net::SocketAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::TopicName;

fn topic(name: &str) -> TopicName {
    name.parse().expect("valid")
}

fn entry(role: Role, id: u32, name: &str) -> Entry {
    Entry {
        role,
        id: TopicId(id),
        topic: topic(name),
        held: None,
    }
}

fn sample() -> Announcement {
    Announcement {
        instance: InstanceId(0x0102_0304_0506_0708),
        sequence: 9,
        is_proxy: false,
        is_leaving: false,
        expiry_ms: 3000,
        data: ([127, 0, 0, 1], 4000).into(),
        udp: true,
        entries: vec![
            entry(Role::Subscriber, 7, "tele"),
            Entry {
                held: Some(Held {
                    rate: 500.0,
                    burst: 2.5,
                    publishers: 2,
                    members: 0xabcd,
                }),
                ..entry(Role::Publisher, 0x8000_0001, "b")
            },
        ],
    }
}

fn encoded(announcement: &Announcement, key: Option<&Key>) -> Vec<u8> {
    let mut bytes = Vec::new();
    announcement.encode(key, &mut bytes);
    bytes
}

#[test]
fn every_field_has_its_place() {
    #[rustfmt::skip]
    let expected: &[&[u8]] = &[
        b"TMPA", &[1], &[4],
        &[1, 2, 3, 4, 5, 6, 7, 8],
        &[0, 0, 0, 9],
        &[0, 0, 0x0b, 0xb8],
        &[0, 2],
        &[0x0f, 0xa0], &[4], &[127, 0, 0, 1],
        &[1], &[0, 0, 0, 7], &[4], b"tele",
        &[2], &[0x80, 0, 0, 1], &[1], b"b",
        &[0x43, 0xfa, 0, 0], &[0x40, 0x20, 0, 0], &[0, 2], &[0, 0, 0xab, 0xcd],
    ];
    assert_eq!(encoded(&sample(), None), expected.concat());
    assert_eq!(sample().encoded_bytes(false), expected.concat().len());
    let v6 = Announcement {
        is_proxy: true,
        is_leaving: true,
        udp: false,
        data: "[::1]:9".parse().expect("an address"),
        entries: Vec::new(),
        ..sample()
    };
    let bytes = encoded(&v6, None);
    assert_eq!(bytes[5], 3);
    assert_eq!(bytes[24..27], [0, 9, 6]);
    assert_eq!(
        bytes[27..],
        "::1".parse::<core::net::Ipv6Addr>().expect("one").octets()
    );
    assert_eq!(Announcement::decode(&bytes, None), Ok(v6));
}

#[test]
fn what_is_no_announcement_is_refused_with_its_reason() {
    use AnnounceError::*;
    type Row = (&'static str, fn(&mut Vec<u8>), AnnounceError);
    // Entries begin at 31: the subscriber's kind, id, length and name, then the publisher's from 41.
    #[rustfmt::skip]
    let rows: &[Row] = &[
        ("empty",             |b| b.clear(),               Truncated(0)),
        ("magic",             |b| b[0] = b' ',             Magic),
        ("version",           |b| b[4] = 2,                Version(2)),
        ("unknown flag",      |b| b[5] |= 0x10,            Flags(0x14)),
        ("expiry zero",       |b| b[18..22].fill(0),       Expiry(0)),
        ("expiry too long",   |b| b[18] = 1,               Expiry(0x0100_0bb8)),
        ("address family",    |b| b[26] = 5,               AddressFamily(5)),
        ("no data port",      |b| b[24..26].fill(0),       NoDataPort { entry: 0 }),
        ("kind",              |b| b[31] = 4,               Kind { entry: 0, kind: 4 }),
        ("subscriber holds",  |b| b[31] = 3,               Kind { entry: 0, kind: 3 }),
        ("name with a blank", |b| b[37] = b' ',            Topic { entry: 0 }),
        ("name not UTF-8",    |b| b[37] = 0xff,            Topic { entry: 0 }),
        ("name empty",        |b| { b[36] = 0; b.drain(37..41); }, Topic { entry: 0 }),
        ("rate no number",    |b| b[48..52].fill(0xff),    Held { entry: 1 }),
        ("rate infinite",     |b| b[48..52].copy_from_slice(&f32::INFINITY.to_be_bytes()), Held { entry: 1 }),
        ("burst negative",    |b| b[52] |= 0x80,           Held { entry: 1 }),
        ("no publishers",     |b| b[56..58].fill(0),       Held { entry: 1 }),
        ("byte missing",      |b| b.truncate(61),           Truncated(61)),
        ("entry missing",     |b| b[23] = 3,               Truncated(62)),
        ("entry too many",    |b| b[23] = 1,               Trailing(21)),
        ("byte too many",     |b| b.push(0),               Trailing(1)),
        ("too long",          |b| b.resize(1401, 0),       TooLong(1401)),
        ("signed",            |b| b[5] |= 8,               Signed),
    ];
    for (name, spoil, error) in rows {
        let mut bytes = encoded(&sample(), None);
        spoil(&mut bytes);
        let found = Announcement::decode(&bytes, None).expect_err(name);
        assert_eq!(found, *error, "{name}");
        assert!(!found.to_string().is_empty());
        assert_eq!(found.is_about_key(), *error == Signed);
    }
}

#[test]
fn one_topic_once_in_each_role() {
    let both = Announcement {
        entries: vec![
            entry(Role::Subscriber, 7, "t"),
            entry(Role::Publisher, 7, "t"),
            entry(Role::Publisher, 7, "u"),
        ],
        ..sample()
    };
    assert_eq!(
        Announcement::decode(&encoded(&both, None), None),
        Ok(both.clone())
    );
    let mut twice = both;
    twice.entries.push(entry(Role::Publisher, 8, "t"));
    assert_eq!(
        Announcement::decode(&encoded(&twice, None), None),
        Err(AnnounceError::Duplicate { entry: 3 })
    );
}

#[test]
fn a_key_is_needed_on_both_sides_or_on_neither() {
    let (key, other) = (Key::from_text("sesame"), Key::from_text("barley"));
    let (plain, signed) = (encoded(&sample(), None), encoded(&sample(), Some(&key)));
    assert_eq!(signed.len(), plain.len() + TAG_BYTES);
    assert_eq!(sample().encoded_bytes(true), signed.len());
    type Row<'a> = (
        &'a [u8],
        Option<&'a Key>,
        Result<Announcement, AnnounceError>,
    );
    #[rustfmt::skip]
    let rows: &[Row<'_>] = &[
        (&signed, Some(&key),   Ok(sample())),
        (&plain,  None,         Ok(sample())),
        (&plain,  Some(&key),   Err(AnnounceError::Unsigned)),
        (&signed, None,         Err(AnnounceError::Signed)),
        (&signed, Some(&other), Err(AnnounceError::Forged)),
    ];
    for (bytes, key, expected) in rows {
        assert_eq!(&Announcement::decode(bytes, *key), expected);
    }
    // Whatever is changed or cut off, by one bit or more, it is not believed.
    for at in 0..signed.len() {
        for bit in 0..8 {
            let mut bytes = signed.clone();
            bytes[at] ^= 1 << bit;
            assert!(
                Announcement::decode(&bytes, Some(&key)).is_err(),
                "byte {at}"
            );
        }
        assert!(Announcement::decode(&signed[..at], Some(&key)).is_err());
    }
    assert!(!format!("{key:?}").contains("sesame"));
}

/// Programs of other languages and later releases compute the same: these values may never change.
#[test]
fn hashes_are_pinned() {
    let ids = [("tele", 0), ("tele", 1), ("a", 0)];
    let found = ids.map(|(name, attempt)| TopicId::hashed(&topic(name), attempt));
    assert_eq!(
        found.map(|id| id.to_string()),
        ["b6db76a7", "9d04c330", "9ff621ee"]
    );
    assert!(found.iter().all(|id| id.is_hashed()));
    let key = Key::from_text("sesame");
    let tag = key.tag(b"TMPA");
    let pinned = 0xbd17_49c5_2397_7490_23bb_d6fb_1e8f_bd24_u128;
    assert_eq!(u128::from_be_bytes(tag), pinned);
}

#[test]
fn splitting_keeps_everything_and_numbers_the_parts() {
    let many = Announcement {
        sequence: u32::MAX - 1,
        entries: (0..500)
            .map(|number| entry(Role::Publisher, number, &format!("topic-{number:03}")))
            .collect(),
        ..sample()
    };
    let parts = many.clone().split();
    let sequences: Vec<u32> = parts.iter().map(|part| part.sequence).collect();
    assert_eq!(sequences[..3], [u32::MAX - 1, u32::MAX, 0]);
    let key = Key::from_text("k");
    let mut entries = Vec::new();
    for part in parts {
        let bytes = encoded(&part, Some(&key));
        assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
        let read = Announcement::decode(&bytes, Some(&key)).expect("fits");
        entries.extend(read.entries);
    }
    assert_eq!(entries, many.entries);
    assert_eq!(sample().split(), [sample()]);
    // Unsplit it is too long for every receiver.
    let bytes = encoded(&many, None);
    assert_eq!(
        Announcement::decode(&bytes, None),
        Err(AnnounceError::TooLong(bytes.len()))
    );
}

fn announcements() -> impl Strategy<Value = Announcement> {
    let held = (0f32..1e12, 0f32..1e12, 1u16.., any::<u32>()).prop_map(
        |(rate, burst, publishers, members)| Held {
            rate,
            burst,
            publishers,
            members,
        },
    );
    let entries = vec(
        (
            any::<bool>(),
            any::<u32>(),
            "[a-zA-Z0-9._-]{1,60}",
            option::of(held),
        ),
        0..40,
    );
    let address = prop_oneof![
        (any::<[u8; 4]>(), 1u16..).prop_map(SocketAddr::from),
        (any::<[u8; 16]>(), 1u16..).prop_map(SocketAddr::from),
    ];
    let numbers = (any::<u64>(), any::<u32>(), 1..=MAX_EXPIRY_MS);
    let flags = any::<(bool, bool, bool)>();
    (numbers, flags, address, entries).prop_map(|(numbers, flags, data, lines)| {
        let mut entries: Vec<Entry> = Vec::new();
        for (publishes, id, name, held) in lines {
            let role = if publishes {
                Role::Publisher
            } else {
                Role::Subscriber
            };
            let topic = topic(&name);
            if entries.iter().all(|e| (e.role, &e.topic) != (role, &topic)) {
                entries.push(Entry {
                    role,
                    id: TopicId(id),
                    topic,
                    held: held.filter(|_| publishes),
                });
            }
        }
        Announcement {
            instance: InstanceId(numbers.0),
            sequence: numbers.1,
            is_proxy: flags.0,
            is_leaving: flags.1,
            expiry_ms: numbers.2,
            data,
            udp: flags.2,
            entries,
        }
    })
}

proptest! {
    #[test]
    fn comes_back_as_it_went(announcement in announcements(), passphrase in option::of(".{0,20}")) {
        let key = passphrase.map(|text| Key::from_text(&text));
        let mut entries = Vec::new();
        for part in announcement.clone().split() {
            let bytes = encoded(&part, key.as_ref());
            prop_assert_eq!(bytes.len(), part.encoded_bytes(key.is_some()));
            prop_assert_eq!(Announcement::decode(&bytes, key.as_ref()), Ok(part.clone()));
            for cut in 0..bytes.len() {
                prop_assert!(Announcement::decode(&bytes[..cut], key.as_ref()).is_err());
            }
            entries.extend(part.entries);
        }
        prop_assert_eq!(entries, announcement.entries);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..200), is_ours: bool) {
        let mut bytes = bytes;
        if is_ours {
            bytes.splice(0..bytes.len().min(6), *b"TMPA\x01\x00");
        }
        if let Ok(read) = Announcement::decode(&bytes, None) {
            prop_assert_eq!(encoded(&read, None), bytes);
        }
    }
}
