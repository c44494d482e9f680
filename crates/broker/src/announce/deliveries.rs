//! Connections to subscribers: opened when one is heard of, reopened when one breaks, given up when
//! it is gone.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use announce::Endpoint;
use clock::Instant;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wire::announce::{InstanceId, Key, TopicId};
use wire::tempo::put_hello;
use wire::{ChannelName, TopicName};

use super::dials::{Dials, Waiting};
use crate::reactor::DialledSubscriber;
use crate::session::tempo::TempoSubscriber;
use crate::sys::{self, Stream};
use crate::{Handle, Operation};

/// A connection takes so long at most to be made.
const DIAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Subscribers that messages are sent to, over all topics; further ones are not served.
const DELIVERIES_MAX: usize = 16_384;
/// Those of them that one address announced, but for this machine's.
const OF_ADDRESS_MAX: usize = DELIVERIES_MAX / 10;

const CHANNEL_PREFIX: &str = "tempo.";

/// Whether a channel is one of a subscriber's that the broker has connected to.
pub(super) fn is_ours(channel: &str) -> bool {
    channel.starts_with(CHANNEL_PREFIX) && channel.ends_with("#ephemeral")
}

/// All of them.
pub(super) struct Deliveries {
    handle: Handle,
    own: InstanceId,
    key: Option<Key>,
    wanted: BTreeMap<(TopicName, InstanceId), Wanted>,
    /// How many of them each address announced.
    announcers: BTreeMap<IpAddr, usize>,
    dialling: JoinSet<Dialled>,
    dials: Dials,
    dials_failed: u64,
}

/// A subscriber that is to get messages.
struct Wanted {
    data: SocketAddr,
    /// The address that announced it.
    by: IpAddr,
    id: TopicId,
    state: State,
}

enum State {
    /// To be connected to at this instant.
    Waiting(Instant),
    /// Being connected to.
    Dialling,
    /// Connected, for as long as this can be upgraded; since when.
    Connected(Weak<()>, Instant),
}

/// What an attempt came to.
pub(super) struct Dialled {
    topic: TopicName,
    instance: InstanceId,
    data: SocketAddr,
    by: IpAddr,
    outcome: Result<Weak<()>, String>,
}

impl Deliveries {
    pub(super) fn new(handle: Handle, own: InstanceId, key: Option<Key>) -> Deliveries {
        Deliveries {
            handle,
            own,
            key,
            wanted: BTreeMap::new(),
            announcers: BTreeMap::new(),
            dialling: JoinSet::new(),
            dials: Dials::default(),
            dials_failed: 0,
        }
    }

    /// From now on `subscribers` are those of `topic`.
    pub(super) fn want(&mut self, topic: &TopicName, subscribers: Vec<Endpoint>, now: Instant) {
        let former: Vec<InstanceId> = self.of(topic).collect();
        for instance in former {
            let known = &self.wanted[&(topic.clone(), instance)];
            let stays = subscribers.iter().any(|endpoint| {
                endpoint.instance == instance
                    && endpoint.data == known.data
                    && endpoint.id == known.id
            });
            if !stays {
                self.give_up(topic.clone(), instance);
            }
        }
        for endpoint in subscribers {
            let key = (topic.clone(), endpoint.instance);
            if self.wanted.contains_key(&key) {
                continue;
            }
            if self.wanted.len() >= DELIVERIES_MAX {
                tracing::warn!(
                    "{topic}: at most {DELIVERIES_MAX} subscribers are served, no further ones"
                );
                return;
            }
            let by = endpoint.announces_from.ip().to_canonical();
            let of_address = self.announcers.get(&by).copied().unwrap_or(0);
            if of_address >= OF_ADDRESS_MAX && !by.is_loopback() {
                tracing::warn!(
                    "{topic}: at most {OF_ADDRESS_MAX} subscribers that {by} announces are served, no further ones"
                );
                continue;
            }
            self.announcers.insert(by, of_address + 1);
            let wanted = Wanted {
                data: endpoint.data,
                by,
                id: endpoint.id,
                state: State::Waiting(now),
            };
            self.wanted.insert(key, wanted);
        }
    }

    /// Connects to those for whom it is time.
    pub(super) fn dial_due(&mut self, now: Instant) {
        if self.dials.remembered() > DELIVERIES_MAX {
            self.dials.forget_old(now);
        }
        for wanted in self.wanted.values_mut() {
            if let State::Connected(alive, since) = &wanted.state
                && alive.strong_count() == 0
            {
                self.dials.broke(wanted.data, now - *since, now);
                wanted.state = State::Waiting(now);
            }
        }
        let waiting = self.wanted.iter().filter_map(|(key, wanted)| {
            let waiting = wanted.waiting()?;
            Some((key, waiting))
        });
        let chosen = self.dials.choose(waiting, now).into_iter();
        let chosen: Vec<(TopicName, InstanceId)> = chosen.cloned().collect();
        for key in chosen {
            self.dial(key);
        }
    }

