//! A contract as declared: the body of a PUT.

use http::Distinct;
use kernel::CpuShare;
use std::fmt::Display;
use std::str::FromStr;

use link::Contract;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;

const EXAMPLE: &str = r#"write {"limit":{"rate":1000,"burst":50}}"#;

const SLO_UNSUPPORTED: &str = "slo: a broker on its own does not support latency objectives yet; \
    declare a limit without \"slo\"";

/// Reads a contract. `limit` may be left out beside any other word, and each may be `null`.
///
/// # Errors
/// What is wrong, where, and what to write.
pub(super) fn read(body: &[u8]) -> Result<Contract, String> {
    let Distinct(contract) =
        serde_json::from_slice(body).map_err(|error| match error.classify() {
            Category::Data => format!("the contract: {error}"),
            _ => format!("the contract is not JSON: {error}"),
        })?;
    let Value::Object(mut fields) = contract else {
        return Err(format!("the contract is not an object; {EXAMPLE}"));
    };
    if fields.remove("slo").is_some_and(|slo| !slo.is_null()) {
        return Err(SLO_UNSUPPORTED.to_owned());
    }
    let (limit, cpu_share) = (fields.remove("limit"), fields.remove("cpu_share"));
    let (on_full, durability) = (fields.remove("on_full"), fields.remove("durability"));
    let given = [&limit, &cpu_share, &on_full, &durability];
    if given.iter().all(|value| value.is_none()) {
        return Err(format!("limit: missing; {EXAMPLE}, or null for none"));
    }
    if let Some(unknown) = fields.keys().next() {
        return Err(format!(
            "{unknown}: unknown field; a contract holds limit, cpu_share, on_full and durability"
        ));
    }
    let cpu_share: Option<f64> = field("cpu_share", cpu_share)?;
    let cpu_share = cpu_share.map(CpuShare::new).transpose();
    Ok(Contract {
        limit: field("limit", limit)?,
        cpu_share: cpu_share.map_err(|error| format!("cpu_share: {error}"))?,
        on_full: word("on_full", on_full)?,
        durability: word("durability", durability)?.unwrap_or_default(),
    })
}

/// The error of an unknown word names the known ones.
fn word<W: FromStr<Err: Display>>(name: &str, value: Option<Value>) -> Result<Option<W>, String> {
    let word: Option<String> = field(name, value)?;
    let parsed = word.map(|word| word.parse::<W>()).transpose();
    parsed.map_err(|error| format!("{name}: {error}"))
}

