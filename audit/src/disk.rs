//! The disk, as the writer needs it; a trait, so that tests can make it fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::chain::segment_name;
use crate::error::AuditError;
use crate::head::Head;
use crate::line::Link;

/// Where lines go. After an error, nothing more is asked of it.
pub(crate) trait Disk: Send + 'static {
    /// Begins the segment whose first record is `first`.
    fn begin(&mut self, first: u64) -> io::Result<()>;
    /// Puts whole lines at the end of the segment.
    fn append(&mut self, lines: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended is on the medium.
    fn sync(&mut self) -> io::Result<()>;
    /// Notes that everything up to `last` is on the medium.
    fn mark(&mut self, last: Link) -> io::Result<()>;
}

/// A folder of a real file system.
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as this lives: one writer a log.
    _lock: File,
    /// None until [`Folder::settle`]: a head file that is missing must be told from one that is new.
    head: Option<Head>,
    segment: Option<File>,
}

impl Folder {
    /// Takes the lock; makes the folder when there is none.
    pub(crate) fn claim(path: &Path) -> Result<Self, AuditError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(AuditError::Disk)?;
        let lock = open(&path.join("lock")).map_err(AuditError::Disk)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(AuditError::Locked),
            Err(fs::TryLockError::Error(error)) => return Err(AuditError::Disk(error)),
        }
        Ok(Self { path: path.to_owned(), _lock: lock, head: None, segment: None })
    }

    /// Cuts the last segment to `whole_bytes`, and goes on in it.
    pub(crate) fn resume(&mut self, segment: &Path, whole_bytes: u64) -> io::Result<()> {
        let file = open(segment)?;
        file.set_len(whole_bytes)?;
        file.sync_all()?;
        drop(file);
        self.segment = Some(OpenOptions::new().append(true).open(segment)?);
        Ok(())
    }

    /// Makes the head say `last`, on disk.
    pub(crate) fn settle(&mut self, last: Link) -> io::Result<()> {
        let mut head = Head::open(&self.path)?;
        head.settle(last)?;
        self.head = Some(head);
        self.sync_folder()
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

impl Disk for Folder {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        let path = self.path.join(segment_name(first));
        self.segment = Some(OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?);
        self.sync_folder()
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.segment.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(lines)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.segment.as_ref().ok_or(io::ErrorKind::NotFound)?.sync_data()
    }

    fn mark(&mut self, last: Link) -> io::Result<()> {
        self.head.as_mut().ok_or(io::ErrorKind::NotFound)?.write(last)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}
