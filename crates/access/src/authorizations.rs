//! What an auth server answers (`--auth-http-address`): by nsqd 1.3.0's rules.
//!
//! Topics and channels are regular expressions that match anywhere in a name. To publish, one of `channels` has to match the empty name,
//! too; so says nsqd, and `.*` does. Expressions are RE2's, which take linear time; each is bounded.

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

/// Longest answer that is read, in bytes.
pub const ANSWER_MAX_BYTES: usize = 1 << 20;

/// Most authorizations of an answer, and expressions of one.
const ENTRIES_MAX: usize = 1024;

/// Most memory that an expression takes, in bytes.
const REGEX_MAX_BYTES: usize = 256 << 10;

/// Most expressions of an answer in all.
const REGEXES_MAX: usize = 4096;

/// What a client may do.
#[derive(Clone, Debug)]
pub struct Authorizations {
    /// For so many seconds; then the server is asked again.
    pub ttl_s: u64,
    /// Who it is.
    pub identity: String,
    /// More about that.
    pub identity_url: String,
    all: Vec<Authorization>,
}

/// Why an answer counts as none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnswer {
    /// Not JSON, or not of the form.
    #[error("it is not an answer of an auth server: {0}")]
    Form(String),
    /// A permission that is neither publish nor subscribe.
    #[error("unknown permission {0}; an auth server may answer publish and subscribe")]
    Permission(String),
    /// An expression that is none.
    #[error("unable to compile {what} {text:?}: {why}")]
    Expression {
        /// Topic or channel.
        what: &'static str,
        /// The expression.
        text: String,
        /// Why.
        why: String,
    },
    /// No time, or less.
    #[error("invalid TTL {0}; it has to be above 0")]
    Ttl(i64),
    /// More than is kept.
    #[error("it has more than {ENTRIES_MAX} authorizations, or {REGEXES_MAX} expressions")]
    TooMany,
}

#[derive(Clone, Debug)]
struct Authorization {
    may_publish: bool,
    may_subscribe: bool,
    topic: Regex,
    channels: Vec<Regex>,
}

/// An answer, as Go reads it: keys in any case, what is missing and `null` as nothing.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(deserialize_with = "or_nothing")]
    ttl: i64,
    #[serde(deserialize_with = "or_nothing")]
    authorizations: Vec<Value>,
    #[serde(deserialize_with = "or_nothing")]
    identity: String,
    #[serde(deserialize_with = "or_nothing")]
    identity_url: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    #[serde(deserialize_with = "or_nothing")]
    topic: String,
    #[serde(deserialize_with = "or_nothing")]
    channels: Vec<String>,
    #[serde(deserialize_with = "or_nothing")]
    permissions: Vec<String>,
}

impl Authorizations {
    /// The body of an answer.
    ///
    /// # Errors
    /// Why it counts as none.
    pub fn parse(body: &[u8]) -> Result<Authorizations, InvalidAnswer> {
        let form = |error: serde_json::Error| InvalidAnswer::Form(error.to_string());
        let answer: Answer = object(serde_json::from_slice(body).map_err(form)?)?;
        if answer.authorizations.len() > ENTRIES_MAX {
            return Err(InvalidAnswer::TooMany);
        }
        let entries = answer.authorizations.into_iter().map(object);
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let expressions = entries.iter().map(|entry| 1 + entry.channels.len());
        if expressions.sum::<usize>() > REGEXES_MAX {
            return Err(InvalidAnswer::TooMany);
        }
        let all = entries.into_iter().map(Authorization::of);
        let all = all.collect::<Result<_, _>>()?;
        let ttl_s = u64::try_from(answer.ttl).ok().filter(|ttl_s| *ttl_s > 0);
        Ok(Authorizations {
            ttl_s: ttl_s.ok_or(InvalidAnswer::Ttl(answer.ttl))?,
            identity: answer.identity,
            identity_url: answer.identity_url,
            all,
        })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether one of them lets a client publish to this topic.
    #[must_use]
    pub fn may_publish(&self, topic: &str) -> bool {
        let mut publishing = self.all.iter().filter(|one| one.may_publish);
        publishing.any(|one| one.matches(topic, ""))
    }

    /// Whether one of them lets a client subscribe to this channel.
    #[must_use]
    pub fn may_subscribe(&self, topic: &str, channel: &str) -> bool {
        let mut subscribing = self.all.iter().filter(|one| one.may_subscribe);
        subscribing.any(|one| one.matches(topic, channel))
    }
}

impl Authorization {
    fn of(entry: Entry) -> Result<Authorization, InvalidAnswer> {
        let known = ["publish", "subscribe"];
        let is_unknown = |word: &&String| !known.contains(&word.as_str());
        if let Some(unknown) = entry.permissions.iter().find(is_unknown) {
            return Err(InvalidAnswer::Permission(
                unknown.chars().take(64).collect(),
            ));
        }
        let has = |word: &str| {
            entry
                .permissions
                .iter()
                .any(|permission| permission == word)
        };
        let channels = entry.channels.iter();
        let channels = channels.map(|text| expression("channel", text));
        Ok(Authorization {
            may_publish: has("publish"),
            may_subscribe: has("subscribe"),
            topic: expression("topic", &entry.topic)?,
            channels: channels.collect::<Result<_, _>>()?,
        })
    }

