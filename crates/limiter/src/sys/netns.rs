//! Runs something in another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does `what` with the calling thread in the network namespace that `ip netns` calls `name`, or where it is for `None`.
/// What is opened there stays usable everywhere.
///
/// # Errors
/// The error of the system, or that of `what`. The thread is back in its own namespace in either case.
///
/// # Panics
/// If the way back is barred, which the kernel never does to one who was let in: what would follow would happen in the
/// wrong namespace.
pub(crate) fn within<T>(name: Option<&str>, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(name) = name else {
        return what();
    };
    let network = Some(LinkNameSpaceType::Network);
    let home = File::open("/proc/thread-self/ns/net")?;
    let there = File::open(format!("/run/netns/{name}"))?;
    move_into_link_name_space(there.as_fd(), network)?;
    let done = what();
    if let Err(error) = move_into_link_name_space(home.as_fd(), network) {
        panic!("back from network namespace {name}: {error}");
    }
    done
}
