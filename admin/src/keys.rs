//! `/v1/keys`. A secret is answered once, to who made it, and nowhere else.

mod view;

use core::time::Duration;

use axum::extract::State;
use http::HeaderMap;
use tenant::{
    Concurrency, Expiry, KeyId, KeyLimits, KeyRecord, KeySpec, Mode, Project, ProjectId, Purpose, Reach,
    Role, Scopes, Store, TenantId, UnixMillis, WindowCap,
};

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, Expected, name};
use crate::asker::Asker;
use crate::document::{Changing, Creating, Ending, Matching, Named, Reading};
use crate::house::{House, Shared, now};
use crate::once::{Keep, Request};
use crate::page::{Listed, Page};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;
use view::{KeyFor, KeyView, KeyWithSecret, NewKey, Rotation, view};

const PATH: &str = "/v1/keys";
/// How long a secret works beside a newer one, where nobody says.
const OVERLAP_DEFAULT: Duration = Duration::from_secs(24 * 3_600);

/// What is to be done to a key that is there.
#[derive(Clone, Copy)]
enum Deed {
    Rotate,
    Revoke,
}

/// Keys, revoked ones too.
#[utoipa::path(get, path = "/v1/keys", operation_id = "list_keys", tag = "keys", params(Listed),
    responses((status = 200, description = "A page", body = Page<KeyView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let (most, after) = (listed.most()?, listed.after(KeyId::parse)?);
    let reach = house.reach(&asker, listed.tenant.as_deref()).await?;
    let found = house.store.keys_page(reach, after, most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| one.id.to_string(), view))
}

/// Make a key. Its secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/keys", operation_id = "create_key", tag = "keys", params(Named), request_body = NewKey,
    responses((status = 201, description = "Made", body = KeyWithSecret), Creating))]
pub(crate) async fn create(
    State(house): State<Shared>,
    asker: Asker,
    headers: HeaderMap,
    body: Body<NewKey>,
) -> Result<Answer, Problem> {
    let Body { asked, bytes } = body;
    asker.demand(match asked.r#for {
        KeyFor::Live | KeyFor::Test => Operation::ChangeServiceKeys,
        KeyFor::Audit | KeyFor::Owner | KeyFor::Admin | KeyFor::Member | KeyFor::Auditor => {
            Operation::ChangePersonKeys
        }
    })?;
    let spec = spec(&house, &asker, asked).await?;
    let request = Request { headers: &headers, path: PATH, body: &bytes };
    house
        .once(&asker, request, Keep::Nothing, async |store: Store| {
            let (record, key) = store.create_key(spec, now()).await?;
            let shown = KeyWithSecret { shown: view(&record), key: key.expose().clone() };
            let answer = Answer::ok(&shown)?.version(record.version());
            Ok(answer.created(format!("{PATH}/{}", record.id)))
        })
        .await
}

/// One key.
#[utoipa::path(get, path = "/v1/keys/{id}", operation_id = "get_key", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "As it is", body = KeyView, headers(("etag" = String))), Reading))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    shown(&house.key(&asker, &id).await?)
}

/// Give a key a new secret. The one before works on for a while; an older one stops at once.
#[utoipa::path(post, path = "/v1/keys/{id}/rotate", operation_id = "rotate_key", tag = "keys",
    params(("id" = String, Path, description = "The key's id"), Matching, Named),
    request_body = Rotation,
    responses((status = 200, description = "With its new secret", body = KeyWithSecret, headers(("etag" = String))), Changing))]
pub(crate) async fn rotate(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
    Expected(expect): Expected,
    headers: HeaderMap,
    body: Body<Rotation>,
) -> Result<Answer, Problem> {
    let key = house.key(&asker, &id).await?;
    asker.demand(needed(&key.purpose, Deed::Rotate)?)?;
    let overlap = body.asked.overlap_s.map_or(OVERLAP_DEFAULT, |seconds| Duration::from_secs(seconds.into()));
    let path = format!("{PATH}/{}/rotate", key.id);
    let request = Request { headers: &headers, path: &path, body: &body.bytes };
    house
        .once(&asker, request, Keep::Nothing, async |store: Store| {
            let rotated = store.rotate_key_if(key.id, overlap, expect, now()).await?;
            let shown = KeyWithSecret { shown: view(&rotated.record), key: rotated.key.expose().clone() };
            Ok(Answer::ok(&shown)?.version(rotated.record.version()))
        })
        .await
}

