//! A bound on messages under way from a publisher to the subscriber, for runs without a rate.
//!
//! Each publisher has a window of messages; one in eight of a window carries a mark, whose echo
//! says that everything up to it has arrived. So every system is saturated in the same manner and
//! none has to hold what it cannot deliver. An echo is a datagram and may be lost: after a while
//! without one the window begins anew.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use client::echo::{MARK_BYTES, Mark};

use bench::BenchError;
use bench::sys;

/// Marks in a window.
const MARKS_PER_WINDOW: u64 = 8;
/// Silence after which echoes count as lost.
const PATIENCE_NS: u64 = 500_000_000;

/// What a publisher may have under way.
#[derive(Debug)]
pub struct Credit {
    socket: UdpSocket,
    reply_to: SocketAddr,
    account: Account,
    heard_ns: u64,
}

/// The arithmetic of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Account {
    window_messages: u64,
    mark_every: u64,
    sent: u64,
    arrived: u64,
}

impl Credit {
    /// At most `window_messages` under way, at least eight.
    ///
    /// # Errors
    /// When there is no socket for echoes.
    pub fn new(window_messages: u64) -> Result<Self, BenchError> {
        let what = "listen for echoes";
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(BenchError::io(what))?;
        socket.set_nonblocking(true).map_err(BenchError::io(what))?;
        Ok(Self {
            reply_to: socket.local_addr().map_err(BenchError::io(what))?,
            socket,
            account: Account::new(window_messages),
            heard_ns: sys::monotonic_ns(),
        })
    }

    /// Messages, of the `due` ones, that may be sent now.
    ///
    /// # Errors
    /// When the system refuses to read echoes.
    pub fn allowed(&mut self, due: u64) -> Result<u64, BenchError> {
        let mut datagram = [0; MARK_BYTES + 1];
        loop {
            match self.socket.recv(&mut datagram) {
                Ok(bytes) => {
                    if let Some((_, mark)) = Mark::split(&datagram[..bytes]) {
                        self.account.note_arrival(mark.sent_ns);
                        self.heard_ns = sys::monotonic_ns();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(BenchError::io("read echoes")(error)),
            }
        }
        let allowed = self.account.allowed(due);
        if allowed == 0 {
            let now_ns = sys::monotonic_ns();
            if now_ns.saturating_sub(self.heard_ns) > PATIENCE_NS {
                self.account.forgive();
                self.heard_ns = now_ns;
            }
        }
        Ok(allowed)
    }

    /// Counts the next message; gives its mark if it is to carry one, in which its number stands for the time.
    pub fn mark(&mut self) -> Option<Mark> {
        let number = self.account.send()?;
        Some(Mark {
            reply_to: self.reply_to,
            sent_ns: number,
        })
    }
}

impl Account {
    fn new(window_messages: u64) -> Self {
        let window_messages = window_messages.max(MARKS_PER_WINDOW);
        Self {
            window_messages,
            mark_every: window_messages / MARKS_PER_WINDOW,
            sent: 0,
            arrived: 0,
        }
    }

    fn allowed(&self, due: u64) -> u64 {
        let under_way = self.sent - self.arrived;
        due.min(self.window_messages.saturating_sub(under_way))
    }

    /// Counts a message; gives the number of those sent, if it is to be marked.
    fn send(&mut self) -> Option<u64> {
        self.sent += 1;
        self.sent
            .is_multiple_of(self.mark_every)
            .then_some(self.sent)
    }

    fn note_arrival(&mut self, number: u64) {
        if number <= self.sent {
            self.arrived = self.arrived.max(number);
        }
    }

    fn forgive(&mut self) {
        self.arrived = self.sent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_more_than_a_window_is_under_way_and_it_always_goes_on(
            window in 8_u64..5000, echoes in prop::collection::vec(0_usize..8, 1..100)
        ) {
            let mut account = Account::new(window);
            let mut marks = Vec::new();
            for lag in echoes {
                for _ in 0..account.allowed(u64::MAX) {
                    marks.extend(account.send());
                }
                prop_assert_eq!(account.sent - account.arrived, window);
                // A full window has marks whose echo is still to come.
                let due: Vec<u64> = marks.iter().copied().filter(|&number| number > account.arrived).collect();
                prop_assert!(!due.is_empty());
                account.note_arrival(due[lag.min(due.len() - 1)]);
                prop_assert!(account.allowed(1) == 1);
            }
        }
    }

    #[test]
    fn damaged_echoes_give_no_credit() {
        let mut account = Account::new(8);
        assert_eq!(account.send(), Some(1));
        account.note_arrival(u64::MAX);
        assert_eq!(account.allowed(100), 7);
        account.forgive();
        assert_eq!(account.allowed(100), 8);
    }
}
