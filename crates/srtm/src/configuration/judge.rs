//! Whether a setting can have the values that a file or the environment says, as its flag judges them.

use std::error::Error;

use clap::builder::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use settings::{Mistake, Said, Setting};

/// What is wrong with the values, if something is. Whether they fit those of other settings is not asked.
pub(super) fn mistake_in(command: &Command, setting: &Setting, said: &Said) -> Option<Mistake> {
    let line = std::iter::once(command.get_name().to_owned()).chain(said.arguments(setting));
    let error = command.clone().try_get_matches_from(line).err()?;
    let is_about_values = matches!(
        error.kind(),
        ErrorKind::InvalidValue
            | ErrorKind::ValueValidation
            | ErrorKind::UnknownArgument
            | ErrorKind::NoEquals
            | ErrorKind::TooManyValues
            | ErrorKind::TooFewValues
            | ErrorKind::WrongNumberOfValues
            | ErrorKind::InvalidUtf8
    );
    is_about_values.then(|| Mistake {
        place: said.place.clone(),
        key: said.key.clone(),
        reason: format!("cannot be that: {}", reason_of(&error)),
    })
}

fn reason_of(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    let written = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(written)) => written.as_str(),
        _ => "",
    };
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(choices)) if !choices.is_empty() => {
            format!("{written:?} is none of {}", choices.join(", "))
        }
        _ => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}
