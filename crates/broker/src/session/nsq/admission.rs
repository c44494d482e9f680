//! AUTH: who the client is, and what it may do. Commands are judged in nsqd's order and refused in its words.
//!
//! What was found is kept: of a publisher the topic that it publishes to, so that each message costs a comparison. It is found anew
//! when an auth server's time is over (nsqd asks again then, with the next command), and when the access file has changed.

use std::time::Duration;

use access::{Permit, TokenHash};
use clock::Instant;
use wire::{Command, ErrorCode, ProtocolError};

use crate::auth::{AuthTerms, SECRET_MAX_BYTES, Secret};

/// More than anybody waits for.
const TTL_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);

/// What a client has shown, and what came of it.
#[derive(Debug, Default)]
pub(super) struct Admission(Option<Box<Shown>>);

#[derive(Debug)]
struct Shown {
    secret: Secret,
    /// `None` as long as a server is asked for the first time.
    permit: Option<Permit>,
    /// When a server is to be asked again.
    until: Option<Instant>,
    /// The access file's, by which it was found.
    edition: u64,
    /// Of its topics the one that was found permitted last.
    publishing: Option<Box<str>>,
    /// Topic and channel.
    subscribed: Option<(Box<str>, Box<str>)>,
}

/// What is to be done with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Carry it out.
    Passes,
    /// Ask a server first.
    AskAgain,
}

/// What came of AUTH.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// It may do something.
    Now,
    /// A server is to be asked.
    Ask,
}

impl Admission {
    /// AUTH with this secret.
    ///
    /// # Errors
    /// It was set before, or it fails.
    pub(super) fn auth(
        &mut self,
        body: &[u8],
        terms: &AuthTerms,
    ) -> Result<Admitted, ProtocolError> {
        if self.permit().is_some() {
            let text = "AUTH already set";
            return Err(ProtocolError::new(ErrorCode::Invalid, text));
        }
        // A token is short; nothing longer is worth a hash.
        if body.len() > SECRET_MAX_BYTES {
            return Err(failed());
        }
        let mut shown = Box::new(Shown {
            secret: Secret::new(body),
            permit: None,
            until: None,
            edition: 0,
            publishing: None,
            subscribed: None,
        });
        let is_known = shown.look_up(terms);
        if !is_known && !terms.asks_servers {
            return Err(failed());
        }
        self.0 = Some(shown);
        Ok(if is_known {
            Admitted::Now
        } else {
            Admitted::Ask
        })
    }

    /// What a server is to be asked with.
    pub(super) fn secret(&self) -> Option<&Secret> {
        self.0.as_ref().map(|shown| &shown.secret)
    }

    /// What the client may do, once that is known.
    pub(super) fn permit(&self) -> Option<&Permit> {
        self.0.as_ref()?.permit.as_ref()
    }

    /// A server has said what the client may do, for `ttl_s` from `now` on; says whether it was the first.
    ///
    /// # Errors
    /// It may do nothing.
    pub(super) fn hear(
        &mut self,
        permit: Option<Permit>,
        ttl_s: u64,
        now: Instant,
    ) -> Result<bool, ProtocolError> {
        let (Some(shown), Some(permit)) = (&mut self.0, permit) else {
            return Err(failed());
        };
        let is_first = shown.permit.is_none();
        if is_first && permit.count() == 0 {
            let text = "AUTH no authorizations found";
            return Err(ProtocolError::new(ErrorCode::Unauthorized, text));
        }
        shown.permit = Some(permit);
        shown.until = Some(now + Duration::from_secs(ttl_s).min(TTL_MAX));
        shown.publishing = None;
        Ok(is_first)
    }

