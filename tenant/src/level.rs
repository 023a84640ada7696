//! Where a limit or a budget stands, and what it is for.

use core::fmt;
use std::sync::Arc;

use uuid::Uuid;

use crate::key::KeyId;
use crate::store::TenantId;

/// Names a project of a tenant. A UUID v7: ids sort by birth.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProjectId(pub(crate) Uuid);

impl ProjectId {
    /// Reads an id, as it stands in a listing.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// The 16 bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProjectId({self})")
    }
}

/// Whom a limit or a budget binds: one key, all keys of a project, or all projects of a tenant.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// One key.
    Key(KeyId),
    /// A project, over all its keys.
    Project(ProjectId),
    /// A tenant, over all its projects.
    Tenant(TenantId),
}

impl Level {
    /// What errors and listings call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::Project(_) => "project",
            Self::Tenant(_) => "tenant",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(id) => write!(f, "key {id}"),
            Self::Project(id) => write!(f, "project {id}"),
            Self::Tenant(id) => write!(f, "tenant {id}"),
        }
    }
}

/// A model's name, as `/v1/models` lists it: 1 to [`ModelName::BYTES_MAX`] bytes of printable ASCII.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ModelName(Arc<str>);

impl ModelName {
    /// Bytes that a name may have.
    pub const BYTES_MAX: usize = 128;

    /// Checks `text`.
    pub fn new(text: &str) -> Option<Self> {
        let is_name =
            (1..=Self::BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        is_name.then(|| Self(text.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which requests a limit or a budget counts.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Models {
    /// Whatever model they name.
    All,
    /// Those that name this one.
    One(ModelName),
}

impl fmt::Display for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all models"),
            Self::One(model) => write!(f, "model {}", model.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_s_name_is_bounded_and_printable() {
        assert!(ModelName::new("smollm2-135m-instruct").is_some());
        assert!(ModelName::new(&"x".repeat(128)).is_some());
        for bad in ["", " ", "a b", "a\n", "é", &"x".repeat(129)] {
            assert!(ModelName::new(bad).is_none(), "{bad:?}");
        }
    }
}
