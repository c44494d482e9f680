//! One lookup: redialled for ever; told everything on each connection, then every change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::TopicChange;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout};
use wire::TopicName;
use wire::lookup::{Command, Identity};

use super::registration::{ANSWER_TIMEOUT, Heard, Registration};
use super::registrations::Registrations;
use crate::{agent, sys};

/// Changes that wait for a lookup that is slow; one that falls behind them is left, and told everything anew.
const CHANGES_MAX: usize = 4096;
/// Pauses between dials double from the first to the second.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Bytes read at once; answers are short.
const READ_BYTES: usize = 4096;

/// The registrations for all lookups.
#[derive(Debug)]
pub(super) struct Feed(Mutex<Told>);

#[derive(Debug)]
struct Told {
    registrations: Registrations,
    changes: broadcast::Sender<Command>,
}

/// Where a lookup's HTTP is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum HttpEndpoint {
    /// The first dial is under way.
    #[default]
    Unmet,
    /// It has not told, and does not answer.
    Unknown,
    /// `host:port`, as it told when it was met last.
    At(String),
}

impl Feed {
    /// Of a broker that has nothing.
    pub(super) fn new() -> Feed {
        Feed(Mutex::new(Told::of(Registrations::default())))
    }

    /// Begins anew with what the broker has; so does every connection.
    pub(super) fn restart(&self, registrations: Registrations) {
        *self.lock() = Told::of(registrations);
    }

    /// Something became of a topic.
    pub(super) fn change(&self, topic: &TopicName, change: &TopicChange) {
        let mut told = self.lock();
        if let Some(command) = told.registrations.change(topic, change) {
            // Without a connection nobody listens; the next one is told all.
            let _ = told.changes.send(command);
        }
    }

    /// All that the broker has, and what changes after it.
    fn join(&self) -> (Vec<Command>, broadcast::Receiver<Command>) {
        let told = self.lock();
        (
            told.registrations.commands().collect(),
            told.changes.subscribe(),
        )
    }

    /// Held for the time of a step, never while waiting.
    fn lock(&self) -> MutexGuard<'_, Told> {
        // Whole after every step, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn of(registrations: Registrations) -> Told {
        Told {
            registrations,
            changes: broadcast::Sender::new(CHANGES_MAX),
        }
    }
}

/// One lookup.
#[derive(Debug)]
pub(super) struct Keeper {
    /// Its TCP address, `host:port`; looked up anew with every dial.
    pub(super) address: String,
    pub(super) identity: Arc<Identity>,
    pub(super) feed: Arc<Feed>,
    pub(super) http_endpoint: watch::Sender<HttpEndpoint>,
}

impl Keeper {
    /// Keeps the broker registered, for ever.
    pub(super) async fn keep(self) {
        let address = &self.address;
        let (mut pause, mut is_silent) = (SHORTEST_PAUSE, false);
        loop {
            let (was_met, why) = match agent::dial(address).await {
                Ok(stream) => self.converse(stream).await,
                Err(why) => (false, why),
            };
            if was_met {
                tracing::warn!("lost nsqlookupd {address}: {why}");
                (pause, is_silent) = (SHORTEST_PAUSE, false);
            } else if !std::mem::replace(&mut is_silent, true) {
                // Once, not with every attempt of an outage.
                tracing::warn!("cannot register with nsqlookupd {address}: {why}");
            }
            // Where it was met before, it is asked there still: its HTTP may live on.
            self.http_endpoint.send_if_modified(|known| {
                let is_unmet = *known == HttpEndpoint::Unmet;
                if is_unmet {
                    *known = HttpEndpoint::Unknown;
                }
                is_unmet
            });
            sleep(agent::jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Serves one connection to its end: whether the lookup has introduced itself, and why it ended.
    async fn converse(&self, mut stream: TcpStream) -> (bool, String) {
        let (registrations, mut changes) = self.feed.join();
        let (mut output, mut input) = (Vec::new(), [0; READ_BYTES]);
        let now = sys::monotonic_now();
        let mut registration =
            Registration::open(&self.identity, registrations.into_iter(), now, &mut output);
        let mut was_met = false;
        loop {
            if let Err(why) = registration.tick(sys::monotonic_now(), &mut output) {
                return (was_met, why);
            }
            if !output.is_empty() {
                match timeout(ANSWER_TIMEOUT, stream.write_all(&output)).await {
                    Ok(Ok(())) => output.clear(),
                    Ok(Err(error)) => return (was_met, error.to_string()),
                    Err(_) => {
                        return (
                            was_met,
                            format!("it has read nothing for {ANSWER_TIMEOUT:?}"),
                        );
                    }
                }
            }
            let due = registration.due_at();
            let wait = due.saturating_since(sys::monotonic_now());
            tokio::select! {
                read = stream.read(&mut input) => {
                    let heard = match read {
                        Ok(0) => Err(String::from("it closed the connection")),
                        Ok(bytes) => registration.receive(&input[..bytes]),
                        Err(error) => Err(error.to_string()),
                    };
                    match heard {
                        Ok(heard) => was_met |= self.hear(heard),
                        Err(why) => return (was_met, why),
                    }
                }
                change = changes.recv(), if registration.takes_changes() => match change {
                    Ok(change) => registration.say(&change, sys::monotonic_now(), &mut output),
                    Err(RecvError::Lagged(_)) => {
                        return (was_met, String::from("it is slower than topics change"));
                    }
                    Err(RecvError::Closed) => return (was_met, String::from("it is told everything again")),
                },
                () = sleep(wait) => {}
            }
        }
    }

    /// Whether the lookup has introduced itself.
    fn hear(&self, heard: Vec<Heard>) -> bool {
        let (address, mut is_met) = (&self.address, false);
        for heard in heard {
            match heard {
                Heard::Introduction(introduction) => {
                    is_met = true;
                    let version = &introduction.version;
                    tracing::info!("registered with nsqlookupd {address} (version {version})");
                    let http = introduction.http_address();
                    if http.is_none() {
                        tracing::warn!(
                            "nsqlookupd {address} does not tell its HTTP address: new topics do not get their channels from it"
                        );
                    }
                    let known = http.map_or(HttpEndpoint::Unknown, HttpEndpoint::At);
                    self.http_endpoint.send_replace(known);
                }
                Heard::Refused(text) => tracing::warn!("nsqlookupd {address} refuses: {text}"),
            }
        }
        is_met
    }
}
