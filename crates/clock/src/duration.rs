//! Durations as text, the way Go writes and reads them: `60s`, `1m30s`, `250ms`, `1.5h`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A duration that reads from and writes as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationText(pub Duration);

const UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl FromStr for DurationText {
    type Err = String;

    fn from_str(text: &str) -> Result<DurationText, String> {
        let bad = || {
            format!(
                "{text:?} is not a duration: write a number and ns, us, ms, s, m or h, as in 250ms or 1m30s"
            )
        };
        if text == "0" {
            return Ok(DurationText(Duration::ZERO));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        let mut total_ns = 0u64;
        while !rest.is_empty() || text.is_empty() {
            let number_end = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .ok_or_else(bad)?;
            let (number, behind) = rest.split_at(number_end);
            let unit_end = behind
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(behind.len());
            let (unit, behind) = behind.split_at(unit_end);
            let (_, unit_ns) = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(bad)?;
            let part_ns = nanoseconds(number, *unit_ns).ok_or_else(bad)?;
            total_ns = total_ns.checked_add(part_ns).ok_or_else(bad)?;
            rest = behind;
        }
        Ok(DurationText(Duration::from_nanos(total_ns)))
    }
}

impl fmt::Display for DurationText {
    /// The shortest form that reads back as the same duration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest_ns = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        if rest_ns == 0 {
            return f.write_str("0s");
        }
        for (unit, unit_ns) in UNITS.iter().rev().filter(|(unit, _)| *unit != "us") {
            if rest_ns >= *unit_ns {
                write!(f, "{}{unit}", rest_ns / unit_ns)?;
                rest_ns %= unit_ns;
            }
        }
        Ok(())
    }
}

/// `number` of units, exactly; `None` for what is no number or too large.
fn nanoseconds(number: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // Digits below a nanosecond are cut, as in Go.
    let fraction = &fraction[..fraction.len().min(15)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let digits: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let part = u64::try_from(digits * u128::from(unit_ns) / scale).ok()?;
    whole.checked_mul(unit_ns)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_reads() {
        let cases = [
            ("0", 0),
            ("60s", 60_000_000_000),
            ("1m30s", 90_000_000_000),
            ("250ms", 250_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("2h45m0.5s", 9_900_500_000_000),
            ("100us", 100_000),
            ("3µs", 3_000),
            ("7ns", 7),
            ("+5m", 300_000_000_000),
        ];
        for (text, expected_ns) in cases {
            assert_eq!(
                text.parse(),
                Ok(DurationText(Duration::from_nanos(expected_ns))),
                "{text}"
            );
        }
        for text in [
            "",
            "60",
            "s",
            "1x",
            "-1s",
            "1s2",
            ".s",
            "1..5s",
            "99999999h",
            "1 s",
            "1e3s",
        ] {
            let error = text.parse::<DurationText>().expect_err(text);
            assert!(error.contains("is not a duration"), "{error}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["0s", "1m30s", "250ms", "1h", "25ms", "1h1m1s1ms1µs1ns"] {
            assert_eq!(
                text.parse::<DurationText>()
                    .map(|duration| duration.to_string()),
                Ok(text.to_owned())
            );
        }
    }
}
