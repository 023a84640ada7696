//! What a witness knows of each log, kept so that no crash makes it forget what it has cosigned.
//!
//! ```text
//! lock        held by the one process that cosigns
//! watched     names of the logs that have a state: one whose state is gone is not begun again
//! NAME        the last checkpoint that was cosigned of a log, as the log signed it; NAME is the SHA-256 of the log's
//! ```

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use signed_note::{Note, Verifier as _, VerifierList};
use tlog_tiles::{Checkpoint, EMPTY_HASH};

use super::fault::{Fault, seeded};
use super::{LOGS_MAX, WitnessError};
use crate::checkpoint::{self, CHECKPOINT_BYTES_MAX, TreeHead};
use crate::disk::{Folder, replace};
use crate::error::AuditError;
use crate::hex::Hex;
use crate::layout::read_bounded;
use crate::sign::NoteKey;

/// Names of logs that have a state.
const WATCHED: &str = "watched";
/// Bytes of that file at most: of each a name of 128 bytes and the line's end.
const WATCHED_BYTES_MAX: usize = LOGS_MAX * 129;

/// How a file is put in the place of another, on the medium.
pub(crate) type Replace = Box<dyn Fn(&Path, &[u8]) -> io::Result<()> + Send + Sync>;

/// The folder, claimed.
pub(crate) struct States {
    path: PathBuf,
    replace: Replace,
    _lock: Folder,
}

impl States {
    pub(crate) fn claim(path: &Path) -> Result<Self, WitnessError> {
        let lock = Folder::claim(path).map_err(|error| match error {
            AuditError::Locked => WitnessError::Locked,
            AuditError::Disk(error) => WitnessError::Disk(error),
            AuditError::Broken(_)
            | AuditError::Full { .. }
            | AuditError::TooManyTenants
            | AuditError::Ended
            | AuditError::Unwritable => WitnessError::Disk(io::Error::other(error)),
        })?;
        Ok(Self { path: path.to_owned(), replace: Box::new(replace), _lock: lock })
    }

    /// Writes otherwise from now on: for tests of disks that fail.
    #[cfg(test)]
    pub(crate) fn replace_by(&mut self, replace: Replace) {
        self.replace = replace;
    }

    /// What is known of each of these logs. Of one that is new nothing is, and that is kept too.
    pub(crate) fn read(&self, logs: &[NoteKey]) -> Result<Vec<TreeHead>, WitnessError> {
        let mut watched = self.watched()?;
        let before = watched.clone();
        let mut heads = Vec::new();
        for log in logs {
            heads.push(self.read_one(log, &watched)?);
            watched.insert(log.name().to_owned());
        }
        if watched.len() > LOGS_MAX {
            return Err(WitnessError::Logs { asked: watched.len() });
        }
        if watched != before {
            let lines: String = watched.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
            (self.replace)(&self.path.join(WATCHED), lines.as_bytes()).map_err(WitnessError::Disk)?;
        }
        Ok(heads)
    }

    fn watched(&self) -> Result<BTreeSet<String>, WitnessError> {
        let unreadable = || WitnessError::State { file: WATCHED.to_owned() };
        let bytes = match read_bounded(&self.path.join(WATCHED), WATCHED_BYTES_MAX) {
            Ok(bytes) => bytes.ok_or_else(unreadable)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(WitnessError::Disk(error)),
        };
        let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(unreadable());
        }
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn read_one(&self, log: &NoteKey, watched: &BTreeSet<String>) -> Result<TreeHead, WitnessError> {
        let (file, empty) = (file_name(log.name()), TreeHead { size: 0, root: EMPTY_HASH });
        let unreadable = || WitnessError::State { file: file.clone() };
        let bytes = match read_bounded(&self.path.join(&file), CHECKPOINT_BYTES_MAX) {
            Ok(bytes) => bytes.ok_or_else(unreadable)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if watched.contains(log.name()) && !seeded(Fault::StateMissed) {
                    return Err(WitnessError::Missing { log: log.name().to_owned(), file });
                }
                let bytes = nothing(log.name()).ok_or_else(unreadable)?;
                (self.replace)(&self.path.join(&file), &bytes).map_err(WitnessError::Disk)?;
                return Ok(empty);
            }
            Err(error) => return Err(WitnessError::Disk(error)),
        };
        if nothing(log.name()).is_some_and(|nothing| nothing == bytes) {
            return Ok(empty);
        }
        match checkpoint::open(&bytes, log) {
            Ok(head) => Ok(head),
            Err(_) if seeded(Fault::StateForgotten) => Ok(empty),
            Err(_) => Err(unreadable()),
        }
    }

    /// Puts a checkpoint of this log in the place of the last one, on the medium. Of its signatures only the log's own is kept.
    pub(crate) fn write(&self, log: &NoteKey, note: &Note) -> io::Result<()> {
        let unfit = |_| io::Error::from(io::ErrorKind::InvalidData);
        let (own, _) = note.verify(&VerifierList::new(vec![Box::new(log.clone())])).map_err(unfit)?;
        let note = Note::new(note.text(), &own).map_err(unfit)?;
        (self.replace)(&self.path.join(file_name(log.name())), &note.to_bytes())
    }
}

/// What is kept of a log of which nothing was cosigned: a tree without leaves, by nobody.
fn nothing(name: &str) -> Option<Vec<u8>> {
    Checkpoint::new(name, 0, EMPTY_HASH, "").ok().map(|checkpoint| checkpoint.to_bytes())
}

/// A name has letters that a file's name may not have.
pub(crate) fn file_name(log: &str) -> String {
    let mut name = [0; 32];
    name.copy_from_slice(digest(&SHA256, log.as_bytes()).as_ref());
    Hex(name).to_string()
}
