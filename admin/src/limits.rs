//! `/v1/limits`: what a key, a project or a tenant may take.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenant::{
    KeyId, Level, Limits, LimitsChange, ModelName, Models, ProjectId, Reach, Rule, Scope, TenantId,
};
use utoipa::{IntoParams, ToSchema};

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, Expected, given};
use crate::asker::Asker;
use crate::bound::LimitValue;
use crate::document::{Changing, Matching, Reading};
use crate::house::{House, Shared, now};
use crate::page::{Listed, Page};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// The limits of a key, a project or a tenant; of all its requests, or of those for one model.
#[derive(Serialize, ToSchema)]
#[schema(as = Limits)]
pub(crate) struct LimitsView {
    level: LevelName,
    /// The id of the key, the project or the tenant.
    id: String,
    /// Whose requests alone are counted; null for all models together.
    #[schema(required)]
    model: Option<String>,
    requests_per_minute: LimitValue,
    /// Prompt and output together.
    tokens_per_minute: LimitValue,
    /// Requests in flight.
    at_once: LimitValue,
    /// Tokens of one request's prompt.
    prompt_tokens: LimitValue,
    /// Tokens that one request may ask to be written.
    output_tokens: LimitValue,
}

/// Whom limits bind.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LevelName {
    Key,
    Project,
    Tenant,
}

/// All limits of a scope.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LimitValues)]
pub(crate) struct Values {
    requests_per_minute: LimitValue,
    /// Prompt and output together.
    tokens_per_minute: LimitValue,
    /// Requests in flight.
    at_once: LimitValue,
    /// Tokens of one request's prompt.
    prompt_tokens: LimitValue,
    /// Tokens that one request may ask to be written.
    output_tokens: LimitValue,
}

/// What is to be changed of a scope's limits. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedLimits {
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    requests_per_minute: Option<LimitValue>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    tokens_per_minute: Option<LimitValue>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    at_once: Option<LimitValue>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    prompt_tokens: Option<LimitValue>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    output_tokens: Option<LimitValue>,
}

/// Which requests limits count.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ForModel {
    /// A model's name; all models together where it is left out.
    #[param(min_length = 1, max_length = 128)]
    model: Option<String>,
}

fn view(rule: &Rule) -> LimitsView {
    let (level, id) = match rule.scope.level {
        Level::Key(id) => (LevelName::Key, id.to_string()),
        Level::Project(id) => (LevelName::Project, id.to_string()),
        Level::Tenant(id) => (LevelName::Tenant, id.to_string()),
    };
    let model = match &rule.scope.models {
        Models::All => None,
        Models::One(name) => Some(name.as_str().to_owned()),
    };
    let Limits { requests_per_minute, tokens_per_minute, at_once, prompt_tokens, output_tokens } =
        rule.limits;
    LimitsView {
        level,
        id,
        model,
        requests_per_minute: requests_per_minute.into(),
        tokens_per_minute: tokens_per_minute.into(),
        at_once: at_once.into(),
        prompt_tokens: prompt_tokens.into(),
        output_tokens: output_tokens.into(),
    }
}

/// Limits of one tenant, its projects and its keys, but for those that are all open.
#[utoipa::path(get, path = "/v1/limits", operation_id = "list_limits", tag = "limits", params(Listed),
    responses((status = 200, description = "A page", body = Page<LimitsView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let (most, after) = (listed.most()?, listed.after(cursor)?);
    let Reach::Tenant(tenant) = house.reach(&asker, listed.tenant.as_deref()).await? else {
        return Err(Problem::new(Kind::BadRequest, "an operator must say `tenant`"));
    };
    let found = house.store.limits_page(tenant, after.as_ref(), most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| place(&one.scope), view))
}

/// The limits of one scope; all open where none were set.
#[utoipa::path(get, path = "/v1/limits/{level}/{id}", operation_id = "get_limits", tag = "limits",
    params(("level" = LevelName, Path, description = "Whom they bind"),
           ("id" = String, Path, description = "The id of the key, the project or the tenant"), ForModel),
    responses((status = 200, description = "As they are", body = LimitsView, headers(("etag" = String))), Reading))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    At((level, id)): At<(String, String)>,
    Ask(model): Ask<ForModel>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    shown(&held(&house, &asker, &level, &id, model).await?)
}

/// Set all limits of one scope.
#[utoipa::path(put, path = "/v1/limits/{level}/{id}", operation_id = "set_limits", tag = "limits",
    params(("level" = LevelName, Path, description = "Whom they bind"),
           ("id" = String, Path, description = "The id of the key, the project or the tenant"), ForModel, Matching),
    request_body = Values,
    responses((status = 200, description = "As they are now", body = LimitsView, headers(("etag" = String))), Changing))]
pub(crate) async fn set(
    State(house): State<Shared>,
    asker: Asker,
    At((level, id)): At<(String, String)>,
    Ask(model): Ask<ForModel>,
    Expected(expect): Expected,
    Body { asked, .. }: Body<Values>,
) -> Result<Answer, Problem> {
    let rule = held(&house, &asker, &level, &id, model).await?;
    let change = LimitsChange {
        requests_per_minute: Some(asked.requests_per_minute.into()),
        tokens_per_minute: Some(asked.tokens_per_minute.into()),
        at_once: Some(asked.at_once.into()),
        prompt_tokens: Some(asked.prompt_tokens.into()),
        output_tokens: Some(asked.output_tokens.into()),
    };
    asker.demand(needed(rule.scope.level))?;
    shown(&house.store_of(&asker).change_limits(&rule.scope, change, expect, now()).await?)
}