    fn matches(&self, topic: &str, channel: &str) -> bool {
        let mut channels = self.channels.iter();
        self.topic.is_match(topic.as_bytes())
            && channels.any(|one| one.is_match(channel.as_bytes()))
    }
}

/// As Go reads it: `\w` and the like mean ASCII.
fn expression(what: &'static str, text: &str) -> Result<Regex, InvalidAnswer> {
    let built = RegexBuilder::new(text)
        .unicode(false)
        .size_limit(REGEX_MAX_BYTES)
        .dfa_size_limit(REGEX_MAX_BYTES)
        .build();
    built.map_err(|error| InvalidAnswer::Expression {
        what,
        text: text.chars().take(128).collect(),
        why: error.to_string(),
    })
}

/// What an object holds; nothing, where there is `null`.
fn object<T: DeserializeOwned + Default>(value: Value) -> Result<T, InvalidAnswer> {
    let fields = match value {
        Value::Null => return Ok(T::default()),
        Value::Object(fields) => fields,
        other => {
            return Err(InvalidAnswer::Form(format!(
                "{} instead of an object",
                kind(&other)
            )));
        }
    };
    let named = fields.into_iter();
    let named = named.map(|(name, value)| (name.to_ascii_lowercase(), value));
    serde_json::from_value(Value::Object(named.collect()))
        .map_err(|error| InvalidAnswer::Form(error.to_string()))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::String(_) => "a text",
        _ => "a word or a number",
    }
}

fn or_nothing<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Authorizations, InvalidAnswer> {
        Authorizations::parse(text.as_bytes())
    }

    #[test]
    fn expressions_match_anywhere_in_a_name() {
        let all = parse(
            r#"{"ttl": 60, "identity": "i", "identity_url": "u", "authorizations": [
                {"permissions": ["publish"], "topic": "^a$", "channels": [".*"]},
                {"permissions": ["subscribe"], "topic": "b", "channels": ["^c\\d$", "d"]},
                {"permissions": ["publish"], "topic": ".*", "channels": ["never"]},
                {"permissions": null, "topic": ".*", "channels": [".*"]}]}"#,
        );
        let all = all.expect("valid");
        assert_eq!((all.ttl_s, all.count()), (60, 4));
        for (topic, may) in [("a", true), ("ab", false), ("b", false)] {
            assert_eq!(all.may_publish(topic), may, "{topic}");
        }
        for (topic, channel, may) in [
            ("b", "c1", true),
            ("abc", "xdx", true),
            ("b", "c", false),
            ("b", "c\u{661}", false),
            ("a", "c1", false),
        ] {
            assert_eq!(all.may_subscribe(topic, channel), may, "{topic} {channel}");
        }
    }

    #[test]
    fn what_go_reads_as_nothing_is_nothing() {
        let all = parse(r#"{"TTL": 1, "authorizations": null, "Identity": null, "more": 7}"#);
        assert_eq!(all.expect("valid").count(), 0);
        let open = parse(
            r#"{"ttl": 1, "authorizations": [{"permissions": ["publish"], "channels": [""]}]}"#,
        );
        assert!(
            open.expect("valid").may_publish("any"),
            "an expression of nothing matches all"
        );
    }

    #[test]
    fn what_is_no_answer_says_why() {
        for (text, expected) in [
            ("", "not an answer"),
            ("[1]", "a list instead of an object"),
            (
                r#"{"ttl": 1, "authorizations": [["t"]]}"#,
                "a list instead of an object",
            ),
            ("{}", "invalid TTL 0"),
            (r#"{"ttl": -1}"#, "invalid TTL -1"),
            (r#"{"ttl": "1"}"#, "not an answer"),
            (
                r#"{"ttl": 1, "authorizations": [{"permissions": ["admin"]}]}"#,
                "unknown permission admin",
            ),
            (
                r#"{"ttl": 1, "authorizations": [{"topic": "("}]}"#,
                "unable to compile topic \"(\"",
            ),
            (
                r#"{"ttl": 1, "authorizations": [{"channels": ["[", "x"]}]}"#,
                "unable to compile channel \"[\"",
            ),
            (
                r#"{"ttl": 1, "authorizations": [{"topic": "(a{1000}){1000}"}]}"#,
                "unable to compile topic",
            ),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many = r#"{"channels": []},"#.repeat(ENTRIES_MAX + 1);
        let many = format!(
            r#"{{"ttl": 1, "authorizations": [{}]}}"#,
            many.trim_end_matches(',')
        );
        assert_eq!(parse(&many).map(|_| ()), Err(InvalidAnswer::TooMany));
    }
}
