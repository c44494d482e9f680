//! The system calls of the data path, and nothing else: every `unsafe` block of the broker is here.
//!
//! Wrappers take and give plain values; they hold no policy. Linux only: epoll, eventfd and
//! `SO_TIMESTAMPING` have no portable form.
#![allow(unsafe_code)]

mod clock;
mod epoll;
mod prefetch;
mod socket;

pub use clock::{monotonic_now, rest, thread_timer_slack_ns, wall_now};
pub use epoll::{Epoll, Event, Interest, Waker};
pub use prefetch::prefetch;
pub use socket::{
    Received, Stream, accept, enable_arrival_stamps, listen, raise_descriptor_limit, recv,
    recv_stamped, send, shutdown_write,
};
