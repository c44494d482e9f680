//! End-to-end latency without synchronised clocks, as the publisher sees it: marked messages and
//! UDP echoes.
//!
//! This is the method of Tempo's experiments. The publisher marks a random sample of its messages;
//! the subscribing program sends each mark straight back by UDP; the publisher measures the time in
//! between on its own clock. That is the latency plus the datagram's way back, so it overestimates
//! by about half a round trip between the two machines. Unlike the broker's own figure it ends in
//! the subscribing program and needs that program's help.
//!
//! Nothing is marked unless asked for: a mark changes the body ([`Mark`]), and a subscriber that
//! does not know of marks sees [`MARK_BYTES`] more bytes at its end. One that does passes bodies
//! through [`Echoer::echo`].
//!
//! ```no_run
//! use client::{EchoListener, Echoer, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
//!
//! # fn main() -> Result<(), client::ClientError> {
//! let mut publisher = Publisher::connect("127.0.0.1:4150", PublisherOptions::default())?;
//! let mut listener = EchoListener::bind("127.0.0.1:0", 10)?; // one message in ten
//! publisher.publish_marked("temperature", b"21.5", &mut listener)?;
//!
//! let mut subscriber =
//!     Subscriber::connect("127.0.0.1:4150", "temperature", "archive", SubscriberOptions::default())?;
//! let mut echoer = Echoer::bind("0.0.0.0:0")?;
//! let message = subscriber.next_message()?;
//! assert_eq!(echoer.echo(message.body), b"21.5");
//!
//! println!("{:?}", listener.latencies());
//! # Ok(())
//! # }
//! ```
//!
//! **Trust.** A mark names the address that the echo goes to, so whoever may publish can make an
//! echoing subscriber send datagrams of [`MARK_BYTES`] bytes there: never more bytes than it was
//! sent, and at most [`ECHOES_PER_SECOND`]. Echo only where publishers are trusted that far. Echoes
//! are not authenticated either.

mod mark;

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use mark::{MARK_BYTES, Mark};

use crate::error::ClientError;
use crate::publisher::Publisher;

/// Most echoes that one [`Echoer`] sends in a second; it drops the others.
pub const ECHOES_PER_SECOND: u32 = 1000;

/// Latencies that wait to be taken; at the bound further ones are dropped.
const LATENCIES_MAX: usize = 65_536;

/// An echo older than this is useless, and perhaps not ours.
const AGE_MAX: Duration = Duration::from_secs(60);

/// The publisher's side: marks messages and hears their echoes.
///
/// A thread waits for them, so that an echo is timed when it arrives and not when it is asked for.
#[derive(Debug)]
pub struct EchoListener {
    reply_to: SocketAddr,
    born: Instant,
    every: u32,
    random: clock::Xoshiro256PlusPlus,
    latencies: Receiver<Duration>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The subscriber's side: strips marks and sends them back.
#[derive(Debug)]
pub struct Echoer {
    socket: UdpSocket,
    born: Instant,
    second: u64,
    sent: u32,
    dropped: u64,
}

impl EchoListener {
    /// Listens on `address`, which is told to subscribers and must be one that they reach: not 0.0.0.0. Port 0 takes a
    /// free one. One message in `every` is marked, drawn at random; 1 marks all.
    ///
    /// # Errors
    /// [`ClientError::Io`] when the address cannot be bound or is none that one could reply to.
    pub fn bind(address: impl ToSocketAddrs, every: u32) -> Result<Self, ClientError> {
        let failed = ClientError::io("listen for echoes");
        let socket = UdpSocket::bind(address).map_err(failed)?;
        let reply_to = socket
            .local_addr()
            .map_err(ClientError::io("listen for echoes"))?;
        if reply_to.ip().is_unspecified() {
            let source = std::io::ErrorKind::InvalidInput.into();
            let what =
                "listen for echoes on an unspecified address; give one that subscribers reach";
            return Err(ClientError::Io { what, source });
        }
        let (sender, latencies) = sync_channel(LATENCIES_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let born = now();
        let (stopped, socket) = (Arc::clone(&stop), socket);
        let thread = std::thread::Builder::new()
            .name("echo-listener".to_owned())
            .spawn(move || listen(&socket, reply_to, born, &stopped, &sender))
            .map_err(ClientError::io("start a thread for echoes"))?;
        Ok(Self {
            reply_to,
            born,
            every: every.max(1),
            // Which messages are drawn needs no secrecy, only to differ from publisher to publisher.
            random: clock::stream(u64::from(reply_to.port()), "marks"),
            latencies,
            stop,
            thread: Some(thread),
        })
    }

    /// Where echoes are awaited.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.reply_to
    }

