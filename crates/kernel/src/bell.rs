//! Where threads without work rest, and how they are woken.
//!
//! A sleeper makes itself known and only then looks once more whether there is work; a waker puts
//! the work in and only then looks whether anybody is known. Whichever comes later sees the other,
//! so no wake-up is lost, and while all are awake a wake-up costs one look (Tempo, section on
//! sleeping).

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, fence, lock, wait};

/// A place where threads rest. Besides a [`Bell`] it can be one that gathers work itself, as a set of sockets does.
pub trait Rest: Send + Sync {
    /// Sleeps until [`wake`](Rest::wake), unless `is_idle` says otherwise after the sleeper has made itself known. May
    /// return early.
    fn rest(&self, is_idle: &dyn Fn() -> bool);

    /// Wakes one sleeper, if there is one.
    fn wake(&self);

    /// Wakes all sleepers.
    fn wake_all(&self);

    /// Called by a busy thread now and then, so that a place which also gathers work does so under load.
    fn glance(&self) {}
}

/// Sleepers wait on a condition variable.
#[derive(Debug)]
pub struct Bell {
    /// Threads that sleep or are about to. Counted down under the lock only.
    sleepers: AtomicUsize,
    /// Wake-ups that no sleeper has had yet; never more than sleepers.
    rings: Mutex<usize>,
    rung: Condvar,
}

impl Bell {
    /// A bell on which no thread waits.
    #[must_use]
    pub fn new() -> Bell {
        Bell {
            sleepers: AtomicUsize::new(0),
            rings: Mutex::new(0),
            rung: Condvar::new(),
        }
    }

    /// How many threads sleep, or are about to.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.sleepers.load(Ordering::Relaxed)
    }

    fn ring(&self, wakes: usize) {
        // Between the work that was put in and the look at the sleepers, as in `rest` between the sleeper and its look.
        fence(Ordering::SeqCst);
        if self.sleepers() == 0 {
            return;
        }
        let mut rings = lock(&self.rings);
        *rings = rings.saturating_add(wakes).min(self.sleepers());
        if wakes == 1 {
            self.rung.notify_one();
        } else {
            self.rung.notify_all();
        }
    }
}

impl Default for Bell {
    fn default() -> Self {
        Bell::new()
    }
}

impl Rest for Bell {
    fn rest(&self, is_idle: &dyn Fn() -> bool) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_idle = is_idle();
        let mut rings = lock(&self.rings);
        if is_idle {
            while *rings == 0 {
                rings = wait(&self.rung, rings);
            }
            *rings -= 1;
        }
        // Who found work himself takes nobody's wake-up, except that which is for him.
        let others = self.sleepers.fetch_sub(1, Ordering::Relaxed) - 1;
        *rings = (*rings).min(others);
    }

    fn wake(&self) {
        self.ring(1);
    }

    fn wake_all(&self) {
        self.ring(usize::MAX);
    }
}
