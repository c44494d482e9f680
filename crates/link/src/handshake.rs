//! Both ends prove that they know the key before either believes a word.
//!
//! The dialler sends 32 random bytes, the listener answers with 32 of its own and a proof over
//! both, and the dialler proves itself over all of that. The proofs of the two ends have keys of
//! their own, so none can be sent back as the other, and both directions of the link get keys that
//! no other link ever has ([`crate::Sealer`], [`crate::Opener`]). Nothing is hidden: an
//! eavesdropper can read everything.

use crate::key::are_equal;
use crate::{LINK_VERSION, LinkError, LinkKey, Opener, Sealer};

/// Longest message of a handshake, in bytes; whoever has proved nothing is not read further.
pub const HANDSHAKE_BYTES_MAX: usize = 128;

/// Random bytes that are used once.
pub type Nonce = [u8; NONCE_BYTES];

const NONCE_BYTES: usize = 32;
const PROOF_BYTES: usize = blake3::OUT_LEN;
const MAGIC: &[u8; 8] = b"SRTMLINK";
const OPENING_BYTES: usize = MAGIC.len() + 4 + NONCE_BYTES;

/// Purposes of keys; each names the version, so that no proof of one is any of another.
const LISTENERS_PROOF: &str = "srtm link, version 10: the listener's proof";
const DIALLERS_PROOF: &str = "srtm link, version 10: the dialler's proof";
const TO_LISTENER: &str = "srtm link, version 10: frames to the listener";
const TO_DIALLER: &str = "srtm link, version 10: frames to the dialler";

/// The end that dials, after its first message.
#[derive(Debug)]
pub struct Dialler {
    key: LinkKey,
    opening: Vec<u8>,
}

/// The end that was dialled, after its answer.
#[derive(Debug)]
pub struct Listener {
    key: LinkKey,
    opening: Vec<u8>,
    answer: Vec<u8>,
}

impl Dialler {
    /// Begins; `nonce` is random. Gives the first message.
    #[must_use]
    pub fn begin(key: LinkKey, nonce: Nonce) -> (Dialler, Vec<u8>) {
        let opening = opening(nonce);
        let first = opening.clone();
        (Dialler { key, opening }, first)
    }

    /// Takes the listener's answer. Gives the last message of the handshake and the two directions.
    ///
    /// # Errors
    /// [`LinkError`] where the listener speaks something else or another version, or does not know the key.
    pub fn answered(self, answer: &[u8]) -> Result<(Vec<u8>, Sealer, Opener), LinkError> {
        let (words, proof) = answer
            .split_at_checked(OPENING_BYTES)
            .ok_or(LinkError::NoLink)?;
        check(words)?;
        let said = [self.opening.as_slice(), words];
        verify(&self.key.derived(LISTENERS_PROOF, &said), proof)?;
        let said = [self.opening.as_slice(), answer];
        let proof = self.key.derived(DIALLERS_PROOF, &said);
        let sealer = Sealer::new(self.key.derived(TO_LISTENER, &said));
        let opener = Opener::new(self.key.derived(TO_DIALLER, &said));
        Ok((proof.to_vec(), sealer, opener))
    }
}

impl Listener {
    /// Takes a dialler's first message; `nonce` is random. Gives the answer.
    ///
    /// # Errors
    /// [`LinkError`] where the dialler speaks something else or another version.
    pub fn begin(
        key: LinkKey,
        nonce: Nonce,
        first: &[u8],
    ) -> Result<(Listener, Vec<u8>), LinkError> {
        check(first)?;
        let words = opening(nonce);
        let proof = key.derived(LISTENERS_PROOF, &[first, &words]);
        let answer = [words.as_slice(), &proof].concat();
        let listener = Listener {
            key,
            opening: first.to_vec(),
            answer: answer.clone(),
        };
        Ok((listener, answer))
    }

    /// Takes the dialler's proof. Gives the two directions.
    ///
    /// # Errors
    /// [`LinkError::WrongKey`].
    pub fn proven(self, proof: &[u8]) -> Result<(Sealer, Opener), LinkError> {
        let said = [self.opening.as_slice(), &self.answer];
        verify(&self.key.derived(DIALLERS_PROOF, &said), proof)?;
        let sealer = Sealer::new(self.key.derived(TO_DIALLER, &said));
        let opener = Opener::new(self.key.derived(TO_LISTENER, &said));
        Ok((sealer, opener))
    }
}

fn opening(nonce: Nonce) -> Vec<u8> {
    [MAGIC, &LINK_VERSION.to_be_bytes()[..], &nonce].concat()
}

/// Whether these bytes begin a link of this version.
fn check(words: &[u8]) -> Result<(), LinkError> {
    let behind = words.strip_prefix(MAGIC).ok_or(LinkError::NoLink)?;
    let version = behind.first_chunk().ok_or(LinkError::NoLink)?;
    match u32::from_be_bytes(*version) {
        LINK_VERSION if words.len() == OPENING_BYTES => Ok(()),
        LINK_VERSION => Err(LinkError::NoLink),
        other => Err(LinkError::Version(other)),
    }
}

fn verify(expected: &[u8; PROOF_BYTES], proof: &[u8]) -> Result<(), LinkError> {
    let proof = proof.try_into().map_err(|_| LinkError::NoLink)?;
    are_equal(expected, proof)
        .then_some(())
        .ok_or(LinkError::WrongKey)
}

#[cfg(test)]
mod tests;
