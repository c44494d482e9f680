//! Command lines and files as nsqd and nsqlookupd read them: the rules of Go's flag package, and TOML with nsqd's names.
//!
//! A [`Table`] says of each flag of the original what becomes of it here. Flags that only SRTM has are not in it: they follow from
//! its own command line.

use std::collections::BTreeSet;
use std::path::Path;

use clap::builder::{ArgAction, Command};
use settings::{DefaultValue, Mistake, Setting, Settings, Takes};

use crate::error::Failure;

/// What becomes of a flag of the original.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// SRTM has the same flag.
    Passed,
    /// SRTM has the same flag, with a difference.
    PassedBut(&'static str),
    /// Handled by the command itself.
    Own,
    /// Accepted without effect, for this reason.
    Ignored(&'static str),
}

/// A flag of the original: its name, whether it is a switch, what becomes of it.
pub(crate) type Flag = (&'static str, bool, Fate);

/// The flags of one of the original's programs.
pub(crate) struct Table {
    /// The program.
    pub(crate) program: &'static str,
    /// Its flags.
    pub(crate) flags: &'static [Flag],
    /// Keys in files that are not the flag's name: key and flag.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Flags that are no keys in files.
    pub(crate) keyless: &'static [&'static str],
    /// Flags of the original alone that may have several values.
    pub(crate) lists: &'static [&'static str],
    /// SRTM's own command line, which has further flags.
    pub(crate) own: fn() -> Command,
}

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To start with so many flags, those of the file that it names behind its own, and what to warn of.
    Start {
        given: Vec<Given>,
        warnings: Vec<String>,
    },
    /// The version.
    Version,
    /// How it is used.
    Help,
}

/// A flag with a value, from the command line or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// The flag.
    pub(crate) name: String,
    /// Its value; of a switch `true` or `false`, or a third word of its own.
    pub(crate) value: String,
}

impl Table {
    /// Reads arguments, and the file that they name.
    pub(crate) fn read(&self, arguments: &[String]) -> Result<Asked, Failure> {
        let Some(mut given) = self.read_line(arguments).map_err(Failure::Usage)? else {
            return Ok(Asked::Help);
        };
        let said = |name| {
            let last = given.iter().rev().find(|given| given.name == name);
            last.map(|given| given.value.as_str())
        };
        if said("version") == Some("true") {
            return Ok(Asked::Version);
        }
        let mut warnings = Vec::new();
        let file = said("config").filter(|path| !path.is_empty());
        if let Some(path) = file {
            let (more, unknown) = self.read_file(Path::new(path), &given)?;
            given.extend(more);
            let passed_over = |key| format!("{key}; it is passed over");
            warnings.extend(unknown.iter().map(passed_over));
        }
        Ok(Asked::Start { given, warnings })
    }

