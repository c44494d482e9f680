//! Changes to topics and channels on this broker, in order, for the controller or for nsqlookupds.
//!
//! Reactors append to a log; the link (or [`crate::lookupd`]) takes from it. Nothing is logged
//! while nobody listens: a new link first reports everything that is here. A log that is not read
//! in time is mended the same way: when it is full it is thrown away and the link begins anew.
//! Others then do not learn that something was emptied.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use topics::Told;

/// Changes that wait to be told.
const CHANGES_MAX: usize = 4096;

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
pub struct Cut;

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
    pub fn open(&self) {
        let mut log = self.lock();
        log.waiting.clear();
        log.is_cut = false;
        log.is_open = true;
    }

    /// Logs nothing until somebody listens again.
    pub fn close(&self) {
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

    /// Takes what is there; `None`: nothing is.
    #[must_use]
    pub fn take(&self) -> Option<Result<VecDeque<Told>, Cut>> {
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

#[cfg(test)]
mod tests {
    use link::TopicChange;

    use super::*;

    fn told(number: usize) -> Told {
        let topic = format!("t{number}").parse().expect("valid");
        Told::Changed(topic, TopicChange::TopicCreated)
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
