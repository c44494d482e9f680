//! Messages of nsqd's files become segments.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Seek, SeekFrom};

use disk::{Folder, Message, Owner, Progress, QueuePiece, QueueRecords, QueuedMessage, Stamps};

use super::found::{Found, QueueFiles};
use super::{Places, TakenOver, io_error};
use crate::BrokerError;
use crate::backlog::BacklogConfig;
use crate::backlog::segments::{self, Segments};

/// The number of the first segment of a queue that has none.
const FIRST_NUMBER: u64 = 1 << 32;
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Copies all messages into [staged](Places::staged) segments, and syncs those.
///
/// # Errors
/// [`BrokerError::Io`] where a file cannot be read, [`BrokerError::Disk`] where there is no room.
pub(super) fn copy(
    places: &Places,
    found: &Found,
    config: &BacklogConfig,
    seed: u64,
) -> Result<TakenOver, BrokerError> {
    let staged = places.staged();
    // A former start did not come to its end.
    match fs::remove_dir_all(&staged) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(io_error(format!("remove {}", staged.display()))(error));
        }
        _ => {}
    }
    let numbers = numbers_in_use(places)?;
    // The budget is for what comes in: these messages are on this disk already.
    let (shelf, _) = segments::open(Folder::open(&staged)?, config, u64::MAX, seed)?;
    let mut copying = Copying {
        found,
        config,
        shelf,
        batch: Batch::default(),
        taken: TakenOver::default(),
    };
    for (owner, files) in &found.queues {
        let number = numbers.get(owner).map_or(FIRST_NUMBER, |&number| number);
        copying.queue(owner, files, number + 1)?;
    }
    copying.shelf.end()?;
    Ok(copying.taken)
}

/// The highest numbers of the segments that our queues have.
fn numbers_in_use(places: &Places) -> Result<BTreeMap<Owner, u64>, BrokerError> {
    let mut numbers = BTreeMap::new();
    for view in disk::inspect(&mut Folder::open(&places.segments)?)? {
        let last = view.segments.last();
        if let (Some(owner), Some(last)) = (view.owner, last) {
            let number = numbers.entry(owner).or_insert(last.number);
            *number = last.number.max(*number);
        }
    }
    Ok(numbers)
}

#[derive(Debug)]
struct Copying<'a> {
    found: &'a Found,
    config: &'a BacklogConfig,
    shelf: Segments<Folder>,
    batch: Batch,
    taken: TakenOver,
}

/// Messages of one segment.
#[derive(Debug, Default)]
struct Batch {
    /// With where their bodies end.
    heads: Vec<(i64, u16, u64, usize)>,
    bodies: Vec<u8>,
}

impl Batch {
    fn push(&mut self, message: &QueuedMessage<'_>) {
        self.bodies.extend_from_slice(message.body);
        let (at, attempts) = (message.timestamp_ns, message.attempts);
        let end = self.bodies.len();
        self.heads.push((at, attempts, message.id, end));
    }

    fn messages(&self) -> impl Iterator<Item = Message<'_>> + Clone {
        let mut begin = 0;
        self.heads.iter().map(move |&(at, attempts, id, end)| {
            let body = &self.bodies[begin..end];
            begin = end;
            Message {
                id,
                attempts,
                has_paid: false,
                has_waited: false,
                half_rtt_us: 0,
                flow: 0,
                stamps: Stamps {
                    published_ns: at,
                    arrived_ns: at,
                    read_ns: at,
                    released_ns: at,
                    due_ns: 0,
                    served_ns: 0,
                    since_ns: at,
                },
                body,
            }
        })
    }
}

impl Copying<'_> {
    fn queue(
        &mut self,
        owner: &Owner,
        files: &QueueFiles,
        mut number: u64,
    ) -> Result<(), BrokerError> {
        let progress = self.progress(files)?;
        let before = self.taken.messages;
        for (&file, name) in files.messages.range(progress.read_file..) {
            let from = match file == progress.read_file {
                true => progress.read_offset,
                false => 0,
            };
            self.file(owner, name, from, &mut number)?;
        }
        self.put(owner, &mut number)?;
        self.taken.queues += usize::from(self.taken.messages > before);
        Ok(())
    }

    /// Where reading goes on. Without that everything is read.
    fn progress(&mut self, files: &QueueFiles) -> Result<Progress, BrokerError> {
        let Some(name) = &files.meta else {
            return Ok(Progress::default());
        };
        let path = self.found.path(name);
        let failed = io_error(format!("read {}", path.display()));
        let bytes = fs::read(&path).map_err(failed)?;
        let progress = Progress::of_text(&String::from_utf8_lossy(&bytes));
        if progress.is_none() {
            self.taken.damages += 1;
            tracing::error!(
                "{name} is damaged: what of this queue was delivered is not known, and all that is there is taken over"
            );
        }
        Ok(progress.unwrap_or_default())
    }

    fn file(
        &mut self,
        owner: &Owner,
        name: &str,
        from: u64,
        number: &mut u64,
    ) -> Result<(), BrokerError> {
        let path = self.found.path(name);
        let failed = || io_error(format!("read {}", path.display()));
        let mut file = File::open(&path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        file.seek(SeekFrom::Start(from)).map_err(failed())?;
        let file = BufReader::with_capacity(READ_BYTES, file);
        let mut records = QueueRecords::new(file, from, length);
        while let Some(piece) = records.read_next().map_err(failed())? {
            match piece {
                QueuePiece::Message(message) => {
                    self.batch.push(&message);
                    if self.is_full() {
                        self.put(owner, number)?;
                    }
                }
                QueuePiece::Damage { offset, bytes } => {
                    self.taken.damages += 1;
                    tracing::error!(
                        "{name}: {bytes} bytes at {offset} are damaged, and what they held of {owner} is lost"
                    );
                }
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let bytes = self.batch.bodies.len() as u64;
        self.batch.heads.len() >= self.config.segment_messages || bytes >= self.config.segment_bytes
    }

    fn put(&mut self, owner: &Owner, number: &mut u64) -> Result<(), BrokerError> {
        if self.batch.heads.is_empty() {
            return Ok(());
        }
        self.shelf.put(owner, *number, self.batch.messages())?;
        *number += 1;
        self.taken.messages += self.batch.heads.len();
        self.batch.heads.clear();
        self.batch.bodies.clear();
        Ok(())
    }
}
