//! The target of a question at a server: path and query, escaped.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Path and query of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    has_query: bool,
}

impl Target {
    /// The path `path`, which begins with `/` and stands as it is; it may have a query.
    #[must_use]
    pub fn new(path: &'static str) -> Target {
        Target {
            has_query: path.contains('?'),
            text: path.to_owned(),
        }
    }

    /// Appends a segment to the path, of any characters.
    #[must_use]
    pub fn segment(mut self, text: &str) -> Target {
        self.text.push('/');
        self.push_escaped(text);
        self
    }

    /// Appends `path`, which begins with `/` and is taken literally.
    #[must_use]
    pub fn then(mut self, path: &'static str) -> Target {
        self.text += path;
        self
    }

    /// Appends a value to the query, of any characters; `key` is taken literally.
    #[must_use]
    pub fn query(mut self, key: &'static str, value: &str) -> Target {
        self.text.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.text += key;
        self.text.push('=');
        self.push_escaped(value);
        self
    }

    /// As it stands in a request.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn push_escaped(&mut self, text: &str) {
        self.text.extend(utf8_percent_encode(text, ESCAPED));
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_goes_on_where_one_has_begun() {
        let target = Target::new("/stats?format=json").query("topic", "t");
        assert_eq!(target.as_str(), "/stats?format=json&topic=t");
    }

    #[test]
    fn segments_and_values_hold_any_characters() {
        for (text, escaped) in [
            ("s1-a.b_c~", "s1-a.b_c~"),
            ("t#ephemeral", "t%23ephemeral"),
            ("a/b?c%d#e", "a%2Fb%3Fc%25d%23e"),
            ("a b+c&d=e", "a%20b%2Bc%26d%3De"),
            ("../..", "..%2F.."),
            ("ä", "%C3%A4"),
            ("", ""),
        ] {
            let path = Target::new("/v1/topics").segment(text).then("/channels");
            assert_eq!(path.as_str(), format!("/v1/topics/{escaped}/channels"));
            let query = Target::new("/stats").query("a", text).query("b", text);
            assert_eq!(query.as_str(), format!("/stats?a={escaped}&b={escaped}"));
        }
    }
}
