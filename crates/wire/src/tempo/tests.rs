//! Hello and messages by their bytes, in parts, and refusals.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::MAGIC_V2;
use crate::announce::{InstanceId, Key, TopicId};

const INSTANCE: InstanceId = InstanceId(0x0102_0304_0506_0708);

fn hello(key: Option<&Key>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_hello(&mut bytes, INSTANCE, key);
    bytes
}

#[test]
fn a_hello_by_its_bytes() {
    assert_eq!(
        hello(None),
        b"TMP1\x01\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08"
    );
    let key = Key::from_text("sesame");
    let signed = hello(Some(&key));
    assert_eq!(
        signed[..16],
        *b"TMP1\x01\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08"
    );
    assert_eq!(signed.len(), SIGNED_HELLO_BYTES);
    assert_ne!(MAGIC_TEMPO[0], MAGIC_V2[0]);
    for (bytes, key) in [(hello(None), None), (signed, Some(&key))] {
        let used = bytes.len();
        let mut stream = bytes.clone();
        stream.extend_from_slice(b"more");
        for whole in [&bytes, &stream] {
            let instance = INSTANCE;
            let found = decode_hello(whole, key);
            assert_eq!(found, Ok(HelloDecoded::Complete { instance, used }));
        }
        for cut in 0..used {
            match decode_hello(&bytes[..cut], key) {
                Ok(HelloDecoded::Incomplete { needed }) => assert!(cut < needed && needed <= used),
                other => panic!("{cut} bytes: {other:?}"),
            }
        }
    }
}

#[test]
fn a_hello_is_refused_as_early_as_possible() {
    let key = Key::from_text("sesame");
    let other = Key::from_text("barley");
    let spoilt = |at: usize, value: u8, length: usize| {
        let mut bytes = hello(None);
        bytes[at] = value;
        bytes.truncate(length);
        bytes
    };
    #[rustfmt::skip]
    let rows: &[(Vec<u8>, Option<&Key>, TempoError)] = &[
        (MAGIC_V2.to_vec(),     None,         TempoError::Magic),
        (b"G".to_vec(),         None,         TempoError::Magic),
        (spoilt(3, b'2', 4),    None,         TempoError::Magic),
        (spoilt(4, 9, 8),       None,         TempoError::Version(9)),
        (spoilt(5, 2, 8),       None,         TempoError::Flags(0x02_0000)),
        (spoilt(6, 1, 8),       None,         TempoError::Flags(0x00_0100)),
        (spoilt(7, 1, 16),      None,         TempoError::Flags(1)),
        (spoilt(5, 1, 8),       None,         TempoError::Signed),
        (spoilt(5, 0, 8),       Some(&key),   TempoError::Unsigned),
        (hello(Some(&key)),     Some(&other), TempoError::Forged),
    ];
    for (bytes, key, error) in rows {
        assert_eq!(
            decode_hello(bytes, *key),
            Err(*error),
            "{}",
            bytes.escape_ascii()
        );
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn messages_by_their_bytes() {
    let mut bytes = Vec::new();
    put_message_header(&mut bytes, TopicId(7), 2);
    bytes.extend_from_slice(b"hi");
    assert_eq!(bytes, b"\0\0\0\x02\0\0\0\x07hi");
    let found = decode_message(&bytes, 2);
    let expected = MessageDecoded::Complete {
        id: TopicId(7),
        body: b"hi",
        used: 10,
    };
    assert_eq!(found, Ok(expected));
    // Too long is found by the length alone, before identifier and body.
    let too_long = TempoError::TooLong {
        bytes: 2,
        max_bytes: 1,
    };
    assert_eq!(decode_message(&bytes[..4], 1), Err(too_long));
    let endless = TempoError::TooLong {
        bytes: u32::MAX,
        max_bytes: 1,
    };
    assert_eq!(decode_message(&[0xff; 4], 1), Err(endless));

    let mut datagram = Vec::new();
    put_datagram_header(&mut datagram, TopicId(7));
    assert_eq!(datagram.len(), DATAGRAM_HEADER_BYTES);
    assert_eq!(decode_datagram(&datagram, 0), Ok((TopicId(7), &b""[..])));
    datagram.extend_from_slice(b"hi");
    assert_eq!(decode_datagram(&datagram, 2), Ok((TopicId(7), &b"hi"[..])));
    assert_eq!(decode_datagram(&datagram, 1), Err(too_long));
    let short = decode_datagram(&datagram[..3], 9);
    assert_eq!(short, Err(TempoError::ShortDatagram(3)));
}

proptest! {
    /// However a stream is cut, the same messages come out, and what is said to be needed is needed.
    #[test]
    fn a_stream_in_pieces(
        messages in vec((any::<u32>(), vec(any::<u8>(), 0..40)), 0..20),
        piece_bytes in 1usize..50,
    ) {
        let mut stream = Vec::new();
        for (id, body) in &messages {
            put_message_header(&mut stream, TopicId(*id), body.len() as u32);
            stream.extend_from_slice(body);
        }
        let mut read = Vec::new();
        let mut buffer: Vec<u8> = Vec::new();
        for piece in stream.chunks(piece_bytes) {
            buffer.extend_from_slice(piece);
            loop {
                match decode_message(&buffer, 64) {
                    Ok(MessageDecoded::Complete { id, body, used }) => {
                        read.push((id.0, body.to_vec()));
                        buffer.drain(..used);
                    }
                    Ok(MessageDecoded::Incomplete { needed }) => {
                        prop_assert!(buffer.len() < needed && needed <= MESSAGE_HEADER_BYTES + 64);
                        break;
                    }
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert!(buffer.is_empty());
    }
}
