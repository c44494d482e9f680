//! Logs are opened: their state is made anew from their files.

use wire::{ChannelName, TopicName};

use super::state::{Spot, Standing, State};
use super::step::{OWN_QUEUE, Steps};
use super::{Logs, LogsConfig};
use crate::error::DiskError;
use crate::message::Message;
use crate::record::{Kind, Record, record_bytes};
use crate::scan::{Damage, Piece, scan};
use crate::segment::{FORMAT_VERSION, FileName, Owner, PREAMBLE_BYTES, format_of};
use crate::shelf::FileReport;
use crate::volume::Volume;

/// Bytes of a standing in a record.
const STANDING_BYTES: usize = 16;
/// Bytes before the first: how many they are.
const COUNT_BYTES: usize = 8;

/// What was found when logs were opened.
#[derive(Debug, Default)]
pub struct LogsOpened {
    /// Topics with logs.
    pub topics: Vec<Logged>,
    /// Files with something to be said of them.
    pub reports: Vec<FileReport>,
    /// The highest id of a message.
    pub highest_id: u64,
}

/// A topic with a log.
#[derive(Debug)]
pub struct Logged {
    /// The topic.
    pub topic: TopicName,
    /// Its channels and their numbers.
    pub channels: Vec<(u32, ChannelName)>,
    /// What waits in it and in its channels. Queues where nothing does are left out.
    pub queues: Vec<(Option<ChannelName>, Vec<Waiting>)>,
    /// What its queues have elsewhere is in it as well.
    pub is_whole: bool,
}

/// A message of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub id: u64,
    /// Bytes of its body.
    pub body_bytes: u64,
}

pub(super) fn push_standings(bytes: &mut Vec<u8>, standings: &[Standing]) {
    bytes.extend_from_slice(&(standings.len() as u64).to_le_bytes());
    for standing in standings {
        bytes.extend_from_slice(&standing.queue.to_le_bytes());
        bytes.extend_from_slice(&standing.attempts.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&standing.due_ns.to_le_bytes());
    }
}

/// The queues that have the message of a record, and its payload as messages have it; none where it is no message.
pub(super) fn message_payload<'a>(record: &Record<'a>) -> Option<(Vec<Standing>, &'a [u8])> {
    match record.kind {
        Kind::Message => Some((vec![Standing::OWN], record.payload)),
        Kind::Standing => {
            let (count, rest) = record.payload.split_first_chunk::<COUNT_BYTES>()?;
            let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
            let (standings, payload) = rest.split_at_checked(count.checked_mul(STANDING_BYTES)?)?;
            let standings = standings
                .chunks_exact(STANDING_BYTES)
                .map(|bytes| Standing {
                    queue: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                    attempts: u16::from_le_bytes([bytes[4], bytes[5]]),
                    due_ns: i64::from_le_bytes(bytes[8..].try_into().unwrap_or_default()),
                });
            Some((standings.collect(), payload))
        }
        _ => None,
    }
}

impl State {
    /// The number of a channel, or of the topic's own queue.
    pub(super) fn queue(&self, channel: Option<&ChannelName>) -> Option<u32> {
        let Some(name) = channel else {
            return Some(OWN_QUEUE);
        };
        let mut channels = self.channels.iter();
        let found = channels.find(|(_, known)| *known == name);
        found.map(|(&number, _)| number)
    }

    /// What a queue has: what was deferred, then the rest, each in its order.
    fn waiting(&self, queue: u32) -> Vec<Waiting> {
        let (mut deferred, mut waiting) = (Vec::new(), Vec::new());
        for (&id, live) in &self.messages {
            let mut standings = live.standings.iter();
            let Some(standing) = standings.find(|each| each.queue == queue) else {
                continue;
            };
            let body_bytes = u64::from(live.spot.body_bytes);
            match standing.due_ns {
                0 => waiting.push(Waiting { id, body_bytes }),
                due_ns => deferred.push((due_ns, Waiting { id, body_bytes })),
            }
        }
        deferred.sort_by_key(|(due_ns, each)| (*due_ns, each.id));
        let deferred = deferred.into_iter().map(|(_, each)| each);
        deferred.chain(waiting).collect()
    }
}

impl<V: Volume> Logs<V> {
    /// The logs of the files that there are. `seed` is what the salts of new ones are drawn from; who publishes must not know it.
    ///
    /// # Errors
    /// [`DiskError::Io`] where the files cannot be listed, [`DiskError::Later`] for one of a later format.
    pub fn open(
        volume: V,
        config: LogsConfig,
        seed: u64,
    ) -> Result<(Logs<V>, LogsOpened), DiskError> {
        let mut logs = Logs {
            volume,
            config,
            seed,
            next_file: 1,
            logs: rustc_hash::FxHashMap::default(),
            bytes: 0,
            beside: 0,
            is_folder_unsynced: true,
            buffer: Vec::new(),
        };
        let names = logs.volume.list();
        let names = names.map_err(DiskError::io("list", "the folder of logs"))?;
        let mut files: Vec<FileName> = names.iter().filter_map(|name| name.parse().ok()).collect();
        files.sort_unstable();
        let mut opened = LogsOpened::default();
        for name in files {
            let report = logs.open_file(name, &mut opened.highest_id)?;
            let reports = &mut opened.reports;
            reports.extend(report.filter(|report| !report.is_clean()));
        }
        opened.topics = logs.logged_topics();
        Ok((logs, opened))
    }

