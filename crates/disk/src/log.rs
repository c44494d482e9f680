//! Logs: all messages of some topics in their order of arrival, and what became of each.
//!
//! A log is a row of files that are written one after the other. A record is a message, or a list of [`Step`]s. The files of a log begin
//! with the first that has a message that lives; what is before is removed, once it is noted and synced that it is over. Where much of
//! a log is of no more use the messages that live are carried from its first file to its end, so one old message does not keep all
//! that came after it.
//!
//! No file of a former life is appended to. What a crash leaves behind is a file without its last records, or with holes in what was not
//! synced; nothing that was synced is lost by that, and what is damaged costs its record and no other. Without a record of steps
//! messages are delivered again; none is ever taken for another.

mod open;
mod own;
mod reclaim;
mod sheet;
mod state;
mod step;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use wire::TopicName;

use crate::error::DiskError;
use crate::message::Message;
use crate::segment::FileName;
use crate::volume::Volume;
pub use open::{Logged, LogsOpened, Waiting};
use own::Own;
pub use reclaim::ReadMessage;
use sheet::{Put, Sheet, push_beginning};
pub use state::Standing;
use state::State;
pub use step::{OWN_QUEUE, Step, Steps};

/// A topic's log may take one part in so many of all bytes.
const TOPIC_PARTS: u64 = 2;

/// A message may take so many sixteenths of all bytes.
const MESSAGE_SIXTEENTHS: u64 = 7;

/// The bounds of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogsConfig {
    /// A file that is as long is not appended to any more.
    pub file_bytes_max: u64,
    /// Bytes of all files, and of what there is [beside](Logs::set_beside) them; messages that do not fit are refused, and so are those of
    /// a topic whose log would have more than half of that. Steps are taken in any case.
    pub bytes_max: u64,
}

impl LogsConfig {
    /// The longest message that has room in a log with what else is in its files: a topic's log may have half of all, and files have
    /// beginnings.
    #[must_use]
    pub fn message_bytes_max(self) -> u64 {
        self.bytes_max / 16 * MESSAGE_SIXTEENTHS
    }
}

/// What is written to a log in one go.
#[derive(Clone, Debug)]
pub struct Entry<'a, M> {
    /// What became of messages that are there already.
    pub before: &'a [Step],
    /// Messages, with the queues that have them. Of one that is there already that is a new copy; what it says of queues counts from then
    /// on, unless that is only the topic's own.
    pub messages: M,
    /// What became of these.
    pub after: &'a [Step],
}

/// See the module.
#[derive(Debug)]
pub struct Logs<V> {
    volume: V,
    config: LogsConfig,
    seed: u64,
    next_file: u64,
    logs: FxHashMap<TopicName, Log>,
    /// Bytes of all files.
    bytes: u64,
    /// Bytes that count as theirs.
    beside: u64,
    /// Files were made or removed since the folder was synced.
    is_folder_unsynced: bool,
    buffer: Vec<u8>,
}

/// The log of a topic.
#[derive(Debug, Default)]
struct Log {
    state: State,
    appending: Option<FileName>,
    unsynced: BTreeSet<FileName>,
    /// The newest copies of some messages are not synced, or not known to be: until a sync nothing that relies on copies is noted or removed.
    has_unsynced_copies: bool,
    /// Files whose sync has failed: what is in them and lives is carried elsewhere.
    doubtful: BTreeSet<FileName>,
    /// It is noted that files of lower numbers are over.
    begins: u64,
    /// And that is synced.
    begins_synced: u64,
}

impl Log {
    /// The last of the first files that nothing needs any more, whatever a crash leaves of what is not synced.
    fn over(&self, appending: Option<FileName>) -> Option<FileName> {
        let last = self.state.over(appending).last();
        last.filter(|_| !self.has_unsynced_copies && self.doubtful().is_none())
    }

    /// A file that a crash may cost, and that has messages that live.
    fn doubtful(&self) -> Option<FileName> {
        let mut doubtful = self.doubtful.iter().copied();
        doubtful.find(|file| {
            let extent = self.state.files.get(file);
            extent.is_some_and(|extent| extent.live > 0)
        })
    }

