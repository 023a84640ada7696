//! How the command ends when it does not end well: one exit code for each thing that a caller can act upon.

use std::fmt;
use std::process::ExitCode;

/// The exit codes, as `bulkhead --help` lists them. 0 is success; 2 is also what clap uses for a line that it cannot read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// Nothing of what follows.
    Other,
    /// The command line asks for something that cannot be.
    Usage,
    /// A configuration or policy file is refused.
    Config,
    /// Another process listens on the port.
    PortTaken,
    /// The model is missing, damaged, or could not be fetched.
    Model,
    /// Python or pip is missing, and the model comes through them.
    NoPip,
    /// The window is above what the pool holds, or memory for the pool is not there.
    Capacity,
    /// The engine would not start, or did not stay up.
    Engine,
    /// Another process uses the data folder or the socket.
    Locked,
    /// The database, the keys' pepper or the audit log cannot be used.
    Store,
    /// A bench did not see its own control, and says nothing.
    Void,
    /// An audit found that one tenant learns of another.
    Leak,
    /// `audit verify` found a log that is not what was signed. Its verdicts have numbers of their own.
    Tampered,
    /// `audit verify` found that something of a log is missing.
    Incomplete,
    /// `audit verify` cannot tell.
    Undecided,
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Other | Self::Tampered => 1,
            Self::Usage | Self::Incomplete => 2,
            Self::Config | Self::Undecided => 3,
            Self::PortTaken => 4,
            Self::Model => 5,
            Self::NoPip => 6,
            Self::Capacity => 7,
            Self::Engine => 8,
            Self::Locked => 9,
            Self::Store => 10,
            Self::Void => 11,
            Self::Leak => 12,
        }
    }

    /// What a child that ended with `code` meant; `None` for a code that is not ours.
    pub(crate) fn from_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code)
    }

    /// Those that a child may end with.
    const ALL: [Self; 12] = [
        Self::Other,
        Self::Usage,
        Self::Config,
        Self::PortTaken,
        Self::Model,
        Self::NoPip,
        Self::Capacity,
        Self::Engine,
        Self::Locked,
        Self::Store,
        Self::Void,
        Self::Leak,
    ];
}

/// Why the command failed: what was wrong, the number asked, the number allowed, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    /// A failure that ends the process with `exit`.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }

    /// The exit code.
    #[cfg(test)]
    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        Self::from(failure.exit.code())
    }
}

/// Gives an error of a library its exit code, and says what was being done.
pub(crate) trait Doing<T> {
    /// `doing` reads as in "cannot {doing}: {error}".
    fn doing(self, exit: Exit, doing: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, exit: Exit, doing: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, format_args!("cannot {doing}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_read_back() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(i32::from(exit.code())), Some(exit));
        }
        assert_eq!(Exit::from_code(0), None);
        assert_eq!(Exit::from_code(101), None);
    }
}
