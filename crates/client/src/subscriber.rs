//! Receiving messages of a channel and answering them.
//!
//! FIN, REQ and TOUCH are gathered and written together before the next read from the network, so a
//! burst of messages costs one write. The broker sends at most `ready_messages` ahead, which bounds
//! everything that waits here.

use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use api::Token;
use wire::identify::Identify;
use wire::{Frame, MessageId, command};

use crate::connection::{Connection, check_name};
use crate::encryption::Tls;
use crate::error::ClientError;

/// Bytes of gathered answers above which they are written without waiting for the next read.
const MAX_ANSWER_BYTES: usize = 16 << 10;

/// How a subscriber connects.
#[derive(Debug, Clone)]
pub struct SubscriberOptions {
    /// Short name that the broker shows for this client.
    pub client_id: String,
    /// What is shown to a broker that asks for it.
    pub token: Option<Token>,
    /// Messages that the broker may send before earlier ones are finished (RDY); nsqd allows 2500.
    pub ready_messages: u32,
    /// Time to finish a message before the broker sends it again; `None`: the broker's default.
    pub msg_timeout: Option<Duration>,
    /// Interval of the broker's heartbeats, at least a second. A broker that is silent for twice as long counts as
    /// dead, and the other way round: messages must be asked for more often than that.
    pub heartbeat_interval: Duration,
    /// Longest time that a message may wait in the broker's output buffer; zero switches the buffer off. `srtm` writes
    /// at the end of each turn whatever is asked here; nsqd waits up to this long, and by default 250 ms.
    pub output_buffer_timeout: Option<Duration>,
    /// Longest wait for the connection and for room in the socket.
    pub timeout: Duration,
    /// TLS with the broker; `None`: none.
    pub tls: Option<Tls>,
}

impl Default for SubscriberOptions {
    /// 256 messages ahead, heartbeats every 30 s, 30 s of patience, the broker's defaults otherwise.
    fn default() -> Self {
        Self {
            client_id: "srtm-client".to_owned(),
            token: None,
            ready_messages: 256,
            msg_timeout: None,
            heartbeat_interval: Duration::from_secs(30),
            output_buffer_timeout: None,
            timeout: Duration::from_secs(30),
            tls: None,
        }
    }
}

/// A message, borrowed from the subscriber until its next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Names the message in [`Subscriber::finish`] and its like.
    pub id: MessageId,
    /// When the broker received it, in nanoseconds since the Unix epoch by the broker's clock.
    pub timestamp_ns: i64,
    /// How often it has been sent to subscribers of the channel, this time included.
    pub attempts: u16,
    /// The message itself.
    pub body: &'a [u8],
}

/// A connection that receives the messages of one channel.
///
/// ```no_run
/// use client::{Subscriber, SubscriberOptions};
///
/// # fn main() -> Result<(), client::ClientError> {
/// let mut subscriber =
///     Subscriber::connect("127.0.0.1:4150", "temperature", "archive", SubscriberOptions::default())?;
/// loop {
///     let message = subscriber.next_message()?;
///     let (id, too_cold) = (message.id, message.body.starts_with(b"-"));
///     if too_cold {
///         subscriber.requeue(id, std::time::Duration::from_secs(1))?;
///     } else {
///         subscriber.finish(id)?;
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Subscriber {
    connection: Connection,
    /// Commands not written yet.
    answers: Vec<u8>,
    /// Silence after which the broker counts as dead.
    patience: Duration,
    /// When a frame came last.
    heard: Instant,
}

