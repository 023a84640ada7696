//! What is in a models folder, and whether it is what it should be.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::{Phase, PullError, PullProgress};
use crate::catalog::{Entry, find};

/// Most entries of a models folder that are looked at.
pub const LIST_MAX: usize = 4_096;

const BLOCK_BYTES: usize = 1024 * 1024;

/// A model file in the models folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The file's name without `.gguf`.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// The catalog's entry of that name.
    pub entry: Option<&'static Entry>,
}

impl Installed {
    /// True when the catalog knows the model and says another length.
    #[must_use]
    pub fn has_wrong_size(&self) -> bool {
        self.entry.is_some_and(|entry| entry.bytes != self.bytes)
    }
}

/// What a file is, compared with what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The model, bit for bit.
    Right,
    /// Something else, or only a part of it.
    Wrong,
    /// There is no such file.
    Absent,
}

/// The model files in a folder, by name; none when there is no folder.
///
/// # Errors
/// [`PullError::Io`].
pub fn list(models_dir: &Path) -> Result<Vec<Installed>, PullError> {
    let entries = match fs::read_dir(models_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(PullError::io("list the models folder")(error)),
    };
    let mut models = Vec::new();
    for entry in entries.take(LIST_MAX) {
        let path = entry.map_err(PullError::io("list the models folder"))?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let (Some(name), true) = (name, path.extension().is_some_and(|extension| extension == "gguf")) else {
            continue;
        };
        let metadata = fs::metadata(&path).map_err(PullError::io("look at a model file"))?;
        if metadata.is_file() {
            let name = name.to_owned();
            models.push(Installed { entry: find(&name), bytes: metadata.len(), name, path });
        }
    }
    models.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(models)
}

/// Compares a file's length, and then its SHA-256, with the catalog's.
///
/// # Errors
/// [`PullError::Io`] when it is there and cannot be read.
pub fn verify(
    entry: &Entry,
    path: &Path,
    progress: &mut dyn FnMut(PullProgress),
) -> Result<Verdict, PullError> {
    let reading = PullError::io;
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Verdict::Absent),
        Err(error) => return Err(reading("look at the model file")(error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() != entry.bytes => return Ok(Verdict::Wrong),
        Ok(_) => {}
    }
    let file = File::open(path).map_err(reading("open the model file"))?;
    let mut file = file.take(entry.bytes.saturating_add(1));
    let mut context = Context::new(&SHA256);
    let mut block = vec![0; BLOCK_BYTES];
    let mut done = 0_u64;
    loop {
        let read = file.read(&mut block).map_err(reading("read the model file"))?;
        let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        context.update(bytes);
        done = done.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        progress(PullProgress { phase: Phase::Verify, done, total: entry.bytes });
    }
    let is_right = done == entry.bytes && context.finish().as_ref() == entry.sha256;
    Ok(if is_right { Verdict::Right } else { Verdict::Wrong })
}
