//! What a program has published and the task has not taken yet: one buffer of framed messages,
//! which the task swaps for an empty one.
//!
//! The writer whose message finds the buffer unannounced posts to the task; later writers only
//! append. So under load messages form batches by themselves, and an idle publication sends each
//! message at once. The buffers are reused: in steady state a message allocates nothing.
//!
//! A publication's limit between peers is judged here too, where it drops or rejects; where it
//! delays, the task asks for each message's departure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use announce::SubBucket;
use clock::Instant;
use limit::{Limit, OnExceed};
use wire::announce::TopicId;
use wire::tempo::{MESSAGE_HEADER_BYTES, put_message_header};

use super::{Event, PublicationCounts};
use crate::error::ClientError;
use crate::tempo::inbox::Inbox;
use crate::tempo::options::{OnFull, PublicationOptions};

/// Messages framed back to back.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) messages: u64,
}

/// Between the writers of a publication and its task.
pub(in crate::tempo) struct Outbox {
    state: Mutex<State>,
    /// Told when there is room, when all was written, and when a subscriber was found.
    changed: Condvar,
    options: PublicationOptions,
    body_bytes_max: usize,
    pub(super) tally: Tally,
}

struct State {
    batch: Batch,
    /// The task knows that there is something, or is still busy with what it took.
    is_posted: bool,
    limiter: Option<Limiter>,
    id: TopicId,
    subscribers: usize,
    is_closed: bool,
}

/// A publisher's part of its topic's limit.
struct Limiter {
    limit: Limit,
    part: SubBucket,
    /// No broker does it.
    is_in_force: bool,
    /// A message of more tokens than the burst has been booked, and leaves then.
    booked_for: Option<Instant>,
}

/// Whether the task has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(in crate::tempo) enum Put {
    /// It has: it was idle.
    First,
    /// It knows already.
    Behind,
    /// Nothing was put in: the message was dropped and counted.
    Dropped,
}

/// Counts while they are counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) published: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) unheard: AtomicU64,
    pub(super) dropped_full: AtomicU64,
    pub(super) dropped_behind: AtomicU64,
    pub(super) dropped_limit: AtomicU64,
    pub(super) datagrams_lost: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) losses: AtomicU64,
    pub(super) waits: AtomicU64,
}

impl Outbox {
    pub(in crate::tempo) fn new(
        options: PublicationOptions,
        id: TopicId,
        body_bytes_max: usize,
    ) -> Self {
        Outbox {
            state: Mutex::new(State {
                batch: Batch::default(),
                is_posted: false,
                limiter: None,
                id,
                subscribers: 0,
                is_closed: false,
            }),
            changed: Condvar::new(),
            options,
            body_bytes_max,
            tally: Tally::default(),
        }
    }

    /// The publication's options.
    pub(super) fn options(&self) -> PublicationOptions {
        self.options
    }