    /// Whether a command may be carried out.
    ///
    /// # Errors
    /// It may not.
    #[inline]
    pub(super) fn judge(
        &mut self,
        command: &Command<'_>,
        terms: &AuthTerms,
        now: Instant,
    ) -> Result<Judged, ProtocolError> {
        let wanted = match *command {
            Command::Pub { topic, .. } => Some(("PUB", topic, None)),
            Command::Mpub { topic, .. } => Some(("MPUB", topic, None)),
            Command::Dpub { topic, .. } => Some(("DPUB", topic, None)),
            Command::Sub { topic, channel } => Some(("SUB", topic, Some(channel))),
            _ => None,
        };
        let shown = self.0.as_mut().filter(|shown| shown.permit.is_some());
        let Some(shown) = shown else {
            return match wanted {
                None => Ok(Judged::Passes),
                Some((verb, ..)) => Err(auth_first(verb)),
            };
        };
        shown.renew(terms)?;
        let Some((verb, topic, channel)) = wanted else {
            return Ok(Judged::Passes);
        };
        if shown.until.is_some_and(|until| until <= now) {
            return Ok(Judged::AskAgain);
        }
        if channel.is_none() && shown.publishing.as_deref() == Some(topic) {
            return Ok(Judged::Passes);
        }
        match shown.find(topic, channel) {
            true => Ok(Judged::Passes),
            false => Err(unauthorized(verb, topic, channel.unwrap_or_default())),
        }
    }

    /// Whether the client may announce itself as a publisher of this topic.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn judge_declaration(&self, topic: &str) -> Result<(), ProtocolError> {
        match self
            .permit()
            .is_some_and(|permit| permit.may_publish(topic))
        {
            true => Ok(()),
            false => Err(unauthorized("IDENTIFY", topic, "")),
        }
    }
}

impl Shown {
    /// Looks the secret up among the tokens; says whether it is one.
    fn look_up(&mut self, terms: &AuthTerms) -> bool {
        let Some(tokens) = &terms.tokens else {
            return false;
        };
        // The number first: a list that comes meanwhile is looked at again.
        self.edition = tokens.edition();
        let holder = tokens
            .list()
            .holder(&TokenHash::of(self.secret.bytes()))
            .cloned();
        self.permit = holder.map(Permit::Token);
        self.publishing = None;
        self.permit.is_some()
    }

    /// Goes by the present access file, if it went by another: a token that is gone, or no longer for what it is used for, ends the
    /// connection with its next command, of which a heartbeat's answer is one.
    #[inline]
    fn renew(&mut self, terms: &AuthTerms) -> Result<(), ProtocolError> {
        let (Some(Permit::Token(_)), Some(tokens)) = (&self.permit, &terms.tokens) else {
            return Ok(());
        };
        if tokens.edition() == self.edition {
            return Ok(());
        }
        if !self.look_up(terms) {
            return Err(failed());
        }
        match self.subscribed.take() {
            Some((topic, channel)) if !self.find(&topic, Some(&channel)) => {
                Err(unauthorized("SUB", &topic, &channel))
            }
            _ => Ok(()),
        }
    }

    /// Whether this is permitted; keeps what is.
    #[cold]
    fn find(&mut self, topic: &str, channel: Option<&str>) -> bool {
        let Some(permit) = &self.permit else {
            return false;
        };
        match channel {
            None => {
                let may = permit.may_publish(topic);
                self.publishing = may.then(|| topic.into());
                may
            }
            Some(channel) => {
                let may = permit.may_subscribe(topic, channel);
                self.subscribed = may.then(|| (topic.into(), channel.into()));
                may
            }
        }
    }
}

#[cold]
fn auth_first(verb: &str) -> ProtocolError {
    ProtocolError::new(ErrorCode::AuthFirst, format!("AUTH required before {verb}"))
}

#[cold]
fn failed() -> ProtocolError {
    ProtocolError::new(ErrorCode::AuthFailed, "AUTH failed")
}

#[cold]
fn unauthorized(verb: &str, topic: &str, channel: &str) -> ProtocolError {
    // Names need no escapes.
    let text = format!("AUTH failed for {verb} on \"{topic}\" \"{channel}\"");
    ProtocolError::new(ErrorCode::Unauthorized, text)
}
