//! io_uring as a way to make many reads and writes of TUN devices in one system call.
//!
//! Every request says RWF_NOWAIT. So the kernel carries it out within the call that submits it, or
//! returns EAGAIN there and then: none is handed to a worker, none waits for its device. That keeps
//! packets in order, and nothing is under way when [`Ring::carry`] returns.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::io::Errno;

use super::carrier::{Transfer, Way};
use super::tun::Tun;
use crate::slots::{SLOT_BYTES, Slots};

/// The most requests that are submitted at once.
const REQUESTS_MAX: usize = 128;

/// A ring of io_uring for transfers of packets.
pub(crate) struct Ring {
    ring: IoUring,
}

/// Why a ring stopped: the system refused to go on.
#[derive(Debug)]
pub(crate) struct RingFailed {
    /// Transfers from the first that have their outcomes; the others were not begun.
    pub(crate) done: usize,
    pub(crate) source: io::Error,
}

impl Ring {
    /// Sets a ring up, and tries it with each of `tuns`.
    ///
    /// # Errors
    /// The error of the system: it has no io_uring, forbids it, or cannot use it with a device without waiting.
    pub(crate) fn open(tuns: &[Option<Tun>]) -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder().dontfork().build(REQUESTS_MAX as u32)?;
        let mut known = Probe::new();
        ring.submitter().register_probe(&mut known)?;
        for code in [opcode::Read::CODE, opcode::Write::CODE] {
            if !known.is_supported(code) {
                return Err(io::ErrorKind::Unsupported.into());
            }
        }
        let mut ring = Ring { ring };
        for tun in tuns.iter().flatten() {
            ring.try_with(tun)?;
        }
        Ok(ring)
    }

    /// Carries out `transfers`, and adds the system calls that it took to `calls`.
    ///
    /// # Errors
    /// [`RingFailed`], which says how many transfers have their outcomes.
    pub(crate) fn carry(
        &mut self,
        tuns: &[Option<Tun>],
        slots: &mut Slots,
        transfers: &mut [Transfer],
        calls: &mut u64,
    ) -> Result<(), RingFailed> {
        let starts = slots.starts();
        let mut done = 0;
        for transfers in transfers.chunks_mut(REQUESTS_MAX) {
            let mut queue = self.ring.submission();
            for (number, transfer) in transfers.iter().enumerate() {
                let request = request(tuns, &starts, transfer).user_data(number as u64);
                // SAFETY: `starts` gives slots only, which have SLOT_BYTES each. They stay where they are, and nobody else
                // uses them, while `slots` is borrowed here, and `settle` returns only when all that was submitted has its
                // outcome.
                let pushed = unsafe { queue.push(&request) };
                debug_assert!(pushed.is_ok());
            }
            drop(queue);
            let settled = self.settle(transfers.len(), calls, |entry| {
                let transfer = usize::try_from(entry.user_data());
                if let Some(transfer) = transfer.ok().and_then(|at| transfers.get_mut(at)) {
                    transfer.outcome = outcome(entry.result());
                }
            });
            settled.map_err(|(settled, source)| RingFailed {
                done: done + settled,
                source,
            })?;
            done += transfers.len();
        }
        Ok(())
    }

    /// Puts something else in the place of its descriptor, so that the system refuses whatever it asks for.
    #[cfg(test)]
    pub(super) fn spoil(&self) {
        let other = std::fs::File::open("/dev/null").expect("a file");
        // SAFETY: both are descriptors, and the ring closes its own whatever it stands for.
        let put = unsafe { libc::dup2(other.as_raw_fd(), self.ring.as_raw_fd()) };
        assert_eq!(put, self.ring.as_raw_fd());
    }

    /// Submits the `count` requests of the queue and gives `each` what became of them. If the system refuses: how many
    /// have their outcomes, and why; none of the others was submitted then.
    fn settle(
        &mut self,
        count: usize,
        calls: &mut u64,
        mut each: impl FnMut(cqueue::Entry),
    ) -> Result<(), (usize, io::Error)> {
        let mut settled = 0;
        loop {
            let unsubmitted = self.ring.submission().len();
            // What is submitted has its outcome by now, see the module. If not, nothing here may be touched: wait.
            let under_way = count - settled - unsubmitted;
            let submitted = self.ring.submit_and_wait(under_way);
            *calls += 1;
            for entry in self.ring.completion() {
                settled += 1;
                each(entry);
            }
            if settled == count {
                return Ok(());
            }
            let unsubmitted = self.ring.submission().len();
            match submitted {
                Err(error)
                    if error.kind() != io::ErrorKind::Interrupted
                        && settled + unsubmitted == count =>
                {
                    return Err((settled, error));
                }
                _ => {}
            }
        }
    }

    /// Whether `tun` can be read without waiting: asks for no bytes, which takes no packet away.
    fn try_with(&mut self, tun: &Tun) -> io::Result<()> {
        let nothing = std::ptr::dangling_mut();
        let request = opcode::Read::new(types::Fd(tun.as_raw_fd()), nothing, 0);
        let request = request.rw_flags(libc::RWF_NOWAIT).build();
        // SAFETY: no byte is written to where the pointer points.
        let pushed = unsafe { self.ring.submission().push(&request) };
        debug_assert!(pushed.is_ok());
        let mut result = 0;
        self.settle(1, &mut 0, |entry| result = entry.result())
            .map_err(|(_, error)| error)?;
        match outcome(result) {
            Err(error @ (Errno::OPNOTSUPP | Errno::INVAL)) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

/// The request to the kernel for a transfer. For a device that is gone the kernel says that it is none.
fn request(
    tuns: &[Option<Tun>],
    starts: impl Fn(usize) -> *mut u8,
    transfer: &Transfer,
) -> squeue::Entry {
    let tun = tuns.get(transfer.device).and_then(Option::as_ref);
    let device = types::Fd(tun.map_or(-1, AsRawFd::as_raw_fd));
    let slot = starts(transfer.slot);
    match transfer.way {
        Way::Read => opcode::Read::new(device, slot, SLOT_BYTES as u32)
            .rw_flags(libc::RWF_NOWAIT)
            .build(),
        Way::Write(bytes) => opcode::Write::new(device, slot, bytes.min(SLOT_BYTES) as u32)
            .rw_flags(libc::RWF_NOWAIT)
            .build(),
    }
}

fn outcome(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.saturating_neg()))
}
