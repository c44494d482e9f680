//! Answers of the thread that moves packets to HTTP: all numbers, in slices between turns.
//!
//! Many sites times many classes are many numbers, and packets would wait for them. So a snapshot
//! goes on for [`SLICE`] at the end of a turn, and while there are packets for no more than
//! [`PART`] of the time. There is one at a time; other questions wait in their channel.

use std::time::Duration;

use clock::Instant;
use tokio::sync::oneshot;

use super::Service;
use crate::config::LimitConfig;
use crate::http::{LimitChange, Question, Snapshot, StandingNumbers};
use crate::sys;

/// The length of a slice; its last step may go beyond it.
const SLICE: Duration = Duration::from_micros(20);

/// The most steps of a slice.
pub(super) const STEPS_MAX: usize = 64;

/// The most numbers of sites or classes that a step gathers, which takes about a microsecond.
pub(super) const STEP_NUMBERS: usize = 16;

/// While there are packets, slices take at most 1 / PART of the time.
const PART: u32 = 10;

/// The most questions that are answered in one turn.
const QUESTIONS_PER_TURN: usize = 4;

/// The snapshot that is being made, if one is.
#[derive(Debug, Default)]
pub(super) struct Survey {
    present: Option<(Snapshot, oneshot::Sender<Snapshot>)>,
    /// No slice begins before this instant.
    rests_until: Instant,
}

impl Survey {
    /// Begins a snapshot for `answer`.
    pub(super) fn begin(&mut self, answer: oneshot::Sender<Snapshot>) {
        self.present = Some((Snapshot::default(), answer));
    }

    /// When the next slice is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.present.as_ref().map(|_| self.rests_until)
    }

    #[cfg(test)]
    pub(super) fn gathered(&self) -> usize {
        self.present
            .as_ref()
            .map_or(0, |(snapshot, _)| snapshot.gathered())
    }
}

impl Service {
    /// Answers questions that wait, and goes on with a snapshot for a slice. Who does not wait for the answer any more gets none. `is_busy`:
    /// the turn had packets.
    pub(super) fn answer(&mut self, now: Instant, is_busy: bool) {
        for _ in 0..QUESTIONS_PER_TURN {
            if self.survey.present.is_some() {
                break;
            }
            match self.http.as_ref().and_then(|http| http.next()) {
                None => break,
                Some(Question::Snapshot(answer)) => self.survey.begin(answer),
                Some(Question::SetLimit {
                    class,
                    change,
                    answer,
                }) => {
                    let _ = answer.send(self.set_limit(now, class, change));
                }
            }
        }
        self.survey(is_busy);
    }

    fn survey(&mut self, is_busy: bool) {
        if self.survey.due().is_none() {
            return;
        }
        let began = sys::now();
        if began < self.survey.rests_until {
            return;
        }
        let Some((mut snapshot, answer)) = self.survey.present.take() else {
            return;
        };
        if answer.is_closed() {
            return;
        }
        let mut now = began;
        for _ in 0..STEPS_MAX {
            if !self.gather(&mut snapshot) {
                self.conclude(&mut snapshot);
                let _ = answer.send(snapshot);
                return;
            }
            now = sys::now();
            if now - began >= SLICE {
                break;
            }
        }
        self.survey.present = Some((snapshot, answer));
        self.survey.rests_until = match is_busy {
            true => now + (now - began) * (PART - 1),
            false => now,
        };
    }

    /// Does one step; false if nothing was left to do.
    fn gather(&self, snapshot: &mut Snapshot) -> bool {
        let sites = self.config.site.len();
        let classes = self.config.class.len();
        let (told, all) = (snapshot.standings.len(), sites * classes);
        if told < all {
            snapshot.standings.reserve_exact(all - told);
            let some = told..all.min(told + STEP_NUMBERS);
            snapshot
                .standings
                .extend(some.map(|number| self.standing(number / classes, number % classes)));
            return true;
        }
        let told = snapshot.gossip.len();
        if told < sites {
            for site in told..sites.min(told + STEP_NUMBERS) {
                snapshot.gossip.push(self.gossip.counters(site));
                snapshot.unsent.add(self.gossip.unsent(site));
            }
            return true;
        }
        let told = snapshot.limits.len();
        let some = told..classes.min(told + STEP_NUMBERS);
        let limits = self.config.class[some].iter().map(|class| class.limit);
        snapshot.limits.extend(limits);
        told < classes
    }

    fn standing(&self, site: usize, class: usize) -> StandingNumbers {
        let standing = self.router.standing(site, class);
        StandingNumbers {
            passed: standing.passed(),
            local_limit: standing.local_limit(),
            demand: standing.update().demand(),
            passing: standing.update().passed(),
            connected: standing.connected(),
        }
    }

    /// Adds the numbers of the process as a whole.
    fn conclude(&self, snapshot: &mut Snapshot) {
        snapshot.unsent.add(self.gossip.unsent_by_none());
        snapshot.counters = *self.router.counters();
        snapshot.devices = self.devices.counters();
        snapshot.queues = self.queues.counters();
        snapshot.held = self.router.held();
    }

    fn set_limit(
        &mut self,
        now: Instant,
        class: usize,
        change: LimitChange,
    ) -> Result<LimitConfig, String> {
        let present = self.config.class.get(class).and_then(|class| class.limit);
        let Some(present) = present else {
            return Err("this class has no limit to change: add one in the file".to_owned());
        };
        let limit = LimitConfig {
            rate: change.rate,
            burst_bytes: change.burst_bytes.unwrap_or(present.burst_bytes),
            ..present
        };
        let sharing = self.config.sharing(&limit, class);
        let sharing = sharing.map_err(|error| error.to_string())?;
        let set = self.router.set_limit(now, class, &sharing);
        set.map_err(|error| error.to_string())?;
        self.config.class[class].limit = Some(limit);
        Ok(limit)
    }
}
