//! `bulkhead key`.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::Duration;

use policies::WindowCap;
use serde_json::{Value, json};
use tenant::{
    Allowed, AtMost, Concurrency, Expiry, KeyId, KeyLimits, KeyRecord, KeySpec, Mode, Name, Project, Purpose,
    Reach, Revoked, Role, Scopes, Store, Tenant, UnixMillis,
};

use super::projects::project;
use super::{existing, now, open, refused};
use crate::cli::{KeyCommand, KeyCreate, KeyFor, ScopeArgs};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form, printable};

const KEEP: &str = "Keep it: it is not stored and cannot be shown again.";

pub(crate) async fn run_key(data: &DataDir, command: KeyCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        KeyCommand::Create(asked) => create(&store, &asked).await,
        KeyCommand::List { tenant, json } => list(&store, tenant.as_deref(), Form::of(json)).await,
        KeyCommand::Rotate { id, overlap, json } => rotate(&store, &id, overlap, Form::of(json)).await,
        KeyCommand::Revoke { id, json } => revoke(&store, &id, Form::of(json)).await,
    }
}

async fn create(store: &Store, asked: &KeyCreate) -> Result<(), Failure> {
    let tenant = match &asked.tenant {
        Some(name) => Some(existing(store, name).await?),
        None => None,
    };
    let spec = KeySpec {
        name: named(&asked.name)?,
        purpose: purpose(store, asked, tenant.as_ref()).await?,
        limits: KeyLimits {
            window_cap: asked
                .window_cap
                .and_then(NonZeroU32::new)
                .map_or(WindowCap::Inherit, WindowCap::Tokens),
            concurrency: asked
                .concurrency
                .and_then(NonZeroU32::new)
                .map_or(Concurrency::Inherit, Concurrency::AtMost),
        },
        expires: asked.expires.map_or(Expiry::Never, |time| Expiry::At(now().after(time))),
    };
    let made = store.create_key(spec, now()).await;
    let (record, key) = made.map_err(|error| refused("make the key", &error))?;
    match Form::of(asked.json) {
        Form::Json => present::json(&with_key(key_json(&record, tenant.as_ref()), key.expose())),
        Form::Table => {
            present::line(key.expose())?;
            present::line(KEEP)
        }
    }
}

async fn purpose(store: &Store, asked: &KeyCreate, tenant: Option<&Tenant>) -> Result<Purpose, Failure> {
    let of_tenant = || {
        let why = "--tenant NAME is needed: only the keys of persons (--for owner, admin, member or auditor) can be for all tenants";
        tenant.ok_or_else(|| Failure::new(Exit::Usage, why))
    };
    let service = async |mode| {
        let tenant = of_tenant()?;
        let project = project(store, tenant, &asked.project).await?.id;
        Ok(Purpose::Service { tenant: tenant.id, project, mode, scopes: scopes(&asked.scopes) })
    };
    let person = |role| {
        let reach = tenant.map_or(Reach::Installation, |tenant| Reach::Tenant(tenant.id));
        Ok(Purpose::Person { reach, role })
    };
    let asks_models = matches!(asked.purpose, KeyFor::Live | KeyFor::Test);
    if !asks_models && scopes(&asked.scopes) != Scopes::default() {
        // Dropped in silence, they would be relied on.
        let why = "--model, --endpoint, --from, --prompt-max and --output-max are for keys that ask models: --for live or test";
        return Err(Failure::new(Exit::Usage, why));
    }
    match asked.purpose {
        KeyFor::Live => service(Mode::Live).await,
        KeyFor::Test => service(Mode::Test).await,
        KeyFor::Audit => Ok(Purpose::Auditor { tenant: of_tenant()?.id }),
        KeyFor::Owner => person(Role::Owner),
        KeyFor::Admin => person(Role::Admin),
        KeyFor::Member => person(Role::Member),
        KeyFor::Auditor => person(Role::Auditor),
    }
}

fn scopes(asked: &ScopeArgs) -> Scopes {
    fn only<T: Clone>(named: &[T]) -> Allowed<T> {
        if named.is_empty() { Allowed::All } else { Allowed::Only(named.to_vec()) }
    }
    let at_most =
        |tokens: Option<u32>| tokens.and_then(NonZeroU32::new).map_or(AtMost::Inherit, AtMost::Tokens);
    Scopes {
        models: only(&asked.model),
        endpoints: only(&asked.endpoint),
        addresses: only(&asked.from),
        prompt_max: at_most(asked.prompt_max),
        output_max: at_most(asked.output_max),
    }
}

fn named(name: &str) -> Result<Name, Failure> {
    Name::new(name).map_err(|error| Failure::new(Exit::Usage, format_args!("the key's name: {error}")))
}

/// Makes a key of the tenant's first project that may do all, and returns it as its holder presents it: the one time that it is
/// seen.
pub(crate) async fn create_key(
    store: &Store,
    tenant: &Tenant,
    name: &str,
    limits: KeyLimits,
) -> Result<(KeyRecord, String), Failure> {
    let project = project(store, tenant, Project::DEFAULT).await?.id;
    let purpose =
        Purpose::Service { tenant: tenant.id, project, mode: Mode::Live, scopes: Scopes::default() };
    let spec = KeySpec { name: named(name)?, purpose, limits, expires: Expiry::Never };
    let (record, secret) =
        store.create_key(spec, now()).await.map_err(|error| refused("make the key", &error))?;
    Ok((record, secret.expose().clone()))
}

