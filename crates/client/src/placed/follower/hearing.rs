//! Messages of brokers, and their consequences.

use clock::Instant;
use wire::identify::{Declaration, Identify};
use wire::{ErrorCode, TopicName};

use super::{Follower, Throttled};
use crate::error::ClientError;
use crate::placed::connection::{ConnectionId, Heard, Phase};
use crate::placed::options::PlacedOptions;

/// The first bytes on a connection: the magic and IDENTIFY with the declaration. `topic` is the options' topic.
pub(super) fn greeting(options: &PlacedOptions, topic: TopicName) -> Vec<u8> {
    let identify = Identify {
        client_id: options.id.clone(),
        user_agent: concat!("srtm-client/", env!("CARGO_PKG_VERSION")).to_owned(),
        feature_negotiation: true,
        heartbeat_interval: i64::try_from(options.heartbeat_interval.as_millis())
            .unwrap_or(i64::MAX),
        srtm: options.acknowledgement.request(),
        publisher: Some(Declaration {
            id: options.id.clone(),
            topic,
            group: options.group.clone(),
            rate: Some(options.rate),
            batch: options.batch,
        }),
        ..Identify::default()
    };
    let mut bytes = wire::MAGIC_V2.to_vec();
    wire::command::put_identify(&mut bytes, &identify.to_json());
    bytes
}

impl Follower {
    /// Bytes read from a connection.
    pub fn received(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        match self.connections.get_mut(connection) {
            Some(connection) if connection.phase != Phase::Connecting => {
                connection.received(bytes, now)
            }
            _ => return,
        }
        // A frame may end the connection, so it is looked up for each.
        while let Some(found) = self.connections.get_mut(connection) {
            match found.hear() {
                Ok(Some(heard)) => self.heard(now, connection, heard),
                Ok(None) => break,
                Err(reason) => self.lose_for_protocol(now, connection, &reason),
            }
        }
        self.close_drained(now);
    }

    fn heard(&mut self, now: Instant, connection: ConnectionId, heard: Heard) {
        match heard {
            Heard::Greeted(answer) => {
                let token = self.options.token.as_ref();
                let found = self.connections.get_mut(connection);
                let answer = found.and_then(|found| found.introduced(answer, token));
                if let Some(answer) = answer {
                    self.switch(now, &answer);
                }
            }
            Heard::Ok | Heard::Accepted(_) => self.accepted(now, connection, &heard),
            Heard::Error(text) => self.complained(now, connection, text),
            Heard::Migrate { topic, address } if topic == self.options.topic => {
                self.migrate(now, connection, address);
            }
            Heard::Throttled {
                topic,
                retry_after_us,
            } if topic == self.options.topic && self.connections.is_active(connection) => {
                self.throttled = Some(Throttled {
                    at: now,
                    retry_after_us,
                });
            }
            // Of a topic that this publisher does not publish to, or of a connection that it leaves.
            Heard::Nothing | Heard::Migrate { .. } | Heard::Throttled { .. } => {}
        }
    }

    fn accepted(&mut self, now: Instant, connection: ConnectionId, heard: &Heard) {
        let Some(found) = self.connections.get_mut(connection) else {
            return;
        };
        match found.acknowledge(heard) {
            Ok(commands) => {
                for command in commands {
                    self.traffic.acknowledged += command.messages;
                    self.release(command.messages, command.bytes.len());
                }
                self.enquiring.went_well();
            }
            Err(reason) => self.lose_for_protocol(now, connection, reason),
        }
    }

    /// An error frame: the broker closes the connection after it.
    fn complained(&mut self, now: Instant, connection: ConnectionId, text: String) {
        let Some(found) = self.connections.get_mut(connection) else {
            return;
        };
        let is_about_command = found.phase == Phase::Ready && refuses_command(&text);
        let refused = is_about_command.then(|| found.take_oldest()).flatten();
        let reason = format!("the broker refused: {text}");
        if let Some(command) = &refused {
            self.traffic.refused += command.messages;
            self.release(command.messages, command.bytes.len());
            self.refusal = Some(ClientError::refused(text.as_bytes()));
        }
        // The broker lives if it judges messages: no reason to avoid it.
        self.lose(now, connection, &reason, refused.is_none());
    }

    fn migrate(&mut self, now: Instant, connection: ConnectionId, address: String) {
        if !self.connections.is_active(connection) {
            // Two brokers send it to different places: the controller knows.
            self.ask_again(now);
            return;
        }
        let is_there = self.broker() == Some(&address);
        let is_under_way = self
            .connections
            .making
            .as_ref()
            .is_some_and(|making| making.connection.address == address);
        if !is_there && !is_under_way {
            self.make(now, address, false);
        }
    }

    fn release(&mut self, messages: u64, bytes: usize) {
        self.held_messages -= messages as usize;
        self.held_bytes -= bytes;
    }

    fn lose_for_protocol(&mut self, now: Instant, connection: ConnectionId, reason: &str) {
        let reason = format!("the broker broke the protocol: {reason}");
        self.lose(now, connection, &reason, true);
    }
}

/// Whether an error says that the oldest command will never be accepted as it is. A broker that stops refuses
/// everything with the word `exiting`: others will take it.
fn refuses_command(text: &str) -> bool {
    let code = ErrorCode::of_body(text.as_bytes());
    match code {
        Some(ErrorCode::BadTopic | ErrorCode::BadMessage | ErrorCode::BadBody) => true,
        Some(ErrorCode::PubFailed | ErrorCode::MpubFailed) => !text.ends_with("exiting"),
        _ => false,
    }
}
