//! Flags, the environment and files together; the pages that follow from the flags.

use clap::CommandFactory;
use settings::{DefaultValue, Setting, Takes, page, sample};

use super::*;
use crate::cli::Cli;
use crate::commands::{nsqd, nsqlookupd};

/// A file of its own for one test.
fn file(name: &str, text: &str) -> String {
    let file = format!("srtm-config-{}-{name}.toml", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, text).expect("written");
    path.display().to_string()
}

fn no_variable(_: &str) -> Option<String> {
    None
}

fn completed(line: &str, variable: Variable<'_>) -> Result<Vec<String>, String> {
    let arguments = line.split_whitespace().map(OsString::from).collect();
    let complete = complete(&Cli::command(), arguments, variable);
    let complete = complete.map_err(|error| error.to_string())?;
    let texts = complete.into_iter().map(|text| text.into_string());
    Ok(texts.collect::<Result<_, _>>().expect("UTF-8"))
}

#[test]
fn what_no_flag_says_is_taken_from_the_environment_then_from_the_file() {
    let text = "threads = 3\nmsg_timeout = \"9s\"\nmax_topics = 5\nsnappy = false\nhttp_host = [\"a\", \"b\"]\nrealtime = true\n";
    let path = file("layers", text);
    let variable = |name: &str| match name {
        "SRTM_MSG_TIMEOUT" => Some(String::from("8s")),
        "SRTM_THREADS" => Some(String::from("2")),
        "SRTM_PORT" => Some(String::from("tcp://10.0.0.1:4150")),
        _ => None,
    };
    let line = format!("srtm broker --threads 1 --config {path} --http-host c");
    let all = completed(&line, &variable).expect("good");
    assert_eq!(
        all[2..6],
        [
            "--msg-timeout=8s",
            "--max-topics=5",
            "--realtime",
            "--snappy=false"
        ]
    );
    assert_eq!(
        all[6..],
        ["--threads", "1", "--config", &path, "--http-host", "c"]
    );
    // The file may be named by a variable.
    let by_name = |name: &str| (name == "SRTM_CONFIG").then(|| path.clone());
    let all = completed("srtm broker", &by_name).expect("good");
    assert!(all.contains(&String::from("--http-host=b")), "{all:?}");
    std::fs::remove_file(path).expect("there");
}

#[test]
fn commands_that_are_no_daemons_are_left_alone() {
    let loud = |_: &str| Some(String::from("nonsense"));
    for line in [
        "srtm",
        "srtm --help",
        "srtm topic ls",
        "srtm nsqd -threads=1",
        "srtm pub t",
    ] {
        let same: Vec<_> = line.split_whitespace().collect();
        assert_eq!(completed(line, &loud).expect(line), same);
    }
}

#[test]
fn help_and_wrong_flags_are_answered_as_without_a_file() {
    for line in [
        "srtm broker --help",
        "srtm broker --colour red",
        "srtm broker --threads",
    ] {
        assert_eq!(completed(line, &no_variable).expect(line).join(" "), line);
    }
    let loud = |_: &str| Some(String::from("nonsense"));
    let help = completed("srtm broker --help", &loud).expect("help");
    assert_eq!(help, ["srtm", "broker", "--help"]);
}

#[test]
fn what_a_flag_would_refuse_is_refused_with_its_line() {
    for (number, (daemon, text, expected)) in [
        (
            "broker",
            "\nmsg_timeout = \"fast\"\n",
            ":2: `msg_timeout` cannot be that: \"fast\" is not a duration",
        ),
        (
            "broker",
            "on_overrun = \"forgive\"",
            ":1: `on_overrun` cannot be that: \"forgive\" is none of report, penalise",
        ),
        (
            "broker",
            "threads = 1.5",
            ":1: `threads` cannot be that: invalid digit",
        ),
        (
            "broker",
            "announce_key = \"word\"",
            ":1: `announce_key` is a secret",
        ),
        (
            "broker",
            "stop_with_stdin = true",
            ":1: `stop_with_stdin` is no setting",
        ),
        ("broker", "config = \"x\"", ":1: `config` is no setting"),
        (
            "controller",
            "adaptor = \"maybe\"",
            ":1: `adaptor` cannot be that: \"maybe\" is none of on, off",
        ),
        ("up", "brokers = -1", ":1: `brokers` cannot be that: "),
    ]
    .into_iter()
    .enumerate()
    {
        let path = file(&format!("refused-{number}"), text);
        let error = completed(&format!("srtm {daemon} --config={path}"), &no_variable);
        let error = error.expect_err(text);
        assert!(error.starts_with(&format!("{path}{expected}")), "{error}");
        std::fs::remove_file(path).expect("there");
    }
    let variable = |name: &str| (name == "SRTM_THREADS").then(|| String::from("many"));
    let error = completed("srtm broker", &variable).expect_err("many");
    let said = "SRTM_THREADS in the environment: `threads` cannot be that: ";
    assert!(error.starts_with(said), "{error}");
    let error = completed("srtm broker --config /nowhere/b.toml", &no_variable);
    let error = error.expect_err("no file");
    assert!(
        error.starts_with("reading the settings in /nowhere/b.toml: "),
        "{error}"
    );
}