fn field<T: DeserializeOwned>(name: &str, value: Option<Value>) -> Result<Option<T>, String> {
    serde_path_to_error::deserialize(value.unwrap_or_default()).map_err(|error| {
        let (path, reason) = (error.path().to_string(), error.inner().to_string());
        match path.as_str() {
            "." | "?" => format!("{name}: {reason}"),
            // The reason begins with the field's name, which the path has said.
            field => format!(
                "{name}.{field}: {}",
                reason.strip_prefix(&format!("{field} ")).unwrap_or(&reason)
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use link::{Durability, OnFull};

    use super::*;

    #[test]
    fn contracts_are_read_or_refused_with_a_reason() {
        for nothing in [r#"{"limit":null}"#, r#"{"cpu_share":null}"#] {
            assert_eq!(read(nothing.as_bytes()), Ok(Contract::default()));
        }
        let share = CpuShare::new(0.2).ok();
        let alone = read(br#"{"cpu_share":0.2}"#).expect("valid");
        assert_eq!((alone.limit, alone.cpu_share), (None, share));
        let body =
            r#"{"limit":{"rate":1000,"burst":50,"on_exceed":"drop"},"slo":null,"cpu_share":0.2}"#;
        let both = read(body.as_bytes()).expect("valid");
        assert_eq!(both.cpu_share, share);
        let limit = both.limit.expect("declared");
        assert_eq!(
            (limit.rate.get(), limit.burst.get(), limit.on_exceed),
            (1000.0, 50.0, limit::OnExceed::Drop)
        );
        let cases = [
            ("", "not JSON"),
            ("[]", "not an object"),
            ("{}", "limit: missing"),
            (r#"{"limit":5}"#, "limit: invalid type"),
            (r#"{"limit":{}}"#, "limit: missing field `rate`"),
            (r#"{"limit":{"rate":1}}"#, "limit: missing field `burst`"),
            (
                r#"{"limit":{"rate":0,"burst":1}}"#,
                "limit.rate: 0 is out of range: it must be at least 1e-6",
            ),
            (
                r#"{"limit":{"rate":-3,"burst":1}}"#,
                "limit.rate: -3 is out of range",
            ),
            (r#"{"limit":{"rate":1e13,"burst":1}}"#, "limit.rate: "),
            (r#"{"limit":{"rate":"x","burst":1}}"#, "limit.rate: "),
            (
                r#"{"limit":{"rate":1,"burst":0.5}}"#,
                "limit.burst: 0.5 is out of range",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"unit":"litres"}}"#,
                "limit.unit: ",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"on_exceed":"panic"}}"#,
                "limit.on_exceed: ",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"color":2}}"#,
                "unknown field `color`",
            ),
            (r#"{"limit":null,"color":2}"#, "color: unknown field"),
            (
                r#"{"cpu_share":0}"#,
                "cpu_share: a share of 0 is out of range: give more than 0",
            ),
            (r#"{"cpu_share":1.2}"#, "cpu_share: a share of 1.2"),
            (r#"{"cpu_share":"0.2"}"#, "cpu_share: invalid type"),
            (
                r#"{"limit":null,"slo":{"percentile":99,"latency_us":1000}}"#,
                "slo: a broker on its own",
            ),
        ];
        for (body, expected) in cases {
            let reason = read(body.as_bytes()).expect_err(body);
            assert!(reason.contains(expected), "{body}: {reason}");
        }
    }

    #[test]
    fn what_full_channels_do_is_one_of_the_words() {
        let alone = read(br#"{"on_full":"drop_oldest"}"#).expect("valid");
        assert_eq!(alone.on_full, Some(OnFull::DropOldest));
        assert_eq!((alone.limit, alone.cpu_share), (None, None));
        assert_eq!(read(br#"{"on_full":null}"#), Ok(Contract::default()));
        let unknown = "on_full: \"disk\" is unknown: on_full is one of block, drop_oldest";
        assert_eq!(read(br#"{"on_full":"disk"}"#), Err(unknown.to_owned()));
        let reason = read(br#"{"on_full":5}"#).expect_err("no word");
        assert!(reason.contains("on_full: invalid type"), "{reason}");
    }

    #[test]
    fn durability_needs_no_limit_and_is_one_of_the_words() {
        for durability in Durability::ALL {
            let body = format!(r#"{{"durability":"{durability}"}}"#);
            let alone = Contract {
                durability,
                ..Contract::default()
            };
            assert_eq!(read(body.as_bytes()), Ok(alone));
        }
        assert_eq!(read(br#"{"durability":null}"#), Ok(Contract::default()));
        let unknown = "durability: \"raid\" is unknown: durability is one of memory, disk, fsync";
        assert_eq!(read(br#"{"durability":"raid"}"#), Err(unknown.to_owned()));
        let reason = read(br#"{"durability":1}"#).expect_err("no word");
        assert!(reason.contains("durability: invalid type"), "{reason}");
    }

    #[test]
    fn what_is_said_twice_and_rates_that_pass_nothing_are_refused() {
        let cases = [
            (
                r#"{"limit":{"rate":1,"burst":1},"limit":null}"#,
                "the contract: limit is given twice",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"rate":2}}"#,
                "rate is given twice; give it once",
            ),
            (
                r#"{"limit":{"rate":1e-320,"burst":1}}"#,
                "limit.rate: 1e-320 is out of range: it must be at least 1e-6",
            ),
            (
                r#"{"limit":{"rate":9e-7,"burst":1}}"#,
                "limit: rate 9e-7 is out of range",
            ),
        ];
        for (body, expected) in cases {
            let reason = read(body.as_bytes()).expect_err(body);
            assert!(reason.contains(expected), "{body}: {reason}");
        }
    }

    #[test]
    fn ways_of_sharing_that_cannot_be_are_refused() {
        for (body, expected) in [
            (
                r#"{"limit":{"rate":1,"burst":1,"sharing":"ctb"}}"#,
                "limit.sharing: \"ctb\" is unknown: sharing is one of lease, gtb, grd, fps",
            ),
            (
                r#"{"limit":{"rate":1,"burst":1,"sharing":"grd"}}"#,
                "limit: sharing \"grd\" drops at random and lets nothing wait: give on_exceed drop or reject",
            ),
        ] {
            let reason = read(body.as_bytes()).expect_err(body);
            assert!(reason.contains(expected), "{body}: {reason}");
        }
    }
}
