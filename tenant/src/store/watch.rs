//! Hints that a store has changed, as PostgreSQL tells them. Hints alone: who follows a store looks at it from time to time as well.

use core::time::Duration;

use sqlx::postgres::PgListener;

use crate::store::Store;
use crate::store::change::CHANNEL;

/// Between two tries to listen.
const RETRY: Duration = Duration::from_secs(1);

/// Listens to a store, or cannot.
pub(crate) enum Watch {
    /// An SQLite file tells nobody anything.
    Silent,
    /// What is listened with, while there is a connection.
    Server(Box<Option<PgListener>>),
}

impl Store {
    pub(crate) fn watch(&self) -> Watch {
        match self.address {
            Some(_) => Watch::Server(Box::new(None)),
            None => Watch::Silent,
        }
    }
}

impl Watch {
    /// Whether there is a connection on which changes are told.
    pub(crate) fn is_listening(&self) -> bool {
        matches!(self, Self::Server(listener) if listener.is_some())
    }

    /// Returns when something may have changed since the last call: at a notification, and at each new connection, before
    /// which some may have been lost. Never, where nobody tells.
    ///
    /// It can be dropped and called again: a notification that was not returned is returned then.
    pub(crate) async fn changed(&mut self, store: &Store) {
        let (Self::Server(listener), Some(address)) = (self, &store.address) else {
            return std::future::pending().await;
        };
        loop {
            if let Some(listening) = listener.as_mut() {
                if listening.try_recv().await.is_ok() {
                    // Also where the connection was lost: it is there again, and what was told meanwhile is not known.
                    return;
                }
                **listener = None;
                tokio::time::sleep(RETRY).await;
            }
            match store.patience.answer(listen(address.expose())).await {
                Ok(listening) => {
                    **listener = Some(listening);
                    return;
                }
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}

async fn listen(address: &str) -> Result<PgListener, sqlx::Error> {
    let mut listener = PgListener::connect(address).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
