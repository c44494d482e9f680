//! Headers that can be read, and bytes of any kind that cannot.

use proptest::prelude::*;

use super::*;

/// A packet with a plain header, its addresses, protocol and what is behind it.
fn v4(protocol: u8, fragment: u16, behind: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + behind.len()).expect("short");
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2]);
    packet.extend(behind);
    packet
}

fn v6(protocol: u8, behind: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(behind.len()).expect("short").to_be_bytes());
    packet.extend([protocol, 64]);
    packet.extend(
        "2001:db8::1"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend(
        "2001:db8::2"
            .parse::<Ipv6Addr>()
            .expect("an address")
            .octets(),
    );
    packet.extend(behind);
    packet
}

const PORTS: [u8; 4] = [0x13, 0x88, 0, 80];

#[test]
fn headers_are_read() {
    let header = Header::parse(&v4(6, 0, &[&PORTS[..], &[0; 16]].concat())).expect("whole");
    assert_eq!(header.source.to_string(), "10.1.0.1");
    assert_eq!(header.destination.to_string(), "10.2.0.2");
    assert_eq!(
        (header.protocol, header.ports, header.length),
        (6, Some((5000, 80)), 40)
    );
    let header = Header::parse(&v6(17, &[&PORTS[..], &[0; 4]].concat())).expect("whole");
    assert_eq!(header.source.to_string(), "2001:db8::1");
    assert_eq!(
        (header.protocol, header.ports, header.length),
        (17, Some((5000, 80)), 48)
    );
}

#[test]
fn only_what_has_ports_shows_them() {
    for (packet, ports) in [
        (v4(6, 0, &PORTS), Some((5000, 80))),
        // Don't-fragment and more-fragments are no offset.
        (v4(6, 0x4000, &PORTS), Some((5000, 80))),
        (v4(6, 0x2000, &PORTS), Some((5000, 80))),
        (v4(6, 0x0001, &PORTS), None),
        (v4(1, 0, &PORTS), None),
        (v4(6, 0, &PORTS[..3]), None),
        (v6(58, &PORTS), None),
        (v6(6, &[]), None),
    ] {
        assert_eq!(
            Header::parse(&packet).expect("whole").ports,
            ports,
            "{packet:?}"
        );
    }
}

#[test]
fn options_are_stepped_over() {
    let mut packet = v4(6, 0, &[&[1, 1, 1, 0], &PORTS[..]].concat());
    packet[0] = 0x46;
    assert_eq!(
        Header::parse(&packet).expect("whole").ports,
        Some((5000, 80))
    );
}

#[test]
fn what_does_not_add_up_is_odd() {
    let whole = v4(6, 0, &PORTS);
    let mut short_header = whole.clone();
    short_header[0] = 0x44;
    let mut long_header = whole.clone();
    long_header[0] = 0x4f;
    let mut other_version = whole.clone();
    other_version[0] = 0x55;
    for (packet, odd) in [
        (&[][..], Odd::Truncated),
        (&whole[..19], Odd::Truncated),
        (&whole[..22], Odd::Length),
        (&[&whole[..], &[0]].concat(), Odd::Length),
        (&short_header, Odd::Truncated),
        (&long_header, Odd::Truncated),
        (&other_version, Odd::Version),
        (&v6(6, &PORTS)[..39], Odd::Truncated),
        (&v6(6, &PORTS)[..42], Odd::Length),
    ] {
        assert_eq!(Header::parse(packet), Err(odd), "{packet:?}");
    }
}

#[test]
fn flows_differ_by_each_part_and_by_nothing_else() {
    let header = Header::parse(&v4(6, 0, &PORTS)).expect("whole");
    let longer = Header::parse(&v4(6, 0, &[&PORTS[..], &[0; 99]].concat())).expect("whole");
    assert_eq!(header.flow(), longer.flow());
    let others = [
        Header {
            source: header.destination,
            ..header
        },
        Header {
            destination: header.source,
            ..header
        },
        Header {
            protocol: 17,
            ..header
        },
        Header {
            ports: Some((5000, 81)),
            ..header
        },
        Header {
            ports: Some((80, 5000)),
            ..header
        },
        Header {
            ports: None,
            ..header
        },
    ];
    for other in others {
        assert_ne!(other.flow(), header.flow(), "{other:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_disturb_it(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), version in 0u8..16, fit: bool) {
        if let Some(first) = bytes.first_mut() {
            *first = *first & 0x0f | version << 4;
        }
        if fit && bytes.len() >= 40 {
            let length = if version == 4 { bytes.len() } else { bytes.len() - 40 };
            let at = if version == 4 { 2 } else { 4 };
            bytes[at..at + 2].copy_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
        }
        if let Ok(header) = Header::parse(&bytes) {
            prop_assert_eq!(usize::from(header.length), bytes.len());
            prop_assert_eq!(header.source.is_ipv4(), bytes[0] >> 4 == 4);
        }
    }
}
