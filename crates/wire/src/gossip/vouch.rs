//! What brokers of a controller's round ask each other: whether they vouch for it.
//!
//! ```text
//!  0  is an answer: 0, 1     1
//!  1  round                  8
//!  9  life of who asked      8
//! 17  when it asked          8
//! ```

/// A question, or the answer to it, which says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouch {
    /// Whether it is the answer: yes.
    pub is_answer: bool,
    /// The round.
    pub round: u64,
    /// Which process asked: its incarnation.
    pub life: u64,
    /// When, by the clock of who asked; nanoseconds, which mean nothing to others.
    pub asked_at_ns: u64,
}

/// Bytes of it.
const BYTES: usize = 25;

impl Vouch {
    /// The bytes of it.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[0] = u8::from(self.is_answer);
        for (place, word) in [self.round, self.life, self.asked_at_ns].iter().enumerate() {
            bytes[1 + 8 * place..][..8].copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// What the payload says, if it is one.
    pub fn decode(payload: &[u8]) -> Option<Vouch> {
        let bytes: &[u8; BYTES] = payload.try_into().ok()?;
        let word = |place: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[1 + 8 * place..][..8]);
            u64::from_be_bytes(word)
        };
        let is_answer = match bytes[0] {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Vouch {
            is_answer,
            round: word(0),
            life: word(1),
            asked_at_ns: word(2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        for is_answer in [false, true] {
            let vouch = Vouch {
                is_answer,
                round: 3 << 32 | 7,
                life: u64::MAX,
                asked_at_ns: 12,
            };
            let bytes = vouch.encode();
            assert_eq!(Vouch::decode(&bytes), Some(vouch));
            assert_eq!(Vouch::decode(&bytes[1..]), None);
        }
        assert_eq!(Vouch::decode(&[2; BYTES]), None);
    }
}