impl Subscriber {
    /// Connects, subscribes and lets the broker send.
    ///
    /// # Errors
    /// When a name is not valid, the broker cannot be reached or it refuses.
    pub fn connect(
        address: impl ToSocketAddrs,
        topic: &str,
        channel: &str,
        options: SubscriberOptions,
    ) -> Result<Self, ClientError> {
        check_name("topic", topic)?;
        check_name("channel", channel)?;
        let identify = Identify {
            client_id: options.client_id,
            user_agent: concat!("srtm-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            feature_negotiation: true,
            heartbeat_interval: milliseconds(options.heartbeat_interval),
            msg_timeout: options.msg_timeout.map_or(0, milliseconds),
            output_buffer_size: if options.output_buffer_timeout == Some(Duration::ZERO) {
                -1
            } else {
                0
            },
            output_buffer_timeout: match options.output_buffer_timeout {
                None => 0,
                Some(Duration::ZERO) => -1,
                Some(timeout) => milliseconds(timeout),
            },
            ..Identify::default()
        };
        let (mut connection, _) = Connection::open(
            address,
            &identify,
            options.token.as_ref(),
            options.tls.as_ref(),
            options.timeout,
        )?;
        let mut subscribe = Vec::new();
        command::put_sub(&mut subscribe, topic, channel);
        connection.write(&subscribe)?;
        let answer = connection.response(options.timeout)?;
        if answer != b"OK" {
            return Err(ClientError::Protocol(format!(
                "SUB: {}",
                String::from_utf8_lossy(&answer)
            )));
        }
        let mut answers = Vec::new();
        command::put_rdy(&mut answers, options.ready_messages);
        connection.write(&answers)?;
        answers.clear();
        Ok(Self {
            connection,
            answers,
            patience: 2 * options.heartbeat_interval,
            heard: now(),
        })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with a non-fatal code when an earlier FIN, REQ or TOUCH came too late; the next call
    /// goes on. Fatal errors end the connection: the broker sends unfinished messages again, to whoever subscribes.
    pub fn next_message(&mut self) -> Result<Message<'_>, ClientError> {
        while !self.wait_for_message(None)? {}
        self.take_message()
    }

    /// Waits for the next message, but no longer than `timeout`; zero only takes what has arrived.
    ///
    /// # Errors
    /// As [`Subscriber::next_message`].
    pub fn next_message_within(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Message<'_>>, ClientError> {
        if self.wait_for_message(Some(now() + timeout))? {
            self.take_message().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Says that a message is done with (FIN). Written with the next read, at [`Subscriber::flush`] or on drop.
    ///
    /// # Errors
    /// When the broker has hung up.
    pub fn finish(&mut self, id: MessageId) -> Result<(), ClientError> {
        command::put_fin(&mut self.answers, id);
        self.flush_when_large()
    }

    /// Gives a message back to the channel, to be sent again after `delay` (REQ; whole milliseconds).
    ///
    /// # Errors
    /// When the broker has hung up.
    pub fn requeue(&mut self, id: MessageId, delay: Duration) -> Result<(), ClientError> {
        command::put_req(
            &mut self.answers,
            id,
            u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
        );
        self.flush_when_large()
    }

    /// Asks for the full time to finish a message again (TOUCH); written at once, since it is urgent.
    ///
    /// # Errors
    /// When the broker has hung up.
    pub fn touch(&mut self, id: MessageId) -> Result<(), ClientError> {
        command::put_touch(&mut self.answers, id);
        self.flush()
    }

    /// Changes how many messages the broker may send ahead (RDY); 0 pauses. Written at once.
    ///
    /// # Errors
    /// When the broker has hung up.
    pub fn set_ready(&mut self, messages: u32) -> Result<(), ClientError> {
        command::put_rdy(&mut self.answers, messages);
        self.flush()
    }

    /// Writes what [`Subscriber::finish`] and [`Subscriber::requeue`] have gathered.
    ///
    /// # Errors
    /// When the broker has hung up.
    pub fn flush(&mut self) -> Result<(), ClientError> {
        if self.answers.is_empty() {
            return Ok(());
        }
        let result = self.connection.write(&self.answers);
        self.answers.clear();
        result
    }

    /// Ends the subscription in order (CLS): everything finished is known to the broker when this returns. Messages
    /// that arrive meanwhile are not lost, the broker sends them again to the next subscriber.
    ///
    /// # Errors
    /// When the broker hung up or did not answer within twice the heartbeat interval.
    pub fn close(mut self) -> Result<(), ClientError> {
        command::put_cls(&mut self.answers);
        self.flush()?;
        loop {
            if !self.connection.fill(self.patience)? {
                return Err(ClientError::Silent(self.patience));
            }
            match self.connection.frame()? {
                Some(Frame::Response(b"CLOSE_WAIT")) => return Ok(()),
                Some(Frame::Error(body)) => return Err(ClientError::refused(body)),
                _ => {}
            }
        }
    }

    /// Whether a message is next in the buffer, after waiting for one until `deadline` (`None`: no limit).
    fn wait_for_message(&mut self, deadline: Option<Instant>) -> Result<bool, ClientError> {
        loop {
            if !self.connection.has_frame()? {
                self.flush()?;
                if !self.wait_for_frame(deadline)? {
                    return Ok(false);
                }
            }
            match self.connection.peek()? {
                Some(Frame::Message { .. }) => return Ok(true),
                Some(Frame::Response(b"_heartbeat_")) => command::put_nop(&mut self.answers),
                Some(Frame::Error(body)) => {
                    let error = ClientError::refused(body);
                    self.connection.frame()?;
                    return Err(error);
                }
                Some(other) => {
                    return Err(ClientError::Protocol(format!("unexpected frame {other:?}")));
                }
                None => continue,
            }
            self.connection.frame()?;
        }
    }

    /// Whether a frame came before `deadline`; an error when the broker has been silent for too long.
    fn wait_for_frame(&mut self, deadline: Option<Instant>) -> Result<bool, ClientError> {
        let dead = self.heard + self.patience;
        let until = deadline.map_or(dead, |deadline| deadline.min(dead));
        if self
            .connection
            .fill(until.saturating_duration_since(now()))?
        {
            self.heard = now();
            return Ok(true);
        }
        if until == dead {
            Err(ClientError::Silent(self.patience))
        } else {
            Ok(false)
        }
    }

    fn take_message(&mut self) -> Result<Message<'_>, ClientError> {
        match self.connection.frame()? {
            Some(Frame::Message {
                timestamp_ns,
                attempts,
                id,
                body,
            }) => Ok(Message {
                id,
                timestamp_ns,
                attempts,
                body,
            }),
            _ => Err(ClientError::Protocol(
                "no message where there was one".to_owned(),
            )),
        }
    }

    fn flush_when_large(&mut self) -> Result<(), ClientError> {
        if self.answers.len() < MAX_ANSWER_BYTES {
            Ok(())
        } else {
            self.flush()
        }
    }
}

impl Drop for Subscriber {
    /// Writes what was finished, so that it is not sent again; failure means that it is.
    fn drop(&mut self) {
        let _unwritten_is_sent_again = self.flush();
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "a client's deadlines are deadlines of real time"
    )]
    Instant::now()
}
