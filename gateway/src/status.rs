//! How the gateway and its engine are: `/readyz`, `/status`, `/metrics`.

use std::fmt::Write;
use std::time::Instant;

use serde_json::{Value, json};

use crate::house::House;
use crate::meter::Meter;

/// Whether a request would be served now: the status and a word.
pub(crate) fn ready(house: &House) -> (u16, Vec<u8>) {
    let why_not = if house.is_draining() {
        Some("draining\n")
    } else if house.keys_are_stale() {
        Some("keys too old\n")
    } else if house.link.engine().is_none() {
        Some("no engine\n")
    } else if house.recorder.log().ended_by().is_some() {
        Some("no audit log\n")
    } else if house.budgets.ended_by().is_some() {
        Some("no ledger\n")
    } else {
        None
    };
    why_not.map_or_else(|| (200, b"ready\n".to_vec()), |why| (503, why.as_bytes().to_vec()))
}

/// The whole account, as JSON.
pub(crate) async fn json(house: &House) -> Vec<u8> {
    let engine = match house.link.status().await {
        None => json!({ "up": false }),
        Some(status) => json!({
            "up": true,
            "epoch": format!("{:016x}", status.epoch),
            "window": status.window,
            "capacity_tokens": status.capacity,
            "live": status.running,
            "queued": status.queued,
            "steps": status.steps,
            "prefilled_tokens": status.prefilled,
            "decoded_tokens": status.decoded,
            "clean": status.census.clean,
            "dirty": status.census.dirty,
            "quarantined": status.census.quarantined,
            "leased": status.census.leased,
            "shared": status.census.shared,
            "withdrawn": status.census.withdrawn,
            "pages": status.census.total,
        }),
    };
    let health = house.directory.health(Instant::now());
    let document = json!({
        "engine": engine,
        "engine_alarms": Meter::get(&house.meter.engine_alarms),
        "requests": requests(house),
        "connections": Meter::get(&house.meter.connections),
        "policy": { "version": house.version.to_string(), "source": house.policy_source },
        "keys": { "known": house.directory.keys(), "age_ms": millis(health.age), "failures": health.failures, "pushed": health.is_told },
        "budgets": {
            "writes": house.budgets.ended_by().is_none(),
            "outstanding": house.budgets.outstanding(),
            "usage_backlog": house.budgets.usage_backlog(),
            "warnings": Meter::get(&house.meter.budget_warnings),
            "unusable": Meter::get(&house.meter.budgets_unusable),
            "parts": parts(house),
        },
        "limits": shared_limits(house),
        "audit": { "writes": house.recorder.log().ended_by().is_none() },
        "draining": house.is_draining(),
    });
    let mut body = document.to_string().into_bytes();
    body.push(b'\n');
    body
}

/// How limits are counted: here alone, or together with other gateways.
fn shared_limits(house: &House) -> Value {
    match house.limiter.shared_health() {
        None => json!({ "shared": false }),
        Some((is_away, waits)) => json!({
            "shared": true,
            "away": is_away,
            "when_away": house.policy.shared_limits_away().to_string(),
            "waits": waits,
            "unavailable": Meter::get(&house.meter.limits_unavailable),
        }),
    }
}

fn parts(house: &House) -> Value {
    let health = house.budget_parts.health()();
    json!({
        "gateway": house.budget_parts.gateway(),
        "held": health.held,
        "waiting": health.waiting,
        "exchanges": health.exchanges,
        "grown": health.grown,
        "given_back": health.given_back,
        "elsewhere": health.elsewhere,
        "unanswered": health.unanswered,
        "away": health.is_away,
    })
}

fn requests(house: &House) -> Value {
    let meter = &house.meter;
    json!({
        "active": Meter::get(&meter.active),
        "completed": Meter::get(&meter.completed),
        "cancelled": Meter::get(&meter.cancelled),
        "rejected": Meter::get(&meter.rejected),
        "failed": Meter::get(&meter.failed),
        "not_authenticated": Meter::get(&meter.not_authenticated),
        "integrity_alarms": Meter::get(&meter.integrity_alarms),
    })
}

