//! What the log does: durable records a second, and leaves verified a second.
//!
//! Run it with `cargo bench -p audit --bench log [FOLDER]`; the folder says which disk. It prints the disk's own syncs a second beside
//! ours: group commit lives by what comes during a sync.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench: to fail is its right"
)]

use std::collections::VecDeque;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use audit::{
    Admitted, AuditError, AuditLog, Boot, Ended, Endpoint, EngineSeen, Finish, Hex, KeyId, LogKey, Outcome,
    PolicySource, Proof, Record, Ticket, Trust, Word,
};

/// Requests that are recorded.
const REQUESTS: u32 = 400_000;
/// Records that wait for the disk at most: requests under way.
const UNDER_WAY: usize = 2_000;
/// Tenants that the requests are of.
const TENANTS: u32 = 1_000;

fn main() {
    let folder = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let folder = tempfile::tempdir_in(folder.map_or_else(std::env::temp_dir, PathBuf::from)).unwrap();
    println!("the disk alone: {:.0} syncs of 4 KiB a second", syncs(folder.path()));
    let key = LogKey::generate("bench.example/log").unwrap();
    let trust = Trust::in_log(key.public());
    let log_folder = folder.path().join("audit");
    let (log, _) = AuditLog::open(&log_folder, key).unwrap();
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    record_all(&log, &mut slowest);
    let took = began.elapsed();
    drop(log);
    let records = f64::from(REQUESTS) * 2.0;
    println!(
        "{:.0} durable records a second, {UNDER_WAY} under way; the longest wait {slowest:?}",
        records / took.as_secs_f64()
    );
    println!("signed {:?} after the last of them was durable", began.elapsed() - took);
    println!(
        "{:.0} bytes a request on the disk, tiles and all",
        bytes_below(&log_folder) as f64 / f64::from(REQUESTS)
    );
    let began = Instant::now();
    let verified = audit::verify(&log_folder, &trust, &mut |_| {}).unwrap();
    println!(
        "{:.0} leaves verified a second, of {}",
        verified.leaves as f64 / began.elapsed().as_secs_f64(),
        verified.leaves
    );
    let began = Instant::now();
    let mut leaves = 0_u64;
    audit::read_leaves(&log_folder, 0, &mut |_, _| leaves += 1).unwrap();
    println!("{:.0} leaves read a second", leaves as f64 / began.elapsed().as_secs_f64());
}

/// How often the disk makes 4 KiB durable in a second, one after the other.
fn syncs(folder: &Path) -> f64 {
    let mut file = std::fs::File::create(folder.join("syncs")).unwrap();
    let (began, mut count) = (Instant::now(), 0_u32);
    while began.elapsed() < Duration::from_secs(2) {
        file.write_all(&[7; 4_096]).unwrap();
        file.sync_data().unwrap();
        count += 1;
    }
    f64::from(count) / began.elapsed().as_secs_f64()
}

fn record_all(log: &AuditLog, slowest: &mut Duration) {
    log.append(&boot(), SystemTime::now()).unwrap().wait().unwrap();
    log.append(&engine(), SystemTime::now()).unwrap().wait().unwrap();
    let mut under_way: VecDeque<(Instant, Ticket)> = VecDeque::new();
    for number in 0..REQUESTS {
        for record in request(number) {
            if under_way.len() >= UNDER_WAY {
                settle(&mut under_way, slowest);
            }
            let tenant = Hex(u128::from(number % TENANTS).to_be_bytes());
            let ticket = loop {
                match log.append_for(tenant, &record, SystemTime::now()) {
                    Err(AuditError::Full { .. }) => settle(&mut under_way, slowest),
                    other => break other.unwrap(),
                }
            };
            under_way.push_back((Instant::now(), ticket));
        }
    }
    while !under_way.is_empty() {
        settle(&mut under_way, slowest);
    }
}

fn settle(under_way: &mut VecDeque<(Instant, Ticket)>, slowest: &mut Duration) {
    if let Some((since, ticket)) = under_way.pop_front() {
        ticket.wait().unwrap();
        *slowest = since.elapsed().max(*slowest);
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(
            |entry| {
                if entry.path().is_dir() {
                    bytes_below(&entry.path())
                } else {
                    entry.metadata().unwrap().len()
                }
            },
        )
        .sum()
}

fn boot() -> Record {
    Record::Boot(Boot { version: [0, 1, 0], policy: Hex([3; 32]), source: PolicySource::Shipped })
}

fn engine() -> Record {
    Record::EngineSeen(EngineSeen {
        model: Hex([1; 32]),
        build: [0, 1, 0],
        epoch: Word(3),
        boot_key: Hex([2; 32]),
        window: 2_048,
        capacity: 4_096,
        page_tokens: 16,
    })
}

fn request(number: u32) -> [Record; 2] {
    let request = Hex(u128::from(number).to_be_bytes());
    let key = KeyId::new(b"3kTMd0ZyQ9aB").unwrap();
    let (edge_tokens, max_tokens, window) = (37 + number % 900, 16 + number % 300, 2_048);
    let admitted = Admitted {
        request,
        sequence: 0,
        tag: Word(u64::from(number % TENANTS)),
        key,
        endpoint: Endpoint::Chat,
        epoch: Word(3),
        policy: 0,
        edge_tokens,
        max_tokens,
        window,
    };
    let proof = Proof::Accepted {
        engine_tokens: edge_tokens,
        cached: 16,
        written: edge_tokens - 16,
        attended: edge_tokens,
        pages: edge_tokens.div_ceil(16),
        generations: Word(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    };
    let ended = Ended {
        request,
        sequence: 0,
        status: 200,
        outcome: Outcome::Completed { finish: Finish::Stop },
        proof,
        completion: 9 + number % 7,
        first_token_ms: 30 + number % 40,
        total_ms: 70 + number % 4_000,
    };
    [Record::Admitted(admitted), Record::Ended(ended)]
}
