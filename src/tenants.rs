//! `bulkhead tenant`, `project`, `key`, `limit`, `budget`, `price` and `usage`: the store, from the command line.

mod budgets;
mod keys;
mod limits;
mod money;
mod parts;
mod prices;
mod projects;
mod usage;

use std::env;
use std::num::NonZeroU32;
use std::time::SystemTime;

use serde_json::{Value, json};
use tenant::{
    Expect, MemoryCap, MemoryShare, Name, Pepper, Secret, ShareChange, Store, StoreError, Tenant,
    TenantChange, TenantState, UnixMillis,
};

use crate::cli::{ShareArgs, TenantCommand};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form, printable};

pub(crate) use budgets::run_budget;
pub(crate) use keys::{create_key, run_key};
pub(crate) use limits::run_limit;
pub(crate) use prices::run_price;
pub(crate) use projects::run_project;
pub(crate) use usage::run_usage;

/// Names the PostgreSQL database of tenants and keys; without it they lie in a file of the data folder. A variable, not an
/// argument: arguments are seen by every process of the machine, and this holds a password.
pub(crate) const STORE_URL: &str = "BULKHEAD_STORE_URL";

/// Opens the store: the PostgreSQL database that [`STORE_URL`] names, or the data folder's own file, which is made when there is
/// none.
pub(crate) async fn open(data: &DataDir) -> Result<Store, Failure> {
    match secret_variable(STORE_URL)? {
        Some(address) => Store::connect(address, pepper(data)?)
            .await
            .doing(Exit::Store, format_args!("use the database that {STORE_URL} names")),
        None => open_file(data).await,
    }
}

/// The same for a server, which starts without its database if it must.
pub(crate) async fn open_later(data: &DataDir) -> Result<Store, Failure> {
    match secret_variable(STORE_URL)? {
        Some(address) => Store::connect_later(address, pepper(data)?)
            .doing(Exit::Store, format_args!("use the database that {STORE_URL} names")),
        None => open_file(data).await,
    }
}

async fn open_file(data: &DataDir) -> Result<Store, Failure> {
    let opened = Store::open(&data.database(), pepper(data)?).await;
    opened.doing(Exit::Store, format_args!("use {}", data.database().display()))
}

fn pepper(data: &DataDir) -> Result<Pepper, Failure> {
    Pepper::load_or_create(&data.pepper()).doing(Exit::Store, format_args!("use {}", data.pepper().display()))
}

/// What the variable `name` holds, which may be a secret.
pub(crate) fn secret_variable(name: &str) -> Result<Option<Secret<String>>, Failure> {
    match env::var(name) {
        Ok(address) => Ok(Some(Secret::new(address))),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Failure::new(Exit::Usage, format_args!("{name} is no text")))
        }
    }
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
            let wanted = changed(MemoryShare::default(), &share)?;
            let mut tenant = create_tenant(&store, &name).await?;
            if wanted != tenant.share {
                change_share(&store, &mut tenant, &share).await?;
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
            // Looked at first, so that a slip is a slip of the command line.
            changed(tenant.share, &share)?;
            change_share(&store, &mut tenant, &share).await?;
            shown(&tenant, Form::of(json))
        }
        TenantCommand::Show { name, json } => shown(&existing(&store, &name).await?, Form::of(json)),
        TenantCommand::Suspend { name, json } => {
            let tenant = existing(&store, &name).await?;
            stand(&store, tenant, TenantState::Suspended(now()), Form::of(json)).await
        }
        TenantCommand::Resume { name, json } => {
            let tenant = existing(&store, &name).await?;
            stand(&store, tenant, TenantState::Active, Form::of(json)).await
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

const TENANT_COLUMNS: [&str; 6] = ["ID", "NAME", "STATE", "FLOOR", "CAP", "WEIGHT"];

fn shown(tenant: &Tenant, form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => present::json(&tenant_json(tenant)),
        Form::Table => present::table(&TENANT_COLUMNS, &[tenant_row(tenant)]),
    }
}

async fn stand(store: &Store, tenant: Tenant, state: TenantState, form: Form) -> Result<(), Failure> {
    let changed = store.set_state(tenant.id, state, now()).await;
    changed.map_err(|error| refused("change the tenant", &error))?;
    shown(&Tenant { state, ..tenant }, form)
}

const fn state(tenant: &Tenant) -> &'static str {
    match tenant.state {
        TenantState::Active => "active",
        TenantState::Suspended(_) => "suspended",
    }
}

fn tenant_row(tenant: &Tenant) -> Vec<String> {
    let MemoryShare { floor, cap, weight } = tenant.share;
    let cap = match cap {
        MemoryCap::Pool => "pool".to_owned(),
        MemoryCap::Tokens(tokens) => tokens.to_string(),
    };
    let (id, name) = (tenant.id.to_string(), printable(tenant.name.as_str()));
    vec![id, name, state(tenant).to_owned(), floor.to_string(), cap, weight.to_string()]
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

/// Changes what was asked for, whatever else was changed meanwhile.
async fn change_share(store: &Store, tenant: &mut Tenant, asked: &ShareArgs) -> Result<(), Failure> {
    let share =
        ShareChange { floor: asked.floor, cap: asked.cap, weight: asked.weight.and_then(NonZeroU32::new) };
    let asked = TenantChange { share, ..TenantChange::default() };
    let changed = store.change_tenant(tenant.id, &asked, Expect::Any, now()).await;
    *tenant = changed.map_err(|error| refused("set the share", &error))?;
    Ok(())
}

pub(crate) async fn create_tenant(store: &Store, name: &str) -> Result<Tenant, Failure> {
    let name = Name::new(name)
        .map_err(|error| Failure::new(Exit::Usage, format_args!("the tenant's name: {error}")))?;
    store.create_tenant(name, now()).await.map_err(|error| refused("make the tenant", &error))
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
        | StoreError::Stale
        | StoreError::Repeated
        | StoreError::TooManyAnswers { .. }
        | StoreError::NoSuchTenant(_)
        | StoreError::NoSuchProject(_)
        | StoreError::NoSuchKey(_)
        | StoreError::NoSuchGateway
        | StoreError::KeyEnded(_)
        | StoreError::NoLimits
        | StoreError::ActorEnded
        | StoreError::OverlapTooLong { .. }
        | StoreError::Scopes(_)
        | StoreError::BadAddress
        | StoreError::UnknownParameter(_)
        | StoreError::NotPostgres
        | StoreError::WindowCapTooHigh { .. }
        | StoreError::ConcurrencyTooHigh { .. }
        | StoreError::BadShare(_)
        | StoreError::BudgetTooHigh { .. }
        | StoreError::UsageTooLong { .. }
        | StoreError::ExpiryPassed => Exit::Usage,
        StoreError::Full { .. }
        | StoreError::TenantFull { .. }
        | StoreError::NoSuchEvent
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
        "state": state(tenant),
        "floor": tenant.share.floor,
        "cap": cap,
        "weight": tenant.share.weight.get(),
    })
}
