//! One line of an announcement: a topic, what the speaker does with it, and under which identifier.
//!
//! The source of the identifier is decided elsewhere; here is only how one follows from a name when
//! nobody gives them out.

use std::fmt;

use crate::TopicName;

/// The four-byte identifier that stands for a topic on the data path.
///
/// Given out by a name service (top bit clear) or hashed from the name (top bit set, [`TopicId::hashed`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

/// What an endpoint does with a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It is able to send messages of it.
    Publisher,
    /// It is ready to take messages of it.
    Subscriber,
}

/// A topic that the speaker publishes or subscribes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its role.
    pub role: Role,
    /// Under which identifier: a subscriber expects it, a publisher sends it.
    pub id: TopicId,
    /// The topic.
    pub topic: TopicName,
    /// The part of the topic's limit that a publisher among peers uses. Always `None` for a subscriber.
    pub held: Option<Held>,
}

/// The part of a topic's limit that one publisher uses, and among whom it reckons the limit divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Tokens per second that it uses at most; 0: it publishes nothing yet.
    pub rate: f32,
    /// Tokens that it uses at once at most; 0 with a rate of 0.
    pub burst: f32,
    /// Publishers of the topic that it knows, itself included.
    pub publishers: u16,
    /// A digest of which those are: equal for equal sets of instances.
    pub members: u32,
}

impl TopicId {
    /// The identifier that `topic` has at its `attempt`-th try, counted from 0, where no service gives them out: the
    /// first four bytes, big-endian, of BLAKE3 over the attempt's byte and the name, with the top bit set.
    #[must_use]
    pub fn hashed(topic: &TopicName, attempt: u8) -> TopicId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[attempt]);
        hasher.update(topic.as_str().as_bytes());
        let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
        TopicId(u32::from_be_bytes([a, b, c, d]) | HASHED)
    }

    /// Whether it was hashed rather than given out.
    #[must_use]
    pub const fn is_hashed(self) -> bool {
        self.0 & HASHED != 0
    }
}

const HASHED: u32 = 1 << 31;

impl fmt::Display for TopicId {
    /// Eight hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}