/// Change some limits of one scope.
#[utoipa::path(patch, path = "/v1/limits/{level}/{id}", operation_id = "change_limits", tag = "limits",
    params(("level" = LevelName, Path, description = "Whom they bind"),
           ("id" = String, Path, description = "The id of the key, the project or the tenant"), ForModel, Matching),
    request_body = ChangedLimits,
    responses((status = 200, description = "As they are now", body = LimitsView, headers(("etag" = String))), Changing))]
pub(crate) async fn change(
    State(house): State<Shared>,
    asker: Asker,
    At((level, id)): At<(String, String)>,
    Ask(model): Ask<ForModel>,
    Expected(expect): Expected,
    Body { asked, .. }: Body<ChangedLimits>,
) -> Result<Answer, Problem> {
    let rule = held(&house, &asker, &level, &id, model).await?;
    let change = LimitsChange {
        requests_per_minute: asked.requests_per_minute.map(Into::into),
        tokens_per_minute: asked.tokens_per_minute.map(Into::into),
        at_once: asked.at_once.map(Into::into),
        prompt_tokens: asked.prompt_tokens.map(Into::into),
        output_tokens: asked.output_tokens.map(Into::into),
    };
    asker.demand(needed(rule.scope.level))?;
    shown(&house.store_of(&asker).change_limits(&rule.scope, change, expect, now()).await?)
}

/// What a tenant may take altogether is its provider's to say.
const fn needed(level: Level) -> Operation {
    match level {
        Level::Tenant(_) => Operation::ChangeTenantLimits,
        Level::Project(_) | Level::Key(_) => Operation::ChangeLimits,
    }
}

fn shown(rule: &Rule) -> Result<Answer, Problem> {
    Ok(Answer::ok(&view(rule))?.version(rule.version()))
}

async fn held(
    house: &House,
    asker: &Asker,
    level: &str,
    id: &str,
    ForModel { model }: ForModel,
) -> Result<Rule, Problem> {
    let level = parsed(level, id).ok_or_else(Problem::not_found)?;
    let models = match model {
        None => Models::All,
        Some(name) => Models::One(ModelName::new(&name).ok_or_else(|| {
            Problem::new(Kind::BadRequest, "`model` is no name of a model: 1 to 128 printable characters")
        })?),
    };
    if level_is_nobodys(house, level).await? {
        // Looked at before the store is asked for limits, so that an operator's key is not there for whom it does not belong to.
        asker.reaches(None).then_some(()).ok_or_else(Problem::not_found)?;
    }
    let (tenant, rule) = house.store.limits_of(&Scope { level, models }).await?;
    asker.reaches(Some(tenant)).then_some(rule).ok_or_else(Problem::not_found)
}

/// Whether it is a key of an operator, which has no limits.
async fn level_is_nobodys(house: &House, level: Level) -> Result<bool, Problem> {
    match level {
        Level::Key(id) => {
            let found = house.store.find_key(id).await?;
            Ok(found.is_some_and(|key| key.purpose.tenant().is_none()))
        }
        Level::Project(_) | Level::Tenant(_) => Ok(false),
    }
}

fn parsed(level: &str, id: &str) -> Option<Level> {
    match level {
        "key" => KeyId::parse(id).map(Level::Key),
        "project" => ProjectId::parse(id).map(Level::Project),
        "tenant" => TenantId::parse(id).map(Level::Tenant),
        _ => None,
    }
}

/// A scope as the place where a page ended: level, id and model, which may hold `/` itself.
fn place(scope: &Scope) -> String {
    let LevelAndModel { level, id, model } = LevelAndModel::of(scope);
    format!("{level}/{id}/{model}")
}

fn cursor(text: &str) -> Option<Scope> {
    let mut parts = text.splitn(3, '/');
    let level = parsed(parts.next()?, parts.next()?)?;
    let models = match parts.next()? {
        "" => Models::All,
        name => Models::One(ModelName::new(name)?),
    };
    Some(Scope { level, models })
}

struct LevelAndModel<'a> {
    level: &'static str,
    id: String,
    model: &'a str,
}

impl<'a> LevelAndModel<'a> {
    fn of(scope: &'a Scope) -> Self {
        let id = match scope.level {
            Level::Key(id) => id.to_string(),
            Level::Project(id) => id.to_string(),
            Level::Tenant(id) => id.to_string(),
        };
        let model = match &scope.models {
            Models::All => "",
            Models::One(name) => name.as_str(),
        };
        Self { level: scope.level.name(), id, model }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_back() {
        let level = Level::Key(KeyId::parse("aaaaaaaaaaaa").unwrap());
        for models in [Models::All, Models::One(ModelName::new("org/model").unwrap())] {
            let scope = Scope { level, models };
            assert_eq!(cursor(&place(&scope)), Some(scope));
        }
        assert!(cursor("key/aaaaaaaaaaaa").is_none() && cursor("world/a/").is_none());
    }
}
