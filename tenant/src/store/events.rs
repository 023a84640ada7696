//! What was changed, by whom: an event for each change, written in the change's own transaction, so that there is neither a change
//! without its event nor an event without its change.
//!
//! Architecture invariant: an event holds what listings show; no secret, digest or pepper.

use serde_json::Value;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::key::KeyId;
use crate::purpose::Reach;
use crate::store::change::Change;
use crate::store::{Store, TenantId, row};
use crate::time::UnixMillis;

/// Changes whose events are kept; older ones are forgotten. Who must keep them longer reads them before that.
pub const EVENT_CHANGES_KEPT: u32 = 1_000_000;
/// Bytes of JSON that an event says of how something was, and as many of how it became. What is longer is said by its length
/// alone; nothing that a store takes is.
pub const EVENT_BYTES_MAX: usize = 32 * 1024;
/// Events that are read at once.
pub const EVENTS_PAGE_MAX: u32 = 1_000;

/// Who changes a store.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Actor {
    /// Somebody at the command line, who has the store's files or its address.
    CommandLine,
    /// The holder of this key.
    Key(KeyId),
    /// A program of ours, by itself.
    System,
}

impl Actor {
    const COMMAND_LINE: &'static str = "command_line";
    const SYSTEM: &'static str = "system";

    /// As it stands in listings and in the store: a word, or a key's id.
    pub fn name(&self) -> &str {
        match self {
            Self::CommandLine => Self::COMMAND_LINE,
            Self::Key(id) => id.as_str(),
            Self::System => Self::SYSTEM,
        }
    }

    fn read(stored: &str) -> Result<Self, StoreError> {
        match stored {
            // Its 12 characters are no id: `_` is no digit.
            Self::COMMAND_LINE => Ok(Self::CommandLine),
            Self::SYSTEM => Ok(Self::System),
            id => KeyId::parse(id).map(Self::Key).ok_or_else(|| row::damaged("events", "actor")),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Action {
    /// A tenant was made.
    TenantCreate,
    /// A tenant's name, state or share was changed.
    TenantChange,
    /// A project was made.
    ProjectCreate,
    /// A key was made.
    KeyCreate,
    /// A key was given a new secret.
    KeyRotate,
    /// A key was ended.
    KeyRevoke,
    /// The limits of a scope were set.
    LimitChange,
    /// A budget was set or lifted.
    BudgetChange,
    /// What a gateway had not used of its parts of budgets was taken back.
    BudgetRelease,
    /// The price list was set.
    PriceChange,
}

impl Action {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::TenantCreate,
        Self::TenantChange,
        Self::ProjectCreate,
        Self::KeyCreate,
        Self::KeyRotate,
        Self::KeyRevoke,
        Self::LimitChange,
        Self::BudgetChange,
        Self::BudgetRelease,
        Self::PriceChange,
    ];

    /// As it stands in listings and in the store: the kind of thing, and what was done to it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TenantCreate => "tenant.create",
            Self::TenantChange => "tenant.change",
            Self::ProjectCreate => "project.create",
            Self::KeyCreate => "key.create",
            Self::KeyRotate => "key.rotate",
            Self::KeyRevoke => "key.revoke",
            Self::LimitChange => "limit.change",
            Self::BudgetChange => "budget.change",
            Self::BudgetRelease => "budget.release",
            Self::PriceChange => "price.change",
        }
    }

    /// The kind of thing that it was done to.
    pub fn kind(self) -> &'static str {
        self.name().split('.').next().unwrap_or_default()
    }

    fn read(stored: &str) -> Result<Self, StoreError> {
        let found = Self::ALL.into_iter().find(|action| action.name() == stored);
        found.ok_or_else(|| row::damaged("events", "action"))
    }
}

/// Where an event stands in the order of all: by its change, and within that from 1.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct EventId {
    /// The number of the revision that the change made.
    pub revision: i64,
    /// Which of its events.
    pub part: u32,
}

impl EventId {
    /// Before all.
    pub const NONE: Self = Self { revision: 0, part: 0 };
    /// Digits and a `-` of the longest.
    pub const CHARS_MAX: usize = 30;

    /// Reads what [`EventId`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (revision, part) = text.split_once('-')?;
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_one = text.len() <= Self::CHARS_MAX && are_digits(revision) && are_digits(part);
        is_one.then_some(())?;
        Some(Self { revision: revision.parse().ok()?, part: part.parse().ok()? })
    }
}

impl core::fmt::Display for EventId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}-{}", self.revision, self.part)
    }
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Where it stands in the order of all.
    pub id: EventId,
    /// When.
    pub at: UnixMillis,
    /// By whom.
    pub actor: Actor,
    /// What was done.
    pub action: Action,
    /// The id of what it was done to, as listings show it; of limits, the scope.
    pub subject: String,
    /// Whose it is; none for what is nobody's, as an operator's key.
    pub tenant: Option<TenantId>,
    /// How it was; none for what was not there.
    pub before: Option<Value>,
    /// How it became.
    pub after: Option<Value>,
}

