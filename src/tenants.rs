//! `bulkhead tenant` and `bulkhead key`: the store, from the command line.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::SystemTime;

use policies::WindowCap;
use serde_json::{Value, json};
use tenant::{
    Concurrency, Expiry, KeyId, KeyLimits, KeyRecord, KeySpec, MemoryCap, MemoryShare, Name, Pepper, Revoked,
    Store, StoreError, Tenant, UnixMillis,
};

use crate::cli::{KeyCommand, KeyCreate, ShareArgs, TenantCommand};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form, printable};

/// Opens the store of a data folder, and makes it when there is none.
pub(crate) async fn open(data: &DataDir) -> Result<Store, Failure> {
    let pepper = Pepper::load_or_create(&data.pepper())
        .doing(Exit::Store, format_args!("use {}", data.pepper().display()))?;
    Store::open(&data.database(), pepper)
        .await
        .doing(Exit::Store, format_args!("use {}", data.database().display()))
}

/// The clock of this command.
pub(crate) fn now() -> UnixMillis {
    UnixMillis::from_system(SystemTime::now())
}

pub(crate) async fn run_tenant(data: &DataDir, command: TenantCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        TenantCommand::Create { name, share, json } => {
            // Looked at before the tenant is made, so that a slip makes none.
            let share = changed(MemoryShare::default(), &share)?;
            let mut tenant = create_tenant(&store, &name).await?;
            if share != tenant.share {
                set_share(&store, &mut tenant, share).await?;
            }
            match Form::of(json) {
                Form::Json => present::json(&tenant_json(&tenant)),
                Form::Table => present::line(&format!(
                    "tenant {} has the id {}; next: bulkhead key create --tenant {0}",
                    printable(tenant.name.as_str()),
                    tenant.id
                )),
            }
        }
        TenantCommand::Share { name, share, json } => {
            let mut tenant = existing(&store, &name).await?;
            let share = changed(tenant.share, &share)?;
            set_share(&store, &mut tenant, share).await?;
            match Form::of(json) {
                Form::Json => present::json(&tenant_json(&tenant)),
                Form::Table => present::table(&TENANT_COLUMNS, &[tenant_row(&tenant)]),
            }
        }
        TenantCommand::List { json } => {
            let tenants = store.list_tenants().await.doing(Exit::Store, "list the tenants")?;
            match Form::of(json) {
                Form::Json => present::json(&tenants.iter().map(tenant_json).collect()),
                Form::Table => {
                    let rows = tenants.iter().map(tenant_row).collect::<Vec<_>>();
                    present::table(&TENANT_COLUMNS, &rows)
                }
            }
        }
    }
}

const TENANT_COLUMNS: [&str; 5] = ["ID", "NAME", "FLOOR", "CAP", "WEIGHT"];

fn tenant_row(tenant: &Tenant) -> Vec<String> {
    let MemoryShare { floor, cap, weight } = tenant.share;
    let cap = match cap {
        MemoryCap::Pool => "pool".to_owned(),
        MemoryCap::Tokens(tokens) => tokens.to_string(),
    };
    let (id, name) = (tenant.id.to_string(), printable(tenant.name.as_str()));
    vec![id, name, floor.to_string(), cap, weight.to_string()]
}

/// The share with what was asked for in it.
fn changed(share: MemoryShare, asked: &ShareArgs) -> Result<MemoryShare, Failure> {
    MemoryShare {
        floor: asked.floor.unwrap_or(share.floor),
        cap: asked.cap.unwrap_or(share.cap),
        weight: asked.weight.and_then(NonZeroU32::new).unwrap_or(share.weight),
    }
    .checked()
    .map_err(|error| Failure::new(Exit::Usage, format_args!("the share: {error}")))
}

async fn set_share(store: &Store, tenant: &mut Tenant, share: MemoryShare) -> Result<(), Failure> {
    store.set_share(tenant.id, share).await.map_err(|error| refused("set the share", &error))?;
    tenant.share = share;
    Ok(())
}

pub(crate) async fn create_tenant(store: &Store, name: &str) -> Result<Tenant, Failure> {
    let name = Name::new(name)
        .map_err(|error| Failure::new(Exit::Usage, format_args!("the tenant's name: {error}")))?;
    store.create_tenant(name, now()).await.map_err(|error| refused("make the tenant", &error))
}

pub(crate) async fn run_key(data: &DataDir, command: KeyCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        KeyCommand::Create(asked) => create(&store, &asked).await,
        KeyCommand::List { tenant, json } => list(&store, tenant.as_deref(), Form::of(json)).await,
        KeyCommand::Revoke { id, json } => revoke(&store, &id, Form::of(json)).await,
    }
}

