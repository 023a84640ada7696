//! `bulkhead usage`.

use serde_json::{Value, json};
use tenant::{Level, Models, Scope, UsageBy, UsageOf, UsageParts, UsageSum, UtcHour};

use super::limits::named;
use super::money::units;
use super::{existing, now, open, refused};
use crate::cli::{By, Part, UsageArgs};
use crate::data::DataDir;
use crate::exit::{Exit, Failure};
use crate::present::{self, Form};

/// What is listed where no time is given.
const HOURS_DEFAULT: u64 = 30 * 24;

pub(crate) async fn run_usage(data: &DataDir, args: UsageArgs) -> Result<(), Failure> {
    let store = open(data).await?;
    let tenant = existing(&store, &args.scope.tenant).await?;
    let Scope { level, models } = named(&store, &tenant, &args.scope).await?;
    let to = args.to.map_or_else(|| UtcHour::of(now()).get().saturating_add(1), UtcHour::get);
    let from = args.from.map_or_else(|| to.saturating_sub(HOURS_DEFAULT), UtcHour::get);
    if from >= to {
        let why = format!("--from {} is not before --to {}", UtcHour::new(from), UtcHour::new(to));
        return Err(Failure::new(Exit::Usage, why));
    }
    let (project, key) = match level {
        Level::Tenant(_) => (None, None),
        Level::Project(project) => (Some(project), None),
        Level::Key(key) => (None, Some(key)),
    };
    let model = match models {
        Models::All => None,
        Models::One(model) => Some(model),
    };
    let of = UsageOf { tenant: tenant.id, project, key, model, hours: from..to };
    let by = match args.by {
        By::Hour => UsageBy::Hour,
        By::Day => UsageBy::Day,
    };
    let parts = UsageParts {
        project: args.each.contains(&Part::Project),
        key: args.each.contains(&Part::Key),
        model: args.each.contains(&Part::Model),
    };
    let sums = store.usage(&of, by, parts).await.map_err(|error| refused("sum the usage up", &error))?;
    match Form::of(args.json) {
        Form::Json => present::json(&sums.iter().map(json_of).collect()),
        Form::Table => present::table(&COLUMNS, &sums.iter().map(row_of).collect::<Vec<_>>()),
    }
}

const COLUMNS: [&str; 10] =
    ["FROM", "PROJECT", "KEY", "MODEL", "REQUESTS", "PROMPT", "CACHED", "COMPLETION", "COST", "UNPRICED"];

/// The parts of a row that have one of their own.
fn named_parts(sum: &UsageSum) -> [Option<String>; 3] {
    [
        sum.project.map(|project| project.to_string()),
        sum.key.map(|key| key.to_string()),
        sum.model.as_ref().map(|model| model.as_str().to_owned()),
    ]
}

fn json_of(sum: &UsageSum) -> Value {
    let [project, key, model] = named_parts(sum);
    json!({
        "from": UtcHour::new(sum.hour).to_string(),
        "project": project,
        "key": key,
        "model": model,
        "requests": sum.amounts.requests,
        "prompt_tokens": sum.amounts.prompt,
        "cached_tokens": sum.amounts.cached,
        "completion_tokens": sum.amounts.completion,
        "cost_micro": sum.amounts.cost_micro,
        "unpriced_requests": sum.amounts.unpriced,
    })
}

fn row_of(sum: &UsageSum) -> Vec<String> {
    let parts = named_parts(sum).map(|part| part.unwrap_or_else(|| "(all)".to_owned()));
    let [project, key, model] = parts;
    let amounts = sum.amounts;
    vec![
        UtcHour::new(sum.hour).to_string(),
        project,
        key,
        model,
        amounts.requests.to_string(),
        amounts.prompt.to_string(),
        amounts.cached.to_string(),
        amounts.completion.to_string(),
        units(amounts.cost_micro),
        amounts.unpriced.to_string(),
    ]
}
