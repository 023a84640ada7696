//! On a real file system.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn claim<'a>(name: &'a ModelName, budgets: &'a [Budget]) -> Claim<'a> {
    let worst = WorstCase::new(10, 10, 1).unwrap();
    Claim { payer: payer(1, 1, 0), model: name, pricing: price(), budgets, worst }
}

#[tokio::test]
async fn what_is_reserved_settled_and_open_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let budgets = [hard(Level::Tenant(payer(1, 1, 0).tenant), Unit::Tokens, Period::Total, 1_000)];
    let name = model("a");
    let (ledger, replayed) = Ledger::open(&path, at(0)).unwrap();
    assert_eq!(replayed, Replayed { records: 0, cut_bytes: 0, settled: 0 });
    assert!(matches!(Ledger::open(&path, at(0)), Err(LedgerError::Locked)));
    give_all(&ledger.shared, &claim(&name, &budgets), at(0));
    let settled = ledger.reserve(claim(&name, &budgets), at(0)).await.unwrap();
    let settled = settled.settle(used(3, 1, 2)).unwrap();
    assert_eq!(settled.cost, Cost::MicroUnits(21));
    settled.journalled.await.unwrap();
    let mut open = ledger.reserve(claim(&name, &budgets), at(0)).await.unwrap();
    open.mark(used(4, 0, 0)).unwrap();
    let standing = ledger.standing(payer(1, 1, 0).tenant, &budgets[0], at(0));
    assert_eq!(standing, BudgetStanding { spent: 5, reserved: 20, resets: Resets::Never });
    let Taken::Batch(batch) = ledger.take_batch().await.unwrap() else { panic!("one row") };
    drop(ledger);
    drop(open);
    for file in std::fs::read_dir(&path).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);

    let (ledger, replayed) = Ledger::open(&path, at(9)).unwrap();
    assert_eq!((replayed.cut_bytes, replayed.settled), (0, 1));
    let standing = ledger.standing(payer(1, 1, 0).tenant, &budgets[0], at(0));
    assert_eq!((standing.spent, standing.reserved), (9, 0));
    assert_eq!(ledger.take_batch().await.unwrap(), Taken::Batch(batch.clone()));
    ledger.confirm(batch.number).await.unwrap();
    assert_eq!(ledger.usage_backlog(), 1);
}

#[tokio::test]
async fn a_dropped_future_gives_back_what_it_reserved() {
    let folder = tempfile::tempdir().unwrap();
    let budgets = [hard(Level::Tenant(payer(1, 1, 0).tenant), Unit::Tokens, Period::Total, 20)];
    let name = model("a");
    let (ledger, _) = Ledger::open(folder.path(), at(0)).unwrap();
    give_all(&ledger.shared, &claim(&name, &budgets), at(0));
    for _ in 0..50 {
        let mut future = Box::pin(ledger.reserve(claim(&name, &budgets), at(0)));
        drop(poll_now(&mut future));
        drop(future);
        assert_eq!(ledger.outstanding(), 0);
        ledger.reserve(claim(&name, &budgets), at(0)).await.map(drop).unwrap();
    }
}

#[tokio::test]
async fn a_journal_is_bounded_and_its_file_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds { tail_bytes_max: 2_000, ..Bounds::FULL };
    let name = model("a");
    let budgets = [hard(Level::Tenant(payer(1, 1, 0).tenant), Unit::Tokens, Period::Total, 10_000)];
    let (ledger, _) = Ledger::open_within(folder.path(), bounds, at(0)).unwrap();
    give_all(&ledger.shared, &claim(&name, &budgets), at(0));
    for _ in 0..60 {
        let reservation = ledger.reserve(claim(&name, &budgets), at(0)).await.unwrap();
        reservation.settle(used(1, 0, 0)).unwrap().journalled.await.unwrap();
        let bytes = std::fs::metadata(folder.path().join("journal")).unwrap().len();
        assert!(bytes < 3_500, "{bytes}");
    }
    drop(ledger);
    std::fs::write(folder.path().join("journal.new"), b"left by a crash").unwrap();
    let (ledger, _) = Ledger::open(folder.path(), at(0)).unwrap();
    assert_eq!(ledger.standing(payer(1, 1, 0).tenant, &budgets[0], at(0)).spent, 60);
    drop(ledger);
    std::fs::write(folder.path().join("journal"), b"").unwrap();
    let damaged = Ledger::open(folder.path(), at(0)).err();
    assert!(matches!(damaged, Some(LedgerError::Damaged(Damaged { why: Damage::NoCheckpoint, .. }))));
    assert_eq!(std::fs::read(folder.path().join("journal")).unwrap(), b"", "left as it was found");
}
