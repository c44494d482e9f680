//! A connection as a publisher that declared itself (the SRTM extension, part two).

use std::sync::Arc;
use std::time::Duration;

use clock::Instant;
use link::Declaration;
use wire::TopicName;

/// The shortest time between two notices to a publisher that its messages wait.
const THROTTLED_SPACING: Duration = Duration::from_secs(1);

/// The publisher at the other end of a connection.
#[derive(Debug)]
pub struct DeclaredPublisher {
    /// The topic that it declared.
    pub topic: TopicName,
    /// All that it told; shared with the registry of the topic's reactor.
    pub declaration: Arc<Declaration>,
    throttled_at: Option<Instant>,
}

impl DeclaredPublisher {
    /// What IDENTIFY said.
    #[must_use]
    pub fn new(told: wire::identify::Declaration) -> DeclaredPublisher {
        let declaration = Declaration {
            id: told.id,
            topic: told.topic.as_str().to_owned(),
            group: told.group,
            rate: told.rate,
            batch: told.batch,
        };
        DeclaredPublisher {
            topic: told.topic,
            declaration: Arc::new(declaration),
            throttled_at: None,
        }
    }

    /// Whether it may be told at `now` that its messages wait; if so, it counts as told.
    pub fn may_be_told(&mut self, now: Instant) -> bool {
        let is_due = |at: Instant| now.saturating_since(at) >= THROTTLED_SPACING;
        let may = self.throttled_at.is_none_or(is_due);
        if may {
            self.throttled_at = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_is_told_once_a_second() {
        let told = wire::identify::Declaration {
            id: "s1".into(),
            topic: "t".parse().expect("valid"),
            group: None,
            rate: None,
            batch: 1,
        };
        let mut declared = DeclaredPublisher::new(told);
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let told: Vec<u64> = (5..4000)
            .step_by(5)
            .filter(|&ms| declared.may_be_told(at(ms)))
            .collect();
        assert_eq!(told, [5, 1005, 2005, 3005]);
    }
}
