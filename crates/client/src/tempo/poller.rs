//! Where the kernel's threads sleep: one epoll set with all sockets of an endpoint, a bell and an
//! alarm clock.
//!
//! There is no network thread. A kernel thread without work sleeps here and is woken by a socket,
//! by an alarm or by a writer of its own process; it posts these events to their tasks and serves
//! them itself. A thread that always has work glances here every [`GLANCE_INTERVAL`], so that load
//! does not shut the network out.
//!
//! Sockets are watched edge-triggered, for everything at once. A [`Watch`] remembers that it has
//! told its task, so a task has at most one event per socket in its inbox; the task calls
//! [`Watching::look`] before it takes what there is, and is told anew of what comes later.
//!
//! It deliberately does not read or write anything, and does not know what a task is.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use clock::Instant;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use slab::Slab;

use super::alarms::{AlarmId, Alarms};
use super::monotonic::now;

/// Interval at which busy threads look for readiness.
pub(super) const GLANCE_INTERVAL: Duration = Duration::from_micros(100);

/// Sockets that one look takes note of; the others are met by the next.
const EVENTS_MAX: usize = 128;

/// The peer has sent its end, or the connection is broken.
const CLOSING: epoll::EventFlags = epoll::EventFlags::RDHUP
    .union(epoll::EventFlags::HUP)
    .union(epoll::EventFlags::ERR);

const BELL: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

thread_local! {
    /// Wakes that the calling thread holds back while it posts what it has found itself.
    static HELD_BACK: Cell<Option<usize>> = const { Cell::new(None) };
}

/// What happened outside a task that the task has to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// Something changed at the socket watched under this key.
    Socket(u32),
    /// The alarm set under this key went off.
    Alarm(u32),
}

/// A target of wake-ups. Must not wait.
pub(super) trait Target: Send + Sync {
    /// Takes note of a signal.
    fn signal(&self, signal: Signal);
}

/// One epoll set, the alarms, and their targets.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// A semaphore: each unit lets one sleeper go.
    bell: OwnedFd,
    alarm: OwnedFd,
    sleepers: AtomicUsize,
    next_glance_ns: AtomicU64,
    watches: RwLock<Slab<Arc<Watch>>>,
    alarms: Mutex<Alarms<(Arc<dyn Target>, u32)>>,
}

/// The target of one socket.
pub(super) struct Watch {
    target: Arc<dyn Target>,
    key: u32,
    is_told: AtomicBool,
    is_closing: AtomicBool,
}

/// Keeps a socket watched. To be dropped before the socket is closed.
pub(super) struct Watching {
    poller: Arc<Poller>,
    index: usize,
    watch: Arc<Watch>,
}

