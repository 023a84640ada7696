//! Databases on the PostgreSQL server that `./check` starts.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The address of a fresh database.
///
/// # Panics
/// When `BULKHEAD_TEST_POSTGRES` is unset: a test that needs the server must not pass without it.
#[must_use]
pub fn database() -> String {
    let server = std::env::var("BULKHEAD_TEST_POSTGRES")
        .expect("BULKHEAD_TEST_POSTGRES must name a PostgreSQL server; ./check starts one and sets this");
    let name = format!("test_{}", uuid::Uuid::now_v7().simple());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut connection = PgConnection::connect(&server).await.expect("the server answers");
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(&mut connection).await.expect("a database is made");
    });
    let (address, _) = server.rsplit_once('/').expect("the address names a database");
    format!("{address}/{name}")
}
