//! The slot: one file that holds the last-known-good policy, whole or not at all.
//!
//! ```text
//! # Bulkhead last-known-good policy, written by Bulkhead; do not edit. sha256 <64 hex digits of all that follows>
//! head_bytes_max = 32768
//! ...
//! ```
//!
//! A new one is written beside it, synced, and renamed over it; a crash at any point leaves the old or the
//! new.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::Unusable;
use crate::policy::{FILE_BYTES_MAX, Policy, Version};

const HEADER: &str = "# Bulkhead last-known-good policy, written by Bulkhead; do not edit. sha256 ";

/// The slot in one folder.
#[derive(Debug)]
pub(crate) struct Slot {
    folder: PathBuf,
}

impl Slot {
    pub(crate) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("last-known-good.toml")
    }

    /// What the slot holds.
    ///
    /// # Errors
    /// [`Unusable::Unreadable`] with `NotFound` when it was never written; [`Unusable::Corrupt`] when its
    /// digest does not fit.
    pub(crate) fn read(&self) -> Result<Policy, Unusable> {
        let text = read_bounded(&self.path())?;
        let (header, body) = text.split_once('\n').ok_or(Unusable::Corrupt)?;
        let digest = header.strip_prefix(HEADER).ok_or(Unusable::Corrupt)?;
        if digest != Version::of(body).to_string() {
            return Err(Unusable::Corrupt);
        }
        Policy::parse(body)
    }

    /// Makes `policy` the last-known-good, durably.
    ///
    /// # Errors
    /// As the file system reports; the slot then still holds what it held.
    pub(crate) fn write(&self, policy: &Policy) -> io::Result<()> {
        let body = policy.canonical();
        let text = format!("{HEADER}{}\n{body}", Version::of(&body));
        // One writer at a time, so that two processes never share the temporary file. The lock goes with the
        // file.
        let lock = File::create(self.folder.join("policy.lock"))?;
        lock.lock()?;
        let temporary = self.folder.join("last-known-good.toml.new");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, self.path())?;
        File::open(&self.folder)?.sync_all()
    }
}

/// Reads a policy file, and never more than [`FILE_BYTES_MAX`] bytes of it.
pub(crate) fn read_bounded(path: &Path) -> Result<String, Unusable> {
    // Asked before opening: to open a pipe would wait for its writer.
    if !fs::metadata(path).map_err(Unusable::Unreadable)?.is_file() {
        return Err(Unusable::NotAFile);
    }
    let file = File::open(path).map_err(Unusable::Unreadable)?;
    let mut bytes = Vec::new();
    let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(Unusable::Unreadable)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Unusable::FileTooLong);
    }
    String::from_utf8(bytes).map_err(|error| Unusable::NotText { at: error.utf8_error().valid_up_to() })
}