impl Poller {
    /// An epoll set with nothing but its own descriptors in it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new() -> io::Result<Arc<Poller>> {
        let poller = Poller {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: eventfd(
                0,
                EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE,
            )?,
            alarm: timerfd_create(
                TimerfdClockId::Monotonic,
                TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
            )?,
            sleepers: AtomicUsize::new(0),
            next_glance_ns: AtomicU64::new(0),
            watches: RwLock::new(Slab::new()),
            alarms: Mutex::new(Alarms::new()),
        };
        let (data, flags) = (epoll::EventData::new_u64, epoll::EventFlags::IN);
        // While units are left in it, the bell goes on to wake: as many threads as units.
        epoll::add(&poller.epoll, &poller.bell, data(BELL), flags)?;
        // Told once per setting, to one thread.
        let once = flags | epoll::EventFlags::ET;
        epoll::add(&poller.epoll, &poller.alarm, data(ALARM), once)?;
        Ok(Arc::new(poller))
    }

    /// Tells `target` under `key` whenever something changes at `socket`: bytes, room, the end, an error. Its present
    /// state counts as a change.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn watch(
        self: &Arc<Self>,
        socket: impl AsFd,
        target: Arc<dyn Target>,
        key: u32,
    ) -> io::Result<Watching> {
        let watch = Arc::new(Watch {
            target,
            key,
            is_told: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        });
        let mut watches = self.watches.write().unwrap_or_else(PoisonError::into_inner);
        let index = watches.insert(Arc::clone(&watch));
        drop(watches);
        let watching = Watching {
            poller: Arc::clone(self),
            index,
            watch,
        };
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, socket, data, flags)?;
        Ok(watching)
    }

    /// Tells `target` under `key` at `due`, once.
    pub(super) fn set_alarm(&self, due: Instant, target: Arc<dyn Target>, key: u32) -> AlarmId {
        let mut alarms = self.alarms();
        let id = alarms.set(due, (target, key));
        if alarms.next_due() == Some(due) {
            self.wind_up(due);
        }
        id
    }

    /// Calls an alarm off; it may have gone off already.
    pub(super) fn call_off(&self, id: AlarmId) {
        self.alarms().call_off(id);
    }

    /// Sleeps until there is something to do, unless `is_idle` says otherwise.
    fn sleep(&self, is_idle: &dyn Fn() -> bool) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let mut found: &[epoll::Event] = &[];
        if is_idle() {
            found = self.wait(&mut room, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        // The first task that this makes schedulable is for this thread, which is awake.
        self.tell(found, 1);
    }

    /// Waits for readiness. A signal of the system ends the wait with nothing found.
    fn wait<'r>(
        &self,
        room: &'r mut [MaybeUninit<epoll::Event>; EVENTS_MAX],
        timeout: Option<&Timespec>,
    ) -> &'r [epoll::Event] {
        // It fails for a signal alone: the set is ours, the room valid.
        epoll::wait(&self.epoll, room, timeout).map_or(&[], |(found, _)| found)
    }

    /// Tells everybody concerned, and wakes as many sleepers as tasks became schedulable beyond the first `own`.
    fn tell(&self, found: &[epoll::Event], own: usize) {
        if found.is_empty() {
            return;
        }
        HELD_BACK.set(Some(0));
        for event in found {
            match event.data.u64() {
                BELL => {
                    // Another may have taken the unit.
                    let _taken = rustix::io::read(&self.bell, &mut [0; 8]);
                }
                ALARM => self.go_off(),
                index => self.tell_watch(index, event.flags),
            }
        }
        let wakes = HELD_BACK.take().unwrap_or(0);
        self.ring(wakes.saturating_sub(own));
    }

    fn tell_watch(&self, index: u64, flags: epoll::EventFlags) {
        let watches = self.watches.read().unwrap_or_else(PoisonError::into_inner);
        let watch = usize::try_from(index).ok().and_then(|at| watches.get(at));
        let watch = watch.map(Arc::clone);
        drop(watches);
        if let Some(watch) = watch {
            if flags.intersects(CLOSING) {
                watch.is_closing.store(true, Ordering::Release);
            }
            watch.tell();
        }
    }

    /// Tells of all alarms that are due, and winds the clock up for the next.
    fn go_off(&self) {
        let now = now();
        loop {
            let mut alarms = self.alarms();
            let Some((target, key)) = alarms.take_due(now) else {
                if let Some(due) = alarms.next_due() {
                    self.wind_up(due);
                }
                return;
            };
            // The target may set the next one.
            drop(alarms);
            target.signal(Signal::Alarm(key));
        }
    }

    /// Makes the set wake somebody at `due`, or at once where that has passed. Called with the alarms locked, so that
    /// the last setting is the right one.
    fn wind_up(&self, due: Instant) {
        // Zero would call it off.
        let due_ns = due.as_nanos().max(1);
        let setting = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: i64::try_from(due_ns / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: (due_ns % 1_000_000_000) as _,
            },
        };
        // The setting is valid, which is all that the system asks for.
        let _set = timerfd_settime(&self.alarm, TimerfdTimerFlags::ABSTIME, &setting);
    }

    fn ring(&self, wakes: usize) {
        let sleepers = self.sleepers.load(Ordering::SeqCst);
        let units = wakes.min(sleepers) as u64;
        if units > 0 {
            // It fails when 2^64 units are in it, and then everybody wakes.
            let _rung = rustix::io::write(&self.bell, &units.to_ne_bytes());
        }
    }

    fn alarms(&self) -> MutexGuard<'_, Alarms<(Arc<dyn Target>, u32)>> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl kernel::Rest for Poller {
    fn rest(&self, is_idle: &dyn Fn() -> bool) {
        self.sleep(is_idle);
    }

    fn wake(&self) {
        if let Some(wakes) = HELD_BACK.get() {
            HELD_BACK.set(Some(wakes + 1));
            return;
        }
        // What the waker has put in is seen by whoever counts itself a sleeper after this.
        fence(Ordering::SeqCst);
        self.ring(1);
    }

    fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.ring(usize::MAX);
    }

    fn glance(&self) {
        let now = now();
        let due_ns = self.next_glance_ns.load(Ordering::Relaxed);
        if now.as_nanos() < due_ns {
            return;
        }
        let next_ns = (now + GLANCE_INTERVAL).as_nanos();
        let is_ours = self
            .next_glance_ns
            .compare_exchange(due_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if is_ours {
            let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
            let found = self.wait(&mut room, Some(&Timespec::default()));
            self.tell(found, 0);
        }
    }
}

impl Watch {
    fn tell(&self) {
        if !self.is_told.swap(true, Ordering::AcqRel) {
            self.target.signal(Signal::Socket(self.key));
        }
    }
}

impl Watching {
    /// To be called before the task looks at the socket: what comes from now on is told again. Says whether the peer has
    /// sent its end, perhaps behind bytes that are still to be read.
    pub(super) fn look(&self) -> bool {
        // An exchange and not a store: it makes seen what the poller noted before it found the task told already.
        self.watch.is_told.swap(false, Ordering::AcqRel);
        self.watch.is_closing.load(Ordering::Acquire)
    }

    /// Ends the watch of a socket that stays open.
    pub(super) fn end(self, socket: impl AsFd) {
        // It fails for a socket that is not in the set.
        let _absent = epoll::delete(&self.poller.epoll, socket);
    }

    /// Tells the task as the network would: it did not take all there was.
    pub(super) fn tell_again(&self) {
        self.watch.tell();
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watches = self
            .poller
            .watches
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        watches.remove(self.index);
    }
}

#[cfg(test)]
mod tests;
