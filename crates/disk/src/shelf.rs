//! The shelf where segments are kept: the files of many queues in one folder.
//!
//! A queue's segments are appended to a file of its own, until that has its full length. A segment
//! that is taken out is marked in place, which needs no room on a full disk, and a file without
//! segments is removed. No file of a former life is appended to. So a crash can leave behind only a
//! file without its end, which is cut off behind its last whole record, or a mark or a removal that
//! was not synced, which brings messages back a second time.

mod open;

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use wire::TopicName;

use crate::error::DiskError;
use crate::message::Message;
use crate::record::{self, Kind, Record, Salt};
use crate::scan::{Damage, Piece, scan};
use crate::segment::{FileName, Owner, begin_file, end_file, push_segment};
use crate::volume::Volume;
pub use open::{FileReport, FileView, Opened, inspect};

/// The bounds of a shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelfConfig {
    /// A file that is as long is not appended to any more.
    pub file_bytes_max: u64,
    /// Bytes of all files, and of what there is [beside](Shelf::set_beside) them; a segment that does not fit is refused.
    pub bytes_max: u64,
}

/// A segment that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its number: segments of a queue come in the order of theirs.
    pub number: u64,
    /// Messages in it.
    pub messages: usize,
    /// Bytes of their bodies.
    pub body_bytes: u64,
}

/// A segment that was read.
#[derive(Debug)]
pub struct Contents {
    bytes: Vec<u8>,
    place: (u64, Salt),
    number: u64,
    file: FileName,
    is_of_before: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Shelf<V> {
    volume: V,
    config: ShelfConfig,
    seed: u64,
    queues: FxHashMap<Owner, Queue>,
    files: BTreeMap<FileName, File>,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes that count as theirs.
    beside: u64,
    next_file: u64,
    unsynced: Unsynced,
    buffer: Vec<u8>,
}

/// A queue's files.
#[derive(Debug, Default)]
struct Queue {
    segments: BTreeMap<u64, Place>,
    files: BTreeSet<FileName>,
    /// The file that is appended to.
    appending: Option<FileName>,
}

/// Where a segment is.
#[derive(Clone, Copy, Debug)]
struct Place {
    file: FileName,
    offset: u64,
    bytes: u64,
    /// Its head is whole, and can be marked.
    has_head: bool,
    /// It was there when the shelf was opened.
    is_of_before: bool,
    messages: usize,
    body_bytes: u64,
}

#[derive(Debug)]
struct File {
    length: u64,
    /// Segments that are kept in it.
    segments: usize,
}

/// Writes that a crash of the machine could lose.
#[derive(Debug, Default)]
struct Unsynced {
    messages: usize,
    files: BTreeSet<FileName>,
    folder: bool,
    /// Files that could not be removed.
    unremoved: Vec<FileName>,
}

impl Contents {
    /// The messages that are whole, in their order.
    pub fn messages(&self) -> impl Iterator<Item = Message<'_>> {
        self.records()
            .filter_map(|record| Message::of_payload(record.payload))
    }

    /// Their records.
    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let pieces = scan(&self.bytes, self.place.0, self.place.1);
        pieces.filter_map(|piece| match piece {
            Piece::Record(record) => {
                let is_meant = record.segment == self.number && record.kind == Kind::Message;
                (is_meant && !record.is_gone).then_some(record)
            }
            Piece::Damage(_) => None,
        })
    }

    /// The file that it is in.
    #[must_use]
    pub fn file(&self) -> FileName {
        self.file
    }

    /// Whether it was there when the shelf was opened.
    #[must_use]
    pub fn is_of_before(&self) -> bool {
        self.is_of_before
    }

    /// What of it is damaged.
    pub fn damages(&self) -> impl Iterator<Item = Damage> {
        let pieces = scan(&self.bytes, self.place.0, self.place.1);
        pieces.filter_map(|piece| match piece {
            Piece::Damage(damage) => Some(damage),
            Piece::Record(_) => None,
        })
    }
}

impl<V: Volume> Shelf<V> {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets how many bytes of others count as theirs.
    pub fn set_beside(&mut self, bytes: u64) {
        self.beside = bytes;
    }

    /// Files that there are.
    #[must_use]
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Messages that were put since the last sync.
    #[must_use]
    pub fn unsynced_messages(&self) -> usize {
        self.unsynced.messages
    }

    /// Whether there is something to be synced.
    #[must_use]
    pub fn is_unsynced(&self) -> bool {
        let unsynced = &self.unsynced;
        !unsynced.files.is_empty() || unsynced.folder || !unsynced.unremoved.is_empty()
    }

