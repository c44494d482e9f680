//! Message ids: 16 ASCII bytes on the wire, a `u64` inside.
//!
//! nsqd writes its 64-bit ids as 16 lower-case hex digits, most significant first. Clients echo the
//! bytes in FIN, REQ and TOUCH. This module converts through tables, because both directions run
//! once per delivered message. It does not give out ids.

use std::fmt;

/// The id of a message as it travels: 16 bytes that a client returns unread.
///
/// The bytes are whatever arrived; only [`MessageId::to_u64`] asks whether they are hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub [u8; MessageId::BYTES]);

impl MessageId {
    /// Length of an id on the wire.
    pub const BYTES: usize = 16;

    /// Writes `id` as 16 lower-case hex digits, most significant first.
    #[inline]
    pub fn from_u64(id: u64) -> MessageId {
        let mut digits = [0u8; MessageId::BYTES];
        for (pair, byte) in digits
            .as_chunks_mut::<2>()
            .0
            .iter_mut()
            .zip(id.to_be_bytes())
        {
            *pair = DIGIT_PAIRS[usize::from(byte)];
        }
        MessageId(digits)
    }

    /// The number behind the digits, or `None` when these are not 16 lower-case hex digits: such an
    /// id was never given out.
    #[inline]
    pub fn to_u64(self) -> Option<u64> {
        let mut id = 0u64;
        let mut seen = 0u8;
        for byte in self.0 {
            let value = DIGIT_VALUES[usize::from(byte)];
            seen |= value;
            id = (id << 4) | u64::from(value & 0x0f);
        }
        (seen < NOT_A_DIGIT).then_some(id)
    }

    /// [`MessageId::to_u64`] for bytes of unknown length; `None` also when they are not 16.
    #[inline]
    pub fn from_ascii(bytes: &[u8]) -> Option<u64> {
        MessageId(bytes.try_into().ok()?).to_u64()
    }
}

impl From<u64> for MessageId {
    #[inline]
    fn from(id: u64) -> MessageId {
        MessageId::from_u64(id)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// Marks a byte that is not a hex digit; above every digit's value, so that OR-ing values keeps it.
const NOT_A_DIGIT: u8 = 0x10;

static DIGIT_PAIRS: [[u8; 2]; 256] = digit_pairs();
static DIGIT_VALUES: [u8; 256] = digit_values();

const fn digit_pairs() -> [[u8; 2]; 256] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut pairs = [[0u8; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 0x0f]];
        byte += 1;
    }
    pairs
}

const fn digit_values() -> [u8; 256] {
    let mut values = [NOT_A_DIGIT; 256];
    let mut value = 0;
    while value < 10 {
        values[(b'0' + value) as usize] = value;
        value += 1;
    }
    while value < 16 {
        values[(b'a' + value - 10) as usize] = value;
        value += 1;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::MessageId;
    use proptest::prelude::*;

    #[test]
    fn writes_sixteen_lower_case_digits() {
        assert_eq!(&MessageId::from_u64(0).0, b"0000000000000000");
        assert_eq!(
            &MessageId::from_u64(0x0123_4567_89ab_cdef).0,
            b"0123456789abcdef"
        );
        assert_eq!(&MessageId::from_u64(u64::MAX).0, b"ffffffffffffffff");
    }

    #[test]
    fn refuses_what_was_never_given_out() {
        for bytes in [
            &b"0123456789ABCDEF"[..],
            b"0123456789abcde ",
            b"0123456789abcdeg",
            b"abc",
            b"",
            b"00000000000000000",
        ] {
            assert_eq!(MessageId::from_ascii(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_formatter(id: u64) {
            prop_assert_eq!(MessageId::from_u64(id).to_string(), format!("{id:016x}"));
            prop_assert_eq!(MessageId::from_u64(id).to_u64(), Some(id));
        }

        #[test]
        fn every_accepted_id_is_the_one_written(bytes in prop::array::uniform16(any::<u8>())) {
            if let Some(id) = MessageId(bytes).to_u64() {
                prop_assert_eq!(MessageId::from_u64(id).0, bytes);
            }
        }
    }
}
