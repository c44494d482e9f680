//! Why something heard or assigned is refused.

use wire::TopicName;
use wire::announce::{InstanceId, TopicId};

/// What was refused; nothing changed by it except a counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// An announcement of one's own came back, as multicast does.
    #[error("this is our own announcement")]
    Own,
    /// An announcement that is not newer than the last one of its instance.
    #[error("announcement {sequence} of instance {:016x} is not newer than {latest}", instance.0)]
    Replayed {
        /// Whose.
        instance: InstanceId,
        /// Its number.
        sequence: u32,
        /// The number heard last.
        latest: u32,
    },
    /// A further instance where the directory is full.
    #[error("the directory is full with {instances_max} instances; allow more")]
    Full {
        /// Its bound.
        instances_max: usize,
    },
    /// A service gave out an identifier of those that are hashed.
    #[error("identifier {id} of {topic} has its top bit set, which only hashed ones have")]
    HashedId {
        /// The identifier.
        id: TopicId,
        /// The topic.
        topic: TopicName,
    },
    /// A service gave one identifier to two topics.
    #[error("identifier {id} of {topic} already belongs to {taken_by}")]
    IdTaken {
        /// The identifier.
        id: TopicId,
        /// The topic that came later.
        topic: TopicName,
        /// The topic that has it.
        taken_by: TopicName,
    },
}