    /// What was written since the last sync may be lost, so nothing relies on it.
    fn doubt_unsynced(&mut self) {
        self.appending = None;
        self.begins = self.begins_synced;
        self.doubtful.append(&mut self.unsynced);
        // The newest copies are in files that are doubtful, which says the same as long as they live.
        self.has_unsynced_copies = false;
    }

    fn is_over(&self, file: FileName) -> bool {
        self.state
            .files
            .get(&file)
            .is_none_or(|each| each.live == 0)
            && Some(file) != self.appending
    }
}

impl<V: Volume> Logs<V> {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files of all logs.
    #[must_use]
    pub fn files(&self) -> usize {
        self.logs.values().map(|log| log.state.files.len()).sum()
    }

    /// Messages of a topic that live.
    #[must_use]
    pub fn live(&self, topic: &TopicName) -> usize {
        let log = self.logs.get(topic);
        log.map_or(0, |log| log.state.messages.len())
    }

    /// Bytes of the files of a topic.
    #[must_use]
    pub fn bytes_of(&self, topic: &TopicName) -> u64 {
        self.logs.get(topic).map_or(0, |log| log.state.bytes)
    }

    /// Whether no log has room for a message with a body of so many bytes.
    #[must_use]
    pub fn is_too_long(&self, body_bytes: usize) -> bool {
        body_bytes as u64 > self.config.message_bytes_max()
    }

    /// Whether a topic has a log.
    #[must_use]
    pub fn has(&self, topic: &TopicName) -> bool {
        self.logs.contains_key(topic)
    }

    /// Whether a log has all that its topic's queues had when it began.
    #[must_use]
    pub fn is_whole(&self, topic: &TopicName) -> bool {
        let log = self.logs.get(topic);
        log.is_some_and(|log| log.state.is_whole)
    }

    /// Whether a message of a topic lives.
    #[must_use]
    pub fn knows(&self, topic: &TopicName, id: u64) -> bool {
        let log = self.logs.get(topic);
        log.is_some_and(|log| log.state.messages.contains_key(&id))
    }

    /// The queues that have a message of a topic.
    #[must_use]
    pub fn standings(&self, topic: &TopicName, id: u64) -> &[Standing] {
        let log = self.logs.get(topic);
        let live = log.and_then(|log| log.state.messages.get(&id));
        live.map_or(&[], |live| &live.standings)
    }

    /// Steps are so, though they cannot be written now: they are to be written before messages are.
    pub fn apply_unwritten(&mut self, topic: &TopicName, steps: &[Step]) {
        if let Some(log) = self.logs.get_mut(topic) {
            steps.iter().for_each(|step| log.state.apply(step));
        }
    }

    /// Sets how many bytes of others count as theirs.
    pub fn set_beside(&mut self, bytes: u64) {
        self.beside = bytes;
    }

    /// What they are on.
    pub fn volume_mut(&mut self) -> &mut V {
        &mut self.volume
    }

    /// Gives them up, as the end of a process does.
    pub fn into_volume(self) -> V {
        self.volume
    }

    /// Begins the log of a topic that has none.
    pub fn begin(&mut self, topic: &TopicName) {
        self.logs.entry(topic.clone()).or_default();
    }

    /// Removes the log of a topic.
    pub fn end(&mut self, topic: &TopicName) {
        let Some(log) = self.logs.remove(topic) else {
            return;
        };
        for (file, extent) in log.state.files {
            // What is not removed is found, and recovered, at the next start.
            let removed = self.volume.remove(&file.to_string());
            self.bytes -= extent.length;
            self.is_folder_unsynced = true;
            if let Err(error) = removed {
                tracing::warn!("{file}, the log of a topic that has none any more, stays: {error}");
            }
        }
    }

