//! What was changed, by whom: an event for each change, written in the change's own transaction, so that there is neither a change
//! without its event nor an event without its change.
//!
//! Architecture invariant: an event holds what listings show; no secret, digest or pepper.

use serde_json::Value;
use sqlx::Row;
use sqlx::any::AnyRow;

use crate::error::StoreError;
use crate::leak::FoundAt;
use crate::purpose::Reach;
use crate::store::actor::Actor;
use crate::store::change::Change;
use crate::store::event_id::{EventId, Place, Seal};
use crate::store::{Store, TenantId, row};
use crate::time::UnixMillis;

/// Bytes of JSON that an event says of how something was, and as many of how it became. What is longer is said by its length
/// alone; only a price list of several hundred models is.
pub const EVENT_BYTES_MAX: usize = 32 * 1024;
/// Events that are read at once.
pub const EVENTS_PAGE_MAX: u32 = 1_000;

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

/// A change that was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Names it; the listing after it goes on where it stands.
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
    /// Why, where that was said.
    pub reason: Option<Reason>,
}

/// Why a change was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reason {
    /// The key was found where it should not be; there, as far as that may be kept.
    Leaked(Option<FoundAt>),
}

impl Reason {
    const LEAKED: &'static str = "leaked";

    /// As it stands in listings and in the store.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Leaked(_) => Self::LEAKED,
        }
    }

    fn found_at(&self) -> Option<&str> {
        match self {
            Self::Leaked(found_at) => found_at.as_ref().map(FoundAt::as_str),
        }
    }

    fn read(name: Option<&str>, found_at: Option<&str>) -> Result<Option<Self>, StoreError> {
        let Some(name) = name else { return Ok(None) };
        if name != Self::LEAKED {
            return Err(row::damaged("events", "reason"));
        }
        let stored = |text| FoundAt::stored(text).ok_or_else(|| row::damaged("events", "found_at"));
        Ok(Some(Self::Leaked(found_at.map(stored).transpose()?)))
    }
}

impl Event {
    fn read(row: &AnyRow, seal: &Seal) -> Result<Self, StoreError> {
        let json = |place: usize, column| {
            let text: Option<&str> = row.try_get(place)?;
            text.map(serde_json::from_str).transpose().map_err(|_| row::damaged("events", column))
        };
        let tenant: Option<&[u8]> = row.try_get(6)?;
        let part = u32::try_from(row.try_get::<i64, _>(1)?).map_err(|_| row::damaged("events", "part"))?;
        Ok(Self {
            id: seal.close(Place { revision: row.try_get(0)?, part }),
            at: row::millis(row.try_get(2)?, "events", "at_ms")?,
            actor: Actor::read(row.try_get(3)?)?,
            action: Action::read(row.try_get(4)?)?,
            subject: row.try_get::<&str, _>(5)?.to_owned(),
            tenant: tenant.map(|stored| row::tenant_id(stored, "events", "tenant")).transpose()?,
            before: json(7, "before")?,
            after: json(8, "after")?,
            reason: Reason::read(row.try_get(9)?, row.try_get(10)?)?,
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
    /// Writes the event of a change, within it.
    pub(super) async fn tell(
        &self,
        change: &mut Change,
        now: UnixMillis,
        told: Told,
    ) -> Result<(), StoreError> {
        self.tell_why(change, now, told, None).await
    }

    /// The same, and why the change was made.
    pub(super) async fn tell_why(
        &self,
        change: &mut Change,
        now: UnixMillis,
        told: Told,
        reason: Option<&Reason>,
    ) -> Result<(), StoreError> {
        let Told { action, subject, tenant, before, after } = told;
        let revision = change.revision();
        sqlx::query(
            "INSERT INTO events (revision, part, at_ms, actor, action, subject, tenant, before, after, reason, found_at)
             VALUES ($1, (SELECT count(*) + 1 FROM events WHERE revision = $1), $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(revision)
        .bind(now.get())
        .bind(self.actor.stored())
        .bind(action.name())
        .bind(&subject)
        .bind(tenant.as_ref().map(|tenant| tenant.bytes().as_slice()))
        .bind(before.map(bounded))
        .bind(after.map(bounded))
        .bind(reason.map(|reason| reason.name()))
        .bind(reason.and_then(|reason| reason.found_at().map(ToOwned::to_owned)))
        .execute(change.on())
        .await?;
        self.count_event(change, tenant).await?;
        self.note_subject(change, &subject).await
    }

    /// What was changed after this event, or ever, the oldest first: of one tenant, or of all and of what is nobody's. At most `most` of
    /// them, and at most [`EVENTS_PAGE_MAX`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchEvent`] where `after` is no event's of this store; as the database reports.
    pub async fn events(
        &self,
        of: Reach,
        after: Option<EventId>,
        most: u32,
    ) -> Result<Vec<Event>, StoreError> {
        self.prepare().await?;
        let seal = Seal::of(self.id().ok_or_else(|| row::damaged("identity", "id"))?);
        let after = after.map(|id| seal.open(id).ok_or(StoreError::NoSuchEvent)).transpose()?;
        let after = after.unwrap_or_default();
        macro_rules! select {
            ($which:literal) => {
                concat!(
                    "SELECT revision, part, at_ms, actor, action, subject, tenant, before, after, reason, found_at FROM events
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
        query.fetch_all(&self.pool).await?.iter().map(|row| Event::read(row, &seal)).collect()
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
