//! What can be wrong with a policy: the operator's file, the operator's disk.

use core::fmt;
use std::io;

use crate::policy::FILE_BYTES_MAX;

/// Why no policy is in force. All are the operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The candidate may not be used, and there is nothing to fall back to.
    #[error("the policy is refused, and no last-known-good exists: {0}")]
    Refused(#[source] Unusable),
    /// The candidate may not be used, and the slot of the last-known-good is itself broken.
    #[error("the policy is refused ({candidate}), and the last-known-good cannot be used either: {slot}")]
    NothingGood {
        /// What is wrong with the candidate.
        candidate: Unusable,
        /// What is wrong with the slot.
        #[source]
        slot: Unusable,
    },
    /// The folder or the slot in it cannot be written.
    #[error("the policy folder cannot be written: {0}")]
    Folder(#[source] io::Error),
}

/// Why one file is no policy.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// It is a folder, a pipe or a device.
    #[error("is not a regular file")]
    NotAFile,
    /// It is longer than a policy may be.
    #[error("holds more than {FILE_BYTES_MAX} bytes")]
    FileTooLong,
    /// It is not UTF-8.
    #[error("is not UTF-8: byte {at} is wrong")]
    NotText {
        /// Bytes before the wrong one.
        at: usize,
    },
    /// It is not TOML.
    #[error("line {line}: is not TOML: {cause}")]
    NotToml {
        /// Counted from 1.
        line: usize,
        /// The parser's own account.
        #[source]
        cause: Box<toml::de::Error>,
    },
    /// No field has this name.
    #[error("field `{0}` is not known")]
    UnknownField(FieldName),
    /// The field holds something that is no whole number of 0 or more.
    #[error("field `{field}` must be a whole number, not {found}")]
    NotANumber {
        /// Which field.
        field: &'static str,
        /// The TOML type found.
        found: &'static str,
    },
    /// The field holds none of the words that it may.
    #[error("field `{field}` must be {words}")]
    NotAWord {
        /// Which field.
        field: &'static str,
        /// What it may be.
        words: &'static str,
    },
    /// The number lies outside what the field may be set to.
    #[error("field `{field}` is {asked}; it must be at least {floor} and at most {ceiling}")]
    OutOfBounds {
        /// Which field.
        field: &'static str,
        /// The number asked.
        asked: i64,
        /// The least allowed.
        floor: u32,
        /// The most allowed.
        ceiling: u32,
    },
    /// Two fields contradict each other.
    #[error("field `{field}` is {asked}; it must not be above `{other}`, which is {allowed}")]
    Contradiction {
        /// Which field.
        field: &'static str,
        /// The number asked.
        asked: u32,
        /// The field that bounds it.
        other: &'static str,
        /// The most allowed.
        allowed: u32,
    },
    /// The slot's digest does not fit its content: a torn write, or a hand.
    #[error("its digest does not fit its content")]
    Corrupt,
}

/// A name found in a file: at most [`FieldName::CHARS_MAX`] characters, nothing that a terminal obeys.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldName(String);

impl FieldName {
    /// Characters kept of a longer name.
    pub const CHARS_MAX: usize = 64;

    pub(crate) fn new(found: &str) -> Self {
        let printable = |c: char| if c.is_control() { '\u{fffd}' } else { c };
        Self(found.chars().take(Self::CHARS_MAX).map(printable).collect())
    }
}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
