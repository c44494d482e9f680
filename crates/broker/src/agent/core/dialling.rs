//! Which controller to dial next and when: for ever, with growing pauses.

use std::time::Duration;

use clock::{Xoshiro256PlusPlus, uniform};

use super::controllers::Controllers;
use super::errand::Ended;
use crate::agent::EPOCH_NAME;

/// Pauses between dials double from the first to the second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause after the controller has refused: somebody has to change something first.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Controllers and pauses.
#[derive(Debug)]
pub(super) struct Dialling {
    controllers: Controllers,
    pause: Duration,
    /// That none can be reached was said.
    is_silent: bool,
    random: Xoshiro256PlusPlus,
}

impl Dialling {
    pub(super) fn new(addresses: Vec<String>, seed: u64) -> Dialling {
        Dialling {
            controllers: Controllers::new(addresses),
            pause: SHORTEST_PAUSE,
            is_silent: false,
            random: clock::stream(seed, "dialling"),
        }
    }

    /// Where the next one listens.
    pub(super) fn address(&self) -> &str {
        self.controllers.address()
    }

    /// A link ended, or never stood: the pause before the next is dialled. Between half of it and all, so that brokers that lost
    /// one controller do not come back as one.
    pub(super) fn ended(&mut self, ended: Ended) -> Duration {
        if !self.note(ended) {
            return Duration::ZERO;
        }
        let fraction = uniform(&mut self.random);
        let pause = self.pause.mul_f64(0.5 + 0.5 * fraction);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        pause
    }

    /// Whether there is to be a pause.
    fn note(&mut self, ended: Ended) -> bool {
        let address = self.controllers.address().to_owned();
        match ended {
            Ended::Exiting => false,
            Ended::Refused(reason) => {
                tracing::error!("controller {address} refuses this broker: {reason}");
                self.pause = REFUSED_PAUSE;
                self.controllers.failed()
            }
            Ended::NotYet(reason) => {
                tracing::info!("controller {address} does not take this broker yet: {reason}");
                self.pause = self.pause.min(LONGEST_PAUSE);
                self.controllers.failed()
            }
            Ended::NotLeading(leader) => {
                let at = leader
                    .as_deref()
                    .unwrap_or("an address that it does not know");
                tracing::info!("controller {address} does not lead; the leader is at {at}");
                self.controllers.does_not_lead(leader)
            }
            Ended::Outdated { epoch, latest } => {
                tracing::warn!(
                    "controller {address} gives orders of epoch {epoch}, but epoch {latest} has begun since, so they are not carried out; \
                     if no other controller leads, its store or its clock was set back: then remove {EPOCH_NAME} from the data folder and restart this broker"
                );
                self.controllers.failed()
            }
            Ended::Lost(reason) => {
                tracing::warn!("lost the controller at {address}: {reason}");
                (self.pause, self.is_silent) = (SHORTEST_PAUSE, false);
                self.controllers.lost();
                true
            }
            Ended::Unreachable(reason) => {
                let is_round = self.controllers.failed();
                // Once, not with every attempt of an outage.
                if !self.is_silent {
                    tracing::warn!("cannot reach the controller at {address}: {reason}");
                }
                self.is_silent |= is_round;
                is_round
            }
        }
    }
}
