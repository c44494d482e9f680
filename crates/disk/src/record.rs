//! Records: the content of a segment file, behind its preamble.
//!
//! A record is a head of 32 bytes, a payload, and zeros up to a multiple of 8. Numbers are
//! little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0–3 | `SRec` |
//! | 4 | kind |
//! | 5–7 | zero |
//! | 8–11 | length of the payload |
//! | 12–15 | CRC-32C of the payload and the zeros behind it |
//! | 16–23 | number of its segment |
//! | 24–27 | CRC-32C of bytes 0–23 |
//! | 28–31 | state: zero, or `Gone` once a segment (or a message) was taken out; in no checksum, because it is written in place |
//!
//! Both checksums begin at the file's salt and the record's offset. So a record counts only in its
//! file and at its place: neither a body made to look like a record, however the reader comes upon
//! it, nor a block written to a wrong place is taken for one.

/// Bytes of a record before its payload.
pub const RECORD_HEAD_BYTES: usize = 32;

const MAGIC: [u8; 4] = *b"SRec";
const GONE: u32 = u32::from_le_bytes(*b"Gone");
/// Where in a record its state stands.
const STATE_AT: usize = 28;
const ALIGNMENT: usize = 8;

/// The initial value of a file's checksums: drawn when the file is created, part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Salt(pub u64);

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whose messages the file has.
    Owner,
    /// A segment begins: how many messages it has, and whose they are.
    Segment,
    /// A message.
    Message,
    /// Nothing comes behind: the file was ended in order.
    End,
    /// What became of messages of a log.
    Steps,
    /// A message of a log, with the queues that have it.
    Standing,
    /// Of a later version; it is passed over.
    Unknown(u8),
}

/// A whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its segment; 0: none.
    pub segment: u64,
    /// Its content.
    pub payload: &'a [u8],
    /// Where it begins in its file.
    pub offset: u64,
    /// The segment that begins with it, or the message that it is, was taken out.
    pub is_gone: bool,
    /// Its state is none that was ever written.
    pub(crate) is_state_damaged: bool,
}

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRecord {
    /// The bytes here are not a head.
    NoHead,
    /// The head is whole and its payload is not; the record has this many bytes.
    Damaged(usize),
    /// The head is whole, and the file ends before the record does.
    Cut,
}

impl Kind {
    fn to_byte(self) -> u8 {
        match self {
            Kind::Owner => 1,
            Kind::Segment => 2,
            Kind::Message => 3,
            Kind::End => 4,
            Kind::Steps => 5,
            Kind::Standing => 6,
            Kind::Unknown(byte) => byte,
        }
    }

    fn of_byte(byte: u8) -> Kind {
        match byte {
            1 => Kind::Owner,
            2 => Kind::Segment,
            3 => Kind::Message,
            4 => Kind::End,
            5 => Kind::Steps,
            6 => Kind::Standing,
            other => Kind::Unknown(other),
        }
    }
}

impl Salt {
    /// Where the checksums of a record at `offset` begin.
    pub(crate) fn seed(self, offset: u64) -> u32 {
        let salted = crc32c::crc32c(&self.0.to_le_bytes());
        crc32c::crc32c_append(salted, &offset.to_le_bytes())
    }
}

/// Bytes that a record with such a payload takes.
pub(crate) fn record_bytes(payload: usize) -> usize {
    (RECORD_HEAD_BYTES + payload).next_multiple_of(ALIGNMENT)
}

/// The mark written at [`state_at`] a record once its segment was taken out.
pub(crate) fn gone_mark() -> [u8; 4] {
    GONE.to_le_bytes()
}

/// Where the state of the record at `offset` stands.
pub(crate) fn state_at(offset: u64) -> u64 {
    offset + STATE_AT as u64
}

/// The first place at or behind `at` where a record may begin.
pub(crate) fn aligned(at: usize) -> usize {
    at.next_multiple_of(ALIGNMENT)
}

