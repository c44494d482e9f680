//! The datagrams, byte by byte; all numbers are big-endian.
//!
//! ```text
//! update, 20 bytes                        the others, 34 to 1,400 bytes
//!  0  limit            2                   0  kind: 1, 2, 3          1
//!  2  sequence         2                   1  sender's incarnation   8
//!  4  epoch            1                   9  counter                8
//!  5  demand           3                  17  payload                1 to 1,367
//!  8  passed           3                   …  tag                   16
//! 11  weight           3
//! 14  tag              6
//! ```
//!
//! The tag is over the whole counter and then the bytes before it.

use super::{Path, amount};

/// Bytes of an update.
pub const UPDATE_BYTES: usize = 20;

/// Bytes of a membership datagram before its payload.
pub const MEMBERSHIP_HEADER_BYTES: usize = 17;

/// Bytes of a membership datagram after its payload.
pub const MEMBERSHIP_TAG_BYTES: usize = 16;

/// The longest membership datagram.
pub const MAX_MEMBERSHIP_BYTES: usize = 1400;

const FIELDS_BYTES: usize = 14;
const TAG_BYTES: usize = UPDATE_BYTES - FIELDS_BYTES;
const KIND_MEMBERSHIP: u8 = 1;
const KIND_NOTICE: u8 = 2;
const KIND_VOUCH: u8 = 3;

/// Which limit an update is about. All its limiters know it by this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId(pub u16);

/// What one limiter tells another about one limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// The limit.
    pub limit: LimitId,
    /// The low bits of the counter on this path.
    pub sequence: u16,
    /// To which sums it belongs.
    pub epoch: u8,
    /// Demand, not negative; only what [`super::carried`] returns arrives as it was.
    pub demand: f32,
    /// What passes, likewise.
    pub passed: f32,
    /// Weight, likewise.
    pub weight: f32,
}

/// Why bytes are no datagram of limiters that may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// It has another length than any datagram.
    #[error(
        "datagram of {0} bytes: limiters send 20, or 34 to 1400. It was cut short, or something else was sent to this port"
    )]
    Length(usize),
    /// It is of a kind that is not known here.
    #[error("datagram of kind {0}, but only 1 to 3 are known: update the older end")]
    Kind(u8),
    /// A number in it is infinite or none.
    #[error("{0} of the update is not a number")]
    Number(&'static str),
    /// The tag is not that of the path and the counter.
    #[error(
        "the tag is wrong: another key, a restart of one end that the other has not heard of, or it was forged"
    )]
    Forged,
    /// More than fits.
    #[error("a payload of {0} bytes: a membership datagram has room for 1 to 1367")]
    Payload(usize),
}

/// A datagram whose tag was not looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram<'a> {
    /// About a limit.
    Update(SealedUpdate<'a>),
    /// About who is there.
    Membership(SealedMembership<'a>),
    /// What a limiter says of itself to those that may not know it: [`super::Notice`].
    Notice(SealedMembership<'a>),
    /// About a controller's round: [`super::Vouch`].
    Vouch(SealedMembership<'a>),
}

/// An update whose tag was not looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedUpdate<'a>(&'a [u8; UPDATE_BYTES]);

/// A membership datagram or a notice whose tag was not looked at yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedMembership<'a> {
    header: &'a [u8; MEMBERSHIP_HEADER_BYTES],
    payload: &'a [u8],
    tag: &'a [u8; MEMBERSHIP_TAG_BYTES],
}

/// Tells what a datagram is by its length and kind.
///
/// # Errors
/// [`DatagramError::Length`], [`DatagramError::Kind`].
pub fn decode(bytes: &[u8]) -> Result<Datagram<'_>, DatagramError> {
    if let Ok(update) = bytes.try_into() {
        return Ok(Datagram::Update(SealedUpdate(update)));
    }
    let wrong = DatagramError::Length(bytes.len());
    let (header, rest) = bytes.split_first_chunk().ok_or(wrong)?;
    let (payload, tag) = rest.split_last_chunk().ok_or(wrong)?;
    if payload.is_empty() || bytes.len() > MAX_MEMBERSHIP_BYTES {
        return Err(wrong);
    }
    let sealed = SealedMembership {
        header,
        payload,
        tag,
    };
    match header[0] {
        KIND_MEMBERSHIP => Ok(Datagram::Membership(sealed)),
        KIND_NOTICE => Ok(Datagram::Notice(sealed)),
        KIND_VOUCH => Ok(Datagram::Vouch(sealed)),
        other => Err(DatagramError::Kind(other)),
    }
}

impl Update {
    /// The bytes of it, tagged for `path`. Its sequence becomes the low bits of `counter`.
    pub fn encode(&self, path: &Path, counter: u64) -> [u8; UPDATE_BYTES] {
        let mut bytes = [0; UPDATE_BYTES];
        bytes[..2].copy_from_slice(&self.limit.0.to_be_bytes());
        bytes[2..4].copy_from_slice(&(counter as u16).to_be_bytes());
        bytes[4] = self.epoch;
        bytes[5..8].copy_from_slice(&amount::to_bytes(self.demand));
        bytes[8..11].copy_from_slice(&amount::to_bytes(self.passed));
        bytes[11..14].copy_from_slice(&amount::to_bytes(self.weight));
        let tag: [u8; TAG_BYTES] = path.tag(&[&counter.to_be_bytes(), &bytes[..FIELDS_BYTES]]);
        bytes[FIELDS_BYTES..].copy_from_slice(&tag);
        bytes
    }
}

impl SealedUpdate<'_> {
    /// The limit that it says it is about.
    pub fn limit(&self) -> LimitId {
        LimitId(u16::from_be_bytes([self.0[0], self.0[1]]))
    }

    /// The low bits of the counter that it says it has.
    pub fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// What it says, if it came by `path` as its number `counter`.
    ///
    /// # Errors
    /// [`DatagramError::Forged`], and [`DatagramError::Number`] if even who knows the key wrote none.
    pub fn open(&self, path: &Path, counter: u64) -> Result<Update, DatagramError> {
        let (fields, tag) = self.0.split_at(FIELDS_BYTES);
        let verified = tag.try_into().is_ok_and(|tag: &[u8; TAG_BYTES]| {
            path.verifies(&[&counter.to_be_bytes(), fields], tag)
        });
        if !verified {
            return Err(DatagramError::Forged);
        }
        let number = |name: &'static str, at: usize| {
            let bytes = [self.0[at], self.0[at + 1], self.0[at + 2]];
            amount::from_bytes(bytes).ok_or(DatagramError::Number(name))
        };
        Ok(Update {
            limit: self.limit(),
            sequence: self.sequence(),
            epoch: self.0[4],
            demand: number("demand", 5)?,
            passed: number("passed", 8)?,
            weight: number("weight", 11)?,
        })
    }
}

