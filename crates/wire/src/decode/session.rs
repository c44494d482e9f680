//! The commands that depend on the connection's phase: IDENTIFY, AUTH, SUB, RDY, REQ, FIN and TOUCH.
//!
//! Each checks the phase before it looks at a parameter, as nsqd does.

use super::input::{Params, Tail, decimal};
use super::{Found, Limits, Phase, bad_topic, body_size, invalid, valid_name, wrong_state};
use crate::quote::{echoed, quoted};
use crate::{Command, ErrorCode, MessageId, ProtocolError};

pub(super) fn identify<'a>(tail: Tail<'a>, limits: &Limits, phase: Phase) -> Found<'a> {
    if !matches!(phase, Phase::Init | Phase::Unencrypted) {
        return Err(wrong_state("IDENTIFY").into());
    }
    let (body, end) = tail.body(body_size(tail.size()?, "IDENTIFY", limits)?)?;
    Ok((Command::Identify { body }, end))
}

pub(super) fn auth<'a>(
    mut params: Params<'a>,
    tail: Tail<'a>,
    limits: &Limits,
    phase: Phase,
) -> Found<'a> {
    if phase != Phase::Init {
        return Err(wrong_state("AUTH").into());
    }
    if params.next().is_some() {
        return Err(invalid("AUTH invalid number of parameters").into());
    }
    let (body, end) = tail.body(body_size(tail.size()?, "AUTH", limits)?)?;
    Ok((Command::Auth { body }, end))
}

pub(super) fn subscribe<'a>(
    mut params: Params<'a>,
    phase: Phase,
    heartbeats_enabled: bool,
) -> Result<Command<'a>, ProtocolError> {
    if phase != Phase::Init {
        return Err(wrong_state("SUB"));
    }
    if !heartbeats_enabled {
        return Err(invalid("cannot SUB with heartbeats disabled"));
    }
    let (Some(topic), Some(channel)) = (params.next(), params.next()) else {
        return Err(invalid("SUB insufficient number of parameters"));
    };
    let topic = valid_name(topic).ok_or_else(|| bad_topic("SUB", topic))?;
    let channel = valid_name(channel).ok_or_else(|| {
        let text = format!("SUB channel name {} is not valid", quoted(channel));
        ProtocolError::new(ErrorCode::BadChannel, text)
    })?;
    Ok(Command::Sub { topic, channel })
}

pub(super) fn ready(
    mut params: Params<'_>,
    limits: &Limits,
    phase: Phase,
) -> Result<Command<'static>, ProtocolError> {
    match phase {
        Phase::Init | Phase::Unencrypted => return Err(wrong_state("RDY")),
        Phase::Closing => return Ok(Command::Nop),
        Phase::Subscribed => {}
    }
    let param = params.next().unwrap_or(b"1");
    let Some(number) = decimal(param) else {
        return Err(invalid(format!(
            "RDY could not parse count {}",
            echoed(param)
        )));
    };
    match u32::try_from(number) {
        Ok(count) if count <= limits.max_rdy_count => Ok(Command::Rdy { count }),
        _ => {
            // nsqd prints the count as a signed number.
            let text = format!(
                "RDY count {} out of range 0-{}",
                number as i64, limits.max_rdy_count
            );
            Err(invalid(text))
        }
    }
}

pub(super) fn requeue(
    mut params: Params<'_>,
    limits: &Limits,
    subscribed: bool,
) -> Result<Command<'static>, ProtocolError> {
    if !subscribed {
        return Err(wrong_state("REQ"));
    }
    let (Some(id), Some(delay)) = (params.next(), params.next()) else {
        return Err(invalid("REQ insufficient number of params"));
    };
    let id = MessageId(id.try_into().map_err(|_| invalid("invalid message ID"))?);
    let Some(delay_ms) = decimal(delay) else {
        return Err(invalid(format!(
            "REQ could not parse timeout {}",
            echoed(delay)
        )));
    };
    Ok(Command::Req {
        id,
        delay_ms: delay_ms.min(limits.max_req_timeout_ms),
    })
}

/// The only parameter of FIN and TOUCH.
#[inline]
pub(super) fn message_id(
    params: &mut Params<'_>,
    command: &'static str,
    subscribed: bool,
) -> Result<MessageId, ProtocolError> {
    if !subscribed {
        return Err(wrong_state(command));
    }
    match params.next() {
        Some(id) => Ok(MessageId(
            id.try_into().map_err(|_| invalid("invalid message ID"))?,
        )),
        None => Err(invalid(format!("{command} insufficient number of params"))),
    }
}
