//! The blocking driver of one follower.
//!
//! A thread owns the sockets and drives the [`Follower`]; the program's calls put messages into it
//! and wait for room or for acknowledgements. So a publisher that sends nothing for hours still
//! answers heartbeats and moves when it is told to. Connecting and asking the controller block, so
//! each runs in a short-lived thread of its own.

mod service;

use std::fmt;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use clock::Instant;

use self::service::Service;
use super::follower::{Follower, Throttled, Traffic};
use super::options::PlacedOptions;
use crate::error::ClientError;

/// A publisher that goes where the controller places it; see [`crate::placed`] for what it promises.
///
/// ```no_run
/// use client::{PlacedOptions, PlacedPublisher};
///
/// # fn main() -> Result<(), client::ClientError> {
/// let options = PlacedOptions {
///     rate: 10.0,
///     group: Some("hall-7".to_owned()),
///     ..PlacedOptions::new("127.0.0.1:4180", "telemetry", "sensor-1")
/// };
/// let publisher = PlacedPublisher::start(options)?;
/// publisher.publish(b"21.5")?;
/// publisher.close()?;
/// # Ok(())
/// # }
/// ```
pub struct PlacedPublisher {
    shared: Arc<Shared>,
    patience: Option<Duration>,
    thread: Option<JoinHandle<()>>,
}

/// What the program's calls and the thread share.
struct Shared {
    state: Mutex<Guarded>,
    /// Told whenever the follower has heard something.
    changed: Condvar,
    /// A byte here ends the thread's wait.
    waker: UnixStream,
    clock: Clock,
}

/// What the lock between them guards.
struct Guarded {
    follower: Follower,
    /// A byte is on its way to the thread.
    is_woken: bool,
    must_stop: bool,
    /// Why the thread ended by itself.
    failure: Option<String>,
}

