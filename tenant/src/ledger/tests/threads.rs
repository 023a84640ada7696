//! The real writer thread beneath 64 tasks, a store that is now and then away, and kills.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::medium::Medium;
use super::oracle::{Rows, row_key, store};
use super::worlds::choices;
use super::*;

const CLIENTS: usize = 64;
const LIVES: usize = 6;
const ROUNDS: usize = 24;
const LIMIT: u64 = 40_000;

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    /// Tokens of settlements that are on disk.
    settled: AtomicU64,
    /// Tokens of those that may be: their settlement was asked for, and nobody heard that it is on disk.
    perhaps: AtomicU64,
    refused: AtomicUsize,
    ended: AtomicUsize,
}

fn budgets() -> [Budget; 3] {
    let payer = payer(1, 1, 0);
    [
        hard(Level::Tenant(payer.tenant), Unit::Tokens, Period::Total, LIMIT),
        hard(Level::Project(payer.project), Unit::Tokens, Period::Month, LIMIT / 2),
        hard(Level::Key(payer.key), Unit::MicroMoney, Period::Day, 60_000),
    ]
}

async fn client(ledger: Arc<Ledger>, seed: u64, told: Arc<Acknowledged>) {
    let mut choose = choices(seed);
    let payer = payer(1, 1 + seed as u128 % 2, (seed % 3) as u8);
    let (name, budgets) = (model("a"), budgets());
    for _ in 0..LIVES {
        let worst = WorstCase::new(60, 20, 2).unwrap();
        let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
        give_all(&ledger.shared, &claim, at(5));
        let mut reservation = match ledger.reserve(claim, at(5)).await {
            Ok(reservation) => reservation,
            Err(BudgetRefusal::Short(short)) if short.iter().any(Shortage::nothing_left) => {
                told.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Err(BudgetRefusal::Journal(LedgerError::Ended)) => return,
            Err(other) => panic!("{other}"),
        };
        told.ended.fetch_add(1, Ordering::Relaxed);
        let prompt = choose(61) as u64;
        let some = used(prompt, choose(prompt as usize + 1) as u64, choose(41) as u64);
        if choose(2) == 0 {
            reservation.mark(some).unwrap();
            tokio::task::yield_now().await;
        }
        match choose(3) {
            0 => {
                told.perhaps.fetch_add(some.tokens(), Ordering::SeqCst);
                drop(reservation);
            }
            _ => {
                told.perhaps.fetch_add(some.tokens(), Ordering::SeqCst);
                let settled = reservation.settle(some).unwrap();
                if choose(2) == 0 && settled.journalled.await.is_ok() {
                    told.settled.fetch_add(some.tokens(), Ordering::SeqCst);
                }
            }
        }
    }
}

/// Looks at all times: nothing is overshot, not for a moment.
fn observe(ledger: &Ledger, stop: &AtomicBool) -> usize {
    let (budgets, mut looks) = (budgets(), 0);
    while !stop.load(Ordering::Relaxed) {
        for budget in &budgets {
            let standing = ledger.standing(payer(1, 1, 0).tenant, budget, at(5));
            assert!(standing.spent + standing.reserved <= budget.limit, "{budget:?}: {standing:?}");
        }
        looks += 1;
        std::thread::yield_now();
    }
    looks
}

/// A store that takes batches over, and confirms only some.
async fn storing(ledger: Arc<Ledger>, seed: u64, stored: Arc<Mutex<Vec<Batch>>>) {
    let mut choose = choices(seed ^ 99);
    for _ in 0..40 {
        match ledger.take_batch().await {
            Ok(Taken::Batch(batch)) => {
                let number = batch.number;
                keep(&mut stored.lock().unwrap(), batch);
                if choose(2) == 0 && ledger.confirm(number).await.is_err() {
                    return;
                }
            }
            Ok(Taken::Nothing) => {}
            Err(LedgerError::Ended) => return,
            Err(other) => panic!("{other}"),
        }
        tokio::task::yield_now().await;
    }
}

/// One transaction with its number.
fn keep(stored: &mut Vec<Batch>, batch: Batch) {
    match stored.get(batch.number as usize - 1) {
        Some(before) => assert_eq!(*before, batch),
        None => {
            assert_eq!(stored.len() as u64 + 1, batch.number);
            stored.push(batch);
        }
    }
}

#[test]
fn sixty_four_tasks_a_store_and_kills() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let (told, stored) = (Arc::new(Acknowledged::default()), Arc::new(Mutex::new(Vec::new())));
    let (mut looks, mut killed, mut orphans) = (0, 0, 0);
    let mut source = Source::Fresh(Uuid::from_u128(1));
    for round in 0..ROUNDS {
        let mut choose = choices(round as u64);
        let medium = Medium::default();
        let bounds = Bounds { tail_bytes_max: 30_000, ..Bounds::FULL };
        let (ledger, replayed) = Ledger::open_on(&source, medium.clone(), bounds).unwrap();
        orphans += replayed.settled;
        let (ledger, stop) = (Arc::new(ledger), AtomicBool::new(false));
        let is_killed = choose(3) > 0;
        if is_killed {
            // Within the round: after so many writes, each fails. Everyone's request ends where it stands.
            medium.fail_after(4 + choose(150));
        }
        std::thread::scope(|scope| {
            let observer = scope.spawn(|| observe(&ledger, &stop));
            runtime.block_on(async {
                let mut tasks: Vec<_> = (0..CLIENTS)
                    .map(|i| {
                        let seed = (round * CLIENTS + i) as u64;
                        tokio::spawn(client(Arc::clone(&ledger), seed, Arc::clone(&told)))
                    })
                    .collect();
                tasks.push(tokio::spawn(storing(Arc::clone(&ledger), round as u64, Arc::clone(&stored))));
                for task in tasks {
                    task.await.unwrap();
                }
            });
            stop.store(true, Ordering::Relaxed);
            looks += observer.join().unwrap();
        });
        assert_eq!(ledger.outstanding(), 0, "reservations outstanding");
        killed += usize::from(ledger.ended_by().is_some());
        drop(ledger);
        source = Source::Bytes(medium.survivor(&mut choose));
    }
    let spent = drain(&source, &stored);
    let (at_least, at_most) = (told.settled.load(Ordering::SeqCst), told.perhaps.load(Ordering::SeqCst));
    assert!((at_least..=at_most).contains(&spent), "{at_least} <= {spent} <= {at_most}");
    let (ended, refused) = (told.ended.load(Ordering::Relaxed), told.refused.load(Ordering::Relaxed));
    println!(
        "{ended} lives, {refused} refused, {killed} kills, {orphans} orphans, {looks} looks: {spent} spent"
    );
    assert!(killed > 0 && refused > 0);
}

/// Opens once more, stores the rest, and compares the sums with what the store has. Tokens spent.
fn drain(source: &Source, stored: &Mutex<Vec<Batch>>) -> u64 {
    let mut bench = Bench::open(source, Bounds::FULL).unwrap();
    while let Taken::Batch(batch) = bench.take() {
        let number = batch.number;
        keep(&mut stored.lock().unwrap(), batch);
        bench.confirm(number).unwrap();
    }
    let mut rows = Rows::new();
    for batch in stored.lock().unwrap().iter() {
        store(&mut rows, batch);
    }
    let tokens: u64 = rows.values().map(|row| row[1] + row[3]).sum();
    let (spent, reserved) = bench.sum(payer(1, 1, 0).tenant, &budgets()[0], at(5));
    assert_eq!((spent, reserved), (tokens, 0), "the budget and the store say the same");
    let first = row_key(0, payer(1, 1, 0), &model("a"));
    let (money, _) = bench.sum(payer(1, 1, 0).tenant, &budgets()[2], at(5));
    assert_eq!(rows.get(&first).map_or(0, |row| row[4]), money);
    spent
}
