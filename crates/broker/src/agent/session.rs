//! One link from hello to its end.
//!
//! Four loops run side by side and the first that ends takes the others with it: reading orders, carrying
//! them out, reporting, writing. Queues between them are bounded; a full one makes the one before wait,
//! down to the controller's socket.

use std::time::Duration;

use limit::adaptor::HistoryLength;
use link::{BrokerReport, Hello, LinkKey, MemoryReport, Order, ToBroker, ToController};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::absence::Presence;
use super::changes::Listening;
use super::proof::{self, Sink, Source};
use super::{LinkBoard, orders};
use crate::{BrokerError, Handle};

/// The controller has so long to answer a hello.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);
/// The broker leaves a controller that reads nothing for this long.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Orders that wait to be carried out; as many as a controller lets wait for one broker.
const ORDERS_MAX: usize = 4096;
/// Short messages that wait to be written.
const WORDS_MAX: usize = 1024;
/// Long ones (windows and traces); they give way to the short ones.
const BULK_MAX: usize = 2;
/// Length of a step of traffic histories (SRTM-long, section 5.4).
const HISTORY_STEP_MS: u64 = 1000;
/// Reports that are wanted early are so far apart.
const EARLY_REPORT_SPACING: Duration = Duration::from_millis(100);
/// Bounds on the interval that a controller may ask for.
const REPORT_INTERVALS_MS: std::ops::RangeInclusive<u64> = 10..=60_000;

/// Why a link ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// It never stood.
    Unreachable(String),
    /// The controller does not want this broker.
    Refused(String),
    /// The controller does not want this broker at the moment.
    NotYet(String),
    /// It is not the one that leads; where that one is, if it said so.
    NotLeading(Option<String>),
    /// Another one leads, which it has not noticed.
    Outdated {
        /// The life in which it gives orders.
        epoch: u64,
        /// The latest life of a controller that this broker has heard of.
        latest: u64,
    },
    /// It stood, and is gone.
    Lost(String),
    /// The broker stops.
    Exiting,
}

/// What a session works with.
#[derive(Debug)]
pub(super) struct Session<'a> {
    handle: &'a Handle,
    hello: Hello,
    presence: &'a Presence,
    /// When the reactors were asked last, on whichever link: their counts are of the time since then.
    reported_at: Instant,
}

