//! The access file: who holds which token, and what it is for.
//!
//! ```toml
//! metrics = "open"                # or "read": then /metrics takes a token, too
//!
//! [[token]]
//! name = "gateway-7"
//! hash = "blake3:…"
//! roles = ["publish"]
//! topics = ["sensors.*"]
//! channels = ["*"]                # for subscribe; all of them unless it says otherwise
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::{Denial, Need, Pattern, Role, Roles, TokenHash};

/// Longest access file, in bytes.
pub const FILE_MAX_BYTES: u64 = 8 << 20;

/// Most tokens of a file.
const TOKENS_MAX: usize = 10_000;

/// Most topics, and channels, that a token names.
const PATTERNS_MAX: usize = 64;

/// Longest name of a holder, in bytes.
const NAME_MAX_BYTES: usize = 128;

/// Who holds a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What logs and `/stats` call it.
    pub name: String,
    /// What it may do,
    pub roles: Roles,
    /// with these topics,
    pub topics: Vec<Pattern>,
    /// of which it may subscribe to these channels.
    pub channels: Vec<Pattern>,
}

/// All holders, by the hashes of their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    holders: HashMap<TokenHash, Arc<Holder>>,
    are_metrics_closed: bool,
}

/// Why a text is no access file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidList {
    /// Not TOML, or not of this form; names the line.
    #[error("{0}")]
    Form(String),
    /// Something about one token.
    #[error("token {number} (`{name}`): {why}")]
    Token {
        /// Counted from 1.
        number: usize,
        /// Its name.
        name: String,
        /// What is wrong, and what to write.
        why: String,
    },
    /// Too much of it.
    #[error("it has {0} tokens; a file may have {TOKENS_MAX}")]
    TooMany(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    metrics: Metrics,
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Metrics {
    #[default]
    Open,
    Read,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    hash: String,
    roles: Vec<String>,
    topics: Vec<String>,
    channels: Option<Vec<String>>,
}

impl Holder {
    /// Whether it may do what takes `role` with this topic.
    #[must_use]
    pub fn may(&self, role: Role, topic: &str) -> bool {
        self.roles.permit(role) && fits(&self.topics, topic)
    }

    /// Whether it may do what takes `role` with all topics at once.
    #[must_use]
    pub fn may_everywhere(&self, role: Role) -> bool {
        self.roles.permit(role) && self.topics.iter().any(Pattern::is_everything)
    }

    /// Whether it may subscribe to this channel.
    #[must_use]
    pub fn may_subscribe(&self, topic: &str, channel: &str) -> bool {
        self.may(Role::Subscribe, topic) && fits(&self.channels, channel)
    }

    /// The lines of an access file for its token.
    #[must_use]
    pub fn lines(&self, hash: TokenHash) -> String {
        let quoted = |words: &mut dyn Iterator<Item = String>| {
            let words: Vec<String> = words.map(|word| format!("\"{word}\"")).collect();
            words.join(", ")
        };
        let named = Role::ALL.into_iter().filter(|role| self.roles.names(*role));
        let roles = quoted(&mut named.map(|role| role.to_string()));
        let topics = quoted(&mut self.topics.iter().map(Pattern::to_string));
        let mut lines = format!(
            "[[token]]\nname = {}\nhash = \"{hash}\"\nroles = [{roles}]\ntopics = [{topics}]\n",
            toml::Value::String(self.name.clone())
        );
        if !self.channels.iter().any(Pattern::is_everything) {
            let channels = quoted(&mut self.channels.iter().map(Pattern::to_string));
            lines += &format!("channels = [{channels}]\n");
        }
        lines
    }
}

impl AccessList {
    /// What an access file says.
    ///
    /// # Errors
    /// Where and why it is none. Nothing of such a file counts.
    pub fn parse(text: &str) -> Result<AccessList, InvalidList> {
        let file: File = toml::from_str(text)
            .map_err(|error| InvalidList::Form(error.to_string().trim_end().to_owned()))?;
        if file.token.len() > TOKENS_MAX {
            return Err(InvalidList::TooMany(file.token.len()));
        }
        let mut list = AccessList {
            holders: HashMap::new(),
            are_metrics_closed: file.metrics == Metrics::Read,
        };
        for (index, entry) in file.token.into_iter().enumerate() {
            let name: String = entry.name.chars().take(NAME_MAX_BYTES).collect();
            let read = read(entry).and_then(|(hash, holder)| {
                match list.holders.insert(hash, Arc::new(holder)) {
                    None => Ok(()),
                    Some(other) => Err(format!(
                        "`{}` has the same hash; make one token each",
                        other.name
                    )),
                }
            });
            let number = index + 1;
            read.map_err(|why| InvalidList::Token { number, name, why })?;
        }
        Ok(list)
    }

    /// Who holds this token.
    #[must_use]
    pub fn holder(&self, hash: &TokenHash) -> Option<&Arc<Holder>> {
        self.holders.get(hash)
    }

    /// How many tokens there are.
    #[must_use]
    pub fn tokens(&self) -> usize {
        self.holders.len()
    }

    /// Whether who shows this `token`, if any, may do what takes `need`, with `topic` where that is about one.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn judge(
        &self,
        need: Need,
        topic: Option<&str>,
        token: Option<&[u8]>,
    ) -> Result<(), Denial> {
        let role = match need {
            Need::Nothing | Need::Proof => return Ok(()),
            Need::Metrics if !self.are_metrics_closed => return Ok(()),
            Need::Token => None,
            Need::Topic(role) | Need::Everything(role) => Some(role),
            Need::Metrics => Some(Role::Read),
        };
        let token = token.ok_or(Denial::NoToken)?;
        let holder = self
            .holder(&TokenHash::of(token))
            .ok_or(Denial::UnknownToken)?;
        let topic = topic.filter(|_| matches!(need, Need::Topic(_)));
        let may = role.is_none_or(|role| match topic {
            Some(topic) => holder.may(role, topic),
            None => holder.may_everywhere(role),
        });
        match (may, role) {
            (false, Some(role)) => Err(Denial::Forbidden {
                holder: holder.name.clone(),
                role,
                topic: topic.map(str::to_owned),
            }),
            _ => Ok(()),
        }
    }
}

