//! The broker as a participant in announcements: decodes the datagrams that it receives and sends its own.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use announce::{
    AnnouncerConfig, Change, Directory, DirectoryConfig, Endpoint, HEARD_BEFORE_FORGETTING, Names,
    Proxy, Speaker,
};
use clock::Instant;
use rustc_hash::FxHashMap;
use wire::TopicName;
use wire::announce::{Announcement, InstanceId, MAX_DATAGRAM_BYTES, TopicId};

use super::announce_socket::AnnounceSocket;
use super::deliveries::{Deliveries, is_ours};
use super::{AnnounceConfig, AnnounceStats};
use crate::Handle;
use crate::stats::StatsFilter;
use crate::sys;

/// Topics whose identifiers are remembered.
const TOPICS_MAX: usize = 65_536;

/// The state of one life of the broker.
pub(super) struct Participant {
    handle: Handle,
    config: AnnounceConfig,
    socket: AnnounceSocket,
    group: Option<AnnounceSocket>,
    directory: Directory,
    names: Names,
    proxy: Proxy,
    deliveries: Deliveries,
    /// Topics that somebody publishes, and what the reactors believe that identifiers stand for.
    published: BTreeSet<TopicName>,
    told: FxHashMap<TopicId, TopicName>,
    /// Topics that have a channel of an NSQ client.
    taken: BTreeSet<TopicName>,
    looked_at: Instant,
}

impl Participant {
    pub(super) fn new(
        handle: Handle,
        config: AnnounceConfig,
        data: SocketAddr,
        socket: AnnounceSocket,
        group: Option<AnnounceSocket>,
    ) -> Participant {
        let now = sys::monotonic_now();
        // Another one with every start; the wall clock's nanoseconds never repeat in practice.
        let instance = InstanceId(sys::wall_now().as_nanos() ^ u64::from(data.port()) << 48);
        let random = clock::stream(instance.0, "announcements");
        let pace = AnnouncerConfig::every(config.interval);
        Participant {
            deliveries: Deliveries::new(handle.clone(), instance, config.key.clone()),
            directory: Directory::new(instance, DirectoryConfig::default()),
            names: Names::new(TOPICS_MAX),
            proxy: Proxy::new(Speaker::new(instance, data), pace, random, now),
            published: BTreeSet::new(),
            told: FxHashMap::default(),
            taken: BTreeSet::new(),
            looked_at: Instant::ZERO,
            handle,
            config,
            socket,
            group,
        }
    }

    /// Hears and speaks for ever.
    pub(super) async fn keep(&mut self) {
        let mut datagram = [0; MAX_DATAGRAM_BYTES + 1];
        let mut from_group = [0; MAX_DATAGRAM_BYTES + 1];
        loop {
            self.go_on().await;
            let due = self.next_due().saturating_since(sys::monotonic_now());
            tokio::select! {
                heard = self.socket.recv_from(&mut datagram) => {
                    if let Ok((bytes, from)) = heard {
                        self.hear(&datagram[..bytes], from, sys::monotonic_now());
                    }
                }
                heard = receive(self.group.as_ref(), &mut from_group) => {
                    if let Ok((bytes, from)) = heard {
                        self.hear(&from_group[..bytes], from, sys::monotonic_now());
                    }
                }
                dialled = self.deliveries.dialled() => self.deliveries.settle(dialled),
                () = tokio::time::sleep(due) => {}
            }
        }
    }

    /// Takes leave of everybody.
    pub(super) async fn leave(&mut self) {
        for relayed in self.proxy.leave() {
            self.send(relayed.to, &relayed.announcements).await;
        }
    }

    fn next_due(&self) -> Instant {
        let next = self
            .proxy
            .next_due()
            .min(self.looked_at + self.config.interval);
        let expiry = self.directory.next_expiry().unwrap_or(Instant::MAX);
        next.min(expiry).min(self.deliveries.next_due())
    }

    /// Does what is due.
    async fn go_on(&mut self) {
        let now = sys::monotonic_now();
        if now >= self.looked_at + self.config.interval {
            self.looked_at = now;
            self.look_at_channels(now).await;
        }
        self.forget(now);
        self.deliveries.dial_due(now);
        self.tell_reactors().await;
        let taken = &self.taken;
        let takes = |topic: &TopicName| taken.contains(topic);
        let due = self.proxy.due(&self.directory, &mut self.names, takes, now);
        for relayed in due.into_iter().flatten() {
            self.send(relayed.to, &relayed.announcements).await;
        }
        self.handle.announcements.show(AnnounceStats {
            datagrams: self.directory.counters(),
            names: self.names.counts(),
            instances: self.directory.instances() as u64,
            deliveries: self.deliveries.len() as u64,
            dials_failed: self.deliveries.dials_failed(),
        });
    }

