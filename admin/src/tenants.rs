//! `/v1/tenants`.

use core::num::NonZeroU32;

use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tenant::{ShareChange, Tenant, TenantChange, TenantId, TenantState};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, Expected, given, given_object, name};
use crate::asker::Asker;
use crate::bound::CapValue;
use crate::document::{Changing, Creating, Matching, Named, Reading};
use crate::house::{Shared, now};
use crate::once::{Keep, Request};
use crate::page::{Listed, Page};
use crate::problem::Problem;
use crate::roles::Operation;

const PATH: &str = "/v1/tenants";

/// A customer.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenant)]
pub(crate) struct TenantView {
    id: String,
    name: String,
    /// Milliseconds since 1970, as all moments here.
    created_ms: i64,
    state: StateName,
    /// Since when none of its keys works; null while they do.
    #[schema(required)]
    suspended_ms: Option<i64>,
    share: ShareView,
}

/// Whether a tenant's keys work.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TenantState)]
pub(crate) enum StateName {
    Active,
    Suspended,
}

/// What a tenant may hold of an engine's memory, in tokens.
#[derive(Serialize, ToSchema)]
#[schema(as = Share)]
struct ShareView {
    /// Tokens that no other tenant can hold.
    floor: u32,
    cap: CapValue,
    /// Its part of what no floor reserves, against the others'.
    #[schema(minimum = 1, maximum = 1000)]
    weight: u32,
}

/// A tenant to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTenant {
    /// Unique.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
}

/// What is to be changed of a tenant. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedTenant {
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, min_length = 1, max_length = 128)]
    name: Option<String>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    state: Option<StateName>,
    #[serde(default, deserialize_with = "given_object")]
    #[schema(nullable = false)]
    share: Option<ChangedShare>,
}

/// What is to be changed of a share. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangedShare {
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    floor: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    cap: Option<CapValue>,
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false, value_type = Option<u32>, minimum = 1, maximum = 1000)]
    weight: Option<NonZeroU32>,
}

fn view(tenant: &Tenant) -> TenantView {
    let (state, suspended_ms) = match tenant.state {
        TenantState::Active => (StateName::Active, None),
        TenantState::Suspended(since) => (StateName::Suspended, Some(since.get())),
    };
    TenantView {
        id: tenant.id.to_string(),
        name: tenant.name.as_str().to_owned(),
        created_ms: tenant.created.get(),
        state,
        suspended_ms,
        share: ShareView {
            floor: tenant.share.floor,
            cap: tenant.share.cap.into(),
            weight: tenant.share.weight.get(),
        },
    }
}

fn shown(tenant: &Tenant) -> Result<Answer, Problem> {
    Ok(Answer::ok(&view(tenant))?.version(tenant.version()))
}

/// Tenants, the oldest first.
#[utoipa::path(get, path = "/v1/tenants", operation_id = "list_tenants", tag = "tenants", params(Listed),
    responses((status = 200, description = "A page", body = Page<TenantView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let (most, after) = (listed.most()?, listed.after(TenantId::parse)?);
    let reach = house.reach(&asker, listed.tenant.as_deref()).await?;
    let found = house.store.tenants_page(reach, after, most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| one.id.to_string(), view))
}

/// Make a tenant, with a project `default`.
#[utoipa::path(post, path = "/v1/tenants", operation_id = "create_tenant", tag = "tenants",
    params(Named), request_body = NewTenant,
    responses((status = 201, description = "Made", body = TenantView), Creating))]
pub(crate) async fn create(
    State(house): State<Shared>,
    asker: Asker,
    headers: HeaderMap,
    body: Body<NewTenant>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::CreateTenant)?;
    let name = name(&body.asked.name)?;
    let request = Request { headers: &headers, path: PATH, body: &body.bytes };
    house
        .once(&asker, request, Keep::Answer, async |store| {
            let tenant = store.create_tenant(name, now()).await?;
            Ok(shown(&tenant)?.created(format!("{PATH}/{}", tenant.id)))
        })
        .await
}

/// One tenant.
#[utoipa::path(get, path = "/v1/tenants/{id}", operation_id = "get_tenant", tag = "tenants",
    params(("id" = String, Path, description = "The tenant's id")),
    responses((status = 200, description = "As it is", body = TenantView, headers(("etag" = String))), Reading))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    shown(&house.tenant(&asker, &id).await?)
}

/// Change a tenant's name, state or share.
#[utoipa::path(patch, path = "/v1/tenants/{id}", operation_id = "change_tenant", tag = "tenants",
    params(("id" = String, Path, description = "The tenant's id"), Matching), request_body = ChangedTenant,
    responses((status = 200, description = "As it is now", body = TenantView, headers(("etag" = String))), Changing))]
pub(crate) async fn change(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
    Expected(expect): Expected,
    Body { asked, .. }: Body<ChangedTenant>,
) -> Result<Answer, Problem> {
    let tenant = house.tenant(&asker, &id).await?;
    asker.demand(Operation::ChangeTenant)?;
    let share = asked.share.map_or(ShareChange::default(), |share| ShareChange {
        floor: share.floor,
        cap: share.cap.map(Into::into),
        weight: share.weight,
    });
    let state = asked.state.map(|state| match state {
        StateName::Active => TenantState::Active,
        StateName::Suspended => TenantState::Suspended(now()),
    });
    let change = TenantChange { name: asked.name.as_deref().map(name).transpose()?, state, share };
    shown(&house.store_of(&asker).change_tenant(tenant.id, &change, expect, now()).await?)
}