/// Writes a membership datagram into `out`, in place of what is there. `path` leads to the receiver with incarnation 0:
/// who is not there yet cannot be known by it.
///
/// # Errors
/// [`DatagramError::Payload`] if it is empty or too long.
pub fn put_membership(
    out: &mut Vec<u8>,
    path: &Path,
    incarnation: u64,
    counter: u64,
    payload: &[u8],
) -> Result<(), DatagramError> {
    put(out, KIND_MEMBERSHIP, path, incarnation, counter, payload)
}

/// Writes a notice into `out`, as [`put_membership`] does.
///
/// # Errors
/// [`DatagramError::Payload`] if it is empty or too long.
pub fn put_notice(
    out: &mut Vec<u8>,
    path: &Path,
    incarnation: u64,
    counter: u64,
    payload: &[u8],
) -> Result<(), DatagramError> {
    put(out, KIND_NOTICE, path, incarnation, counter, payload)
}

/// Writes words about a round into `out`, as [`put_membership`] does.
///
/// # Errors
/// [`DatagramError::Payload`] if it is empty or too long.
pub fn put_vouch(
    out: &mut Vec<u8>,
    path: &Path,
    incarnation: u64,
    counter: u64,
    payload: &[u8],
) -> Result<(), DatagramError> {
    put(out, KIND_VOUCH, path, incarnation, counter, payload)
}

fn put(
    out: &mut Vec<u8>,
    kind: u8,
    path: &Path,
    incarnation: u64,
    counter: u64,
    payload: &[u8],
) -> Result<(), DatagramError> {
    let room = MAX_MEMBERSHIP_BYTES - MEMBERSHIP_HEADER_BYTES - MEMBERSHIP_TAG_BYTES;
    if !(1..=room).contains(&payload.len()) {
        return Err(DatagramError::Payload(payload.len()));
    }
    out.clear();
    out.push(kind);
    out.extend_from_slice(&incarnation.to_be_bytes());
    out.extend_from_slice(&counter.to_be_bytes());
    out.extend_from_slice(payload);
    let tag: [u8; MEMBERSHIP_TAG_BYTES] = path.tag(&[&counter.to_be_bytes(), out]);
    out.extend_from_slice(&tag);
    Ok(())
}

impl<'a> SealedMembership<'a> {
    /// The incarnation that its sender says it is.
    pub fn incarnation(&self) -> u64 {
        self.word(1)
    }

    /// The counter that it says it has.
    pub fn counter(&self) -> u64 {
        self.word(9)
    }

    /// The payload, if it came by `path`, whose sender has the incarnation that it says and whose receiver has 0.
    ///
    /// # Errors
    /// [`DatagramError::Forged`].
    pub fn open(&self, path: &Path) -> Result<&'a [u8], DatagramError> {
        let parts: [&[u8]; 3] = [&self.counter().to_be_bytes(), self.header, self.payload];
        match path.verifies(&parts, self.tag) {
            true => Ok(self.payload),
            false => Err(DatagramError::Forged),
        }
    }

    fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.header[at..at + 8]);
        u64::from_be_bytes(bytes)
    }
}
