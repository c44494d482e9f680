//! The atomics and locks that the kernel is built on: those of the standard library, or loom's in a model check.

#[cfg(feature = "loom")]
pub mod model;

#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering, fence},
};
#[cfg(feature = "loom")]
pub(crate) use model::{AtomicU32, AtomicU64, AtomicUsize};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

/// A number that the owner of a task writes and anybody may read. Ownership is handed over by other means, so this
/// orders nothing; and as nothing is decided by when it is seen, a model check takes it for plain memory.
#[derive(Debug, Default)]
pub(crate) struct Tally(std::sync::atomic::AtomicU64);

impl Tally {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number. Only the owner may do so.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `more`. Only the owner may do so.
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }

    /// Raises the number to `at_least`. Only the owner may do so.
    pub(crate) fn raise(&self, at_least: u64) {
        self.set(self.get().max(at_least));
    }

    /// Takes what has been [added](Tally::add_shared) and leaves zero. Only the owner may do so.
    pub(crate) fn take_shared(&self) -> u64 {
        match self.get() {
            0 => 0,
            _ => self.0.swap(0, Ordering::Relaxed),
        }
    }

    /// Adds `more`, wrapping. Anybody may do so, owner or not.
    pub(crate) fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }
}

/// Takes a lock that is held for a few instructions. A thread that panicked meanwhile left numbers behind, all of them
/// valid, so its poison is none.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Waits for a bell that is rung under the lock of `guard`.
pub(crate) fn wait<'a, T>(bell: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    bell.wait(guard)
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
