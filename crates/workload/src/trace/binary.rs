//! The compact format: numbers of variable length, seven bits per byte, least first.
//!
//! Every number that may be missing is stored one higher, 0 for missing. An arrival begins with its distance from the
//! one before, one higher; a 0 in its place is the end mark, with the number of arrivals and a checksum behind it.
//! The checksum (FNV-1a, 64 bits) tells damage from the original, not a forger from the author.

use std::io::{Read, Write};
use std::time::Duration;

use clock::WallTime;

use super::error::TraceError;
use super::header::{self, TraceHeader, TracePublisher};
use super::input::Input;
use super::{MAX_NAME_BYTES, MAX_PUBLISHERS, MAX_SOURCE_BYTES};
use crate::{Arrival, PublisherProfile};

/// The first bytes; the last of them is the version.
pub(super) const MAGIC: [u8; 8] = *b"SRTMTRC1";

const HEADER: &str = "the header";
const END_MARK: &str = "the end mark";
/// Publishers that memory is taken for before they have been read.
const EXPECTED_PUBLISHERS: usize = 1 << 12;

/// The running checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checksum(u64);

/// Reads numbers and texts, and what is read into the checksum.
struct Fields<'a, R> {
    input: &'a mut Input<R>,
    checksum: &'a mut Checksum,
    /// What is being read, for errors.
    within: &'a dyn Fn() -> String,
}

/// Reads the header, its magic included.
pub(super) fn read_header<R: Read>(
    input: &mut Input<R>,
    checksum: &mut Checksum,
) -> Result<TraceHeader, TraceError> {
    let mut fields = Fields {
        input,
        checksum,
        within: &|| HEADER.to_owned(),
    };
    for expected in MAGIC {
        if fields.byte()? != expected {
            return Err(fields.damaged("the first bytes changed while they were read"));
        }
    }
    let begin = fields.number()?.checked_sub(1).map(WallTime::from_nanos);
    let length = fields.number()?.checked_sub(1).map(Duration::from_nanos);
    let bytes = fields.number()?;
    let source = fields.text(bytes, MAX_SOURCE_BYTES)?;
    let count = fields.number()?;
    let count = usize::try_from(count)
        .ok()
        .filter(|count| *count <= MAX_PUBLISHERS)
        .ok_or_else(|| fields.damaged(format!("{count} publishers: at most {MAX_PUBLISHERS}")))?;
    let mut publishers = Vec::with_capacity(count.min(EXPECTED_PUBLISHERS));
    for _ in 0..count {
        publishers.push(fields.publisher()?);
    }
    Ok(TraceHeader {
        begin,
        length,
        source,
        publishers,
    })
}

/// Reads one arrival, or the end mark after `records` of them.
#[inline]
pub(super) fn read_arrival<R: Read>(
    input: &mut Input<R>,
    checksum: &mut Checksum,
    last_ns: u64,
    records: u64,
) -> Result<Option<Arrival>, TraceError> {
    let mut fields = Fields {
        input,
        checksum,
        within: &|| format!("arrival {}", records + 1),
    };
    let Some(distance_ns) = fields.number()?.checked_sub(1) else {
        fields.within = &|| END_MARK.to_owned();
        return fields.end(records).map(|()| None);
    };
    let at_ns = last_ns.checked_add(distance_ns);
    let at_ns = at_ns.ok_or_else(|| fields.damaged("its time is out of range"))?;
    let publisher = fields.number_within("its publisher", u64::from(u32::MAX))? as u32;
    let messages = fields.number_within("its number of messages", u64::from(u16::MAX))? as u16;
    Ok(Some(Arrival {
        at_ns,
        publisher,
        messages,
    }))
}

