//! Databases on the PostgreSQL server that `./check` starts.

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::line::Line;

/// The address of a database by way of a line, and the line.
///
/// # Panics
/// When the address names no host and port.
#[must_use]
pub fn by_line(address: &str) -> (String, Line) {
    let host = address.split('@').nth(1).and_then(|rest| rest.split('/').next()).expect("a host and a port");
    let line = Line::to(host.parse().expect("an address in numbers"));
    (address.replacen(host, &line.address.to_string(), 1), line)
}

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
