//! Random bytes, from the system.

use std::io::Read;

use crate::ControlError;

/// Where the system gives them.
const SOURCE: &str = "/dev/urandom";

/// Bytes that nobody can guess.
///
/// # Errors
/// [`ControlError::Unavailable`] where the system gives none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], ControlError> {
    let mut bytes = [0; N];
    let drawn = std::fs::File::open(SOURCE).and_then(|mut source| source.read_exact(&mut bytes));
    drawn.map_err(|error| {
        ControlError::Unavailable(format!(
            "no random bytes can be read from {SOURCE}: {error}"
        ))
    })?;
    Ok(bytes)
}
