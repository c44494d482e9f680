//! Carries out a controller's orders.
//!
//! In the order in which they come, for a grant must find the contract that it belongs to, and the
//! confirmation of a contract stands for those before it: a reactor that is too busy for one is asked
//! again. Only profiling windows run beside the others, for they take their time; of one topic the
//! newest takes the place of the one before.

use std::future::Future;
use std::time::Duration;

use link::{Move, TRACE_PART_ARRIVALS, ToBroker, ToController, Traced, WindowReport};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use wire::TopicName;

use super::absence::Presence;
use super::contracts::Contracts;
use super::grants::Grants;
use super::session::Ended;
use super::topics;
use crate::window::{WindowOrder, WindowResult};
use crate::{BrokerError, Handle};

/// Profiling windows that are open at the same time.
const WINDOWS_MAX: usize = 64;
/// Orders that are taken at once; contracts among them that follow each other are written to the data folder together.
const ORDERS_AT_ONCE: usize = 256;
/// A reactor whose inbox is full is asked again after so long.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Lengths of a profiling window, in seconds.
const WINDOW_SECONDS: std::ops::RangeInclusive<f64> = 0.0..=600.0;

/// Names in one part of a trace; at their longest they fill half a message.
const TRACE_PART_PUBLISHERS: usize = 8192;

/// Words on their way to the controller.
pub(super) type Words = mpsc::Sender<ToController>;

/// Windows that are open. Dropped with the link, which ends those that nobody waits for any more.
#[derive(Debug, Default)]
struct Windows {
    open: JoinSet<()>,
    by_topic: FxHashMap<TopicName, AbortHandle>,
}

/// A profiling window as ordered.
#[derive(Clone, Debug)]
struct Measurement {
    window: u64,
    topic: TopicName,
    seconds: f64,
    order: WindowOrder,
}

/// Carries out `orders` until there are no more. Answers go to `words`, long ones to `bulk`.
pub(super) async fn carry_out(
    (handle, presence): (&Handle, &Presence),
    mut orders: mpsc::Receiver<ToBroker>,
    words: Words,
    bulk: Words,
) -> Ended {
    let mut windows = Windows::default();
    let mut waiting = Vec::new();
    let (mut contracts, mut grants) = (Contracts::default(), Grants::default());
    while orders.recv_many(&mut waiting, ORDERS_AT_ONCE).await > 0 {
        for order in waiting.drain(..) {
            // What was gathered of one kind comes before the other, in the order in which it came.
            let order = match order {
                ToBroker::Grant { topic, grant } => {
                    contracts.put_into_force(handle, &words).await;
                    grants.gather(&topic, grant);
                    continue;
                }
                order => order,
            };
            grants.hand_out(handle, &words).await;
            let Some(order) = contracts.gather(order) else {
                continue;
            };
            contracts.put_into_force(handle, &words).await;
            let done = match order {
                ToBroker::Measure { .. } => windows.begin(handle, order, (&words, &bulk)),
                order => carry_out_one((handle, presence), order, &words).await,
            };
            if let Err(text) = done {
                complain(text, &words).await;
            }
        }
        grants.hand_out(handle, &words).await;
        contracts.put_into_force(handle, &words).await;
    }
    Ended::Exiting
}

impl Windows {
    /// Begins one; `words` take what it shows, the second the long ones.
    fn begin(
        &mut self,
        handle: &Handle,
        order: ToBroker,
        (words, bulk): (&Words, &Words),
    ) -> Result<(), String> {
        let ToBroker::Measure {
            window,
            topic,
            seconds,
            percentile,
            promise_us,
            with_trace,
        } = order
        else {
            return Ok(());
        };
        while self.open.try_join_next().is_some() {}
        self.by_topic.retain(|_, window| !window.is_finished());
        let topic = name(&topic)?;
        let measurement = Measurement {
            window,
            topic: topic.clone(),
            seconds,
            order: WindowOrder {
                percentile,
                promise_us,
                with_trace,
            },
        };
        check(&measurement, self.open.len())?;
        let measuring = measure(handle.clone(), measurement, words.clone(), bulk.clone());
        let window = self.open.spawn(measuring);
        if let Some(former) = self.by_topic.insert(topic, window) {
            former.abort();
        }
        Ok(())
    }
}