    /// Forgets endpoints that have been silent for too long. Datagrams that have arrived but not
    /// been read are heard first: this task, or the whole process, may have been kept from running
    /// for longer than announcements hold.
    fn forget(&mut self, now: Instant) {
        if self.directory.next_expiry().is_some_and(|at| at <= now) {
            self.hear_all(now);
        }
        let change = self.directory.expire(now);
        self.apply(&change, now);
    }

    /// Takes what waits in the sockets.
    fn hear_all(&mut self, now: Instant) {
        let mut datagram = [0; MAX_DATAGRAM_BYTES + 1];
        for by_group in [false, true] {
            for _ in 0..HEARD_BEFORE_FORGETTING {
                let socket = match by_group {
                    true => self.group.as_ref(),
                    false => Some(&self.socket),
                };
                match socket.map(|socket| socket.take(&mut datagram)) {
                    Some(Ok((bytes, from))) => self.hear(&datagram[..bytes], from, now),
                    // What was sent before found nobody.
                    Some(Err(error)) if error.kind() != ErrorKind::WouldBlock => {}
                    _ => break,
                }
            }
        }
    }

    fn hear(&mut self, datagram: &[u8], from: SocketAddr, now: Instant) {
        let said = match Announcement::decode(datagram, self.config.key.as_ref()) {
            Ok(said) => said,
            Err(error) => {
                tracing::debug!("announcement from {from}: {error}");
                return self.directory.note_undecodable(&error);
            }
        };
        match self.directory.hear(&said, from, now) {
            Ok(change) => {
                for entry in &said.entries {
                    let _counted = self.names.hear(&entry.topic, entry.id);
                }
                self.apply(&change, now);
            }
            Err(refused) => tracing::debug!("announcement from {from}: {refused}"),
        }
    }

    fn apply(&mut self, change: &Change, now: Instant) {
        if change.is_empty() {
            return;
        }
        self.proxy.changed(now);
        for topic in &change.subscribers {
            let endpoints = self.directory.subscribers_of(topic);
            let is_signed = self.config.key.is_some();
            let subscribers =
                endpoints.filter(|endpoint| !endpoint.is_proxy && (is_signed || is_own(endpoint)));
            self.deliveries.want(topic, subscribers.collect(), now);
        }
        for topic in &change.publishers {
            let mut endpoints = self.directory.publishers_of(topic);
            match endpoints.any(|endpoint| !endpoint.is_proxy) {
                true => self.published.insert(topic.clone()),
                false => self.published.remove(topic),
            };
        }
    }

    /// Tells the reactors what identifiers stand for, if that has changed.
    async fn tell_reactors(&mut self) {
        let mut told = FxHashMap::default();
        for topic in &self.published {
            let id = self.names.id_of(topic);
            if self.names.topic_of(id) == Some(topic) {
                told.insert(id, topic.clone());
            }
        }
        if told == self.told {
            return;
        }
        let identifiers = Arc::new(told.clone());
        match self.handle.set_identifiers(identifiers).await {
            Ok(()) => self.told = told,
            Err(error) => tracing::warn!("identifiers of topics: {error}"),
        }
    }

    /// Which topics NSQ clients have channels of.
    async fn look_at_channels(&mut self, now: Instant) {
        let Ok(stats) = self.handle.stats(StatsFilter::default()).await else {
            return;
        };
        let has_channel = |topic: &crate::stats::TopicStats| {
            topic
                .channels
                .iter()
                .any(|channel| !is_ours(&channel.channel))
        };
        let taken: BTreeSet<TopicName> = stats
            .topics
            .iter()
            .filter(|topic| has_channel(topic))
            .filter_map(|topic| topic.topic.parse().ok())
            .collect();
        if taken != self.taken {
            self.taken = taken;
            self.proxy.changed(now);
        }
    }

    async fn send(&self, to: SocketAddr, announcements: &[Announcement]) {
        let mut datagram = Vec::new();
        for announcement in announcements {
            datagram.clear();
            announcement.encode(self.config.key.as_ref(), &mut datagram);
            if let Err(error) = self.socket.send_to(&datagram, to).await {
                // Soft state: the next one may arrive.
                tracing::debug!("announcing to {to}: {error}");
            }
        }
    }
}

/// Whether an endpoint takes data where it announces from. Without a key anybody could name somebody else's address.
fn is_own(endpoint: &Endpoint) -> bool {
    let [data, from] = [endpoint.data, endpoint.announces_from].map(|at| at.ip().to_canonical());
    data == from
}

async fn receive(
    socket: Option<&AnnounceSocket>,
    datagram: &mut [u8],
) -> std::io::Result<(usize, SocketAddr)> {
    match socket {
        Some(socket) => socket.recv_from(datagram).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