async fn list(store: &Store, tenant: Option<&str>, form: Form) -> Result<(), Failure> {
    let only = match tenant {
        Some(name) => Some(existing(store, name).await?.id),
        None => None,
    };
    let tenants = store.list_tenants().await.doing(Exit::Store, "list the tenants")?;
    let by_id: HashMap<String, &Tenant> =
        tenants.iter().map(|tenant| (tenant.id.to_string(), tenant)).collect();
    let keys = store.list_keys().await.doing(Exit::Store, "list the keys")?;
    let of =
        |key: &KeyRecord| key.purpose.tenant().and_then(|tenant| by_id.get(&tenant.to_string()).copied());
    let shown =
        keys.iter().filter(|key| only.is_none() || key.purpose.tenant() == only).map(|key| (key, of(key)));
    match form {
        Form::Json => present::json(&shown.map(|(key, tenant)| key_json(key, tenant)).collect()),
        Form::Table => {
            let rows = shown.map(|(key, tenant)| key_row(key, tenant)).collect::<Vec<_>>();
            present::table(&["ID", "FOR", "TENANT", "NAME", "STATE", "WINDOW CAP", "CONCURRENCY"], &rows)
        }
    }
}

pub(super) fn id_of(text: &str) -> Result<KeyId, Failure> {
    KeyId::parse(text).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "this is no key id: it has 12 letters and digits, as `bulkhead key list` shows it; give the id, not the key",
        )
    })
}

async fn rotate(store: &Store, id: &str, overlap: Duration, form: Form) -> Result<(), Failure> {
    let id = id_of(id)?;
    let rotated = store.rotate_key(id, overlap, now()).await;
    let rotated = rotated.map_err(|error| refused("rotate the key", &error))?;
    match form {
        Form::Json => {
            let shown = json!({ "id": id.to_string(), "old_ends_ms": rotated.old_ends.get() });
            present::json(&with_key(shown, rotated.key.expose()))
        }
        Form::Table => {
            present::line(rotated.key.expose())?;
            present::line(KEEP)?;
            present::line(&format!("The secret before it works for {} s more.", overlap.as_secs()))
        }
    }
}

async fn revoke(store: &Store, id: &str, form: Form) -> Result<(), Failure> {
    let known = id_of(id)?;
    let revoked = store.revoke_key(known, now()).await.map_err(|error| refused("revoke the key", &error))?;
    match form {
        Form::Json => present::json(&json!({ "id": known.to_string(), "revoked": true })),
        Form::Table => present::line(match revoked {
            Revoked::Now => "revoked; a running server refuses it within a second, and cuts what runs of it",
            Revoked::Before(_) => "it was revoked before; nothing changed",
        }),
    }
}

/// The one time that a key is shown.
fn with_key(mut shown: Value, key: &str) -> Value {
    if let Some(object) = shown.as_object_mut() {
        object.insert("key".to_owned(), Value::from(key));
    }
    shown
}

/// What `--for` calls it.
const fn purpose_name(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Service { .. } | Purpose::Auditor { .. } => purpose.kind().name(),
        Purpose::Person { role, .. } => role.name(),
    }
}

fn key_json(key: &KeyRecord, tenant: Option<&Tenant>) -> Value {
    let (project, scopes) = match &key.purpose {
        Purpose::Service { project, scopes, .. } => (Some(project.to_string()), json!(scopes)),
        Purpose::Person { .. } | Purpose::Auditor { .. } => (None, Value::Null),
    };
    let moment = |expiry: Expiry| match expiry {
        Expiry::Never => None,
        Expiry::At(moment) => Some(moment.get()),
    };
    let secrets: Vec<Value> = key
        .secrets
        .iter()
        .map(|secret| {
            json!({
                "serial": secret.serial,
                "created_ms": secret.created.get(),
                "ends_ms": moment(secret.ends),
                "used_ms": secret.used.map(UnixMillis::get),
            })
        })
        .collect();
    json!({
        "id": key.id.to_string(),
        "for": purpose_name(&key.purpose),
        "tenant": tenant.map(|tenant| tenant.name.as_str()),
        "tenant_id": key.purpose.tenant().map(|tenant| tenant.to_string()),
        "project_id": project,
        "name": key.name.as_str(),
        "scopes": scopes,
        "window_cap": window_cap(key),
        "concurrency": concurrency(key),
        "created_ms": key.created.get(),
        "expires_ms": moment(key.expires),
        "revoked_ms": key.revoked.map(UnixMillis::get),
        "secrets": secrets,
    })
}

fn key_row(key: &KeyRecord, tenant: Option<&Tenant>) -> Vec<String> {
    let state = match (key.revoked, key.expires.has_passed(now())) {
        (Some(_), _) => "revoked",
        (None, true) => "expired",
        (None, false) => "works",
    };
    let or_inherit =
        |number: Option<u32>| number.map_or_else(|| "inherit".to_owned(), |number| number.to_string());
    let all = || key.purpose.tenant().map_or_else(|| "(all)".to_owned(), |tenant| tenant.to_string());
    vec![
        key.id.to_string(),
        purpose_name(&key.purpose).to_owned(),
        tenant.map_or_else(all, |tenant| printable(tenant.name.as_str())),
        printable(key.name.as_str()),
        state.to_owned(),
        or_inherit(window_cap(key)),
        or_inherit(concurrency(key)),
    ]
}

fn window_cap(key: &KeyRecord) -> Option<u32> {
    match key.limits.window_cap {
        WindowCap::Inherit => None,
        WindowCap::Tokens(tokens) => Some(tokens.get()),
    }
}

fn concurrency(key: &KeyRecord) -> Option<u32> {
    match key.limits.concurrency {
        Concurrency::Inherit => None,
        Concurrency::AtMost(limit) => Some(limit.get()),
    }
}
