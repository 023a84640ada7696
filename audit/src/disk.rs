//! The disk, as writer and publisher need it; traits, so that tests can make it fail. After an error, nothing more is asked of it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::AuditError;
use crate::layout::{CHECKPOINT, WAL};
use crate::wal::{list, segment_name};

/// Files that are synced one by one; of more, the whole file system is.
const UNSYNCED_MAX: usize = 64;

/// Where batches go.
pub(crate) trait Wal: Send + 'static {
    /// Begins the segment whose first leaf is `first`.
    fn begin(&mut self, first: u64) -> io::Result<()>;
    /// Puts a batch at the end of the segment.
    fn append(&mut self, batch: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended is on the medium.
    fn sync(&mut self) -> io::Result<()>;
}

/// Where tiles and checkpoints go.
pub(crate) trait Shelf: Send + 'static {
    /// Writes a file; its path is within the log's folder. It is on the medium after [`Shelf::settle`].
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was put is on the medium.
    fn settle(&mut self) -> io::Result<()>;
    /// Puts a checkpoint in the place of the last one, on the medium.
    fn publish(&mut self, checkpoint: &[u8]) -> io::Result<()>;
    /// Removes what is not needed any more: these folders of tiles that are full now, and segments all of whose leaves are before
    /// `size`.
    fn tidy(&mut self, folders: &[String], size: u64) -> io::Result<()>;
}

/// A log's folder, claimed.
#[derive(Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held as long as this lives: one writer a log.
    _lock: Arc<File>,
}

impl Folder {
    /// Takes the lock; makes the folder when there is none.
    pub(crate) fn claim(path: &Path) -> Result<Self, AuditError> {
        if !path.is_dir() {
            make(path)?;
            // A folder that a power cut takes away would be begun anew, under the same key.
            let above = path.parent().filter(|above| !above.as_os_str().is_empty());
            sync_folder(above.unwrap_or(Path::new(".")))?;
        }
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: Arc::new(lock) }),
            Err(fs::TryLockError::WouldBlock) => Err(AuditError::Locked),
            Err(fs::TryLockError::Error(error)) => Err(AuditError::Disk(error)),
        }
    }

    pub(crate) fn wal(&self) -> io::Result<WalFolder> {
        make(&self.path.join(WAL))?;
        sync_folder(&self.path)?;
        Ok(WalFolder { folder: self.clone(), segment: None })
    }

    pub(crate) fn shelf(&self) -> ShelfFolder {
        let (unsynced, folders) = (Vec::new(), BTreeSet::new());
        ShelfFolder { folder: self.clone(), unsynced, folders, is_whole: false }
    }
}

/// The segments of a real file system.
pub(crate) struct WalFolder {
    folder: Folder,
    segment: Option<File>,
}

impl Wal for WalFolder {
    fn begin(&mut self, first: u64) -> io::Result<()> {
        let folder = self.folder.path.join(WAL);
        let path = folder.join(segment_name(first));
        self.segment = Some(OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?);
        sync_folder(&folder)
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.segment.as_mut().ok_or(io::ErrorKind::NotFound)?.write_all(batch)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.segment.as_ref().ok_or(io::ErrorKind::NotFound)?.sync_data()
    }
}

/// The tiles of a real file system.
pub(crate) struct ShelfFolder {
    folder: Folder,
    unsynced: Vec<File>,
    /// Folders that got an entry since the last sync.
    folders: BTreeSet<PathBuf>,
    /// More was written than is synced one by one.
    is_whole: bool,
}

impl Shelf for ShelfFolder {
    fn put(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.path.join(path);
        if let Some(parent) = path.parent() {
            make(parent)?;
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(bytes)?;
        self.is_whole |= self.unsynced.len() >= UNSYNCED_MAX;
        if !self.is_whole {
            self.unsynced.push(file);
            let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.folder.path));
            self.folders.extend(above.map(Path::to_owned));
        }
        Ok(())
    }

    fn settle(&mut self) -> io::Result<()> {
        if core::mem::take(&mut self.is_whole) {
            rustix::fs::syncfs(File::open(&self.folder.path)?)?;
        } else {
            self.unsynced.iter().try_for_each(File::sync_data)?;
            self.folders.iter().try_for_each(|folder| sync_folder(folder))?;
        }
        self.unsynced.clear();
        self.folders.clear();
        Ok(())
    }

    fn publish(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        replace(&self.folder.path.join(CHECKPOINT), checkpoint)
    }

    fn tidy(&mut self, folders: &[String], size: u64) -> io::Result<()> {
        for folder in folders {
            gone(fs::remove_dir_all(self.folder.path.join(folder)))?;
        }
        let segments = list(&self.folder.path).map_err(|_| io::ErrorKind::InvalidData)?;
        for pair in segments.windows(2) {
            let [(_, path), (next, _)] = pair else { continue };
            if *next <= size {
                gone(fs::remove_file(path))?;
            }
        }
        Ok(())
    }
}

/// Puts `bytes` in the place of a file, or leaves it as it is.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// What is not there need not be removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
