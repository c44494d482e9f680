//! Tokens, and what is kept of them.
//!
//! A token is 256 random bits. Nobody guesses those, so its plain hash gives nothing away and may be looked up as it is: neither salt
//! nor a slow hash would add anything. Passwords that people think of are not tokens, and there is no way to put one into a list but to
//! hash it oneself.

use std::fmt;
use std::str::FromStr;

/// What tells a token from other secrets, where one has slipped into a log.
const TOKEN_PREFIX: &str = "srtm_";

/// Says what a hash was made by, and where a list has one.
const HASH_PREFIX: &str = "blake3:";

/// So that the hash of a token is of no use for anything else.
const PURPOSE: &str = "srtm 2026-11 access token";

const HASH_BYTES: usize = 32;

/// A secret that is handed out once. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// What a list holds of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; HASH_BYTES]);

/// A text that is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the hash of a token; it is blake3: and 64 hexadecimal digits, as `srtm access token` prints it"
)]
pub struct InvalidHash;

impl Token {
    /// The token of these random bytes.
    #[must_use]
    pub fn new(random: [u8; 32]) -> Token {
        Token(format!("{TOKEN_PREFIX}{}", hex(&random)))
    }

    /// The secret itself.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl TokenHash {
    /// Of what somebody shows.
    #[must_use]
    pub fn of(secret: &[u8]) -> TokenHash {
        TokenHash(blake3::derive_key(PURPOSE, secret))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HASH_PREFIX}{}", hex(&self.0))
    }
}

impl FromStr for TokenHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<TokenHash, InvalidHash> {
        let digits = text.strip_prefix(HASH_PREFIX).ok_or(InvalidHash)?;
        if digits.len() != 2 * HASH_BYTES {
            return Err(InvalidHash);
        }
        let mut hash = [0; HASH_BYTES];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(InvalidHash);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Ok(TokenHash(hash))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_read_as_they_are_written() {
        let token = Token::new([7; 32]);
        assert_eq!(token.secret().len(), 5 + 64);
        assert!(!format!("{token:?}").contains("0707"));
        let hash = TokenHash::of(token.secret().as_bytes());
        assert_eq!(hash.to_string().parse(), Ok(hash));
        assert_ne!(hash, TokenHash::of(b"srtm_"));
        let short = &hash.to_string()[..70];
        for bad in [
            "",
            "blake3:",
            short,
            "sha256:00",
            &format!("blake3:{}", "g".repeat(64)),
            &format!("blake3:{}", "ä".repeat(32)),
        ] {
            assert_eq!(bad.parse::<TokenHash>(), Err(InvalidHash), "{bad}");
        }
    }
}