    fn dial(&mut self, (topic, instance): (TopicName, InstanceId)) {
        let Some(wanted) = self.wanted.get_mut(&(topic.clone(), instance)) else {
            return;
        };
        wanted.state = State::Dialling;
        let (data, by, id) = (wanted.data, wanted.by, wanted.id);
        let (handle, own, key) = (self.handle.clone(), self.own, self.key.clone());
        self.dialling.spawn(async move {
            let mut hello = Vec::new();
            put_hello(&mut hello, own, key.as_ref());
            let outcome = dial(&handle, topic.clone(), instance, id, data, hello).await;
            Dialled {
                topic,
                instance,
                data,
                by,
                outcome,
            }
        });
    }

    /// Waits until an attempt ends; for ever if there is none.
    pub(super) async fn dialled(&mut self) -> Dialled {
        loop {
            match self.dialling.join_next().await {
                Some(Ok(dialled)) => return dialled,
                // One that panicked is not waited for; its subscriber is forgotten when it expires.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Takes note of what an attempt came to.
    pub(super) fn settle(&mut self, dialled: Dialled) {
        let now = sys::monotonic_now();
        let is_connected = dialled.outcome.is_ok();
        self.dials
            .end((dialled.data, dialled.by), is_connected, now);
        let key = (dialled.topic.clone(), dialled.instance);
        let wanted = self.wanted.get_mut(&key);
        let Some(wanted) = wanted.filter(|wanted| wanted.data == dialled.data) else {
            if is_connected {
                self.close(dialled.topic, dialled.instance);
            }
            return;
        };
        wanted.state = match dialled.outcome {
            Ok(alive) => State::Connected(alive, now),
            Err(error) => {
                self.dials_failed += 1;
                tracing::debug!("{}: subscriber at {}: {error}", key.0, dialled.data);
                State::Waiting(now)
            }
        };
    }

    /// When [`Deliveries::dial_due`] has something to do.
    pub(super) fn next_due(&self) -> Instant {
        let due = |wanted: &Wanted| match &wanted.state {
            State::Connected(alive, _) if alive.strong_count() == 0 => Some(Instant::ZERO),
            // Without a place it is the end of another attempt that is waited for.
            _ => self.dials.due(&wanted.waiting()?),
        };
        let dues = self.wanted.values().filter_map(due);
        dues.min().unwrap_or(Instant::MAX)
    }

    /// Subscribers wanted.
    pub(super) fn len(&self) -> usize {
        self.wanted.len()
    }

    /// Attempts that failed.
    pub(super) fn dials_failed(&self) -> u64 {
        self.dials_failed
    }

    fn of(&self, topic: &TopicName) -> impl Iterator<Item = InstanceId> {
        let from = (topic.clone(), InstanceId(0));
        let to = (topic.clone(), InstanceId(u64::MAX));
        self.wanted
            .range(from..=to)
            .map(|((_, instance), _)| *instance)
    }

    fn give_up(&mut self, topic: TopicName, instance: InstanceId) {
        if let Some(wanted) = self.wanted.remove(&(topic.clone(), instance))
            && let Some(of_address) = self.announcers.get_mut(&wanted.by)
        {
            *of_address -= 1;
            if *of_address == 0 {
                self.announcers.remove(&wanted.by);
            }
        }
        self.close(topic, instance);
    }

    /// Deleting a subscriber's channel closes its connection.
    fn close(&self, topic: TopicName, instance: InstanceId) {
        let handle = self.handle.clone();
        tokio::spawn(async move {
            if let Some(channel) = channel_of(instance) {
                // It may have closed the connection itself.
                let _gone = handle.channel(topic, channel, Operation::Delete).await;
            }
        });
    }
}

impl Wanted {
    fn waiting(&self) -> Option<Waiting> {
        match self.state {
            State::Waiting(since) => Some(Waiting {
                to: self.data,
                by: self.by,
                since,
            }),
            _ => None,
        }
    }
}

async fn dial(
    handle: &Handle,
    topic: TopicName,
    instance: InstanceId,
    id: TopicId,
    data: SocketAddr,
    hello: Vec<u8>,
) -> Result<Weak<()>, String> {
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(data)).await;
    let stream = dialled.map_err(|_| format!("no answer within {DIAL_TIMEOUT:?}"))?;
    let stream = stream.and_then(TcpStream::into_std);
    let stream = stream
        .and_then(Stream::of)
        .map_err(|error| error.to_string())?;
    let channel = channel_of(instance).ok_or("its channel name is not valid")?;
    let alive = Arc::new(());
    let weak = Arc::downgrade(&alive);
    let dialled = DialledSubscriber {
        topic,
        channel,
        subscriber: TempoSubscriber { id, alive },
        hello,
        stream,
        peer: data,
    };
    let begun = handle.begin_delivery(dialled).await;
    begun.map(|()| weak).map_err(|error| error.to_string())
}

fn channel_of(instance: InstanceId) -> Option<ChannelName> {
    format!("{CHANNEL_PREFIX}{:016x}#ephemeral", instance.0)
        .parse()
        .ok()
}