    /// Reads arguments by the rules of Go's flag package: one dash or two, `-name=value` or `-name value`, switches without a
    /// value. What follows the flags is refused where Go would leave it unread. Gives nothing where help is asked for.
    fn read_line(&self, arguments: &[String]) -> Result<Option<Vec<Given>>, String> {
        let own = (self.own)();
        let mut all = Vec::new();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let dashed = argument.strip_prefix("--").or(argument.strip_prefix('-'));
            let Some(flag) = dashed else {
                return Err(format!(
                    "unexpected argument {argument:?}: {} takes flags only",
                    self.program
                ));
            };
            let (name, value) = flag
                .split_once('=')
                .map_or((flag, None), |(name, value)| (name, Some(value)));
            if matches!(name, "h" | "help") {
                return Ok(None);
            }
            let Some(is_switch) = self.is_switch(name, &own) else {
                return Err(format!(
                    "flag provided but not defined: -{name}; {} -help lists the flags",
                    self.program
                ));
            };
            let value = match value {
                Some(value) => value.to_owned(),
                None if is_switch => String::from("true"),
                None => rest
                    .next()
                    .ok_or_else(|| format!("flag needs an argument: -{name}"))?
                    .clone(),
            };
            all.push(self.given(name, is_switch, value)?);
        }
        Ok(Some(all))
    }

    /// Reads a file; what the flags `given` say already is left out. Gives what it says and what is to be warned of: keys that
    /// are none, which the original passes over.
    pub(crate) fn read_file(
        &self,
        path: &Path,
        given: &[Given],
    ) -> Result<(Vec<Given>, Vec<Mistake>), Failure> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path);
        let text = text.map_err(Failure::io(format!("reading the settings in {shown}")))?;
        let own = (self.own)();
        let settings = self.settings();
        let reading = settings.read_file(&shown, &text);
        let mut mistakes = reading.mistakes;
        let names: BTreeSet<&str> = given.iter().map(|given| given.name.as_str()).collect();
        let mut all = Vec::new();
        for said in reading.said {
            let Some(setting) = settings.find(&said.key) else {
                continue;
            };
            let name = setting.flag.as_str();
            if names.contains(name) {
                continue;
            }
            let is_switch = self.is_switch(name, &own) == Some(true);
            for value in said.values {
                match self.given(name, is_switch, as_go_reads(name, value)) {
                    Ok(given) => all.push(given),
                    Err(reason) => mistakes.push(Mistake {
                        place: said.place.clone(),
                        key: said.key.clone(),
                        reason: format!("cannot be that: {reason}"),
                    }),
                }
            }
        }
        match mistakes.is_empty() {
            true => Ok((all, reading.unknown)),
            false => Err(crate::configuration::usage(mistakes)),
        }
    }

    /// The settings that a file may have.
    pub(crate) fn settings(&self) -> Settings {
        let own = (self.own)();
        let theirs = self.flags.iter().map(|(name, ..)| *name);
        let ours = own.get_arguments().filter(|arg| !arg.is_hide_set());
        let ours = ours.filter_map(|arg| arg.get_long());
        let ours = ours.filter(|name| self.fate(name).is_none() && *name != "help");
        let all = theirs
            .filter(|name| !self.keyless.contains(name))
            .chain(ours);
        Settings::new(all.map(|name| self.setting(name, &own)).collect())
    }

    /// What becomes of a flag of the original.
    pub(crate) fn fate(&self, name: &str) -> Option<Fate> {
        let flag = self.flags.iter().find(|(known, ..)| *known == name);
        flag.map(|(_, _, fate)| *fate)
    }

    /// One line per flag, with its fate.
    pub(crate) fn help(&self) -> String {
        let mut text = format!("Usage of {}, as srtm provides it:\n", self.program);
        for (name, is_switch, fate) in self.flags {
            let note = match fate {
                Fate::Passed | Fate::Own => String::new(),
                Fate::PassedBut(but) => format!("   ({but})"),
                Fate::Ignored(reason) => format!("   (ignored: {reason})"),
            };
            let value = if *is_switch { "" } else { " value" };
            text.push_str(&format!("  -{name}{value}{note}\n"));
        }
        text
    }

    /// The same as a table in Markdown.
    #[cfg(test)]
    pub(crate) fn page(&self) -> String {
        let own = (self.own)();
        let mut text = String::from("| flag | key in a file | |\n|---|---|---|\n");
        for (name, _, fate) in self.flags {
            let key = match self.keyless.contains(name) {
                true => String::from("none"),
                false => format!("`{}`", self.setting(name, &own).key),
            };
            let fate = match fate {
                Fate::Passed | Fate::Own => String::from("works"),
                Fate::PassedBut(but) => format!("works, but {but}"),
                Fate::Ignored(reason) => format!("ignored: {reason}"),
            };
            text.push_str(&format!("| `--{name}` | {key} | {fate} |\n"));
        }
        text
    }

    /// What a flag that SRTM has too is on its own command line.
    pub(crate) fn argument(&self, given: &Given) -> Option<String> {
        let Given { name, value } = given;
        let own = (self.own)();
        let ours = own.get_arguments().find(|arg| arg.get_long() == Some(name));
        let is_bare = ours.is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue));
        match is_bare {
            true => (value == "true").then(|| format!("--{name}")),
            false => Some(format!("--{name}={value}")),
        }
    }

    fn setting(&self, name: &str, own: &Command) -> Setting {
        let ours = own.get_arguments().find(|arg| arg.get_long() == Some(name));
        let is_list = ours.is_some_and(|arg| matches!(arg.get_action(), ArgAction::Append));
        let key = self.keys.iter().find(|(_, flag)| *flag == name);
        Setting {
            key: key.map_or_else(|| name.replace('-', "_"), |(key, _)| (*key).to_owned()),
            flag: name.to_owned(),
            variable: None,
            takes: match is_list || self.lists.contains(&name) {
                true => Takes::List,
                false => Takes::Value,
            },
            value: String::from("VALUE"),
            is_secret: false,
            default: DefaultValue::Values(Vec::new()),
            doc: String::new(),
        }
    }

    /// Whether a flag is a switch; `None` where there is no such flag.
    fn is_switch(&self, name: &str, own: &Command) -> Option<bool> {
        let theirs = self.flags.iter().find(|(known, ..)| *known == name);
        if let Some((_, is_switch, _)) = theirs {
            return Some(*is_switch);
        }
        let mut ours = own.get_arguments();
        let ours = ours.find(|arg| arg.get_long() == Some(name) && !arg.is_hide_set())?;
        let may_stand_alone = ours.get_num_args().is_some_and(|n| n.min_values() == 0);
        Some(may_stand_alone || matches!(ours.get_action(), ArgAction::SetTrue))
    }

    fn given(&self, name: &str, is_switch: bool, value: String) -> Result<Given, String> {
        let value = match is_switch {
            true => switch_value(name, value)?,
            false => value,
        };
        Ok(Given {
            name: name.to_owned(),
            value,
        })
    }
}

/// The third word of `-tls-required`.
const TCP_HTTPS: &str = "tcp-https";

/// Go's words for a switch, and nsqd's third one for `-tls-required`.
fn switch_value(name: &str, value: String) -> Result<String, String> {
    match value.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(String::from("true")),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(String::from("false")),
        TCP_HTTPS if name == "tls-required" => Ok(value),
        _ => Err(format!("invalid boolean value {value:?} for -{name}")),
    }
}

/// A bare number is a duration in milliseconds in nsqd's files.
fn as_go_reads(name: &str, value: String) -> String {
    let is_duration = ["-timeout", "-interval", "-window-time", "-lifetime"]
        .iter()
        .any(|ending| name.ends_with(ending));
    match is_duration && value.parse::<u64>().is_ok() {
        true => format!("{value}ms"),
        false => value,
    }
}
