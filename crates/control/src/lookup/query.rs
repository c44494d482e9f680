//! Query strings with Go's rules, as nsqlookupd reads them: a broken `%` escape or a semicolon anywhere makes the whole
//! request invalid. A key that is given twice does so too: nobody can know which of them was meant.

use axum::http::Uri;

use super::api::Failure;

/// Parameters of one request at most.
const PAIRS_MAX: usize = 64;

/// A decoded query string.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the query of `uri`.
    ///
    /// # Errors
    /// 400 `INVALID_REQUEST`, or why.
    pub(super) fn of(uri: &Uri) -> Result<Query, Failure> {
        let pairs = uri.query().unwrap_or_default().split('&');
        let decoded = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            if pair.contains(';') {
                return None;
            }
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((unescape(key)?, unescape(value)?))
        });
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in decoded {
            let (key, value) = pair.ok_or(Failure(400, "INVALID_REQUEST"))?;
            if pairs.len() >= PAIRS_MAX || pairs.iter().any(|(each, _)| *each == key) {
                return Err(Failure(
                    400,
                    "a parameter is given twice, or there are too many; give each once",
                ));
            }
            pairs.push((key, value));
        }
        Ok(Query(pairs))
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(each, _)| each == key);
        found.map(|(_, value)| value.as_str())
    }
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
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex_digit(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(query: &str) -> Result<Option<String>, Failure> {
        let uri = Uri::builder().path_and_query(format!("/x?{query}"));
        let uri = uri.build().expect("valid URI");
        Query::of(&uri).map(|query| query.get("topic").map(str::to_owned))
    }

    #[test]
    fn decodes_as_go_does() {
        let cases = [
            ("topic=a", Some("a")),
            ("x=1&topic=a%20b+c", Some("a b c")),
            ("topic", Some("")),
            ("&topic=a=b&", Some("a=b")),
            ("%74opic=a%23ephemeral", Some("a#ephemeral")),
            ("topic=%ff", Some("\u{fffd}")),
            ("Topic=a", None),
            ("", None),
        ];
        for (query, expected) in cases {
            assert_eq!(topic(query), Ok(expected.map(str::to_owned)), "{query}");
        }
        for broken in ["topic=a%", "topic=a%2", "x=%zz&topic=a", "topic=a;b"] {
            assert_eq!(
                topic(broken),
                Err(Failure(400, "INVALID_REQUEST")),
                "{broken}"
            );
        }
        assert!(topic("topic=a&x=1&topic=a").is_err());
    }
}
