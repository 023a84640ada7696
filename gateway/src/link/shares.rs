//! What tenants may hold of the engine's memory: told to the engine, and what it leaves for one request.

use std::sync::Arc;

use tenant::TenantShare;
use wire::{Hello, Quota, ToEngine};

use super::{Shared, session::Ended};

/// Says what the directory says to one engine, once and whenever it changes.
pub(super) struct Shares {
    capacity: u32,
    page_tokens: u32,
    told: Option<Arc<[TenantShare]>>,
}

impl Shares {
    pub(super) fn new(hello: &Hello) -> Self {
        Self { capacity: hello.capacity, page_tokens: hello.page_tokens, told: None }
    }

    /// Tells the engine where there is anything new. Floors that do not fit are not sent: the engine keeps what it has.
    pub(super) fn tell(&mut self, shared: &Shared) -> Result<(), Ended> {
        let shares = shared.directory.shares();
        if self.told.as_ref().is_some_and(|told| **told == *shares) {
            return Ok(());
        }
        let floors = floors(&shares, self.page_tokens);
        let first = self.told.replace(Arc::clone(&shares)).is_none();
        if floors > u64::from(self.capacity) {
            tracing::error!(
                floors_tokens = floors,
                capacity_tokens = self.capacity,
                "the tenants' floors are more than the engine's pool; its shares stay as they were: lower floors or add memory"
            );
            return Ok(());
        }
        if first && shares.is_empty() {
            return Ok(());
        }
        let quotas = shares.iter().map(quota).collect();
        let frame = wire::encode(&ToEngine::Quotas(quotas)).map_err(Ended::Frame)?;
        let live = shared.live();
        let sent = live.as_ref().is_none_or(|live| live.out.try_send(frame).is_ok());
        if sent { Ok(()) } else { Err(Ended::Stuck) }
    }
}

fn quota(share: &TenantShare) -> Quota {
    let TenantShare { tag, share } = share;
    Quota { tag: tag.get(), floor: share.floor, cap: share.cap.tokens(), weight: share.weight.get() }
}

/// Tokens of all floors, in whole pages.
fn floors(shares: &[TenantShare], page_tokens: u32) -> u64 {
    shares.iter().map(|share| paged(share.share.floor, page_tokens)).sum()
}

fn paged(tokens: u32, page_tokens: u32) -> u64 {
    u64::from(tokens).checked_next_multiple_of(u64::from(page_tokens)).unwrap_or(u64::from(tokens))
}

/// Tokens that one request of the tenant may ever span in a pool of `capacity`: what its cap and the others' floors leave.
pub(crate) fn reach(
    shares: &[TenantShare],
    tag: isolation::tag::TenantTag,
    (capacity, page_tokens): (u32, u32),
) -> u32 {
    let all = floors(shares, page_tokens);
    if all > u64::from(capacity) {
        // Not in force; the engine says what is.
        return capacity;
    }
    let own = shares.iter().find(|share| share.tag == tag).map(|share| share.share).unwrap_or_default();
    let others = all.saturating_sub(paged(own.floor, page_tokens));
    let left = u32::try_from(u64::from(capacity).saturating_sub(others)).unwrap_or(capacity);
    let cap = own.cap.tokens();
    left.min(cap.checked_div(page_tokens).and_then(|pages| pages.checked_mul(page_tokens)).unwrap_or(cap))
}

#[cfg(test)]
mod tests {
    use super::*;
    use isolation::tag::TenantTag;
    use std::num::NonZeroU32;
    use tenant::{MemoryCap, MemoryShare};

    fn share(tag: u64, floor: u32, cap: u32) -> TenantShare {
        let cap = NonZeroU32::new(cap).map_or(MemoryCap::Pool, MemoryCap::Tokens);
        TenantShare { tag: TenantTag::new(tag), share: MemoryShare { floor, cap, weight: NonZeroU32::MIN } }
    }

    #[test]
    fn a_request_may_span_what_its_cap_and_the_floors_of_others_leave() {
        let shares = [share(1, 20, 0), share(2, 0, 70), share(3, 32, 40)];
        let reach = |tag| reach(&shares, TenantTag::new(tag), (160, 16));
        // Floors are 32 and 32 tokens in whole pages.
        assert_eq!([1, 2, 3, 4].map(reach), [128, 64, 32, 96]);
        assert_eq!(super::reach(&[], TenantTag::new(1), (160, 16)), 160);
        let too_many = [share(1, 100, 0), share(2, 100, 0)];
        assert_eq!(super::reach(&too_many, TenantTag::new(2), (160, 16)), 160, "they are not in force");
    }
}
