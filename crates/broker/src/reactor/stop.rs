//! The end of a reactor.

use std::sync::atomic::Ordering;
use std::time::Duration;

use topics::Loss;

use super::Reactor;
use crate::backlog::Found;
use crate::connection::{Connection, ConnectionKey};
use crate::sys;

/// The interval at which a draining reactor checks whether it and the others are done.
const DRAIN_CHECK: Duration = Duration::from_millis(5);

/// The least pause between two checks where there are many topics, in multiples of the time that a
/// check takes.
const DRAIN_PART: u32 = 9;

impl Reactor {
    /// Reads no more from publishers and goes on while consumers finish messages, until all reactors have nothing left for
    /// those that are connected, or nobody has finished anything for the drain's time. Gives what is lost.
    pub(super) fn drain(&mut self) -> Vec<Loss> {
        self.door.close();
        self.hall.time.look();
        let patience = self.hall.shared.config.drain_timeout;
        self.hall
            .topics
            .table
            .begin_ending(patience, self.hall.time.now);
        let keys: Vec<ConnectionKey> = self
            .hall
            .peers
            .connections
            .iter()
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.hall.peers.hasten_ack(key, self.hall.time.now);
            self.hall.peers.stop_publishing(key);
        }
        self.relay().carry_out_effects();
        let (mut is_counted, mut look_at) = (false, self.hall.time.now);
        while self.hall.shared.drained.load(Ordering::Acquire) < self.hall.shared.inboxes.len() {
            self.turn(Some(DRAIN_CHECK));
            if self.hall.time.now < look_at {
                continue;
            }
            let began = sys::monotonic_now();
            let is_drained = self.is_drained();
            let ended = sys::monotonic_now();
            // Where there are many topics it takes a while: messages go on meanwhile.
            look_at = ended + DRAIN_CHECK.max((ended - began) * DRAIN_PART);
            match (is_counted, is_drained) {
                (false, true) => self.hall.shared.drained.fetch_add(1, Ordering::AcqRel),
                (true, false) => self.hall.shared.drained.fetch_sub(1, Ordering::AcqRel),
                _ => continue,
            };
            is_counted = !is_counted;
        }
        self.hall.post.close();
        self.relay().carry_out_effects();
        self.relay().write_logs();
        let Some(backlog) = &self.backlog else {
            return self.hall.topics.table.losses();
        };
        let table = &mut self.hall.topics.table;
        let unwritten = backlog.unwritten().into_iter();
        let here = unwritten.filter(|(topic, _)| table.find(topic.as_str()).is_some());
        let mut losses: Vec<Loss> = here
            .map(|(topic, queued)| Loss {
                topic,
                channel: None,
                queued,
                deferred: 0,
                in_flight: 0,
            })
            .collect();
        losses.extend(table.save(self.hall.time.now, |order| backlog.save(order)));
        losses
    }

    /// Has queues take up what they had outside when the broker began.
    pub(super) fn restore(&mut self, found: &[Found]) {
        for refusal in self.hall.topics.table.restore_logs() {
            tracing::error!(
                "a topic or a channel of a log is not there until the next start: {refusal}"
            );
        }
        for (queue, segments) in found {
            let restored = self
                .hall
                .topics
                .table
                .restore(queue, segments, self.hall.time.now);
            let messages: usize = segments.iter().map(|each| each.messages).sum();
            match restored {
                Ok(true) => {}
                Ok(false) => {
                    tracing::error!(
                        "{messages} messages of {queue:?} stay on disk: that queue keeps nothing there"
                    );
                }
                Err(refusal) => {
                    tracing::error!(
                        "{messages} messages of {queue:?} stay on disk until the next start: {refusal}"
                    );
                }
            }
        }
        self.hall.topics.table.end_unwanted_logs();
        // No topic is charged with it.
        self.hall.time.look();
    }

    fn is_drained(&mut self) -> bool {
        let is_idle = |connection: &Connection| {
            connection.in_transit == 0 && connection.output.unsent().is_empty()
        };
        // Whoever does not read what is sent to it is not waited for any longer than for a consumer.
        let gives_up_at = self.hall.topics.table.gives_up_at();
        self.hall.topics.table.has_ended(self.hall.time.now)
            && (gives_up_at.is_some_and(|at| at <= self.hall.time.now)
                || self
                    .hall
                    .peers
                    .connections
                    .iter()
                    .all(|(_, each)| is_idle(each)))
    }
}
