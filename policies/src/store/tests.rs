use std::fs;

use super::*;
use crate::policy::FILE_BYTES_MAX;

struct Bench {
    folder: tempfile::TempDir,
    store: PolicyStore,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = PolicyStore::open(&folder.path().join("policy")).unwrap();
        Self { folder, store }
    }

    fn load(&self, text: impl AsRef<[u8]>) -> Result<InForce, PolicyError> {
        let path = self.folder.path().join("candidate.toml");
        fs::write(&path, text).unwrap();
        self.store.load(Some(&path))
    }

    fn slot(&self) -> PathBuf {
        self.folder.path().join("policy/last-known-good.toml")
    }

    /// As after a cold start: nothing but the folder is left.
    fn restarted(self) -> Self {
        let store = PolicyStore::open(&self.folder.path().join("policy")).unwrap();
        Self { folder: self.folder, store }
    }
}

#[test]
fn without_a_candidate_the_shipped_policy_is_in_force() {
    let bench = Bench::new();
    bench.load("choices_max = 2").unwrap();
    let loaded = bench.store.load(None).unwrap();
    assert!(matches!(loaded.source, Source::Shipped));
    assert_eq!(loaded.policy, Policy::shipped().unwrap());
    assert_eq!(loaded.version, loaded.policy.version());
}

#[test]
fn a_bad_candidate_at_a_first_start_is_refused_and_never_defaulted() {
    let bench = Bench::new();
    let error = bench.load("choices_max = 9").unwrap_err();
    assert!(matches!(error, PolicyError::Refused(Unusable::OutOfBounds { asked: 9, ceiling: 8, .. })));
    assert!(!bench.slot().exists());
}

#[test]
fn a_bad_candidate_leaves_the_last_known_good_in_force_across_a_cold_start() {
    let bench = Bench::new();
    let good = bench.load("choices_max = 2").unwrap();
    assert!(matches!(good.source, Source::File));
    let bench = bench.restarted();
    for bad in ["choices_max = 9", "what = 1", "choices_max", "", "\0"] {
        let loaded = bench.load(bad);
        // An empty file is a good one: it changes nothing of the shipped policy.
        if bad.is_empty() {
            assert!(matches!(loaded.unwrap().source, Source::File));
            bench.load("choices_max = 2").unwrap();
            continue;
        }
        let loaded = loaded.unwrap();
        assert!(matches!(loaded.source, Source::LastKnownGood { .. }), "{bad:?}");
        assert_eq!((loaded.policy, loaded.version), (good.policy, good.version));
    }
}

#[test]
fn a_candidate_that_is_named_and_absent_is_bad() {
    let bench = Bench::new();
    let absent = bench.folder.path().join("absent.toml");
    assert!(matches!(bench.store.load(Some(&absent)), Err(PolicyError::Refused(Unusable::Unreadable(_)))));
    bench.load("choices_max = 2").unwrap();
    let loaded = bench.store.load(Some(&absent)).unwrap();
    assert!(matches!(loaded.source, Source::LastKnownGood { why: Unusable::Unreadable(_) }));
    assert_eq!(loaded.policy.choices_max(), 2);
}

#[test]
fn what_is_no_readable_file_is_bad() {
    let bench = Bench::new();
    assert!(matches!(
        bench.store.load(Some(bench.folder.path())),
        Err(PolicyError::Refused(Unusable::NotAFile))
    ));
    let long = vec![b'#'; FILE_BYTES_MAX + 1];
    assert!(matches!(bench.load(long), Err(PolicyError::Refused(Unusable::FileTooLong))));
    assert!(matches!(bench.load(b"# \xff"), Err(PolicyError::Refused(Unusable::NotText { at: 2 }))));
}

#[test]
fn a_slot_that_is_torn_or_touched_is_refused_whole() {
    let bench = Bench::new();
    bench.load("choices_max = 2").unwrap();
    let whole = fs::read(bench.slot()).unwrap();
    for cut in 0..whole.len() {
        fs::write(bench.slot(), &whole[..cut]).unwrap();
        let error = bench.load("bad").unwrap_err();
        assert!(matches!(error, PolicyError::NothingGood { slot: Unusable::Corrupt, .. }), "cut at {cut}");
    }
    for at in 0..whole.len() {
        let mut touched = whole.clone();
        touched[at] ^= 1;
        fs::write(bench.slot(), &touched).unwrap();
        assert!(matches!(bench.load("bad"), Err(PolicyError::NothingGood { .. })), "flip at {at}");
    }
    // A good candidate heals it.
    bench.load("choices_max = 3").unwrap();
    assert_eq!(bench.load("bad").unwrap().policy.choices_max(), 3);
}

#[test]
fn a_left_over_of_a_crashed_write_does_no_harm() {
    let bench = Bench::new();
    fs::write(bench.folder.path().join("policy/last-known-good.toml.new"), "half").unwrap();
    bench.load("choices_max = 2").unwrap();
    assert_eq!(bench.load("bad").unwrap().policy.choices_max(), 2);
}

#[test]
fn a_good_candidate_that_cannot_be_kept_is_not_put_in_force() {
    let bench = Bench::new();
    // A folder in the slot's place makes the rename fail, whoever runs the test.
    fs::create_dir(bench.slot()).unwrap();
    fs::write(bench.slot().join("in-the-way"), "").unwrap();
    assert!(matches!(bench.load("choices_max = 2"), Err(PolicyError::Folder(_))));
}
