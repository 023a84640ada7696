//! Which policy is in force, and why.
//!
//! | candidate | last-known-good | in force |
//! |---|---|---|
//! | good | any | the candidate, which becomes the last-known-good |
//! | bad | good | the last-known-good, with what is wrong with the candidate |
//! | bad | none or broken | nothing: an error |
//! | none given | not asked | the shipped policy |
//!
//! A candidate that is named and does not exist is bad, not absent.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{PolicyError, Unusable};
use crate::policy::{Policy, Version};
use crate::slot::{Slot, read_bounded};

/// Loads policies, and remembers the last good one in a folder of its own.
#[derive(Debug)]
pub struct PolicyStore {
    slot: Slot,
}

/// The policy to obey.
#[derive(Debug)]
pub struct InForce {
    /// The limits.
    pub policy: Policy,
    /// Names them by their effect.
    pub version: Version,
    /// Where they come from.
    pub source: Source,
}

/// Where a policy comes from.
#[derive(Debug)]
pub enum Source {
    /// The operator's file.
    File,
    /// The slot, because the operator's file may not be used: a human must act.
    LastKnownGood {
        /// What is wrong with the operator's file.
        why: Unusable,
    },
    /// The policy that Bulkhead ships with: the operator named no file.
    Shipped,
}

impl PolicyStore {
    /// Opens the folder, and makes it when it is absent.
    ///
    /// # Errors
    /// [`PolicyError::Folder`].
    pub fn open(folder: &Path) -> Result<Self, PolicyError> {
        fs::create_dir_all(folder).map_err(PolicyError::Folder)?;
        Ok(Self { slot: Slot::new(PathBuf::from(folder)) })
    }

    /// Chooses the policy by the table above. Call it at start and at every reload.
    ///
    /// # Errors
    /// When nothing good is left, or when a good candidate cannot be made the last-known-good: a policy that
    /// would not survive a cold start is not put in force.
    pub fn load(&self, candidate: Option<&Path>) -> Result<InForce, PolicyError> {
        let Some(path) = candidate else {
            let policy = Policy::shipped().map_err(PolicyError::Refused)?;
            return Ok(in_force(policy, Source::Shipped));
        };
        match read_bounded(path).and_then(|text| Policy::parse(&text)) {
            Ok(policy) => {
                self.slot.write(&policy).map_err(PolicyError::Folder)?;
                Ok(in_force(policy, Source::File))
            }
            Err(why) => self.fall_back(why),
        }
    }

    fn fall_back(&self, why: Unusable) -> Result<InForce, PolicyError> {
        match self.slot.read() {
            Ok(policy) => Ok(in_force(policy, Source::LastKnownGood { why })),
            Err(Unusable::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(PolicyError::Refused(why))
            }
            Err(slot) => Err(PolicyError::NothingGood { candidate: why, slot }),
        }
    }
}

fn in_force(policy: Policy, source: Source) -> InForce {
    InForce { policy, version: policy.version(), source }
}

#[cfg(test)]
mod tests;
