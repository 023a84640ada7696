//! Logs in memory, and a witness of one of them.

use std::path::PathBuf;

use tlog_tiles::{Hash, HashReader, prove_tree, stored_hashes, tree_hash};

use super::*;

pub(super) const NOW: SystemTime = UNIX_EPOCH;

/// A log's stored hashes, and its key.
pub(super) struct Log {
    key: LogKey,
    leaves: Vec<Vec<u8>>,
    hashes: Hashes,
}

#[derive(Default)]
struct Hashes(Vec<Hash>);

impl HashReader for Hashes {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        Ok(indexes.iter().map(|index| self.0[*index as usize]).collect())
    }
}

impl Log {
    /// Logs of different `mark` differ from their first leaf on.
    pub(super) fn new(mark: u8, size: u64) -> Self {
        Self::signed_by(log_key(), mark, size)
    }

    pub(super) fn signed_by(key: LogKey, mark: u8, size: u64) -> Self {
        Self::of(key, (0..size).map(|number| vec![mark, (number % 251) as u8]).collect())
    }

    fn of(key: LogKey, leaves: Vec<Vec<u8>>) -> Self {
        let mut hashes = Hashes::default();
        for (number, leaf) in (0..).zip(&leaves) {
            let more = stored_hashes(number, leaf, &hashes).unwrap();
            hashes.0.extend(more);
        }
        Self { key, leaves, hashes }
    }

    /// A log that has its first leaves, and then others.
    pub(super) fn forked_after(&self, size: u64) -> Self {
        let mut leaves = self.leaves.clone();
        leaves.iter_mut().skip(size as usize).for_each(|leaf| leaf.push(1));
        Self::of(log_key(), leaves)
    }

    pub(super) fn head(&self, size: u64) -> TreeHead {
        TreeHead { size, root: tree_hash(size, &self.hashes).unwrap() }
    }

    pub(super) fn checkpoint(&self, size: u64) -> Vec<u8> {
        checkpoint::sign(&self.key, self.head(size)).unwrap()
    }

    /// A checkpoint that lies about its size.
    pub(super) fn signed(&self, size: u64, of: u64) -> Vec<u8> {
        checkpoint::sign(&self.key, TreeHead { size, root: self.head(of).root }).unwrap()
    }

    pub(super) fn proof(&self, old: u64, size: u64) -> Vec<Hash> {
        if old == 0 || old >= size { vec![] } else { prove_tree(size, old, &self.hashes).unwrap() }
    }

    pub(super) fn request(&self, old: u64, size: u64) -> Vec<u8> {
        request::write(old, &self.proof(old, size), &self.checkpoint(size))
    }
}

pub(super) fn log_key() -> LogKey {
    LogKey::from_seed("log.example/1", zeroize::Zeroizing::new([5; 32])).unwrap()
}

pub(super) fn witness_key() -> LogKey {
    LogKey::witness_from_seed("witness.example/1", [6; 32])
}

pub(super) struct Rig {
    pub(super) folder: tempfile::TempDir,
    pub(super) log: Log,
    pub(super) witness: Option<Witness>,
}

impl Rig {
    pub(super) fn new() -> Self {
        let mut rig = Self { folder: tempfile::tempdir().unwrap(), log: Log::new(1, 320), witness: None };
        rig.open().unwrap();
        rig
    }

    /// Begins again with what is on the medium.
    pub(super) fn open(&mut self) -> Result<(), WitnessError> {
        self.witness = None;
        self.witness = Some(Witness::open(self.folder.path(), witness_key(), vec![log_key().public()])?);
        Ok(())
    }

    pub(super) fn witness(&self) -> &LogKey {
        &self.witness.as_ref().unwrap().key
    }

    pub(super) fn add(&self, body: &[u8]) -> Answer {
        self.witness.as_ref().unwrap().add_checkpoint(body, NOW)
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join(super::super::state::file_name("log.example/1"))
    }

    /// The size that the witness says that it knows.
    pub(super) fn known(&self) -> u64 {
        let answer = self.add(&self.log.request(318, 319));
        assert_eq!(answer.status, 409, "{answer:?}");
        answer.body.trim_end().parse().unwrap()
    }
}
