//! What became of topics and channels here, on its way to the controller, or to nsqlookupds: told at once and in order.
//!
//! Reactors post to a log, the link (or [`crate::lookupd`]) takes from it. Nothing is logged while nobody listens: a link that begins says first
//! what is here, all of it. The same mends a log that was not taken from in time: at its bound it is thrown away and the link
//! begins anew. That something was emptied is not known to others then.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::{ToController, TopicState};
use tokio::sync::{Notify, mpsc};
use topics::Told;

use super::orders::persist;
use super::session::Ended;
use crate::{BrokerError, Handle};

/// Changes that wait to be told.
const CHANGES_MAX: usize = 4096;

/// Names in one part of an inventory; at their longest they fill half a message.
const PART_NAMES: usize = 8192;

/// The changes of all reactors, each reactor's in their order.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog(Arc<Board>);

#[derive(Debug, Default)]
struct Board {
    log: Mutex<Log>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Log {
    is_open: bool,
    /// Some were thrown away.
    is_cut: bool,
    waiting: VecDeque<Told>,
}

/// Changes are missing: they came faster than they were told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cut;

impl ChangeLog {
    /// Takes what a reactor has to tell, and empties `told`.
    pub fn post(&self, told: &mut Vec<Told>) {
        let mut log = self.lock();
        if !log.is_open {
            return told.clear();
        }
        if log.waiting.len() + told.len() > CHANGES_MAX {
            log.waiting.clear();
            log.is_cut = true;
        }
        match log.is_cut {
            true => told.clear(),
            false => log.waiting.extend(told.drain(..)),
        }
        drop(log);
        self.0.news.notify_one();
    }

    /// Logs from here on, beginning with nothing.
    pub(crate) fn open(&self) {
        let mut log = self.lock();
        log.waiting.clear();
        log.is_cut = false;
        log.is_open = true;
    }

    /// Logs nothing until somebody listens again.
    pub(crate) fn close(&self) {
        let mut log = self.lock();
        log.waiting.clear();
        log.is_open = false;
    }

    /// Waits for changes and takes them.
    pub(crate) async fn next(&self) -> Result<VecDeque<Told>, Cut> {
        loop {
            if let Some(taken) = self.take() {
                return taken;
            }
            self.0.news.notified().await;
        }
    }

    fn take(&self) -> Option<Result<VecDeque<Told>, Cut>> {
        let mut log = self.lock();
        if log.is_cut {
            return Some(Err(Cut));
        }
        let is_empty = log.waiting.is_empty();
        (!is_empty).then(|| Ok(std::mem::take(&mut log.waiting)))
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The log for as long as one link listens to it.
pub(super) struct Listening<'a>(&'a Handle);

impl<'a> Listening<'a> {
    /// Begins to listen and says what is here.
    pub(super) async fn begin(
        handle: &'a Handle,
        words: &mpsc::Sender<ToController>,
    ) -> Result<Listening<'a>, Ended> {
        // In this order: what becomes meanwhile is said twice rather than never.
        handle.changes.open();
        let listening = Listening(handle);
        let topics = match persist(|| handle.told().inventory()).await {
            Ok(topics) => topics,
            Err(BrokerError::Exiting) => return Err(Ended::Exiting),
            Err(error) => return Err(Ended::Lost(format!("taking stock: {error}"))),
        };
        for part in parts(topics) {
            if words.send(part).await.is_err() {
                return Err(Ended::Lost(String::from("nobody writes")));
            }
        }
        Ok(listening)
    }

    /// Says what becomes of topics and channels, as it becomes.
    pub(super) async fn tell(&self, words: mpsc::Sender<ToController>) -> Ended {
        loop {
            let Ok(changes) = self.0.changes.next().await else {
                return Ended::Lost(format!(
                    "more than {CHANGES_MAX} changes of topics and channels waited for it"
                ));
            };
            for told in changes {
                let word = match told {
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
                };
                if words.send(word).await.is_err() {
                    return Ended::Lost(String::from("nobody writes"));
                }
            }
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.changes.close();
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
    use link::{ChannelState, TopicChange, encode};

    use super::*;

    fn told(number: usize) -> Told {
        let topic = format!("t{number}").parse().expect("valid");
        Told::Changed(topic, TopicChange::TopicCreated)
    }

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

    #[tokio::test]
    async fn a_log_that_overflows_says_so_and_holds_nothing() {
        let log = ChangeLog::default();
        log.post(&mut vec![told(0)]);
        log.open();
        let mut more = vec![told(1), told(2)];
        log.post(&mut more);
        assert!(more.is_empty());
        assert_eq!(log.next().await, Ok(VecDeque::from([told(1), told(2)])));
        for number in 0..=CHANGES_MAX {
            log.post(&mut vec![told(number)]);
        }
        assert_eq!(log.next().await, Err(Cut));
        log.post(&mut vec![told(3)]);
        assert_eq!(log.next().await, Err(Cut), "until it is begun anew");
        log.open();
        log.post(&mut vec![told(4)]);
        assert_eq!(log.next().await, Ok(VecDeque::from([told(4)])));
    }
}
