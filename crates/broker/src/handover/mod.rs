//! Hands the queues of a drained broker over to others.
//!
//! The controller names the receivers ([`link::ToBroker::HandOver`]). From then on the sender looks
//! every second for messages that nobody here takes, and carries them batch by batch over HTTP to a
//! broker of the list (`POST /v1/handover`). A message leaves this broker once the other has
//! confirmed it. Both ends know the cluster's pass, which the controller gives to each broker, so a
//! stranger cannot put messages past a limit.
//!
//! It does not prevent double delivery when a broker dies after it took a batch and before it
//! confirmed it.

mod carrier;
mod sender;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub use carrier::{
    ANSWER_TIMEOUT, Carriage, LOOK_INTERVAL, Outcome, PATIENCE, Step, Stream, read_batch,
};
pub(crate) use sender::run;

/// What this broker was told about hand-overs, and how many messages went either way.
#[derive(Clone, Debug, Default)]
pub struct HandoverBoard(Arc<Figures>);

#[derive(Debug, Default)]
struct Figures {
    pass: Mutex<Option<String>>,
    /// HTTP addresses of the brokers that take the queues; none: nothing is handed over.
    takers: watch::Sender<Vec<String>>,
    sent: AtomicU64,
    taken: AtomicU64,
}

impl HandoverBoard {
    /// Messages that other brokers have taken.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Messages that came from other brokers.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// A controller that has just said hello has not said yet whether anything is to be handed over.
    pub(crate) fn begin_link(&self) {
        self.set_takers(Vec::new());
    }

    /// The cluster's pass from now on.
    pub(crate) fn set_pass(&self, pass: String) {
        *self.lock() = Some(pass);
    }

    /// To whom queues go from now on; to nobody: they stay.
    pub(crate) fn set_takers(&self, takers: Vec<String>) {
        self.0.takers.send_replace(takers);
    }

    /// Whether `pass` is the cluster's. In a time that tells nothing about it.
    pub(crate) fn admits(&self, pass: &str) -> bool {
        let known = self.lock();
        let Some(known) = known.as_deref() else {
            return false;
        };
        let pairs = known.bytes().zip(pass.bytes());
        let differences = pairs.fold(0, |all, (a, b)| all | (a ^ b));
        known.len() == pass.len() && differences == 0
    }

    pub(crate) fn note_taken(&self, messages: usize) {
        self.0.taken.fetch_add(messages as u64, Ordering::Relaxed);
    }

    fn note_sent(&self, messages: usize) {
        self.0.sent.fetch_add(messages as u64, Ordering::Relaxed);
    }

    fn takers(&self) -> watch::Receiver<Vec<String>> {
        self.0.takers.subscribe()
    }

    fn pass(&self) -> Option<String> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pass_itself_is_admitted() {
        let board = HandoverBoard::default();
        assert!(!board.admits(""), "nobody has one");
        board.set_pass(String::from("secret"));
        for (pass, expected) in [
            ("secret", true),
            ("secreT", false),
            ("secre", false),
            ("secrets", false),
            ("", false),
        ] {
            assert_eq!(board.admits(pass), expected, "{pass}");
        }
    }
}
