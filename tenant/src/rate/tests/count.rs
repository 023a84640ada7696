//! What `count.lua` does, by a clock of the test; the test of Redis holds the two against each other.

use std::collections::HashMap;

use crate::rate::{Answer, Report, Scope, Stand};

/// A shared count in memory.
#[derive(Debug, Default)]
pub(crate) struct Count {
    scopes: HashMap<Scope, Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Level and limit of requests and of tokens.
    rates: [(u64, u32); 2],
    /// Nothing before the first report.
    at_ms: Option<u64>,
    gateways: HashMap<usize, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: u64,
    places: u32,
    until_ms: u64,
    before: [u64; 2],
    since: [u64; 2],
}

impl Count {
    /// Counts `report` of `gateway` at `now_ms`.
    pub(crate) fn tell(&mut self, gateway: usize, report: &Report, now_ms: u64) -> Answer {
        let kept = self.scopes.entry(report.scope.clone()).or_default();
        let passed = now_ms - kept.at_ms.unwrap_or(now_ms);
        kept.at_ms = Some(now_ms);
        let mine = kept.gateways.remove(&gateway);
        let is_known = mine.is_some();
        let mut mine = mine.unwrap_or_default();
        let is_new = report.sequence > mine.last;
        let mut stands = [Stand { level: 0, lowest: 0, since: 0 }; 2];
        for (i, rate) in [report.requests, report.tokens].into_iter().enumerate() {
            let (level, limit) = kept.rates[i];
            let mut level = level.saturating_sub(passed * u64::from(limit));
            if !is_known {
                level = level.max(rate.believed);
            }
            let limit = if limit > 0 && (rate.per_minute == 0 || rate.charged == 0) {
                limit
            } else {
                rate.per_minute
            };
            mine.since[i] = mine.since[i].min(level);
            if is_new {
                let given = rate.given.min(mine.since[i]);
                for other in kept.gateways.values_mut() {
                    other.since[i] = other.since[i].min(level).saturating_sub(given);
                }
                mine.before[i] = mine.since[i] - given;
                level = level - given + rate.charged;
                mine.since[i] = level;
            }
            stands[i] = Stand { level, lowest: mine.before[i], since: mine.since[i] };
            kept.rates[i] = (level, limit);
        }
        let running = kept.gateways.values().filter(|other| other.until_ms > now_ms);
        let others = running.map(|other| other.places).sum();
        if report.sequence >= mine.last {
            (mine.last, mine.places, mine.until_ms) = (report.sequence, report.places, now_ms + 10_000);
        }
        kept.gateways.insert(gateway, mine);
        Answer { requests: stands[0], tokens: stands[1], others }
    }
}