impl PlacedPublisher {
    /// Begins to look for a place and returns at once: messages published meanwhile wait in the buffer.
    ///
    /// # Errors
    /// [`ClientError::Name`] and [`ClientError::Declaration`] for what no broker would accept; [`ClientError::Io`]
    /// when the system gives no thread or socket.
    pub fn start(options: PlacedOptions) -> Result<Self, ClientError> {
        let clock = Clock::new();
        let patience = options.patience;
        let follower = Follower::new(options.clone(), clock.seed(&options.id), clock.now())?;
        let (waker, woken) = UnixStream::pair().map_err(ClientError::io("make a socket pair"))?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true)
                .map_err(ClientError::io("make a socket non-blocking"))?;
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(Guarded {
                follower,
                is_woken: false,
                must_stop: false,
                failure: None,
            }),
            changed: Condvar::new(),
            waker,
            clock,
        });
        let service = Service::new(Arc::clone(&shared), options, woken);
        let thread = std::thread::Builder::new()
            .name("placed-publisher".to_owned())
            .spawn(move || service.run())
            .map_err(ClientError::io("start a thread"))?;
        Ok(Self {
            shared,
            patience,
            thread: Some(thread),
        })
    }

    /// Publishes one message; waits while the window is full.
    ///
    /// # Errors
    /// [`ClientError::Empty`]; [`ClientError::Refused`] when a broker refused an *earlier* message for good (told once;
    /// this one was not taken); [`ClientError::NoBroker`] when the patience ended; [`ClientError::NotPlaced`].
    pub fn publish(&self, body: &[u8]) -> Result<(), ClientError> {
        self.publish_when_room(1, body.len(), |follower| follower.publish(body))
    }

    /// Publishes messages in one command: a broker accepts all of them or none.
    ///
    /// # Errors
    /// As [`PlacedPublisher::publish`].
    pub fn publish_batch<B: AsRef<[u8]>>(&self, bodies: &[B]) -> Result<(), ClientError> {
        let bytes = bodies.iter().map(|body| body.as_ref().len()).sum();
        self.publish_when_room(bodies.len(), bytes, |follower| {
            follower.publish_batch(bodies)
        })
    }

    /// Waits until everything published was acknowledged, or refused for good.
    ///
    /// # Errors
    /// As [`PlacedPublisher::publish`]; after [`ClientError::NoBroker`] the messages are still kept and tried.
    pub fn flush(&self) -> Result<(), ClientError> {
        let state = self.wait_until(|follower| follower.unacknowledged() == 0)?;
        drop(state);
        Ok(())
    }

    /// Flushes, then closes the connection.
    ///
    /// # Errors
    /// As [`PlacedPublisher::flush`]; the publisher is closed all the same, and what was not acknowledged is given up.
    /// Dropping a publisher gives it up likewise, without waiting.
    pub fn close(self) -> Result<(), ClientError> {
        self.flush()
    }

    /// Its counts so far.
    pub fn traffic(&self) -> Traffic {
        self.lock().follower.traffic()
    }

    /// Messages published and neither acknowledged nor refused.
    pub fn unacknowledged(&self) -> usize {
        self.lock().follower.unacknowledged()
    }

    /// Address of the broker that gets what is published; `None` while there is none.
    pub fn broker(&self) -> Option<String> {
        self.lock().follower.broker().map(str::to_owned)
    }

    /// The broker's last notice that the topic's limit holds messages back, and how long ago it came.
    pub fn throttled(&self) -> Option<(Throttled, Duration)> {
        let throttled = self.lock().follower.throttled()?;
        Some((throttled, self.shared.clock.now() - throttled.at))
    }

    /// Why it has no broker, or why it lost the last one.
    pub fn trouble(&self) -> String {
        self.lock().follower.trouble().to_owned()
    }

    fn publish_when_room(
        &self,
        messages: usize,
        bytes: usize,
        publish: impl FnOnce(&mut Follower) -> Result<(), ClientError>,
    ) -> Result<(), ClientError> {
        let mut state = self.wait_until(|follower| follower.has_room(messages, bytes))?;
        publish(&mut state.follower)?;
        let must_wake = !state.is_woken && state.follower.has_output();
        state.is_woken |= must_wake;
        drop(state);
        if must_wake {
            self.shared.wake();
        }
        Ok(())
    }

    /// Waits for what the program needs, at most so long without any acknowledgement as the patience says.
    fn wait_until(
        &self,
        is_met: impl Fn(&Follower) -> bool,
    ) -> Result<MutexGuard<'_, Guarded>, ClientError> {
        let mut state = self.lock();
        let mut acknowledged = state.follower.traffic().acknowledged;
        let mut since = self.shared.clock.now();
        loop {
            state.fail_for_good()?;
            if is_met(&state.follower) {
                return Ok(state);
            }
            if state.follower.traffic().acknowledged != acknowledged {
                acknowledged = state.follower.traffic().acknowledged;
                since = self.shared.clock.now();
            }
            let Some(patience) = self.patience else {
                state = self
                    .shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let waited = self.shared.clock.now() - since;
            if waited >= patience {
                return Err(ClientError::NoBroker {
                    waited,
                    reason: state.follower.trouble().to_owned(),
                });
            }
            let timed = self.shared.changed.wait_timeout(state, patience - waited);
            state = timed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.shared.lock()
    }
}

impl fmt::Debug for PlacedPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("PlacedPublisher")
            .field("broker", &state.follower.broker())
            .field("traffic", &state.follower.traffic())
            .finish_non_exhaustive()
    }
}

impl Drop for PlacedPublisher {
    fn drop(&mut self) {
        self.lock().must_stop = true;
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on stderr.
            let _ended = thread.join();
        }
    }
}

impl Guarded {
    /// The error that the program must hear before anything else.
    fn fail_for_good(&mut self) -> Result<(), ClientError> {
        if let Some(refusal) = self.follower.take_refusal() {
            return Err(refusal);
        }
        if let Some(verdict) = self.follower.verdict() {
            return Err(ClientError::NotPlaced(verdict.to_owned()));
        }
        match &self.failure {
            Some(failure) => Err(ClientError::Io {
                what: "serve the connections",
                source: io::Error::other(failure.clone()),
            }),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// A panic in the other thread leaves a follower that is whole: its methods do not unwind halfway.
    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the thread's wait. A full pipe means that it will wake anyway.
    fn wake(&self) {
        let _full_is_as_good = (&self.waker).write(&[1]);
    }
}

/// The monotonic clock of this process.
#[derive(Debug, Clone, Copy)]
struct Clock {
    zero: std::time::Instant,
}

impl Clock {
    fn new() -> Self {
        Self { zero: read_clock() }
    }

    fn now(&self) -> Instant {
        Instant::ZERO + (read_clock() - self.zero)
    }

    /// Differs between publishers of a fleet and between processes.
    fn seed(&self, id: &str) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(id)
    }
}

fn read_clock() -> std::time::Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the driver gives the follower real time"
    )]
    std::time::Instant::now()
}

#[cfg(test)]
mod tests;
