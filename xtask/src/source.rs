//! The files that rules look at: what git would commit, and which part of a file is test code.

use std::path::Path;
use std::process::Command;

/// Extensions of the text files that are read; other files count by name only.
const TEXT_EXTENSIONS: &[&str] = &[
    "rs", "toml", "md", "py", "go", "mod", "sh", "yaml", "yml", "json", "jsonl", "ini", "txt", "ts",
];

/// One file of the tree.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path from the top folder, with `/`.
    pub path: String,
    /// Content; empty for files that are no text of ours.
    pub text: String,
}

impl Source {
    /// Builds one; tests use it with made-up paths.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Source {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Whether this is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code: `tests.rs`, `tests/`, `benches/`, `examples/`, `fuzz/`.
    pub fn is_test_file(&self) -> bool {
        self.path
            .split('/')
            .any(|part| matches!(part, "tests.rs" | "tests" | "benches" | "examples" | "fuzz"))
    }

    /// Numbered lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// Numbered lines up to a `#[cfg(test)] mod` with a body, which is the tail of its file in this house.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.test_tail_line().unwrap_or(usize::MAX);
        self.lines().take_while(move |(number, _)| *number < end)
    }

    fn test_tail_line(&self) -> Option<usize> {
        let lines: Vec<(usize, &str)> = self.lines().collect();
        lines.windows(2).find_map(|pair| {
            let is_tail = pair[0].1.trim() == "#[cfg(test)]"
                && pair[1].1.trim_start().starts_with("mod ")
                && pair[1].1.trim_end().ends_with('{');
            is_tail.then_some(pair[0].0)
        })
    }
}

/// A line of Rust without its comment; a `//` inside a string cuts too, which loses nothing that a rule needs.
pub fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Every file that git tracks or would add, in the order of their paths.
///
/// # Errors
/// A sentence for people: git is missing, this is no repository, a file cannot be read.
pub fn of_repository() -> Result<Vec<Source>, String> {
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let top = Path::new(top.trim_end());
    std::env::set_current_dir(top).map_err(|e| format!("cannot enter {}: {e}", top.display()))?;
    let listed = git(&[
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ])?;
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| Path::new(path).is_file())
        .map(read)
        .collect()
}

fn read(path: &str) -> Result<Source, String> {
    let extension = Path::new(path).extension().and_then(|e| e.to_str());
    let is_text = extension.is_none_or(|e| TEXT_EXTENSIONS.contains(&e));
    if !is_text {
        return Ok(Source::new(path, ""));
    }
    let bytes = std::fs::read(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    // A file without extension may be anything; what is no UTF-8 is no text of ours.
    let text = String::from_utf8(bytes).unwrap_or_default();
    Ok(Source::new(path, text))
}

fn git(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").args(arguments).output();
    let output = output.map_err(|e| format!("cannot run git: {e}"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git {}: {}", arguments.join(" "), reason.trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("git {}: {e}", arguments.join(" ")))
}
