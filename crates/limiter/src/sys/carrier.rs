//! Moves packets between slots and TUN devices, many at a time.
//!
//! Transfers are carried out one after the other, in the order of the list, without waiting for
//! any: in one system call if they are many and io_uring may be used, otherwise with one system
//! call each. Either way the outcomes are the same.

use rustix::io::Errno;

use super::ring::Ring;
use super::tun::Tun;
use crate::config::Io;
use crate::error::LimiterError;
use crate::slots::Slots;

/// The least number of transfers for which a ring is used. With fewer it costs more than it saves in system calls.
const RING_LEAST: usize = 8;

/// The transfer of one packet between a slot and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// The place of the device in the list of all.
    pub(crate) device: usize,
    pub(crate) slot: usize,
    pub(crate) way: Way,
    /// The bytes that were moved, once it has been carried out.
    pub(crate) outcome: Result<usize, Errno>,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the device into the slot.
    Read,
    /// From the slot into the device, so many bytes.
    Write(usize),
}

impl Transfer {
    pub(crate) const fn read(device: usize, slot: usize) -> Transfer {
        Transfer {
            device,
            slot,
            way: Way::Read,
            outcome: Err(Errno::AGAIN),
        }
    }

    pub(crate) const fn write(device: usize, slot: usize, bytes: usize) -> Transfer {
        Transfer {
            device,
            slot,
            way: Way::Write(bytes),
            outcome: Err(Errno::AGAIN),
        }
    }
}

/// Carries out transfers; the module says how.
#[derive(Debug, Default)]
pub(crate) enum Carrier {
    /// One system call per packet.
    #[default]
    Plain,
    /// One system call per list, if the list is not short.
    Ring(Box<Ring>),
}

impl Carrier {
    /// Opens what `io` asks for, if it works with all of `tuns`.
    ///
    /// # Errors
    /// [`LimiterError::Io`] when io_uring is wanted and cannot be had; with [`Io::Auto`] a line is logged instead.
    pub(crate) fn open(io: Io, tuns: &[Option<Tun>]) -> Result<Carrier, LimiterError> {
        if io == Io::Plain {
            return Ok(Carrier::Plain);
        }
        match Ring::open(tuns) {
            Ok(ring) => Ok(Carrier::Ring(Box::new(ring))),
            Err(source) if io == Io::Uring => Err(LimiterError::io(
                "io = \"uring\": setting up io_uring, which containers and kernel.io_uring_disabled may forbid",
            )(source)),
            Err(error) => {
                tracing::warn!("packets go by one system call each: no io_uring here ({error})");
                Ok(Carrier::Plain)
            }
        }
    }

    /// Carries out all of `transfers`, whose devices are places in `tuns`; how many system calls that took.
    pub(crate) fn carry(
        &mut self,
        tuns: &[Option<Tun>],
        slots: &mut Slots,
        transfers: &mut [Transfer],
    ) -> u64 {
        let ring = match self {
            Carrier::Ring(ring) if transfers.len() >= RING_LEAST => ring,
            _ => return carry_plainly(tuns, slots, transfers),
        };
        let mut calls = 0;
        match ring.carry(tuns, slots, transfers, &mut calls) {
            Ok(()) => calls,
            Err(failed) => {
                tracing::warn!(
                    "packets go by one system call each from now on: io_uring failed ({})",
                    failed.source
                );
                *self = Carrier::Plain;
                calls + carry_plainly(tuns, slots, &mut transfers[failed.done..])
            }
        }
    }
}

fn carry_plainly(tuns: &[Option<Tun>], slots: &mut Slots, transfers: &mut [Transfer]) -> u64 {
    let mut calls = 0;
    // A device that had nothing is not asked again: it would cost a call for nothing.
    let mut empty = None;
    for transfer in transfers {
        let Some(Some(tun)) = tuns.get(transfer.device) else {
            transfer.outcome = Err(Errno::BADF);
            continue;
        };
        transfer.outcome = match transfer.way {
            Way::Read if empty == Some(transfer.device) => Err(Errno::AGAIN),
            Way::Read => tun.read(slots.get_mut(transfer.slot)),
            Way::Write(bytes) => tun.write(&slots.get(transfer.slot)[..bytes]),
        };
        calls += u64::from(empty != Some(transfer.device) || transfer.way != Way::Read);
        if transfer.way == Way::Read && transfer.outcome.is_err() {
            empty = Some(transfer.device);
        }
    }
    calls
}

#[cfg(test)]
mod tests;
