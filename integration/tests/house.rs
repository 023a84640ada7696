//! What every file of the repository keeps to, as tests: size, and nothing of the machine it was written on.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test crate: to fail is its work"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a Rust file at most (STYLE: one concern a file).
const RUST_LINES_MAX: usize = 400;

/// Text that names a machine, a mirror or a private registry. Split, so that this file does not hold it.
const FOREIGN: [[&str; 2]; 10] = [
    ["/wo", "rk/"],
    ["/ro", "ot/"],
    ["/ho", "me/"],
    ["/Us", "ers/"],
    ["/fa", "rm/"],
    ["/tm", "p/"],
    ["index", "-url"],
    ["replace", "-with"],
    ["art", "ifactory"],
    ["dev", "pi"],
];

/// The one source that `Cargo.lock` may name.
const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files that are committed or would be: what git knows, and what it does not ignore.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names are UTF-8");
    let files: Vec<PathBuf> =
        names.split_terminator('\0').map(PathBuf::from).filter(|file| root().join(file).is_file()).collect();
    assert!(files.len() > 30, "only {} files seen: the test looks at the wrong place", files.len());
    files
}

/// The text of a file; `None` for one that is not text.
fn text(file: &Path) -> Option<String> {
    String::from_utf8(std::fs::read(root().join(file)).expect("a listed file can be read")).ok()
}

fn foreign_in(text: &str) -> Vec<String> {
    FOREIGN.iter().map(|parts| parts.concat()).filter(|needle| text.contains(needle)).collect()
}

#[test]
fn no_rust_file_is_too_long() {
    let long: Vec<String> = files()
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "rs"))
        .filter_map(|file| {
            let lines = text(file)?.lines().count();
            (lines > RUST_LINES_MAX).then(|| format!("{}: {lines} lines", file.display()))
        })
        .collect();
    assert!(long.is_empty(), "over {RUST_LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn no_file_names_a_machine_or_a_private_registry() {
    let mut found = vec![];
    for file in files() {
        let Some(text) = text(&file) else { continue };
        found.extend(foreign_in(&text).into_iter().map(|needle| format!("{}: {needle}", file.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(foreign_in(&["see /ro", "ot/x"].concat()).len(), 1, "the search finds nothing");
}

#[test]
fn every_crate_comes_from_the_public_index() {
    let lock = text(Path::new("Cargo.lock")).expect("Cargo.lock is text");
    let sources: Vec<&str> = lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert!(!sources.is_empty());
    for source in sources {
        assert_eq!(source, format!("\"{PUBLIC_INDEX}\""));
    }
}

#[test]
fn ci_runs_the_one_test_command() {
    let run = text(Path::new(".ci/run")).expect(".ci/run is text");
    assert!(run.lines().any(|line| line.starts_with("exec ./check")), "{run}");
}

/// The relative links of a Markdown text.
fn links_of(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|target| target.split('#').next().unwrap_or_default()).filter(|t| is_relative(t)).collect()
}

fn is_relative(target: &str) -> bool {
    !target.is_empty() && !target.contains("://") && !target.contains(' ')
}

#[test]
fn every_link_of_the_docs_leads_somewhere() {
    let mut broken = vec![];
    let mut seen = 0;
    for file in files().iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        let text = text(file).expect("a page is text");
        let folder = root().join(file.parent().expect("a file has a folder"));
        for link in links_of(&text) {
            seen += 1;
            if !folder.join(link).exists() {
                broken.push(format!("{}: {link}", file.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(seen > 5, "only {seen} links seen: the search is blind");
}
