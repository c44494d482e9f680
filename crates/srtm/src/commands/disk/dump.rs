//! `srtm disk dump`: a line of JSON for each message and each damage.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use broker::{BACKLOG_FOLDER, LOGS_FOLDER};
use disk::{
    FileReport, Folder, Logs, LogsConfig, LogsOpened, Message, Owner, Shelf, ShelfConfig, Untouched,
};
use serde::Serialize;
use wire::MessageId;

use crate::error::Failure;

/// Nothing is written, so nothing is bounded.
const SEGMENTS: ShelfConfig = ShelfConfig {
    file_bytes_max: u64::MAX,
    bytes_max: u64::MAX,
};

pub(super) const LOGS: LogsConfig = LogsConfig {
    file_bytes_max: u64::MAX,
    bytes_max: u64::MAX,
};

/// A message.
#[derive(Serialize)]
struct MessageLine<'a> {
    topic: &'a str,
    /// `null`: it waits in the topic itself.
    channel: Option<&'a str>,
    id: String,
    timestamp_ns: i64,
    attempts: u16,
    /// Where it is deferred, the earliest time of its delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    deferred_until_ns: Option<i64>,
    body_bytes: usize,
    /// As base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
}

/// What cannot be read.
#[derive(Serialize)]
struct DamageLine<'a> {
    file: &'a str,
    /// Where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    damage: &'a str,
}

/// Writes everything that a broker would find in the folder.
pub(super) fn run(data_path: &Path, with_bodies: bool) -> Result<(), Failure> {
    let folder = data_path.join(BACKLOG_FOLDER);
    let found = std::fs::metadata(&folder);
    found.map_err(Failure::io(format!("looking at {}", folder.display())))?;
    let mut dump = Dump {
        with_bodies,
        damaged_files: 0,
        out: BufWriter::new(io::stdout().lock()),
    };
    match dump.folder(&folder) {
        // Whoever reads has read enough.
        Err(Failure::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        dumped => dumped,
    }
}

/// A dump under way.
struct Dump<W: Write> {
    with_bodies: bool,
    damaged_files: usize,
    out: BufWriter<W>,
}

impl<W: Write> Dump<W> {
    fn folder(&mut self, folder: &Path) -> Result<(), Failure> {
        // Nothing is written, so the seeds are of no use.
        let (mut shelf, opened) = Shelf::open(Untouched(Folder::open(folder)?), SEGMENTS, 0)?;
        let logged = match folder.join(LOGS_FOLDER) {
            logs if logs.exists() => self.logs(&logs)?,
            _ => LogsOpened::default(),
        };
        for (owner, segments) in &opened.owners {
            let mut logs = logged.topics.iter();
            let log = logs.find(|log| log.topic == owner.topic);
            // What is in segments is in the log as well.
            if log.is_some_and(|log| log.is_whole) {
                continue;
            }
            let queues = log.into_iter().flat_map(|log| &log.queues);
            let own = queues.filter(|(channel, _)| *channel == owner.channel);
            let known: BTreeSet<u64> = own
                .flat_map(|(_, waiting)| waiting.iter().map(|each| each.id))
                .collect();
            for segment in segments {
                let contents = shelf.read(owner, segment.number)?;
                let messages = contents.messages();
                for message in messages.filter(|message| !known.contains(&message.id)) {
                    self.message(owner, &message)?;
                }
            }
        }
        for report in opened.reports.iter().chain(&logged.reports) {
            self.report(report)?;
        }
        self.out.flush().map_err(written())?;
        match self.damaged_files {
            0 => Ok(()),
            files => Err(Failure::Damaged { files }),
        }
    }

    fn logs(&mut self, folder: &Path) -> Result<LogsOpened, Failure> {
        let (mut logs, logged) = Logs::open(Untouched(Folder::open(folder)?), LOGS, 0)?;
        for log in &logged.topics {
            for (channel, waiting) in &log.queues {
                let owner = Owner {
                    topic: log.topic.clone(),
                    channel: channel.clone(),
                };
                for each in waiting {
                    let (read, _) = logs.read(&log.topic, channel.as_ref(), &[each.id])?;
                    for (read, message) in
                        read.iter().filter_map(|read| Some((read, read.message()?)))
                    {
                        let mut message = Message {
                            attempts: read.standing.attempts,
                            ..message
                        };
                        if read.standing.due_ns > 0 {
                            message.stamps.due_ns = read.standing.due_ns;
                        }
                        self.message(&owner, &message)?;
                    }
                }
            }
        }
        Ok(logged)
    }

    fn message(&mut self, owner: &Owner, message: &Message<'_>) -> Result<(), Failure> {
        let stamps = &message.stamps;
        self.line(&MessageLine {
            topic: owner.topic.as_str(),
            channel: owner.channel.as_ref().map(wire::ChannelName::as_str),
            id: String::from_utf8_lossy(&MessageId::from_u64(message.id).0).into_owned(),
            timestamp_ns: stamps.published_ns,
            attempts: message.attempts,
            // What is not deferred is due when it is read.
            deferred_until_ns: (stamps.due_ns > stamps.read_ns).then_some(stamps.due_ns),
            body_bytes: message.body.len(),
            body: self.with_bodies.then(|| STANDARD.encode(message.body)),
        })
    }

    /// What a kill leaves behind is told, and is no damage.
    fn report(&mut self, report: &FileReport) -> Result<(), Failure> {
        let file = &*report.file;
        let damages = report.damages.iter().map(|damage| (damage, "damaged"));
        let cut = report
            .cut
            .iter()
            .map(|damage| (damage, "not written whole"));
        for (damage, what) in damages.chain(cut) {
            self.line(&DamageLine {
                file,
                offset: Some(damage.offset),
                bytes: Some(damage.bytes),
                damage: what,
            })?;
        }
        let missing = report.messages_missing;
        let missing = (missing > 0).then(|| format!("{missing} messages are missing"));
        let nobodys = report
            .is_nobodys
            .then(|| String::from("nobody knows whose it is"));
        let whole = [missing, nobodys, report.failure.clone()];
        for damage in whole.iter().flatten() {
            self.line(&DamageLine {
                file,
                offset: None,
                bytes: None,
                damage,
            })?;
        }
        let is_damaged = !report.damages.is_empty() || whole.iter().any(Option::is_some);
        self.damaged_files += usize::from(is_damaged);
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), Failure> {
        let out = &mut self.out;
        let rendered = serde_json::to_writer(&mut *out, line).map_err(io::Error::from);
        let line = rendered.and_then(|()| out.write_all(b"\n"));
        line.map_err(written())
    }
}

fn written() -> impl FnOnce(io::Error) -> Failure {
    Failure::io(String::from("writing what was found"))
}
