//! Publishers that declared themselves: who is attached, where they are sent, and notices that they
//! wait.
//!
//! A topic's home reactor knows all of its publishers ([`Attachments`]). Their connections may live
//! on other reactors, which learn of each other by post. A connection whose name a newer one takes
//! goes on publishing as if it had never declared itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use link::{Declaration, Move};
use topics::TopicKey;
use wire::TopicName;

use super::attachments::Owner;
use super::hosted::Hosted;
use super::inbox::Mail;
use super::peers::Peers;
use super::post::Post;
use super::time::Time;
use crate::connection::{Connection, ConnectionKey, DeclaredPublisher};

/// Waits shorter than this are not worth a frame.
const THROTTLED_MIN: Duration = Duration::from_millis(10);

/// What reactors tell each other of publishers.
#[derive(Debug)]
pub enum News {
    /// To the topic's home: a connection declared itself.
    Attached(TopicName, Arc<Declaration>, Owner),
    /// To the topic's home: it is gone, or declared itself anew.
    Detached(TopicName, Arc<Declaration>, Owner),
    /// To the connection's reactor: another connection has taken this one's name.
    Displaced(ConnectionKey, Arc<Declaration>),
    /// To the connection's reactor: tell it to move to this address.
    Move(ConnectionKey, TopicName, String),
}

/// What publishers with a declaration need of a reactor.
pub(super) struct Publishers<'a> {
    pub(super) time: &'a Time,
    pub(super) post: &'a mut Post,
    pub(super) peers: &'a mut Peers,
    pub(super) topics: &'a mut Hosted,
}

impl Publishers<'_> {
    /// Takes in what a connection says of itself in IDENTIFY, or (`None`) that it is nobody any more.
    pub(super) fn declare(
        &mut self,
        key: ConnectionKey,
        declaration: Option<wire::identify::Declaration>,
    ) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        if declaration.is_none() && connection.declared.is_none() {
            return;
        }
        let declared = declaration.map(|told| Box::new(DeclaredPublisher::new(told)));
        if let Some(former) = connection.declare(declared) {
            let owner = self.owner(key);
            let news = News::Detached(former.topic.clone(), former.declaration, owner);
            self.tell_home(&former.topic, news);
        }
        self.attach(key);
    }

    /// Has a connection's name registered where its topic lives.
    pub(super) fn attach(&mut self, key: ConnectionKey) {
        let owner = self.owner(key);
        let connection = self.peers.connections.get(key);
        if let Some(declared) = connection.and_then(|connection| connection.declared.as_ref()) {
            let topic = declared.topic.clone();
            let declaration = Arc::clone(&declared.declaration);
            let news = News::Attached(topic.clone(), declaration, owner);
            self.tell_home(&topic, news);
        }
    }

    /// Acts on news of publishers.
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Attached(topic, declaration, owner) => {
                let told = Arc::clone(&declaration);
                if let Some(former) = self.topics.attachments.attach(&topic, declaration, owner) {
                    let key = ConnectionKey::from_bits(former.connection);
                    self.tell(former.reactor, News::Displaced(key, told));
                }
            }
            News::Detached(topic, declaration, owner) => {
                self.topics
                    .attachments
                    .detach(&topic, &declaration.id, owner);
            }
            News::Displaced(key, by) => self.displace(key, &by),
            News::Move(key, topic, to) => self.send_migrate(key, &topic, &to),
        }
    }

    /// Tells publishers of a topic of this reactor to move; those that are not attached are counted.
    pub(super) fn move_publishers(&mut self, topic: &TopicName, moves: &[Move]) {
        if self.post.home_of(topic.as_str()) != self.post.number {
            return;
        }
        for Move { publisher, to } in moves {
            let owner = self.topics.attachments.find(topic, publisher);
            match owner.filter(|_| wire::is_valid_address(to)) {
                Some(owner) => {
                    let key = ConnectionKey::from_bits(owner.connection);
                    self.tell(owner.reactor, News::Move(key, topic.clone(), to.clone()));
                }
                None => {
                    tracing::debug!("{topic}: {publisher} cannot be told to move to {to}");
                    self.peers.counters.moves_unknown += 1;
                }
            }
        }
    }

    /// Tells a declared publisher of a topic of this reactor how long it waits, if it is long.
    pub(super) fn tell_wait(&mut self, key: ConnectionKey, topic: TopicKey, is_waiting: bool) {
        if let Some(wait) = self.wait_to_tell(topic, is_waiting) {
            self.peers.send_throttled(key, wait, self.time.now);
        }
    }

    /// How long a message published now waits, where that is worth a frame. A publisher that waits for room
    /// waits in any case.
    pub(super) fn wait_to_tell(&mut self, topic: TopicKey, is_waiting: bool) -> Option<Duration> {
        let wait = self.topics.table.expected_wait(topic, self.time.now);
        match is_waiting {
            true => Some(wait.max(THROTTLED_MIN)),
            false => Some(wait).filter(|wait| *wait >= THROTTLED_MIN),
        }
    }

    fn send_migrate(&mut self, key: ConnectionKey, topic: &TopicName, to: &str) {
        let declares = |connection: &Connection| connection.declares(topic.as_str());
        let full_bytes = self.peers.memory.output_full_bytes;
        let has_room = |connection: &Connection| !connection.output.is_full(full_bytes);
        let is_there = self
            .peers
            .connections
            .get(key)
            .is_some_and(|connection| declares(connection) && has_room(connection));
        if !is_there {
            self.peers.counters.moves_unknown += 1;
            return;
        }
        let said = self.peers.say(key, self.time.now, |connection| {
            let output = &mut connection.output;
            connection.session.tell_migrate(topic, to, output)
        });
        self.peers.counters.moves_sent += u64::from(said == Some(true));
    }

    /// Makes a connection nobody, unless it has declared itself as somebody else meanwhile.
    fn displace(&mut self, key: ConnectionKey, by: &Declaration) {
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return;
        };
        let is_meant = connection.declared.as_ref().is_some_and(|declared| {
            declared.declaration.id == by.id && declared.declaration.topic == by.topic
        });
        if is_meant {
            tracing::debug!("{}: {} has connected again", connection.peer, by.id);
            connection.declare(None);
        }
    }

    fn owner(&self, key: ConnectionKey) -> Owner {
        Owner {
            reactor: self.post.number,
            connection: key.to_bits(),
        }
    }

    fn tell_home(&mut self, topic: &TopicName, news: News) {
        self.tell(self.post.home_of(topic.as_str()), news);
    }

    fn tell(&mut self, reactor: usize, news: News) {
        if reactor == self.post.number {
            self.hear(news);
        } else {
            self.post.send(reactor, Mail::Publisher(news));
        }
    }
}

/// The name of a publisher in traces: its id, or where it connects from.
pub(super) fn name_of(publisher: Option<&Declaration>, peer: SocketAddr) -> String {
    match publisher {
        Some(publisher) => publisher.id.clone(),
        None => format!("~{peer}"),
    }
}
