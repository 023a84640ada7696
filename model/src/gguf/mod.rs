//! The header of a GGUF file: metadata and the places of its tensors, with every length, offset and count checked.
//!
//! A model file is input: it may come from anywhere. Nothing in it can make this module panic, overflow, recurse
//! without bound or hold more than [`HELD_BYTES_MAX`].
//!
//! Architecture invariant: interprets no key but `general.alignment`; reads no tensor data.

mod source;
mod tensor;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::io::Read;

use source::Source;
pub use tensor::{DIMS_MAX, TENSOR_NAME_BYTES_MAX, TENSORS_MAX, TensorInfo, TensorKind};
pub use value::{ARRAY_DEPTH_MAX, ARRAY_LEN_MAX, Array, STRING_BYTES_MAX, Value};

/// Most metadata entries a file may have. Files in use have 20 to 60.
pub const METADATA_MAX: u64 = 4_096;
/// Longest metadata key in bytes (the format allows 65,535; keys in use have under 60).
pub const KEY_BYTES_MAX: u64 = 1_024;
/// Most bytes of memory that one header may come to hold. A vocabulary of 262,144 tokens needs about 40 MiB.
pub const HELD_BYTES_MAX: u64 = 160 * 1024 * 1024;
/// Largest alignment of tensor data, in bytes. The format's default is 32.
pub const ALIGNMENT_MAX: u64 = 65_536;

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const ALIGNMENT_DEFAULT: u64 = 32;

/// The header of a GGUF file, versions 2 and 3: all metadata, and where each tensor lies.
///
/// # Invariants
/// Each tensor lies wholly inside the file, past the header, aligned, and overlaps no other; names and keys are unique.
#[derive(Debug)]
pub struct Gguf {
    version: u32,
    metadata: BTreeMap<String, Value>,
    tensors: Vec<TensorInfo>,
}

/// Why a header was refused. Each says what the file claims and what would be allowed.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file could not be read.
    #[error("the model file cannot be read: {0}")]
    Read(#[source] std::io::Error),
    /// The file does not start with `GGUF`.
    #[error("not a GGUF file")]
    NotGguf,
    /// A version that we do not read; 1 and big-endian files are among them.
    #[error("GGUF version {version} is not supported; 2 and 3 are")]
    Version {
        /// What the file says.
        version: u32,
    },
    /// The header claims more bytes than the file has.
    #[error("the file ends inside its header: {wanted} bytes wanted at {at}, the file has {length}")]
    Truncated {
        /// Position in the file.
        at: u64,
        /// Bytes wanted there.
        wanted: u64,
        /// Length of the file.
        length: u64,
    },
    /// A count or length above its bound.
    #[error("{what}: {claimed} is above the bound of {bound}")]
    TooMany {
        /// What was counted.
        what: &'static str,
        /// What the file says.
        claimed: u64,
        /// The most we accept.
        bound: u64,
    },
    /// A string that is not UTF-8.
    #[error("a string at {at} is not UTF-8")]
    NotUtf8 {
        /// Position in the file.
        at: u64,
    },
    /// A value type number that the format does not have, or a boolean that is neither 0 nor 1.
    #[error("a value at {at} has no meaning: {number}")]
    Meaningless {
        /// Position in the file.
        at: u64,
        /// What the file says there.
        number: u32,
    },
    /// Two entries with the same key, or two tensors with the same name.
    #[error("{name:?} appears twice")]
    Duplicate {
        /// The key or the tensor's name.
        name: String,
    },
    /// An alignment that is not a power of two within [`ALIGNMENT_MAX`].
    #[error("alignment {claimed} is not a power of two of at most {ALIGNMENT_MAX}")]
    Alignment {
        /// What the file says.
        claimed: u64,
    },
    /// A tensor whose number format we cannot compute with.
    #[error(
        "tensor {name:?} has type {number}, which is not supported (F32, F16, Q4_0, Q4_1, Q8_0, Q4_K, Q6_K are)"
    )]
    TensorKind {
        /// The tensor.
        name: String,
        /// Its ggml type number.
        number: u32,
    },
    /// A tensor with a dimension of 0, a row that is no whole number of blocks, or too many elements to count.
    #[error("tensor {name:?} has dimensions that no memory can hold or no block divides")]
    TensorDims {
        /// The tensor.
        name: String,
    },
    /// A tensor that is not aligned, overlaps another, or lies beyond the end of the file.
    #[error(
        "tensor {name:?} at {offset} is misaligned, overlaps another or lies beyond the file's {length} bytes"
    )]
    TensorPlace {
        /// The tensor.
        name: String,
        /// Its offset from the start of the tensor data.
        offset: u64,
        /// Length of the file.
        length: u64,
    },
    /// A key that we need is not there.
    #[error("the file has no {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A key that we need has another type than it should.
    #[error("{key} has the wrong type")]
    WrongType {
        /// The key.
        key: &'static str,
    },
}

