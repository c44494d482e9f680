//! The inventory of topics and channels: sent whole when a link begins, then change by change.

use link::{ToController, TopicState};
use topics::Told;

use super::Asked;
use super::errand::Errand;
use super::outbox::Outbox;
use crate::BrokerError;

/// Names in one part of an inventory; at their longest they fill half a message.
const PART_NAMES: usize = 8192;

/// How far that is on the link that stands.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    is_due: bool,
    asked: Asked,
    is_said: bool,
}

impl Inventory {
    /// A link stands.
    pub(super) fn begins(&mut self) {
        self.is_due = true;
    }

    /// It is gone.
    pub(super) fn ends(&mut self) {
        (self.is_due, self.is_said) = (false, false);
        self.asked.ends();
    }

    /// Has stock taken, if that is due.
    pub(super) fn drive(&mut self, outbox: &mut Outbox) {
        if self.is_due && self.asked == Asked::Nothing {
            (self.is_due, self.asked) = (false, Asked::Now);
            outbox.ask(Errand::TakeStock);
        }
    }

    /// Stock was taken. Nobody waits for it where its link is gone.
    ///
    /// # Errors
    /// It could not be.
    pub(super) fn taken(
        &mut self,
        stock: Result<Vec<TopicState>, BrokerError>,
        outbox: &mut Outbox,
    ) -> Result<(), BrokerError> {
        match (self.asked.is_answered(), stock) {
            (true, Ok(topics)) => {
                self.is_said = true;
                parts(topics).into_iter().for_each(|part| outbox.say(part));
                Ok(())
            }
            (true, Err(error)) | (false, Err(error @ BrokerError::Exiting)) => Err(error),
            (false, _) => Ok(()),
        }
    }

    /// Whether changes to topics are to be reported.
    pub(super) fn is_said(&self) -> bool {
        self.is_said
    }
}

/// A change as a message to the controller.
pub(super) fn message_of(told: Told) -> ToController {
    match told {
        Told::Changed(topic, change) => ToController::Changed {
            topic: topic.to_string(),
            change,
        },
        Told::Followed(topic, change) => ToController::Followed {
            topic: topic.to_string(),
            change,
        },
        Told::Asked(topic) => ToController::TopicAsked {
            topic: topic.to_string(),
        },
    }
}

/// An inventory in messages that fit the link; at least one.
fn parts(topics: Vec<TopicState>) -> Vec<ToController> {
    let (mut parts, mut part, mut names) = (Vec::new(), Vec::new(), 0);
    for topic in topics {
        let more = 1 + topic.channels.len();
        if names + more > PART_NAMES && !part.is_empty() {
            parts.push(ToController::Inventory {
                topics: std::mem::take(&mut part),
                is_last: false,
            });
            names = 0;
        }
        names += more;
        part.push(topic);
    }
    parts.push(ToController::Inventory {
        topics: part,
        is_last: true,
    });
    parts
}

#[cfg(test)]
mod tests {
    use link::{ChannelState, encode};

    use super::*;

    #[test]
    fn an_inventory_is_cut_into_messages_that_fit() {
        let channels = |count| {
            let name = |number| format!("{number:064}");
            let state = |number| ChannelState {
                channel: name(number),
                is_paused: true,
            };
            (0..count).map(state).collect()
        };
        let topics: Vec<TopicState> = (0..40)
            .map(|number| TopicState {
                topic: format!("{number:064}"),
                is_paused: true,
                channels: channels(1024),
            })
            .collect();
        let parts = parts(topics.clone());
        let mut said = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            assert!(encode(part).is_ok());
            let ToController::Inventory { topics, is_last } = part else {
                panic!("{part:?}");
            };
            assert_eq!(*is_last, number + 1 == parts.len());
            said.extend(topics.iter().cloned());
        }
        assert_eq!(said, topics);
        assert_eq!(super::parts(Vec::new()).len(), 1, "nothing is said, too");
    }
}