#[test]
fn every_setting_is_shown_with_its_origin() {
    let path = file(
        "shown",
        "msg_timeout = \"9s\"\nhttp_host = [\"a\", \"b\"]\n",
    );
    let variable = |name: &str| (name == "SRTM_THREADS").then(|| String::from("2"));
    let srtm = Cli::command();
    let command = daemon(&srtm, OsStr::new("broker")).expect("a daemon");
    let given = format!("--config={path} --max-topics=7 --announce-address=:0 --announce-key=word");
    let given: Vec<_> = given.split(' ').map(OsString::from).collect();
    let told = Told::gather(command, &given, &variable).expect("good");
    let all = told.effective();
    let shown = |key: &str| {
        let each = all.iter().find(|each| each.key == key).expect(key);
        format!("{} {}", each.value, each.origin)
    };
    assert_eq!(shown("max_topics"), "7 flag");
    assert_eq!(shown("threads"), "2 SRTM_THREADS in the environment");
    assert_eq!(shown("msg_timeout"), format!("9s {path}:1"));
    assert_eq!(shown("http_host"), format!("a,b {path}:2"));
    assert_eq!(shown("announce_key"), "(secret) flag");
    assert_eq!(shown("max_channels"), "1024 default");
    assert_eq!(shown("realtime"), "false default");
    assert_eq!(shown("data_path"), "nothing is kept default");
    assert_eq!(all.len(), told.settings.iter().count());
    std::fs::remove_file(path).expect("there");
}

/// Daemons whose settings follow from clap's flags.
fn daemons() -> Vec<(String, Settings)> {
    let srtm = Cli::command();
    let daemons = srtm.get_subcommands().filter(|command| is_daemon(command));
    daemons
        .map(|command| (command.get_name().to_owned(), settings_of(command)))
        .collect()
}

#[test]
fn each_setting_has_names_of_its_own_and_says_what_it_means() {
    for (daemon, settings) in daemons() {
        let mut keys = BTreeSet::new();
        for setting in settings.iter() {
            let Setting { key, doc, .. } = setting;
            assert!(keys.insert(key.clone()), "{daemon}: {key} comes twice");
            assert!(
                doc.len() > 10 && doc.ends_with('.'),
                "{daemon}: {key}: {doc}"
            );
            assert!(!doc.contains("[default"), "{daemon}: {key}: {doc}");
        }
        assert!(keys.len() > 10, "{daemon}");
    }
}

#[test]
fn defaults_are_values_that_the_flag_takes() {
    let srtm = Cli::command();
    for (daemon, settings) in daemons() {
        let command = srtm.find_subcommand(&daemon).expect("there");
        for setting in settings
            .iter()
            .filter(|setting| setting.takes != Takes::Switch)
        {
            let DefaultValue::Values(values) = &setting.default else {
                continue;
            };
            let said = Said {
                key: setting.key.clone(),
                values: values.clone(),
                place: settings::Place::Variable(String::from("the default")),
            };
            let mistake = judge::mistake_in(command, setting, &said);
            assert_eq!(mistake, None, "{daemon}: {}", setting.key);
        }
    }
}

#[test]
fn a_sample_is_a_file_that_says_nothing() {
    for (daemon, settings) in daemons() {
        let reading = settings.read_file("sample", &sample(&settings));
        assert_eq!(reading.all(), Ok(Vec::new()), "{daemon}");
    }
}

const SETTINGS_HEAD: &str = "\
# Settings

The settings of SRTM's daemons, as their flags define them; `srtm DAEMON --help` says the same. This page is made from the flags
(`WRITE_SETTINGS=1 cargo test -p srtm pages`).

A key `msg_timeout` is the flag `--msg-timeout`, the variable `SRTM_MSG_TIMEOUT`, and the key of the file that `--config FILE` or
`SRTM_CONFIG` names. A flag goes before a variable, a variable before the file, the file before the default; of a list the one that goes
first counts as a whole. [operating.md](operating.md#configuration) says more, [nsqd-flags.md](nsqd-flags.md) what `srtm nsqd` and `srtm
nsqlookupd` take. `srtm limiter` has a file of its own kind ([limiter.md](limiter.md)).
";

const NSQD_HEAD: &str = "\
# nsqd's flags

What becomes of each flag of nsqd 1.3.0 and nsqlookupd 1.3.0 at `srtm nsqd` and `srtm nsqlookupd`. This page is made from the table that the
command reads (`WRITE_SETTINGS=1 cargo test -p srtm pages`); a test compares it with the flags that nsqd itself lists.

Flags have one dash or two. `--config FILE` reads the original's TOML file, with its keys; flags go before it. A bare number is a duration
in milliseconds there, and keys that are none are passed over with a warning, as the original passes over them silently. `srtm config check
FILE --for nsqd` calls them mistakes. Neither reads variables of the environment.

Flags of [`srtm broker`](settings.md#srtm-broker) that nsqd does not have are flags and keys of `srtm nsqd` as well.
";

#[test]
fn pages_are_those_of_the_flags() {
    let mut all = String::from(SETTINGS_HEAD);
    for (daemon, settings) in daemons() {
        all.push_str(&format!("\n## srtm {daemon}\n\n{}", page(&settings)));
    }
    let nsqd = format!(
        "{NSQD_HEAD}\n## nsqd\n\nThe last ones are of later versions than 1.3.0.\n\n{}\n## nsqlookupd\n\n{}",
        nsqd::flags::TABLE.page(),
        nsqlookupd::TABLE.page()
    );
    for (name, text) in [("settings.md", all), ("nsqd-flags.md", nsqd)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../docs")
            .join(name);
        if std::env::var_os("WRITE_SETTINGS").is_some() {
            std::fs::write(&path, &text).expect("written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == text,
            "docs/{name} is not what the flags say: run WRITE_SETTINGS=1 cargo test -p srtm pages"
        );
    }
}
