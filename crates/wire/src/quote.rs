//! Bytes from outside as text inside an error frame.
//!
//! nsqd builds its error texts with Go's formatter: `%q` for names, `%s` for the rest. [`quoted`] is
//! `%q` (Go language, package strconv, `Quote`), [`echoed`] is `%s` made valid UTF-8. Both cut what
//! they repeat, since a stranger's 16 KiB line has no place in an answer.

use std::borrow::Cow;
use std::fmt::Write;

/// At most this many bytes of a client's input are repeated in an error text. nsqd has no such
/// bound.
const MAX_ECHO_BYTES: usize = 1024;

/// `input` as Go's `%q` prints it: in double quotes, printable characters as they are, control
/// characters and invalid UTF-8 escaped.
pub(crate) fn quoted(input: &[u8]) -> String {
    let mut out = String::with_capacity(input.len() + 2);
    out.push('"');
    for chunk in cut(input).utf8_chunks() {
        for character in chunk.valid().chars() {
            put_quoted(&mut out, character);
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

/// `input` as Go's `%s` prints it, except that invalid UTF-8 becomes U+FFFD.
pub(crate) fn echoed(input: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(cut(input))
}

fn cut(input: &[u8]) -> &[u8] {
    &input[..input.len().min(MAX_ECHO_BYTES)]
}

fn put_quoted(out: &mut String, character: char) {
    let short = match character {
        '"' => Some('"'),
        '\\' => Some('\\'),
        '\x07' => Some('a'),
        '\x08' => Some('b'),
        '\x0c' => Some('f'),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\x0b' => Some('v'),
        _ => None,
    };
    let code = u32::from(character);
    // Writing into a String cannot fail.
    let _ = match short {
        Some(letter) => write!(out, "\\{letter}"),
        None if is_printable(character) => write!(out, "{character}"),
        None if code < 0x80 => write!(out, "\\x{code:02x}"),
        None if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        None => write!(out, "\\U{code:08x}"),
    };
}

/// Go's `IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
///
/// The standard library keeps the same classes behind `escape_debug`, which leaves a printable
/// character alone; the letter in front makes it treat combining marks like other characters.
fn is_printable(character: char) -> bool {
    let mut bytes = [b'a'; 5];
    let length = 1 + character.encode_utf8(&mut bytes[1..]).len();
    match std::str::from_utf8(&bytes[..length]) {
        Ok(text) => matches!(character, '\'' | '"' | '\\') || text.escape_debug().count() == 2,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_ECHO_BYTES, echoed, quoted};

    #[test]
    fn quotes_like_go() {
        #[rustfmt::skip]
        let rows: &[(&[u8], &str)] = &[
            (b"", r#""""#),
            (b"a b", r#""a b""#),
            (b"it's", r#""it's""#),
            (b"\"\\", r#""\"\\""#),
            (b"\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            (b"\0\x01\x1f\x7f", r#""\x00\x01\x1f\x7f""#),
            (b"\xff\xc3(", r#""\xff\xc3(""#),
            (b"\xe2\x82", r#""\xe2\x82""#),
            ("é漢😀".as_bytes(), r#""é漢😀""#),
            ("e\u{301}".as_bytes(), "\"e\u{301}\""),
            ("\u{a0}\u{ad}\u{2028}\u{200b}".as_bytes(), r#""\u00a0\u00ad\u2028\u200b""#),
            ("\u{e000}\u{10ffff}".as_bytes(), r#""\ue000\U0010ffff""#),
            ("\u{fffd}".as_bytes(), "\"\u{fffd}\""),
        ];
        for (input, expected) in rows {
            assert_eq!(quoted(input), *expected, "{input:?}");
        }
    }

    #[test]
    fn repeats_a_bounded_part() {
        assert_eq!(quoted(&[b'a'; 20_000]).len(), MAX_ECHO_BYTES + 2);
        assert_eq!(echoed(&[b'a'; 20_000]).len(), MAX_ECHO_BYTES);
        assert_eq!(echoed(b"G\xffT"), "G\u{fffd}T");
    }
}
