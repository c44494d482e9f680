//! Sizes on the command line: `512MiB`, `2GiB`, or a number of bytes.

use std::fmt;
use std::str::FromStr;

const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSize(pub(crate) u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
        let (unit, shift) = unit.copied().unwrap_or(("", 0));
        let number = text.strip_suffix(unit).unwrap_or(text).trim_end();
        let bytes = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(1 << shift));
        bytes
            .map(ByteSize)
            .ok_or_else(|| format!("`{text}` is not a size; use 512MiB, 2GiB or a number of bytes"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, shift): &&(&str, u32)| self.0 > 0 && self.0.is_multiple_of(1 << shift);
        match UNITS.iter().rev().find(whole) {
            Some((unit, shift)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("1KiB", 1024),
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
            ("3TiB", 3 << 40),
        ] {
            let size: ByteSize = text.parse().expect(text);
            assert_eq!((size.0, size.to_string().as_str()), (bytes, text));
        }
        for bad in ["", "MiB", "-1", "1.5GiB", "1 GB", "99999999999TiB", "1mib"] {
            let error = bad.parse::<ByteSize>().expect_err(bad);
            assert!(error.contains(&format!("`{bad}` is not a size")), "{error}");
        }
    }
}
