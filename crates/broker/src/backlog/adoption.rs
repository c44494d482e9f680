//! What queues of a topic have in segments is copied into its log, when that begins.
//!
//! Until the log says that it is whole, segments count: a start that finds such a log does the rest, and takes once what is in both.

use disk::{
    DiskError, Entry, Logged, Logs, LogsOpened, Message, OWN_QUEUE, Opened, Owner, Standing, Step,
    Volume,
};
use wire::ChannelName;

use super::segments::Segments;

/// Copies the segments of a queue that has that number in the log of its topic, but for messages that it has there already.
pub(super) fn adopt<V: Volume>(
    shelf: &mut Segments<V>,
    logs: &mut Logs<V>,
    owner: &Owner,
    queue: u32,
    wall_ns: i64,
) -> Result<(), DiskError> {
    let segments: Vec<u64> = shelf.segments(owner).map(|each| each.number).collect();
    for segment in segments {
        let contents = shelf.read(owner, segment)?;
        let mut messages: Vec<(Message<'_>, Vec<Standing>)> = Vec::new();
        for message in contents.messages() {
            let mut standings = logs.standings(&owner.topic, message.id).to_vec();
            // What has left the topic's own queue is in channels: that its segment is still there means nothing.
            let has_passed = queue == OWN_QUEUE && !standings.is_empty();
            if has_passed || standings.iter().any(|each| each.queue == queue) {
                continue;
            }
            let due_ns = message.stamps.due_ns;
            standings.push(Standing {
                queue,
                attempts: message.attempts,
                due_ns: if due_ns > wall_ns { due_ns } else { 0 },
            });
            messages.push((message, standings));
        }
        let messages = messages.iter();
        let entry = Entry {
            before: &[],
            messages: messages.map(|(message, standings)| (*message, &standings[..])),
            after: &[],
        };
        logs.write_beyond(&owner.topic, entry)?;
    }
    Ok(())
}

/// Makes logs whole whose broker ended before they were.
pub(super) fn finish<V: Volume>(
    shelf: &mut Segments<V>,
    opened: &Opened,
    logs: &mut Logs<V>,
    logged: &mut LogsOpened,
    wall_ns: i64,
) -> Result<(), DiskError> {
    for log in &logged.topics {
        if log.is_whole {
            continue;
        }
        let owners = opened.owners.iter().map(|(owner, _)| owner);
        let mut owners: Vec<&Owner> = owners.filter(|owner| owner.topic == log.topic).collect();
        // The topic's own queue last: what it has passed on is known then.
        owners.sort_by_key(|owner| owner.channel.is_none());
        let channels = numbers(log, &owners);
        let steps = channels.iter().cloned();
        let steps: Vec<Step> = steps
            .map(|(number, name)| Step::Channel(number, name))
            .collect();
        note(logs, log, &steps)?;
        for owner in owners {
            let mut numbers = channels.iter();
            let number = match &owner.channel {
                None => Some(OWN_QUEUE),
                Some(name) => numbers.find(|each| each.1 == *name).map(|each| each.0),
            };
            if let Some(number) = number {
                adopt(shelf, logs, owner, number, wall_ns)?;
            }
        }
        logs.sync(&log.topic)?;
        note(logs, log, &[Step::Whole])?;
        logs.sync(&log.topic)?;
    }
    logged.topics = logs.logged_topics();
    Ok(())
}

/// The channels of a topic with their numbers: those that its log knows, and those of its segments.
fn numbers(log: &Logged, owners: &[&Owner]) -> Vec<(u32, ChannelName)> {
    let mut channels = log.channels.clone();
    for name in owners.iter().filter_map(|owner| owner.channel.as_ref()) {
        if !name.is_ephemeral() && !channels.iter().any(|(_, known)| known == name) {
            let highest = channels.iter().map(|(number, _)| *number).max();
            channels.push((highest.unwrap_or(OWN_QUEUE) + 1, name.clone()));
        }
    }
    channels
}

fn note<V: Volume>(logs: &mut Logs<V>, log: &Logged, steps: &[Step]) -> Result<(), DiskError> {
    let entry = Entry {
        before: steps,
        messages: std::iter::empty(),
        after: &[],
    };
    logs.write(&log.topic, entry)
}