impl Gguf {
    /// Reads the header of a file that is `file_len` bytes long. Reads no tensor data.
    ///
    /// # Errors
    /// [`GgufError`] for whatever is wrong with the file; it holds at most [`HELD_BYTES_MAX`] by then.
    pub fn parse(reader: &mut impl Read, file_len: u64) -> Result<Gguf, GgufError> {
        let mut source = Source::new(reader, file_len, HELD_BYTES_MAX);
        if file_len < 4 || source.array::<4>()? != MAGIC {
            return Err(GgufError::NotGguf);
        }
        let version = source.u32()?;
        if !(2..=3).contains(&version) {
            return Err(GgufError::Version { version });
        }
        let tensor_count = source.count("tensors", TENSORS_MAX)?;
        let entries = source.count("metadata entries", METADATA_MAX)?;
        let mut metadata = BTreeMap::new();
        for _ in 0..entries {
            let key = source.string("bytes of a metadata key", KEY_BYTES_MAX)?;
            let value = Value::read(&mut source)?;
            if metadata.contains_key(&key) {
                return Err(GgufError::Duplicate { name: key });
            }
            metadata.insert(key, value);
        }
        let mut gguf = Gguf { version, metadata, tensors: Vec::new() };
        let alignment = gguf.alignment()?;
        gguf.tensors = tensor::read_all(&mut source, tensor_count, alignment)?;
        Ok(gguf)
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let claimed = self.unsigned(ALIGNMENT_KEY)?.unwrap_or(ALIGNMENT_DEFAULT);
        if !claimed.is_power_of_two() || claimed > ALIGNMENT_MAX {
            return Err(GgufError::Alignment { claimed });
        }
        Ok(claimed)
    }

    /// The format's version: 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// All metadata, by key.
    #[must_use]
    pub fn metadata(&self) -> &BTreeMap<String, Value> {
        &self.metadata
    }

    /// All tensors, in the file's order.
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// The text under `key`, if there is one.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] when something else is there; so for the other typed look-ups below.
    pub fn text(&self, key: &'static str) -> Result<Option<&str>, GgufError> {
        self.typed(key, |value| if let Value::Text(text) = value { Some(text.as_str()) } else { None })
    }

    /// The whole number of at least 0 under `key`, whatever its width in the file.
    ///
    /// # Errors
    /// [`GgufError::WrongType`].
    pub fn unsigned(&self, key: &'static str) -> Result<Option<u64>, GgufError> {
        self.typed(key, Value::as_unsigned)
    }

    /// The 32-bit float under `key`.
    ///
    /// # Errors
    /// [`GgufError::WrongType`].
    pub fn float32(&self, key: &'static str) -> Result<Option<f32>, GgufError> {
        self.typed(key, |value| if let Value::Float32(number) = value { Some(*number) } else { None })
    }

    /// The boolean under `key`.
    ///
    /// # Errors
    /// [`GgufError::WrongType`].
    pub fn flag(&self, key: &'static str) -> Result<Option<bool>, GgufError> {
        self.typed(key, |value| if let Value::Flag(flag) = value { Some(*flag) } else { None })
    }

    /// The array of texts under `key`.
    ///
    /// # Errors
    /// [`GgufError::WrongType`].
    pub fn texts(&self, key: &'static str) -> Result<Option<&[String]>, GgufError> {
        self.typed(key, |value| {
            if let Value::Array(Array::Text(texts)) = value { Some(texts.as_slice()) } else { None }
        })
    }

    /// The array of signed whole numbers under `key`.
    ///
    /// # Errors
    /// [`GgufError::WrongType`].
    pub fn integers(&self, key: &'static str) -> Result<Option<&[i64]>, GgufError> {
        self.typed(key, |value| {
            if let Value::Array(Array::Signed(numbers)) = value { Some(numbers.as_slice()) } else { None }
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &'static str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        match self.metadata.get(key) {
            None => Ok(None),
            Some(value) => pick(value).map(Some).ok_or(GgufError::WrongType { key }),
        }
    }
}
