//! Crates may only depend downwards: the table here is the whole truth about which crate may know which.
//!
//! It reads what cargo itself says of every manifest, so that renames, targets and dev-dependencies count too.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test crate: to fail is its work"
)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each crate of the workspace, and the crates of ours that it may depend on.
const ARROWS: [(&str, &[&str]); 12] = [
    (
        "bulkhead",
        &[
            "gateway",
            "admin",
            "engine",
            "tenant",
            "policies",
            "audit",
            "model",
            "wire",
            "isolation",
            "kernels",
            "integration",
        ],
    ),
    ("integration", &[]),
    ("gateway", &["tenant", "policies", "audit", "model", "wire", "isolation"]),
    ("admin", &["tenant"]),
    ("engine", &["isolation", "wire", "model", "kernels"]),
    ("tenant", &["policies", "isolation"]),
    ("audit", &["isolation"]),
    ("policies", &["isolation"]),
    ("wire", &["isolation"]),
    ("model", &[]),
    ("kernels", &[]),
    ("isolation", &[]),
];

/// A dependency that the table does not allow, or a crate that is not in it.
#[derive(Debug, Eq, PartialEq)]
enum Fault {
    Upward { from: String, to: String },
    Unknown { package: String },
    NotBare { package: String, dependency: String },
}

fn metadata(manifest: &Path) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("cargo metadata has no text for {key}"))
}

fn judge(metadata: &Value) -> Vec<Fault> {
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    let ours: Vec<&str> = packages.iter().map(|package| text(package, "name")).collect();
    let mut faults = vec![];
    for package in packages {
        let name = text(package, "name");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            faults.push(Fault::Unknown { package: name.to_owned() });
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("a package lists its dependencies") {
            let to = text(dependency, "name");
            if ours.contains(&to) && !allowed.contains(&to) {
                faults.push(Fault::Upward { from: name.to_owned(), to: to.to_owned() });
            }
            // The trusted core stands alone; only its tests may lean on a library.
            if name == "isolation" && dependency["kind"] != "dev" {
                faults.push(Fault::NotBare { package: name.to_owned(), dependency: to.to_owned() });
            }
        }
    }
    faults
}

#[test]
fn every_arrow_points_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let metadata = metadata(&root);
    assert_eq!(judge(&metadata), []);
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), ARROWS.len(), "a row of the table names a crate that is gone");
}

/// A workspace of two crates, where `lower` has the dependency section `section`.
fn seeded(lower: &str, upper: &str, section: &str) -> Vec<Fault> {
    let folder = tempfile::tempdir().unwrap();
    let manifest = |name: &str, rest: &str| {
        let place = folder.path().join(name);
        std::fs::create_dir_all(place.join("src")).unwrap();
        std::fs::write(place.join("src/lib.rs"), "").unwrap();
        let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        std::fs::write(place.join("Cargo.toml"), head + rest).unwrap();
    };
    manifest(lower, section);
    manifest(upper, "");
    let root = folder.path().join("Cargo.toml");
    std::fs::write(&root, format!("[workspace]\nresolver = \"3\"\nmembers = [\"{lower}\", \"{upper}\"]\n"))
        .unwrap();
    judge(&metadata(&root))
}

#[test]
fn an_upward_arrow_is_caught_in_every_form() {
    let sections = [
        "[dependencies]\ngateway = { path = \"../gateway\" }\n",
        "[dependencies]\nedge = { package = \"gateway\", path = \"../gateway\" }\n",
        "[dev-dependencies]\ngateway = { path = \"../gateway\" }\n",
        "[build-dependencies]\ngateway = { path = \"../gateway\" }\n",
        "[target.'cfg(unix)'.dependencies]\ngateway = { path = \"../gateway\" }\n",
    ];
    for section in sections {
        let expected = [Fault::Upward { from: "wire".to_owned(), to: "gateway".to_owned() }];
        assert_eq!(seeded("wire", "gateway", section), expected, "{section}");
    }
}

#[test]
fn a_downward_arrow_is_allowed_and_a_stranger_is_not() {
    let section = "[dependencies]\nwire = { path = \"../wire\" }\n";
    assert_eq!(seeded("gateway", "wire", section), []);
    assert_eq!(seeded("gateway", "shortcut", ""), [Fault::Unknown { package: "shortcut".to_owned() }]);
}

#[test]
fn the_trusted_core_has_no_dependency() {
    let section = "[dependencies]\nwire = { path = \"../wire\" }\n";
    let faults = seeded("isolation", "wire", section);
    assert!(faults.iter().any(|fault| matches!(fault, Fault::NotBare { .. })), "{faults:?}");
}
