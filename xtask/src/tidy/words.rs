//! Words that must not occur in a part of the tree: one table, one search.

use crate::finding::Finding;
use crate::source::{Source, without_comment};

/// Folders without clock, input, output, threads or system calls: time and randomness are their arguments.
const PURE_FOLDERS: &[&str] = &[
    "crates/clock/src/",
    "crates/wire/src/",
    "crates/limit/src/",
    "crates/model/src/",
    "crates/statistics/src/",
    "crates/kernel/src/",
    "crates/placement/src/",
    "crates/settings/src/",
    "crates/workload/src/",
    "crates/announce/src/",
    "crates/gossip/src/",
    "crates/access/src/",
    "crates/topics/src/",
    "crates/control/src/core/",
];

/// The only places that may allow themselves `unsafe`, which the workspace's lints forbid elsewhere: system calls, and in
/// tests what counts allocations or is modelled.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/broker/src/sys/",
    "crates/broker/tests/allocations.rs",
    "crates/bench/src/sys.rs",
    "crates/kernel/tests/model/",
    "crates/limiter/src/sys",
    "crates/realtime/src/",
];

/// The thin shells of pure crates: the only files of theirs that may touch a socket.
const SHELLS: &[&str] = &["crates/gossip/src/socket.rs"];

/// Folders whose code may read flags and the environment.
const MAY_READ_ENVIRONMENT: &[&str] = &[
    "crates/srtm/",
    "crates/soak/src/main.rs",
    "xtask/",
    "tests/",
];

/// A word that a part of the tree must do without.
struct WordRule {
    name: &'static str,
    /// Whether the file is in the rule's part of the tree.
    applies: fn(&Source) -> bool,
    /// Which lines count.
    lines: Lines,
    /// A hit is one of these between characters that belong to no name.
    words: &'static [&'static str],
    advice: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Comments too.
    All,
    /// Rust code without comments.
    Code,
    /// Rust code without comments and without the tests at the file's end.
    ProductCode,
}

const RULES: &[WordRule] = &[
    WordRule {
        name: "pure-crate",
        applies: is_in_pure_crate,
        lines: Lines::Code,
        words: &[
            "tokio",
            "libc",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "ToSocketAddrs",
            "std::fs",
            "std::thread",
            "thread::spawn",
            "thread::sleep",
            "Instant::now",
            "SystemTime::now",
            "SystemTime",
            "thread_rng",
        ],
        advice: "this part is pure: take time, randomness and bytes as arguments and leave input and output to its users",
    },
    WordRule {
        name: "unsafe",
        applies: must_be_safe,
        lines: Lines::Code,
        words: &["unsafe_code"],
        advice: "unsafe stands in few places, which xtask names: use a safe wrapper (rustix), or put the system call into one of them",
    },
    WordRule {
        name: "environment",
        applies: must_not_read_environment,
        lines: Lines::ProductCode,
        words: &[
            "std::env",
            "env::var",
            "env::vars",
            "env::args",
            "env::current_dir",
        ],
        advice: "only crates/srtm, xtask and tests read flags and the environment; take the value as an argument",
    },
    WordRule {
        name: "leftover",
        applies: is_outside_xtask,
        lines: Lines::All,
        words: &[
            "TODO",
            "FIXME",
            "XXX",
            "HACK",
            "todo!",
            "unimplemented!",
            "dbg!",
        ],
        advice: "finish it, or say in a sentence what is not done and why",
    },
    WordRule {
        name: "machine-path",
        applies: is_outside_xtask,
        lines: Lines::All,
        words: &["/home/", "/root/", "/mnt/", "/Users/"],
        advice: "a path of one machine: derive it from the repository's top folder or a flag",
    },
];

/// Adds the findings of every word rule in this file.
pub fn check(source: &Source, findings: &mut Vec<Finding>) {
    for rule in RULES.iter().filter(|rule| (rule.applies)(source)) {
        let lines: Vec<(usize, &str)> = match rule.lines {
            Lines::All => source.lines().collect(),
            Lines::Code => source
                .lines()
                .map(|(n, line)| (n, without_comment(line)))
                .collect(),
            Lines::ProductCode => source
                .product_lines()
                .map(|(n, line)| (n, without_comment(line)))
                .collect(),
        };
        for (line, text) in lines {
            if let Some(word) = rule.words.iter().find(|word| contains_word(text, word)) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line,
                    rule: rule.name,
                    advice: format!("`{word}`: {}", rule.advice),
                });
            }
        }
    }
}

/// Whether `word` occurs in `text` and is not part of a longer name.
pub fn contains_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, found)| {
        let before = text[..start].chars().next_back();
        let after = text[start + found.len()..].chars().next();
        // A word that ends in punctuation (`dbg!`, a path's `/`) may be followed by anything.
        let open_end = !word.ends_with(is_name);
        !before.is_some_and(is_name) && (open_end || !after.is_some_and(is_name))
    })
}

fn is_in_pure_crate(source: &Source) -> bool {
    source.is_rust() && !SHELLS.contains(&source.path.as_str()) && is_within(source, PURE_FOLDERS)
}

fn must_be_safe(source: &Source) -> bool {
    source.is_rust() && is_outside_xtask(source) && !is_within(source, MAY_BE_UNSAFE)
}

fn is_within(source: &Source, places: &[&str]) -> bool {
    places.iter().any(|place| source.path.starts_with(place))
}

fn must_not_read_environment(source: &Source) -> bool {
    let is_allowed = is_within(source, MAY_READ_ENVIRONMENT);
    source.is_rust() && !is_allowed && !source.is_test_file()
}

/// The rules name their own words.
fn is_outside_xtask(source: &Source) -> bool {
    !source.path.starts_with("xtask/")
}