impl Event {
    fn read(row: &AnyRow) -> Result<Self, StoreError> {
        let json = |place: usize, column| {
            let text: Option<&str> = row.try_get(place)?;
            text.map(serde_json::from_str).transpose().map_err(|_| row::damaged("events", column))
        };
        let tenant: Option<&[u8]> = row.try_get(6)?;
        let part = u32::try_from(row.try_get::<i64, _>(1)?).map_err(|_| row::damaged("events", "part"))?;
        Ok(Self {
            id: EventId { revision: row.try_get(0)?, part },
            at: row::millis(row.try_get(2)?, "events", "at_ms")?,
            actor: Actor::read(row.try_get(3)?)?,
            action: Action::read(row.try_get(4)?)?,
            subject: row.try_get::<&str, _>(5)?.to_owned(),
            tenant: tenant.map(|stored| row::tenant_id(stored, "events", "tenant")).transpose()?,
            before: json(7, "before")?,
            after: json(8, "after")?,
        })
    }
}

/// What a change tells of itself.
pub(super) struct Told {
    pub(super) action: Action,
    /// The id of what it was done to.
    pub(super) subject: String,
    pub(super) tenant: Option<TenantId>,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

impl Store {
    /// Refuses a change by a key that was revoked, or whose tenant was suspended, after its request was let in.
    pub(super) async fn demand_actor(&self, change: &mut Change) -> Result<(), StoreError> {
        let Actor::Key(id) = self.actor else { return Ok(()) };
        let working: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM api_keys k LEFT JOIN tenants t ON t.id = k.tenant
             WHERE k.id = $1 AND k.revoked_ms IS NULL AND t.suspended_ms IS NULL",
        )
        .bind(id.as_str())
        .fetch_one(change.on())
        .await?;
        if working == 1 { Ok(()) } else { Err(StoreError::ActorEnded) }
    }

    /// Another handle on the same store, whose changes are this actor's.
    #[must_use]
    pub fn acting_as(&self, actor: Actor) -> Self {
        Self { actor, ..self.clone() }
    }

    /// Writes the event of a change, within it.
    pub(super) async fn tell(
        &self,
        change: &mut Change,
        now: UnixMillis,
        told: Told,
    ) -> Result<(), StoreError> {
        let Told { action, subject, tenant, before, after } = told;
        let revision = change.revision();
        sqlx::query(
            "INSERT INTO events (revision, part, at_ms, actor, action, subject, tenant, before, after)
             VALUES ($1, (SELECT count(*) + 1 FROM events WHERE revision = $1), $2, $3, $4, $5, $6, $7, $8)",
        )
        .bind(revision)
        .bind(now.get())
        .bind(self.actor.name())
        .bind(action.name())
        .bind(&subject)
        .bind(tenant.as_ref().map(|tenant| tenant.bytes().as_slice()))
        .bind(before.map(bounded))
        .bind(after.map(bounded))
        .execute(change.on())
        .await?;
        sqlx::query("DELETE FROM events WHERE revision <= $1")
            .bind(revision.saturating_sub(self.room.event_changes.into()))
            .execute(change.on())
            .await?;
        self.note_subject(change, &subject).await
    }

    /// What was changed after `after`, the oldest first: of one tenant, or of all and of what is nobody's. At most `most` of them,
    /// and at most [`EVENTS_PAGE_MAX`].
    ///
    /// # Errors
    /// As the database reports.
    pub async fn events(&self, of: Reach, after: EventId, most: u32) -> Result<Vec<Event>, StoreError> {
        macro_rules! select {
            ($which:literal) => {
                concat!(
                    "SELECT revision, part, at_ms, actor, action, subject, tenant, before, after FROM events
                     WHERE (revision > $1 OR (revision = $1 AND part > $2)) ",
                    $which,
                    " ORDER BY revision, part LIMIT $3"
                )
            };
        }
        let most = i64::from(most.min(EVENTS_PAGE_MAX));
        let query = match &of {
            Reach::Installation => sqlx::query(select!("")),
            Reach::Tenant(_) => sqlx::query(select!("AND tenant = $4")),
        };
        let query = query.bind(after.revision).bind(i64::from(after.part)).bind(most);
        let query = match of {
            Reach::Installation => query,
            Reach::Tenant(tenant) => query.bind(tenant.bytes().to_vec()),
        };
        query.fetch_all(&self.pool).await?.iter().map(Event::read).collect()
    }
}

fn bounded(value: Value) -> String {
    let text = value.to_string();
    if text.len() <= EVENT_BYTES_MAX {
        return text;
    }
    serde_json::json!({ "too_long_bytes": text.len() }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_s_id_is_read_back_and_nothing_else_is() {
        let id = EventId { revision: i64::MAX, part: u32::MAX };
        assert_eq!((id.to_string().len(), EventId::parse(&id.to_string())), (EventId::CHARS_MAX, Some(id)));
        assert_eq!(EventId::parse("0-0"), Some(EventId::NONE));
        for bad in ["", "1", "-", "1-", "-1", "+1-1", "1-+1", "1-1-1", "a-1", "9223372036854775808-1"] {
            assert_eq!(EventId::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn each_action_has_a_name_of_its_own_that_is_read_back() {
        for action in Action::ALL {
            assert_eq!(Action::read(action.name()).unwrap(), action);
            assert!(["tenant", "project", "key", "limit", "budget", "price"].contains(&action.kind()));
        }
        assert!(Action::read("tenant.burn").is_err());
    }

    #[test]
    fn what_is_too_long_is_said_by_its_length() {
        let text = Value::from("x".repeat(EVENT_BYTES_MAX - 2));
        assert_eq!(bounded(text.clone()), text.to_string());
        assert_eq!(bounded(Value::from("x".repeat(EVENT_BYTES_MAX - 1))), r#"{"too_long_bytes":32769}"#);
    }
}
