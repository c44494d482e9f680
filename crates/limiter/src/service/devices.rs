//! The TUN devices of a process, in pairs.
//!
//! Packets stay in the slots that they were read into: those that pass wait in the *tray*, in order, and leave with the
//! system call that reads the next ones.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::batch_size::{BATCH_PACKETS_MAX, BatchSize};
use crate::config::Config;
use crate::error::LimiterError;
use crate::router::{Port, Side};
use crate::slots::Slots;
use crate::sys::carrier::{Carrier, Transfer, Way};
use crate::sys::tun::Tun;

/// The slots of a process: one full batch that is written, and one that is read meanwhile.
const SLOTS: usize = 2 * BATCH_PACKETS_MAX;

/// What happened at devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceCounters {
    /// Packets that a device did not take.
    pub(crate) refused: u64,
    /// Pairs that were given up, since a device of theirs was deleted.
    pub(crate) gone: u64,
    /// Packets that were read from devices or written to them.
    pub(crate) moved: u64,
    /// The number of system calls for that.
    pub(crate) calls: u64,
}

/// All pairs of devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    /// The names of the pairs.
    names: Vec<String>,
    /// The devices, in the order of [`place`].
    tuns: Vec<Option<Tun>>,
    batch_sizes: Vec<BatchSize>,
    slots: Slots,
    /// Empty slots; the one that was used last is taken first, as it is still in the processor's cache.
    free: Vec<usize>,
    /// Packets that leave with the next system call.
    tray: Vec<Transfer>,
    /// The packets that came with the last system call: slots and bytes.
    came: Vec<(usize, usize)>,
    carrier: Carrier,
    counters: DeviceCounters,
}

impl Devices {
    pub(super) fn open(config: &Config) -> Result<Devices, LimiterError> {
        let mut tuns = Vec::new();
        for pair in &config.tun {
            tuns.push(Some(Tun::open(&pair.inner, pair.mtu_bytes)?));
            tuns.push(Some(Tun::open(&pair.outer, pair.mtu_bytes)?));
        }
        let names = config.tun.iter();
        let names = names.map(|pair| format!("{} and {}", pair.inner.name, pair.outer.name));
        Devices::of(names.collect(), tuns, config)
    }

    /// Pairs of things that behave as devices do.
    #[cfg(test)]
    pub(super) fn stand_ins(
        pairs: Vec<[std::os::fd::OwnedFd; 2]>,
        config: &Config,
    ) -> Result<Devices, LimiterError> {
        let names = pairs.iter().map(|_| "stand-ins".to_owned()).collect();
        let tuns = pairs.into_iter().flatten();
        let tuns = tuns.map(|descriptor| Some(Tun::from_descriptor(descriptor)));
        Devices::of(names, tuns.collect(), config)
    }

    fn of(
        names: Vec<String>,
        tuns: Vec<Option<Tun>>,
        config: &Config,
    ) -> Result<Devices, LimiterError> {
        let slots = Slots::new(SLOTS);
        Ok(Devices {
            names,
            batch_sizes: vec![BatchSize::default(); tuns.len()],
            free: (0..slots.count()).collect(),
            slots,
            tray: Vec::with_capacity(SLOTS),
            came: Vec::with_capacity(BATCH_PACKETS_MAX),
            carrier: Carrier::open(config.io, &tuns)?,
            tuns,
            counters: DeviceCounters::default(),
        })
    }

    /// All devices, with their tokens, which count from 1.
    pub(super) fn each(&self) -> impl Iterator<Item = (u64, BorrowedFd<'_>)> {
        let tuns = (1..).zip(&self.tuns);
        tuns.filter_map(|(token, tun)| Some((token, tun.as_ref()?.as_fd())))
    }

    /// Takes at most `most` packets of the device of `token`; those that `judge` lets pass leave by the other one of its pair.
    pub(super) fn drain(
        &mut self,
        token: u64,
        most: usize,
        mut judge: impl FnMut(Port, &[u8]) -> bool,
    ) {
        let Some(from) = token.checked_sub(1).and_then(port) else {
            return;
        };
        let Some(mut asked) = self.batch_sizes.get(place(from)).map(|of| of.first()) else {
            return;
        };
        let mut taken = 0;
        while taken < most {
            asked = asked.min(most - taken);
            self.exchange(from, asked);
            let came = std::mem::take(&mut self.came);
            for (slot, bytes) in &came {
                if judge(from, &self.slots.get(*slot)[..*bytes]) {
                    self.put_on_tray(from.other(), *slot, *bytes);
                } else {
                    self.free.push(*slot);
                }
            }
            taken += came.len();
            let all_came = came.len() == asked;
            self.came = came;
            if !all_came {
                break;
            }
            asked = BatchSize::more(asked);
        }
        self.batch_sizes[place(from)].end(taken);
    }

