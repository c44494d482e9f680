//! The token that a client shows.

use std::fmt;
use std::path::Path;

use api::Token;
use clap::Args;

use crate::error::Failure;

/// The variable that a token is taken from where no flag gives one.
const VARIABLE: &str = "SRTM_TOKEN";

/// By what a client is let in.
#[derive(Args, Clone, Default)]
pub(crate) struct TokenFlags {
    /// Token to show, or @FILE to read it from. Others on this machine see what stands on a command
    /// line [default: the variable SRTM_TOKEN].
    #[arg(long, value_name = "TOKEN|@FILE")]
    token: Option<String>,
}

impl fmt::Debug for TokenFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenFlags(…)")
    }
}

impl TokenFlags {
    /// The token, where there is one.
    ///
    /// # Errors
    /// The file of `@FILE` cannot be read.
    pub(crate) fn token(&self) -> Result<Option<Token>, Failure> {
        let given = self.token.clone().or_else(|| std::env::var(VARIABLE).ok());
        let Some(given) = given.filter(|given| !given.is_empty()) else {
            return Ok(None);
        };
        let Some(file) = given.strip_prefix('@') else {
            return Ok(Some(Token::new(&given)));
        };
        let text = std::fs::read_to_string(Path::new(file));
        let text = text.map_err(Failure::io(format!("reading the token in {file}")))?;
        Ok(Some(Token::new(text.trim())))
    }
}
