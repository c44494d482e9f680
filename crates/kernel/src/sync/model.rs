//! Loom's atomics, with loads that hide no order of steps.
//!
//! Loom tries another order where two threads' accesses to one atomic collide, but remembers only
//! the last access to each. A thread that loads before it stores thereby hides from loom that
//! another had loaded before, so orders are left out in which the store falls behind the other's
//! load. Where loads [collide](let_loads_collide), they are read-modify-writes of nothing, which
//! collide with everything: more orders are tried, but a load no longer sees old values, as it may
//! in reality. A model has to be checked both ways. Stores are swaps then: loom has no order
//! between a plain store and a read-modify-write of what was there before it, and would bring that
//! back.

use std::cell::Cell;

use loom::sync::atomic::Ordering;

thread_local! {
    static COLLIDES: Cell<bool> = const { Cell::new(false) };
}

/// From now on loads by this thread's models collide with everything, or do not.
pub fn let_loads_collide(collides: bool) {
    COLLIDES.set(collides);
}

macro_rules! atomic {
    ($name:ident, $number:ty) => {
        #[doc = concat!("Loom's `", stringify!($name), "`.")]
        #[derive(Debug)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            pub fn new(value: $number) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            pub fn load(&self, ordering: Ordering) -> $number {
                if COLLIDES.get() {
                    self.0.fetch_add(0, ordering)
                } else {
                    self.0.load(ordering)
                }
            }

            #[allow(dead_code, reason = "not all of them are stored to")]
            pub fn store(&self, value: $number, ordering: Ordering) {
                if COLLIDES.get() {
                    self.0.swap(value, ordering);
                } else {
                    self.0.store(value, ordering);
                }
            }
        }

        impl std::ops::Deref for $name {
            type Target = loom::sync::atomic::$name;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