    /// Puts a message in. `may_wait` is false on the kernel's own threads, which nobody would free; `now` is asked for
    /// where a limit is to be judged.
    ///
    /// # Errors
    /// [`ClientError::TooLong`], [`ClientError::Full`], [`ClientError::OverLimit`], [`ClientError::Ended`].
    pub(in crate::tempo) fn put(
        &self,
        body: &[u8],
        inbox: &Inbox<Event>,
        may_wait: bool,
        now: impl FnOnce() -> Instant,
    ) -> Result<Put, ClientError> {
        if body.len() > self.body_bytes_max {
            return Err(ClientError::TooLong {
                bytes: body.len(),
                bytes_max: self.body_bytes_max,
            });
        }
        let mut state = self.state();
        while !self.has_room(&state, body.len()) {
            if state.is_closed {
                return Err(ClientError::Ended);
            }
            self.tally.waits.fetch_add(1, Ordering::Relaxed);
            inbox.note_full();
            match self.options.on_full {
                OnFull::Drop => {
                    self.tally.dropped_full.fetch_add(1, Ordering::Relaxed);
                    return Ok(Put::Dropped);
                }
                OnFull::Block if !may_wait => return Err(ClientError::Full),
                OnFull::Block => {
                    let woken = self.changed.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
        if state.is_closed {
            return Err(ClientError::Ended);
        }
        if let Some(verdict) = self.judge(&mut state, body.len(), now) {
            return verdict;
        }
        let id = state.id;
        let length = body.len() as u32;
        put_message_header(&mut state.batch.bytes, id, length);
        state.batch.bytes.extend_from_slice(body);
        state.batch.messages += 1;
        self.tally.published.fetch_add(1, Ordering::Relaxed);
        let is_first = !state.is_posted;
        state.is_posted = true;
        Ok(if is_first { Put::First } else { Put::Behind })
    }

    /// The objection of a limit that does not delay to a message.
    fn judge(
        &self,
        state: &mut State,
        body_bytes: usize,
        now: impl FnOnce() -> Instant,
    ) -> Option<Result<Put, ClientError>> {
        let limiter = state
            .limiter
            .as_mut()
            .filter(|limiter| limiter.is_in_force)?;
        let limit = limiter.limit;
        if limit.on_exceed == OnExceed::Delay || limiter.admits(body_bytes, now()) {
            return None;
        }
        self.tally.dropped_limit.fetch_add(1, Ordering::Relaxed);
        Some(match limit.on_exceed {
            OnExceed::Reject => Err(ClientError::OverLimit { limit }),
            OnExceed::Drop | OnExceed::Delay => Ok(Put::Dropped),
        })
    }

    /// One message always fits an empty buffer.
    fn has_room(&self, state: &State, body_bytes: usize) -> bool {
        let batch = &state.batch;
        batch.messages == 0
            || (batch.messages < self.options.queue_messages as u64
                && batch.bytes.len() + MESSAGE_HEADER_BYTES + body_bytes
                    <= self.options.queue_bytes)
    }

    /// Exchanges `empty` for what is in the buffer. Where that is nothing, the next writer has to tell the task.
    pub(super) fn exchange(&self, empty: &mut Batch) -> bool {
        debug_assert!(empty.bytes.is_empty());
        let mut state = self.state();
        std::mem::swap(&mut state.batch, empty);
        let has_work = empty.messages > 0;
        state.is_posted = has_work;
        drop(state);
        self.changed.notify_all();
        has_work
    }

    /// When a message whose body has `body_bytes` may leave, by a limit that delays; it has its tokens if that is now.
    /// `None` while the publisher may not use the limit at all.
    pub(super) fn departure(&self, body_bytes: usize, now: Instant) -> Option<Instant> {
        match &mut self.state().limiter {
            Some(limiter) if limiter.is_in_force => limiter.departure(body_bytes, now),
            _ => Some(now),
        }
    }

    /// Whether messages that exceed the limit wait.
    pub(super) fn delays(&self) -> bool {
        let limit = self.options.limit;
        limit.is_some_and(|limit| limit.on_exceed == OnExceed::Delay)
    }

    /// Gives the publication its part of the limit, for as long as nobody else enforces it.
    pub(in crate::tempo) fn set_part(&self, part: SubBucket) {
        if let Some(limit) = self.options.limit {
            self.state().limiter = Some(Limiter {
                limit,
                part,
                is_in_force: true,
                booked_for: None,
            });
        }
    }

    /// Says whether the publisher has to keep the limit itself.
    pub(in crate::tempo) fn enforce(&self, is_in_force: bool) {
        if let Some(limiter) = &mut self.state().limiter {
            limiter.is_in_force = is_in_force;
        }
    }

    /// Looks at, or changes, the publication's part of the limit, if it has one.
    pub(in crate::tempo) fn with_part<T>(
        &self,
        look: impl FnOnce(&mut SubBucket) -> T,
    ) -> Option<T> {
        let mut state = self.state();
        state
            .limiter
            .as_mut()
            .map(|limiter| look(&mut limiter.part))
    }

    /// The identifier that messages carry from now on.
    pub(in crate::tempo) fn set_id(&self, id: TopicId) {
        self.state().id = id;
    }

    pub(super) fn set_subscribers(&self, subscribers: usize) {
        self.state().subscribers = subscribers;
        self.changed.notify_all();
    }

    /// Subscribers that messages go to at the moment.
    pub(in crate::tempo) fn subscribers(&self) -> usize {
        self.state().subscribers
    }

    /// Nothing may be put in any more.
    pub(in crate::tempo) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Waits until somebody subscribes; says whether somebody does.
    pub(in crate::tempo) fn wait_for_subscriber(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| state.subscribers > 0)
    }

    /// Waits until all that was put in was written to sockets, dropped or found no subscriber; says whether it was.
    pub(in crate::tempo) fn wait_until_written(&self, timeout: Duration) -> bool {
        self.wait_until(timeout, |state| !state.is_posted)
    }

    fn wait_until(&self, timeout: Duration, is_so: impl Fn(&State) -> bool) -> bool {
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), timeout, |state| !is_so(state))
            .unwrap_or_else(PoisonError::into_inner);
        is_so(&state)
    }

    pub(in crate::tempo) fn counts(&self) -> PublicationCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        PublicationCounts {
            published: read(&tally.published),
            sent: read(&tally.sent),
            unheard: read(&tally.unheard),
            dropped_full: read(&tally.dropped_full),
            dropped_behind: read(&tally.dropped_behind),
            dropped_limit: read(&tally.dropped_limit),
            datagrams_lost: read(&tally.datagrams_lost),
            connects: read(&tally.connects),
            losses: read(&tally.losses),
            waits: read(&tally.waits),
            subscribers: self.subscribers() as u64,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limiter {
    /// Whether a message conforms now; it has its tokens if so.
    fn admits(&mut self, body_bytes: usize, now: Instant) -> bool {
        let cost = self.limit.unit.cost(body_bytes);
        let conforms = self.part.departure(now, cost).is_some_and(|at| at <= now);
        conforms && self.part.take(now, cost).is_some()
    }

    fn departure(&mut self, body_bytes: usize, now: Instant) -> Option<Instant> {
        if let Some(at) = self.booked_for {
            if at <= now {
                self.booked_for = None;
            }
            return Some(at);
        }
        let cost = self.limit.unit.cost(body_bytes);
        let burst = self.part.in_force(now)?.burst;
        let at = self.part.departure(now, cost)?;
        if at <= now {
            self.part.take(now, cost);
        } else if cost > burst.get() {
            // A bucket remembers being full, not for how long: asked again later it would begin to count anew.
            self.booked_for = self.part.take(now, cost);
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests;
