//! `/v1/usage`: what was used, summed up.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenant::{KeyId, ProjectId, TenantId, UsageBy, UsageOf, UsageParts, UsageSum, UtcHour};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::asked::Ask;
use crate::asker::Asker;
use crate::document::Looking;
use crate::house::{House, Shared, now};
use crate::level::model;
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// Hours that are summed up where no beginning is given.
const HOURS_DEFAULT: u64 = 30 * 24;

/// Whose usage, and how it is summed up.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// Whose, by the tenant's id; the asker's own where it is left out. An operator must say it.
    tenant: Option<String>,
    /// Of one project, by its id.
    project: Option<String>,
    /// Of one key, by its id.
    key: Option<String>,
    /// Of one model, by its name.
    #[param(min_length = 1, max_length = 128)]
    model: Option<String>,
    /// The first hour, in UTC: `2026-12-03T04`, or `2026-12-03` for the first of a day; 30 days before `to` where it is left out.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2})?$")]
    from: Option<String>,
    /// The hour before which it ends; after the current one where it is left out.
    #[param(pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2})?$")]
    to: Option<String>,
    /// What each sum covers; a day where it is left out.
    #[param(inline)]
    by: Option<ByName>,
    /// What has sums of its own: some of `project`, `key` and `model`, separated by commas.
    #[param(pattern = "^(project|key|model)(,(project|key|model))*$")]
    each: Option<String>,
}

/// What a sum of usage covers. Days are those of UTC.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ByName {
    Hour,
    Day,
}

/// Usage of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Usage {
    tenant_id: String,
    /// The first hour, in UTC.
    from: String,
    /// The hour before which it ends.
    to: String,
    by: ByName,
    /// In the order of time, and then of their parts. Of an hour or a day in which nothing was used there is none.
    data: Vec<UsageView>,
}

/// What was used in an hour or a day.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageSum)]
struct UsageView {
    /// The hour in which it begins, in UTC.
    from: String,
    /// Null where projects have no sums of their own.
    #[schema(required)]
    project_id: Option<String>,
    /// Null where keys have no sums of their own.
    #[schema(required)]
    key_id: Option<String>,
    /// Null where models have no sums of their own.
    #[schema(required)]
    model: Option<String>,
    /// Requests that have ended, however they did.
    #[schema(minimum = 0)]
    requests: u64,
    /// Cached ones included.
    #[schema(minimum = 0)]
    prompt_tokens: u64,
    /// Of the prompt's, those whose keys and values came from a prefix cache.
    #[schema(minimum = 0)]
    cached_tokens: u64,
    #[schema(minimum = 0)]
    completion_tokens: u64,
    /// Micro-units of money, each request rounded up.
    #[schema(minimum = 0)]
    cost_micro: u64,
    /// Of the requests, those of a model without a price: they are not in `cost_micro`.
    #[schema(minimum = 0)]
    unpriced_requests: u64,
}

fn view(sum: &UsageSum) -> UsageView {
    let amounts = sum.amounts;
    UsageView {
        from: UtcHour::new(sum.hour).to_string(),
        project_id: sum.project.map(|project| project.to_string()),
        key_id: sum.key.map(|key| key.to_string()),
        model: sum.model.as_ref().map(|model| model.as_str().to_owned()),
        requests: amounts.requests,
        prompt_tokens: amounts.prompt,
        cached_tokens: amounts.cached,
        completion_tokens: amounts.completion,
        cost_micro: amounts.cost_micro,
        unpriced_requests: amounts.unpriced,
    }
}

