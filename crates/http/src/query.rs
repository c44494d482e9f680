//! Query strings with Go's rules.
//!
//! Go refuses what the usual form decoders let pass: a broken `%` escape or a semicolon anywhere
//! makes the whole request invalid. So does a key given twice: nobody can know which of them was
//! meant.

use std::fmt;

use axum::http::Uri;

/// Parameters of one request at most.
const PAIRS_MAX: usize = 64;
/// How much of a key is repeated in an answer.
const KEY_SHOWN_CHARS: usize = 64;

/// A decoded query string.
#[derive(Debug)]
pub struct Query(Vec<(String, String)>);

/// What is wrong with a query string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// A broken escape or a semicolon.
    Malformed,
    /// Two values for this key.
    Twice(String),
    /// More parameters than a request has.
    TooMany,
    /// This key means nothing here.
    Unknown {
        /// It.
        key: String,
        /// The keys that mean something.
        known: &'static [&'static str],
    },
    /// Nothing for this key.
    Missing(&'static str),
}

impl Query {
    /// Decodes the query of `uri`.
    ///
    /// # Errors
    /// [`QueryError::Malformed`], [`QueryError::Twice`], [`QueryError::TooMany`].
    pub fn of(uri: &Uri) -> Result<Query, QueryError> {
        let pairs = uri.query().unwrap_or_default().split('&');
        let mut read: Vec<(String, String)> = Vec::new();
        for pair in pairs.filter(|pair| !pair.is_empty()) {
            if pair.contains(';') {
                return Err(QueryError::Malformed);
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = unescape(key).zip(unescape(value));
            let (key, value) = decoded.ok_or(QueryError::Malformed)?;
            if read.iter().any(|(each, _)| *each == key) {
                return Err(QueryError::Twice(key));
            }
            if read.len() >= PAIRS_MAX {
                return Err(QueryError::TooMany);
            }
            read.push((key, value));
        }
        Ok(Query(read))
    }

    /// The same, if it has no other keys than these.
    ///
    /// # Errors
    /// [`QueryError::Unknown`].
    pub fn only(self, known: &'static [&'static str]) -> Result<Query, QueryError> {
        let mut keys = self.0.iter().map(|(key, _)| key);
        match keys.find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(QueryError::Unknown {
                key: key.clone(),
                known,
            }),
            None => Ok(self),
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(each, _)| each == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of `key`, which must be there.
    ///
    /// # Errors
    /// [`QueryError::Missing`].
    pub fn required(&self, key: &'static str) -> Result<&str, QueryError> {
        self.get(key).ok_or(QueryError::Missing(key))
    }

    /// A flag; `default` when it is absent or holds none of nsqd's four words.
    #[must_use]
    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).and_then(flag_word).unwrap_or(default)
    }
}

/// nsqd's words for yes and no.
#[must_use]
pub fn flag_word(word: &str) -> Option<bool> {
    match word {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Malformed => f.write_str(
                "the query has a broken % escape or a semicolon; write & between parameters",
            ),
            QueryError::Twice(key) => write!(f, "{} is given twice; give it once", shown(key)),
            QueryError::TooMany => write!(f, "more than {PAIRS_MAX} parameters"),
            QueryError::Unknown { key, known } => {
                let (key, known) = (shown(key), known.join(", "));
                write!(f, "{key} is not a parameter of this path; it takes {known}")
            }
            QueryError::Missing(key) => write!(f, "{key} is missing; give it as ?{key}="),
        }
    }
}

impl std::error::Error for QueryError {}

/// What of a stranger's key is repeated.
pub(crate) fn shown(key: &str) -> String {
    key.escape_debug().take(KEY_SHOWN_CHARS).collect()
}

/// `None` for a broken escape. Bytes that are not UTF-8 become U+FFFD, which no name allows.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => hex_digit(rest.next()?)? << 4 | hex_digit(rest.next()?)?,
            plain => plain,
        });
    }
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(String::from_utf8(bytes).unwrap_or_else(|error| lossy(error.as_bytes())))
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, QueryError> {
        let uri = Uri::builder().path_and_query(format!("/x?{text}"));
        Query::of(&uri.build().expect("valid URI"))
    }

    #[test]
    fn decodes_as_go_does() {
        let cases = [
            ("topic=a", Some("a")),
            ("topic=a%20b", Some("a b")),
            ("x=1&topic=a+b", Some("a b")),
            ("topic=a%2Bb", Some("a+b")),
            ("topic", Some("")),
            ("topic=", Some("")),
            ("&&topic=a=b&", Some("a=b")),
            ("%74opic=t", Some("t")),
            ("topic=%ff", Some("\u{fffd}")),
            ("topic=a%23ephemeral", Some("a#ephemeral")),
            ("", None),
            ("Topic=a", None),
        ];
        for (text, expected) in cases {
            assert_eq!(query(text).expect(text).get("topic"), expected, "{text}");
        }
    }

    #[test]
    fn broken_queries_are_refused_as_a_whole() {
        for text in [
            "topic=a%",
            "topic=a%2",
            "topic=a%zz",
            "x=%zz&topic=a",
            "topic=a;b",
            "topic=a&b;c=d",
        ] {
            assert_eq!(
                query(text).expect_err(text),
                QueryError::Malformed,
                "{text}"
            );
        }
        let many: Vec<String> = (0..65).map(|number| format!("k{number}=1")).collect();
        assert_eq!(query(&many.join("&")).expect_err("65"), QueryError::TooMany);
        assert!(query(&many[1..].join("&")).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_with_the_key() {
        let missing = query("x=1").and_then(|query| query.required("topic").map(drop));
        for (outcome, text) in [
            (
                query("topic=a&topic=b").map(drop),
                "topic is given twice; give it once",
            ),
            (
                query("topic=a&x&%74opic=a").map(drop),
                "topic is given twice; give it once",
            ),
            (
                query("after=a&befor=b").and_then(|query| query.only(&["after"]).map(drop)),
                "befor is not a parameter of this path; it takes after",
            ),
            (missing, "topic is missing; give it as ?topic="),
        ] {
            assert_eq!(outcome.expect_err(text).to_string(), text);
        }
        let long = query(&format!("{0}=1&{0}=2", "x".repeat(500)));
        assert!(long.expect_err("twice").to_string().len() < 100);
    }

    #[test]
    fn flags_take_four_words() {
        for (text, expected) in [
            ("f=1", true),
            ("f=true", true),
            ("f=0", false),
            ("f=false", false),
            ("f=no", true),
        ] {
            assert_eq!(query(text).expect(text).flag("f", true), expected, "{text}");
        }
    }
}
