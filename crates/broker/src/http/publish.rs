//! `POST /pub` and `POST /mpub`.
//!
//! A publish is answered when the topic has taken the messages, as over TCP: while a topic's queue
//! is full the answer waits. Unlike in nsqd, a request that fails creates no topic, and a binary
//! MPUB with bytes after its last message is refused rather than cut.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use http::nsq::{Failure, text};
use http::{Query, flag_word};
use wire::TopicName;

use super::asker::Asker;
use super::{Service, Shared};

/// `POST /pub?topic=T[&defer=MS]`: the body is one message.
pub(super) async fn publish(State(service): Shared, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let max_bytes = service.handle.config().max_msg_size as usize;
    let body = service
        .room
        .read(&parts.headers, body, max_bytes, "MSG_TOO_BIG")
        .await?;
    if body.bytes.is_empty() {
        return Err(Failure::new(400, "MSG_EMPTY"));
    }
    let query = Query::of(&parts.uri)?;
    let topic = topic(&query)?;
    let delay = defer(&query, service.handle.config().max_req_timeout)?;
    let Asker(maker) = Asker::of(&parts);
    service
        .handle
        .publish_for(maker, topic, vec![body.bytes.clone()], delay)
        .await?;
    Ok(text("OK"))
}

/// `POST /mpub?topic=T[&binary=true]`: one message per line, or nsqd's binary form.
pub(super) async fn publish_many(
    State(service): Shared,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let config = service.handle.config();
    let (max_msg_size, max_body_size) =
        (config.max_msg_size as usize, config.max_body_size as usize);
    let (topic, binary) = mpub_parameters(&parts.uri)?;
    let body = service
        .room
        .read(&parts.headers, body, max_body_size, "BODY_TOO_BIG")
        .await?;
    let messages = if binary {
        binary_messages(&body.bytes, max_msg_size, max_body_size)?
    } else {
        text_messages(&body.bytes, max_msg_size)?
    };
    put(&service, Asker::of(&parts), topic, messages).await?;
    Ok(text("OK"))
}

/// The `topic` of a publish or a create.
pub(super) fn topic(query: &Query) -> Result<TopicName, Failure> {
    let name = query.required("topic")?;
    name.parse().map_err(|_| Failure::new(400, "INVALID_TOPIC"))
}

async fn put(
    service: &Arc<Service>,
    Asker(maker): Asker,
    topic: TopicName,
    messages: Vec<Bytes>,
) -> Result<(), Failure> {
    // An MPUB of nothing but empty lines is not an error for nsqd, and it creates the topic.
    if messages.is_empty() {
        service.handle.make_for(maker, topic, None).await?;
    } else {
        service
            .handle
            .publish_for(maker, topic, messages, Duration::ZERO)
            .await?;
    }
    Ok(())
}

fn mpub_parameters(uri: &Uri) -> Result<(TopicName, bool), Failure> {
    let query = Query::of(uri)?;
    let topic = topic(&query)?;
    // Any other word means yes, as in nsqd.
    let binary = query
        .get("binary")
        .is_some_and(|word| flag_word(word).unwrap_or(true));
    Ok((topic, binary))
}

fn defer(query: &Query, longest: Duration) -> Result<Duration, Failure> {
    let Some(text) = query.get("defer") else {
        return Ok(Duration::ZERO);
    };
    let delay = text
        .parse::<i64>()
        .ok()
        .and_then(|delay_ms| u64::try_from(delay_ms).ok())
        .map(Duration::from_millis);
    delay
        .filter(|delay| *delay <= longest)
        .ok_or_else(|| Failure::new(400, "INVALID_DEFER"))
}

/// One message per line; empty lines are none.
fn text_messages(body: &Bytes, max_msg_size: usize) -> Result<Vec<Bytes>, Failure> {
    let lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| {
            if line.len() > max_msg_size {
                return Err(Failure::new(413, "MSG_TOO_BIG"));
            }
            Ok(body.slice_ref(line))
        })
        .collect()
}

/// A count, then each message behind its length; all numbers are 4 bytes, big endian.
fn binary_messages(
    body: &Bytes,
    max_msg_size: usize,
    max_body_size: usize,
) -> Result<Vec<Bytes>, Failure> {
    let bad_body = || Failure::new(413, "BAD_BODY");
    let bad_message = || Failure::new(413, "BAD_MESSAGE");
    let mut rest = &body[..];
    let count = take_length(&mut rest).ok_or_else(bad_body)?;
    // Four bytes of length and at least one of body each: what cannot be there is not reserved.
    if count == 0 || count > max_body_size.saturating_sub(4) / 5 {
        return Err(bad_body());
    }
    let mut messages = Vec::with_capacity(count.min(rest.len() / 5));
    for _ in 0..count {
        let length = take_length(&mut rest).ok_or_else(bad_message)?;
        if length == 0 || length > max_msg_size || length > rest.len() {
            return Err(bad_message());
        }
        let (message, behind) = rest.split_at(length);
        messages.push(body.slice_ref(message));
        rest = behind;
    }
    if rest.is_empty() {
        Ok(messages)
    } else {
        Err(bad_body())
    }
}

/// `None` when fewer than four bytes are left or the number is negative.
fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    *rest = behind;
    usize::try_from(i32::from_be_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_messages() {
        let cases: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("\n\n", &[]),
            ("a", &["a"]),
            ("a\n", &["a"]),
            ("a\nb\n\nc", &["a", "b", "c"]),
            ("a\r\nb", &["a\r", "b"]),
        ];
        for (body, expected) in cases {
            let messages = text_messages(&Bytes::from(body), 2).expect(body);
            assert_eq!(messages, expected, "{body:?}");
        }
        assert!(text_messages(&Bytes::from("abc"), 2).is_err());
    }

    #[test]
    fn binary_bodies_are_checked_whole() {
        let body = |count: i32, messages: &[(i32, &str)], tail: &str| {
            let mut bytes = count.to_be_bytes().to_vec();
            for (length, text) in messages {
                bytes.extend(length.to_be_bytes());
                bytes.extend(text.as_bytes());
            }
            bytes.extend(tail.as_bytes());
            Bytes::from(bytes)
        };
        let good = binary_messages(&body(2, &[(1, "a"), (3, "bcd")], ""), 3, 100).expect("valid");
        assert_eq!(good, ["a", "bcd"]);
        let cases = [
            (Bytes::from("ab"), "BAD_BODY"),
            (body(0, &[], ""), "BAD_BODY"),
            (body(-1, &[], ""), "BAD_BODY"),
            (body(i32::MAX, &[(1, "a")], ""), "BAD_BODY"),
            (body(1, &[(1, "a")], "x"), "BAD_BODY"),
            (body(2, &[(1, "a")], ""), "BAD_MESSAGE"),
            (body(1, &[(0, "")], ""), "BAD_MESSAGE"),
            (body(1, &[(-5, "a")], ""), "BAD_MESSAGE"),
            (body(1, &[(4, "abcd")], ""), "BAD_MESSAGE"),
            (body(1, &[(3, "ab")], ""), "BAD_MESSAGE"),
        ];
        for (bytes, expected) in cases {
            let failure = binary_messages(&bytes, 3, 100).expect_err(expected);
            assert!(
                format!("{failure:?}").contains(expected),
                "{bytes:?}: {failure:?}"
            );
        }
    }
}
