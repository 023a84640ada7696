//! What a gateway tells the count that all share, and what it is answered.

use super::rule::Scope;
use crate::store::TenantId;

/// What one scope was charged since the last report of the same gateway.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// Whose scope it is.
    pub tenant: TenantId,
    /// What is counted together.
    pub scope: Scope,
    /// Grows with each report of this gateway: one that comes twice counts once.
    pub sequence: u64,
    /// Requests per minute.
    pub requests: Rate,
    /// Tokens per minute.
    pub tokens: Rate,
    /// Requests in flight at this gateway.
    pub places: u32,
}

/// One rate of a [`Report`]. A unit is 1/60,000 of a request or token.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// The limit, which is the units that run out each millisecond; 0 where there is none.
    pub per_minute: u32,
    /// What the gateway believes the shared count to hold, in units: where that has lost all, it begins with this.
    pub believed: u64,
    /// Units charged, less what was given back of the same charges; at most 2^52.
    pub charged: u64,
    /// Units given back of charges of earlier reports. No more of it counts than was used at any time since the last of
    /// those.
    pub given: u64,
}

/// How the shared count stands after a [`Report`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Requests per minute.
    pub requests: Stand,
    /// Tokens per minute.
    pub tokens: Stand,
    /// Requests in flight at other gateways.
    pub others: u32,
}

/// How one rate of the shared count stands, in units.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stand {
    /// What is used.
    pub level: u64,
    /// The least that was used since the report of the same gateway before this one, up to this one.
    pub lowest: u64,
    /// The least that was used since this report was counted: what is used, unless it comes once more.
    pub since: u64,
}
