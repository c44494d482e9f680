//! A topic's CPU share at a running broker, raised until its events wait no longer than wanted.
//!
//! The broker counts, per topic, the time that events have spent in the kernel and the time for
//! which they were served. By Little's law the mean queue length over the rate is the mean time
//! that an event stays; both are divided by the same time, so it drops out: Δsojourn / Δserved, and
//! that less the service time is the wait. The result holds for the traffic of that time. The
//! topic's former contract is put back when no share is enough, when something fails, and when the
//! command is interrupted.

mod figures;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use api::Client;
use kernel::CpuShare;
use kernel::theory::{Found, Infeasible, ShareSearch, mean_queue_length};
use serde_json::{Value, json};
use wire::TopicName;

use crate::daemon::{self, Signals};
use crate::duration::GoDuration;
use crate::error::Failure;
use crate::servers::{client, of_topic};
use crate::time;
use crate::token_flags::TokenFlags;
use figures::{Figures, TaskFigures};

/// How close the share found is to one that did not hold.
const TOLERANCE: f64 = 0.05;
/// Windows that are measured at most.
const WINDOWS_MAX: u32 = 20;
/// The part of a window that passes under a new share before it is measured.
const SETTLE_PART: u32 = 5;

/// What is to be found out.
pub(super) struct Question<'a> {
    /// The broker's HTTP port.
    pub(super) broker: &'a str,
    /// What is shown there.
    pub(super) token: &'a TokenFlags,
    /// Whose share.
    pub(super) topic: &'a TopicName,
    /// The mean wait that is wanted.
    pub(super) wanted: Duration,
    /// Time that is measured under each share.
    pub(super) window: Duration,
    /// The largest share to try; none: all that others leave.
    pub(super) max_share: Option<CpuShare>,
}

/// A topic that is being calibrated.
struct Trial<'a, P> {
    question: &'a Question<'a>,
    port: Client,
    /// Its contract as it was.
    contract: Value,
    /// The share that was put in force last; none: the former one still is.
    in_force: Option<CpuShare>,
    /// Waits so long; says how long it was, `None` when interrupted.
    pause: P,
    progress: &'a mut dyn Write,
}

/// Calibrates at the broker and prints.
pub(super) fn run(question: &Question<'_>, as_json: bool) -> Result<(), Failure> {
    let interrupted = interruptions()?;
    let pause = |time: Duration| pause(&interrupted, time);
    let outcome = if as_json {
        search(question, pause, &mut io::stderr())?
    } else {
        search(question, pause, &mut io::stdout())?
    };
    let topic = question.topic;
    if as_json {
        // A reader that went away does not undo what is in force.
        let _ = writeln!(
            io::stdout(),
            "{:#}",
            to_json(topic, question.wanted, &outcome)
        );
    }
    let wanted = GoDuration(question.wanted);
    match outcome {
        Ok(found) => {
            let (share, wait_us) = (found.share, found.wait.as_micros());
            if !as_json {
                let _ = writeln!(
                    io::stdout(),
                    "{topic}: CPU share {share} is in force; mean wait {wait_us} us, wanted {wanted}"
                );
            }
            Ok(())
        }
        Err(infeasible) => {
            let best = infeasible.best.map_or_else(
                || String::from("the topic was unstable under every share"),
                |(share, wait)| format!("{} us with {share} at best", wait.as_micros()),
            );
            let why = infeasible.why;
            Err(Failure::Api {
                url: question.broker.to_owned(),
                reason: format!(
                    "no CPU share of {topic} brings the wait of its events down to {wanted}: {best}, {why}; the former share is in force again"
                ),
            })
        }
    }
}

/// Searches. The share that holds is in force afterwards; where there is none, or something fails, what was before.
fn search(
    question: &Question<'_>,
    pause: impl FnMut(Duration) -> Option<Duration>,
    progress: &mut dyn Write,
) -> Result<Result<Found, Infeasible>, Failure> {
    let port = client(question.broker, question.token)?;
    let figures = Figures::read(&port)?;
    let task = figures.task(question)?;
    let present = task.effective_share(figures.period_us);
    let left = figures.left_for(question.topic);
    let most = question.max_share.map_or(left, |most| most.min(left));
    let contract = port.get(&of_topic(question.topic))?;
    let mut trial = Trial {
        question,
        port,
        contract,
        in_force: None,
        pause,
        progress,
    };
    let search = ShareSearch {
        wanted: question.wanted,
        least: present.min(most),
        most,
        tolerance: TOLERANCE,
        measurements_max: WINDOWS_MAX,
    };
    trial.say(&format!(
        "{}: share {present} now, others leave {left}; each share is measured for {}",
        question.topic,
        GoDuration(question.window)
    ));
    let outcome = search
        .run(|share| trial.measure(share, present))
        .and_then(|outcome| trial.settle(outcome));
    if !matches!(outcome, Ok(Ok(_))) {
        trial.restore()?;
    }
    outcome
}

