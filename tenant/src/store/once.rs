//! Requests with a name of their own, which are done once however often they are sent: the name is written in the transaction of the
//! change, and what was answered beside it afterwards.
//!
//! Architecture invariant: an answer with a secret in it is never given to this module.

use core::time::Duration;
use std::sync::Arc;

use sqlx::Row;

use crate::error::StoreError;
use crate::fault::{Fault, seeded};
use crate::key::KeyId;
use crate::purpose::Reach;
use crate::store::change::Change;
use crate::store::{Store, row};
use crate::time::UnixMillis;

/// How long a request is known again.
pub const ANSWERS_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Requests of one tenant, or of all operators, that are known again.
pub const ANSWERS_PER_ACCOUNT_MAX: u32 = 10_000;
/// Requests that a store knows again.
pub const ANSWERS_MAX: u32 = 1_000_000;
/// Characters of a request's name.
pub const ONCE_NAME_CHARS_MAX: usize = 128;
/// Bytes of an answer that is kept.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A request with a name of its own.
#[derive(Debug)]
pub struct Once {
    /// On whose account names are counted.
    pub account: Reach,
    /// Who asks. The same name of another key is another request.
    pub actor: KeyId,
    /// What the request is called; at most [`ONCE_NAME_CHARS_MAX`] characters.
    pub name: String,
    /// SHA-256 of what is asked.
    pub request: [u8; 32],
    /// When it is asked.
    pub now: UnixMillis,
}

/// What is known of a request that was done before.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Before {
    /// Whether the same was asked then.
    pub is_same: bool,
    /// The id of what was made.
    pub subject: Option<String>,
    /// What was answered: status and body. None where that is not kept.
    pub answer: Option<(u16, String)>,
}

impl Once {
    fn account(&self) -> String {
        match self.account {
            Reach::Installation => "installation".to_owned(),
            Reach::Tenant(tenant) => tenant.to_string(),
        }
    }
}

impl Store {
    /// Another handle on the same store, whose next change is made only if no request of this name was done. It is for one change.
    #[must_use]
    pub fn once(&self, once: Once) -> Self {
        Self { once: Some(Arc::new(once)), ..self.clone() }
    }

    /// What is known of a request of this name; none if it was not done.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn done_before(&self, once: &Once) -> Result<Option<Before>, StoreError> {
        let oldest = oldest(once);
        let query = sqlx::query(
            "SELECT request, subject, status, body FROM answers WHERE account = $1 AND actor = $2 AND name = $3 AND at_ms > $4",
        );
        let query = query.bind(once.account()).bind(once.actor.as_str()).bind(&once.name).bind(oldest);
        let Some(row) = query.fetch_optional(&self.pool).await? else { return Ok(None) };
        let request: &[u8] = row.try_get(0)?;
        let subject: Option<&str> = row.try_get(1)?;
        let (status, body): (Option<i64>, Option<&str>) = (row.try_get(2)?, row.try_get(3)?);
        let answer = match (status, body) {
            (Some(status), Some(body)) => {
                let status = u16::try_from(status).map_err(|_| row::damaged("answers", "status"))?;
                Some((status, body.to_owned()))
            }
            (Some(_), None) | (None, Some(_) | None) => None,
        };
        Ok(Some(Before { is_same: request == once.request, subject: subject.map(ToOwned::to_owned), answer }))
    }

    /// Keeps what was answered to a request that was done. An answer above [`ANSWER_BYTES_MAX`] is not kept.
    ///
    /// # Errors
    /// As the database reports.
    pub async fn keep_answer(&self, once: &Once, status: u16, body: &str) -> Result<(), StoreError> {
        if body.len() > ANSWER_BYTES_MAX {
            return Ok(());
        }
        sqlx::query(
            "UPDATE answers SET status = $1, body = $2 WHERE account = $3 AND actor = $4 AND name = $5",
        )
        .bind(i64::from(status))
        .bind(body)
        .bind(once.account())
        .bind(once.actor.as_str())
        .bind(&once.name)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// Takes the name of the request that a change is made for, if it has one.
    pub(super) async fn claim_name(&self, change: &mut Change) -> Result<(), StoreError> {
        let Some(once) = &self.once else { return Ok(()) };
        sqlx::query("DELETE FROM answers WHERE at_ms <= $1").bind(oldest(once)).execute(change.on()).await?;
        let account = once.account();
        let theirs: i64 = sqlx::query_scalar("SELECT count(*) FROM answers WHERE account = $1")
            .bind(&account)
            .fetch_one(change.on())
            .await?;
        let all: i64 = sqlx::query_scalar("SELECT count(*) FROM answers").fetch_one(change.on()).await?;
        for (held, allowed) in [(theirs, self.room.answers_per_account), (all, ANSWERS_MAX)] {
            if held >= i64::from(allowed) {
                return Err(StoreError::TooManyAnswers { allowed });
            }
        }
        let taken = sqlx::query(
            "INSERT INTO answers (account, actor, name, request, at_ms) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        )
        .bind(account)
        .bind(once.actor.as_str())
        .bind(&once.name)
        .bind(once.request.as_slice())
        .bind(once.now.get())
        .execute(change.on())
        .await?;
        if taken.rows_affected() == 1 || seeded(Fault::DoneAgain) {
            Ok(())
        } else {
            Err(StoreError::Repeated)
        }
    }

    /// Notes what the request made: the first thing that its change tells of.
    pub(super) async fn note_subject(&self, change: &mut Change, subject: &str) -> Result<(), StoreError> {
        let Some(once) = &self.once else { return Ok(()) };
        sqlx::query(
            "UPDATE answers SET subject = $1 WHERE account = $2 AND actor = $3 AND name = $4 AND subject IS NULL",
        )
        .bind(subject)
        .bind(once.account())
        .bind(once.actor.as_str())
        .bind(&once.name)
        .execute(change.on())
        .await?;
        Ok(())
    }
}

/// What is this old, or older, is not known any more.
fn oldest(once: &Once) -> i64 {
    let kept = i64::try_from(ANSWERS_KEPT.as_millis()).unwrap_or(i64::MAX);
    once.now.get().saturating_sub(kept)
}
