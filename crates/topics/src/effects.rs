//! What the topics ask of the shell that drives them.

use kernel::TaskId;
use wire::{ChannelName, TopicName};

use super::fullness::{FullNews, FullNote};
use super::log::{LogAnswer, TopicLog};
use super::spill::BacklogOrder;
use super::told::Told;
use super::topic::TopicKey;
use super::waiting_publishers::WaitingPublisher;

/// Work for the shell after a call; it empties the lists.
#[derive(Debug, Default)]
pub struct Effects {
    /// Connections whose channel is gone.
    pub close: Vec<u64>,
    /// Waiting publishers whose topic is gone.
    pub without_topic: Vec<WaitingPublisher>,
    /// Topics with room again and publishers that wait.
    pub roomy: Vec<TopicKey>,
    /// Topics that are gone, with their tasks.
    pub ended: Vec<(TopicName, TaskId)>,
    /// Log lines about channels that became full, or have room again.
    pub full: Vec<FullNote>,
    /// Orders about messages outside of memory, to be carried out in this order.
    pub backlog: Vec<BacklogOrder>,
    /// Topics with something logged that waits to be [taken](super::TopicTable::take_logged).
    pub logged: Vec<TopicKey>,
    /// Topics that are not durable any more: nobody need wait for what they have accepted.
    pub undurable: Vec<LogAnswer>,
    /// Topics that have no log any more; to be told before what `logged` has.
    pub log_ends: Vec<TopicName>,
    /// The catalog changed.
    pub catalog_changed: bool,
    /// Changes of topics and channels in their order, for those who are told of them.
    pub told: Vec<Told>,
    /// A topic waits for a share of its limit: its controller should hear of it soon.
    pub report_wanted: bool,
    /// There is a new limit that brokers share by gossip: its intervals are to be ended.
    pub sharing_began: bool,
}

impl Effects {
    /// Something was logged of a topic.
    #[inline]
    pub(super) fn note_log(&mut self, key: TopicKey, log: &mut TopicLog) {
        if !std::mem::replace(&mut log.is_listed, true) {
            self.logged.push(key);
        }
    }

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
