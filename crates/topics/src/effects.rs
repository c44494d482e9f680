//! What the topics ask of the shell that drives them.

use kernel::TaskId;
use wire::{ChannelName, TopicName};

use super::fullness::{FullNews, FullNote};
use super::held::Held;
use super::spill::BacklogOrder;
use super::told::Told;
use super::topic::TopicKey;

/// What the shell has to do after a call; it empties the lists.
#[derive(Debug, Default)]
pub struct Effects {
    /// Connections whose channel is gone.
    pub close: Vec<u64>,
    /// Held publishers whose topic is gone.
    pub orphans: Vec<Held>,
    /// Topics with room again and publishers held.
    pub roomy: Vec<TopicKey>,
    /// Topics that are gone, with their tasks.
    pub ended: Vec<(TopicName, TaskId)>,
    /// Log lines about channels that became full, or have room again.
    pub full: Vec<FullNote>,
    /// Orders about messages outside of memory, to be carried out in this order.
    pub backlog: Vec<BacklogOrder>,
    /// The catalog changed.
    pub catalog_changed: bool,
    /// Changes of topics and channels in their order, for those who are told of them.
    pub told: Vec<Told>,
    /// A topic waits for a share of its limit: its controller is to hear of it soon.
    pub report_wanted: bool,
    /// There is a new limit that brokers share by gossip: its intervals are to be ended.
    pub sharing_began: bool,
}

impl Effects {
    /// Has it logged what became of a full channel, if there is something to say.
    pub(super) fn note_full(
        &mut self,
        topic: &TopicName,
        channel: &ChannelName,
        news: Option<FullNews>,
    ) {
        self.full.extend(news.map(|news| FullNote {
            topic: topic.clone(),
            channel: channel.clone(),
            news,
        }));
    }
}
