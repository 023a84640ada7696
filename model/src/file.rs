//! An open model file: its header, positioned reads of its tensors, its digest. Never mapped (decision 0001).
//!
//! Architecture invariant: holds no tensor; what it reads belongs to the caller.

use std::fs::File;
use std::io::{BufReader, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::gguf::{Gguf, GgufError, TensorInfo};

/// Bytes read at a time for the digest.
const DIGEST_BLOCK_BYTES: usize = 1024 * 1024;

/// A model file, open, with its header read and checked.
///
/// All reads go through the one handle opened here, so a file renamed over the path later changes nothing.
#[derive(Debug)]
pub struct ModelFile {
    file: File,
    length: u64,
    header: Gguf,
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be opened.
    #[error("the model file cannot be opened: {0}")]
    Open(#[source] std::io::Error),
    /// A folder, a pipe or a device.
    #[error("the model is not a regular file")]
    NotAFile,
    /// The header was refused.
    #[error(transparent)]
    Header(#[from] GgufError),
    /// The file has become shorter than it was when it was opened.
    #[error("the model file ended before byte {end}; it was cut short after it was opened")]
    Shrunk {
        /// Where the read would have ended.
        end: u64,
    },
    /// A read failed.
    #[error("the model file cannot be read: {0}")]
    Read(#[source] std::io::Error),
    /// The tensor's length does not fit this machine's memory addresses, or its place is not inside this file.
    #[error("a tensor of {bytes} bytes at {offset} does not lie in this file")]
    NotInFile {
        /// Where it should be.
        offset: u64,
        /// How long it should be.
        bytes: u64,
    },
}

impl ModelFile {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// [`ModelError`]: not there, not a regular file, or a header that [`Gguf::parse`] refuses.
    pub fn open(path: &Path) -> Result<ModelFile, ModelError> {
        // Asked before opening: to open a pipe would wait for its writer.
        if !std::fs::metadata(path).map_err(ModelError::Open)?.is_file() {
            return Err(ModelError::NotAFile);
        }
        let file = File::open(path).map_err(ModelError::Open)?;
        let length = file.metadata().map_err(ModelError::Open)?.len();
        let header = Gguf::parse(&mut BufReader::new(&file), length)?;
        Ok(ModelFile { file, length, header })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Gguf {
        &self.header
    }

    /// Length in bytes when it was opened.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Reads one tensor's bytes, exactly `tensor.bytes` of them, in place of what `into` held.
    ///
    /// # Errors
    /// [`ModelError::NotInFile`] for a tensor of another file, [`ModelError::Shrunk`] or [`ModelError::Read`].
    pub fn tensor(&self, tensor: &TensorInfo, into: &mut Vec<u8>) -> Result<(), ModelError> {
        let outside = ModelError::NotInFile { offset: tensor.offset, bytes: tensor.bytes };
        let end = tensor.offset.checked_add(tensor.bytes);
        if end.is_none_or(|end| end > self.length) {
            return Err(outside);
        }
        let Ok(bytes) = usize::try_from(tensor.bytes) else {
            return Err(outside);
        };
        into.resize(bytes, 0);
        self.read_exact_at(into, tensor.offset)
    }

    /// SHA-256 of the whole file. `progress` is told the bytes done so far, after each MiB.
    ///
    /// # Errors
    /// [`ModelError::Shrunk`] or [`ModelError::Read`].
    pub fn digest(&self, progress: &mut dyn FnMut(u64)) -> Result<[u8; 32], ModelError> {
        let mut context = Context::new(&SHA256);
        let mut block = vec![0; DIGEST_BLOCK_BYTES];
        let mut at = 0_u64;
        while at < self.length {
            let left = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
            block.truncate(left);
            self.read_exact_at(&mut block, at)?;
            context.update(&block);
            at = at.saturating_add(u64::try_from(block.len()).unwrap_or(u64::MAX));
            progress(at);
        }
        let mut digest = [0; 32];
        for (into, from) in digest.iter_mut().zip(context.finish().as_ref()) {
            *into = *from;
        }
        Ok(digest)
    }

    fn read_exact_at(&self, into: &mut [u8], offset: u64) -> Result<(), ModelError> {
        self.file.read_exact_at(into, offset).map_err(|error| {
            if error.kind() == ErrorKind::UnexpectedEof {
                let bytes = u64::try_from(into.len()).unwrap_or(u64::MAX);
                ModelError::Shrunk { end: offset.saturating_add(bytes) }
            } else {
                ModelError::Read(error)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Writer;

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn sample() -> Vec<u8> {
        Writer::new().tensor("a", &[16], 0, 32).tensor("b", &[8], 0, 0).data(96).bytes()
    }

    #[test]
    fn tensors_are_read_by_their_place() {
        let bytes = sample();
        let data = bytes.len() - 96;
        let on_disk = written(&bytes);
        let file = ModelFile::open(on_disk.path()).unwrap();
        let mut into = vec![9; 1_000];
        file.tensor(file.header().tensor("a").unwrap(), &mut into).unwrap();
        assert_eq!(into, &bytes[data + 32..data + 96]);
        file.tensor(file.header().tensor("b").unwrap(), &mut into).unwrap();
        assert_eq!(into, &bytes[data..data + 32]);
    }

    #[test]
    fn a_tensor_of_another_file_is_refused() {
        let on_disk = written(&sample());
        let file = ModelFile::open(on_disk.path()).unwrap();
        let mut foreign = file.header().tensors()[0].clone();
        for (offset, bytes) in [(file.length(), 1), (u64::MAX, 2), (0, u64::MAX)] {
            (foreign.offset, foreign.bytes) = (offset, bytes);
            assert!(matches!(file.tensor(&foreign, &mut Vec::new()), Err(ModelError::NotInFile { .. })));
        }
    }

    #[test]
    fn a_file_cut_short_after_opening_is_an_error_and_no_crash() {
        let on_disk = written(&sample());
        let file = ModelFile::open(on_disk.path()).unwrap();
        on_disk.as_file().set_len(file.length() - 1).unwrap();
        let tensor = file.header().tensor("a").unwrap();
        assert!(matches!(file.tensor(tensor, &mut Vec::new()), Err(ModelError::Shrunk { .. })));
        assert!(matches!(file.digest(&mut |_| ()), Err(ModelError::Shrunk { .. })));
    }

    #[test]
    fn the_digest_is_that_of_all_bytes() {
        let bytes = Writer::new().tensor("a", &[640, 1024], 0, 0).data(640 * 4096).bytes();
        let on_disk = written(&bytes);
        let file = ModelFile::open(on_disk.path()).unwrap();
        let mut seen = Vec::new();
        let digest = file.digest(&mut |done| seen.push(done)).unwrap();
        assert_eq!(digest, ring::digest::digest(&SHA256, &bytes).as_ref());
        assert_eq!(seen.last(), Some(&(bytes.len() as u64)));
        assert_eq!(seen.len(), bytes.len().div_ceil(DIGEST_BLOCK_BYTES));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(ModelFile::open(folder.path()), Err(ModelError::NotAFile)));
        assert!(matches!(ModelFile::open(&folder.path().join("absent")), Err(ModelError::Open(_))));
        assert!(matches!(ModelFile::open(Path::new("/dev/zero")), Err(ModelError::NotAFile)));
    }
}