fn read(entry: Entry) -> Result<(TokenHash, Holder), String> {
    if entry.name.is_empty()
        || entry.name.len() > NAME_MAX_BYTES
        || entry.name.contains(char::is_control)
    {
        return Err(format!(
            "its name is not 1 to {NAME_MAX_BYTES} bytes of text; say who holds it"
        ));
    }
    let hash = entry
        .hash
        .parse()
        .map_err(|error| format!("hash: {error}"))?;
    let roles: Result<Vec<Role>, _> = entry.roles.iter().map(|word| word.parse()).collect();
    let roles = roles.map_err(|error| format!("roles: {error}"))?;
    if roles.is_empty() {
        return Err("it has no roles; use read, publish, subscribe or admin".to_owned());
    }
    let topics = patterns("topics", &entry.topics)?;
    let channels = match &entry.channels {
        Some(channels) => patterns("channels", channels)?,
        None => vec![Pattern::everything()],
    };
    let holder = Holder {
        name: entry.name,
        roles: roles.into_iter().collect(),
        topics,
        channels,
    };
    Ok((hash, holder))
}

fn patterns(key: &str, texts: &[String]) -> Result<Vec<Pattern>, String> {
    if texts.is_empty() || texts.len() > PATTERNS_MAX {
        return Err(format!(
            "it has {} {key}; name 1 to {PATTERNS_MAX}, or \"*\" for all",
            texts.len()
        ));
    }
    let patterns: Result<Vec<Pattern>, _> = texts.iter().map(|text| text.parse()).collect();
    patterns.map_err(|error| format!("{key}: {error}"))
}

fn fits(patterns: &[Pattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

#[cfg(test)]
mod tests;
