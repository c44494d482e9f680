//! A broker's figures of its tasks: `GET /v1/tasks`.

use std::time::Duration;

use api::{Client, Target};
use kernel::CpuShare;
use serde::Deserialize;
use wire::TopicName;

use super::Question;
use crate::error::Failure;

/// All tasks of a broker.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Figures {
    /// T.
    pub(super) period_us: f64,
    tasks: Vec<TaskFigures>,
}

/// One task: that of a topic, or of what belongs to none. Counts grow from the time that it was made.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TaskFigures {
    topic: Option<String>,
    /// The reactor whose time it has a share of.
    reactor: usize,
    /// That reactor owns the topic: there its messages wait. Elsewhere it has tasks for its publishers.
    home: bool,
    /// The share that it declares.
    cpu_share: Option<f64>,
    /// Its credits of one period.
    allotment_us: f64,
    /// Events that wait or are being served.
    pub(super) queued_events: u64,
    pub(super) served_events: u64,
    /// Time that it was served for.
    used_us: f64,
    /// Sum over all events of the time that they have been there.
    sojourn_us: f64,
    pub(super) unstable: bool,
}

impl Figures {
    /// Asks the broker.
    pub(super) fn read(port: &Client) -> Result<Figures, Failure> {
        Ok(port.get(&Target::new("/v1/tasks"))?)
    }

    /// The task of the topic in question, at its home.
    pub(super) fn task(&self, question: &Question<'_>) -> Result<&TaskFigures, Failure> {
        let name = question.topic.as_str();
        let task = self
            .tasks
            .iter()
            .find(|task| task.home && task.topic.as_deref() == Some(name));
        task.ok_or_else(|| Failure::Api {
            url: question.broker.to_owned(),
            reason: format!("there is no topic {name}; its first message or subscriber creates it"),
        })
    }

    /// What other topics have not declared; a millionth where they have declared the whole.
    pub(super) fn left_for(&self, topic: &TopicName) -> CpuShare {
        let is_ours =
            |task: &&TaskFigures| task.home && task.topic.as_deref() == Some(topic.as_str());
        let reactor = self.tasks.iter().find(is_ours).map(|task| task.reactor);
        let others = self
            .tasks
            .iter()
            .filter(|task| Some(task.reactor) == reactor && !is_ours(task));
        let declared: f64 = others.filter_map(|task| task.cpu_share).sum();
        share_near(1.0 - declared)
    }
}

impl TaskFigures {
    /// Its share; where it declares none what it gets of what others leave.
    pub(super) fn effective_share(&self, period_us: f64) -> CpuShare {
        share_near(self.cpu_share.unwrap_or(self.allotment_us / period_us))
    }

    /// The mean wait of the events that were served since `before`; `None` where there were none.
    pub(super) fn mean_wait_since(&self, before: &TaskFigures) -> Option<Duration> {
        let served = self.served_events.checked_sub(before.served_events)?;
        let stayed_us = self.sojourn_us - before.sojourn_us;
        let used_us = self.used_us - before.used_us;
        // Turns of several events count whole for each of them in the one and once in the other.
        let waited_us = (stayed_us - used_us).max(0.0);
        if served == 0 {
            return None;
        }
        Duration::try_from_secs_f64(waited_us / served as f64 / 1e6).ok()
    }
}

/// The share that is nearest to a number.
fn share_near(value: f64) -> CpuShare {
    const LEAST: f64 = 1e-6;
    CpuShare::new(value.clamp(LEAST, 1.0)).unwrap_or(CpuShare::WHOLE)
}