    /// The volume that it is on.
    pub fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }

    /// Gives up the shelf, without an end of its files, as the end of a process does.
    pub fn into_volume(self) -> V {
        self.volume
    }

    /// The queues of a topic that have segments.
    pub fn owners_of(&self, topic: &TopicName) -> impl Iterator<Item = &Owner> {
        let queues = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.segments.is_empty());
        queues
            .map(|(owner, _)| owner)
            .filter(move |owner| owner.topic == *topic)
    }

    /// The segments of a queue, in their order.
    pub fn segments(&self, owner: &Owner) -> impl Iterator<Item = Kept> {
        let queue = self.queues.get(owner);
        let segments = queue.into_iter().flat_map(|queue| &queue.segments);
        segments.map(|(&number, place)| Kept {
            number,
            messages: place.messages,
            body_bytes: place.body_bytes,
        })
    }

    /// Keeps a segment from now on; after a crash of the machine for certain only once it is [synced](Shelf::sync).
    ///
    /// # Errors
    /// [`DiskError`]; it is not kept then, and everything else as before.
    pub fn put<'a>(
        &mut self,
        owner: &Owner,
        number: u64,
        messages: impl Iterator<Item = Message<'a>> + Clone,
    ) -> Result<(), DiskError> {
        let queue = self.queues.get(owner);
        let appending = queue.and_then(|queue| queue.appending);
        let roomy = appending.filter(|file| {
            let file = self.files.get(file);
            file.is_some_and(|file| file.length < self.config.file_bytes_max)
        });
        if let Some(full) = appending.filter(|_| roomy.is_none()) {
            self.end_file(full);
        }
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        let name = roomy.unwrap_or_else(|| self.new_name());
        let base = self.files.get(&name).map_or(0, |file| file.length);
        if roomy.is_none() {
            bytes.extend(begin_file(name.salt, owner));
        }
        let offset = base + bytes.len() as u64;
        let place = (base, name.salt);
        let pushed = push_segment(&mut bytes, place, (owner, number), messages.clone());
        let written = pushed.and_then(|()| self.write(name, base, &bytes));
        let end = base + bytes.len() as u64;
        self.buffer = bytes;
        written?;
        let (count, body_bytes) = messages.fold((0, 0), |(count, bytes), each| {
            (count + 1, bytes + each.body.len() as u64)
        });
        let place = Place {
            file: name,
            offset,
            bytes: end - offset,
            has_head: true,
            is_of_before: false,
            messages: count,
            body_bytes,
        };
        self.note(owner, number, (name, end), place);
        Ok(())
    }

    /// The messages of a segment, which is kept on.
    ///
    /// # Errors
    /// [`DiskError::Missing`] where there is none of that number, [`DiskError::Io`] where it cannot be read now.
    pub fn read(&mut self, owner: &Owner, number: u64) -> Result<Contents, DiskError> {
        let place = self
            .place(owner, number)
            .ok_or(DiskError::Missing(number))?;
        self.contents(place, number)
    }

    fn contents(&mut self, place: Place, number: u64) -> Result<Contents, DiskError> {
        let shown = place.file.to_string();
        let length = usize::try_from(place.bytes).unwrap_or(usize::MAX);
        let bytes = self
            .volume
            .read_at(&shown, place.offset, length)
            .map_err(DiskError::io("read", &shown))?;
        Ok(Contents {
            bytes,
            place: (place.offset, place.file.salt),
            number,
            file: place.file,
            is_of_before: place.is_of_before,
        })
    }

    /// Keeps a segment no longer.
    ///
    /// # Errors
    /// [`DiskError::Io`] where that could not be noted: after a restart it may be there again.
    pub fn forget(&mut self, owner: &Owner, number: u64) -> Result<(), DiskError> {
        let queue = self.queues.get_mut(owner);
        let Some(place) = queue.and_then(|queue| queue.segments.remove(&number)) else {
            return Ok(());
        };
        let Some(file) = self.files.get_mut(&place.file) else {
            return Ok(());
        };
        file.segments -= 1;
        if file.segments == 0 {
            self.forget_file(owner, place.file);
            return Ok(());
        }
        self.unsynced.files.insert(place.file);
        for offset in self.marked_records(place, number)? {
            self.mark(place.file, offset)?;
        }
        Ok(())
    }

    /// Where what is to be marked of a segment is: its head, or where that is damaged its messages.
    fn marked_records(&mut self, place: Place, number: u64) -> Result<Vec<u64>, DiskError> {
        if place.has_head {
            return Ok(vec![place.offset]);
        }
        let contents = self.contents(place, number)?;
        let records = contents.records().map(|record| record.offset);
        Ok(records.collect())
    }

    fn mark(&mut self, name: FileName, offset: u64) -> Result<(), DiskError> {
        let (shown, at) = (name.to_string(), record::state_at(offset));
        let marked = self.volume.write_at(&shown, at, &record::gone_mark());
        marked.map_err(DiskError::io("mark a segment in", &shown))
    }

    /// Keeps nothing of that queue any longer.
    pub fn forget_all(&mut self, owner: &Owner) {
        let files = self.queues.get(owner).map(|queue| queue.files.clone());
        for file in files.into_iter().flatten() {
            self.forget_file(owner, file);
        }
        self.queues.remove(owner);
    }

    /// Makes everything durable that was put and forgotten.
    ///
    /// # Errors
    /// The first of what failed. What the system could not sync it may have lost; nothing more is appended to those files, and what
    /// was lost of them is found to be missing.
    pub fn sync(&mut self) -> Result<(), DiskError> {
        let mut synced = Ok(());
        self.unsynced.messages = 0;
        for file in std::mem::take(&mut self.unsynced.files) {
            let shown = file.to_string();
            if let Err(error) = self.volume.sync(&shown) {
                self.append_no_more(file);
                synced = synced.and(Err(DiskError::io("sync", &shown)(error)));
            }
        }
        for name in std::mem::take(&mut self.unsynced.unremoved) {
            self.remove(name);
        }
        if std::mem::take(&mut self.unsynced.folder)
            && let Err(error) = self.volume.sync_folder()
        {
            self.unsynced.folder = true;
            synced = synced.and(Err(DiskError::io("sync", "the folder of segments")(error)));
        }
        synced
    }

    /// Ends all files in order, and syncs.
    ///
    /// # Errors
    /// As [`Shelf::sync`].
    pub fn end(&mut self) -> Result<(), DiskError> {
        let queues = self.queues.values();
        let open: Vec<FileName> = queues.filter_map(|queue| queue.appending).collect();
        for file in open {
            self.end_file(file);
        }
        self.sync()
    }

    fn new_name(&self) -> FileName {
        FileName::drawn(self.seed, self.next_file)
    }

    /// Writes at the end of a file, which is made if need be; what fails leaves no trace that counts.
    fn write(&mut self, name: FileName, base: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let all = self.bytes.saturating_add(self.beside);
        if all.saturating_add(bytes.len() as u64) > self.config.bytes_max {
            return Err(DiskError::Budget(self.config.bytes_max));
        }
        let shown = name.to_string();
        if base == 0 {
            self.next_file += 1;
            let created = self.volume.create(&shown);
            created.map_err(DiskError::io("make", &shown))?;
        }
        let written = self.volume.write_at(&shown, base, bytes);
        if written.is_err() {
            if base == 0 {
                self.remove(name);
            } else if self.volume.truncate(&shown, base).is_err() {
                self.append_no_more(name);
            }
        }
        written.map_err(DiskError::io("write", &shown))
    }

    /// A segment of a queue is there, and its file is so long.
    fn note(&mut self, owner: &Owner, number: u64, (name, length): (FileName, u64), place: Place) {
        let queue = self.queues.entry(owner.clone()).or_default();
        queue.files.insert(name);
        queue.appending = Some(name);
        let former = queue.segments.insert(number, place);
        debug_assert!(
            former.is_none(),
            "segment {number} of {owner} was put twice"
        );
        self.unsynced.folder |= !self.files.contains_key(&name);
        let file = self.files.entry(name).or_insert(File {
            length: 0,
            segments: 0,
        });
        self.bytes += length - file.length;
        file.length = length;
        file.segments += 1;
        self.unsynced.files.insert(name);
        self.unsynced.messages += place.messages;
    }

    fn place(&self, owner: &Owner, number: u64) -> Option<Place> {
        self.queues.get(owner)?.segments.get(&number).copied()
    }

    /// Writes the end of a file that was appended to. Without it the file is only found not to be ended in order.
    fn end_file(&mut self, name: FileName) {
        self.append_no_more(name);
        let Some(file) = self.files.get_mut(&name) else {
            return;
        };
        let end = end_file(file.length, name.salt);
        let written = self.volume.write_at(&name.to_string(), file.length, &end);
        if written.is_ok() {
            file.length += end.len() as u64;
            self.bytes += end.len() as u64;
            self.unsynced.files.insert(name);
        }
    }

    fn append_no_more(&mut self, file: FileName) {
        for queue in self.queues.values_mut() {
            queue.appending = queue.appending.filter(|&appending| appending != file);
        }
    }

    fn forget_file(&mut self, owner: &Owner, name: FileName) {
        if let Some(queue) = self.queues.get_mut(owner) {
            queue.files.remove(&name);
            queue.appending = queue.appending.filter(|&appending| appending != name);
            if queue.files.is_empty() {
                self.queues.remove(owner);
            }
        }
        self.unsynced.files.remove(&name);
        if let Some(file) = self.files.remove(&name) {
            self.bytes -= file.length;
            self.remove(name);
        }
    }

    /// Removes a file, now or with a later sync.
    fn remove(&mut self, name: FileName) {
        self.unsynced.folder = true;
        if let Err(error) = self.volume.remove(&name.to_string())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            self.unsynced.unremoved.push(name);
        }
    }
}