async fn carry_out_one(
    (handle, presence): (&Handle, &Presence),
    order: ToBroker,
    words: &Words,
) -> Result<(), String> {
    match order {
        ToBroker::Renewed { report } => {
            let renewed = persist(|| handle.shared_limits().renew_leases(report)).await;
            renewed.map_err(|error| format!("renewing leases: {error}"))
        }
        ToBroker::Sharers(sharers) => {
            handle.sharing.listed(sharers);
            Ok(())
        }
        ToBroker::Round(round) => {
            handle.sharing.told_round(&round);
            Ok(())
        }
        ToBroker::HandOver { to } => {
            handle.handing.set_takers(to);
            Ok(())
        }
        ToBroker::TakeOver { pass } => {
            handle.handing.set_pass(pass);
            Ok(())
        }
        ToBroker::Complete => {
            let heard = presence.begins(handle).await;
            heard.map_err(|error| format!("letting topics flow: {error}"))
        }
        ToBroker::Topic { state, ticket } => topics::learn(handle, state, ticket, words).await,
        ToBroker::Change { topic, change } => topics::follow(handle, topic, change, words).await,
        ToBroker::Migrate { topic, moves } => migrate(handle, &topic, moves).await,
        ToBroker::Welcome { .. }
        | ToBroker::NotLeading { .. }
        | ToBroker::Refused { .. }
        | ToBroker::Measure { .. }
        | ToBroker::Grant { .. }
        | ToBroker::Contract { .. } => Err(String::from("this message is not an order")),
    }
}

/// Tells the controller what could not be done, and the log.
pub(super) async fn complain(text: String, words: &Words) {
    tracing::warn!("an order of the controller could not be carried out: {text}");
    // The link is lost if this fails, and with it the session.
    let _ = words.send(ToController::Problem { text }).await;
}

async fn migrate(handle: &Handle, topic: &str, moves: Vec<Move>) -> Result<(), String> {
    let name = name(topic)?;
    let moved = persist(|| handle.migrate(name.clone(), moves.clone())).await;
    moved.map_err(|error| format!("moving publishers of {topic}: {error}"))
}

/// Asks again while the reactor is too busy; a stopping broker is never busy for long.
pub(crate) async fn persist<T, F: Future<Output = Result<T, BrokerError>>>(
    ask: impl Fn() -> F,
) -> Result<T, BrokerError> {
    loop {
        match ask().await {
            Err(BrokerError::Busy(_)) => tokio::time::sleep(BUSY_PAUSE).await,
            answer => return answer,
        }
    }
}

fn check(measurement: &Measurement, open: usize) -> Result<(), String> {
    let (window, seconds) = (measurement.window, measurement.seconds);
    let percentile = measurement.order.percentile;
    if open >= WINDOWS_MAX {
        return Err(format!(
            "window {window}: {WINDOWS_MAX} windows are open already"
        ));
    }
    if !WINDOW_SECONDS.contains(&seconds) || !(0.0..=100.0).contains(&percentile) {
        return Err(format!(
            "window {window}: {seconds} s at percentile {percentile} is out of range"
        ));
    }
    Ok(())
}

/// Runs one window and says what it showed.
async fn measure(handle: Handle, measurement: Measurement, words: Words, bulk: Words) {
    let Measurement {
        window,
        topic,
        seconds,
        order,
    } = measurement;
    let shown = async {
        persist(|| handle.begin_window(topic.clone(), order)).await?;
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        persist(|| handle.end_window(topic.clone())).await
    };
    let result = match shown.await {
        Ok(result) => result,
        // Nothing happens in a topic that is not there.
        Err(BrokerError::TopicNotFound(_)) => WindowResult::default(),
        Err(error) => {
            let text = format!("window {window} of {topic}: {error}");
            let _ = words.send(ToController::Problem { text }).await;
            return;
        }
    };
    let report = WindowReport {
        window,
        topic: topic.to_string(),
        seconds,
        messages: result.messages,
        latency_us: result.latency_us,
        p50_us: result.p50_us,
        samples: result.samples,
        is_trace_cut: result.is_trace_cut,
    };
    if order.with_trace && send_trace(window, &topic, result, &bulk).await.is_err() {
        return;
    }
    let _ = bulk.send(ToController::Window(report)).await;
}

/// Names go first, so that whoever reads an arrival knows them all.
async fn send_trace(
    window: u64,
    topic: &TopicName,
    result: WindowResult,
    bulk: &Words,
) -> Result<(), mpsc::error::SendError<ToController>> {
    for publishers in result.publishers.chunks(TRACE_PART_PUBLISHERS) {
        let part = Traced {
            window,
            topic: topic.to_string(),
            publishers: publishers.to_vec(),
            arrivals: Vec::new(),
        };
        bulk.send(ToController::Trace(part)).await?;
    }
    for arrivals in result.arrivals.chunks(TRACE_PART_ARRIVALS) {
        let part = Traced {
            window,
            topic: topic.to_string(),
            publishers: Vec::new(),
            arrivals: arrivals.to_vec(),
        };
        bulk.send(ToController::Trace(part)).await?;
    }
    Ok(())
}

pub(super) fn name(topic: &str) -> Result<TopicName, String> {
    topic
        .parse()
        .map_err(|_| format!("{topic:?} is not a valid topic name"))
}
