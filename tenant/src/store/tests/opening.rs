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

/// Two that open a new store at once, each with a pepper of its own: the second is refused, and makes no key that will never work.
#[tokio::test]
async fn the_second_of_two_first_openers_finds_the_pepper_of_the_first() {
    for version in [1, 2] {
        let bench = Bench::postgres().await;
        bench.by_hand("DELETE FROM peppers").await.unwrap();
        let url = Secret::new(bench.url.clone().unwrap());
        let other = tempfile::tempdir().unwrap();
        let second = Store::connect_later(url, pepper_in(other.path())).unwrap();
        // As far as the first has come when the second begins: what it noted is not committed.
        let mut first = bench.store.pool.begin().await.unwrap();
        let noted = format!(
            "UPDATE revision SET value = value WHERE one = 1;
             INSERT INTO peppers (version, fingerprint) VALUES ({version}, '{}');",
            "x".repeat(32)
        );
        sqlx::raw_sql(AssertSqlSafe(noted)).execute(&mut *first).await.unwrap();
        let opened = tokio::spawn(async move { second.prepare().await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!opened.is_finished(), "it waits for the first");
        first.commit().await.unwrap();
        let opened = tokio::time::timeout(Duration::from_secs(60), opened).await.unwrap().unwrap();
        assert!(matches!(opened, Err(StoreError::WrongPepper)), "version {version}: {opened:?}");
    }
}

#[tokio::test]
async fn a_parameter_that_is_not_known_is_named_without_its_value() {
    let folder = tempfile::tempdir().unwrap();
    let connect = |end: &str| {
        let url = format!("postgres://bulkhead@127.0.0.1:1/none{end}");
        Store::connect_later(Secret::new(url), pepper_in(folder.path())).err().map(|error| error.to_string())
    };
    for known in ["", "?", "?sslmode=require", "?sslmode=require&application_name=a", "?password=hunter2"] {
        assert_eq!(connect(known), None, "{known}");
    }
    for (bad, named) in [
        ("?passwort=hunter2", "passwort"),
        ("?sslmode=require&x=hunter2&y=1", "known: x;"),
        ("?hunter2", "without a value"),
        ("?options=-chunter2", "options"),
    ] {
        let said = connect(bad).expect(bad);
        assert!(said.contains(named) && !said.contains("hunter2"), "{bad}: {said}");
    }
}
