//! The system calls of the data path, and nothing else: every `unsafe` block of the broker is here.
//!
//! Wrappers take and return plain values and hold no policy. Linux only: epoll, eventfd and
//! `SO_TIMESTAMPING` have no portable form.
#![allow(unsafe_code)]

mod acks;
mod clock;
mod epoll;
mod heap;
mod prefetch;
mod random;
mod socket;

pub use acks::{AckStamp, Path, enable_ack_stamps, next_ack_stamp, path, send_followed};
pub use clock::{monotonic_now, rest, thread_time, thread_timer_slack_ns, wall_now};
pub use epoll::{Epoll, Event, Interest, Waker};
pub use heap::trim_heap;
pub use prefetch::prefetch;
pub use random::random;
pub use socket::{
    Stream, accept, enable_arrival_stamps, give_up_after, listen, raise_descriptor_limit, recv,
    recv_stamped, send, shutdown_write,
};
