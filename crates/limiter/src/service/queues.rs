//! NFQUEUE: the kernel asks about each packet that a rule of its packet filter gives to a queue.
//!
//! Only the heads of packets are copied here. All waiting packets come with one system call, and
//! the answers to them go back with another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use clock::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::config::{Config, OnFailure, Queue};
use crate::error::LimiterError;
use crate::nfqueue::{QueueMessage, QueueSettings, put_verdict, read, take_over};
use crate::router::{Port, Route, Router, Side};
use crate::slots::Slots;
use crate::sys::netlink::{self, DATAGRAMS_MAX, receive_many};

/// Room for the headers of IP and transport, options included.
const COPIED_BYTES: u32 = 128;

/// The time in seconds that the kernel has to answer a request, which it does at once.
const ANSWER_S: i64 = 5;

/// What happened at queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    /// Times that the kernel dropped packets because they were not read in time.
    pub(crate) overruns: u64,
    /// Answers that the kernel did not take, such as those about packets that are gone.
    pub(crate) refused: u64,
}

/// All queues of a process.
#[derive(Debug, Default)]
pub(super) struct Queues {
    queues: Vec<(u16, OwnedFd)>,
    slots: Slots,
    /// The lengths of the datagrams that came last, slot by slot.
    lengths: Vec<usize>,
    verdicts: Vec<u8>,
    counters: QueueCounters,
}

impl Queues {
    /// Takes over the queues that `config` names.
    pub(super) fn open(config: &Config) -> Result<Queues, LimiterError> {
        // The kernel knows nothing of classes: what it cannot ask about passes if that is right for all of them.
        let limits: Vec<_> = config
            .class
            .iter()
            .filter_map(|class| class.limit)
            .collect();
        let fail_open = limits
            .iter()
            .all(|limit| limit.on_failure == OnFailure::Open);
        let queues = config.nfqueue.iter().map(|queue| {
            let socket = open(queue, fail_open).map_err(|source| LimiterError::Queue {
                number: queue.number,
                netns: queue.netns.clone(),
                source,
            })?;
            Ok((queue.number, socket))
        });
        Ok(Queues::of(queues.collect::<Result<_, LimiterError>>()?))
    }

    /// Sockets that speak as the kernel does, with the numbers of their queues.
    fn of(queues: Vec<(u16, OwnedFd)>) -> Queues {
        Queues {
            queues,
            slots: Slots::new(DATAGRAMS_MAX),
            lengths: Vec::with_capacity(DATAGRAMS_MAX),
            verdicts: Vec::new(),
            counters: QueueCounters::default(),
        }
    }

    /// All sockets, in order.
    pub(super) fn each(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.queues.iter().map(|(_, socket)| socket.as_fd())
    }

    /// Judges at most `most` packets of queue `index`.
    pub(super) fn judge(&mut self, now: Instant, index: usize, most: usize, router: &mut Router) {
        let Some((number, socket)) = self.queues.get(index) else {
            return;
        };
        let port = Port {
            pair: index,
            side: Side::Inner,
        };
        self.verdicts.clear();
        match receive_many(socket, &mut self.slots, most, &mut self.lengths) {
            Ok(()) => {}
            Err(error) => {
                // What did come is still there: the next turn takes it.
                let overrun = error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error());
                self.counters.overruns += u64::from(overrun);
                return;
            }
        }
        for (slot, length) in self.lengths.iter().enumerate() {
            let datagram = self.slots.get(slot).get(..*length).unwrap_or_default();
            read(datagram, |message| match message {
                QueueMessage::Packet { id, head, length } => {
                    let route = router.route_head(now, port, head, length);
                    put_verdict(&mut self.verdicts, *number, id, route == Route::Forward);
                }
                QueueMessage::Answer(code) => self.counters.refused += u64::from(code != 0),
                QueueMessage::Other => {}
            });
        }
        if !self.verdicts.is_empty() && send(socket, &self.verdicts, SendFlags::empty()).is_err() {
            self.counters.refused += 1;
        }
    }

    pub(super) const fn counters(&self) -> QueueCounters {
        self.counters
    }
}

fn open(queue: &Queue, fail_open: bool) -> io::Result<OwnedFd> {
    let socket = netlink::open(queue.netns.as_deref())?;
    let settings = QueueSettings {
        number: queue.number,
        copied_bytes: COPIED_BYTES,
        packets: queue.queue_packets,
        fail_open,
    };
    send(&socket, &take_over(settings), SendFlags::empty())?;
    await_answer(&socket)?;
    Ok(socket)
}

/// Waits for the answer to a request.
fn await_answer(socket: &OwnedFd) -> io::Result<()> {
    let longest = Timespec {
        tv_sec: ANSWER_S,
        tv_nsec: 0,
    };
    let mut buffer = [0u8; 8192];
    loop {
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut ready, Some(&longest)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            // A process that was stopped and goes on.
            Err(Errno::INTR) => continue,
            polled => polled?,
        };
        let (_, received) = recv(socket, &mut buffer, RecvFlags::empty())?;
        let mut answered = None;
        read(buffer.get(..received).unwrap_or_default(), |message| {
            if let QueueMessage::Answer(code) = message {
                answered = Some(code);
            }
        });
        match answered {
            Some(0) => return Ok(()),
            Some(code) => return Err(io::Error::from_raw_os_error(code)),
            // A packet came first; it stays with the kernel, which drops it when this process ends.
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
