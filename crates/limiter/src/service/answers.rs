//! What the thread that moves packets answers to HTTP.

use clock::Instant;

use super::Service;
use crate::config::LimitConfig;
use crate::http::{LimitChange, Question, Snapshot, StandingNumbers};

impl Service {
    /// Answers all questions that wait. Who does not wait for the answer any more gets none.
    pub(super) fn answer(&mut self, now: Instant) {
        while let Some(question) = self.http.as_ref().and_then(|http| http.next()) {
            match question {
                Question::Snapshot(answer) => {
                    let _ = answer.send(self.snapshot());
                }
                Question::SetLimit {
                    class,
                    change,
                    answer,
                } => {
                    let _ = answer.send(self.set_limit(now, class, change));
                }
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let sites = self.config.site.len();
        let classes = self.config.class.len();
        let standing = |number: usize| {
            let standing = self.router.standing(number / classes, number % classes);
            StandingNumbers {
                passed: standing.passed(),
                local_limit: standing.local_limit(),
                demand: standing.update().demand(),
                passing: standing.update().passed(),
                connected: standing.connected(),
            }
        };
        Snapshot {
            limits: self.config.class.iter().map(|class| class.limit).collect(),
            standings: (0..sites * classes).map(standing).collect(),
            gossip: (0..sites).map(|site| self.voices.counters(site)).collect(),
            unsent: self.voices.unsent(),
            counters: *self.router.counters(),
            devices: self.devices.counters(),
            queues: self.queues.counters(),
            held: self.router.held(),
        }
    }

    fn set_limit(
        &mut self,
        now: Instant,
        class: usize,
        change: LimitChange,
    ) -> Result<LimitConfig, String> {
        let present = self.config.class.get(class).and_then(|class| class.limit);
        let Some(present) = present else {
            return Err("this class has no limit to change: give it one in the file".to_owned());
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
