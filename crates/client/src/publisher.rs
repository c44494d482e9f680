//! Publishing with a bounded number of messages under way.
//!
//! A publish call writes its command at once and returns while the window has room; the answers of earlier calls are
//! read when the window is full, or at [`Publisher::flush`]. With a window of 1 every call waits for the answer to
//! the one before. Heartbeats are switched off, since nobody reads while the program is busy elsewhere; a dead
//! broker is noticed at the next call.

use std::collections::VecDeque;
use std::net::ToSocketAddrs;
use std::time::Duration;

use api::Token;
use serde_json::Value;
use wire::identify::{AckRequest, Identify};
use wire::{Frame, command};

use crate::connection::{Connection, check_name};
use crate::encryption::Tls;
use crate::error::ClientError;

/// How the broker tells that it accepted messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// `OK` for every publish call, as every NSQ broker does.
    Each,
    /// The SRTM extension: a count after this many messages, and no later than this many
    /// milliseconds after the first of them. Spares the broker about a third of its work. A broker
    /// without the extension gives [`Acknowledgement::Each`] instead.
    Cumulative {
        /// Messages between two acknowledgements; 1 to 65536.
        every_messages: u32,
        /// Longest wait for an acknowledgement; 1 to 1000 ms.
        interval_ms: u32,
    },
}

impl Acknowledgement {
    /// The wish for it in IDENTIFY.
    pub(crate) fn request(self) -> Option<AckRequest> {
        match self {
            Acknowledgement::Each => None,
            Acknowledgement::Cumulative {
                every_messages,
                interval_ms,
            } => Some(AckRequest {
                ack_every_messages: i64::from(every_messages),
                ack_interval_ms: i64::from(interval_ms),
            }),
        }
    }
}

/// What a publish call does when the window has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtWindow {
    /// Waits for acknowledgements.
    Wait,
    /// Takes acknowledgements that have arrived; if there is still no room, sends nothing and returns
    /// [`ClientError::WindowFull`].
    Refuse,
}

/// How a publisher connects and what it promises itself.
#[derive(Debug, Clone)]
pub struct PublisherOptions {
    /// Short name that the broker shows for this client.
    pub client_id: String,
    /// What is shown to a broker that asks for it.
    pub token: Option<Token>,
    /// How acceptance is told.
    pub acknowledgement: Acknowledgement,
    /// Most messages without an acknowledgement, at least 1. A larger batch goes alone.
    pub window_messages: usize,
    /// What happens at that bound.
    pub at_window: AtWindow,
    /// Longest wait for the connection, for one acknowledgement and for room in the socket.
    pub timeout: Duration,
    /// TLS with the broker; `None`: none.
    pub tls: Option<Tls>,
}

impl Default for PublisherOptions {
    /// An OK per call, 1000 messages under way, waiting at the bound, 30 s of patience.
    fn default() -> Self {
        Self {
            client_id: "srtm-client".to_owned(),
            token: None,
            acknowledgement: Acknowledgement::Each,
            window_messages: 1000,
            at_window: AtWindow::Wait,
            timeout: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// A connection that publishes.
///
/// ```no_run
/// use client::{Acknowledgement, Publisher, PublisherOptions};
///
/// # fn main() -> Result<(), client::ClientError> {
/// let options = PublisherOptions {
///     acknowledgement: Acknowledgement::Cumulative { every_messages: 64, interval_ms: 5 },
///     ..PublisherOptions::default()
/// };
/// let mut publisher = Publisher::connect("127.0.0.1:4150", options)?;
/// publisher.publish_many("temperature", &["21.5", "21.6"])?;
/// publisher.flush()?;
/// assert_eq!(publisher.acknowledged(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Publisher {
    connection: Connection,
    options: PublisherOptions,
    cumulative: bool,
    sent: u64,
    acknowledged: u64,
    /// Messages of each command that waits for its OK; unused with cumulative acknowledgements.
    commands: VecDeque<u64>,
    bytes: Vec<u8>,
}

impl Publisher {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// When the broker cannot be reached or refuses.
    pub fn connect(
        address: impl ToSocketAddrs,
        options: PublisherOptions,
    ) -> Result<Self, ClientError> {
        let identify = Identify {
            client_id: options.client_id.clone(),
            user_agent: concat!("srtm-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            feature_negotiation: true,
            heartbeat_interval: -1,
            srtm: options.acknowledgement.request(),
            ..Identify::default()
        };
        let (connection, answer) = Connection::open(
            address,
            &identify,
            options.token.as_ref(),
            options.tls.as_ref(),
            options.timeout,
        )?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        Ok(Self {
            connection,
            cumulative: identify.srtm.is_some() && answer["srtm"].is_object(),
            options,
            sent: 0,
            acknowledged: 0,
            commands: VecDeque::new(),
            bytes: Vec::new(),
        })
    }

    /// Publishes one message.
    ///
    /// # Errors
    /// [`ClientError::Name`], [`ClientError::Empty`] and [`ClientError::WindowFull`] before anything is sent. Others
    /// end the connection: messages beyond [`Publisher::acknowledged`] may or may not have been accepted.
    pub fn publish(&mut self, topic: &str, body: &[u8]) -> Result<(), ClientError> {
        check(topic, body)?;
        self.make_room(1)?;
        command::put_pub(&mut self.bytes, topic, body);
        self.send(1)
    }

    /// Publishes messages in one command: the broker accepts all of them or none.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_many<B: AsRef<[u8]>>(
        &mut self,
        topic: &str,
        bodies: &[B],
    ) -> Result<(), ClientError> {
        if bodies.is_empty() {
            return Err(ClientError::Empty);
        }
        bodies
            .iter()
            .try_for_each(|body| check(topic, body.as_ref()))?;
        self.make_room(bodies.len() as u64)?;
        command::put_mpub(&mut self.bytes, topic, bodies);
        self.send(bodies.len() as u64)
    }

    /// Publishes a message that the broker keeps back for `delay` (whole milliseconds).
    ///
    /// # Errors
    /// As [`Publisher::publish`]; the broker refuses delays above its maximum.
    pub fn publish_deferred(
        &mut self,
        topic: &str,
        delay: Duration,
        body: &[u8],
    ) -> Result<(), ClientError> {
        check(topic, body)?;
        self.make_room(1)?;
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        command::put_dpub(&mut self.bytes, topic, delay_ms, body);
        self.send(1)
    }

    /// Waits until everything sent is acknowledged.
    ///
    /// # Errors
    /// When the broker refused a message, hung up, or did not answer in time.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        while self.unacknowledged() > 0 {
            self.read_acknowledgements(self.options.timeout)?;
        }
        Ok(())
    }

