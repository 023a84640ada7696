//! What a limit or a budget is for, as paths and queries name it.

use serde::{Deserialize, Serialize};
use tenant::{KeyId, Level, ModelName, Models, ProjectId, Scope, TenantId};
use utoipa::{IntoParams, ToSchema};

use crate::asker::Asker;
use crate::house::House;
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

/// Whom limits and budgets bind.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LevelName {
    Key,
    Project,
    Tenant,
}

impl LevelName {
    /// The name, and the id of what bears it.
    pub(crate) fn of(level: Level) -> (Self, String) {
        match level {
            Level::Key(id) => (Self::Key, id.to_string()),
            Level::Project(id) => (Self::Project, id.to_string()),
            Level::Tenant(id) => (Self::Tenant, id.to_string()),
        }
    }
}

/// Which requests are counted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ForModel {
    /// A model's name; all models together where it is left out.
    #[param(min_length = 1, max_length = 128)]
    model: Option<String>,
}

impl ForModel {
    pub(crate) fn scope(self, level: Level) -> Result<Scope, Problem> {
        let models = self.model.as_deref().map_or(Ok(Models::All), |name| model(name).map(Models::One))?;
        Ok(Scope { level, models })
    }
}

/// A model that a query names.
pub(crate) fn model(name: &str) -> Result<ModelName, Problem> {
    let why = "`model` is no name of a model: 1 to 128 printable characters";
    ModelName::new(name).ok_or_else(|| Problem::new(Kind::BadRequest, why))
}

pub(crate) fn model_name(models: &Models) -> Option<String> {
    match models {
        Models::All => None,
        Models::One(name) => Some(name.as_str().to_owned()),
    }
}

/// Models as they stand in the place where a page ended: nothing for all.
pub(crate) fn models(name: &str) -> Option<Models> {
    match name {
        "" => Some(Models::All),
        name => ModelName::new(name).map(Models::One),
    }
}

pub(crate) fn parsed(level: &str, id: &str) -> Option<Level> {
    match level {
        "key" => KeyId::parse(id).map(Level::Key),
        "project" => ProjectId::parse(id).map(Level::Project),
        "tenant" => TenantId::parse(id).map(Level::Tenant),
        _ => None,
    }
}

/// What a tenant may take altogether is its provider's to say.
pub(crate) const fn needed(level: Level) -> Operation {
    match level {
        Level::Tenant(_) => Operation::ChangeTenantLimits,
        Level::Project(_) | Level::Key(_) => Operation::ChangeLimits,
    }
}

/// Refuses an operator's key, which has no limits and no budgets, to whom it does not belong to. To be called before the store is asked
/// for either: the store would say that the key is there.
pub(crate) async fn reachable(house: &House, asker: &Asker, level: Level) -> Result<(), Problem> {
    let is_nobodys = match level {
        Level::Key(id) => {
            let found = house.store.find_key(id).await?;
            found.is_some_and(|key| key.purpose.tenant().is_none())
        }
        Level::Project(_) | Level::Tenant(_) => false,
    };
    (!is_nobodys || asker.reaches(None)).then_some(()).ok_or_else(Problem::not_found)
}
