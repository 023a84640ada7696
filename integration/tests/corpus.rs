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
const PLACES: [&str; 7] = [
    "engine/tests/corpus",
    "engine/tests/guards",
    "engine/tests/stamp",
    "gateway/tests",
    "gateway/tests/corpus",
    "integration/system",
    "isolation/src/keyed",
];

/// Where faults are defined, each with the places where tests beside those of [`PLACES`] take its guards away.
const FAULTS: [(&str, &[&str]); 7] = [
    ("isolation/src/fault.rs", &["isolation/tests"]),
    ("engine/src/fault.rs", &["engine/tests/server"]),
    (
        "engine/kernels/src/fault.rs",
        &["engine/kernels/src", "engine/kernels/src/attention", "engine/tests/mixed"],
    ),
    ("gateway/src/fault.rs", &[]),
    ("audit/src/fault.rs", &["audit/src/log", "audit/src/log/tests", "audit/src/verify/tests"]),
    (
        "tenant/src/fault.rs",
        &[
            "tenant/src/ledger/tests",
            "tenant/src/rate/tests",
            "tenant/src/parts/tests",
            "tenant/src/parts/tests/world",
            "tenant/src/store/tests",
            "tenant/src/directory",
            "tenant/src/directory/uses",
        ],
    ),
    ("admin/src/fault.rs", &["admin/tests/api"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources() -> String {
    sources_of(&PLACES)
}

fn sources_of(places: &[&str]) -> String {
    let mut all = String::new();
    for place in places {
        for entry in std::fs::read_dir(root().join(place)).expect("the folder is there") {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("fault.rs") {
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

/// The variants of the enum `name` in a file: lines that are one name, with or without a field.
fn variants(file: &str, name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join(file)).expect("the file is there");
    let body = text.split(&format!("pub enum {name} {{")).nth(1).expect("the enum is there");
    let lines = body.lines().take_while(|line| *line != "}").map(str::trim);
    let found = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    found.filter_map(|line| names(line).next().map(str::to_owned)).collect()
}

#[test]
fn each_seeded_fault_is_taken_away_by_a_test() {
    for (file, more) in FAULTS {
        let sources = [sources(), sources_of(more)].concat();
        let used: BTreeSet<&str> = names(&sources).collect();
        let faults = variants(file, "Fault");
        assert!(faults.len() > 6, "{file}: only {} faults seen: the search is blind", faults.len());
        for fault in &faults {
            assert!(used.contains(fault.as_str()), "{file}: no test takes {fault} away");
        }
    }
}

#[test]
fn each_control_is_a_fault_a_lie_or_a_test_that_exists() {
    let page = std::fs::read_to_string(root().join("docs/incidents.md")).unwrap();
    let sources = sources();
    let tests: BTreeSet<&str> = names(&sources).collect();
    let mut known: BTreeSet<String> = FAULTS.iter().flat_map(|(file, _)| variants(file, "Fault")).collect();
    known.extend(variants("engine/src/device/stamp.rs", "Lie"));
    known.extend(variants("gateway/tests/corpus/desk.rs", "Way"));
    for Row { id, control, .. } in rows(&page) {
        for cell in control.split('`').skip(1).step_by(2) {
            let name = cell.strip_prefix("Lie::").unwrap_or(cell);
            let is_known = known.contains(name) || tests.contains(name) || name == "kernels";
            assert!(is_known, "{id}: no control {cell}");
        }
    }
    // Each test that is a row's has its control beside it.
    let controls = tests.iter().filter(|name| name.starts_with("control_")).count();
    assert!(controls > 70, "only {controls} controls seen");
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
