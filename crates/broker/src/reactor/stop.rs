//! The end of a reactor, and what it tells of channels that are full.

use std::sync::atomic::Ordering;
use std::time::Duration;

use topics::{Full, FullNews, FullNote, Loss};

use super::Reactor;
use crate::connection::{Connection, ConnectionKey};
use crate::sys;

/// A reactor that drains looks so often whether it is done, and the others are.
const DRAIN_CHECK: Duration = Duration::from_millis(5);

/// And so many times as long as that took.
const DRAIN_PART: u32 = 9;

impl Reactor {
    /// Reads no more from publishers and goes on while consumers finish messages, until all reactors have nothing left for
    /// those that are connected, or nobody has finished anything for the drain's time. Gives what is lost.
    pub(super) fn drain(&mut self) -> Vec<Loss> {
        self.door.close();
        self.time.look();
        let patience = self.shared.config.drain_timeout;
        self.topics.table.begin_ending(patience, self.time.now);
        let keys: Vec<ConnectionKey> = self.peers.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            self.peers.hasten_ack(key, self.time.now);
            self.peers.stop_publishing(key);
        }
        self.carry_out_effects();
        let (mut is_counted, mut look_at) = (false, self.time.now);
        while self.shared.drained.load(Ordering::Acquire) < self.shared.inboxes.len() {
            self.turn(Some(DRAIN_CHECK));
            if self.time.now < look_at {
                continue;
            }
            let began = sys::monotonic_now();
            let is_drained = self.is_drained();
            let ended = sys::monotonic_now();
            // Where there are many topics it takes a while: messages go on meanwhile.
            look_at = ended + DRAIN_CHECK.max((ended - began) * DRAIN_PART);
            match (is_counted, is_drained) {
                (false, true) => self.shared.drained.fetch_add(1, Ordering::AcqRel),
                (true, false) => self.shared.drained.fetch_sub(1, Ordering::AcqRel),
                _ => continue,
            };
            is_counted = !is_counted;
        }
        self.post.close();
        self.topics.table.losses()
    }

    fn is_drained(&mut self) -> bool {
        let is_idle = |connection: &Connection| {
            connection.in_transit == 0 && connection.output.unsent().is_empty()
        };
        // Whoever does not read what is sent to it is not waited for any longer than for a consumer.
        let gives_up_at = self.topics.table.gives_up_at();
        self.topics.table.has_ended(self.time.now)
            && (gives_up_at.is_some_and(|at| at <= self.time.now)
                || self.peers.connections.iter().all(|(_, each)| is_idle(each)))
    }
}

/// Logs what became of a full channel.
pub(super) fn log_full(note: FullNote) {
    let FullNote {
        topic,
        channel,
        news,
    } = note;
    match news {
        FullNews::Begins {
            full: Full::Blocks,
            depth,
            ..
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages: publishers wait until it has room; \
             declare on_full drop_oldest if they should not"
        ),
        FullNews::Begins {
            full: Full::DropsOldest,
            depth,
            is_abandoned: true,
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages and has had no consumer for long: its oldest messages are dropped; delete the channel, or declare on_full block if publishers should wait"
        ),
        FullNews::Begins {
            full: Full::DropsOldest,
            depth,
            ..
        } => tracing::warn!(
            "channel {channel} of topic {topic} is full with {depth} messages: its oldest messages are dropped, as declared"
        ),
        FullNews::Ends { lasted, dropped } => tracing::info!(
            "channel {channel} of topic {topic} has room again after {lasted:.1?}; {dropped} messages were dropped"
        ),
    }
}
