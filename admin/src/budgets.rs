//! `/v1/budgets`: how much a key, a project or a tenant may use in a period.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenant::{Budget, BudgetEntry, BudgetKind, BudgetName, Period, Scope, THRESHOLDS_MAX, Thresholds, Unit};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, Expected, given};
use crate::asker::Asker;
use crate::bound::BudgetLimit;
use crate::document::{Changing, Lifting, Looking, Matching, Reading};
use crate::house::{House, Shared, now};
use crate::level::{ForModel, LevelName, model_name, models, needed, parsed, reachable};
use crate::page::{Listed, Page};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// A budget, and what is spent of it.
#[derive(Serialize, ToSchema)]
#[schema(as = Budget)]
pub(crate) struct BudgetView {
    level: LevelName,
    /// The id of the key, the project or the tenant.
    id: String,
    /// Whose requests alone are counted; null for all models together.
    #[schema(required)]
    model: Option<String>,
    count: CountName,
    per: PerName,
    kind: KindName,
    limit: BudgetLimit,
    /// What was spent in the period that now is, in the same unit, as far as gateways have told.
    #[schema(minimum = 0)]
    spent: u64,
    /// Percents of the limit at which it warns.
    warn_at: Vec<u8>,
}

/// What a budget counts: prompt and completion tokens, or micro-units of money.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CountName {
    Tokens,
    Money,
}

/// The time after which a budget begins anew: days and months of the UTC calendar, or never.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PerName {
    Day,
    Month,
    Total,
}

/// Whether a budget refuses what is beyond it, or only warns.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum KindName {
    Hard,
    Soft,
}

/// A budget to be set.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBudget {
    /// Tokens, or micro-units of money.
    #[schema(minimum = 0, maximum = 9_223_372_036_854_775_807_u64)]
    limit: u64,
    /// Percents of the limit at which it warns, rising; none where it is left out. A soft budget warns at 100 also.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, max_items = 4)]
    warn_at: Option<Vec<Percent>>,
}

/// A percent; `Thresholds` looks at its bounds.
#[derive(Clone, Copy, Deserialize)]
struct Percent(u8);

impl utoipa::PartialSchema for Percent {
    fn schema() -> RefOr<Schema> {
        let percent = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(100));
        RefOr::T(percent.build().into())
    }
}

impl ToSchema for Percent {}

/// What tells a budget from others, but for its model.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct BudgetPath {
    /// Whom it binds.
    #[param(value_type = LevelName)]
    level: String,
    /// The id of the key, the project or the tenant.
    id: String,
    /// What it counts.
    #[param(value_type = CountName)]
    count: String,
    /// When it begins anew.
    #[param(value_type = PerName)]
    per: String,
    /// Whether it refuses.
    #[param(value_type = KindName)]
    kind: String,
}

impl BudgetPath {
    fn name(&self, model: ForModel) -> Result<BudgetName, Problem> {
        let level = parsed(&self.level, &self.id).ok_or_else(Problem::not_found)?;
        let Scope { level, models } = model.scope(level)?;
        let unit = Unit::parse(&self.count).ok_or_else(Problem::not_found)?;
        let period = Period::parse(&self.per).ok_or_else(Problem::not_found)?;
        let kind = BudgetKind::parse(&self.kind).ok_or_else(Problem::not_found)?;
        Ok(BudgetName { level, models, unit, period, kind })
    }
}

fn view(name: &BudgetName, set: Option<&Budget>, spent: u64) -> BudgetView {
    let (level, id) = LevelName::of(name.level);
    BudgetView {
        level,
        id,
        model: model_name(&name.models),
        count: match name.unit {
            Unit::Tokens => CountName::Tokens,
            Unit::MicroMoney => CountName::Money,
        },
        per: match name.period {
            Period::Day => PerName::Day,
            Period::Month => PerName::Month,
            Period::Total => PerName::Total,
        },
        kind: match name.kind {
            BudgetKind::Hard => KindName::Hard,
            BudgetKind::Soft => KindName::Soft,
        },
        limit: set.map_or(BudgetLimit::OPEN, |budget| BudgetLimit::Number(budget.limit)),
        spent,
        warn_at: set.map(|budget| budget.thresholds.percents().collect()).unwrap_or_default(),
    }
}

/// Budgets of one tenant, its projects and its keys.
#[utoipa::path(get, path = "/v1/budgets", operation_id = "list_budgets", tag = "budgets", params(Listed),
    responses((status = 200, description = "A page", body = Page<BudgetView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let (most, after) = (listed.most()?, listed.after(cursor)?);
    let tenant = house.one_tenant(&asker, listed.tenant.as_deref()).await?;
    let budgets = house.store.budgets_page(tenant, after.as_ref(), most.saturating_add(1)).await?;
    let mut found = Vec::with_capacity(budgets.len());
    for budget in budgets {
        let spent = house.store.spent(&budget, now()).await?;
        found.push((budget, spent));
    }
    let view = |(budget, spent): &(Budget, u64)| view(&budget.name(), Some(budget), *spent);
    Answer::ok(&Page::of(found, most, |(budget, _)| place(&budget.name()), view))
}

/// One budget; its limit is open where none is set.
#[utoipa::path(get, path = "/v1/budgets/{level}/{id}/{count}/{per}/{kind}", operation_id = "get_budget",
    tag = "budgets", params(BudgetPath, ForModel),
    responses((status = 200, description = "As it is", body = BudgetView, headers(("etag" = String))), Looking))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    At(path): At<BudgetPath>,
    Ask(model): Ask<ForModel>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    shown(&house, &held(&house, &asker, &path.name(model)?).await?).await
}

