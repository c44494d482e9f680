//! Templates, answers and messages of the protocols, byte by byte.

use super::jetstream::JetStream;
use super::mqtt::Mqtt;
use super::nats::Nats;
use super::nsq::{Acknowledgement, Nsq};
use super::*;
use crate::stamp::STAMP_BYTES;

fn nsq() -> Protocol {
    Protocol::Nsq(Nsq {
        topic: "t".to_owned(),
        channel: "c".to_owned(),
        acknowledgement: Acknowledgement::Each,
        unbuffered: false,
    })
}

fn nats() -> Protocol {
    Protocol::Nats(Nats {
        subject: "t".to_owned(),
    })
}

fn jetstream() -> Protocol {
    Protocol::JetStream(JetStream {
        subject: "t".to_owned(),
    })
}

fn mqtt(acknowledged: bool) -> Protocol {
    Protocol::Mqtt(Mqtt {
        topic: "t".to_owned(),
        acknowledged,
    })
}

fn stamp() -> Stamp {
    Stamp {
        run: 1,
        publisher: 2,
        sequence: 3,
        scheduled_ns: 4,
    }
}

fn batch(messages: u32, body_bytes: usize, mpub: bool) -> Batch {
    Batch {
        messages,
        body_bytes,
        mpub,
    }
}

/// A template's head and the number of bytes after the last body.
#[test]
fn templates_are_valid_commands() {
    for (protocol, head, tail_bytes) in [
        (nsq(), b"PUB t\n\x00\x00\x00\x18".as_slice(), 0),
        (nats(), b"PUB t 24\r\n", 2),
        (jetstream(), b"PUB t stored.0000000002 24\r\n", 2),
        (mqtt(false), b"\x30\x1b\x00\x01t", 0),
        (mqtt(true), b"\x32\x1d\x00\x01t\x00\x04", 0),
    ] {
        let mut template = protocol.template(&batch(1, STAMP_BYTES, false));
        let bytes = template.stamp(stamp());
        assert!(bytes.starts_with(head), "{protocol:?}: {bytes:02x?}");
        assert_eq!(
            bytes.len(),
            head.len() + STAMP_BYTES + tail_bytes,
            "{protocol:?}"
        );
        assert_eq!(
            Stamp::read_from(&bytes[head.len()..]),
            Some(stamp()),
            "{protocol:?}"
        );
        assert_eq!(template.messages(), 1);
    }
}

#[test]
fn batches_count_their_sequence_on() {
    for mpub in [false, true] {
        let mut template = nsq().template(&batch(3, 30, mpub));
        let bytes = template.stamp(stamp()).to_vec();
        let limits = wire::Limits {
            max_msg_size: 1000,
            max_body_size: 1000,
            max_line_bytes: 100,
            max_rdy_count: 1,
            max_req_timeout_ms: 1,
        };
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match wire::decode(rest, &limits, wire::Phase::Init, false) {
                Ok(wire::Decoded::Complete {
                    command: wire::Command::Pub { body, .. },
                    consumed,
                }) => {
                    bodies.push(body.to_vec());
                    rest = &rest[consumed..];
                }
                Ok(wire::Decoded::Complete {
                    command: wire::Command::Mpub { messages, .. },
                    consumed,
                }) => {
                    bodies.extend(messages.iter().map(<[u8]>::to_vec));
                    rest = &rest[consumed..];
                }
                other => panic!("{other:?}"),
            }
        }
        let sequences: Vec<u64> = bodies
            .iter()
            .filter_map(|body| Stamp::read_from(body))
            .map(|stamp| stamp.sequence)
            .collect();
        assert_eq!(sequences, [3, 4, 5], "mpub: {mpub}");
    }
}

#[test]
fn packet_ids_are_never_zero() {
    let mut template = mqtt(true).template(&batch(1, STAMP_BYTES, false));
    for sequence in [0, 65_534, 65_535, 131_069, 131_070] {
        let bytes = template.stamp(Stamp {
            sequence,
            ..stamp()
        });
        assert_ne!(&bytes[5..7], [0, 0], "{sequence}");
    }
}

/// What a publisher may be answered: bytes, acknowledgements in it, bytes left over, what is answered.
#[test]
fn replies_are_counted() {
    for (protocol, bytes, acknowledged, left, answer) in [
        (
            nsq(),
            [wire::OK_FRAME, wire::OK_FRAME].concat(),
            2,
            0,
            b"".as_slice(),
        ),
        (nsq(), wire::OK_FRAME[..9].to_vec(), 0, 9, b""),
        (nsq(), wire::HEARTBEAT_FRAME.to_vec(), 0, 0, b"NOP\n"),
        (nats(), b"PING\r\n+OK\r\nPI".to_vec(), 0, 2, b"PONG\r\n"),
        (nats(), b"INFO {}\r\n".to_vec(), 0, 0, b""),
        (
            jetstream(),
            b"MSG stored.0000000002 1 9\r\n{\"seq\":1}\r\nPING\r\nMSG sto".to_vec(),
            1,
            7,
            b"PONG\r\n",
        ),
        (
            mqtt(true),
            b"\x40\x02\x00\x01\x40\x02\x00\x02\x40".to_vec(),
            2,
            1,
            b"",
        ),
        (mqtt(false), b"\xd0\x00".to_vec(), 0, 0, b""),
    ] {
        let mut answers = Vec::new();
        let replies = protocol
            .read_replies(&bytes, &mut answers)
            .expect("valid answers");
        assert_eq!(
            replies.acknowledged, acknowledged,
            "{protocol:?} {bytes:02x?}"
        );
        assert_eq!(
            bytes.len() - replies.consumed,
            left,
            "{protocol:?} {bytes:02x?}"
        );
        assert_eq!(answers, answer, "{protocol:?} {bytes:02x?}");
    }
}

