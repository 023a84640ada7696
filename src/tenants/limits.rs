//! `bulkhead limit`.

use serde_json::{Value, json};
use tenant::{Expect, Level, Limit, LimitsChange, Models, Rule, Scope, Store, Tenant};

use super::keys::id_of;
use super::projects::project;
use super::{existing, now, open, refused};
use crate::cli::{LimitArgs, LimitCommand, LimitScope};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};

pub(crate) async fn run_limit(data: &DataDir, command: LimitCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        LimitCommand::Set { scope, limits, json } => {
            let tenant = existing(&store, &scope.tenant).await?;
            let scope = named(&store, &tenant, &scope).await?;
            let changed = store.change_limits(&scope, asked(&limits), Expect::Any, now()).await;
            let rule = changed.map_err(|error| refused("set the limits", &error))?;
            shown(&[rule], Form::of(json))
        }
        LimitCommand::List { tenant, json } => {
            let tenant = existing(&store, &tenant).await?;
            let rules = store.list_limits(tenant.id).await.doing(Exit::Store, "list the limits")?;
            shown(&rules, Form::of(json))
        }
    }
}

/// The scope that was named, if the tenant has it.
pub(super) async fn named(store: &Store, tenant: &Tenant, scope: &LimitScope) -> Result<Scope, Failure> {
    let level = match (&scope.project, &scope.key) {
        (None, None) => Level::Tenant(tenant.id),
        (Some(name), None) => Level::Project(project(store, tenant, name).await?.id),
        (_, Some(id)) => {
            let id = id_of(id)?;
            let key = store.find_key(id).await.doing(Exit::Store, "look the key up")?;
            let is_theirs = key.is_some_and(|key| key.purpose.tenant() == Some(tenant.id));
            let why =
                "the tenant has no key of this id: `bulkhead key list --tenant NAME` shows those it has";
            is_theirs.then_some(Level::Key(id)).ok_or_else(|| Failure::new(Exit::Usage, why))?
        }
    };
    let models = scope.model.clone().map_or(Models::All, Models::One);
    Ok(Scope { level, models })
}

const fn asked(limits: &LimitArgs) -> LimitsChange {
    LimitsChange {
        requests_per_minute: limits.requests_per_minute,
        tokens_per_minute: limits.tokens_per_minute,
        at_once: limits.at_once,
        prompt_tokens: limits.prompt_tokens,
        output_tokens: limits.output_tokens,
    }
}

const COLUMNS: [&str; 7] =
    ["LEVEL", "MODEL", "REQUESTS/MIN", "TOKENS/MIN", "AT ONCE", "PROMPT TOKENS", "OUTPUT TOKENS"];

fn shown(rules: &[Rule], form: Form) -> Result<(), Failure> {
    match form {
        Form::Json => present::json(&rules.iter().map(json_of).collect()),
        Form::Table => present::table(&COLUMNS, &rules.iter().map(row_of).collect::<Vec<_>>()),
    }
}

fn number(limit: Limit) -> Option<u32> {
    match limit {
        Limit::Open => None,
        Limit::AtMost(most) => Some(most.get()),
    }
}

pub(super) fn level_id(level: Level) -> String {
    match level {
        Level::Key(id) => id.to_string(),
        Level::Project(id) => id.to_string(),
        Level::Tenant(id) => id.to_string(),
    }
}

pub(super) fn model_cell(models: &Models) -> String {
    match models {
        Models::All => "(all)".to_owned(),
        Models::One(name) => name.as_str().to_owned(),
    }
}

fn json_of(Rule { scope, limits }: &Rule) -> Value {
    let model = match &scope.models {
        Models::All => None,
        Models::One(name) => Some(name.as_str()),
    };
    json!({
        "level": scope.level.name(),
        "id": level_id(scope.level),
        "model": model,
        "requests_per_minute": number(limits.requests_per_minute),
        "tokens_per_minute": number(limits.tokens_per_minute),
        "at_once": number(limits.at_once),
        "prompt_tokens": number(limits.prompt_tokens),
        "output_tokens": number(limits.output_tokens),
    })
}

fn row_of(Rule { scope, limits }: &Rule) -> Vec<String> {
    let or_open = |limit| number(limit).map_or_else(|| "open".to_owned(), |number| number.to_string());
    vec![
        scope.level.to_string(),
        model_cell(&scope.models),
        or_open(limits.requests_per_minute),
        or_open(limits.tokens_per_minute),
        or_open(limits.at_once),
        or_open(limits.prompt_tokens),
        or_open(limits.output_tokens),
    ]
}
