//! The beginning of a connection: a session, or the question who serves this address.

use link::Door;

use super::hall::Hall;
use super::strangers;
use crate::agent::answer_at;
use crate::connection::ConnectionKey;
use crate::session::Failure;
use crate::session::greeting::{Doorkeeper, Greeting};

impl Hall {
    /// Reads what `bytes` begin with; gives how many bytes it took, none while it is not whole.
    ///
    /// # Errors
    /// The bytes are of no more use.
    pub(super) fn greet(&mut self, key: ConnectionKey, bytes: &[u8]) -> Result<usize, ()> {
        let announce = self.shared.config.announce.as_ref();
        let doorkeeper = Doorkeeper {
            tempo: announce.map(|announce| announce.key.as_ref()),
            needs_tls: self.shared.config.tls_required.is_for_clients(),
        };
        let Some(connection) = self.peers.connections.get_mut(key) else {
            return Err(());
        };
        match doorkeeper.greet(bytes) {
            Greeting::Incomplete { needed } => {
                connection.needed = needed;
                Ok(0)
            }
            Greeting::Begins(session, used) => {
                let is_known = !session.introduces_itself_later();
                connection.session = session;
                if is_known {
                    strangers::recognize(self, key);
                }
                Ok(used)
            }
            Greeting::Asks(question) => {
                self.answer_probe(key, question);
                Err(())
            }
            Greeting::Strange(failure) => {
                if let Failure::Tempo(_) = failure {
                    self.peers.counters.tempo_hellos_refused += 1;
                    self.close(key, &failure.to_string());
                } else {
                    self.fail(key, &failure);
                }
                Err(())
            }
        }
    }

    /// Answers a controller and ends the connection. A peer that does not know the key gets no
    /// answer.
    fn answer_probe(&mut self, key: ConnectionKey, question: &[u8]) {
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
    }
}