/// The same numbers in Prometheus' text format.
pub(crate) async fn metrics(house: &House) -> Vec<u8> {
    let meter = &house.meter;
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: u64| {
        // Writing to a string does not fail.
        let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
    };
    gauge("bulkhead_requests_active", "Requests under way.", Meter::get(&meter.active));
    gauge("bulkhead_connections", "Connections open.", Meter::get(&meter.connections));
    let health = house.directory.health(Instant::now());
    let known = u64::try_from(house.directory.keys()).unwrap_or(u64::MAX);
    gauge("bulkhead_keys", "API keys that work.", known);
    gauge("bulkhead_keys_age_seconds", "Since the store last confirmed them.", health.age.as_secs());
    gauge("bulkhead_keys_refresh_failures", "Looks at the store that failed since.", health.failures.into());
    gauge("bulkhead_keys_pushed", "1 while the store tells of its changes.", u64::from(health.is_told));
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let outstanding = wide(house.budgets.outstanding());
    gauge("bulkhead_budget_reservations", "Requests reserved and not settled.", outstanding);
    let backlog = wide(house.budgets.usage_backlog());
    gauge("bulkhead_usage_backlog_rows", "Rows of usage that the store has not taken over.", backlog);
    if let Some((is_away, waits)) = house.limiter.shared_health() {
        let help = "1 while the count of limits that gateways share answers.";
        gauge("bulkhead_shared_limits_up", help, u64::from(!is_away));
        gauge("bulkhead_shared_limits_waits", "Requests that waited for that count, since the start.", waits);
    }
    let parts = house.budget_parts.health()();
    gauge(
        "bulkhead_budget_parts",
        "Budgets in a period of which this gateway knows or holds a part.",
        parts.held,
    );
    gauge("bulkhead_budget_parts_waiting", "Requests that wait for a part of a budget.", parts.waiting);
    let away = u64::from(parts.is_away);
    gauge("bulkhead_budget_store_away", "1 while the store does not hand out parts of budgets.", away);
    let status = house.link.status().await;
    gauge("bulkhead_engine_up", "1 while an engine is connected.", u64::from(status.is_some()));
    if let Some(status) = status {
        let census = status.census;
        gauge("bulkhead_engine_window_tokens", "Tokens that a request may span.", status.window.into());
        gauge("bulkhead_engine_sequences_running", "Sequences with pages.", status.running.into());
        gauge("bulkhead_engine_sequences_queued", "Sequences that wait for pages.", status.queued.into());
        gauge("bulkhead_engine_pages_leased", "Pages held by sequences.", census.leased.into());
        gauge("bulkhead_engine_pages_shared", "Pages held by prefix runs.", census.shared.into());
        gauge(
            "bulkhead_engine_pages_quarantined",
            "Pages that wait for their fence.",
            census.quarantined.into(),
        );
        gauge("bulkhead_engine_pages_dirty", "Pages that wait to be scrubbed.", census.dirty.into());
        gauge("bulkhead_engine_pages_withdrawn", "Pages never used again.", census.withdrawn.into());
        let states =
            [census.clean, census.dirty, census.quarantined, census.leased, census.shared, census.withdrawn];
        let sum: u64 = states.into_iter().map(u64::from).sum();
        let gap = sum.abs_diff(census.total.into());
        gauge(
            "bulkhead_engine_census_gap_pages",
            "Pages in no state or in two; 0 unless pages are lost.",
            gap,
        );
    }
    counters(meter, &mut text);
    part_counters(house, &mut text);
    revocations(house, &mut text);
    text.into_bytes()
}

/// What only rises.
fn counters(meter: &Meter, text: &mut String) {
    let _written = writeln!(
        text,
        "# HELP bulkhead_requests_total Requests, by their end.\n# TYPE bulkhead_requests_total counter"
    );
    for (end, counter) in [
        ("completed", &meter.completed),
        ("cancelled", &meter.cancelled),
        ("rejected", &meter.rejected),
        ("failed", &meter.failed),
        ("not_authenticated", &meter.not_authenticated),
    ] {
        let _written = writeln!(text, "bulkhead_requests_total{{outcome=\"{end}\"}} {}", Meter::get(counter));
    }
    for (name, help, counter) in [
        (
            "bulkhead_integrity_alarms_total",
            "Requests whose engine's word was not believed.",
            &meter.integrity_alarms,
        ),
        ("bulkhead_engine_alarms_total", "What engines found wrong with themselves.", &meter.engine_alarms),
        ("bulkhead_budget_warnings_total", "Thresholds of budgets that were passed.", &meter.budget_warnings),
        (
            "bulkhead_budgets_unusable_total",
            "Requests refused because their budgets could not be counted.",
            &meter.budgets_unusable,
        ),
        (
            "bulkhead_limits_unavailable_total",
            "Requests refused because the shared count of limits was away.",
            &meter.limits_unavailable,
        ),
    ] {
        let count = Meter::get(counter);
        let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
    }
}

/// What became of parts of budgets.
fn part_counters(house: &House, text: &mut String) {
    let health = house.budget_parts.health()();
    for (name, help, count) in [
        ("exchanges", "Times that the store answered about parts of budgets.", health.exchanges),
        ("grown", "Parts of budgets that became larger.", health.grown),
        ("given_back", "Parts of budgets of which something was given back.", health.given_back),
        (
            "elsewhere",
            "Requests refused while other gateways held what they lacked of a budget.",
            health.elsewhere,
        ),
        ("unanswered", "Requests refused because the store handed nothing out in time.", health.unanswered),
    ] {
        let name = format!("bulkhead_budget_parts_{name}_total");
        let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}");
    }
}

/// How long revocations took to arrive, as a histogram.
fn revocations(house: &House, text: &mut String) {
    const NAME: &str = "bulkhead_key_revocation_seconds";
    let lag = house.directory.revocation_lag();
    let _written = writeln!(
        text,
        "# HELP {NAME} From the revocation of a key to its refusal here, by the clocks of both.\n# TYPE {NAME} histogram"
    );
    let mut count = 0;
    for (bound_ms, within) in lag.within {
        let bound =
            bound_ms.map_or_else(|| "+Inf".to_owned(), |ms| format!("{}.{:03}", ms / 1_000, ms % 1_000));
        let _written = writeln!(text, "{NAME}_bucket{{le=\"{bound}\"}} {within}");
        count = within;
    }
    let (whole, rest) = (lag.sum_ms / 1_000, lag.sum_ms % 1_000);
    let _written = writeln!(text, "{NAME}_sum {whole}.{rest:03}\n{NAME}_count {count}");
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
