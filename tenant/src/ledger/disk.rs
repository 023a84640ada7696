//! The disk, as the writer needs it; a trait, so that tests can make it fail, or do without.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::ledger::error::LedgerError;

/// Where frames go. After an error, nothing more is asked of it.
pub(crate) trait Disk: Send + 'static {
    /// Begins a file that shall take the journal's place; what is appended from here on goes into it.
    fn stage(&mut self) -> io::Result<()>;
    /// Puts whole frames at the end.
    fn append(&mut self, frames: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended is on the medium.
    fn sync(&mut self) -> io::Result<()>;
    /// Makes the file that was begun the journal, at once and on the medium.
    fn promote(&mut self) -> io::Result<()>;
}

const JOURNAL: &str = "journal";
/// Begun and not yet promoted; a crash leaves it, and nobody reads it.
const STAGED: &str = "journal.new";

/// A folder of a real file system, with one journal.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as this lives: one writer a journal.
    _lock: File,
    /// None until a file is staged: opening always writes a checkpoint.
    file: Option<File>,
}

/// What lies in a folder.
pub(crate) enum Found {
    /// No journal.
    Nothing,
    /// A journal's bytes, one more than may be if it is longer.
    Journal(Vec<u8>),
}

impl Folder {
    /// Takes the lock; makes the folder when there is none.
    pub(crate) fn claim(path: &Path) -> Result<Self, LedgerError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(LedgerError::Disk)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(path.join("lock")).map_err(LedgerError::Disk)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock, file: None }),
            Err(fs::TryLockError::WouldBlock) => Err(LedgerError::Locked),
            Err(fs::TryLockError::Error(error)) => Err(LedgerError::Disk(error)),
        }
    }

    /// Reads the journal, and no more than one byte beyond `bytes_max`.
    pub(crate) fn read(&self, bytes_max: usize) -> io::Result<Found> {
        let file = match File::open(self.path.join(JOURNAL)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(Found::Journal(bytes))
    }
}

impl Disk for Folder {
    fn stage(&mut self) -> io::Result<()> {
        let path = self.path.join(STAGED);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        // Made anew, so that no other mode and no link is taken over.
        self.file = Some(OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?);
        Ok(())
    }

    fn append(&mut self, frames: &[u8]) -> io::Result<()> {
        self.file.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(frames)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.sync_data()
    }

    fn promote(&mut self) -> io::Result<()> {
        self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.sync_all()?;
        fs::rename(self.path.join(STAGED), self.path.join(JOURNAL))?;
        File::open(&self.path)?.sync_all()
    }
}
