//! The bounds of a table, over all its topics.

use std::time::Duration;

use super::backlog::BacklogBounds;
use super::queue::Queue;

/// Bounds that all topics of a table share.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Messages a topic's queue and a channel's queue hold each.
    pub mem_queue_size: usize,
    /// Messages of a channel that publishers may delay, and as many that consumers may give back with a delay.
    pub deferred_max: usize,
    /// A channel that nobody has consumed for this long drops its oldest message instead of holding up its topic.
    pub abandoned_after: Duration,
    /// Topics in the table.
    pub topics_max: usize,
    /// Channels of one topic.
    pub channels_max: usize,
    /// What queues may have outside of memory; `None`: nothing. Ephemeral ones have nothing in any case.
    pub backlog: Option<BacklogBounds>,
    /// Consumers of one channel, 0 = no bound.
    pub channel_consumers_max: usize,
}

impl Bounds {
    /// A queue of a topic or a channel.
    pub(super) fn queue<T>(&self, is_ephemeral: bool) -> Queue<T> {
        let backlog = self.backlog.filter(|_| !is_ephemeral);
        Queue::new(self.mem_queue_size, backlog)
    }

    /// Why a durable topic cannot take one of these messages, if so.
    pub(super) fn too_long_to_log<'a>(
        &self,
        mut bodies: impl Iterator<Item = &'a [u8]>,
    ) -> Option<String> {
        let most = self.backlog?.logged_bytes_max;
        let long = bodies.find(|body| body.len() as u64 > most)?.len();
        Some(format!(
            "a message of {long} bytes is too long for a durable topic, which takes {most} at most: allow more with --disk-budget"
        ))
    }

    /// The bounds of what flows from topics to channels. At the end nothing comes in behind it, and no channel holds it up.
    pub(super) fn of_flow(&self, is_ending: bool) -> Bounds {
        match is_ending {
            true => Bounds {
                mem_queue_size: usize::MAX,
                ..*self
            },
            false => *self,
        }
    }
}
