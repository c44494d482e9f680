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

/// What another limiter may say to the first of five.
#[derive(Clone, Debug)]
struct Said {
    after: Duration,
    from: u16,
    message: Message<Life>,
    members: Vec<Member<Life>>,
}

fn anything_said() -> impl Strategy<Value = Said> {
    let states = prop_oneof![Just(State::Alive), Just(State::Suspect), Just(State::Down)];
    let member = (0..5_u16, 5..7_u64, 0..3_u16, 0..3_u16, states);
    let member = member.prop_map(|(index, incarnation, generation, swim, state)| {
        let life = Life {
            index,
            incarnation,
            generation,
        };
        Member::new(life, swim, state)
    });
    let messages = prop_oneof![
        (Just(Message::TurnUndead), Just(Vec::new())),
        (Just(Message::Announce), Just(Vec::new())),
        (Just(Message::Ping(1)), vec(member.clone(), 0..4)),
        (Just(Message::Gossip), vec(member, 0..4)),
    ];
    let said = (0..2000_u64, 1..5_u16, messages);
    said.prop_map(|(after, from, (message, members))| Said {
        after: Duration::from_millis(after),
        from,
        message,
        members,
    })
}

/// Says it to a limiter by the name that it has for itself, in incarnation 6 of the sender.
fn say(membership: &mut Membership, now: Instant, said: &Said) {
    let header = Header {
        src: Life {
            index: said.from,
            incarnation: 6,
            generation: 0,
        },
        src_incarnation: 0,
        dst: *membership.foca.identity(),
        message: said.message.clone(),
    };
    let (mut codec, mut bytes) = (LifeCodec { limiters: 5 }, Vec::new());
    codec.encode_header(&header, &mut bytes).expect("it fits");
    if !said.members.is_empty() {
        bytes.extend((said.members.len() as u16).to_be_bytes());
        for member in &said.members {
            codec.encode_member(member, &mut bytes).expect("it fits");
        }
    }
    let taken = membership.receive(now, said.from, 6, &bytes);
    assert_eq!(taken, Ok(()), "{said:?}");
}

/// Lets time pass; whatever is sent is lost.
fn pass(membership: &mut Membership, until: Instant) {
    while membership.next_wake() <= until {
        membership.wake(membership.next_wake());
        while membership.poll_send().is_some() {}
    }
}

#[test]
fn one_that_goes_on_as_a_newer_life_finds_out_who_is_gone() {
    let random = clock::stream(1, "test");
    let mut membership = Membership::new(5, 0, 5, random, Instant::ZERO);
    let said = Said {
        after: Duration::ZERO,
        from: 1,
        message: Message::TurnUndead,
        members: Vec::new(),
    };
    say(&mut membership, Instant::ZERO, &said);
    assert_eq!(membership.foca.identity().generation, 1);
    assert_eq!(membership.connected().collect::<Vec<_>>(), [(1, 6)]);
    pass(&mut membership, Instant::ZERO + Duration::from_secs(10));
    assert_eq!(membership.connected().count(), 0);
}

proptest! {
    #[test]
    fn behind_whatever_was_said_nobody_is_connected_who_is_silent(
        all in vec(anything_said(), 1..12),
    ) {
        let random = clock::stream(1, "test");
        let mut membership = Membership::new(5, 0, 5, random, Instant::ZERO);
        let mut now = Instant::ZERO;
        for said in &all {
            now += said.after;
            pass(&mut membership, now);
            say(&mut membership, now, said);
        }
        pass(&mut membership, now + Duration::from_secs(20));
        prop_assert_eq!(membership.connected().count(), 0);
    }

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