impl<P: FnMut(Duration) -> Option<Duration>> Trial<'_, P> {
    /// The mean wait under a share; `None` where the topic is unstable.
    fn measure(&mut self, share: CpuShare, present: CpuShare) -> Result<Option<Duration>, Failure> {
        if self.in_force.is_some() || share != present {
            self.put_in_force(share)?;
            self.wait(self.question.window / SETTLE_PART)?;
        }
        let before = Figures::read(&self.port)?.task(self.question)?.clone();
        let passed = self.wait(self.question.window)?;
        let after = Figures::read(&self.port)?.task(self.question)?.clone();
        let wait = self.wait_between(&before, &after)?;
        let line = match wait {
            Some(wait) => {
                let events = after.served_events - before.served_events;
                let rate = events as f64 / passed.as_secs_f64().max(1e-9);
                format!(
                    "share {share}: {events} events, {rate:.0}/s, mean wait {} us, {:.2} waiting in the mean",
                    wait.as_micros(),
                    mean_queue_length(rate, wait)
                )
            }
            None => format!(
                "share {share}: unstable, {} events queued",
                after.queued_events
            ),
        };
        self.say(&line);
        Ok(wait)
    }

    fn wait_between(
        &self,
        before: &TaskFigures,
        after: &TaskFigures,
    ) -> Result<Option<Duration>, Failure> {
        let fail = |reason: &str| {
            Err(Failure::Api {
                url: self.question.broker.to_owned(),
                reason: format!("{}: {reason}", self.question.topic),
            })
        };
        if after.served_events < before.served_events {
            return fail("the topic was deleted and created again meanwhile; calibrate it again");
        }
        let wait = after.mean_wait_since(before);
        if wait.is_none() && after.queued_events == 0 && !after.unstable {
            return fail(
                "no message was published in a whole window; calibrate the topic while it has its usual traffic",
            );
        }
        Ok(wait.filter(|_| !after.unstable))
    }

    /// Leaves the share that holds in force.
    fn settle(
        &mut self,
        outcome: Result<Found, Infeasible>,
    ) -> Result<Result<Found, Infeasible>, Failure> {
        if let Ok(found) = outcome
            && self.in_force.is_some_and(|share| share != found.share)
        {
            self.put_in_force(found.share)?;
        }
        Ok(outcome)
    }

    fn put_in_force(&mut self, share: CpuShare) -> Result<(), Failure> {
        // Noted before the broker is asked: an answer that is lost may have been obeyed.
        self.in_force = Some(share);
        let contract = with_share(&self.contract, json!(share.as_f64()));
        let _in_force: Value = self.port.put(&of_topic(self.question.topic), &contract)?;
        Ok(())
    }

    /// Puts the former contract back, if another is in force.
    fn restore(&mut self) -> Result<(), Failure> {
        if self.in_force.take().is_none() {
            return Ok(());
        }
        let former = self.contract["cpu_share"].clone();
        let contract = with_share(&self.contract, former);
        let _in_force: Value = self.port.put(&of_topic(self.question.topic), &contract)?;
        self.say("the former share is in force again");
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> Result<Duration, Failure> {
        (self.pause)(time).ok_or_else(|| Failure::Io {
            what: format!("calibrating {}", self.question.topic),
            source: io::Error::new(io::ErrorKind::Interrupted, "interrupted"),
        })
    }

    fn say(&mut self, line: &str) {
        // Who does not want to read it must not keep the former share from coming back.
        let _ = writeln!(self.progress, "{line}");
    }
}

/// The contract with another share; `null` takes the share away.
fn with_share(contract: &Value, share: Value) -> Value {
    let mut contract = match contract {
        Value::Object(fields) => fields.clone(),
        _ => serde_json::Map::new(),
    };
    contract.insert(String::from("cpu_share"), share);
    Value::Object(contract)
}

fn to_json(topic: &TopicName, wanted: Duration, outcome: &Result<Found, Infeasible>) -> Value {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (share, wait, why, measurements) = match outcome {
        Ok(found) => (
            Some(found.share),
            Some(found.wait),
            None,
            found.measurements,
        ),
        Err(infeasible) => (
            None,
            infeasible.best.map(|(_, wait)| wait),
            Some(infeasible.why.to_string()),
            infeasible.measurements,
        ),
    };
    json!({
        "topic": topic.as_str(),
        "want_wait_us": micros(wanted),
        "share": share.map(CpuShare::as_f64),
        "wait_us": wait.map(micros),
        "why": why,
        "measurements": measurements,
    })
}

/// SIGINT and SIGTERM from now on, as messages.
fn interruptions() -> Result<mpsc::Receiver<()>, Failure> {
    let runtime = daemon::runtime()?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::new()?
    };
    let (tell, told) = mpsc::channel();
    let wait = move || {
        runtime.block_on(async {
            loop {
                signals.next().await;
                if tell.send(()).is_err() {
                    return;
                }
            }
        });
    };
    let spawned = thread::Builder::new()
        .name(String::from("signals"))
        .spawn(wait);
    spawned.map_err(Failure::io("start a thread"))?;
    Ok(told)
}

/// Waits; `None` when interrupted.
fn pause(interrupted: &mpsc::Receiver<()>, time: Duration) -> Option<Duration> {
    let begin: Instant = time::now();
    match interrupted.recv_timeout(time) {
        Err(RecvTimeoutError::Timeout) => Some(time::now() - begin),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => None,
    }
}
