//! Writes a model under a partial name, hashing it on the way; renames it when it is whole and right.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::{Phase, PullError, PullProgress};
use crate::catalog::{Entry, hex};

/// Bytes copied at a time.
const BLOCK_BYTES: usize = 1024 * 1024;

/// A file under way; removed when dropped before it is complete.
pub(super) struct Partial<'e> {
    entry: &'e Entry,
    target: PathBuf,
    path: PathBuf,
    file: File,
}

impl<'e> Partial<'e> {
    /// Starts afresh, in place of what an interrupted pull has left.
    pub(super) fn create(entry: &'e Entry, target: &Path) -> Result<Partial<'e>, PullError> {
        let mut path = target.as_os_str().to_owned();
        path.push(".partial");
        let path = PathBuf::from(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(PullError::io("remove what an earlier pull left")(error));
            }
            Ok(()) | Err(_) => {}
        }
        let file =
            File::create_new(&path).map_err(PullError::writing("create the partial file", entry.bytes))?;
        Ok(Partial { entry, target: target.to_owned(), path, file })
    }

    /// Copies all of `from`, which must be exactly the model, and gives it its name.
    pub(super) fn fill(
        mut self,
        from: &mut dyn Read,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<(), PullError> {
        let expected = self.entry.bytes;
        let mut context = Context::new(&SHA256);
        let mut block = vec![0; BLOCK_BYTES];
        let mut done = 0_u64;
        // One byte more than expected is asked for, so that a longer file shows; nothing beyond is read.
        let mut from = from.take(expected.saturating_add(1));
        loop {
            let read = from.read(&mut block).map_err(PullError::io("read the model"))?;
            let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
            context.update(bytes);
            self.file.write_all(bytes).map_err(PullError::writing("write the model", expected))?;
            done = done.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
            progress(PullProgress { phase: Phase::Write, done, total: expected });
        }
        if done != expected {
            return Err(PullError::WrongSize { bytes: done, expected });
        }
        let digest = context.finish();
        if digest.as_ref() != self.entry.sha256 {
            return Err(PullError::WrongHash {
                digest: hex(digest.as_ref()),
                expected: self.entry.sha256_hex(),
            });
        }
        self.complete()
    }

    fn complete(self) -> Result<(), PullError> {
        self.file.sync_all().map_err(PullError::writing("sync the model to disk", self.entry.bytes))?;
        fs::rename(&self.path, &self.target).map_err(PullError::io("give the model its name"))?;
        // The new name must survive a power cut as well.
        let folder = self.target.parent().unwrap_or(Path::new("."));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(PullError::writing("sync the models folder", self.entry.bytes))
    }
}

impl Drop for Partial<'_> {
    fn drop(&mut self) {
        // After the rename there is nothing of this name. Should removing fail, the next pull removes it, or says why not.
        let _gone_or_next_time = fs::remove_file(&self.path);
    }
}
