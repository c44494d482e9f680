//! Opens a shelf: reads what is in its files, and finds what is damaged.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{File, Kept, Place, Queue, Shelf, ShelfConfig, Unsynced};
use crate::error::DiskError;
use crate::message::Message;
use crate::record::{Kind, Record};
use crate::scan::{Damage, Piece, scan};
use crate::segment::{
    FORMAT_VERSION, FileName, Owner, PREAMBLE_BYTES, SegmentHead, end_file, format_of,
};
use crate::volume::Volume;

/// The findings at the opening of a shelf.
#[derive(Debug, Default)]
pub struct Opened {
    /// Queues with their segments, in their order.
    pub owners: Vec<(Owner, Vec<Kept>)>,
    /// Files with something to be said of them.
    pub reports: Vec<FileReport>,
    /// The highest id of a message.
    pub highest_id: u64,
}

/// The faults of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Its name.
    pub file: String,
    /// Bytes that are not a record any more.
    pub damages: Vec<Damage>,
    /// Messages that are known to be missing.
    pub messages_missing: u64,
    /// The piece cut off its end: the last write, which was not complete.
    pub cut: Option<Damage>,
    /// It was not ended in order: its writer was, or somebody has cut it.
    pub is_unended: bool,
    /// Its owner is not known: it is left untouched.
    pub is_nobodys: bool,
    /// It cannot be read, for this reason: it is left untouched.
    pub failure: Option<String>,
}

/// A file that was examined and left untouched.
#[derive(Debug)]
pub struct FileView {
    /// Its faults.
    pub report: FileReport,
    /// Whose messages it has, as far as that can be read.
    pub owner: Option<Owner>,
    /// Its segments, in order, without those that were taken out.
    pub segments: Vec<Kept>,
}

/// Looks at all files of a volume and changes nothing.
///
/// # Errors
/// [`DiskError::Io`] where the files cannot be listed.
pub fn inspect(volume: &mut impl Volume) -> Result<Vec<FileView>, DiskError> {
    let names = volume.list();
    let names = names.map_err(DiskError::io("list", "the folder of segments"))?;
    let mut files: Vec<FileName> = names.iter().filter_map(|name| name.parse().ok()).collect();
    files.sort_unstable();
    Ok(files.into_iter().map(|name| view(volume, name)).collect())
}

fn view(volume: &mut impl Volume, name: FileName) -> FileView {
    let contents = match read_whole(volume, &name.to_string()) {
        Ok(bytes) => FileContents::of(&bytes, name),
        Err(error) => FileContents::unreadable(name, &error),
    };
    let live = contents
        .segments
        .into_iter()
        .filter(|(_, found)| found.is_live());
    let segments = live.map(|(number, found)| Kept {
        number,
        messages: found.messages,
        body_bytes: found.body_bytes,
    });
    FileView {
        report: contents.report,
        owner: contents.owner,
        segments: segments.collect(),
    }
}

fn read_whole(volume: &mut impl Volume, name: &str) -> std::io::Result<Vec<u8>> {
    let length = usize::try_from(volume.length(name)?).map_err(std::io::Error::other)?;
    volume.read_at(name, 0, length)
}

/// The content of a file.
#[derive(Debug, Default)]
struct FileContents {
    owner: Option<Owner>,
    segments: BTreeMap<u64, FoundSegment>,
    records: usize,
    /// Where its last record ends.
    end: u64,
    highest_id: u64,
    report: FileReport,
}

#[derive(Debug, Default)]
struct FoundSegment {
    offset: u64,
    end: u64,
    expected: Option<u64>,
    is_gone: bool,
    messages: usize,
    body_bytes: u64,
}

impl FileReport {
    /// Whether there is nothing to be said.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let lacks = self.messages_missing > 0 || self.cut.is_some() || self.is_unended;
        self.damages.is_empty() && !lacks && !self.is_nobodys && self.failure.is_none()
    }
}