/// Appends the header to `out`, and spills it with `spill` whenever it has grown.
pub(super) fn write_header<E>(
    header: &TraceHeader,
    out: &mut Vec<u8>,
    mut spill: impl FnMut(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    out.extend_from_slice(&MAGIC);
    put(out, header.begin.map_or(0, |begin| begin.as_nanos() + 1));
    let length_ns = header.length.and_then(header::nanos);
    put(out, length_ns.map_or(0, |length_ns| length_ns + 1));
    put_text(out, &header.source);
    put(out, header.publishers.len() as u64);
    for publisher in &header.publishers {
        let profile = &publisher.profile;
        put_text(out, publisher.name.as_deref().unwrap_or_default());
        put(out, u64::from(profile.class));
        out.extend_from_slice(&profile.rate.to_le_bytes());
        put(out, u64::from(profile.batch_messages));
        put(out, u64::from(profile.body_bytes));
        put(out, profile.group.map_or(0, |group| u64::from(group) + 1));
        spill(out)?;
    }
    Ok(())
}

/// Appends one arrival to `out`.
#[inline]
pub(super) fn write_arrival(arrival: Arrival, last_ns: u64, out: &mut Vec<u8>) {
    put(out, arrival.at_ns - last_ns + 1);
    put(out, u64::from(arrival.publisher));
    put(out, u64::from(arrival.messages));
}

/// Writes `out` and the end mark after `records` arrivals.
pub(super) fn write_end(
    to: &mut impl Write,
    mut checksum: Checksum,
    records: u64,
    out: &mut Vec<u8>,
) -> Result<(), TraceError> {
    put(out, 0);
    put(out, records);
    checksum.add(out);
    out.extend_from_slice(&checksum.0.to_le_bytes());
    Ok(to.write_all(out)?)
}

impl Checksum {
    pub(super) fn new() -> Self {
        Checksum(0xcbf2_9ce4_8422_2325)
    }

    #[inline]
    fn add_byte(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add_byte(*byte);
        }
    }
}

impl<R: Read> Fields<'_, R> {
    #[inline]
    fn byte(&mut self) -> Result<u8, TraceError> {
        let Some(byte) = self.input.byte()? else {
            return Err(TraceError::cut((self.within)()));
        };
        self.checksum.add_byte(byte);
        Ok(byte)
    }

    #[inline]
    fn number(&mut self) -> Result<u64, TraceError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(self.damaged("a number is out of range"))
    }

    fn number_within(&mut self, what: &str, most: u64) -> Result<u64, TraceError> {
        let number = self.number()?;
        if number > most {
            return Err(self.damaged(format!("{what} is out of range: {number}")));
        }
        Ok(number)
    }

    /// A text of so many bytes. Memory is taken only as they come.
    fn text(&mut self, bytes: u64, most: usize) -> Result<String, TraceError> {
        if bytes > most as u64 {
            return Err(self.damaged(format!("a text of {bytes} bytes: at most {most}")));
        }
        let mut text = Vec::new();
        for _ in 0..bytes {
            text.push(self.byte()?);
        }
        String::from_utf8(text).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    fn publisher(&mut self) -> Result<TracePublisher, TraceError> {
        let bytes = self.number()?;
        let name = self.text(bytes, MAX_NAME_BYTES)?;
        let class = self.number_within("a class", u64::from(u32::MAX))? as u32;
        let mut rate = [0; 8];
        for byte in &mut rate {
            *byte = self.byte()?;
        }
        let batch_messages = self.number_within("a batch", u64::from(u16::MAX))? as u16;
        let body_bytes = self.number_within("a body", u64::from(u32::MAX))? as u32;
        let group = self.number_within("a group", u64::from(u32::MAX))?;
        Ok(TracePublisher {
            name: (!name.is_empty()).then_some(name),
            profile: PublisherProfile {
                class,
                rate: f64::from_le_bytes(rate),
                batch_messages,
                body_bytes,
                group: group.checked_sub(1).map(|group| group as u32),
            },
        })
    }

    /// What follows a 0 in place of an arrival.
    fn end(&mut self, records: u64) -> Result<(), TraceError> {
        let said = self.number()?;
        let computed = self.checksum.0;
        let mut stored = [0; 8];
        for byte in &mut stored {
            *byte = self.byte()?;
        }
        if said != records {
            return Err(self.damaged(format!("it says {said} arrivals, there are {records}")));
        }
        if u64::from_le_bytes(stored) != computed {
            return Err(self.damaged("the checksum does not match: a byte before it has changed"));
        }
        if self.input.byte()?.is_some() {
            return Err(self.damaged("the file continues after it"));
        }
        Ok(())
    }

    fn damaged(&self, text: impl Into<String>) -> TraceError {
        TraceError::damaged((self.within)(), text)
    }
}

#[inline]
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
