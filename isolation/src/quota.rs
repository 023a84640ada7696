//! How many pages each tenant may hold. Knows no page: it only counts.
//!
//! ```text
//!   0 ......... floor ............. entitled ............. cap
//!   kept free    its share of the    lent: may be taken     never
//!   for it       burst, by weight    back for others
//! ```
//!
//! The *burst* is what no floor reserves. A tenant's share of it is by weight, among those who contend now; who holds more has
//! borrowed what nobody wanted.

use crate::{
    fault::{Fault, seeded},
    tag::TenantTag,
    units::Pages,
};
use alloc::collections::BTreeMap;
use core::num::NonZeroU32;

/// Tenants with a quota of their own at most.
pub const QUOTAS_MAX: usize = 65_536;

/// One tenant's part of a pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quota {
    floor: Pages,
    cap: Pages,
    weight: NonZeroU32,
}

impl Quota {
    /// `floor` pages that no other tenant can hold, at most `cap` in all, and `weight` in the sharing of the burst.
    ///
    /// # Errors
    /// When the floor is above the cap.
    pub fn new(floor: Pages, cap: Pages, weight: NonZeroU32) -> Result<Self, QuotaError> {
        if floor > cap {
            return Err(QuotaError::FloorAboveCap { floor, cap });
        }
        Ok(Self { floor, cap, weight })
    }

    /// No floor, no cap but the pool, and the least weight: what a tenant has of whom nothing was said.
    pub const fn standard() -> Self {
        Self { floor: Pages::ZERO, cap: Pages::new(u32::MAX), weight: NonZeroU32::MIN }
    }

    /// Pages reserved for it.
    pub const fn floor(self) -> Pages {
        self.floor
    }

    /// Pages that it holds at most.
    pub const fn cap(self) -> Pages {
        self.cap
    }

    /// Its part in the sharing of the burst, against the others'.
    pub const fn weight(self) -> NonZeroU32 {
        self.weight
    }
}

/// The quotas of one pool. The floors together are at most the pages that there are.
#[derive(Debug)]
pub(crate) struct Quotas {
    capacity: Pages,
    own: BTreeMap<TenantTag, Quota>,
    /// The sum of all floors as they were given.
    floors: u64,
}

/// Pages held by tenant; none is 0.
pub(crate) type Held = BTreeMap<TenantTag, u32>;

impl Quotas {
    pub(crate) const fn new(capacity: Pages) -> Self {
        Self { capacity, own: BTreeMap::new(), floors: 0 }
    }

    pub(crate) fn of(&self, tag: TenantTag) -> Quota {
        self.own.get(&tag).copied().unwrap_or(const { Quota::standard() })
    }

    /// Gives a tenant another quota. One that it has outgrown takes effect as its pages go.
    pub(crate) fn set(&mut self, tag: TenantTag, quota: Quota) -> Result<(), QuotaError> {
        // I13
        let others = self.floors.saturating_sub(u64::from(self.of(tag).floor.get()));
        let floors = others.saturating_add(u64::from(quota.floor.get()));
        if floors > u64::from(self.capacity.get()) {
            return Err(QuotaError::FloorsAboveCapacity { floors, capacity: self.capacity });
        }
        if quota == Quota::standard() {
            self.own.remove(&tag);
        } else if self.own.len() >= QUOTAS_MAX && !self.own.contains_key(&tag) {
            return Err(QuotaError::TooMany { quotas: self.own.len() });
        } else {
            self.own.insert(tag, quota);
        }
        self.floors = floors;
        Ok(())
    }

    /// Obeys a pool that became smaller. Floors that no longer fit together shrink in proportion.
    pub(crate) fn narrow(&mut self, capacity: Pages) {
        self.capacity = capacity;
    }

    /// The floor that can be kept.
    pub(crate) fn floor(&self, tag: TenantTag) -> Pages {
        clamped(self.scaled(self.of(tag)))
    }

    fn scaled(&self, quota: Quota) -> u64 {
        let (floor, capacity) = (u64::from(quota.floor.get()), u64::from(self.capacity.get()));
        if self.floors <= capacity {
            return floor;
        }
        floor.saturating_mul(capacity).checked_div(self.floors).unwrap_or(0)
    }

