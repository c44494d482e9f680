//! Shared by the tests of the shelf: messages to keep, and a folder to keep them in.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};

use disk::{Message, Owner, Shelf, ShelfConfig, Stamps, Volume};

pub const CONFIG: ShelfConfig = ShelfConfig {
    file_bytes_max: 4096,
    bytes_max: u64::MAX,
};

/// A folder of the system that vanishes with the test.
pub struct TestFolder(pub PathBuf);

impl TestFolder {
    pub fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("srtm-disk-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        TestFolder(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A message to be kept: its number says everything about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub id: u64,
    pub body: Vec<u8>,
}

impl Sample {
    pub fn new(id: u64, bytes: usize) -> Sample {
        let body = (0..bytes).map(|at| (id as usize * 31 + at) as u8).collect();
        Sample { id, body }
    }

    pub fn message(&self) -> Message<'_> {
        Message {
            id: self.id,
            attempts: self.id as u16 % 7,
            has_paid: self.id.is_multiple_of(2),
            has_waited: self.id.is_multiple_of(3),
            half_rtt_us: self.id as u32,
            flow: 3,
            stamps: Stamps {
                published_ns: self.id as i64,
                due_ns: -(self.id as i64),
                ..Stamps::default()
            },
            body: &self.body,
        }
    }
}

pub fn owner(number: usize) -> Owner {
    let channel = (!number.is_multiple_of(2)).then(|| format!("c{number}"));
    Owner {
        topic: format!("topic{}", number / 2).parse().expect("valid"),
        channel: channel.map(|name| name.parse().expect("valid")),
    }
}

pub fn put<V: Volume>(
    shelf: &mut Shelf<V>,
    owner: &Owner,
    number: u64,
    samples: &[Sample],
) -> Result<(), disk::DiskError> {
    shelf.put(owner, number, samples.iter().map(Sample::message))
}

/// Whether these are the messages of `samples`, in order and byte for byte.
pub fn are<'a>(messages: impl Iterator<Item = Message<'a>>, samples: &'a [Sample]) -> bool {
    messages.eq(samples.iter().map(Sample::message))
}

/// Whether these are some of the messages of `samples`, in order and byte for byte; gives how many.
pub fn some_of<'a>(
    messages: impl Iterator<Item = Message<'a>>,
    samples: &'a [Sample],
) -> Option<usize> {
    let mut rest = samples.iter();
    let mut count = 0;
    for message in messages {
        rest.by_ref().find(|sample| sample.message() == message)?;
        count += 1;
    }
    Some(count)
}
