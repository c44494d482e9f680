//! A daemon's settings, as its command line defines them.
//!
//! The flag is the definition: its name, its default, its help. A flag that is added to a daemon is a key of its file, a variable
//! and a row of docs/settings.md with that; hidden flags are none of them.

use std::any::TypeId;

use clap::builder::{Arg, ArgAction, Command};
use settings::{DefaultValue, Setting, Settings, Takes};

use crate::announce_flags::SharedKey;

/// Id of the flag that names a file; a command that has it is a daemon with settings.
pub(crate) const FILE_FLAG: &str = "config_file";

/// What variables of settings begin with.
pub(crate) const VARIABLE_START: &str = "SRTM_";

/// Marks a default in a flag's help, where it is not a fixed value.
const DEFAULT_MARK: &str = "[default: ";

/// Whether it takes a file of settings.
pub(crate) fn is_daemon(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == FILE_FLAG)
}

/// The settings of a daemon.
pub(crate) fn settings_of(command: &Command) -> Settings {
    Settings::new(flags_of(command).map(setting_of).collect())
}

/// The flags that are settings.
pub(crate) fn flags_of(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let is_value = matches!(
            arg.get_action(),
            ArgAction::Set | ArgAction::Append | ArgAction::SetTrue
        );
        is_value && arg.get_long().is_some() && !arg.is_hide_set() && arg.get_id() != FILE_FLAG
    })
}

/// The key of a flag.
pub(crate) fn key_of(arg: &Arg) -> String {
    arg.get_long().unwrap_or_default().replace('-', "_")
}

fn setting_of(arg: &Arg) -> Setting {
    let flag = arg.get_long().unwrap_or_default().to_owned();
    let key = key_of(arg);
    let (doc, words) = doc_of(arg);
    let default = match words {
        Some(words) => DefaultValue::Words(words),
        None => {
            let values = arg.get_default_values().iter();
            // That of a switch is off.
            let values = values.filter(|_| !matches!(arg.get_action(), ArgAction::SetTrue));
            DefaultValue::Values(
                values
                    .map(|value| value.to_string_lossy().into_owned())
                    .collect(),
            )
        }
    };
    Setting {
        variable: Some(format!("{VARIABLE_START}{}", key.to_ascii_uppercase())),
        takes: match arg.get_action() {
            ArgAction::SetTrue => Takes::Switch,
            ArgAction::Append => Takes::List,
            _ => Takes::Value,
        },
        value: value_of(arg),
        is_secret: arg.get_value_parser().type_id() == TypeId::of::<SharedKey>(),
        key,
        flag,
        default,
        doc,
    }
}

/// What a value is, in a word.
fn value_of(arg: &Arg) -> String {
    let choices: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|choice| !choice.is_hide_set())
        .map(|choice| choice.get_name().to_owned())
        .collect();
    match (choices.is_empty(), arg.get_value_names()) {
        (false, _) => choices.join("|"),
        (true, Some([name, ..])) => name.trim_end_matches(",…").to_owned(),
        (true, _) => String::from("VALUE"),
    }
}

/// Its help as sentences, and what it says of the default, if that is no fixed value.
fn doc_of(arg: &Arg) -> (String, Option<String>) {
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, default) = match words.rsplit_once(DEFAULT_MARK) {
        Some((text, rest)) => (text.trim_end(), Some(rest.trim_end_matches([']', '.']))),
        None => (words.as_str(), None),
    };
    let stop = if text.ends_with('.') { "" } else { "." };
    (format!("{text}{stop}"), default.map(str::to_owned))
}
