//! The table of the fault corpus in `docs/incidents.md` and the tests that it names stay together.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test crate: to fail is its work"
)]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Kinds of fault in the corpus.
const ROWS: usize = 78;

/// Where tests of the corpus may stand.
const PLACES: [&str; 4] =
    ["engine/tests/corpus", "engine/tests/stamp", "gateway/tests", "integration/system"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources() -> String {
    let mut all = String::new();
    for place in PLACES {
        for entry in std::fs::read_dir(root().join(place)).expect("the folder is there") {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") {
                all.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    all
}

/// The words of a text that could be names of functions.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

struct Row {
    id: String,
    guard: String,
    test: String,
    control: String,
}

fn rows(page: &str) -> Vec<Row> {
    let cells = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells.as_slice() {
            [_, id, _, guard, test, control, _]
                if id.len() == 3 && id.starts_with(|c: char| ('A'..='M').contains(&c)) =>
            {
                let [id, guard, test, control] = [id, guard, test, control].map(|cell| (*cell).to_owned());
                Some(Row { id, guard, test, control })
            }
            _ => None,
        }
    });
    cells.collect()
}

#[test]
fn each_row_names_a_test_that_exists_or_the_type_that_will_rule_it_out() {
    let page = std::fs::read_to_string(root().join("docs/incidents.md")).unwrap();
    let (rows, sources) = (rows(&page), sources());
    let known: BTreeSet<&str> = names(&sources).collect();
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((rows.len(), ids.len()), (ROWS, ROWS), "each row once");
    for Row { id, guard, test, control } in &rows {
        if test == "-" {
            assert!(guard.starts_with("open: ") && control == "-", "{id}: no test, and not open");
            continue;
        }
        assert!(!guard.starts_with("open") && !control.is_empty() && control != "-", "{id}: no control");
        for name in names(test).filter(|name| name.contains('_')) {
            assert!(known.contains(name), "{id}: no test {name}");
        }
    }
}

#[test]
fn each_test_of_the_corpus_is_in_the_table() {
    let page = std::fs::read_to_string(root().join("docs/incidents.md")).unwrap();
    let told: BTreeSet<&str> = names(&page).collect();
    let sources = sources();
    let tests: BTreeSet<&str> = names(&sources).filter(|name| name.starts_with("fault_")).collect();
    assert!(tests.len() > 50, "only {} tests seen: the search is blind", tests.len());
    for test in tests {
        assert!(told.contains(test), "{test} is not in docs/incidents.md");
    }
}
