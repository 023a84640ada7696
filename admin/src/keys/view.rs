//! Keys as they are asked and shown.

use serde::{Deserialize, Serialize};
use tenant::{Expiry, KeyRecord, Mode, Purpose, Role, SecretRecord, UnixMillis};
use utoipa::ToSchema;

use crate::asked::{given, given_object};
use crate::bound::{ConcurrencyValue, WindowValue};
use crate::scopes::ScopesView;

/// What a key is for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum KeyFor {
    /// Asks models.
    Live,
    /// Asks models, and is listed apart in usage.
    Test,
    /// Reads a tenant's part of the audit log.
    Audit,
    /// A person who may do all.
    Owner,
    /// A person who may do all but make keys of persons.
    Admin,
    /// A person who makes, rotates and revokes service keys.
    Member,
    /// A person who reads, and changes nothing.
    Auditor,
}

/// A key, without its secrets.
#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
pub(crate) struct KeyView {
    id: String,
    name: String,
    r#for: KeyFor,
    /// Whose; null for an operator's.
    #[schema(required)]
    tenant_id: Option<String>,
    /// On whose account it asks; null for one that asks no models.
    #[schema(required)]
    project_id: Option<String>,
    /// What it may be used for; null for one that asks no models.
    #[schema(required)]
    scopes: Option<ScopesView>,
    window_cap: WindowValue,
    concurrency: ConcurrencyValue,
    created_ms: i64,
    /// When it stops working by itself; null for never.
    #[schema(required)]
    expires_ms: Option<i64>,
    /// When it was revoked; null while it is not.
    #[schema(required)]
    revoked_ms: Option<i64>,
    /// The newest last; two at most.
    secrets: Vec<SecretView>,
}

/// What is known of one secret of a key.
#[derive(Serialize, ToSchema)]
#[schema(as = SecretOfKey)]
struct SecretView {
    #[schema(minimum = 1)]
    serial: u32,
    created_ms: i64,
    /// When it stops working, if not with its key.
    #[schema(required)]
    ends_ms: Option<i64>,
    /// When it was last seen to be used.
    #[schema(required)]
    used_ms: Option<i64>,
}

/// A key with its new secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct KeyWithSecret {
    #[serde(flatten)]
    pub(crate) shown: KeyView,
    /// The whole key, as its holder presents it. It is shown here and never again.
    pub(crate) key: String,
}

/// A key to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    #[schema(min_length = 1, max_length = 128)]
    pub(crate) name: String,
    pub(crate) r#for: KeyFor,
    /// Whose; the asker's own tenant where it is left out. An operator must say it.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub(crate) tenant_id: Option<String>,
    /// On whose account it asks; the project `default` where it is left out. For `live` and `test` alone.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub(crate) project_id: Option<String>,
    /// For `live` and `test` alone.
    #[serde(default, deserialize_with = "given_object")]
    #[schema(nullable = false)]
    pub(crate) scopes: Option<ScopesView>,
    /// For `live` and `test` alone.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub(crate) window_cap: Option<WindowValue>,
    /// For `live` and `test` alone.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    pub(crate) concurrency: Option<ConcurrencyValue>,
    /// When it shall stop working by itself; never where it is left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, minimum = 0)]
    pub(crate) expires_ms: Option<i64>,
}

/// How a key is given a new secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotation {
    /// Seconds for which the secret before it works on; a day where it is left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, maximum = 2592000)]
    pub(crate) overlap_s: Option<u32>,
}

pub(crate) fn view(key: &KeyRecord) -> KeyView {
    let (project, scopes) = match &key.purpose {
        Purpose::Service { project, scopes, .. } => (Some(project), Some(ScopesView::of(scopes))),
        Purpose::Person { .. } | Purpose::Auditor { .. } => (None, None),
    };
    KeyView {
        id: key.id.to_string(),
        name: key.name.as_str().to_owned(),
        r#for: key_for(&key.purpose),
        tenant_id: key.purpose.tenant().map(|tenant| tenant.to_string()),
        project_id: project.map(ToString::to_string),
        scopes,
        window_cap: key.limits.window_cap.into(),
        concurrency: key.limits.concurrency.into(),
        created_ms: key.created.get(),
        expires_ms: moment(key.expires),
        revoked_ms: key.revoked.map(UnixMillis::get),
        secrets: key.secrets.iter().map(secret).collect(),
    }
}

fn secret(secret: &SecretRecord) -> SecretView {
    SecretView {
        serial: secret.serial,
        created_ms: secret.created.get(),
        ends_ms: moment(secret.ends),
        used_ms: secret.used.map(UnixMillis::get),
    }
}

const fn key_for(purpose: &Purpose) -> KeyFor {
    match purpose {
        Purpose::Service { mode: Mode::Live, .. } => KeyFor::Live,
        Purpose::Service { mode: Mode::Test, .. } => KeyFor::Test,
        Purpose::Auditor { .. } => KeyFor::Audit,
        Purpose::Person { role: Role::Owner, .. } => KeyFor::Owner,
        Purpose::Person { role: Role::Admin, .. } => KeyFor::Admin,
        Purpose::Person { role: Role::Member, .. } => KeyFor::Member,
        Purpose::Person { role: Role::Auditor, .. } => KeyFor::Auditor,
    }
}

const fn moment(expiry: Expiry) -> Option<i64> {
    match expiry {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    }
}
