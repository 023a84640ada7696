//! What an opening that is refused leaves behind.

use super::*;

/// A migrator that is refused holds its lock for as long as its connection lives.
#[tokio::test]
async fn a_refused_migration_keeps_nobody_else_out() {
    let bench = Bench::postgres().await;
    let url = Secret::new(bench.url.clone().unwrap());
    bench.by_hand("UPDATE _sqlx_migrations SET version = 999 WHERE version = 1").await.unwrap();
    let refused = Store::connect_later(url, pepper_in(bench.folder.path())).unwrap();
    for _ in 0..3 {
        assert!(matches!(refused.prepare().await, Err(StoreError::Schema(_))));
    }
    bench.by_hand("UPDATE _sqlx_migrations SET version = 1 WHERE version = 999").await.unwrap();
    // `refused` lives on, as that of a follower does.
    bench.again().await.unwrap();
    refused.prepare().await.unwrap();
}