impl<'a> Session<'a> {
    pub(super) fn new(handle: &'a Handle, hello: Hello, presence: &'a Presence) -> Session<'a> {
        Session {
            handle,
            hello,
            presence,
            reported_at: Instant::now(),
        }
    }

    /// Proves the key, says hello and goes on until the link is lost.
    pub(super) async fn run(&mut self, stream: TcpStream, key: &LinkKey) -> Ended {
        let (mut sink, mut source) = match proof::prove(stream, key).await {
            Ok(proven) => proven,
            Err(ended) => return ended,
        };
        let report_interval = match self.greet(&mut sink, &mut source).await {
            Ok(report_interval) => report_interval,
            Err(ended) => return ended,
        };
        let (words, waiting_words) = mpsc::channel(WORDS_MAX);
        let (bulk, waiting_bulk) = mpsc::channel(BULK_MAX);
        let (orders, waiting_orders) = mpsc::channel(ORDERS_MAX);
        tokio::select! {
            ended = read(source, orders, &self.handle.link) => ended,
            ended = write(sink, &self.handle.link, waiting_words, waiting_bulk) => ended,
            ended = orders::carry_out((self.handle, self.presence), waiting_orders, words.clone(), bulk) => ended,
            ended = self.tell(report_interval, words.clone()) => ended,
        }
    }

    /// Says what is here, then what becomes of it and how it fares.
    async fn tell(&mut self, interval: Duration, words: mpsc::Sender<ToController>) -> Ended {
        let listening = match Listening::begin(self.handle, &words).await {
            Ok(listening) => listening,
            Err(ended) => return ended,
        };
        tokio::select! {
            ended = listening.tell(words.clone()) => ended,
            ended = self.report(interval, words.clone()) => ended,
        }
    }

    async fn greet(&mut self, sink: &mut Sink, source: &mut Source) -> Result<Duration, Ended> {
        let hello = ToController::Hello(self.hello.clone());
        send(sink, &hello, &self.handle.link)
            .await
            .map_err(Ended::Unreachable)?;
        let answer = tokio::time::timeout(WELCOME_TIMEOUT, source.next()).await;
        let late = |_| Ended::Unreachable(format!("no welcome within {WELCOME_TIMEOUT:?}"));
        let Order { epoch, order } =
            parse(answer.map_err(late)?, &self.handle.link).map_err(Ended::Unreachable)?;
        if let ToBroker::NotLeading { leader } = order {
            return Err(Ended::NotLeading(leader));
        }
        self.handle.link.admits(epoch)?;
        match order {
            ToBroker::Welcome {
                life,
                report_interval_ms,
                history_window_ms,
            } => {
                self.handle.link.keep_epoch().await;
                self.hello.life = life;
                self.handle.link.set_life(life);
                let steps =
                    usize::try_from(history_window_ms / HISTORY_STEP_MS).unwrap_or(usize::MAX);
                match HistoryLength::new(steps, HISTORY_STEP_MS) {
                    Ok(length) => drop(self.handle.remember_traffic(length).await),
                    Err(error) => tracing::warn!("the history stays as it is: {error}"),
                }
                self.handle.handing.begin_link();
                let name = &self.hello.broker;
                tracing::info!("linked to the controller (epoch {epoch}) as broker {name}");
                let (least, most) = (*REPORT_INTERVALS_MS.start(), *REPORT_INTERVALS_MS.end());
                Ok(Duration::from_millis(report_interval_ms.clamp(least, most)))
            }
            ToBroker::Refused { reason, passes } => Err(match passes {
                true => Ended::NotYet(reason),
                false => Ended::Refused(reason),
            }),
            _ => Err(Ended::Unreachable(String::from(
                "its first message is not a welcome",
            ))),
        }
    }

    /// Reports at once, then every `interval`, and early when the reactors want it.
    async fn report(&mut self, interval: Duration, words: mpsc::Sender<ToController>) -> Ended {
        for number in 1.. {
            let report = match self.handle.report(number, number == 1).await {
                Ok(report) => report,
                Err(BrokerError::Exiting) => return Ended::Exiting,
                Err(error) => return Ended::Lost(format!("reporting: {error}")),
            };
            let now = Instant::now();
            let report = BrokerReport {
                number,
                seconds: (now - self.reported_at).as_secs_f64(),
                topics: report.news.topics,
                gone: report.news.gone,
                has_more: report.news.has_more,
                attachments: report.attachments,
                left_rounds: self.handle.sharing.left_rounds(),
                memory: Some(MemoryReport {
                    used_bytes: self.handle.memory.used_all(),
                    budget_bytes: self.handle.memory.bytes(),
                }),
            };
            let has_more = report.has_more;
            self.reported_at = now;
            if words.send(ToController::Report(report)).await.is_err() {
                break;
            }
            let next = now + interval;
            let early = now + EARLY_REPORT_SPACING;
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = tokio::time::sleep_until(early), if has_more => {}
                () = self.handle.report_wanted() => {
                    tokio::time::sleep_until(next.min(early)).await;
                }
            }
        }
        Ended::Lost(String::from("nobody writes"))
    }
}

async fn read(mut source: Source, orders: mpsc::Sender<ToBroker>, link: &LinkBoard) -> Ended {
    loop {
        let Order { epoch, order } = match parse(source.next().await, link) {
            Ok(order) => order,
            Err(reason) => return Ended::Lost(reason),
        };
        if let Err(ended) = link.admits(epoch) {
            return ended;
        }
        if orders.send(order).await.is_err() {
            return Ended::Exiting;
        }
    }
}

async fn write(
    mut sink: Sink,
    link: &LinkBoard,
    mut words: mpsc::Receiver<ToController>,
    mut bulk: mpsc::Receiver<ToController>,
) -> Ended {
    loop {
        let word = tokio::select! {
            biased;
            Some(word) = words.recv() => word,
            Some(word) = bulk.recv() => word,
            else => return Ended::Exiting,
        };
        if let Err(reason) = send(&mut sink, &word, link).await {
            return Ended::Lost(reason);
        }
    }
}

async fn send(sink: &mut Sink, word: &ToController, link: &LinkBoard) -> Result<(), String> {
    let bytes = link::encode(word).map_err(|error| error.to_string())?;
    link.note_sent(bytes.len() + link::TAG_BYTES);
    let sent = tokio::time::timeout(WRITE_TIMEOUT, sink.send(&bytes)).await;
    sent.map_err(|_| format!("it has read nothing for {WRITE_TIMEOUT:?}"))?
}

fn parse(message: Result<Vec<u8>, String>, link: &LinkBoard) -> Result<Order, String> {
    let bytes = message?;
    link.note_received(bytes.len() + link::TAG_BYTES);
    link::decode(&bytes).map_err(|error| error.to_string())
}