impl<V: Volume> Shelf<V> {
    /// A shelf of the files that there are. `seed` is what the salts of new ones are drawn from; who publishes must not know it.
    ///
    /// # Errors
    /// [`DiskError::Io`] where the files cannot be listed, [`DiskError::Later`] for one of a later format.
    pub fn open(
        volume: V,
        config: ShelfConfig,
        seed: u64,
    ) -> Result<(Shelf<V>, Opened), DiskError> {
        let mut shelf = Shelf {
            volume,
            config,
            seed,
            queues: FxHashMap::default(),
            files: BTreeMap::new(),
            bytes: 0,
            beside: 0,
            next_file: 1,
            unsynced: Unsynced {
                // What a former life removed may still be there after a crash.
                folder: true,
                ..Unsynced::default()
            },
            buffer: Vec::new(),
        };
        let names = shelf.volume.list();
        let names = names.map_err(DiskError::io("list", "the folder of segments"))?;
        let mut files: Vec<FileName> = names.iter().filter_map(|name| name.parse().ok()).collect();
        files.sort_unstable();
        let mut opened = Opened::default();
        for name in files {
            let report = shelf.open_file(name, &mut opened.highest_id)?;
            opened
                .reports
                .extend(report.filter(|report| !report.is_clean()));
        }
        let owners = shelf.queues.keys().cloned();
        let mut owners: Vec<(Owner, Vec<Kept>)> = owners
            .map(|owner| {
                let segments = shelf.segments(&owner).collect();
                (owner, segments)
            })
            .collect();
        owners.sort_by(|a, b| a.0.cmp(&b.0));
        opened.owners = owners;
        Ok((shelf, opened))
    }

    fn open_file(
        &mut self,
        name: FileName,
        highest_id: &mut u64,
    ) -> Result<Option<FileReport>, DiskError> {
        self.next_file = self.next_file.max(name.number + 1);
        let shown = name.to_string();
        let bytes = match read_whole(&mut self.volume, &shown) {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Some(FileContents::unreadable(name, &error).report)),
        };
        if let Some(found) = format_of(&bytes, name.salt).filter(|&found| found > FORMAT_VERSION) {
            let (path, known) = (shown, FORMAT_VERSION);
            return Err(DiskError::Later { path, found, known });
        }
        let mut contents = FileContents::of(&bytes, name);
        *highest_id = contents.highest_id.max(*highest_id);
        let is_empty = contents.records == 0 && bytes.iter().all(|&byte| byte == 0);
        let has_live = contents.segments.values().any(FoundSegment::is_live);
        let (false, Some(owner)) = (is_empty, contents.owner.take()) else {
            if is_empty || !has_live && contents.records > 0 && contents.report.damages.is_empty() {
                self.remove(name);
                return Ok(None);
            }
            contents.report.is_nobodys = true;
            return Ok(Some(contents.report));
        };
        if !has_live {
            self.remove(name);
            return Ok(Some(contents.report));
        }
        let length = self.end_as_it_is(name, &contents, bytes.len() as u64);
        self.enter(&owner, name, length, contents.segments);
        Ok(Some(contents.report))
    }

    /// Cuts off what is behind the last record of a file that was not ended, and ends it. Gives how long it is then.
    fn end_as_it_is(&mut self, name: FileName, contents: &FileContents, length: u64) -> u64 {
        if !contents.report.is_unended {
            return length;
        }
        let shown = name.to_string();
        if self.volume.truncate(&shown, contents.end).is_err() {
            return length;
        }
        let end = end_file(contents.end, name.salt);
        match self.volume.write_at(&shown, contents.end, &end) {
            Ok(()) => contents.end + end.len() as u64,
            Err(_) => contents.end,
        }
    }

    fn enter(
        &mut self,
        owner: &Owner,
        name: FileName,
        length: u64,
        segments: BTreeMap<u64, FoundSegment>,
    ) {
        let queue: &mut Queue = self.queues.entry(owner.clone()).or_default();
        queue.files.insert(name);
        let mut count = 0;
        for (number, found) in segments.into_iter().filter(|(_, found)| found.is_live()) {
            let place = Place {
                file: name,
                offset: found.offset,
                bytes: found.end - found.offset,
                has_head: found.expected.is_some(),
                is_of_before: true,
                messages: found.messages,
                body_bytes: found.body_bytes,
            };
            count += 1;
            if let Some(former) = queue.segments.insert(number, place)
                && let Some(file) = self.files.get_mut(&former.file)
            {
                // The later one counts; the former stays in its file until that goes.
                file.segments = file.segments.saturating_sub(1).max(1);
            }
        }
        let file = File {
            length,
            segments: count,
        };
        self.bytes += length;
        self.files.insert(name, file);
        // Its writer may have ended before it synced.
        self.unsynced.files.insert(name);
    }
}

