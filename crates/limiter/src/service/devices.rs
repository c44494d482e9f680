//! The TUN devices of a process, in pairs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::config::Config;
use crate::error::LimiterError;
use crate::router::{Port, Side};
use crate::sys::tun::Tun;

/// What happened at devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounters {
    /// Packets that a device did not take.
    pub(crate) refused: u64,
    /// Pairs that are no more.
    pub(crate) gone: u64,
}

/// All pairs; the buffer that packets are read into is theirs too.
#[derive(Debug, Default)]
pub(super) struct Devices {
    pairs: Vec<Option<Pair>>,
    buffer: Vec<u8>,
    read: usize,
    counters: DeviceCounters,
}

#[derive(Debug)]
struct Pair {
    name: String,
    inner: Tun,
    outer: Tun,
}

impl Devices {
    pub(super) fn open(config: &Config) -> Result<Devices, LimiterError> {
        let pairs = config.tun.iter().map(|pair| {
            Ok(Some(Pair {
                name: format!("{} and {}", pair.inner.name, pair.outer.name),
                inner: Tun::open(&pair.inner, pair.mtu_bytes)?,
                outer: Tun::open(&pair.outer, pair.mtu_bytes)?,
            }))
        });
        let pairs = pairs.collect::<Result<_, LimiterError>>()?;
        Ok(Devices::of(pairs))
    }

    /// Pairs of things that behave as devices do.
    #[cfg(test)]
    pub(super) fn stand_ins(pairs: Vec<[std::os::fd::OwnedFd; 2]>) -> Devices {
        let pairs = pairs.into_iter().map(|[inner, outer]| {
            Some(Pair {
                name: "stand-ins".to_owned(),
                inner: Tun::from_descriptor(inner),
                outer: Tun::from_descriptor(outer),
            })
        });
        Devices::of(pairs.collect())
    }

    fn of(pairs: Vec<Option<Pair>>) -> Devices {
        Devices {
            pairs,
            // Any packet that IP knows: one that is cut short could not be told from a broken one.
            buffer: vec![0; 65_536],
            read: 0,
            counters: DeviceCounters::default(),
        }
    }

    /// All devices, with their tokens.
    pub(super) fn each(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        let pairs = self.pairs.iter().enumerate();
        pairs.flat_map(|(number, pair)| {
            let inner = pair
                .iter()
                .map(move |pair| (token(number, Side::Inner), pair.inner.as_fd()));
            let outer = pair
                .iter()
                .map(move |pair| (token(number, Side::Outer), pair.outer.as_fd()));
            inner.chain(outer)
        })
    }

    /// The next packet of the device of `token`, if there is one.
    pub(super) fn read(&mut self, token: u64) -> Option<(Port, &[u8])> {
        let port = port(token)?;
        let pair = self.pairs.get_mut(port.pair)?.as_mut()?;
        match pair.device(port.side).read(&mut self.buffer) {
            // No packet is empty: a device that says so is not there any more.
            Ok(0) => {
                self.failed(port.pair, &io::Error::from_raw_os_error(libc::ENODEV));
                None
            }
            Ok(bytes) => {
                self.read = bytes;
                Some((port, &self.buffer[..bytes]))
            }
            Err(error) => {
                self.failed(port.pair, &error);
                None
            }
        }
    }

    /// Writes the packet that was read last.
    pub(super) fn write_read(&mut self, port: Port) {
        if let Some(pair) = self.pairs.get_mut(port.pair).and_then(Option::as_mut)
            && let Err(error) = pair.device(port.side).write(&self.buffer[..self.read])
        {
            self.counters.refused += 1;
            self.failed(port.pair, &error);
        }
    }

    /// Writes `packet`.
    pub(super) fn write(&mut self, port: Port, packet: &[u8]) {
        if let Some(pair) = self.pairs.get_mut(port.pair).and_then(Option::as_mut)
            && let Err(error) = pair.device(port.side).write(packet)
        {
            self.counters.refused += 1;
            self.failed(port.pair, &error);
        }
    }

    pub(super) fn all_gone(&self) -> bool {
        self.pairs.iter().all(Option::is_none)
    }

    pub(super) const fn counters(&self) -> DeviceCounters {
        self.counters
    }

    /// Gives a pair up whose device was deleted: closing it ends its events too. Everything else passes.
    fn failed(&mut self, number: usize, error: &io::Error) {
        if !matches!(
            error.raw_os_error(),
            Some(libc::EBADFD | libc::ENODEV | libc::EBADF)
        ) {
            return;
        }
        if let Some(pair) = self.pairs[number].take() {
            self.counters.gone += 1;
            tracing::error!(
                "TUN devices {}: gone ({error}); other pairs go on",
                pair.name
            );
        }
    }
}

impl Pair {
    fn device(&mut self, side: Side) -> &mut Tun {
        match side {
            Side::Inner => &mut self.inner,
            Side::Outer => &mut self.outer,
        }
    }
}

/// Tokens count from 1, two per pair.
fn token(pair: usize, side: Side) -> u64 {
    1 + 2 * pair as u64 + u64::from(side == Side::Outer)
}

fn port(token: u64) -> Option<Port> {
    let number = token.checked_sub(1)?;
    Some(Port {
        pair: usize::try_from(number / 2).ok()?,
        side: if number % 2 == 0 {
            Side::Inner
        } else {
            Side::Outer
        },
    })
}