    /// Messages accepted by the broker since this connection began.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Messages sent whose acceptance is not known yet.
    pub fn unacknowledged(&self) -> usize {
        (self.sent - self.acknowledged) as usize
    }

    /// Whether the broker granted cumulative acknowledgements.
    pub fn is_cumulative(&self) -> bool {
        self.cumulative
    }

    /// Makes the window fit `messages` more, or nothing at all under way for a batch larger than the window.
    fn make_room(&mut self, messages: u64) -> Result<(), ClientError> {
        let window = self.options.window_messages.max(1) as u64;
        let fits = |publisher: &Self| {
            let under_way = publisher.sent - publisher.acknowledged;
            under_way == 0 || under_way + messages <= window
        };
        let refuses = self.options.at_window == AtWindow::Refuse;
        while !fits(self) {
            let timeout = if refuses {
                Duration::ZERO
            } else {
                self.options.timeout
            };
            match self.read_acknowledgements(timeout) {
                Err(ClientError::Silent(_)) if refuses => {
                    return Err(ClientError::WindowFull {
                        unacknowledged: self.unacknowledged(),
                        window: self.options.window_messages,
                    });
                }
                result => result?,
            }
        }
        Ok(())
    }

    /// Writes the command in `bytes`.
    fn send(&mut self, messages: u64) -> Result<(), ClientError> {
        let result = self.connection.write(&self.bytes);
        self.bytes.clear();
        self.sent += messages;
        if !self.cumulative {
            self.commands.push_back(messages);
        }
        result
    }

    /// Waits for at least one acknowledgement, then takes all that have arrived.
    fn read_acknowledgements(&mut self, timeout: Duration) -> Result<(), ClientError> {
        if !self.connection.fill(timeout)? {
            return Err(ClientError::Silent(timeout));
        }
        while let Some(frame) = self.connection.frame()? {
            let acknowledged = match frame {
                Frame::Response(b"OK") if !self.cumulative => self
                    .commands
                    .pop_front()
                    .map(|messages| self.acknowledged + messages),
                Frame::Ack { total_messages } if self.cumulative => Some(total_messages),
                Frame::Error(body) => return Err(ClientError::refused(body)),
                other => {
                    return Err(ClientError::Protocol(format!(
                        "unexpected answer {other:?}"
                    )));
                }
            };
            match acknowledged {
                Some(total) if (self.acknowledged..=self.sent).contains(&total) => {
                    self.acknowledged = total
                }
                _ => {
                    return Err(ClientError::Protocol(
                        "more acknowledged than was sent".to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn check(topic: &str, body: &[u8]) -> Result<(), ClientError> {
    check_name("topic", topic)?;
    if body.is_empty() {
        Err(ClientError::Empty)
    } else {
        Ok(())
    }
}
