//! What the service cannot know by itself: the time, secrets, who is at an address, the result of a
//! fit. A process has clocks, sockets and threads for that, a simulation its own.

use std::any::Any;
use std::time::{SystemTime, UNIX_EPOCH};

use clock::Instant;
use link::LinkKey;
use tokio::sync::mpsc;

use super::probe::Prober;
use crate::core::{FitAnswer, FitJob, Probe, ProbeAnswer};
use crate::random::random_bytes;
use crate::{ControlError, LinkProof};

/// Around a [`super::Service`].
pub trait Surroundings: Send {
    /// Time since some instant that never changes.
    fn now(&self) -> Instant;

    /// Milliseconds since 1970.
    fn wall_ms(&self) -> u64;

    /// Something that nobody can guess, as 64 hexadecimal digits; another one with every call.
    ///
    /// # Errors
    /// [`ControlError::Unavailable`] where there is none to be had.
    fn secret(&mut self) -> Result<String, ControlError>;

    /// Finds out who is at an address; the answer comes as [`super::Next::Probed`].
    fn probe(&mut self, probe: Probe);

    /// Computes a fit; the answer comes as [`super::Next::Fitted`].
    fn fit(&mut self, job: Box<FitJob>);

    /// Frees what takes long to be freed.
    fn dispose(&mut self, rubbish: Box<dyn Any + Send>);
}

/// Those of a process: its clocks, and tasks that do what takes long.
pub(super) struct Process {
    started: std::time::Instant,
    prober: Prober,
    probed: mpsc::Sender<(Probe, ProbeAnswer)>,
    fitted: mpsc::Sender<FitAnswer>,
}

impl Process {
    /// Beginning now; brokers prove what `proof` says.
    pub(super) fn new(
        proof: LinkProof,
        probed: mpsc::Sender<(Probe, ProbeAnswer)>,
        fitted: mpsc::Sender<FitAnswer>,
    ) -> Process {
        Process {
            started: now_of_process(),
            prober: Prober::new(proof),
            probed,
            fitted,
        }
    }
}

impl Surroundings for Process {
    fn now(&self) -> Instant {
        let since = now_of_process().saturating_duration_since(self.started);
        Instant::from_nanos(since.as_nanos() as u64)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the shell of the control plane owns its clock"
    )]
    fn wall_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as u64)
    }

    fn secret(&mut self) -> Result<String, ControlError> {
        Ok(LinkKey::new(random_bytes()?).to_hex())
    }

    fn probe(&mut self, probe: Probe) {
        self.prober.ask(probe, self.probed.clone());
    }

    fn fit(&mut self, job: Box<FitJob>) {
        let answers = self.fitted.clone();
        tokio::task::spawn_blocking(move || {
            let _ = answers.blocking_send(job.run());
        });
    }

    fn dispose(&mut self, rubbish: Box<dyn Any + Send>) {
        tokio::task::spawn_blocking(|| drop(rubbish));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the shell of the control plane owns its clock"
)]
fn now_of_process() -> std::time::Instant {
    std::time::Instant::now()
}