    /// Writes to the log of a topic: all of it, or nothing that counts. It outlives the process from then on, and the machine once it is
    /// [synced](Logs::sync).
    ///
    /// # Errors
    /// [`DiskError`]; everything is as before then.
    pub fn write<'a, M>(&mut self, topic: &TopicName, entry: Entry<'_, M>) -> Result<(), DiskError>
    where
        M: Iterator<Item = (Message<'a>, &'a [Standing])>,
    {
        let Entry {
            before,
            messages,
            after,
        } = entry;
        let file_max = self.config.file_bytes_max;
        self.begin(topic);
        let Some(log) = self.logs.get_mut(topic) else {
            return Ok(());
        };
        let roomy = log.appending.filter(|file| {
            let extent = log.state.files.get(file);
            extent.is_some_and(|extent| extent.length < file_max)
        });
        log.appending = roomy;
        let name = roomy.unwrap_or_else(|| FileName::drawn(self.seed, self.next_file));
        let base = log.state.files.get(&name).map_or(0, |each| each.length);
        let mut bytes = std::mem::take(&mut self.buffer);
        bytes.clear();
        if roomy.is_none() {
            push_beginning(&mut bytes, name.salt, topic, &log.state);
        }
        let mut sheet = Sheet {
            bytes,
            base,
            file: name,
            spots: Vec::new(),
        };
        let begins = log.over(roomy).map(|file| file.number + 1);
        let begins = begins.filter(|&number| number > log.begins);
        let note: Vec<Step> = begins.map(Step::Begins).into_iter().collect();
        sheet.push_steps(&note);
        let mut own = Own::of(&log.state, before.iter().chain(after));
        sheet.push_steps(&own.named(before));
        let pushed = sheet.push_messages(messages);
        own.extend(&sheet.spots);
        sheet.push_steps(&own.named(after));
        // Once more: without a channel much of what follows could not be understood.
        let steps = before.iter().chain(after);
        let channels = steps.filter(|step| matches!(step, Step::Channel(..)));
        let channels: Vec<Step> = channels.cloned().collect();
        sheet.push_steps(&channels);
        let Sheet { bytes, spots, .. } = sheet;
        let written = pushed.and_then(|()| {
            let has_messages = !spots.is_empty();
            self.write_bytes(topic, name, base, &bytes, has_messages)
        });
        let end = base + bytes.len() as u64;
        self.buffer = bytes;
        written?;
        if let Some(log) = self.logs.get_mut(topic) {
            log.begins = begins.unwrap_or(log.begins);
            log.note((name, end), before, &spots, after);
        }
        Ok(())
    }

    /// As [`write`](Logs::write), and the bounds are no reason to refuse it: it is of something that is on disk already, or that makes room.
    ///
    /// # Errors
    /// [`DiskError::Io`]; everything is as before then.
    pub fn write_beyond<'a, M>(
        &mut self,
        topic: &TopicName,
        entry: Entry<'_, M>,
    ) -> Result<(), DiskError>
    where
        M: Iterator<Item = (Message<'a>, &'a [Standing])>,
    {
        let (bytes_max, beside) = (self.config.bytes_max, self.beside);
        (self.config.bytes_max, self.beside) = (u64::MAX, 0);
        let written = self.write(topic, entry);
        (self.config.bytes_max, self.beside) = (bytes_max, beside);
        written
    }

    /// Makes durable what was written to the log of a topic, and removes files that are over.
    ///
    /// # Errors
    /// The first of what failed. What was written since the last sync may be lost then. It is to be written again, and goes to another file:
    /// messages that live still with what is known of them, and [steps that may be repeated](Step::may_be_repeated). A crash may then
    /// bring back what queues held that were emptied since; and channels that were added since may have what was passed on before, or lack
    /// what was passed on after.
    pub fn sync(&mut self, topic: &TopicName) -> Result<(), DiskError> {
        let Some(log) = self.logs.get_mut(topic) else {
            return Ok(());
        };
        while let Some(file) = log.unsynced.first().copied() {
            let shown = file.to_string();
            if let Err(error) = self.volume.sync(&shown) {
                log.doubt_unsynced();
                return Err(DiskError::io("sync", &shown)(error));
            }
            log.unsynced.remove(&file);
        }
        if self.is_folder_unsynced {
            self.volume
                .sync_folder()
                .map_err(DiskError::io("sync", "the folder of logs"))?;
            self.is_folder_unsynced = false;
        }
        log.begins_synced = log.begins;
        log.has_unsynced_copies = false;
        let begins = log.begins_synced;
        let files = log.state.files.keys().copied();
        let over: Vec<FileName> = files.take_while(|file| file.number < begins).collect();
        self.remove_files(topic, over);
        Ok(())
    }

    /// Begins to sync several topics at once; [`Logs::sync`] of each is to follow before anything is written.
    pub fn sync_ahead<'a>(&mut self, topics: impl IntoIterator<Item = &'a TopicName>) {
        let logs = topics.into_iter().filter_map(|topic| self.logs.get(topic));
        let files: Vec<String> = logs
            .flat_map(|log| log.unsynced.iter().map(FileName::to_string))
            .collect();
        if files.len() > 1 {
            self.volume.sync_ahead(&files);
        }
    }

    /// Whether something of a topic is not synced.
    #[must_use]
    pub fn is_unsynced(&self, topic: &TopicName) -> bool {
        let log = self.logs.get(topic);
        log.is_some_and(|log| !log.unsynced.is_empty())
    }

    /// Topics that have logs.
    pub fn topics(&self) -> impl Iterator<Item = &TopicName> {
        self.logs.keys()
    }

    /// Removes files of a topic that are over without having that noted, as on a disk that takes nothing: after a crash of the machine some
    /// may be there again. Says whether there were some.
    pub fn remove_over(&mut self, topic: &TopicName) -> bool {
        let Some(log) = self.logs.get(topic) else {
            return false;
        };
        let last = log.over(log.appending);
        let files = log.state.files.keys().copied();
        let over: Vec<FileName> = files.take_while(|file| Some(*file) <= last).collect();
        let is_any = !over.is_empty();
        self.remove_files(topic, over);
        is_any
    }

    fn remove_files(&mut self, topic: &TopicName, files: Vec<FileName>) {
        let Some(log) = self.logs.get_mut(topic) else {
            return;
        };
        for file in files {
            if !log.is_over(file) {
                break;
            }
            if let Err(error) = self.volume.remove(&file.to_string())
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!("{file} is of no more use and stays until the next sync: {error}");
                break;
            }
            self.is_folder_unsynced = true;
            self.bytes -= log.state.remove_file(file);
            log.unsynced.remove(&file);
            log.doubtful.remove(&file);
        }
    }

    fn write_bytes(
        &mut self,
        topic: &TopicName,
        name: FileName,
        base: u64,
        bytes: &[u8],
        has_messages: bool,
    ) -> Result<(), DiskError> {
        if has_messages {
            let (bytes_max, more) = (self.config.bytes_max, bytes.len() as u64);
            let all = self.bytes + self.beside;
            let own = self.bytes_of(topic);
            if all.saturating_add(more) > bytes_max {
                return Err(DiskError::Budget(bytes_max));
            }
            let share = bytes_max.div_ceil(TOPIC_PARTS);
            if own.saturating_add(more) > share {
                return Err(DiskError::Share(share));
            }
        }
        let shown = name.to_string();
        if base == 0 {
            self.next_file += 1;
            let created = self.volume.create(&shown);
            created.map_err(DiskError::io("make", &shown))?;
            self.is_folder_unsynced = true;
        }
        let written = self.volume.write_at(&shown, base, bytes);
        if written.is_err() {
            let undone = match base {
                0 => self.volume.remove(&shown),
                _ => self.volume.truncate(&shown, base),
            };
            if undone.is_err()
                && let Some(log) = self.logs.get_mut(topic)
            {
                log.appending = None;
            }
        }
        written.map_err(DiskError::io("write", &shown))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

impl Log {
    /// Something was written.
    fn note(
        &mut self,
        (name, end): (FileName, u64),
        before: &[Step],
        spots: &[Put],
        after: &[Step],
    ) {
        self.appending = Some(name);
        self.state.set_length(name, end);
        self.unsynced.insert(name);
        before.iter().for_each(|step| self.state.apply(step));
        for put in spots {
            self.has_unsynced_copies |= self.state.messages.contains_key(&put.id);
            self.state.put(put.id, put.spot, &put.standings);
        }
        after.iter().for_each(|step| self.state.apply(step));
    }
}
