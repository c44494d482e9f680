//! Changes to topics and channels, for those who have to be told at once.

use link::TopicChange;
use wire::TopicName;

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something became of a topic.
    Changed(TopicName, TopicChange),
    /// A deletion that was ordered is carried out: what was told before it was of the topic or channel that was deleted.
    Followed(TopicName, TopicChange),
    /// A topic is held until somebody says which channels it has.
    Asked(TopicName),
}
