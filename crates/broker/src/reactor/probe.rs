//! A controller asks who serves this address ([`link::probe_answer`]).

use link::{Door, QUESTION_BYTES};

use super::Reactor;
use crate::agent::answer_at;
use crate::connection::ConnectionKey;

impl Reactor {
    /// Answers the question that `bytes` begin with and ends the connection; false while the question is not whole. Who does
    /// not know the key is not answered.
    pub(super) fn answer_probe(&mut self, key: ConnectionKey, bytes: &[u8]) -> bool {
        let Some(question) = bytes.get(..QUESTION_BYTES) else {
            if let Some(connection) = self.peers.connections.get_mut(key) {
                connection.needed = QUESTION_BYTES;
            }
            return false;
        };
        let shared = &self.shared;
        let answer = answer_at(Door::Clients, &shared.config, &shared.link, question);
        match (answer, self.peers.connections.get_mut(key)) {
            (Some(answer), Some(connection)) => {
                connection.output.bytes().extend_from_slice(&answer);
                self.peers.mark_dirty(key);
                self.begin_lingering(key);
            }
            _ => self.close(key, "a probe without the key"),
        }
        true
    }
}
