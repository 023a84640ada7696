//! `/v1/limits`: what a key, a project or a tenant may take.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenant::{Limits, LimitsChange, Rule, Scope};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, Expected, given};
use crate::asker::Asker;
use crate::bound::LimitValue;
use crate::document::{Changing, Looking, Matching, Reading};
use crate::house::{House, Shared, now};
use crate::level::{ForModel, LevelName, model_name, models, needed, parsed, reachable};
use crate::page::{Listed, Page};
use crate::problem::Problem;
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

fn view(rule: &Rule) -> LimitsView {
    let (level, id) = LevelName::of(rule.scope.level);
    let Limits { requests_per_minute, tokens_per_minute, at_once, prompt_tokens, output_tokens } =
        rule.limits;
    LimitsView {
        level,
        id,
        model: model_name(&rule.scope.models),
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
    let tenant = house.one_tenant(&asker, listed.tenant.as_deref()).await?;
    let found = house.store.limits_page(tenant, after.as_ref(), most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| place(&one.scope), view))
}

/// The limits of one scope; all open where none were set.
#[utoipa::path(get, path = "/v1/limits/{level}/{id}", operation_id = "get_limits", tag = "limits",
    params(("level" = LevelName, Path, description = "Whom they bind"),
           ("id" = String, Path, description = "The id of the key, the project or the tenant"), ForModel),
    responses((status = 200, description = "As they are", body = LimitsView, headers(("etag" = String))), Looking))]
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

fn shown(rule: &Rule) -> Result<Answer, Problem> {
    Ok(Answer::ok(&view(rule))?.version(rule.version()))
}

async fn held(house: &House, asker: &Asker, level: &str, id: &str, model: ForModel) -> Result<Rule, Problem> {
    let scope = model.scope(parsed(level, id).ok_or_else(Problem::not_found)?)?;
    reachable(house, asker, scope.level).await?;
    let (tenant, rule) = house.store.limits_of(&scope).await?;
    asker.reaches(Some(tenant)).then_some(rule).ok_or_else(Problem::not_found)
}

/// A scope as the place where a page ended: level, id and model, which may hold `/` itself.
fn place(scope: &Scope) -> String {
    let (level, id) = (scope.level.name(), LevelName::of(scope.level).1);
    format!("{level}/{id}/{}", model_name(&scope.models).unwrap_or_default())
}

fn cursor(text: &str) -> Option<Scope> {
    let mut parts = text.splitn(3, '/');
    let level = parsed(parts.next()?, parts.next()?)?;
    let models = models(parts.next()?)?;
    Some(Scope { level, models })
}

#[cfg(test)]
mod tests {
    use tenant::{KeyId, Level, ModelName, Models};

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
