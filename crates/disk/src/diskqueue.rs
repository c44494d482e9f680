//! Queues as nsqd 1.3.0 keeps them on disk, to be read once.
//!
//! A queue `T` or `T:C` has a file `….diskqueue.meta.dat` with its depth, where reading goes on (file and offset) and where writing
//! does, and files `….diskqueue.NNNNNN.dat`. These have records of a length (4 bytes, big-endian) and a message: timestamp in
//! nanoseconds (8), attempts (2), id as hex digits (16), body. There is no checksum. So a length that cannot be ends a file, as it does
//! for nsqd, because nothing says where the next message begins; a record whose id is none costs just itself. A nsqd that was killed
//! leaves more in its last file than the meta file says; all that is there is read, of which some may have been delivered.

use std::io::{self, ErrorKind, Read};

use wire::{ChannelName, MessageId, TopicName};

use crate::segment::Owner;

/// What stands between a queue's name and the rest of a file's.
const INFIX: &str = ".diskqueue.";
const META: &str = "meta.dat";
const SUFFIX: &str = ".dat";
const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 8 + 2 + MessageId::BYTES;

/// What a file's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFile {
    /// Where reading and writing go on.
    Meta(Owner),
    /// Messages, and the number of the file.
    Messages(Owner, u64),
    /// It is of a queue, but nothing is read from it: one that nsqd gave up, or has not written to the end.
    Other,
}

/// Where a queue's reading goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that nsqd counted.
    pub depth: i64,
    /// The file that is read.
    pub read_file: u64,
    /// And from where in it.
    pub read_offset: u64,
}

/// A message of nsqd's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedMessage<'a> {
    /// When it was published, in nanoseconds since the Unix epoch.
    pub timestamp_ns: i64,
    /// Deliveries so far.
    pub attempts: u16,
    /// Its id.
    pub id: u64,
    /// The body.
    pub body: &'a [u8],
}

/// What stands at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePiece<'a> {
    /// A message.
    Message(QueuedMessage<'a>),
    /// Bytes that cannot be read as one.
    Damage {
        /// Where they begin.
        offset: u64,
        /// How many.
        bytes: u64,
    },
}

/// Reads the records of a file.
#[derive(Debug)]
pub struct QueueRecords<R> {
    file: R,
    offset: u64,
    length: u64,
    record: Vec<u8>,
}

impl QueueFile {
    /// What a file of that name has; `None` where it is of no queue.
    #[must_use]
    pub fn of_name(name: &str) -> Option<QueueFile> {
        let (queue, rest) = name.rsplit_once(INFIX)?;
        let Some(owner) = owner_of(queue) else {
            return Some(QueueFile::Other);
        };
        let number = rest.strip_suffix(SUFFIX).and_then(|text| text.parse().ok());
        Some(match number {
            _ if rest == META => QueueFile::Meta(owner),
            Some(number) => QueueFile::Messages(owner, number),
            None => QueueFile::Other,
        })
    }
}

/// Names cannot have a colon.
fn owner_of(queue: &str) -> Option<Owner> {
    let (topic, channel) = match queue.split_once(':') {
        Some((topic, channel)) => (topic, Some(channel)),
        None => (queue, None),
    };
    let topic: TopicName = topic.parse().ok()?;
    let channel: Option<ChannelName> = channel.map(str::parse).transpose().ok()?;
    Some(Owner { topic, channel })
}

impl Progress {
    /// What a meta file says; `None` where it is damaged.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Progress> {
        let mut lines = text.lines();
        let mut line = || lines.next();
        let depth = line()?.parse().ok()?;
        let (read_file, read_offset) = line()?.split_once(',')?;
        // What it says of writing is of no use: files may have more.
        let (_, _) = line()?.split_once(',')?;
        Some(Progress {
            depth,
            read_file: read_file.parse().ok()?,
            read_offset: read_offset.parse().ok()?,
        })
    }
}

impl<R: Read> QueueRecords<R> {
    /// Reads a file that is `length` bytes long and stands at `offset`.
    pub fn new(file: R, offset: u64, length: u64) -> QueueRecords<R> {
        QueueRecords {
            file,
            offset,
            length,
            record: Vec::new(),
        }
    }

