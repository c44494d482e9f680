//! Query strings with Go's rules, and names taken from them.
//!
//! Go refuses what the usual form decoders let pass: a broken `%` escape or a semicolon anywhere makes
//! the whole request invalid. A key that is given twice does so too: nobody can know which of them was meant.

use axum::http::Uri;

use super::answer::Failure;

/// Parameters of one request at most.
const PAIRS_MAX: usize = 64;
/// How much of a key is repeated in an answer.
const KEY_SHOWN_CHARS: usize = 64;

/// A decoded query string.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the query of `uri`.
    ///
    /// # Errors
    /// 400 `INVALID_REQUEST` for a broken escape or a semicolon, and with the key for one that is given twice.
    pub(super) fn of(uri: &Uri) -> Result<Query, Failure> {
        let invalid = || Failure::new(400, "INVALID_REQUEST");
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            if pair.contains(';') {
                return Err(invalid());
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (unescape(key), unescape(value));
            let (key, value) = key.zip(value).ok_or_else(invalid)?;
            if pairs.iter().any(|(each, _)| *each == key) {
                let shown: String = key.escape_debug().take(KEY_SHOWN_CHARS).collect();
                return Err(Failure::new(
                    400,
                    format!("{shown} is given twice; give it once"),
                ));
            }
            pairs.push((key, value));
            if pairs.len() > PAIRS_MAX {
                return Err(Failure::new(
                    400,
                    format!("more than {PAIRS_MAX} parameters"),
                ));
            }
        }
        Ok(Query(pairs))
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(each, _)| each == key)
            .map(|(_, value)| value.as_str())
    }

    /// A flag; `default` when it is absent or holds none of nsqd's four words.
    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).and_then(flag_word).unwrap_or(default)
    }
}

/// nsqd's words for yes and no.
pub(super) fn flag_word(word: &str) -> Option<bool> {
    match word {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// `None` for a broken escape. Bytes that are not UTF-8 become U+FFFD, which no name allows.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => bytes.push(hex_digit(rest.next()?)? << 4 | hex_digit(rest.next()?)?),
            plain => bytes.push(plain),
        }
    }
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Option<Query> {
        let uri = Uri::builder()
            .path_and_query(format!("/x?{text}"))
            .build()
            .expect("valid URI");
        Query::of(&uri).ok()
    }

    #[test]
    fn decodes_as_go_does() {
        let cases = [
            ("topic=a", Some("a")),
            ("topic=a%20b", Some("a b")),
            ("topic=a+b", Some("a b")),
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
            "topic=a&topic=b",
            "topic=a&x&%74opic=a",
        ] {
            assert!(query(text).is_none(), "{text}");
        }
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
