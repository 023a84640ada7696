//! Each invariant of `lib.rs` is upheld by code and looked at by a test that cite it.

#![allow(clippy::unwrap_used, reason = "a test that breaks may panic")]

use std::{collections::BTreeSet, fs, path::Path};

/// Texts of all `.rs` files below `folder`.
fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            texts.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    texts
}

/// Numbers that comments of `text` cite: `// I3`, `// I3, I10: why`.
fn cited(text: &str) -> BTreeSet<u32> {
    let comments = text.lines().filter_map(|line| Some(line.split_once("// I")?.1));
    let numbers = comments.flat_map(|rest| {
        let list = rest.split(':').next().unwrap_or_default();
        list.split(", I").filter_map(|number| number.trim().parse().ok()).collect::<Vec<u32>>()
    });
    numbers.collect()
}

#[test]
fn each_invariant_has_code_and_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut stated = BTreeSet::new();
    let (mut code, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for (name, text) in sources(&root.join("src")) {
        if name == "lib.rs" {
            let lines = text.lines().filter_map(|line| line.strip_prefix("//! - **I")?.split("**").next());
            stated.extend(lines.map(|number| number.parse::<u32>().unwrap()));
            continue;
        }
        // A line of an example in a doc is a test.
        let (examples, text): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.trim().starts_with("///"));
        tests.extend(cited(&examples.join("\n")));
        let text = text.join("\n");
        let (production, unit) = text.split_once("#[cfg(test)]").unwrap_or((&text, ""));
        if name == "tests.rs" {
            tests.extend(cited(&text));
        } else {
            code.extend(cited(production));
            tests.extend(cited(unit));
        }
    }
    for (name, text) in sources(&root.join("tests")) {
        if name != "invariants.rs" {
            tests.extend(cited(&text));
        }
    }
    assert_eq!(stated, (1..=13).collect(), "the numbers run without a gap");
    assert_eq!(code, stated, "cited in code, and stated");
    assert_eq!(tests, stated, "cited in tests, and stated");
}
