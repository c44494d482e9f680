//! nsqlookupd's TCP protocol, both directions of both ends.
//!
//! A peer (an nsqd, a broker) opens with [`MAGIC`], then sends lines: `IDENTIFY` followed by a
//! sized JSON body, `REGISTER topic [channel]`, `UNREGISTER topic [channel]`, `PING`. Each is
//! answered by a size and so many bytes, without a frame type: `OK`, a text that begins with `E_`,
//! or after `IDENTIFY` an [`Introduction`]. Error texts are nsqlookupd 1.3.0's. Lines, bodies and
//! answers have bounds here; nsqlookupd has none.

use serde::{Deserialize, Serialize};

use crate::{ChannelName, TopicName};

/// The first bytes of a connection.
pub const MAGIC: [u8; 4] = *b"  V1";

/// The answer to any other beginning.
pub const BAD_MAGIC: &str = "E_BAD_PROTOCOL";

/// Longest command line in bytes, its end included; the longest valid one has 142.
pub const LINE_MAX_BYTES: usize = 1024;

/// Longest body of `IDENTIFY` in bytes; that of nsqd has about 130.
pub const BODY_MAX_BYTES: usize = 16 * 1024;

/// Longest text of `IDENTIFY` about a peer, in bytes: each is told with everything that the peer has.
pub const FIELD_MAX_BYTES: usize = 255;

/// Longest answer that a peer takes, in bytes; an introduction has about 130.
pub const ANSWER_MAX_BYTES: usize = 16 * 1024;

/// A peer's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A sign of life.
    Ping,
    /// The peer's identity; once per connection.
    Identify(Identity),
    /// It has this topic, or this channel and thereby its topic.
    Register(Subject),
    /// It no longer has this channel, or this topic with all its channels.
    Unregister(Subject),
}

/// The subject of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Topic.
    pub topic: TopicName,
    /// A channel of the topic; `None` where the topic itself is meant.
    pub channel: Option<ChannelName>,
}

/// A peer's identity and where its clients find it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Host name or address that clients connect to.
    pub broadcast_address: String,
    /// Name of its machine.
    pub hostname: String,
    /// Port for NSQ clients.
    pub tcp_port: u16,
    /// Port of its HTTP API.
    pub http_port: u16,
    /// Its version; tools expect three numbers with dots.
    pub version: String,
}

impl Identity {
    /// Where its HTTP is, as tombstones name it.
    #[must_use]
    pub fn http_node(&self) -> String {
        format!("{}:{}", self.broadcast_address, self.http_port)
    }
}

/// An nsqlookupd's identity: its answer to `IDENTIFY`, in nsqlookupd's order. Fields that another
/// version leaves out read as empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Introduction {
    /// Host name or address that it is to be asked at.
    pub broadcast_address: String,
    /// Name of its machine.
    pub hostname: String,
    /// Port of its HTTP API.
    pub http_port: u16,
    /// Port of this protocol.
    pub tcp_port: u16,
    /// Its version.
    pub version: String,
}

impl Introduction {
    /// Reads the answer to `IDENTIFY`; `None` for anything else, such as an error.
    #[must_use]
    pub fn from_json(answer: &[u8]) -> Option<Introduction> {
        serde_json::from_slice(answer).ok()
    }

    /// Where its HTTP API is asked, `host:port`; `None` where it does not tell.
    #[must_use]
    pub fn http_address(&self) -> Option<String> {
        let host = &self.broadcast_address;
        let is_told = !host.is_empty() && self.http_port != 0;
        // An IPv6 address would run into the port.
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.clone(),
        };
        is_told.then(|| format!("{host}:{}", self.http_port))
    }
}

/// What cannot be accepted: a code, a blank, a text for people. The connection ends after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

/// The first command of `input` and how many bytes it takes; `None` while it has not arrived whole. Behind
/// `is_identified` is whether an `IDENTIFY` has been accepted already.
///
/// # Errors
/// [`Refusal`] for what is no command, or none at this moment, or has invalid names or a bad body.
pub fn decode(input: &[u8], is_identified: bool) -> Result<Option<(Command, usize)>, Refusal> {
    let window = &input[..input.len().min(LINE_MAX_BYTES)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        if window.len() == LINE_MAX_BYTES {
            return Err(invalid("the line is too long"));
        }
        return Ok(None);
    };
    let line = String::from_utf8_lossy(&input[..end]);
    let mut words = line.trim().split(' ');
    let used = end + 1;
    let command = match words.next().unwrap_or_default() {
        "PING" => Command::Ping,
        "IDENTIFY" if is_identified => return Err(invalid("cannot IDENTIFY again")),
        "IDENTIFY" => {
            let Some((identity, body_bytes)) = identity(&input[used..])? else {
                return Ok(None);
            };
            return Ok(Some((Command::Identify(identity), used + body_bytes)));
        }
        "REGISTER" | "UNREGISTER" if !is_identified => {
            return Err(invalid("client must IDENTIFY"));
        }
        word @ "REGISTER" => Command::Register(subject(word, words)?),
        word @ "UNREGISTER" => Command::Unregister(subject(word, words)?),
        word => return Err(invalid(&format!("invalid command {word}"))),
    };
    Ok(Some((command, used)))
}

