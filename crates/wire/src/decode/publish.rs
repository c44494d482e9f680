//! PUB, MPUB and DPUB. They are allowed in every phase.

use super::input::{Params, Tail, decimal};
use super::{Found, Limits, Stop, bad_topic, body_size, invalid, valid_name};
use crate::quote::echoed;
use crate::{Command, ErrorCode, Mpub, ProtocolError};

#[inline]
pub(super) fn publish<'a>(mut params: Params<'a>, tail: Tail<'a>, limits: &Limits) -> Found<'a> {
    let Some(topic) = params.next() else {
        return Err(invalid("PUB insufficient number of parameters").into());
    };
    let topic = valid_name(topic).ok_or_else(|| bad_topic("PUB", topic))?;
    let size = message_size(tail.size()?, "PUB", limits)?;
    let (body, end) = tail.body(size)?;
    Ok((Command::Pub { topic, body }, end))
}

pub(super) fn publish_later<'a>(
    mut params: Params<'a>,
    tail: Tail<'a>,
    limits: &Limits,
) -> Found<'a> {
    let (Some(topic), Some(delay)) = (params.next(), params.next()) else {
        return Err(invalid("DPUB insufficient number of parameters").into());
    };
    let topic = valid_name(topic).ok_or_else(|| bad_topic("DPUB", topic))?;
    let Some(delay_ms) = decimal(delay) else {
        return Err(invalid(format!("DPUB could not parse timeout {}", echoed(delay))).into());
    };
    if delay_ms > limits.max_req_timeout_ms {
        let text = format!(
            "DPUB timeout {delay_ms} out of range 0-{}",
            limits.max_req_timeout_ms
        );
        return Err(invalid(text).into());
    }
    let size = message_size(tail.size()?, "DPUB", limits)?;
    let (body, end) = tail.body(size)?;
    Ok((
        Command::Dpub {
            topic,
            delay_ms,
            body,
        },
        end,
    ))
}

pub(super) fn publish_many<'a>(
    mut params: Params<'a>,
    tail: Tail<'a>,
    limits: &Limits,
) -> Found<'a> {
    let Some(topic) = params.next() else {
        return Err(invalid("MPUB insufficient number of parameters").into());
    };
    // nsqd's text repeats the code here.
    let topic = valid_name(topic).ok_or_else(|| bad_topic("E_BAD_TOPIC MPUB", topic))?;
    let size = body_size(tail.size()?, "MPUB", limits)?;
    let (arrived, end) = tail.arrived(size);
    if arrived.len() < size as usize {
        // Only the head is looked at again on every read; the messages wait for the whole.
        Mpub::check_head(size as usize, arrived, limits)?;
        return Err(Stop::Incomplete { needed: end });
    }
    let messages = Mpub::parse(arrived, limits)?;
    Ok((Command::Mpub { topic, messages }, end))
}

/// Checks the size of the message in PUB and DPUB; a size field is signed.
#[inline]
fn message_size(size: i32, command: &str, limits: &Limits) -> Result<u32, ProtocolError> {
    if size <= 0 {
        let text = format!("{command} invalid message body size {size}");
        return Err(ProtocolError::new(ErrorCode::BadMessage, text));
    }
    if size.unsigned_abs() > limits.max_msg_size {
        let text = format!("{command} message too big {size} > {}", limits.max_msg_size);
        return Err(ProtocolError::new(ErrorCode::BadMessage, text));
    }
    Ok(size.unsigned_abs())
}