    /// The next message or damage; `None` at the end.
    ///
    /// # Errors
    /// The system's, where the file cannot be read.
    pub fn read_next(&mut self) -> io::Result<Option<QueuePiece<'_>>> {
        let rest = self.length.saturating_sub(self.offset);
        if rest == 0 {
            return Ok(None);
        }
        let begin = self.offset;
        let mut length = [0; LENGTH_BYTES];
        let is_whole = rest >= LENGTH_BYTES as u64 && self.fill(&mut length)?;
        let length = u64::from(u32::from_be_bytes(length));
        let fits = (HEAD_BYTES as u64..=rest.saturating_sub(LENGTH_BYTES as u64)).contains(&length);
        let mut record = std::mem::take(&mut self.record);
        if is_whole && fits {
            // The file has as many.
            record.resize(length as usize, 0);
        }
        if !is_whole || !fits || !self.fill(&mut record)? {
            self.offset = self.length;
            return Ok(Some(QueuePiece::Damage {
                offset: begin,
                bytes: rest,
            }));
        }
        self.record = record;
        let taken = LENGTH_BYTES as u64 + length;
        self.offset += taken;
        let damage = QueuePiece::Damage {
            offset: begin,
            bytes: taken,
        };
        let message = message_of(&self.record).map(QueuePiece::Message);
        Ok(Some(message.unwrap_or(damage)))
    }

    /// False where the file ends before.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn message_of(record: &[u8]) -> Option<QueuedMessage<'_>> {
    let (timestamp, rest) = record.split_first_chunk::<8>()?;
    let (attempts, rest) = rest.split_first_chunk::<2>()?;
    let (id, body) = rest.split_first_chunk::<{ MessageId::BYTES }>()?;
    Some(QueuedMessage {
        timestamp_ns: i64::from_be_bytes(*timestamp),
        attempts: u16::from_be_bytes(*attempts),
        id: MessageId(*id).to_u64()?,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: &[u8; 16], body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEAD_BYTES + body.len()) as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(&1_700_000_000_000_000_000_i64.to_be_bytes());
        bytes.extend_from_slice(&3_u16.to_be_bytes());
        bytes.extend_from_slice(id);
        bytes.extend_from_slice(body);
        bytes
    }

    /// Bodies, and places that are damaged.
    fn read(bytes: &[u8], from: usize) -> (Vec<Vec<u8>>, Vec<(u64, u64)>) {
        let length = bytes.len() as u64;
        let mut records = QueueRecords::new(&bytes[from..], from as u64, length);
        let (mut bodies, mut damages) = (Vec::new(), Vec::new());
        while let Some(piece) = records.read_next().expect("in memory") {
            match piece {
                QueuePiece::Message(message) => bodies.push(message.body.to_vec()),
                QueuePiece::Damage { offset, bytes } => damages.push((offset, bytes)),
            }
        }
        (bodies, damages)
    }

    #[test]
    fn names_say_whose_a_file_is() {
        let owner = |topic: &str, channel: Option<&str>| Owner {
            topic: topic.parse().expect("valid"),
            channel: channel.map(|name| name.parse().expect("valid")),
        };
        let (topic, channel) = (owner("a.b", None), owner("t", Some("c-1")));
        for (name, expected) in [
            (
                "a.b.diskqueue.meta.dat",
                Some(QueueFile::Meta(topic.clone())),
            ),
            (
                "a.b.diskqueue.000012.dat",
                Some(QueueFile::Messages(topic, 12)),
            ),
            ("t:c-1.diskqueue.meta.dat", Some(QueueFile::Meta(channel))),
            ("t.diskqueue.000001.dat.bad", Some(QueueFile::Other)),
            ("t.diskqueue.meta.dat.42.tmp", Some(QueueFile::Other)),
            ("t/u.diskqueue.meta.dat", Some(QueueFile::Other)),
            ("nsqd.dat", None),
            ("srtm.lock", None),
        ] {
            assert_eq!(QueueFile::of_name(name), expected, "{name}");
        }
        let progress = Progress {
            depth: 7,
            read_file: 1,
            read_offset: 30,
        };
        assert_eq!(Progress::of_text("7\n1,30\n2,60\n"), Some(progress));
        for damaged in [
            "",
            "7\n",
            "7\n1,30\n",
            "7\n1;30\n2,60\n",
            "x\n1,30\n2,60\n",
            "7\n-1,0\n2,3",
        ] {
            assert_eq!(Progress::of_text(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn messages_are_read_from_where_reading_goes_on() {
        let id = b"0123456789abcdef";
        let first = record(id, b"one");
        let bytes = [&first[..], &record(id, b""), &record(id, b"three")].concat();
        let all = [&b"one"[..], b"", b"three"].map(<[u8]>::to_vec);
        assert_eq!(read(&bytes, 0), (all.to_vec(), Vec::new()));
        assert_eq!(read(&bytes, first.len()), (all[1..].to_vec(), Vec::new()));
        let mut records = QueueRecords::new(&bytes[..], 0, bytes.len() as u64);
        let Ok(Some(QueuePiece::Message(message))) = records.read_next() else {
            panic!("it is whole");
        };
        assert_eq!(message.timestamp_ns, 1_700_000_000_000_000_000);
        assert_eq!((message.attempts, message.id), (3, 0x0123_4567_89ab_cdef));
    }

    #[test]
    fn damage_costs_what_cannot_be_read() {
        let id = b"0123456789abcdef";
        let (first, last) = (record(id, b"one"), record(id, b"last"));
        let bodies = |bodies: &[&[u8]]| bodies.iter().map(|body| body.to_vec()).collect::<Vec<_>>();
        // A record that is none is passed over.
        let none = record(b"0123456789abcdeX", b"two");
        let bytes = [&first[..], &none, &last].concat();
        let damage = (first.len() as u64, none.len() as u64);
        assert_eq!(read(&bytes, 0), (bodies(&[b"one", b"last"]), vec![damage]));
        // A length that cannot be ends the file.
        for length in [0_u32, 25, 1 << 31, u32::MAX] {
            let bytes = [&first[..], &length.to_be_bytes(), &last].concat();
            let damage = (first.len() as u64, (4 + last.len()) as u64);
            assert_eq!(
                read(&bytes, 0),
                (bodies(&[b"one"]), vec![damage]),
                "{length}"
            );
        }
        // So does the end of the file.
        let bytes = [&first[..], &last].concat();
        for cut in first.len() + 1..bytes.len() {
            let damage = (first.len() as u64, (cut - first.len()) as u64);
            assert_eq!(
                read(&bytes[..cut], 0),
                (bodies(&[b"one"]), vec![damage]),
                "{cut}"
            );
        }
    }
}