async fn create(store: &Store, asked: &KeyCreate) -> Result<(), Failure> {
    let tenant = existing(store, &asked.tenant).await?;
    let limits = KeyLimits {
        window_cap: asked.window_cap.and_then(NonZeroU32::new).map_or(WindowCap::Inherit, WindowCap::Tokens),
        concurrency: asked
            .concurrency
            .and_then(NonZeroU32::new)
            .map_or(Concurrency::Inherit, Concurrency::AtMost),
    };
    let (record, key) = create_key(store, &tenant, &asked.name, limits).await?;
    match Form::of(asked.json) {
        Form::Json => {
            let mut shown = key_json(&record, Some(&tenant));
            if let Some(object) = shown.as_object_mut() {
                object.insert("key".to_owned(), Value::from(key.as_str()));
            }
            present::json(&shown)
        }
        Form::Table => {
            present::line(&key)?;
            present::line("Keep it: it is not stored and cannot be shown again.")
        }
    }
}

/// Makes a key and returns it as its holder presents it: the one time that it is seen.
pub(crate) async fn create_key(
    store: &Store,
    tenant: &Tenant,
    name: &str,
    limits: KeyLimits,
) -> Result<(KeyRecord, String), Failure> {
    let name = Name::new(name)
        .map_err(|error| Failure::new(Exit::Usage, format_args!("the key's name: {error}")))?;
    let spec = KeySpec { name, limits, expires: Expiry::Never };
    let (record, secret) =
        store.create_key(tenant.id, spec, now()).await.map_err(|error| refused("make the key", &error))?;
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
    let shown = keys
        .iter()
        .filter(|key| only.is_none_or(|only| key.tenant == only))
        .map(|key| (key, by_id.get(&key.tenant.to_string()).copied()));
    match form {
        Form::Json => present::json(&shown.map(|(key, tenant)| key_json(key, tenant)).collect()),
        Form::Table => {
            let rows = shown.map(|(key, tenant)| key_row(key, tenant)).collect::<Vec<_>>();
            present::table(&["ID", "TENANT", "NAME", "STATE", "WINDOW CAP", "CONCURRENCY"], &rows)
        }
    }
}

async fn revoke(store: &Store, id: &str, form: Form) -> Result<(), Failure> {
    let known = KeyId::parse(id).ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "this is no key id: it has 12 letters and digits, as `bulkhead key list` shows it; give the id, not the key",
        )
    })?;
    let revoked = store.revoke_key(known, now()).await.map_err(|error| refused("revoke the key", &error))?;
    match form {
        Form::Json => present::json(&json!({ "id": known.to_string(), "revoked": true })),
        Form::Table => present::line(match revoked {
            Revoked::Now => "revoked; a running server refuses it within a second",
            Revoked::Before(_) => "it was revoked before; nothing changed",
        }),
    }
}

pub(crate) async fn existing(store: &Store, name: &str) -> Result<Tenant, Failure> {
    let found = store.find_tenant(name).await.doing(Exit::Store, "look the tenant up")?;
    found.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "there is no tenant of this name: `bulkhead tenant list` shows those there are",
        )
    })
}

/// The caller's mistakes end with 2, the operator's files with 10.
fn refused(doing: &str, error: &StoreError) -> Failure {
    let exit = match error {
        StoreError::NameTaken
        | StoreError::NoSuchTenant(_)
        | StoreError::NoSuchKey(_)
        | StoreError::WindowCapTooHigh { .. }
        | StoreError::ConcurrencyTooHigh { .. }
        | StoreError::BadShare(_)
        | StoreError::ExpiryPassed => Exit::Usage,
        StoreError::Full { .. }
        | StoreError::WrongPepper
        | StoreError::File(_)
        | StoreError::Schema(_)
        | StoreError::Database(_)
        | StoreError::Damaged { .. }
        | StoreError::NoRandomness => Exit::Store,
    };
    Failure::new(exit, format_args!("cannot {doing}: {error}"))
}

fn tenant_json(tenant: &Tenant) -> Value {
    let cap = match tenant.share.cap {
        MemoryCap::Pool => None,
        MemoryCap::Tokens(tokens) => Some(tokens.get()),
    };
    json!({
        "id": tenant.id.to_string(),
        "name": tenant.name.as_str(),
        "created_ms": tenant.created.get(),
        "floor": tenant.share.floor,
        "cap": cap,
        "weight": tenant.share.weight.get(),
    })
}

fn key_json(key: &KeyRecord, tenant: Option<&Tenant>) -> Value {
    json!({
        "id": key.id.to_string(),
        "tenant": tenant.map(|tenant| tenant.name.as_str()),
        "tenant_id": key.tenant.to_string(),
        "name": key.name.as_str(),
        "window_cap": window_cap(key),
        "concurrency": concurrency(key),
        "created_ms": key.created.get(),
        "expires_ms": match key.expires {
            Expiry::Never => None,
            Expiry::At(moment) => Some(moment.get()),
        },
        "revoked_ms": key.revoked.map(UnixMillis::get),
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
    vec![
        key.id.to_string(),
        tenant.map_or_else(|| key.tenant.to_string(), |tenant| printable(tenant.name.as_str())),
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
