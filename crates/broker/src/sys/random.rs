//! Random bytes, from the system.

use std::io::{self, Read};

/// Where it gives them.
const SOURCE: &str = "/dev/urandom";

/// Bytes that nobody can guess.
///
/// # Errors
/// Where the system gives none.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open(SOURCE)?.read_exact(&mut bytes)?;
    Ok(bytes)
}
