//! What brokers say, and what follows from it.

use clock::Instant;
use wire::identify::{Declaration, Identify};
use wire::{ErrorCode, TopicName};

use super::{Follower, Throttled};
use crate::error::ClientError;
use crate::placed::link::{Heard, LinkId, Phase};
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
    /// Bytes read from a link.
    pub fn received(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        match self.links.get_mut(link) {
            Some(link) if link.phase != Phase::Connecting => link.received(bytes, now),
            _ => return,
        }
        // A frame may end the link, so it is looked up for each.
        while let Some(connection) = self.links.get_mut(link) {
            match connection.hear() {
                Ok(Some(heard)) => self.heard(now, link, heard),
                Ok(None) => break,
                Err(reason) => self.lose_for_protocol(now, link, &reason),
            }
        }
        self.close_drained(now);
    }

    fn heard(&mut self, now: Instant, link: LinkId, heard: Heard) {
        match heard {
            Heard::Greeted(answer) => self.switch(now, &answer),
            Heard::Ok | Heard::Accepted(_) => self.accepted(now, link, &heard),
            Heard::Error(text) => self.complained(now, link, text),
            Heard::Migrate { topic, address } if topic == self.options.topic => {
                self.migrate(now, link, address);
            }
            Heard::Throttled {
                topic,
                retry_after_us,
            } if topic == self.options.topic && self.links.is_active(link) => {
                self.throttled = Some(Throttled {
                    at: now,
                    retry_after_us,
                });
            }
            // Of a topic that this publisher does not publish to, or of a link that it leaves.
            Heard::Nothing | Heard::Migrate { .. } | Heard::Throttled { .. } => {}
        }
    }

    fn accepted(&mut self, now: Instant, link: LinkId, heard: &Heard) {
        let Some(connection) = self.links.get_mut(link) else {
            return;
        };
        match connection.acknowledge(heard) {
            Ok(commands) => {
                for command in commands {
                    self.traffic.acknowledged += command.messages;
                    self.release(command.messages, command.bytes.len());
                }
                self.enquiring.went_well();
            }
            Err(reason) => self.lose_for_protocol(now, link, reason),
        }
    }

    /// An error frame: the broker closes the connection after it.
    fn complained(&mut self, now: Instant, link: LinkId, text: String) {
        let Some(connection) = self.links.get_mut(link) else {
            return;
        };
        let is_about_command = connection.phase == Phase::Ready && refuses_command(&text);
        let refused = is_about_command.then(|| connection.take_oldest()).flatten();
        let reason = format!("the broker refused: {text}");
        if let Some(command) = &refused {
            self.traffic.refused += command.messages;
            self.release(command.messages, command.bytes.len());
            self.refusal = Some(ClientError::refused(text.as_bytes()));
        }
        // The broker lives if it judges messages: no reason to avoid it.
        self.lose(now, link, &reason, refused.is_none());
    }

    fn migrate(&mut self, now: Instant, link: LinkId, address: String) {
        if !self.links.is_active(link) {
            // Two brokers send it to different places: the controller knows.
            self.ask_again(now);
            return;
        }
        let is_there = self.broker() == Some(&address);
        let is_under_way = self
            .links
            .making
            .as_ref()
            .is_some_and(|making| making.link.address == address);
        if !is_there && !is_under_way {
            self.make(now, address, false);
        }
    }

    fn release(&mut self, messages: u64, bytes: usize) {
        self.held_messages -= messages as usize;
        self.held_bytes -= bytes;
    }

    fn lose_for_protocol(&mut self, now: Instant, link: LinkId, reason: &str) {
        let reason = format!("the broker broke the protocol: {reason}");
        self.lose(now, link, &reason, true);
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
