//! Counts of what the gateway did, for `/status` and `/metrics`. Labels are the few ways a request ends; a tenant is none.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    pub(crate) active: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) integrity_alarms: AtomicU64,
    pub(crate) engine_alarms: AtomicU64,
    pub(crate) not_authenticated: AtomicU64,
    pub(crate) budget_warnings: AtomicU64,
    pub(crate) budgets_unusable: AtomicU64,
    pub(crate) limits_unavailable: AtomicU64,
}

impl Meter {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sub(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
