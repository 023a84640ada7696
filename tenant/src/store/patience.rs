//! How long a database is waited for. A server that takes connections and says nothing must hold nobody up who follows it.

use std::io;
use std::time::Duration;

use tokio::time::timeout;

use crate::error::StoreError;

/// From a short question to its answer, the way to the server and its greeting among them.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// From a question about many rows to its answer: as long as a server works on a statement before it gives it up.
const ROWS_MAX: Duration = Duration::from_secs(30);
/// For all migrations together, other openers' before ours among them.
const MIGRATION_MAX: Duration = Duration::from_secs(600);

/// The longest waits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub(super) answer_max: Duration,
    pub(super) rows_max: Duration,
    pub(super) migration_max: Duration,
}

impl Patience {
    pub(super) const USUAL: Self =
        Self { answer_max: ANSWER_MAX, rows_max: ROWS_MAX, migration_max: MIGRATION_MAX };

    /// The answer to a short question, if it comes in time.
    pub(super) async fn answer<T>(
        self,
        asked: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        in_time(self.answer_max, asked).await
    }

    /// The answer to a question about many rows, if it comes in time.
    pub(super) async fn rows<T>(
        self,
        asked: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        in_time(self.rows_max, asked).await
    }
}

/// What comes of work on a connection, if it is done in time.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timeout(limit, work).await.map_err(|_| sqlx::Error::Io(too_late(limit)))?
}

/// A wait that is over is an error of the connection: nobody knows what became of what was said on it.
async fn in_time<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let late = |_| sqlx::Error::Io(too_late(limit));
    timeout(limit, asked).await.map_err(late)?
}

/// Says what was waited for in vain.
pub(super) fn too_late(limit: Duration) -> io::Error {
    let why = format!("the database did not answer within {} s", limit.as_secs_f32());
    io::Error::new(io::ErrorKind::TimedOut, why)
}
