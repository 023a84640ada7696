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
    /// Level and limit of requests and of tokens; nothing before the first report.
    rates: Option<[(u64, u32); 2]>,
    at_ms: u64,
    gateways: HashMap<usize, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    last: u64,
    places: u32,
    until_ms: u64,
    lowest: [u64; 2],
}

impl Count {
    /// Counts `report` of `gateway` at `now_ms`.
    pub(crate) fn tell(&mut self, gateway: usize, report: &Report, now_ms: u64) -> Answer {
        let kept = self.scopes.entry(report.scope.clone()).or_default();
        let at_ms = kept.at_ms.max(now_ms);
        let passed = if kept.rates.is_some() { at_ms - kept.at_ms } else { 0 };
        let mut mine = kept.gateways.remove(&gateway).unwrap_or_default();
        let is_new = report.sequence > mine.last;
        let mut stands = [Stand { level: 0, lowest: 0 }; 2];
        let before = kept.rates;
        let mut after = [(0, 0); 2];
        for (i, rate) in [report.requests, report.tokens].into_iter().enumerate() {
            let level = before.map_or(rate.believed, |rates| {
                let (level, limit) = rates[i];
                level.saturating_sub(passed * u64::from(limit))
            });
            let (charged, given) = if is_new { (rate.charged, rate.given) } else { (0, 0) };
            let lowest = mine.lowest[i].min(level);
            let given = given.min(lowest);
            for other in kept.gateways.values_mut() {
                other.lowest[i] = other.lowest[i].min(level).saturating_sub(given);
            }
            mine.lowest[i] = level - given + charged;
            stands[i] = Stand { level: mine.lowest[i], lowest: lowest - given };
            after[i] = (mine.lowest[i], rate.per_minute);
        }
        (kept.rates, kept.at_ms) = (Some(after), at_ms);
        let running = kept.gateways.values().filter(|other| other.until_ms > now_ms);
        let others = running.map(|other| other.places).sum();
        (mine.last, mine.places) = (mine.last.max(report.sequence), report.places);
        mine.until_ms = now_ms + 10_000;
        kept.gateways.insert(gateway, mine);
        Answer { requests: stands[0], tokens: stands[1], others }
    }
}
