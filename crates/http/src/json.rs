//! JSON bodies: an error names its place, and of two values for one key neither counts.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Map, Value};

use crate::query::shown;

/// The value that `body` is, a JSON object; `form` shows what is expected.
///
/// # Errors
/// What is wrong, where, and what is expected.
pub fn read_object<T: DeserializeOwned>(body: &[u8], form: &str) -> Result<T, String> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(format!("the body is not a JSON object; expected {form}"));
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = match error.path().to_string() {
            path if path == "." || path == "?" => String::from("the body"),
            path => path,
        };
        format!("{place}: {}; expected {form}", error.inner())
    })?;
    let end = json.end();
    end.map_err(|error| format!("after the value: {error}; expected {form}"))?;
    Ok(value)
}

/// A value whose objects name each key once: of two values nobody can know which was meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct(pub Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Distinct)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Distinct(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some((key, Distinct(value))) = fields.next_entry::<String, Distinct>()? {
            if values.contains_key(&key) {
                let shown = shown(&key);
                return Err(A::Error::custom(format!(
                    "{shown} is given twice; give it once"
                )));
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Limit {
        rate: f64,
        burst: Option<f64>,
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let form = r#"{"rate": 1}"#;
        for (body, expected) in [
            ("", "the body is not a JSON object; expected {\"rate\": 1}"),
            ("[1]", "the body is not a JSON object"),
            ("{", "the body: EOF while parsing"),
            ("{}", "the body: missing field `rate`"),
            (r#"{"rate": "x"}"#, "rate: invalid type"),
            (r#"{"rate": 1, "rate": 2}"#, "duplicate field `rate`"),
            (r#"{"rate": 1, "colour": 2}"#, "unknown field `colour`"),
            (r#"{"rate": 1} x"#, "after the value: trailing characters"),
        ] {
            let text = read_object::<Limit>(body.as_bytes(), form).expect_err(body);
            assert!(text.contains(expected), "{body}: {text}");
        }
        let limit = read_object::<Limit>(b" {\"rate\": 1} ", form);
        let expected = Limit {
            rate: 1.0,
            burst: None,
        };
        assert_eq!(limit, Ok(expected));
    }

    #[test]
    fn no_key_is_said_twice_wherever_it_is() {
        for (text, is_distinct) in [
            (r#"{"a": 1, "b": [{"a": 2}, {"a": 3}]}"#, true),
            (r#"[null, true, -1, 1, 1.5, "x"]"#, true),
            (r#"{"a": 1, "a": 1}"#, false),
            (r#"[{"b": {"a": 1, "a": 1}}]"#, false),
        ] {
            let read: Result<Distinct, _> = serde_json::from_str(text);
            assert_eq!(read.is_ok(), is_distinct, "{text}");
            if let Ok(Distinct(value)) = read {
                assert_eq!(Ok(value), serde_json::from_str(text).map_err(drop));
            }
        }
    }
}