/// End a key for good. To do it again changes nothing, and so it needs no `If-Match`: a leaked key must end, whatever it looks like.
#[utoipa::path(post, path = "/v1/keys/{id}/revoke", operation_id = "revoke_key", tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, description = "As it is now", body = KeyView, headers(("etag" = String))), Ending))]
pub(crate) async fn revoke(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
) -> Result<Answer, Problem> {
    let key = house.key(&asker, &id).await?;
    asker.demand(needed(&key.purpose, Deed::Revoke)?)?;
    house.store_of(&asker).revoke_key(key.id, now()).await?;
    shown(&house.key(&asker, &id).await?)
}

fn shown(key: &KeyRecord) -> Result<Answer, Problem> {
    Ok(Answer::ok(&view(key))?.version(key.version()))
}

/// What one must be allowed, to do this to a key of this purpose.
fn needed(purpose: &Purpose, deed: Deed) -> Result<Operation, Problem> {
    match (purpose, deed) {
        (Purpose::Service { .. }, _) => Ok(Operation::ChangeServiceKeys),
        (Purpose::Person { reach: Reach::Tenant(_), .. } | Purpose::Auditor { .. }, _) => {
            Ok(Operation::ChangePersonKeys)
        }
        (Purpose::Person { reach: Reach::Installation, .. }, Deed::Revoke) => {
            Ok(Operation::RevokeOperatorKeys)
        }
        (Purpose::Person { reach: Reach::Installation, .. }, Deed::Rotate) => {
            Err(Problem::new(Kind::Forbidden, "only the command line rotates keys of operators"))
        }
    }
}

async fn spec(house: &House, asker: &Asker, asked: NewKey) -> Result<KeySpec, Problem> {
    let Reach::Tenant(tenant) = house.reach(asker, asked.tenant_id.as_deref()).await? else {
        let why = "an operator must say `tenant_id`; only the command line makes keys of operators";
        return Err(Problem::new(Kind::Invalid, why));
    };
    let is_service = matches!(asked.r#for, KeyFor::Live | KeyFor::Test);
    let is_narrowed = asked.project_id.is_some()
        || asked.scopes.is_some()
        || asked.window_cap.is_some()
        || asked.concurrency.is_some();
    if is_narrowed && !is_service {
        let why =
            "`project_id`, `scopes`, `window_cap` and `concurrency` are for `live` and `test` keys alone";
        return Err(Problem::new(Kind::Invalid, why));
    }
    let limits = KeyLimits {
        window_cap: asked.window_cap.map_or(WindowCap::Inherit, Into::into),
        concurrency: asked.concurrency.map_or(Concurrency::Inherit, Into::into),
    };
    let expires = match asked.expires_ms.map(UnixMillis::new) {
        None => Expiry::Never,
        Some(Some(moment)) => Expiry::At(moment),
        Some(None) => return Err(Problem::new(Kind::Invalid, "a moment before 1970 is none")),
    };
    let name = name(&asked.name)?;
    let purpose = match asked.r#for {
        KeyFor::Live | KeyFor::Test => {
            let mode = if matches!(asked.r#for, KeyFor::Live) { Mode::Live } else { Mode::Test };
            let project = project(house, tenant, asked.project_id.as_deref()).await?;
            let scopes = asked.scopes.map_or(Ok(Scopes::default()), crate::scopes::ScopesView::read)?;
            Purpose::Service { tenant, project, mode, scopes }
        }
        KeyFor::Audit => Purpose::Auditor { tenant },
        KeyFor::Owner => person(tenant, Role::Owner),
        KeyFor::Admin => person(tenant, Role::Admin),
        KeyFor::Member => person(tenant, Role::Member),
        KeyFor::Auditor => person(tenant, Role::Auditor),
    };
    Ok(KeySpec { name, purpose, limits, expires })
}

const fn person(tenant: TenantId, role: Role) -> Purpose {
    Purpose::Person { reach: Reach::Tenant(tenant), role }
}

/// The tenant's project of this id, or the one that it began with.
async fn project(house: &House, tenant: TenantId, named: Option<&str>) -> Result<ProjectId, Problem> {
    match named {
        Some(id) => ProjectId::parse(id).ok_or_else(Problem::not_found),
        None => {
            let found = house.store.find_project(tenant, Project::DEFAULT).await?;
            let why = || Problem::new(Kind::Invalid, "the tenant has no project `default`: say `project_id`");
            found.map(|project| project.id).ok_or_else(why)
        }
    }
}
