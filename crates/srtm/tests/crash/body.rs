//! Bodies that prove who made them: which run, which topic, which number, and that no byte is another.

use std::fmt;

/// Bytes of a body beside its filling.
const FIXED_BYTES: usize = 8 + 8 + 8 + 8;
const MAGIC: [u8; 4] = *b"CrTs";

/// Which message a body is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) topic: usize,
    pub(crate) number: usize,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of topic {}", self.number, self.topic)
    }
}

/// The body of a message of the run with such a seed.
pub(crate) fn body(seed: u64, name: Name) -> Vec<u8> {
    let mut state = mixed(seed ^ mixed((name.number as u64) << 8 | name.topic as u64));
    let filling = match state % 40 {
        // Some are longer than what a read or a segment takes at once.
        0 => 9_000 + (state >> 8) % 60_000,
        1..10 => 0,
        _ => (state >> 8) % 600,
    };
    let mut body = Vec::with_capacity(FIXED_BYTES + filling as usize);
    body.extend_from_slice(&MAGIC);
    body.extend_from_slice(&(name.topic as u32).to_be_bytes());
    body.extend_from_slice(&seed.to_be_bytes());
    body.extend_from_slice(&(name.number as u64).to_be_bytes());
    let length = body.len() + filling as usize;
    while body.len() < length {
        state = mixed(state);
        body.extend_from_slice(&state.to_be_bytes());
    }
    body.truncate(length);
    let sum = checksum(&body);
    body.extend_from_slice(&sum.to_be_bytes());
    body
}

/// Which message of the run a body is of; what is wrong with it otherwise.
pub(crate) fn name_of(seed: u64, bytes: &[u8]) -> Result<Name, String> {
    let Some(head) = bytes.first_chunk::<24>() else {
        return Err(format!("a body of {} bytes is too short", bytes.len()));
    };
    let number = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let name = Name {
        topic: (number(0) & 0xffff_ffff) as usize,
        number: number(16) as usize,
    };
    if !head.starts_with(&MAGIC) || number(8) != seed {
        return Err(format!("a body begins with {head:02x?}"));
    }
    // Made anew, it must be the same to the last byte.
    match body(seed, name) == bytes {
        true => Ok(name),
        false => Err(format!("the body of {name} was changed")),
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_be_bytes(word)
    });
    words.fold(bytes.len() as u64, |sum, word| mixed(sum ^ word))
}

/// SplitMix64's mixing.
fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn only_what_was_made_for_this_run_is_believed() {
    for number in 0..200 {
        let name = Name { topic: 2, number };
        let mut bytes = body(7, name);
        assert_eq!(name_of(7, &bytes), Ok(name));
        assert!(name_of(8, &bytes).is_err(), "another run");
        let at = number % bytes.len();
        bytes[at] ^= 1;
        assert!(name_of(7, &bytes).is_err(), "byte {at} was changed");
        bytes[at] ^= 1;
        bytes.pop();
        assert!(name_of(7, &bytes).is_err(), "it was cut");
    }
}
