//! The question who serves an address, and its answer, by which a controller knows that a broker is
//! where it says.
//!
//! It is asked at each port that a broker announces ([`Door`]). Both ends prove the key; a repeated
//! question gets the same answer, which is useless to anybody who drew other random bytes. Question
//! and answer belong to one door: what a broker says at one port proves nothing about another.

use crate::identity::IDENTITY_BYTES;
use crate::key::are_equal;
use crate::{Identity, LinkError, LinkKey, Nonce};

/// The four bytes that a question begins with; no other protocol on those ports begins so.
pub const MAGIC_PROBE: &[u8; 4] = b"SRTP";

/// Bytes of a question.
pub const QUESTION_BYTES: usize = MAGIC_PROBE.len() + 1 + size_of::<Nonce>() + PROOF_BYTES;

/// Longest answer in bytes.
pub const ANSWER_BYTES_MAX: usize = answer_bytes(u8::MAX);

/// Path of the question over HTTP: the body of a POST, as the answer is.
pub const PROBE_PATH: &str = "/v1/probe";

const PROOF_BYTES: usize = blake3::OUT_LEN;
const LIFE_BYTES: usize = size_of::<u64>();
const ASKERS_PROOF: &str = "srtm link, version 10: a probe's question";
const ANSWERERS_PROOF: &str = "srtm link, version 10: a probe's answer";

/// A port that a broker announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// Where NSQ clients connect, by TCP.
    Clients,
    /// Where HTTP is served.
    Http,
    /// Where other brokers gossip with it, by UDP.
    Gossip,
}

/// The answer to who serves an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The broker's name.
    pub broker: String,
    /// Which broker of that name.
    pub identity: Identity,
    /// The life that the controller's last Welcome to this process named; 0 before the first.
    pub life: u64,
}

/// Asks at `door`; `nonce` is random.
#[must_use]
pub fn probe_question(key: &LinkKey, door: Door, nonce: &Nonce) -> Vec<u8> {
    let words = [&MAGIC_PROBE[..], &[door.byte()], nonce].concat();
    let proof = key.derived(ASKERS_PROOF, &[&words]);
    [&words[..], &proof].concat()
}

/// Answers a question of [`QUESTION_BYTES`] that came in by `door`; the name's first 255 bytes count.
///
/// # Errors
/// [`LinkError`] where it is no question for this door, or not of somebody who knows the key.
pub fn probe_answer(
    key: &LinkKey,
    door: Door,
    question: &[u8],
    present: &Present,
) -> Result<Vec<u8>, LinkError> {
    let (words, proof) = question.split_last_chunk().ok_or(LinkError::NoLink)?;
    let begins = [&MAGIC_PROBE[..], &[door.byte()]].concat();
    if question.len() != QUESTION_BYTES || !words.starts_with(&begins) {
        return Err(LinkError::NoLink);
    }
    if !are_equal(&key.derived(ASKERS_PROOF, &[words]), proof) {
        return Err(LinkError::WrongKey);
    }
    let name = present.broker.as_bytes();
    let name = &name[..name.len().min(u8::MAX.into())];
    let life = present.life.to_be_bytes();
    let said = [&[name.len() as u8], name, &present.identity.0, &life].concat();
    let proof = key.derived(ANSWERERS_PROOF, &[question, &said]);
    Ok([&said[..], &proof].concat())
}

/// Bytes of an answer that begins with this byte.
#[must_use]
pub const fn answer_bytes(first: u8) -> usize {
    1 + first as usize + IDENTITY_BYTES + LIFE_BYTES + PROOF_BYTES
}

/// Reads the answer to `question`.
///
/// # Errors
/// [`LinkError`] where it is none, or not of somebody who knows the key.
pub fn probed(key: &LinkKey, question: &[u8], answer: &[u8]) -> Result<Present, LinkError> {
    let (said, proof) = answer.split_last_chunk().ok_or(LinkError::NoLink)?;
    let (&length, behind) = said.split_first().ok_or(LinkError::NoLink)?;
    let (name, behind) = behind
        .split_at_checked(length.into())
        .ok_or(LinkError::NoLink)?;
    let (identity, life) = behind.split_first_chunk().ok_or(LinkError::NoLink)?;
    let life = life.try_into().map_err(|_| LinkError::NoLink)?;
    if !are_equal(&key.derived(ANSWERERS_PROOF, &[question, said]), proof) {
        return Err(LinkError::WrongKey);
    }
    Ok(Present {
        broker: String::from_utf8_lossy(name).into_owned(),
        identity: Identity(*identity),
        life: u64::from_be_bytes(life),
    })
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 3] = [Door::Clients, Door::Http, Door::Gossip];

    fn byte(self) -> u8 {
        match self {
            Door::Clients => b'c',
            Door::Http => b'h',
            Door::Gossip => b'g',
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(byte: u8) -> LinkKey {
        LinkKey::new([byte; 32])
    }

    fn b1() -> Present {
        Present {
            broker: String::from("b1"),
            identity: Identity([5; 16]),
            life: 77,
        }
    }

    #[test]
    fn who_is_asked_says_who_it_is() {
        for door in Door::ALL {
            let question = probe_question(&key(1), door, &[2; 32]);
            assert_eq!(question.len(), QUESTION_BYTES);
            let answer = probe_answer(&key(1), door, &question, &b1()).expect("the key");
            assert_eq!(answer.len(), answer_bytes(answer[0]));
            assert_eq!(probed(&key(1), &question, &answer).expect("the key"), b1());
            // Strangers are not answered and not believed, nor is the answer to another question.
            assert!(probe_answer(&key(3), door, &question, &b1()).is_err());
            assert!(probed(&key(3), &question, &answer).is_err());
            let other = probe_question(&key(1), door, &[4; 32]);
            assert!(probed(&key(1), &other, &answer).is_err());
        }
    }

    #[test]
    fn a_question_for_one_door_is_not_answered_at_another() {
        for asked in Door::ALL {
            let question = probe_question(&key(1), asked, &[2; 32]);
            for door in Door::ALL {
                let answer = probe_answer(&key(1), door, &question, &b1());
                assert_eq!(answer.is_ok(), door == asked, "{asked:?} at {door:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn nothing_else_is_believed(
            bit in any::<prop::sample::Index>(),
            length in any::<prop::sample::Index>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let door = Door::Http;
            let question = probe_question(&key(1), door, &[2; 32]);
            let answer = probe_answer(&key(1), door, &question, &b1()).expect("the key");
            let flipped = |words: &[u8]| {
                let mut words = words.to_vec();
                let bit = bit.index(8 * words.len());
                words[bit / 8] ^= 1 << (bit % 8);
                words
            };
            prop_assert!(probe_answer(&key(1), door, &flipped(&question), &b1()).is_err());
            prop_assert!(probed(&key(1), &question, &flipped(&answer)).is_err());
            let cut = length.index(answer.len());
            prop_assert!(probed(&key(1), &question, &answer[..cut]).is_err());
            prop_assert!(probe_answer(&key(1), door, &bytes, &b1()).is_err());
            prop_assert!(probed(&key(1), &question, &bytes).is_err());
        }
    }
}
