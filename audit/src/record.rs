//! What is recorded. No field can hold text.

use serde::{Deserialize, Serialize};

use crate::alarm::EngineAlarm;
use crate::hex::{Hex, Word};
use crate::request::{Admitted, Ended, Refused};

/// One event.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A gateway started to answer.
    Boot(Boot),
    /// An engine, with what it truly holds, was connected.
    EngineSeen(EngineSeen),
    /// An engine found something wrong with itself.
    Alarm(EngineAlarm),
    /// A sequence was let in; on disk before its first byte goes out.
    Admitted(Admitted),
    /// A sequence that had been let in ended, however it did.
    Ended(Ended),
    /// A request was refused, or left, before any of its sequences was let in.
    Refused(Refused),
    /// The log's own: what every tenant's last leaf was.
    Seal(Seal),
}

impl Record {
    /// Whether it is one of a tenant's records, which are numbered and chained.
    pub(crate) const fn concerns_a_tenant(&self) -> bool {
        match self {
            Self::Admitted(_) | Self::Ended(_) | Self::Refused(_) => true,
            Self::Boot(_) | Self::EngineSeen(_) | Self::Alarm(_) | Self::Seal(_) => false,
        }
    }
}

/// What every tenant's last leaf was. The log appends it itself, at the end of each epoch.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// 1 for the log's first, and one more for each.
    pub epoch: u64,
    /// Tenants that the log has leaves of.
    pub tenants: u64,
    /// RFC 6962's hash over their heads (tenant, number, hash of the leaf), in the order in which they first appeared.
    pub heads: Hex<32>,
}

/// A gateway started to answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// The gateway's version: major, minor, patch.
    pub version: [u16; 3],
    /// SHA-256 of the policy in force.
    pub policy: Hex<32>,
    /// Where it comes from.
    pub source: PolicySource,
}

/// Where a policy comes from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// The operator's file.
    File,
    /// The last-known-good; the operator's file was refused.
    LastKnownGood,
    /// Shipped with the program.
    Shipped,
}

/// What an engine holds, as it said when it was connected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSeen {
    /// SHA-256 of the model file.
    pub model: Hex<32>,
    /// The engine's version: major, minor, patch.
    pub build: [u16; 3],
    /// One life of the engine.
    pub epoch: Word,
    /// The Ed25519 key that its statements are signed by.
    pub boot_key: Hex<32>,
    /// Tokens that a request may span.
    pub window: u32,
    /// Tokens that the measured pool holds.
    pub capacity: u32,
    /// Tokens a page holds.
    pub page_tokens: u32,
}
