//! Each rule with what breaks it and what keeps it.

use super::check;
use crate::source::Source;

/// Rule, path, a text that breaks the rule, the line of the finding, a text at the same path that keeps it.
const ROWS: &[(&str, &str, &str, usize, &str)] = &[
    (
        "pure-crate",
        "crates/limit/src/a.rs",
        "//! A.\nuse tokio::time;\n",
        2,
        "//! A; knows no tokio.\n// tokio\nfn tokio_like() {}\n",
    ),
    (
        "pure-crate",
        "crates/wire/src/a/b.rs",
        "//! A.\nlet t = Instant::now();\n",
        2,
        "//! A.\nlet t = now;\n",
    ),
    (
        "pure-crate",
        "crates/clock/src/a.rs",
        "//! A.\nuse std::net::TcpStream;\n",
        2,
        "//! A.\nuse std::num::NonZero;\n",
    ),
    (
        "pure-crate",
        "crates/kernel/src/a.rs",
        "//! A.\n\nstd::thread::spawn(f);\n",
        3,
        "//! A.\n\nspawn(f);\n",
    ),
    (
        "pure-crate",
        "crates/placement/src/a.rs",
        "//! A.\nunsafe { libc::getpid() };\n",
        2,
        "//! A.\ngetpid();\n",
    ),
    (
        "pure-crate",
        "crates/workload/src/a.rs",
        "//! A.\nstd::fs::read(p);\n",
        2,
        "//! A.\nread(p);\n",
    ),
    (
        "pure-crate",
        "crates/control/src/core/a.rs",
        "//! A.\nuse tokio::sync::oneshot;\n",
        2,
        "//! A.\nuse link::Hello;\n",
    ),
    (
        "unsafe",
        "crates/broker/src/reactor/a.rs",
        "//! A.\n#![allow(unsafe_code)]\n",
        2,
        "//! A.\n#![allow(unused)]\n",
    ),
    (
        "unsafe",
        "crates/wire/src/a.rs",
        "//! A.\n#[expect(unsafe_code)]\nfn f() {}\n",
        2,
        "//! A; needs no `unsafe_code`.\nfn f() {}\n",
    ),
    (
        "environment",
        "crates/broker/src/a.rs",
        "//! A.\nlet v = std::env::var(\"X\");\n",
        2,
        "//! A.\nlet v = env!(\"CARGO_PKG_VERSION\");\n",
    ),
    (
        "environment",
        "crates/bench/src/a.rs",
        "//! A.\nenv::args();\n",
        2,
        "//! A.\n#[cfg(test)]\nmod tests {\n    use std::env;\n}\n",
    ),
    (
        "leftover",
        "crates/srtm/src/a.rs",
        "//! A.\n// TODO: later\n",
        2,
        "//! A.\n// mastodon, TODOS\n",
    ),
    (
        "leftover",
        "crates/srtm/src/a.rs",
        "//! A.\ntodo!()\n",
        2,
        "//! A.\nlet todo = 1;\n",
    ),
    (
        "leftover",
        "docs/a.md",
        "# A\n\nFIXME\n",
        3,
        "# A\n\nfixed\n",
    ),
    (
        "leftover",
        "tests/clients/a.py",
        "x = 1  # XXX\n",
        1,
        "x = \"XXXL\"\n",
    ),
    (
        "leftover",
        "crates/srtm/src/a.rs",
        "//! A.\ndbg!(x);\n",
        2,
        "//! A.\nmy_dbg!(x);\n",
    ),
    (
        "machine-path",
        "Makefile",
        "run:\n\tcat /home/me/x\n",
        2,
        "run:\n\tcat docs/home/x\n",
    ),
    (
        "machine-path",
        "docs/a.md",
        "see /root/x\n",
        1,
        "see target/root/x\n",
    ),
    (
        "machine-path",
        ".ci/run",
        "cd /mnt/main\n",
        1,
        "cd net/mnt/main\n",
    ),
    ("name", "crates/srtm/src/utils.rs", "//! A.\n", 1, ""),
    ("name", "crates/srtm/src/helpers/a.rs", "//! A.\n", 1, ""),
    ("name", "crates/srtm/src/queue_v2.rs", "//! A.\n", 1, ""),
    ("name", "tests/clients/common.py", "", 1, ""),
    ("name", "docs/limits_old.md", "", 1, ""),
    (
        "name",
        "crates/srtm/src/a.rs",
        "//! A.\npub(crate) mod util {\n}\n",
        2,
        "//! A.\nmod utilisation;\n",
    ),
    ("trailing-space", "docs/a.md", "# A\nb \n", 2, "# A\nb\n"),
    (
        "tab",
        "crates/srtm/src/a.rs",
        "//! A.\n\tf();\n",
        2,
        "//! A.\n    f(\"\\t\");\n",
    ),
    (
        "module-doc",
        "crates/srtm/src/a.rs",
        "// A.\nfn f() {}\n",
        1,
        "//! A.\nfn f() {}\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# News\n\n## 0.1.0 (unreleased)\n",
        1,
        "# Changelog\n\n## 0.1.0 (unreleased)\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# Changelog\n\n## 0.1 (soon)\n",
        3,
        "# Changelog\n\n## 0.1.0 (2031-02-03)\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# Changelog\n\n",
        1,
        "# Changelog\n\n## 0.1.0 (unreleased)\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# Changelog\n## 0.1.0 (unreleased)\n### Fixed\n- a\n### Added\n- b\n",
        5,
        "# Changelog\n## 0.1.0 (unreleased)\n### Added\n- b\n### Fixed\n- a\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# Changelog\n## 0.1.0 (unreleased)\n### Removed\n- a\n",
        3,
        "# Changelog\n## 0.2.0 (unreleased)\n### Changed\n- a\n## 0.1.0 (2031-02-03)\n### Added\n- a\n",
    ),
    (
        "changelog",
        "CHANGELOG.md",
        "# Changelog\n## 0.1.0 (unreleased)\n### Added\n\n### Fixed\n- a\n",
        3,
        "# Changelog\n## 0.1.0 (unreleased)\n### Added\n\n- a\n",
    ),
];

