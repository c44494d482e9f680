//! The text of a line: the message, then its fields. Text from strangers is cut, and escaped so
//! that it cannot pass for anything else.

use std::fmt::{self, Debug, Write};

use tracing::Event;
use tracing::field::{Field, Visit};

/// The most bytes of a line.
const LINE_MAX_BYTES: usize = 1024;
/// The most bytes of a field.
const FIELD_MAX_BYTES: usize = 128;

/// The text of an event on one line: `message name=value …`.
pub(super) fn of(event: &Event<'_>) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let Fields { message, others } = fields;
    cut(&(message + &others), LINE_MAX_BYTES)
}

#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let shown = cut_debug(value);
        // Writing into a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{shown}"),
            name => write!(self.others, " {name}={}", cut(&shown, FIELD_MAX_BYTES)),
        };
    }
}

/// A value's text, no longer than a line: it is not rendered any further.
fn cut_debug(value: &dyn Debug) -> String {
    struct Bounded(String);
    impl Write for Bounded {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = (4 * LINE_MAX_BYTES).saturating_sub(self.0.len());
            self.0.push_str(&text[..text.floor_char_boundary(room)]);
            match text.len() > room {
                true => Err(fmt::Error),
                false => Ok(()),
            }
        }
    }
    let mut text = Bounded(String::new());
    // It ends where there is no more room.
    let _ = write!(text, "{value:?}");
    text.0
}

/// As much of `text` as fits into `max_bytes`, with escapes for what would not show.
fn cut(text: &str, max_bytes: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(max_bytes) + 8);
    for character in text.chars() {
        let before = shown.len();
        if is_plain(character) {
            shown.push(character);
        } else {
            shown.extend(character.escape_default());
        }
        if shown.len() > max_bytes {
            shown.truncate(before);
            shown.push('…');
            break;
        }
    }
    shown
}

/// Letters, digits and signs: nothing that ends a line, turns it around or talks to a terminal.
fn is_plain(character: char) -> bool {
    matches!(character, '\'' | '"' | '\\') || {
        let mut escaped = character.escape_debug();
        escaped.next() == Some(character) && escaped.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_say_stays_on_its_line() {
        let cases = [
            ("it's \"fine\" \\ é漢", "it's \"fine\" \\ é漢"),
            ("a\nERROR: forged", "a\\nERROR: forged"),
            ("\u{1b}[2J\r\0", "\\u{1b}[2J\\r\\u{0}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("\u{2028}\u{85}", "\\u{2028}\\u{85}"),
        ];
        for (text, expected) in cases {
            assert_eq!(cut(text, 128), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcdef…");
        assert_eq!(cut("aaaaé", 5), "aaaa…");
        assert_eq!(cut("aaaa\u{1b}", 5), "aaaa…");
        let endless = "x".repeat(1 << 20);
        assert!(cut_debug(&endless).len() <= 4 * LINE_MAX_BYTES);
    }
}
