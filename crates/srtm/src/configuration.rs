//! What flags, the environment and a file say together, as one command line.
//!
//! Whatever a flag does not say is taken from the environment, then from the file of `--config` (or `SRTM_CONFIG`), and put in front
//! of the flags: from there on there is one way to read settings, and one place that judges them.

mod definitions;
mod judge;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::Command;
use clap::parser::{ArgMatches, ValueSource};
use settings::{Mistake, Origin, Said, Settings, layered};

use crate::error::Failure;
pub(crate) use definitions::{FILE_FLAG, VARIABLE_START, is_daemon, settings_of};

/// The file of settings that a daemon takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ConfigFlag {
    /// File with settings: TOML, in which each flag is a key (`msg_timeout = "30s"`). Flags go before
    /// variables (`SRTM_MSG_TIMEOUT`), variables before the file.
    #[arg(long = "config", id = FILE_FLAG, value_name = "FILE")]
    _file: Option<PathBuf>,
}

/// How to read a variable of the environment.
pub(crate) type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is said of a daemon's settings.
#[derive(Debug)]
pub(crate) struct Told {
    /// All settings of the daemon.
    pub(crate) settings: Settings,
    /// What flags say, by key.
    flags: Vec<(String, Vec<String>)>,
    /// What the environment and the file say of the others.
    said: Vec<Said>,
}

/// A setting with its value in force, and where that comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Its key.
    pub(crate) key: String,
    /// Its value for people; of a secret, the file that holds it.
    pub(crate) value: String,
    /// Where the value comes from.
    pub(crate) origin: Origin,
}

/// The process's own environment; text that is not UTF-8 counts as not there.
pub(crate) fn process_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The arguments of `srtm` with what the environment and a file say, where they start a daemon; others as they are.
///
/// # Errors
/// [`Failure::Usage`] with all mistakes of the environment and the file.
pub(crate) fn complete(
    srtm: &Command,
    arguments: Vec<OsString>,
    variable: Variable<'_>,
) -> Result<Vec<OsString>, Failure> {
    let [program, name, rest @ ..] = arguments.as_slice() else {
        return Ok(arguments);
    };
    let Some(command) = daemon(srtm, name) else {
        return Ok(arguments);
    };
    // Who asks for help gets it, whatever else is wrong.
    if rest.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(arguments);
    }
    let told = Told::gather(command, rest, variable)?;
    let first = [program.clone(), name.clone()];
    let said = told.arguments().into_iter().map(OsString::from);
    Ok(first.into_iter().chain(said).chain(rest.to_vec()).collect())
}

/// The command of that name, if it is a daemon with settings.
pub(crate) fn daemon<'a>(srtm: &'a Command, name: &OsStr) -> Option<&'a Command> {
    let command = srtm.find_subcommand(name)?;
    is_daemon(command).then_some(command)
}

impl Told {
    /// What is said of the settings of `command`, whose own arguments are `given`.
    ///
    /// # Errors
    /// [`Failure::Usage`] with all mistakes of the environment and the file; those of flags are told of by whoever reads them.
    pub(crate) fn gather(
        command: &Command,
        given: &[OsString],
        variable: Variable<'_>,
    ) -> Result<Told, Failure> {
        let settings = settings_of(command);
        let matches = lenient_matches(command, given);
        let flags: Vec<_> = definitions::flags_of(command)
            .filter(|arg| is_given(&matches, arg.get_id().as_str()))
            .map(|arg| {
                let values = matches.get_raw(arg.get_id().as_str()).unwrap_or_default();
                let texts = values.map(|value| value.to_string_lossy().into_owned());
                (definitions::key_of(arg), texts.collect())
            })
            .collect();
        let environment = settings.read_environment(variable).map_err(usage)?;
        let named = matches.try_get_one::<PathBuf>(FILE_FLAG).ok().flatten();
        let from_variable = || variable("SRTM_CONFIG").filter(|path| !path.is_empty());
        let named = named.cloned();
        let file = match named.or_else(|| from_variable().map(PathBuf::from)) {
            Some(path) => read_file(&settings, &path)?,
            None => Vec::new(),
        };
        let keys = flags.iter().map(|(key, _)| key.clone());
        let said = layered(&keys.collect(), environment, file);
        let told = Told {
            settings,
            flags,
            said,
        };
        told.judge(command)?;
        Ok(told)
    }

    /// What a file alone says.
    ///
    /// # Errors
    /// [`Failure::Usage`] with all its mistakes.
    pub(crate) fn of_file(command: &Command, path: &Path) -> Result<Told, Failure> {
        let settings = settings_of(command);
        let said = layered(&BTreeSet::new(), Vec::new(), read_file(&settings, path)?);
        let told = Told {
            settings,
            flags: Vec::new(),
            said,
        };
        told.judge(command)?;
        Ok(told)
    }

    /// How many settings the environment and the file set.
    pub(crate) fn count(&self) -> usize {
        self.said.len()
    }

    /// What the environment and the file say, as flags.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let settings = |said: &&Said| self.settings.find(&said.key).is_some();
        let said = self.said.iter().filter(settings);
        said.filter_map(|said| Some(said.arguments(self.settings.find(&said.key)?)))
            .flatten()
            .collect()
    }

    /// Every setting with its value in force.
    pub(crate) fn effective(&self) -> Vec<Effective> {
        let settings = self.settings.iter();
        settings
            .map(|setting| {
                let flag = self.flags.iter().find(|(key, _)| *key == setting.key);
                let said = self.said.iter().find(|said| said.key == setting.key);
                let (value, origin) = match (flag, said) {
                    (Some((_, values)), _) => (values.join(","), Origin::Flag),
                    (None, Some(said)) => {
                        (said.values.join(","), Origin::Placed(said.place.clone()))
                    }
                    (None, None) => (setting.default_text(), Origin::Default),
                };
                let is_hidden =
                    setting.is_secret && origin == Origin::Flag && !value.starts_with('@');
                Effective {
                    key: setting.key.clone(),
                    value: if is_hidden {
                        String::from("(secret)")
                    } else {
                        value
                    },
                    origin,
                }
            })
            .collect()
    }

    /// Has every value judged by its flag.
    fn judge(&self, command: &Command) -> Result<(), Failure> {
        let mistakes: Vec<_> = self
            .said
            .iter()
            .filter_map(|said| {
                let setting = self.settings.find(&said.key)?;
                judge::mistake_in(command, setting, said)
            })
            .collect();
        match mistakes.is_empty() {
            true => Ok(()),
            false => Err(usage(mistakes)),
        }
    }
}

/// Reads a file of settings.
fn read_file(settings: &Settings, path: &Path) -> Result<Vec<Said>, Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path);
    let text = text.map_err(Failure::io(format!("reading the settings in {shown}")))?;
    settings.read_file(&shown, &text).all().map_err(usage)
}

/// All mistakes, a line each.
pub(crate) fn usage(mistakes: Vec<Mistake>) -> Failure {
    let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    Failure::Usage(lines.join("\nsrtm: "))
}

/// What is given, whether or not it fits together.
fn lenient_matches(command: &Command, given: &[OsString]) -> ArgMatches {
    let line = std::iter::once(OsString::from(command.get_name())).chain(given.to_vec());
    let lenient = command.clone().ignore_errors(true);
    // Only a call for help fails here, and that is answered by whoever reads the flags.
    lenient.try_get_matches_from(line).unwrap_or_default()
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    let known = matches.try_contains_id(id).unwrap_or(false);
    known && matches.value_source(id) == Some(ValueSource::CommandLine)
}
