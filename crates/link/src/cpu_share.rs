//! A CPU share as JSON: a number above 0 and at most 1, or nothing. For `#[serde(with =
//! "link::cpu_share")]` with a default.

use kernel::CpuShare;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Writes a number, or `null`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(
    share: &Option<CpuShare>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    share.map(CpuShare::as_f64).serialize(serializer)
}

/// Reads a number, or `null`.
///
/// # Errors
/// Those of the deserializer; what a share may be, for a number that is none.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<CpuShare>, D::Error> {
    let value = Option::<f64>::deserialize(deserializer)?;
    value
        .map(CpuShare::new)
        .transpose()
        .map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder {
        #[serde(default, skip_serializing_if = "Option::is_none", with = "super")]
        cpu_share: Option<CpuShare>,
    }

    #[test]
    fn shares_are_numbers_or_nothing() {
        let share = |value| Holder {
            cpu_share: Some(CpuShare::new(value).expect("valid")),
        };
        let none = Holder { cpu_share: None };
        for (json, expected, again) in [
            (r#"{"cpu_share":0.2}"#, share(0.2), r#"{"cpu_share":0.2}"#),
            (r#"{"cpu_share":1}"#, share(1.0), r#"{"cpu_share":1.0}"#),
            (r#"{"cpu_share":null}"#, none, "{}"),
            ("{}", Holder { cpu_share: None }, "{}"),
        ] {
            let holder: Holder = serde_json::from_str(json).expect(json);
            assert_eq!(holder, expected, "{json}");
            assert_eq!(serde_json::to_string(&holder).expect("plain"), again);
        }
        for (json, text) in [
            (
                r#"{"cpu_share":0}"#,
                "a share of 0 is out of range: give more than 0",
            ),
            (r#"{"cpu_share":-0.5}"#, "a share of -0.5"),
            (r#"{"cpu_share":1.01}"#, "a share of 1.01"),
            (r#"{"cpu_share":"0.2"}"#, "expected f64"),
        ] {
            let error = serde_json::from_str::<Holder>(json).expect_err(json);
            assert!(error.to_string().contains(text), "{json}: {error}");
        }
    }
}
