//! What logs had when the broker began: their queues have it outside of memory, as if they had put it there.

use std::collections::BTreeMap;

use disk::{DiskError, Logs, LogsConfig, LogsOpened, Opened, Owner, Volume, Waiting};
use rustc_hash::FxHashMap;
use topics::{KnownLog, Outside, QueueName};

use super::keeper::tell_of_file;
use super::segments::Segments;
use super::state::BacklogHealth;
use super::{BacklogConfig, Found};

/// A file of a log is no longer than that, so that it is soon of no more use.
const LOG_FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The number of the first segment of what a queue had, far from the lowest: what is older than all that is outside gets lower ones.
const FIRST_NUMBER: u64 = 1 << 32;

/// What was recovered of logs.
#[derive(Debug, Default)]
pub(super) struct RecoveredLogs {
    pub(super) known: Vec<KnownLog>,
    pub(super) found: Vec<Found>,
    /// The messages of the segments that queues are told of.
    pub(super) outside: FxHashMap<QueueName, BTreeMap<u64, Vec<u64>>>,
}

pub(super) fn open_logs<V: Volume>(
    volume: V,
    config: &BacklogConfig,
    seed: u64,
) -> Result<(Logs<V>, LogsOpened), DiskError> {
    Logs::open(volume, logs_config(config), seed)
}

/// The bounds of logs.
pub(super) fn logs_config(config: &BacklogConfig) -> LogsConfig {
    LogsConfig {
        file_bytes_max: config.file_bytes_max.min(LOG_FILE_BYTES_MAX),
        bytes_max: config.bytes_max,
    }
}

/// What comes after a file that cannot be read now would not fit to it when it can be.
pub(super) fn refuse_unread(logged: &LogsOpened) -> Result<(), DiskError> {
    let mut unread = logged.reports.iter();
    match unread.find_map(|report| Some((report, report.failure.clone()?))) {
        None => Ok(()),
        Some((report, reason)) => Err(DiskError::Unreadable {
            path: report.file.clone(),
            reason,
        }),
    }
}

/// What queues of topics with a log had put on the shelf is in the log as well.
pub(super) fn forget_logged<V: Volume>(
    shelf: &mut Segments<V>,
    opened: &mut Opened,
    logged: &LogsOpened,
) {
    let has_log = |owner: &Owner| logged.topics.iter().any(|log| log.topic == owner.topic);
    for (owner, _) in opened.owners.extract_if(.., |(owner, _)| has_log(owner)) {
        shelf.forget_all(&owner);
    }
}

pub(super) fn recover(
    config: &BacklogConfig,
    logged: LogsOpened,
    health: &BacklogHealth,
) -> RecoveredLogs {
    let mut recovered = RecoveredLogs::default();
    for report in &logged.reports {
        tell_of_file(report);
        health.note_damages(report.damages.len());
    }
    for log in logged.topics {
        let mut messages = 0;
        for (channel, waiting) in log.queues {
            messages += waiting.len();
            let queue = QueueName {
                topic: log.topic.clone(),
                channel,
            };
            recovered.add(config, queue, &waiting);
        }
        if messages > 0 {
            tracing::info!(
                "{}: {messages} messages of its queues are in its log",
                log.topic
            );
        }
        health.note_recovered(messages);
        recovered.known.push(KnownLog {
            topic: log.topic,
            channels: log.channels,
        });
    }
    recovered
}

impl RecoveredLogs {
    /// Tells a queue of segments that have these messages.
    fn add(&mut self, config: &BacklogConfig, queue: QueueName, waiting: &[Waiting]) {
        let mut rest = waiting;
        let (mut segments, mut outside) = (BTreeMap::new(), Vec::new());
        let mut number = FIRST_NUMBER;
        while !rest.is_empty() {
            let (mut count, mut bytes) = (0, 0);
            while count < rest.len().min(config.segment_messages.max(1))
                && (count == 0 || bytes < config.segment_bytes)
            {
                bytes += rest[count].body_bytes;
                count += 1;
            }
            let (some, behind) = rest.split_at(count);
            segments.insert(number, some.iter().map(|each| each.id).collect());
            outside.push(Outside {
                number,
                messages: count,
                bytes,
            });
            number += 1;
            rest = behind;
        }
        self.outside.insert(queue.clone(), segments);
        self.found.push((queue, outside));
    }
}
