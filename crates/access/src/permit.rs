//! What an NSQ client may do, by its token or by what an auth server said.

use std::sync::Arc;

use serde::Serialize;

use crate::{Authorizations, Holder};

/// What a client may do. Cheap to clone.
#[derive(Clone, Debug)]
pub enum Permit {
    /// What its token is for.
    Token(Arc<Holder>),
    /// What an auth server said.
    Server(Arc<Authorizations>),
}

/// The answer to AUTH; fields and their order are nsqd's.
#[derive(Serialize)]
struct Answer<'a> {
    identity: &'a str,
    identity_url: &'a str,
    permission_count: usize,
}

impl Permit {
    /// Whether it may publish to this topic.
    #[must_use]
    pub fn may_publish(&self, topic: &str) -> bool {
        match self {
            Permit::Token(holder) => holder.may(crate::Role::Publish, topic),
            Permit::Server(all) => all.may_publish(topic),
        }
    }

    /// Whether it may subscribe to this channel.
    #[must_use]
    pub fn may_subscribe(&self, topic: &str, channel: &str) -> bool {
        match self {
            Permit::Token(holder) => holder.may_subscribe(topic, channel),
            Permit::Server(all) => all.may_subscribe(topic, channel),
        }
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &str {
        match self {
            Permit::Token(holder) => &holder.name,
            Permit::Server(all) => &all.identity,
        }
    }

    /// More about that.
    #[must_use]
    pub fn identity_url(&self) -> &str {
        match self {
            Permit::Token(_) => "",
            Permit::Server(all) => &all.identity_url,
        }
    }

    /// How many permissions there are: of a token, one for each of its topics.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Permit::Token(holder) => holder.topics.len(),
            Permit::Server(all) => all.count(),
        }
    }

    /// What answers AUTH.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let answer = Answer {
            identity: self.identity(),
            identity_url: self.identity_url(),
            permission_count: self.count(),
        };
        // Texts and a number, which JSON holds.
        serde_json::to_vec(&answer).unwrap_or_default()
    }
}
