//! What a reviewer of tenant safety must read, counted: the trusted core, the step loop, the device border, the gateway's
//! egress.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test crate: to fail is its work"
)]

use std::path::{Path, PathBuf};

/// Lines of code at most, without blank lines, comments and tests (DESIGN, section 2).
const LINES_MAX: usize = 3_000;

/// The rooms to read, in order. A folder stands for its own files; tests lie in folders beneath.
const ROOMS: [(&str, &[&str]); 4] = [
    ("the trusted core", &["isolation/src"]),
    (
        "the step loop",
        &[
            "engine/src/core/stepping.rs",
            "engine/src/core/sequence.rs",
            "engine/src/core/prefixes.rs",
            "engine/src/core/fuse.rs",
        ],
    ),
    ("the device border", &["engine/src/device/mod.rs", "engine/kernels/src/label.rs"]),
    ("the gateway's egress", &["gateway/src/link/group.rs", "gateway/src/flow/mod.rs"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(path: &str) -> Vec<PathBuf> {
    let path = root().join(path);
    if path.is_file() {
        return vec![path];
    }
    let entries = std::fs::read_dir(&path).expect("the room is there");
    // `testing.rs` is compiled for tests alone, and so is all of `fault.rs` but what makes `seeded` the constant `false`.
    let is_code = |path: &PathBuf| {
        let is_for_tests = path.ends_with("testing.rs") || path.ends_with("fault.rs");
        path.extension().is_some_and(|end| end == "rs") && !is_for_tests
    };
    entries.map(|entry| entry.unwrap().path()).filter(is_code).collect()
}

/// Lines that are neither blank nor comments, up to the tests.
fn code_lines(text: &str) -> usize {
    let lines = text.lines().map(str::trim).take_while(|line| *line != "mod tests {");
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[test]
fn a_reviewer_of_tenant_safety_reads_less_than_three_thousand_lines() {
    let mut total = 0;
    for (room, paths) in ROOMS {
        let lines: usize = paths
            .iter()
            .flat_map(|path| files(path))
            .map(|file| code_lines(&std::fs::read_to_string(file).expect("the file is text")))
            .sum();
        assert!(lines > 100, "{room}: {lines} lines; the count looks at the wrong place");
        println!("{room}: {lines} lines of code");
        total += lines;
    }
    println!("together: {total} of {LINES_MAX}");
    assert!(total < LINES_MAX, "{total} lines to read, {LINES_MAX} are allowed");
}

#[test]
fn comments_blank_lines_and_tests_do_not_count() {
    let text = "//! doc\n\nuse a;\n  // why\nfn f() {}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n";
    assert_eq!(code_lines(text), 3);
}
