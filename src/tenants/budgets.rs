//! `bulkhead budget`.

use serde_json::{Value, json};
use tenant::{Budget, BudgetKind, BudgetName, Models, Scope, Store, Tenant, Thresholds, Unit};

use super::limits::{level_id, model_cell, named};
use super::money::{micro_units, units};
use super::parts;
use super::{existing, now, open, refused};
use crate::cli::{BudgetArgs, BudgetCommand};
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};

pub(crate) async fn run_budget(data: &DataDir, command: BudgetCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        BudgetCommand::Set { name, limit, warn_at, json } => {
            let tenant = existing(&store, &name.scope.tenant).await?;
            let name = of(&store, &tenant, &name).await?;
            let limit = amount(name.unit, &limit)?;
            let budget = name.budget(limit, warn_at.unwrap_or(Thresholds::NONE));
            store.set_budget(&budget, now()).await.map_err(|error| refused("set the budget", &error))?;
            shown(&store, &[budget], Form::of(json)).await
        }
        BudgetCommand::Lift { name } => {
            let tenant = existing(&store, &name.scope.tenant).await?;
            let name = of(&store, &tenant, &name).await?;
            let budgets = store.list_budgets(tenant.id).await.doing(Exit::Store, "list the budgets")?;
            if !budgets.iter().any(|budget| budget.name() == name) {
                let why =
                    "there is no such budget: `bulkhead budget list --tenant NAME` shows those there are";
                return Err(Failure::new(Exit::Usage, why));
            }
            store.lift_budget(&name, now()).await.map_err(|error| refused("lift the budget", &error))?;
            present::line(&format!(
                "the {} budget of {} per {} is lifted from {}",
                name.kind.name(),
                name.unit.name(),
                name.period.name(),
                name.level
            ))
        }
        BudgetCommand::Parts { tenant, json } => {
            let tenant = existing(&store, &tenant).await?;
            let parts = store.list_parts(tenant.id).await.doing(Exit::Store, "list the parts of budgets")?;
            parts::shown(&parts, Form::of(json))
        }
        BudgetCommand::Release { gateway, json } => {
            let released = store.release_parts(&gateway, now()).await;
            let released =
                released.map_err(|error| refused("take back what the gateway has not used", &error))?;
            parts::released(&released, Form::of(json))
        }
        BudgetCommand::List { tenant, json } => {
            let tenant = existing(&store, &tenant).await?;
            let budgets = store.list_budgets(tenant.id).await.doing(Exit::Store, "list the budgets")?;
            shown(&store, &budgets, Form::of(json)).await
        }
    }
}

async fn of(store: &Store, tenant: &Tenant, args: &BudgetArgs) -> Result<BudgetName, Failure> {
    let Scope { level, models } = named(store, tenant, &args.scope).await?;
    let kind = if args.soft { BudgetKind::Soft } else { BudgetKind::Hard };
    Ok(BudgetName { level, models, unit: args.count, period: args.per, kind })
}

fn amount(unit: Unit, text: &str) -> Result<u64, Failure> {
    let amount = match unit {
        Unit::Tokens => text.parse().map_err(|_| format!("`{text}` is no number of tokens")),
        Unit::MicroMoney => micro_units(text),
    };
    amount.map_err(|why| Failure::new(Exit::Usage, why))
}

const COLUMNS: [&str; 8] = ["LEVEL", "MODEL", "COUNTS", "PER", "KIND", "LIMIT", "SPENT", "WARNS AT %"];

async fn shown(store: &Store, budgets: &[Budget], form: Form) -> Result<(), Failure> {
    let mut spent = Vec::with_capacity(budgets.len());
    for budget in budgets {
        spent.push(store.spent(budget, now()).await.doing(Exit::Store, "sum the usage up")?);
    }
    let all = budgets.iter().zip(spent);
    match form {
        Form::Json => present::json(&all.map(json_of).collect()),
        Form::Table => present::table(&COLUMNS, &all.map(row_of).collect::<Vec<_>>()),
    }
}

fn json_of((budget, spent): (&Budget, u64)) -> Value {
    let model = match &budget.models {
        Models::All => None,
        Models::One(name) => Some(name.as_str()),
    };
    json!({
        "level": budget.level.name(),
        "id": level_id(budget.level),
        "model": model,
        "count": budget.unit.name(),
        "per": budget.period.name(),
        "kind": budget.kind.name(),
        // Tokens, or micro-units of money.
        "limit": budget.limit,
        "spent": spent,
        "warn_at": budget.thresholds.percents().collect::<Vec<_>>(),
    })
}

fn row_of((budget, spent): (&Budget, u64)) -> Vec<String> {
    let amount = |number: u64| match budget.unit {
        Unit::Tokens => number.to_string(),
        Unit::MicroMoney => units(number),
    };
    let percents = budget.thresholds.percents().map(|percent| percent.to_string()).collect::<Vec<_>>();
    vec![
        budget.level.to_string(),
        model_cell(&budget.models),
        budget.unit.name().to_owned(),
        budget.period.name().to_owned(),
        budget.kind.name().to_owned(),
        amount(budget.limit),
        amount(spent),
        percents.join(","),
    ]
}
