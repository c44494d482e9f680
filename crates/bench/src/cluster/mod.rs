//! A cluster under load: publishers that follow their placement, a subscriber at every broker,
//! every message counted.
//!
//! [`Run::start`] declares the publishers, connects them and begins to send on two threads;
//! meanwhile the caller does to the cluster what is to be tested, and [`Run::end`] accounts for
//! every message.

mod board;
mod fleet;
mod receiver;
mod sender;

pub use board::{Board, Tally};
pub use fleet::Fleet;
pub use sender::Shared;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::BenchError;
use crate::sys::{monotonic_ns, pause_for};
use crate::workload::Workload;

/// Time for messages that are under way when the publishers have stopped.
const DRAIN: Duration = Duration::from_secs(30);

/// What is sent where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// HTTP address of the controller.
    pub controller: String,
    /// Topic.
    pub topic: String,
    /// Who sends what; its durations do not matter.
    pub workload: Workload,
    /// Messages per second that each publisher says it means to send.
    pub declared_rate: f64,
    /// Whether publishers tell their correlation group.
    pub tells_groups: bool,
    /// Messages of the run at most.
    pub messages_max: usize,
}

/// A run under way.
pub struct Run {
    /// Sent and received messages.
    pub board: Arc<Board>,
    /// The sender's figures of its publishers.
    pub fleet: Arc<Shared>,
    sender: JoinHandle<Result<(), BenchError>>,
    receiver: JoinHandle<Result<(), BenchError>>,
}

impl Run {
    /// Connects everybody and begins to send.
    ///
    /// # Errors
    /// Where publishers cannot be declared or a thread cannot start.
    pub fn start(plan: &Plan) -> Result<Run, BenchError> {
        plan.workload.check()?;
        let board = Arc::new(Board::new(
            plan.workload.publishers as usize,
            plan.messages_max,
        ));
        let fleet = Arc::new(Shared::default());
        let receiver = receiver::spawn(plan.clone(), Arc::clone(&board))?;
        let sender = sender::spawn(plan.clone(), Arc::clone(&board), Arc::clone(&fleet))?;
        Ok(Run {
            board,
            fleet,
            sender,
            receiver,
        })
    }

    /// Waits until `is_done`, at most `at_most`; says whether it came true. Fails when a thread of the run has ended.
    ///
    /// # Errors
    /// [`BenchError`] of a thread that ended.
    pub fn wait(
        &self,
        at_most: Duration,
        mut is_done: impl FnMut() -> bool,
    ) -> Result<bool, BenchError> {
        let end_ns = monotonic_ns() + at_most.as_nanos() as u64;
        while !is_done() {
            if self.sender.is_finished() || self.receiver.is_finished() {
                return Err(BenchError::protocol(
                    "cluster",
                    "a thread of the run ended early",
                ));
            }
            if monotonic_ns() >= end_ns {
                return Ok(false);
            }
            pause_for(Duration::from_millis(20));
        }
        Ok(true)
    }

    /// Stops everybody and waits for nothing that is under way: where messages are dropped, not all come.
    ///
    /// # Errors
    /// What a thread ended with.
    pub fn abandon(self) -> Result<(), BenchError> {
        self.board.is_silent.store(true, Ordering::Relaxed);
        self.board.is_over.store(true, Ordering::Relaxed);
        let received = join(self.receiver);
        join(self.sender).and(received)
    }

    /// Stops the publishers, waits for what is under way, and counts.
    ///
    /// # Errors
    /// What a thread ended with.
    pub fn end(self) -> Result<Tally, BenchError> {
        self.board.is_silent.store(true, Ordering::Relaxed);
        let sent = join(self.sender);
        let end_ns = monotonic_ns() + DRAIN.as_nanos() as u64;
        while self.board.tally().lost > 0 && monotonic_ns() < end_ns {
            pause_for(Duration::from_millis(100));
        }
        // What comes twice may come late.
        pause_for(Duration::from_millis(500));
        self.board.is_over.store(true, Ordering::Relaxed);
        let received = join(self.receiver);
        sent.and(received)?;
        Ok(self.board.tally())
    }
}

fn join(thread: JoinHandle<Result<(), BenchError>>) -> Result<(), BenchError> {
    let panicked = || {
        Err(BenchError::protocol(
            "cluster",
            "a thread of the run panicked",
        ))
    };
    thread.join().unwrap_or_else(|_| panicked())
}