#[test]
fn a_message_that_was_not_stored_is_told() {
    let refusal = b"MSG stored.0000000002 1 22\r\n{\"error\":{\"code\":503}}\r\n";
    let told = jetstream().read_replies(refusal, &mut Vec::new());
    let text = told.expect_err("the answer is a refusal").to_string();
    assert!(text.contains("503"), "{text}");
}

#[test]
fn cumulative_acknowledgements_are_totals() {
    let mut bytes = Vec::new();
    wire::put_ack(&mut bytes, 64);
    wire::put_ack(&mut bytes, 128);
    let replies = nsq()
        .read_replies(&bytes, &mut Vec::new())
        .expect("valid answers");
    assert_eq!(replies.acknowledged_total, Some(128));
}

#[test]
fn errors_of_the_broker_end_the_run() {
    let mut nsq_error = Vec::new();
    wire::put_response(&mut nsq_error, b"WHAT");
    for (protocol, bytes) in [
        (nsq(), nsq_error),
        (
            nsq(),
            b"\x00\x00\x00\x0e\x00\x00\x00\x01E_BAD_BODY".to_vec(),
        ),
        (nsq(), b"\xff\xff\xff\xff\x00\x00\x00\x00".to_vec()),
        (nats(), b"-ERR 'Authorization Violation'\r\n".to_vec()),
        (mqtt(true), b"\xe0\x00".to_vec()),
        (mqtt(true), b"\x40\xff\xff\xff\xff\xff".to_vec()),
    ] {
        let mut answers = Vec::new();
        assert!(
            protocol.read_replies(&bytes, &mut answers).is_err(),
            "{protocol:?} {bytes:02x?}"
        );
        assert!(
            protocol
                .read_messages(&bytes, &mut answers, &mut |_| ())
                .is_err(),
            "{protocol:?} {bytes:02x?}"
        );
    }
}

/// A stream of three messages, cut at every place, gives the same messages and acknowledgements.
#[test]
fn messages_may_arrive_in_pieces() {
    let mut nsq_stream = Vec::new();
    for index in 0_u64..3 {
        let mut header = [0; wire::MESSAGE_HEADER_BYTES];
        wire::put_message_header(&mut header, 2, 7, 1, wire::MessageId::from_u64(index));
        nsq_stream.extend_from_slice(&header);
        nsq_stream.extend_from_slice(&[b'a', index as u8]);
    }
    let nats_stream =
        b"MSG t 1 2\r\na\x00\r\nPING\r\nMSG t 1 2\r\na\x01\r\nMSG t 1 2\r\na\x02\r\n".to_vec();
    let mqtt_0 = b"\x30\x05\x00\x01ta\x00\x30\x05\x00\x01ta\x01\x30\x05\x00\x01ta\x02".to_vec();
    let mqtt_1 =
        b"\x32\x07\x00\x01t\x00\x01a\x00\x32\x07\x00\x01t\x00\x02a\x01\x32\x07\x00\x01t\x00\x03a\x02".to_vec();
    for (protocol, stream, answer) in [
        (
            nsq(),
            nsq_stream,
            b"FIN 0000000000000000\nFIN 0000000000000001\nFIN 0000000000000002\n".as_slice(),
        ),
        (nats(), nats_stream, b"PONG\r\n"),
        (mqtt(false), mqtt_0, b""),
        (
            mqtt(true),
            mqtt_1,
            b"\x40\x02\x00\x01\x40\x02\x00\x02\x40\x02\x00\x03",
        ),
    ] {
        for cut in 0..=stream.len() {
            let (mut bodies, mut answers) = (Vec::new(), Vec::new());
            let mut keep = |delivery: Delivery<'_>| bodies.push(delivery.body.to_vec());
            let first = protocol
                .read_messages(&stream[..cut], &mut answers, &mut keep)
                .expect("valid messages");
            let rest = protocol
                .read_messages(&stream[first..], &mut answers, &mut keep)
                .expect("valid messages");
            assert_eq!(first + rest, stream.len(), "{protocol:?} cut at {cut}");
            assert_eq!(
                bodies,
                [[b'a', 0], [b'a', 1], [b'a', 2]],
                "{protocol:?} cut at {cut}"
            );
            assert_eq!(answers, answer, "{protocol:?} cut at {cut}");
        }
    }
}
