//! Files and variables: what is read, who goes before whom, what is said of mistakes.

use std::collections::BTreeSet;

use settings::{DefaultValue, Setting, Settings, Takes, layered, page, sample};

fn setting(key: &str, takes: Takes, default: &[&str]) -> Setting {
    Setting {
        key: key.to_owned(),
        flag: key.replace('_', "-"),
        variable: Some(format!("SRTM_{}", key.to_uppercase())),
        takes,
        value: String::from("SIZE"),
        is_secret: key.ends_with("_key"),
        default: DefaultValue::Values(default.iter().map(|&value| value.to_owned()).collect()),
        doc: format!("What {key} means."),
    }
}

fn settings() -> Settings {
    Settings::new(vec![
        setting("msg_timeout", Takes::Value, &["1m"]),
        setting("max_msg_size", Takes::Value, &["1048576"]),
        setting("controller", Takes::List, &[]),
        setting("realtime", Takes::Switch, &[]),
        setting("announce_key", Takes::Value, &[]),
    ])
}

fn arguments(text: &str) -> Result<Vec<String>, String> {
    let settings = settings();
    let told = |mistakes: Vec<settings::Mistake>| {
        let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    let all = settings.read_file("srtm.toml", text).all().map_err(told)?;
    let all = all.iter();
    Ok(all
        .flat_map(|said| said.arguments(settings.find(&said.key).expect("known")))
        .collect())
}

#[test]
fn values_become_flags() {
    for (text, expected) in [
        ("", &[][..]),
        ("# nothing\n", &[]),
        ("max_msg_size = 1_000", &["--max-msg-size=1000"]),
        ("max_msg_size = 0x10", &["--max-msg-size=16"]),
        ("max_msg_size = \"2MiB\"", &["--max-msg-size=2MiB"]),
        ("msg_timeout = '90s'", &["--msg-timeout=90s"]),
        ("msg_timeout = 1.50", &["--msg-timeout=1.50"]),
        ("controller = \"a:1\"", &["--controller=a:1"]),
        (
            "controller = [\"a:1\", \"b:2\"]",
            &["--controller=a:1", "--controller=b:2"],
        ),
        ("controller = []", &[]),
        ("realtime = true", &["--realtime"]),
        ("realtime = false", &[]),
        (
            "announce_key = \"@/etc/key\"",
            &["--announce-key=@/etc/key"],
        ),
    ] {
        assert_eq!(arguments(text).expect(text), expected, "{text}");
    }
}

#[test]
fn mistakes_name_file_line_and_what_would_be_right() {
    for (text, expected) in [
        (
            "\nmsg_timeot = 1",
            "srtm.toml:2: `msg_timeot` is no setting; did you mean `msg_timeout`?",
        ),
        (
            "msg-timeout = 1",
            "srtm.toml:1: `msg-timeout` is no setting; did you mean `msg_timeout`?",
        ),
        (
            "colour = 1",
            "srtm.toml:1: `colour` is no setting; `srtm config sample` lists them",
        ),
        (
            "[broker]\nmsg_timeout = 1",
            "srtm.toml:1: `broker` is a table; settings stand at the top of the file, without tables",
        ),
        (
            "msg_timeout = [1]",
            "srtm.toml:1: `msg_timeout` takes one value, not a list",
        ),
        (
            "realtime = 1",
            "srtm.toml:1: `realtime` is on or off; use true or false",
        ),
        (
            "controller = [[1]]",
            "srtm.toml:1: `controller` cannot be a list of lists",
        ),
        (
            "announce_key = \"word\"",
            "srtm.toml:1: `announce_key` is a secret; put it into a file of its own and write \"@FILE\"",
        ),
    ] {
        assert_eq!(arguments(text).expect_err(text), expected);
    }
    let two = arguments("x = 1\n\na = 1\n").expect_err("two mistakes");
    let places: Vec<_> = two.lines().map(|line| &line[..11]).collect();
    assert_eq!(places, ["srtm.toml:1", "srtm.toml:3"]);
    let syntax = arguments("msg_timeout = 1\nmax_msg_size = = 2\n").expect_err("no TOML");
    assert!(syntax.starts_with("srtm.toml:2: "), "{syntax}");
    let twice = arguments("realtime = true\nrealtime = true\n").expect_err("twice");
    assert!(twice.starts_with("srtm.toml:2: "), "{twice}");
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let settings = settings();
    let environment = settings.read_environment(|name| match name {
        "SRTM_MSG_TIMEOUT" => Some(String::from("2s")),
        "SRTM_CONTROLLER" => Some(String::from("c:1, d:1,")),
        "SRTM_MAX_MSG_SIZE" => Some(String::new()),
        _ => None,
    });
    let file = "msg_timeout = '3s'\ncontroller = ['e:1']\nmax_msg_size = 7\nrealtime = true\n";
    let file = settings.read_file("f", file).all().expect("good");
    let given = BTreeSet::from([String::from("realtime")]);
    let counting = layered(&given, environment.expect("good"), file);
    let told: Vec<_> = counting
        .iter()
        .map(|said| format!("{}={} {}", said.key, said.values.join("+"), said.place))
        .collect();
    assert_eq!(
        told,
        [
            "msg_timeout=2s SRTM_MSG_TIMEOUT in the environment",
            "controller=c:1+d:1 SRTM_CONTROLLER in the environment",
            "max_msg_size=7 f:3",
        ]
    );
    let bad = settings.read_environment(|name| match name {
        "SRTM_REALTIME" => Some(String::from("yes")),
        "SRTM_ANNOUNCE_KEY" => Some(String::from("word")),
        _ => None,
    });
    let told: Vec<_> = bad
        .expect_err("bad")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(told[0].starts_with("SRTM_REALTIME in the environment: `realtime` is on or off"));
    assert!(told[1].contains("is a secret") && !told[1].contains("word"));
}

#[test]
fn a_sample_sets_nothing_and_each_of_its_lines_is_right_as_an_example() {
    let text = sample(&settings());
    assert_eq!(arguments(&text).expect("comments"), [""; 0]);
    let said = "#msg_timeout = \"1m\"\n";
    assert!(
        text.contains(&format!("# What msg_timeout means.\n{said}")),
        "{text}"
    );
    let examples = text.lines().filter_map(|line| {
        let example = line.strip_prefix('#')?;
        (!example.starts_with(' ')).then_some(example)
    });
    let examples: Vec<_> = examples.filter(|line| !line.contains("_key")).collect();
    assert_eq!(examples.len(), 4);
    assert_eq!(arguments(&examples.join("\n")).expect("good").len(), 3);
}

#[test]
fn a_page_has_a_row_per_setting() {
    let table = page(&settings());
    assert_eq!(table.lines().count(), 2 + 5);
    assert!(table.contains("| `controller` | list of `SIZE` | none | What controller means. |"));
    assert!(table.contains("| `realtime` | `true`, `false` | false |"));
}