    /// Lets a copy of `packet` leave by `port`.
    pub(super) fn send(&mut self, port: Port, packet: &[u8]) {
        if self.free.is_empty() {
            self.flush();
        }
        let Some(slot) = self.free.pop() else {
            self.counters.refused += 1;
            return;
        };
        match self.slots.get_mut(slot).get_mut(..packet.len()) {
            Some(room) => {
                room.copy_from_slice(packet);
                self.put_on_tray(port, slot, packet.len());
            }
            None => self.free.push(slot),
        }
    }

    /// Lets what waits leave.
    pub(super) fn flush(&mut self) {
        if !self.tray.is_empty() {
            self.carry();
        }
    }

    pub(super) fn all_gone(&self) -> bool {
        self.tuns.iter().all(Option::is_none)
    }

    pub(super) const fn counters(&self) -> DeviceCounters {
        self.counters
    }

    /// Lets what waits leave, and asks `from` for so many packets. They are in `came` then.
    fn exchange(&mut self, from: Port, asked: usize) {
        if self.free.len() < asked {
            self.flush();
        }
        let first = self.free.len().saturating_sub(asked);
        let slots = self.free.drain(first..).rev();
        self.tray
            .extend(slots.map(|slot| Transfer::read(place(from), slot)));
        self.carry();
    }

    /// Carries out the transfers on the tray.
    fn carry(&mut self) {
        self.came.clear();
        let carrier = &mut self.carrier;
        self.counters.calls += carrier.carry(&self.tuns, &mut self.slots, &mut self.tray);
        let mut tray = std::mem::take(&mut self.tray);
        // Backwards, so that slots are taken in the same order again.
        for transfer in tray.iter().rev() {
            match transfer.outcome {
                Ok(bytes) if transfer.way == Way::Read && bytes > 0 => continue,
                _ => self.free.push(transfer.slot),
            }
        }
        for transfer in tray.drain(..) {
            match (transfer.way, transfer.outcome) {
                // No packet is empty: a device that says so is not there any more.
                (Way::Read, Ok(0)) => self.failed(transfer.device, Errno::NODEV),
                (Way::Read, Ok(bytes)) => {
                    self.counters.moved += 1;
                    self.came.push((transfer.slot, bytes));
                }
                (Way::Write(_), Ok(_)) => self.counters.moved += 1,
                (Way::Read, Err(error)) => self.failed(transfer.device, error),
                (Way::Write(_), Err(error)) => {
                    self.counters.refused += 1;
                    self.failed(transfer.device, error);
                }
            }
        }
        self.tray = tray;
    }

    /// A pair that was given up takes nothing any more.
    fn put_on_tray(&mut self, port: Port, slot: usize, bytes: usize) {
        let device = place(port);
        if matches!(self.tuns.get(device), Some(Some(_))) {
            self.tray.push(Transfer::write(device, slot, bytes));
        } else {
            self.free.push(slot);
        }
    }

    /// Gives a pair up whose device was deleted: closing it ends its events too. Everything else passes.
    fn failed(&mut self, device: usize, error: Errno) {
        if !matches!(error, Errno::BADFD | Errno::NODEV | Errno::BADF) {
            return;
        }
        let first = device - device % 2;
        let pair = self.tuns.get_mut(first..first + 2).unwrap_or_default();
        let were_there = pair.iter_mut().filter_map(Option::take).count();
        if were_there > 0 {
            self.counters.gone += 1;
            let name = self.names.get(device / 2).map_or("", String::as_str);
            tracing::error!("TUN devices {name}: gone ({error}); other pairs go on");
        }
    }
}

/// Devices of a pair are neighbours.
const fn place(port: Port) -> usize {
    2 * port.pair
        + match port.side {
            Side::Inner => 0,
            Side::Outer => 1,
        }
}

fn port(place: u64) -> Option<Port> {
    Some(Port {
        pair: usize::try_from(place / 2).ok()?,
        side: if place.is_multiple_of(2) {
            Side::Inner
        } else {
            Side::Outer
        },
    })
}

#[cfg(test)]
mod tests;