    /// Appends a mark to a message that is about to be sent, if it is one of the sample. Says whether.
    pub fn mark(&mut self, body: &mut Vec<u8>) -> bool {
        let is_drawn = clock::below(&mut self.random, self.every) == 0;
        if is_drawn {
            let sent_ns = nanos(now() - self.born);
            let mark = Mark {
                reply_to: self.reply_to,
                sent_ns,
            };
            mark.append_to(body);
        }
        is_drawn
    }

    /// Takes the latencies that echoes have told since the last call: from the mark to the echo's arrival, the
    /// datagram's way included.
    #[must_use]
    pub fn latencies(&self) -> Vec<Duration> {
        self.latencies.try_iter().collect()
    }

    /// Waits for the next latency; `None` when none came within `timeout`.
    #[must_use]
    pub fn next_latency(&self, timeout: Duration) -> Option<Duration> {
        self.latencies.recv_timeout(timeout).ok()
    }
}

impl Echoer {
    /// Sends echoes from `address`; `0.0.0.0:0` reaches publishers on IPv4, `[::]:0` usually all.
    ///
    /// # Errors
    /// [`ClientError::Io`] when the address cannot be bound.
    pub fn bind(address: impl ToSocketAddrs) -> Result<Self, ClientError> {
        let socket = UdpSocket::bind(address).map_err(ClientError::io("bind for echoes"))?;
        socket
            .set_nonblocking(true)
            .map_err(ClientError::io("bind for echoes"))?;
        Ok(Self {
            socket,
            born: now(),
            second: 0,
            sent: 0,
            dropped: 0,
        })
    }

    /// The body without its mark; the mark, if there is one, goes back to whoever made it. Never waits.
    pub fn echo<'a>(&mut self, body: &'a [u8]) -> &'a [u8] {
        let Some((rest, mark)) = Mark::split(body) else {
            return body;
        };
        let second = (now() - self.born).as_secs();
        if second != self.second {
            (self.second, self.sent) = (second, 0);
        }
        let may_send = self.sent < ECHOES_PER_SECOND;
        let datagram = &body[rest.len()..];
        match may_send.then(|| self.socket.send_to(datagram, mark.reply_to)) {
            Some(Ok(_)) => self.sent += 1,
            // Datagrams may be lost anyway; a measurement is not worth an error to the program.
            Some(Err(_)) | None => self.dropped += 1,
        }
        rest
    }

    /// Echoes not sent: too many in a second, or refused by the system.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Publisher {
    /// Publishes a message that is marked if `listener` draws it.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_marked(
        &mut self,
        topic: &str,
        body: &[u8],
        listener: &mut EchoListener,
    ) -> Result<(), ClientError> {
        let mut marked = Vec::with_capacity(body.len() + MARK_BYTES);
        marked.extend_from_slice(body);
        listener.mark(&mut marked);
        self.publish(topic, &marked)
    }
}

impl Drop for EchoListener {
    /// Ends the thread: it is told to stop and woken by a datagram.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let is_woken = UdpSocket::bind((self.reply_to.ip(), 0))
            .and_then(|socket| socket.send_to(&[], self.reply_to))
            .is_ok();
        if let Some(thread) = self.thread.take()
            && is_woken
        {
            let _it_only_listened = thread.join();
        }
    }
}

/// Takes echoes until told to stop.
fn listen(
    socket: &UdpSocket,
    reply_to: SocketAddr,
    born: Instant,
    stop: &AtomicBool,
    latencies: &SyncSender<Duration>,
) {
    let mut datagram = [0; MARK_BYTES + 1];
    while !stop.load(Ordering::Acquire) {
        let Ok((bytes, _)) = socket.recv_from(&mut datagram) else {
            continue;
        };
        let age = now() - born;
        if let Some(latency) = latency_of(&datagram[..bytes], reply_to, age) {
            // Nobody takes them: the newest are lost.
            let _full = latencies.try_send(latency);
        }
    }
}

/// The latency that an echo shows when it arrives at `age` of the listener at `reply_to`; `None` if
/// it is not one of its own.
fn latency_of(datagram: &[u8], reply_to: SocketAddr, age: Duration) -> Option<Duration> {
    let (rest, mark) = Mark::split(datagram)?;
    let latency = age.checked_sub(Duration::from_nanos(mark.sent_ns))?;
    let is_ours = rest.is_empty() && mark.reply_to == reply_to && latency <= AGE_MAX;
    is_ours.then_some(latency)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn now() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "the latency is one of real time, and this clock its only witness"
    )]
    Instant::now()
}

#[cfg(test)]
mod tests;