/// Adds a record to bytes that begin at `base` in their file. False where the payload is longer than a record can say.
pub(crate) fn push(
    bytes: &mut Vec<u8>,
    (base, salt): (u64, Salt),
    (kind, segment): (Kind, u64),
    payload: [&[u8]; 2],
) -> bool {
    let length = payload[0].len() + payload[1].len();
    let Ok(length_field) = u32::try_from(length) else {
        return false;
    };
    let begin = bytes.len();
    let seed = salt.seed(base + begin as u64);
    let zeros = &[0; ALIGNMENT][..record_bytes(length) - RECORD_HEAD_BYTES - length];
    let crc = crc32c::crc32c_append(seed, payload[0]);
    let crc = crc32c::crc32c_append(crc, payload[1]);
    let crc = crc32c::crc32c_append(crc, zeros);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&[kind.to_byte(), 0, 0, 0]);
    bytes.extend_from_slice(&length_field.to_le_bytes());
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&segment.to_le_bytes());
    let crc = crc32c::crc32c_append(seed, &bytes[begin..]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload[0]);
    bytes.extend_from_slice(payload[1]);
    bytes.extend_from_slice(zeros);
    true
}

/// The record at index `at` of `bytes`, which begin at `base` in their file, and what it takes.
pub(crate) fn read(
    bytes: &[u8],
    at: usize,
    (base, salt): (u64, Salt),
) -> Result<(Record<'_>, usize), NoRecord> {
    let rest = bytes.get(at..).ok_or(NoRecord::NoHead)?;
    let head = rest
        .first_chunk::<RECORD_HEAD_BYTES>()
        .ok_or(NoRecord::NoHead)?;
    if !head.starts_with(&MAGIC) {
        return Err(NoRecord::NoHead);
    }
    let offset = base + at as u64;
    let seed = salt.seed(offset);
    if crc32c::crc32c_append(seed, &head[..24]) != word(head, 24) || head[5..8] != [0; 3] {
        return Err(NoRecord::NoHead);
    }
    let length = word(head, 8) as usize;
    let whole = record_bytes(length);
    let Some(content) = rest.get(RECORD_HEAD_BYTES..whole) else {
        return Err(NoRecord::Cut);
    };
    if crc32c::crc32c_append(seed, content) != word(head, 12) {
        return Err(NoRecord::Damaged(whole));
    }
    let state = word(head, STATE_AT);
    let kind = Kind::of_byte(head[4]);
    let is_gone = state == GONE && matches!(kind, Kind::Segment | Kind::Message);
    let record = Record {
        kind,
        segment: u64::from_le_bytes(head[16..24].try_into().unwrap_or_default()),
        payload: &content[..length],
        offset,
        is_gone,
        is_state_damaged: state != 0 && !is_gone,
    };
    Ok((record, whole))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (u64, Salt) = (4096, Salt(7));

    fn message(payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        assert!(push(&mut bytes, PLACE, (Kind::Message, 9), [payload, b""]));
        bytes
    }

    #[test]
    fn a_record_comes_back_and_counts_at_its_place_only() {
        for length in [0, 1, 7, 8, 9, 4000] {
            let payload = vec![0xab; length];
            let bytes = message(&payload);
            assert_eq!(bytes.len(), record_bytes(length));
            let (record, taken) = read(&bytes, 0, PLACE).expect("whole");
            assert_eq!((record.kind, record.segment), (Kind::Message, 9));
            assert_eq!((record.payload, taken), (&payload[..], bytes.len()));
            for elsewhere in [(4104, Salt(7)), (4096, Salt(8))] {
                assert_eq!(read(&bytes, 0, elsewhere), Err(NoRecord::NoHead));
            }
        }
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        let whole = message(b"a payload");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            match read(&bytes, 0, PLACE) {
                Ok((record, _)) => assert!(record.is_state_damaged, "bit {bit}"),
                Err(NoRecord::NoHead) => assert!(bit < STATE_AT * 8, "bit {bit}"),
                Err(NoRecord::Damaged(bytes)) => assert_eq!(bytes, whole.len(), "bit {bit}"),
                Err(NoRecord::Cut) => panic!("bit {bit} was believed"),
            }
        }
    }

    #[test]
    fn what_is_cut_is_seen_to_be() {
        let whole = message(b"a payload");
        for length in 0..whole.len() {
            let expected = match length < RECORD_HEAD_BYTES {
                true => NoRecord::NoHead,
                false => NoRecord::Cut,
            };
            assert_eq!(read(&whole[..length], 0, PLACE), Err(expected));
        }
    }
}
