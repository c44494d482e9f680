//! The bytes of SWIM's messages, and bytes that are not one.

use foca::{Codec, Header, Member, Message, State};
use proptest::collection::vec;
use proptest::prelude::*;

use super::life::{CodecError, LIFE_BYTES};
use super::*;

fn life(index: u16) -> Life {
    Life {
        index,
        incarnation: 0x0102_0304_0506_0708,
        generation: 9,
    }
}

#[test]
fn every_message_survives_its_bytes() {
    let (target, origin, probe_number) = (life(3), life(4), 200);
    #[rustfmt::skip]
    let messages = [
        Message::Ping(1), Message::Ack(255), Message::Announce, Message::Feed, Message::Gossip, Message::TurnUndead,
        Message::PingReq { target, probe_number }, Message::IndirectPing { origin, probe_number },
        Message::IndirectAck { target, probe_number }, Message::ForwardedAck { origin, probe_number },
    ];
    let mut codec = LifeCodec { limiters: 5 };
    for message in messages {
        let header = Header {
            src: life(1),
            src_incarnation: 7,
            dst: life(2),
            message,
        };
        let mut bytes = Vec::new();
        codec.encode_header(&header, &mut bytes).expect("it fits");
        assert_eq!(life::sender(&bytes), Some((1, life(1).incarnation)));
        assert_eq!(codec.decode_header(&bytes[..]).expect("whole"), header);
        for cut in 0..bytes.len() {
            let refused = codec.decode_header(&bytes[..cut]);
            assert_eq!(refused, Err(CodecError::Short), "{header:?} of {cut} bytes");
        }
        let mut few = LifeCodec { limiters: 2 };
        assert_eq!(few.decode_header(&bytes[..]), Err(CodecError::Index(2)));
    }
    let broadcast = Header {
        src: life(1),
        src_incarnation: 0,
        dst: life(2),
        message: Message::Broadcast,
    };
    assert!(codec.encode_header(&broadcast, Vec::new()).is_err());
}

#[test]
fn every_member_survives_its_bytes_and_leaves_none_where_it_does_not_fit() {
    let mut codec = LifeCodec { limiters: 5 };
    for state in [State::Alive, State::Suspect, State::Down] {
        let member = Member::new(life(4), 60_000, state);
        let mut bytes = [0; LIFE_BYTES + 3];
        codec
            .encode_member(&member, &mut bytes[..])
            .expect("it fits");
        assert_eq!(codec.decode_member(&bytes[..]).expect("whole"), member);
        let mut short = [0; LIFE_BYTES + 2];
        let full = codec.encode_member(&member, &mut short[..]);
        assert_eq!((full, short), (Err(CodecError::Full), [0; LIFE_BYTES + 2]));
        bytes[LIFE_BYTES + 2] = 3;
        assert_eq!(codec.decode_member(&bytes[..]), Err(CodecError::State(3)));
    }
}

#[test]
fn a_life_that_was_taken_for_dead_goes_on_as_a_newer_one() {
    use foca::Identity;
    let before = life(1);
    let after = before.renew().expect("there is a next one");
    assert!(after.win_addr_conflict(&before) && !before.win_addr_conflict(&after));
    let restarted = Life {
        incarnation: before.incarnation + 1,
        generation: 0,
        ..before
    };
    assert!(restarted.win_addr_conflict(&after));
}

proptest! {
    #[test]
    fn any_bytes_are_taken_or_refused(
        mut bytes in vec(any::<u8>(), 14..200),
        kind in 0_u8..11,
        small in any::<bool>(),
    ) {
        let random = clock::stream(1, "test");
        let mut membership = Membership::new(10, 0, 5, random, Instant::ZERO);
        bytes[..10].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        if small && bytes.len() > 30 {
            // As if to this one, with some news.
            bytes[12..26].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0]);
            bytes[26] = kind;
        }
        let now = Instant::ZERO + Duration::from_secs(1);
        let _ = membership.receive(now, 1, 7, &bytes);
        prop_assert_eq!(membership.receive(now, 2, 7, &bytes), Err(NotAMessage));
        prop_assert_eq!(membership.receive(now, 1, 8, &bytes), Err(NotAMessage));
        membership.wake(now + Duration::from_secs(1));
        prop_assert!(membership.connected().count() < 10);
    }
}
