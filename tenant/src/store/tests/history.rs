//! What a store remembers of its last changes.

use super::change::HISTORY_MAX;
use super::*;

on_both!(a_store_remembers_its_last_changes_and_no_more, a_store_keeps_its_id, another_store_is_read_whole);

async fn a_store_remembers_its_last_changes_and_no_more(bench: Bench) {
    let number = HISTORY_MAX + 100;
    bench.by_hand("DELETE FROM history").await.unwrap();
    let numbers =
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number})");
    bench
        .by_hand(&format!("{numbers} INSERT INTO history (revision, token) SELECT i, i FROM n"))
        .await
        .unwrap();
    bench.by_hand(&format!("UPDATE revision SET value = {number}")).await.unwrap();
    bench.tenant("Acme").await;
    let count = sqlx::query_scalar("SELECT count(*) FROM history").fetch_one(&bench.store.pool);
    let count: i64 = count.await.unwrap();
    assert_eq!(count, HISTORY_MAX);
    let now = bench.store.revision().await.unwrap();
    assert_eq!(now.number, number + 1);
    let whole = async |behind: i64, token: i64| {
        let number = now.number - behind;
        let since = Revision { number, token: Some(number + token), ..now };
        bench.store.changes(since).await.unwrap().is_whole
    };
    assert!(!whole(1, 0).await && !whole(HISTORY_MAX - 1, 0).await, "it is remembered");
    assert!(whole(HISTORY_MAX, 0).await, "it is forgotten");
    assert!(whole(1, 1).await && whole(0, 0).await && whole(-1, 0).await, "it never was");
}

async fn a_store_keeps_its_id(bench: Bench) {
    let id = bench.store.revision().await.unwrap().store;
    assert_ne!(id, Revision::NONE.store);
    assert_eq!(bench.again().await.unwrap().revision().await.unwrap().store, id);
    assert_ne!(Bench::sqlite().await.store.revision().await.unwrap().store, id);
}

async fn another_store_is_read_whole(bench: Bench) {
    let now = bench.store.revision().await.unwrap();
    assert!(!bench.store.changes(now).await.unwrap().is_whole);
    let elsewhere = Revision { store: Bench::sqlite().await.store.revision().await.unwrap().store, ..now };
    assert!(bench.store.changes(elsewhere).await.unwrap().is_whole);
}