/// What a tenant used, by the hour or the day; at most 10,000 sums.
#[utoipa::path(get, path = "/v1/usage", operation_id = "get_usage", tag = "usage", params(UsageQuery),
    responses((status = 200, description = "The sums", body = Usage), Looking))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    Ask(asked): Ask<UsageQuery>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let tenant = house.one_tenant(&asker, asked.tenant.as_deref()).await?;
    let to = hour("to", asked.to.as_deref())?.unwrap_or_else(|| UtcHour::of(now()).get().saturating_add(1));
    let from = hour("from", asked.from.as_deref())?.unwrap_or_else(|| to.saturating_sub(HOURS_DEFAULT));
    if from >= to {
        let why = format!("`from`, {}, is not before `to`, {}", UtcHour::new(from), UtcHour::new(to));
        return Err(Problem::new(Kind::Invalid, why));
    }
    let parts = parts(asked.each.as_deref())?;
    let of = UsageOf {
        tenant,
        project: project(&house, &asker, tenant, asked.project.as_deref()).await?,
        key: key(&house, &asker, tenant, asked.key.as_deref()).await?,
        model: asked.model.as_deref().map(model).transpose()?,
        hours: from..to,
    };
    let by = asked.by.unwrap_or(ByName::Day);
    let sums = house.store.usage(&of, by.into(), parts).await?;
    Answer::ok(&Usage {
        tenant_id: tenant.to_string(),
        from: UtcHour::new(from).to_string(),
        to: UtcHour::new(to).to_string(),
        by,
        data: sums.iter().map(view).collect(),
    })
}

impl From<ByName> for UsageBy {
    fn from(name: ByName) -> Self {
        match name {
            ByName::Hour => Self::Hour,
            ByName::Day => Self::Day,
        }
    }
}

/// A project of this tenant, if one is asked for.
async fn project(
    house: &House,
    asker: &Asker,
    tenant: TenantId,
    id: Option<&str>,
) -> Result<Option<ProjectId>, Problem> {
    let Some(id) = id else { return Ok(None) };
    let project = house.project(asker, id).await?;
    (project.tenant == tenant).then_some(Some(project.id)).ok_or_else(Problem::not_found)
}

/// A key of this tenant, if one is asked for.
async fn key(
    house: &House,
    asker: &Asker,
    tenant: TenantId,
    id: Option<&str>,
) -> Result<Option<KeyId>, Problem> {
    let Some(id) = id else { return Ok(None) };
    let key = house.key(asker, id).await?;
    (key.purpose.tenant() == Some(tenant)).then_some(Some(key.id)).ok_or_else(Problem::not_found)
}

/// Hours from 1970-01-01. Only as [`UtcHour`] writes it, with or without its hour: the document has one form.
fn hour(name: &str, text: Option<&str>) -> Result<Option<u64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let is_written = |hour: &UtcHour| {
        let written = hour.to_string();
        written == text || written.strip_suffix("T00") == Some(text)
    };
    let hour = UtcHour::parse(text).filter(is_written).map(UtcHour::get);
    let why = || format!("`{name}` is no day or hour of 1970 or later, as `2026-12-03` or `2026-12-03T04`");
    hour.map(Some).ok_or_else(|| Problem::new(Kind::BadRequest, why()))
}

fn parts(each: Option<&str>) -> Result<UsageParts, Problem> {
    let mut parts = UsageParts::default();
    for part in each.into_iter().flat_map(|each| each.split(',')) {
        match part {
            "project" => parts.project = true,
            "key" => parts.key = true,
            "model" => parts.model = true,
            _ => {
                let why = "`each` is some of `project`, `key` and `model`, separated by commas";
                return Err(Problem::new(Kind::BadRequest, why));
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_has_one_form() {
        let read = |text| hour("from", Some(text)).ok().flatten();
        assert_eq!((read("1970-01-02"), read("1970-01-02T03")), (Some(24), Some(27)));
        for bad in ["", "1970-1-2", "1970-01-02T3", "1970-02-30", "1969-12-31", "1970-01-02T24", "now"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn parts_are_named_and_nothing_else_is() {
        let both = UsageParts { project: true, key: false, model: true };
        assert_eq!(parts(Some("model,project")).ok(), Some(both));
        for bad in ["", "keys", "key,", "key, model"] {
            assert!(parts(Some(bad)).is_err(), "{bad}");
        }
    }
}