impl FileContents {
    fn unreadable(name: FileName, error: &std::io::Error) -> FileContents {
        FileContents {
            report: FileReport {
                file: name.to_string(),
                failure: Some(error.to_string()),
                ..FileReport::default()
            },
            ..FileContents::default()
        }
    }

    fn of(bytes: &[u8], name: FileName) -> FileContents {
        let mut contents = FileContents {
            report: FileReport {
                file: name.to_string(),
                ..FileReport::default()
            },
            ..FileContents::default()
        };
        let begin = PREAMBLE_BYTES.min(bytes.len());
        let mut is_ended = false;
        for piece in scan(&bytes[begin..], begin as u64, name.salt) {
            match piece {
                Piece::Record(record) => {
                    is_ended = record.kind == Kind::End;
                    contents.note(&record);
                }
                Piece::Damage(damage) if damage.is_tail && !is_ended => {
                    contents.report.cut = Some(damage);
                }
                Piece::Damage(damage) => contents.report.damages.push(damage),
            }
        }
        if contents.records > 0 && format_of(bytes, name.salt).is_none() {
            let damage = Damage {
                offset: 0,
                bytes: PREAMBLE_BYTES as u64,
                is_tail: false,
            };
            contents.report.damages.insert(0, damage);
        }
        contents.report.is_unended = !is_ended;
        let live = contents.segments.values().filter(|found| !found.is_gone);
        contents.report.messages_missing = live.map(FoundSegment::missing).sum();
        contents
    }

    fn note(&mut self, record: &Record<'_>) {
        self.records += 1;
        let end = record.offset + crate::record::record_bytes(record.payload.len()) as u64;
        self.end = end;
        let segment = match record.kind {
            Kind::Owner => {
                self.owner = self
                    .owner
                    .take()
                    .or_else(|| Owner::of_bytes(record.payload));
                return;
            }
            Kind::Segment | Kind::Message => self.segments.entry(record.segment).or_default(),
            Kind::End | Kind::Steps | Kind::Standing | Kind::Unknown(_) => return,
        };
        if segment.end == 0 {
            segment.offset = record.offset;
        }
        segment.end = end;
        if record.kind == Kind::Message && !record.is_gone {
            segment.messages += 1;
            if let Some(message) = Message::of_payload(record.payload) {
                segment.body_bytes += message.body.len() as u64;
                self.highest_id = self.highest_id.max(message.id);
            }
        } else if record.kind == Kind::Segment
            && let Some(head) = SegmentHead::of_payload(record.payload)
        {
            segment.expected = Some(u64::from(head.messages));
            segment.is_gone = record.is_gone;
            self.owner.get_or_insert(head.owner);
        }
    }
}

impl FoundSegment {
    fn is_live(&self) -> bool {
        !self.is_gone && self.messages > 0
    }

    fn missing(&self) -> u64 {
        let expected = self.expected.unwrap_or_default();
        expected.saturating_sub(self.messages as u64)
    }
}