    /// What there is of each topic that has a log.
    #[must_use]
    pub fn logged_topics(&self) -> Vec<Logged> {
        let mut topics: Vec<&TopicName> = self.logs.keys().collect();
        topics.sort_unstable();
        topics.iter().map(|topic| self.logged(topic)).collect()
    }

    fn logged(&self, topic: &TopicName) -> Logged {
        let state = self.logs.get(topic).map(|log| &log.state);
        let channels = state.into_iter().flat_map(|state| &state.channels);
        let channels: Vec<(u32, ChannelName)> = channels
            .map(|(&number, name)| (number, name.clone()))
            .collect();
        let names = channels
            .iter()
            .map(|(number, name)| (*number, Some(name.clone())));
        let queues = std::iter::once((OWN_QUEUE, None)).chain(names);
        let queues = queues.map(|(number, name)| {
            let waiting = state.map(|state| state.waiting(number));
            (name, waiting.unwrap_or_default())
        });
        let queues = queues.filter(|(_, waiting)| !waiting.is_empty()).collect();
        Logged {
            topic: topic.clone(),
            channels,
            queues,
            is_whole: self.is_whole(topic),
        }
    }

    fn open_file(
        &mut self,
        name: FileName,
        highest_id: &mut u64,
    ) -> Result<Option<FileReport>, DiskError> {
        self.next_file = self.next_file.max(name.number + 1);
        let shown = name.to_string();
        let mut report = FileReport {
            file: shown.clone(),
            ..FileReport::default()
        };
        let length = self.volume.length(&shown);
        let length = length.and_then(|bytes| usize::try_from(bytes).map_err(std::io::Error::other));
        let bytes = match length.and_then(|length| self.volume.read_at(&shown, 0, length)) {
            Ok(bytes) => bytes,
            Err(error) => {
                report.failure = Some(error.to_string());
                return Ok(Some(report));
            }
        };
        if let Some(found) = format_of(&bytes, name.salt).filter(|&found| found > FORMAT_VERSION) {
            let (path, known) = (shown, FORMAT_VERSION);
            return Err(DiskError::Later { path, found, known });
        }
        let (mut records, mut damages) = (Vec::new(), Vec::new());
        let begin = PREAMBLE_BYTES.min(bytes.len());
        for piece in scan(&bytes[begin..], begin as u64, name.salt) {
            match piece {
                Piece::Record(record) => records.push(record),
                Piece::Damage(damage) => damages.push(damage),
            }
        }
        if !records.is_empty() && format_of(&bytes, name.salt).is_none() {
            let damage = Damage {
                offset: 0,
                bytes: PREAMBLE_BYTES as u64,
                is_tail: false,
            };
            damages.insert(0, damage);
        }
        report.cut = damages.pop_if(|damage| damage.is_tail);
        report.damages = damages;
        let mut owners = records.iter().filter(|record| record.kind == Kind::Owner);
        let owner = owners.find_map(|record| Owner::of_bytes(record.payload));
        let Some(owner) = owner else {
            // What never was more than begun is nobody's loss.
            if records.is_empty() && report.damages.is_empty() {
                let _removed = self.volume.remove(&shown);
                return Ok(None);
            }
            report.is_nobodys = true;
            return Ok(Some(report));
        };
        let log = self.logs.entry(owner.topic).or_default();
        log.state.set_length(name, bytes.len() as u64);
        log.unsynced.insert(name);
        log.has_unsynced_copies = true;
        self.bytes += bytes.len() as u64;
        for record in &records {
            log.state.replay(name, record, highest_id);
        }
        Ok(Some(report))
    }
}

impl State {
    /// Takes in a record of a file.
    fn replay(&mut self, file: FileName, record: &Record<'_>, highest_id: &mut u64) {
        if record.kind == Kind::Steps {
            Steps::of_payload(record.payload).for_each(|step| self.apply(&step));
        } else if let Some((standings, payload)) = message_payload(record)
            && let Some(message) = Message::of_payload(payload)
        {
            *highest_id = message.id.max(*highest_id);
            let spot = Spot {
                file,
                offset: record.offset,
                bytes: record_bytes(record.payload.len()) as u32,
                body_bytes: message.body.len() as u32,
            };
            self.put(message.id, spot, &standings);
        }
    }
}
