//! Checks whether values from outside are credible. An error names the value and what is allowed.

use link::Durability;
use wire::{TopicName, is_valid_address, is_valid_name};

use crate::ControlError;
use crate::view::{PublisherSpec, Slo, TopicSpec};

/// Largest rate that is believed, messages or tokens per second.
pub const RATE_MAX: f64 = 1e9;

/// Smallest rate that is taken, one in twelve days.
pub const RATE_MIN: f64 = 1e-6;

/// Longest id of a publisher, group or broker in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// What is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A broker.
    Broker,
    /// A publisher.
    Publisher,
    /// A correlation group.
    Group,
}

/// A name of 1 to 128 printable ASCII characters without blanks.
pub fn name(kind: NameKind, text: &str) -> Result<(), String> {
    let what = match kind {
        NameKind::Broker => "broker name",
        NameKind::Publisher => "publisher id",
        NameKind::Group => "group key",
    };
    let is_valid = (1..=ID_BYTES_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if is_valid {
        return Ok(());
    }
    let shown: String = text.chars().take(40).collect();
    Err(format!(
        "{what} {shown:?} is not 1 to {ID_BYTES_MAX} printable ASCII characters without blanks or slashes"
    ))
}

/// A `host:port` that a migrate frame can carry.
pub fn address(field: &str, text: &str) -> Result<(), String> {
    if is_valid_address(text) {
        return Ok(());
    }
    Err(format!("{field} {text:?} is not host:port"))
}

/// A rate of [`RATE_MIN`] to [`RATE_MAX`].
pub fn rate(field: &str, value: f64) -> Result<(), String> {
    if (RATE_MIN..=RATE_MAX).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{field} {value} is not within {RATE_MIN:e} to {RATE_MAX:e} per second"
    ))
}

/// A number of a report: finite, not negative, not beyond `most`.
pub fn amount(field: &str, value: f64, most: f64) -> Result<(), String> {
    if (0.0..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{field} {value} is not within 0 to {most:e}"))
}

/// A topic that may be durable.
pub fn durability(topic: &str, durability: Durability) -> Result<(), ControlError> {
    let is_ephemeral = topic
        .parse()
        .is_ok_and(|name: TopicName| name.is_ephemeral());
    let checked = durability.check(is_ephemeral);
    checked.map_err(|error| ControlError::Invalid(error.to_string()))
}

/// A topic's name.
pub fn topic(name: &str) -> Result<(), ControlError> {
    if is_valid_name(name.as_bytes()) {
        return Ok(());
    }
    let shown: String = name.chars().take(70).collect();
    Err(ControlError::Invalid(format!(
        "topic name {shown:?} is not valid: 1 to 64 characters of a-z A-Z 0-9 . _ - (and #ephemeral at its end)"
    )))
}

/// A topic's declaration; the limit has been checked by its type.
pub fn spec(spec: &TopicSpec) -> Result<(), ControlError> {
    if let Some(slo) = &spec.slo {
        self::slo(slo).map_err(ControlError::Invalid)?;
    }
    Ok(())
}

fn slo(slo: &Slo) -> Result<(), String> {
    if !(slo.percentile > 0.0 && slo.percentile < 100.0) {
        return Err(format!(
            "slo.percentile {} is not above 0 and below 100",
            slo.percentile
        ));
    }
    if !(slo.latency_us > 0.0 && slo.latency_us <= 3.6e9) {
        return Err(format!(
            "slo.latency_us {} is not above 0 and at most 3.6e9 (an hour)",
            slo.latency_us
        ));
    }
    Ok(())
}

/// A publisher's declaration.
pub fn publisher(spec: &PublisherSpec) -> Result<(), ControlError> {
    let check = || {
        name(NameKind::Publisher, &spec.id)?;
        rate("rate", spec.rate)?;
        if !(1..=65_536).contains(&spec.batch) {
            return Err(format!("batch {} is not within 1 to 65536", spec.batch));
        }
        spec.group
            .as_deref()
            .map_or(Ok(()), |group| name(NameKind::Group, group))
    };
    check().map_err(|text: String| {
        let shown: String = spec.id.chars().take(40).collect();
        ControlError::Invalid(format!("publisher {shown:?}: {text}"))
    })
}
