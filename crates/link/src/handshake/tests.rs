//! Attempts of strangers: every bit, every length, every order.

use proptest::prelude::*;

use super::*;
use crate::TAG_BYTES;

fn key(byte: u8) -> LinkKey {
    LinkKey::new([byte; 32])
}

/// Both ends after a handshake: dialler's, then listener's.
fn linked() -> ((Sealer, Opener), (Sealer, Opener)) {
    let (dialler, first) = Dialler::begin(key(7), [1; 32]);
    let (listener, answer) = Listener::begin(key(7), [2; 32], &first).expect("a link");
    let (proof, sealer, opener) = dialler.answered(&answer).expect("the key");
    (
        (sealer, opener),
        listener.proven(&proof).expect("the same key"),
    )
}

#[test]
fn who_knows_the_key_is_heard_in_both_directions() {
    let ((mut says, mut hears), (mut tells, mut is_told)) = linked();
    for number in 0..3_u8 {
        let frame = says.seal(&[number; 5]);
        assert_eq!(is_told.open(&frame).expect("sealed"), [number; 5]);
        let frame = tells.seal(&[]);
        assert_eq!(frame.len(), TAG_BYTES);
        assert_eq!(hears.open(&frame).expect("sealed"), b"");
    }
}

#[test]
fn messages_of_a_handshake_are_short() {
    let (dialler, first) = Dialler::begin(key(7), [1; 32]);
    let (_, answer) = Listener::begin(key(7), [2; 32], &first).expect("a link");
    let (proof, ..) = dialler.answered(&answer).expect("the key");
    for message in [first, answer, proof] {
        assert!(message.len() <= HANDSHAKE_BYTES_MAX, "{}", message.len());
    }
}

#[test]
fn another_key_is_found_out_by_whoever_hears_it_first() {
    let (dialler, first) = Dialler::begin(key(7), [1; 32]);
    let (listener, answer) = Listener::begin(key(8), [2; 32], &first).expect("a link");
    assert_eq!(
        text(dialler.answered(&answer)),
        text::<()>(Err(LinkError::WrongKey))
    );
    // A dialler that does not check, and proves what it can.
    let guess = key(7).derived(DIALLERS_PROOF, &[&first, &answer]);
    assert_eq!(
        text(listener.proven(&guess)),
        text::<()>(Err(LinkError::WrongKey))
    );
}

#[test]
fn another_version_and_another_protocol_are_named() {
    let (_, first) = Dialler::begin(key(7), [1; 32]);
    let mut older = first.clone();
    older[MAGIC.len() + 3] = 4;
    let begun = |first: &[u8]| text(Listener::begin(key(7), [2; 32], first));
    assert!(begun(&older).contains("version 4"), "{}", begun(&older));
    for other in [
        &b""[..],
        br#"{"say":"hello","version":4}"#,
        &first[..43],
        b"  V2",
    ] {
        assert!(
            begun(other).contains("does not speak the link"),
            "{other:?}"
        );
    }
}

/// Nobody has a proof of the other end's to send back, nor one of another link.
#[test]
fn proofs_are_of_one_end_and_one_link() {
    let (dialler, first) = Dialler::begin(key(7), [1; 32]);
    let (_, answer) = Listener::begin(key(7), [2; 32], &first).expect("a link");
    let (proof, ..) = dialler.answered(&answer).expect("the key");
    // The recorded handshake again: the listener's nonce is another one.
    let (listener, _) = Listener::begin(key(7), [3; 32], &first).expect("a link");
    assert!(listener.proven(&proof).is_err());
    // The recorded answer to another dialler.
    let (dialler, _) = Dialler::begin(key(7), [4; 32]);
    assert!(dialler.answered(&answer).is_err());
    // The dialler's own words, and the listener's proof as the dialler's.
    let (dialler, first) = Dialler::begin(key(7), [5; 32]);
    assert!(dialler.answered(&first).is_err());
    let (listener, answer) = Listener::begin(key(7), [6; 32], &first).expect("a link");
    assert!(listener.proven(&answer[OPENING_BYTES..]).is_err());
}

#[test]
fn frames_count_once_in_order_and_in_their_direction() {
    let ((mut says, mut hears), (_, mut is_told)) = linked();
    let frames: Vec<Vec<u8>> = (0..3_u8).map(|number| says.seal(&[number])).collect();
    assert!(is_told.open(&frames[1]).is_err(), "out of order");
    is_told.open(&frames[0]).expect("the first");
    assert!(is_told.open(&frames[0]).is_err(), "again");
    assert!(is_told.open(&frames[2]).is_err(), "one was left out");
    assert!(hears.open(&frames[0]).is_err(), "sent back");
    is_told.open(&frames[1]).expect("the second");
}

fn text<T>(result: Result<T, LinkError>) -> String {
    result
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_flipped_bit_or_a_missing_byte_is_refused(
        message in proptest::collection::vec(any::<u8>(), 0..200),
        bit in any::<prop::sample::Index>(),
        length in any::<prop::sample::Index>(),
    ) {
        let ((mut says, _), (_, mut is_told)) = linked();
        let frame = says.seal(&message);
        let mut changed = frame.clone();
        let bit = bit.index(8 * frame.len());
        changed[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(is_told.open(&changed).is_err());
        prop_assert!(is_told.open(&frame[..length.index(frame.len())]).is_err());
        prop_assert!(is_told.open(&[&frame[..], &[0]].concat()).is_err());
        prop_assert_eq!(is_told.open(&frame).expect("as it was"), &message[..]);
    }

    #[test]
    fn a_changed_handshake_proves_nothing(at in 0..3_usize, bit in any::<prop::sample::Index>()) {
        let flip = |message: &mut Vec<u8>| {
            let bit = bit.index(8 * message.len());
            message[bit / 8] ^= 1 << (bit % 8);
        };
        let (dialler, mut first) = Dialler::begin(key(7), [1; 32]);
        if at == 0 {
            flip(&mut first);
        }
        let Ok((listener, mut answer)) = Listener::begin(key(7), [2; 32], &first) else {
            return Ok(());
        };
        if at == 1 {
            flip(&mut answer);
        }
        let Ok((mut proof, ..)) = dialler.answered(&answer) else {
            return Ok(());
        };
        prop_assert_eq!(at, 2, "the dialler believed it");
        flip(&mut proof);
        prop_assert!(listener.proven(&proof).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let tail = [MAGIC, &LINK_VERSION.to_be_bytes()[..], &bytes].concat();
        for bytes in [&bytes, &tail] {
            let _ = crate::decode::<crate::ToController>(bytes);
            let (dialler, first) = Dialler::begin(key(7), [1; 32]);
            prop_assert!(dialler.answered(bytes).is_err());
            let _ = Listener::begin(key(7), [2; 32], bytes);
            let (listener, _) = Listener::begin(key(7), [2; 32], &first).expect("a link");
            prop_assert!(listener.proven(bytes).is_err());
            let ((_, mut hears), _) = linked();
            prop_assert!(hears.open(bytes).is_err());
        }
    }
}
