//! What must hold of any file of settings, shared by the fuzz targets and the smoke test on stable Rust.
//!
//! It is read, without a panic; what is read are settings with as many values as they take; every mistake is in a line that there is.
#![allow(dead_code, reason = "each fuzz target uses one side")]

use std::collections::BTreeSet;

use settings::{DefaultValue, Mistake, Place, Setting, Settings, Takes, layered};

/// Parts of files, so that inputs get past the first character.
const PHRASES: &[&str] = &[
    "size",
    "names",
    "is_on",
    "secret",
    "sise",
    "\"size\"",
    "a.b",
    "[size]",
    "[[names]]",
    " = ",
    "=",
    "\n",
    "\n",
    "#",
    "5",
    "-1",
    "0x1f",
    "1.5e3",
    "inf",
    "nan",
    "\"text\"",
    "'text'",
    "\"\\u0000\"",
    "\"\"\"\n",
    "true",
    "false",
    "[",
    "]",
    ", ",
    "{",
    "}",
    "1979-05-27",
    "@file",
    "\"@file\"",
    "99999999999999999999999999999999999999999999",
    "\r\n",
    "\u{feff}",
    "é",
];

/// Any bytes.
pub fn check_file(data: &[u8]) {
    check(&String::from_utf8_lossy(data));
}

/// Phrases, one per byte.
pub fn check_phrases(data: &[u8]) {
    let phrases = data
        .iter()
        .map(|byte| PHRASES[usize::from(*byte) % PHRASES.len()]);
    check(&phrases.collect::<String>());
}

fn check(text: &str) {
    let settings = fixture();
    let lines = 1 + text.matches('\n').count();
    let is_there =
        |place: &Place| matches!(place, Place::Line { line, .. } if (1..=lines).contains(line));
    match settings.read_file("f", text).all() {
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            assert!(
                mistakes
                    .iter()
                    .all(|mistake: &Mistake| is_there(&mistake.place))
            );
            assert!(
                mistakes
                    .iter()
                    .all(|mistake| mistake.to_string().starts_with("f:"))
            );
        }
        Ok(all) => {
            for said in layered(&BTreeSet::new(), Vec::new(), all) {
                let setting = settings.find(&said.key).expect("only settings are read");
                assert!(is_there(&said.place));
                assert!(setting.takes == Takes::List || said.values.len() == 1);
                assert!(!setting.is_secret || said.values[0].starts_with('@'));
                assert!(
                    said.arguments(setting)
                        .iter()
                        .all(|argument| argument.starts_with("--"))
                );
            }
        }
    }
}

fn fixture() -> Settings {
    let setting = |key: &str, takes, is_secret| Setting {
        key: key.to_owned(),
        flag: key.replace('_', "-"),
        variable: None,
        takes,
        value: String::from("N"),
        is_secret,
        default: DefaultValue::Values(Vec::new()),
        doc: String::new(),
    };
    Settings::new(vec![
        setting("size", Takes::Value, false),
        setting("names", Takes::List, false),
        setting("is_on", Takes::Switch, false),
        setting("secret", Takes::Value, true),
    ])
}
