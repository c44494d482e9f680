//! What a client shows to be let in.

use std::fmt;
use std::sync::Arc;

/// A token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// The token with this text.
    #[must_use]
    pub fn new(text: &str) -> Token {
        Token(text.into())
    }

    /// The text.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}
