//! The first bytes of a data connection: which protocol, and who sends.

use super::TempoError;
use crate::announce::{InstanceId, Key, TAG_BYTES};

/// The four bytes that a Tempo connection begins with. The first differs from that of [`crate::MAGIC_V2`], so one port
/// can serve both.
pub const MAGIC_TEMPO: &[u8; 4] = b"TMP1";

/// Bytes of a hello without a key: magic, version, flags, two reserved, instance.
pub const HELLO_BYTES: usize = 16;

/// Bytes of a hello with a key.
pub const SIGNED_HELLO_BYTES: usize = HELLO_BYTES + TAG_BYTES;

const VERSION: u8 = 1;
const FLAG_SIGNED: u8 = 1;

/// What [`decode_hello`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloDecoded {
    /// A whole hello.
    Complete {
        /// Who connected.
        instance: InstanceId,
        /// How many bytes it took; messages follow.
        used: usize,
    },
    /// Not whole yet, and nothing wrong with it so far.
    Incomplete {
        /// Trying again is of no use before there are so many bytes.
        needed: usize,
    },
}

/// Appends the hello of `instance` to `out`, with a tag if there is a key.
pub fn put_hello(out: &mut Vec<u8>, instance: InstanceId, key: Option<&Key>) {
    let start = out.len();
    out.extend_from_slice(MAGIC_TEMPO);
    out.extend_from_slice(&[VERSION, if key.is_some() { FLAG_SIGNED } else { 0 }, 0, 0]);
    out.extend_from_slice(&instance.0.to_be_bytes());
    if let Some(key) = key {
        let tag = key.tag(&out[start..]);
        out.extend_from_slice(&tag);
    }
}

/// Reads the hello at the beginning of a connection.
///
/// # Errors
/// [`TempoError`] as early as its bytes are there: another protocol, a version or flags that are not known, or not signed
/// as agreed (see [`crate::announce::Announcement::decode`]).
pub fn decode_hello(bytes: &[u8], key: Option<&Key>) -> Result<HelloDecoded, TempoError> {
    let magic = &bytes[..bytes.len().min(MAGIC_TEMPO.len())];
    if !MAGIC_TEMPO.starts_with(magic) {
        return Err(TempoError::Magic);
    }
    let Some(&[_, _, _, _, version, flags, reserved_a, reserved_b]) = bytes.first_chunk::<8>()
    else {
        return Ok(HelloDecoded::Incomplete {
            needed: HELLO_BYTES,
        });
    };
    if version != VERSION {
        return Err(TempoError::Version(version));
    }
    if flags & !FLAG_SIGNED != 0 || reserved_a != 0 || reserved_b != 0 {
        let flags = u32::from_be_bytes([0, flags, reserved_a, reserved_b]);
        return Err(TempoError::Flags(flags));
    }
    let is_signed = flags & FLAG_SIGNED != 0;
    match (key, is_signed) {
        (Some(_), false) => return Err(TempoError::Unsigned),
        (None, true) => return Err(TempoError::Signed),
        _ => {}
    }
    let used = if is_signed {
        SIGNED_HELLO_BYTES
    } else {
        HELLO_BYTES
    };
    let Some(hello) = bytes.get(..used) else {
        return Ok(HelloDecoded::Incomplete { needed: used });
    };
    if let Some(key) = key {
        key.verified(hello).ok_or(TempoError::Forged)?;
    }
    let mut instance = [0; 8];
    instance.copy_from_slice(&hello[8..HELLO_BYTES]);
    Ok(HelloDecoded::Complete {
        instance: InstanceId(u64::from_be_bytes(instance)),
        used,
    })
}