/// Set a budget, in place of the one that is there.
#[utoipa::path(put, path = "/v1/budgets/{level}/{id}/{count}/{per}/{kind}", operation_id = "set_budget",
    tag = "budgets", params(BudgetPath, ForModel, Matching), request_body = NewBudget,
    responses((status = 200, description = "As it is now", body = BudgetView, headers(("etag" = String))), Changing))]
pub(crate) async fn set(
    State(house): State<Shared>,
    asker: Asker,
    At(path): At<BudgetPath>,
    Ask(model): Ask<ForModel>,
    Expected(expect): Expected,
    Body { asked, .. }: Body<NewBudget>,
) -> Result<Answer, Problem> {
    let name = path.name(model)?;
    held(&house, &asker, &name).await?;
    asker.demand(needed(name.level))?;
    let percents: Vec<u8> = asked.warn_at.iter().flatten().map(|percent| percent.0).collect();
    let thresholds =
        Thresholds::new(&percents).map_err(|error| Problem::new(Kind::Invalid, error.to_string()))?;
    let entry = BudgetEntry::Set(name.budget(asked.limit, thresholds));
    house.store_of(&asker).change_budget(&entry, expect, now()).await?;
    shown(&house, &entry).await
}

/// Lift a budget. What it counted is kept, and counts again if it is set again within its period.
#[utoipa::path(delete, path = "/v1/budgets/{level}/{id}/{count}/{per}/{kind}", operation_id = "lift_budget",
    tag = "budgets", params(BudgetPath, ForModel, Matching),
    responses((status = 200, description = "As it is now: open", body = BudgetView, headers(("etag" = String))), Lifting))]
pub(crate) async fn lift(
    State(house): State<Shared>,
    asker: Asker,
    At(path): At<BudgetPath>,
    Ask(model): Ask<ForModel>,
    Expected(expect): Expected,
) -> Result<Answer, Problem> {
    let name = path.name(model)?;
    held(&house, &asker, &name).await?;
    asker.demand(needed(name.level))?;
    let entry = BudgetEntry::Lifted(name);
    house.store_of(&asker).change_budget(&entry, expect, now()).await?;
    shown(&house, &entry).await
}

async fn shown(house: &House, entry: &BudgetEntry) -> Result<Answer, Problem> {
    let name = entry.name();
    let set = match entry {
        BudgetEntry::Set(budget) => Some(budget),
        BudgetEntry::Lifted(_) => None,
    };
    // What is spent does not hang on the limit.
    let spent = house.store.spent(&name.clone().budget(0, Thresholds::NONE), now()).await?;
    Ok(Answer::ok(&view(&name, set, spent))?.version(entry.version()))
}

async fn held(house: &House, asker: &Asker, name: &BudgetName) -> Result<BudgetEntry, Problem> {
    reachable(house, asker, name.level).await?;
    let (tenant, entry) = house.store.budget_of(name).await?;
    asker.reaches(Some(tenant)).then_some(entry).ok_or_else(Problem::not_found)
}

/// A name as the place where a page ended: as in a budget's path, and then its model, which may hold `/` itself.
fn place(name: &BudgetName) -> String {
    let BudgetName { level, models, unit, period, kind } = name;
    let (id, model) = (LevelName::of(*level).1, model_name(models).unwrap_or_default());
    format!("{}/{id}/{}/{}/{}/{model}", level.name(), unit.name(), period.name(), kind.name())
}

fn cursor(text: &str) -> Option<BudgetName> {
    let mut parts = text.splitn(6, '/');
    let level = parsed(parts.next()?, parts.next()?)?;
    let (unit, period) = (Unit::parse(parts.next()?)?, Period::parse(parts.next()?)?);
    let kind = BudgetKind::parse(parts.next()?)?;
    Some(BudgetName { level, models: models(parts.next()?)?, unit, period, kind })
}

// The document says how many thresholds there may be.
const _: () = assert!(THRESHOLDS_MAX == 4);

#[cfg(test)]
mod tests {
    use tenant::{KeyId, Level, ModelName, Models};

    use super::*;

    #[test]
    fn a_place_is_read_back() {
        let level = Level::Key(KeyId::parse("aaaaaaaaaaaa").unwrap());
        for models in [Models::All, Models::One(ModelName::new("org/model").unwrap())] {
            let (unit, period, kind) = (Unit::MicroMoney, Period::Total, BudgetKind::Soft);
            let name = BudgetName { level, models, unit, period, kind };
            assert_eq!(cursor(&place(&name)), Some(name));
        }
        for bad in ["", "key/aaaaaaaaaaaa/money/total/soft", "key/aaaaaaaaaaaa/gold/total/soft/"] {
            assert!(cursor(bad).is_none(), "{bad}");
        }
    }
}
