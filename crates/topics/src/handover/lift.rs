//! The outgoing side: which messages of a queue are lifted, and putting them back.

use std::cmp::Reverse;
use std::time::Duration;

use bytes::Bytes;
use clock::Instant;
use wire::handover::{HANDED_HEAD_BYTES, HANDOVER_MESSAGES_MAX};

use super::{Handed, Lifted};
use crate::channel::{Channel, Deferred, Queued};
use crate::store::Store;
use crate::topic::Topic;

/// Bytes of a batch, unless a single message has more.
const BATCH_BYTES_MAX: usize = 512 * 1024;

impl Topic {
    pub(super) fn is_stranded(&self, store: &Store, patience: Duration, now: Instant) -> bool {
        let first = self.waiting.queue.front();
        self.handing.lifted.is_empty()
            && first.is_some_and(|&first| {
                store.get(first).arrival.read + self.patience(patience) <= now
            })
    }

    /// Messages that nothing takes from here need not be waited for. Those of a topic that is held may yet have to wait for a limit.
    fn patience(&self, patience: Duration) -> Duration {
        let is_stuck = self.paused || self.channels.is_empty();
        match is_stuck && self.awaited.is_none() {
            true => Duration::ZERO,
            false => patience,
        }
    }

    pub(super) fn lift(&mut self, store: &Store, patience: Duration, now: Instant) -> Vec<Handed> {
        if !self.handing.lifted.is_empty() {
            return Vec::new();
        }
        let patience = self.patience(patience);
        let mut load = Load::default();
        while let Some(&message) = self.waiting.queue.front() {
            let since = store.get(message).arrival.read;
            let lifted = Lifted {
                message,
                attempts: 0,
                since,
                due: None,
            };
            if since + patience > now || !load.add(store, lifted, now) {
                break;
            }
            self.waiting.bytes -= store.get(message).body.len() as u64;
            self.waiting.queue.pop_front();
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.forget_head();
        }
        self.handing.lifted = load.lifted;
        load.handed
    }

    pub(super) fn put_back(&mut self, lifted: &[Lifted], store: &Store) {
        for lifted in lifted.iter().rev() {
            self.waiting.bytes += store.get(lifted.message).body.len() as u64;
            self.waiting.queue.push_front(lifted.message);
        }
        if let Some(limiter) = &mut self.limiter {
            limiter.forget_head();
        }
    }
}

impl Channel {
    pub(super) fn is_stranded(&self, patience: Duration, now: Instant) -> bool {
        let patience = self.patience(patience);
        let is_late = |queued: &Queued| queued.since + patience <= now;
        let mut deferred = self.deferred.iter();
        let is_far = |deferred: &Reverse<Deferred>| deferred.0.due >= now + patience;
        !self.name.is_ephemeral()
            && self.handing.lifted.is_empty()
            && (self.queue.front().is_some_and(is_late) || deferred.any(is_far))
    }

    fn patience(&self, patience: Duration) -> Duration {
        match self.consumers.is_empty() || self.paused {
            true => Duration::ZERO,
            false => patience,
        }
    }

    pub(super) fn lift(&mut self, store: &Store, patience: Duration, now: Instant) -> Vec<Handed> {
        if !self.handing.lifted.is_empty() || self.name.is_ephemeral() {
            return Vec::new();
        }
        let patience = self.patience(patience);
        let mut load = Load::default();
        while let Some(&queued) = self.queue.front() {
            let lifted = Lifted {
                message: queued.message,
                attempts: queued.attempts,
                since: queued.since,
                due: None,
            };
            if queued.since + patience > now || !load.add(store, lifted, now) {
                break;
            }
            self.queue.pop_front();
        }
        self.lift_deferred(store, patience, now, &mut load);
        self.handing.lifted = load.lifted;
        load.handed
    }

    /// What would be due within `patience` is left: it is delivered here.
    fn lift_deferred(&mut self, store: &Store, patience: Duration, now: Instant, load: &mut Load) {
        let (mut kept, mut is_full) = (Vec::new(), load.is_full());
        if is_full || self.deferred.is_empty() {
            return;
        }
        for Reverse(deferred) in std::mem::take(&mut self.deferred).into_vec() {
            let lifted = Lifted {
                message: deferred.message,
                attempts: deferred.attempts,
                since: now,
                due: Some(deferred.due),
            };
            let is_far = deferred.due >= now + patience;
            if is_full || !is_far || !load.add(store, lifted, now) {
                is_full |= is_far;
                kept.push(Reverse(deferred));
            } else {
                self.deferred_again -= usize::from(deferred.attempts > 0);
            }
        }
        self.deferred = kept.into();
    }

    pub(super) fn put_back(&mut self, lifted: Vec<Lifted>, now: Instant) -> Option<Instant> {
        let mut wake_at = None;
        for lifted in lifted.into_iter().rev() {
            match lifted.due.filter(|&due| due > now) {
                Some(due) => {
                    let at = self.defer(lifted.message, lifted.attempts, due);
                    wake_at = at.or(wake_at);
                }
                None => self.queue.push_front(Queued {
                    message: lifted.message,
                    attempts: lifted.attempts,
                    since: lifted.since,
                }),
            }
        }
        wake_at
    }
}

/// A batch that is being filled.
#[derive(Default)]
struct Load {
    lifted: Vec<Lifted>,
    handed: Vec<Handed>,
    bytes: usize,
}

impl Load {
    fn is_full(&self) -> bool {
        self.lifted.len() >= HANDOVER_MESSAGES_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    /// Whether there was room for it.
    fn add(&mut self, store: &Store, lifted: Lifted, now: Instant) -> bool {
        let stored = store.get(lifted.message);
        let bytes = stored.body.len() + HANDED_HEAD_BYTES;
        let is_alone = self.lifted.is_empty();
        if self.is_full() || !is_alone && self.bytes + bytes > BATCH_BYTES_MAX {
            return false;
        }
        self.bytes += bytes;
        self.handed.push(Handed {
            published_ns: stored.arrival.wall_ns,
            delay: lifted.due.unwrap_or(stored.due).saturating_since(now),
            attempts: lifted.attempts,
            has_paid: stored.has_paid,
            body: Bytes::copy_from_slice(&stored.body),
        });
        self.lifted.push(lifted);
        true
    }
}