/// Appends a command as a peer sends it.
pub fn put_command(command: &Command, output: &mut Vec<u8>) {
    let line = |word: &str, subject: &Subject| match &subject.channel {
        Some(channel) => format!("{word} {} {channel}\n", subject.topic),
        None => format!("{word} {}\n", subject.topic),
    };
    match command {
        Command::Ping => output.extend_from_slice(b"PING\n"),
        Command::Identify(identity) => {
            output.extend_from_slice(b"IDENTIFY\n");
            // Text and numbers, which JSON holds.
            let body = serde_json::to_vec(identity).unwrap_or_default();
            output.extend_from_slice(&encode_answer(&body));
        }
        Command::Register(subject) => {
            output.extend_from_slice(line("REGISTER", subject).as_bytes())
        }
        Command::Unregister(subject) => {
            output.extend_from_slice(line("UNREGISTER", subject).as_bytes());
        }
    }
}

/// The first answer of `input` and how many bytes it takes with its size; `None` while it has not arrived whole.
///
/// # Errors
/// [`AnswerTooLong`], checked before the answer has arrived. The connection cannot go on after it.
pub fn decode_answer(input: &[u8]) -> Result<Option<(&[u8], usize)>, AnswerTooLong> {
    let Some((size, rest)) = input.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*size);
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    if bytes > ANSWER_MAX_BYTES {
        return Err(AnswerTooLong(size));
    }
    Ok(rest.get(..bytes).map(|answer| (answer, 4 + bytes)))
}

/// An answer that no nsqlookupd gives: whoever listens there is something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an answer of {0} bytes is longer than {ANSWER_MAX_BYTES}: is this an nsqlookupd's TCP port?"
)]
pub struct AnswerTooLong(pub u32);

/// A sized text as it goes out.
#[must_use]
pub fn encode_answer(data: &[u8]) -> Vec<u8> {
    // Bounded by what either end says about itself.
    let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(4 + data.len());
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// The body of `IDENTIFY` as it comes. Fields that are missing are an error of their own, and unknown ones are ignored:
/// later versions of nsqd send more.
#[derive(Debug, Deserialize)]
struct Body {
    broadcast_address: Option<String>,
    hostname: Option<String>,
    tcp_port: Option<u16>,
    http_port: Option<u16>,
    version: Option<String>,
}

/// A sized body at the start of `input` and the bytes that it takes with its size.
fn identity(input: &[u8]) -> Result<Option<(Identity, usize)>, Refusal> {
    let Some((size, rest)) = input.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let size = u32::from_be_bytes(*size);
    let body_bytes = usize::try_from(size).unwrap_or(usize::MAX);
    if body_bytes > BODY_MAX_BYTES {
        // Signed, as peers write it.
        let size = size.cast_signed();
        return Err(bad_body(&format!(
            "body size {size} is not within 0 to {BODY_MAX_BYTES}"
        )));
    }
    let Some(body) = rest.get(..body_bytes) else {
        return Ok(None);
    };
    let undecodable = || bad_body("failed to decode JSON body");
    // A list of values in the right order would be taken too.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(undecodable());
    }
    let body: Body = serde_json::from_slice(body).map_err(|_| undecodable())?;
    let identity = Identity {
        broadcast_address: body.broadcast_address.unwrap_or_default(),
        hostname: body.hostname.unwrap_or_default(),
        tcp_port: body.tcp_port.unwrap_or_default(),
        http_port: body.http_port.unwrap_or_default(),
        version: body.version.unwrap_or_default(),
    };
    let is_whole = !identity.broadcast_address.is_empty()
        && identity.tcp_port != 0
        && identity.http_port != 0
        && !identity.version.is_empty();
    if !is_whole {
        return Err(bad_body("missing fields"));
    }
    let texts = [
        ("broadcast_address", &identity.broadcast_address),
        ("hostname", &identity.hostname),
        ("version", &identity.version),
    ];
    if let Some((field, text)) = texts.iter().find(|(_, text)| text.len() > FIELD_MAX_BYTES) {
        let bytes = text.len();
        return Err(bad_body(&format!(
            "{field} of {bytes} bytes is longer than {FIELD_MAX_BYTES}"
        )));
    }
    Ok(Some((identity, 4 + body_bytes)))
}

fn subject<'a>(
    command: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<Subject, Refusal> {
    let topic = words
        .next()
        .ok_or_else(|| invalid(&format!("{command} insufficient number of params")))?;
    let channel = words.next().filter(|channel| !channel.is_empty());
    let bad = |code: &str, what: &str, name: &str| {
        Refusal(format!(
            "{code} {command} {what} name '{name}' is not valid"
        ))
    };
    Ok(Subject {
        topic: topic
            .parse()
            .map_err(|_| bad("E_BAD_TOPIC", "topic", topic))?,
        channel: channel
            .map(|name| {
                name.parse()
                    .map_err(|_| bad("E_BAD_CHANNEL", "channel", name))
            })
            .transpose()?,
    })
}

fn invalid(text: &str) -> Refusal {
    Refusal(format!("E_INVALID {text}"))
}

fn bad_body(text: &str) -> Refusal {
    Refusal(format!("E_BAD_BODY IDENTIFY {text}"))
}

#[cfg(test)]
mod tests;