/// A tree that keeps every rule, with `changed` put in or replaced.
fn tree_with(changed: Source) -> Vec<Source> {
    let mut tree = vec![
        Source::new("CHANGELOG.md", "# Changelog\n\n## 0.1.0 (unreleased)\n"),
        Source::new("ARCHITECTURE.md", "| `crates/wire` | bytes | nothing |\n"),
        Source::new("crates/wire/Cargo.toml", "[package]\n"),
    ];
    tree.retain(|source| source.path != changed.path);
    tree.push(changed);
    tree
}

fn rules_and_lines(tree: &[Source]) -> Vec<(&'static str, usize)> {
    check(tree)
        .iter()
        .map(|finding| (finding.rule, finding.line))
        .collect()
}

#[test]
fn every_rule_finds_what_breaks_it_and_nothing_else() {
    for (rule, path, breaking, line, keeping) in ROWS {
        let broken = rules_and_lines(&tree_with(Source::new(*path, *breaking)));
        assert_eq!(broken, [(*rule, *line)], "{path} with {breaking:?}");
        if *rule != "name" || !keeping.is_empty() {
            let kept = rules_and_lines(&tree_with(Source::new(*path, *keeping)));
            assert_eq!(kept, [], "{path} with {keeping:?}");
        }
    }
}

#[test]
fn code_map_and_crates_agree() {
    for (map, expected) in [
        ("| `crates/wire` | bytes | nothing |\n", vec![]),
        ("| `crates/wire/` | bytes | all of them |\n", vec![]),
        ("no rows\n", vec![("code-map", 1)]),
        (
            "| `crates/wire` | a | nothing |\n| `crates/wire` | b | nothing |\n",
            vec![("code-map", 2)],
        ),
        (
            "| `crates/wire` | a | nothing |\n| `crates/gone` | b | nothing |\n",
            vec![("code-map", 2)],
        ),
    ] {
        let tree = tree_with(Source::new("ARCHITECTURE.md", map));
        assert_eq!(rules_and_lines(&tree), expected, "{map:?}");
    }
}

#[test]
fn arrows_and_manifests_agree() {
    let manifest = "[package]\nname = \"limit\"\n[dependencies]\nwire.workspace = true\nserde = \"1\"\n\n[dev-dependencies]\nclock.workspace = true\n";
    for (arrows, advice) in [
        ("`wire`", None),
        ("all of them", None),
        ("all of them but `clock`", None),
        (
            "all of them but `wire`",
            Some("crates/limit depends on wire, which the row excepts"),
        ),
        ("nothing", Some("crates/limit depends on wire:")),
        (
            "`wire`, `clock`",
            Some("crates/limit does not depend on clock;"),
        ),
    ] {
        let map = format!(
            "| `crates/wire` | a | nothing |\n| `crates/clock` | b | nothing |\n| `crates/limit` | c | {arrows} |\n"
        );
        let mut tree = tree_with(Source::new("ARCHITECTURE.md", map));
        tree.push(Source::new("crates/limit/Cargo.toml", manifest));
        tree.push(Source::new("crates/clock/Cargo.toml", "[package]\n"));
        let found = check(&tree);
        let found: Vec<&str> = found.iter().map(|found| found.advice.as_str()).collect();
        assert_eq!(found.len(), advice.iter().len(), "{arrows}: {found:?}");
        if let Some(advice) = advice {
            assert!(found[0].starts_with(advice), "{arrows}: {found:?}");
        }
    }
}

#[test]
fn missing_documents_are_found() {
    assert_eq!(rules_and_lines(&[]), [("code-map", 1), ("changelog", 1)]);
}

#[test]
fn length_counts_no_tests() {
    let long = format!("//! A.\n{}", "fn f() {}\n".repeat(500));
    let at_bound = format!("//! A.\n{}", "fn f() {}\n".repeat(499));
    let with_tests = format!(
        "{at_bound}#[cfg(test)]\nmod tests {{\n{}}}\n",
        "fn f() {}\n".repeat(300)
    );
    for (path, text, expected) in [
        ("crates/srtm/src/a.rs", &long, vec![("length", 501)]),
        ("crates/srtm/src/a.rs", &at_bound, vec![]),
        ("crates/srtm/src/a.rs", &with_tests, vec![]),
        ("crates/srtm/src/a/tests.rs", &long, vec![]),
        ("crates/srtm/tests/a.rs", &long, vec![]),
    ] {
        assert_eq!(
            rules_and_lines(&tree_with(Source::new(path, text.as_str()))),
            expected,
            "{path}"
        );
    }
}

#[test]
fn a_declared_test_module_ends_nothing() {
    let text = "//! A.\n#[cfg(test)]\nmod tests;\nlet v = std::env::var(\"X\");\n";
    let tree = tree_with(Source::new("crates/broker/src/a.rs", text));
    assert_eq!(rules_and_lines(&tree), [("environment", 4)]);
}

#[test]
fn a_finding_says_where_and_what_to_do() {
    let tree = tree_with(Source::new("docs/a.md", "b \n"));
    assert_eq!(
        check(&tree)[0].to_string(),
        "docs/a.md:1: trailing-space: remove the white space at the end of the line"
    );
}