    /// Pages that one request of the tenant may ever span: what its cap and the others' floors leave.
    pub(crate) fn reach(&self, tag: TenantTag) -> Pages {
        // I9, I13
        let kept = self.kept().saturating_sub(u64::from(self.floor(tag).get()));
        let left = u64::from(self.capacity.get()).saturating_sub(kept);
        clamped(left).min(self.of(tag).cap)
    }

    /// Pages that the tenant may be granted now, however many are clean.
    pub(crate) fn room(&self, held: &Held, tag: TenantTag) -> Pages {
        // I13: each other tenant has its floor, or can have it at once.
        let mine = held_by(held, tag);
        let others = if seeded(Fault::FloorIgnored) {
            held.iter().filter(|(other, _)| **other != tag).map(|(_, held)| u64::from(*held)).sum()
        } else {
            self.taken(held).saturating_sub(mine.max(u64::from(self.floor(tag).get())))
        };
        let left = u64::from(self.capacity.get()).saturating_sub(others).saturating_sub(mine);
        let below_cap = u64::from(self.of(tag).cap.get()).saturating_sub(mine);
        clamped(if seeded(Fault::CapIgnored) { left } else { left.min(below_cap) })
    }

    /// Pages that may be taken from the tenant for others: those above its floor.
    pub(crate) fn spare(&self, held: &Held, tag: TenantTag) -> Pages {
        // I13
        let floor = if seeded(Fault::FloorReclaimed) { 0 } else { u64::from(self.floor(tag).get()) };
        clamped(held_by(held, tag).saturating_sub(floor))
    }

    /// Pages that are the tenant's by right while `contenders` want pages too; the tenant itself need not be among them.
    pub(crate) fn entitled(&self, tag: TenantTag, contenders: impl Iterator<Item = TenantTag>) -> Pages {
        let mine = self.of(tag);
        let weight = u64::from(mine.weight.get());
        let others = contenders.filter(|other| *other != tag);
        let weights =
            others.fold(weight, |sum, other| sum.saturating_add(u64::from(self.of(other).weight.get())));
        let burst = u64::from(self.capacity.get()).saturating_sub(self.kept());
        let share = burst.saturating_mul(weight).checked_div(weights).unwrap_or(0);
        clamped(u64::from(self.floor(tag).get()).saturating_add(share)).min(mine.cap)
    }

    /// Pages that are held or kept free for somebody.
    fn taken(&self, held: &Held) -> u64 {
        held.iter().fold(self.kept(), |sum, (tag, held)| {
            sum.saturating_add(u64::from(*held).saturating_sub(u64::from(self.floor(*tag).get())))
        })
    }

    /// All floors, as they can be kept.
    fn kept(&self) -> u64 {
        if self.floors <= u64::from(self.capacity.get()) {
            return self.floors;
        }
        self.own.values().map(|quota| self.scaled(*quota)).sum()
    }
}

fn held_by(held: &Held, tag: TenantTag) -> u64 {
    held.get(&tag).copied().map_or(0, u64::from)
}

fn clamped(count: u64) -> Pages {
    Pages::new(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Why a quota was refused; what was in force stays so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaError {
    /// More is reserved for a tenant than it may hold.
    FloorAboveCap {
        /// Pages to reserve.
        floor: Pages,
        /// Pages at most.
        cap: Pages,
    },
    /// All floors together are more than the pool.
    FloorsAboveCapacity {
        /// Pages to reserve, for all tenants.
        floors: u64,
        /// Pages that there are.
        capacity: Pages,
    },
    /// Too many tenants have a quota of their own.
    TooMany {
        /// How many have.
        quotas: usize,
    },
}

impl core::fmt::Display for QuotaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::FloorAboveCap { floor, cap } => write!(f, "a floor of {floor} pages above a cap of {cap}"),
            Self::FloorsAboveCapacity { floors, capacity } => {
                write!(f, "floors of {floors} pages in a pool of {capacity}")
            }
            Self::TooMany { quotas } => write!(f, "{quotas} tenants have quotas, of at most {QUOTAS_MAX}"),
        }
    }
}

impl core::error::Error for QuotaError {}

#[cfg(test)]
mod tests;
