//! Why a limiter cannot start or continue.

use std::io;

use crate::config::ConfigError;

/// Why a limiter cannot begin or go on, with what to do where that is known.
#[derive(Debug, thiserror::Error)]
pub enum LimiterError {
    /// The configuration file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file cannot be read or written.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A device cannot be opened.
    #[error("TUN device {name}{}: {what}: {source}{}", within(.netns.as_deref()), tun_advice(source))]
    Tun {
        /// The name of the device.
        name: String,
        /// The network namespace in which it was looked for; `None` for that of the process.
        netns: Option<String>,
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A queue cannot be taken over.
    #[error("NFQUEUE {number}{}: {source}{}", within(.netns.as_deref()), queue_advice(source))]
    Queue {
        /// The number of the queue.
        number: u16,
        /// The network namespace in which it was looked for; `None` for that of the process.
        netns: Option<String>,
        /// The system's answer.
        source: io::Error,
    },
    /// Gossip cannot be set up.
    #[error("gossip: {0}")]
    Gossip(#[from] gossip::GossipError),
    /// The key file has no key.
    #[error("gossip, key_file: {0}")]
    Key(#[from] gossip::KeyError),
    /// There are sites in other processes, and no key to authenticate them.
    #[error(
        "gossip.key_file is missing: write one passphrase into a file, copy it to all sites of gossip.peers and name it \
         in the configuration of each"
    )]
    NoKey,
    /// No device is left to take packets from.
    #[error("every TUN device is gone: the devices or their namespaces were deleted")]
    AllGone,
}

impl LimiterError {
    /// Makes an error of a system call, for `map_err`; `what` names the step.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> LimiterError {
        move |source| LimiterError::Io {
            what: what.into(),
            source,
        }
    }
}

fn within(netns: Option<&str>) -> String {
    netns.map_or(String::new(), |netns| {
        format!(" in network namespace {netns}")
    })
}

fn tun_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (this needs CAP_NET_ADMIN; for another namespace CAP_SYS_ADMIN as well)"
        }
        Some(libc::EBUSY) => " (another process has it open)",
        Some(libc::ENOENT | libc::ENODEV) => {
            " (the TUN driver or the namespace does not exist: see `modprobe tun` and `ip netns list`)"
        }
        Some(libc::EINVAL) => " (a device of this name exists and is not a TUN device)",
        _ => "",
    }
}

fn queue_advice(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            " (this needs CAP_NET_ADMIN, for another namespace CAP_SYS_ADMIN as well; or another process has this queue)"
        }
        Some(libc::EBUSY) => {
            " (another process has this queue: choose another number, or end that one)"
        }
        Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP) => {
            " (the kernel has no nfnetlink_queue: `modprobe nfnetlink_queue`, or use intake = \"tun\"; rules for queues \
             are made by `iptables -j NFQUEUE`, or by `nft ... queue` where the kernel has CONFIG_NFT_QUEUE)"
        }
        Some(libc::ENOENT) => " (no such network namespace: see `ip netns list`)",
        _ => "",
    }
}
