//! Patterns over the names of topics and channels.

use std::fmt;
use std::str::FromStr;

/// Longest pattern, in bytes.
const PATTERN_MAX_BYTES: usize = 128;

/// A name in which `*` stands for any characters, also none: `sensors.*`, `*#ephemeral`, `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<str>);

/// A text that is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a pattern of names; write 1 to 128 of the characters of a name (letters, digits, . _ - #), and * for any of them, as in sensors.*"
)]
pub struct InvalidPattern(String);

impl Pattern {
    /// What every name fits.
    #[must_use]
    pub fn everything() -> Pattern {
        Pattern("*".into())
    }

    /// Whether every name fits.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether this name fits. Takes time in proportion to name times pattern at most.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut from) = (0, 0);
        // Where to go on if it turns out that the last star has to stand for one character more.
        let mut again: Option<(usize, usize)> = None;
        while from < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    again = Some((at + 1, from));
                    at += 1;
                }
                Some(byte) if *byte == name[from] => {
                    at += 1;
                    from += 1;
                }
                _ => match &mut again {
                    None => return false,
                    Some((behind, begun)) => {
                        *begun += 1;
                        (at, from) = (*behind, *begun);
                    }
                },
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Pattern, InvalidPattern> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-#*".contains(&byte);
        let fits = (1..=PATTERN_MAX_BYTES).contains(&text.len());
        match fits && text.bytes().all(is_valid) {
            true => Ok(Pattern(text.into())),
            false => Err(InvalidPattern(
                text.chars().take(PATTERN_MAX_BYTES).collect(),
            )),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "a.b#ephemeral", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a", "A", false),
            ("sensors.*", "sensors.", true),
            ("sensors.*", "sensors.7", true),
            ("sensors.*", "sensors", false),
            ("sensors.*", "my.sensors.7", false),
            ("*.7", "sensors.7.7", true),
            ("a*b*c", "a1b2b3c", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("*#ephemeral", "t#ephemeral", true),
            ("*#ephemeral", "t", false),
        ] {
            let pattern: Pattern = pattern.parse().expect(pattern);
            assert_eq!(pattern.matches(name), fits, "{pattern} {name}");
        }
        for bad in ["", "a b", "sensors/*", "ä", "a?", &"x".repeat(129)] {
            let error = bad.parse::<Pattern>().expect_err(bad);
            assert!(error.to_string().contains("as in sensors.*"), "{error}");
        }
    }

    /// The same by its definition.
    fn defined(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|from| defined(rest, &name[from..])),
            Some((byte, rest)) => name.first() == Some(byte) && defined(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_it_is_defined_as(pattern in "[ab*]{1,8}", name in "[ab]{0,10}") {
            let parsed: Pattern = pattern.parse().expect("valid");
            prop_assert_eq!(parsed.matches(&name), defined(pattern.as_bytes(), name.as_bytes()));
            prop_assert_eq!(parsed.is_everything(), !pattern.contains(['a', 'b']));
        }
    }
}
