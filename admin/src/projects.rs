//! `/v1/projects`.

use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tenant::{Project, ProjectId, Reach};
use utoipa::ToSchema;

use crate::answer::Answer;
use crate::asked::{Ask, At, Body, given, name};
use crate::asker::Asker;
use crate::document::{Creating, Named, Reading};
use crate::house::{Shared, now};
use crate::once::{Keep, Request};
use crate::page::{Listed, Page};
use crate::problem::{Kind, Problem};
use crate::roles::Operation;

const PATH: &str = "/v1/projects";

/// A part of a tenant.
#[derive(Serialize, ToSchema)]
#[schema(as = Project)]
pub(crate) struct ProjectView {
    id: String,
    tenant_id: String,
    name: String,
    created_ms: i64,
}

/// A project to be made.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewProject {
    /// Unique within its tenant.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// Whose; the asker's own tenant where it is left out. An operator must say it.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    tenant_id: Option<String>,
}

fn view(project: &Project) -> ProjectView {
    ProjectView {
        id: project.id.to_string(),
        tenant_id: project.tenant.to_string(),
        name: project.name.as_str().to_owned(),
        created_ms: project.created.get(),
    }
}

/// Projects, the oldest first.
#[utoipa::path(get, path = "/v1/projects", operation_id = "list_projects", tag = "projects", params(Listed),
    responses((status = 200, description = "A page", body = Page<ProjectView>), Reading))]
pub(crate) async fn list(
    State(house): State<Shared>,
    asker: Asker,
    Ask(listed): Ask<Listed>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let (most, after) = (listed.most()?, listed.after(ProjectId::parse)?);
    let reach = house.reach(&asker, listed.tenant.as_deref()).await?;
    let found = house.store.projects_page(reach, after, most.saturating_add(1)).await?;
    Answer::ok(&Page::of(found, most, |one| one.id.to_string(), view))
}

/// Make a project.
#[utoipa::path(post, path = "/v1/projects", operation_id = "create_project", tag = "projects",
    params(Named), request_body = NewProject,
    responses((status = 201, description = "Made", body = ProjectView), Creating))]
pub(crate) async fn create(
    State(house): State<Shared>,
    asker: Asker,
    headers: HeaderMap,
    body: Body<NewProject>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::CreateProject)?;
    let name = name(&body.asked.name)?;
    let Reach::Tenant(tenant) = house.reach(&asker, body.asked.tenant_id.as_deref()).await? else {
        return Err(Problem::new(Kind::Invalid, "an operator must say `tenant_id`"));
    };
    let request = Request { headers: &headers, path: PATH, body: &body.bytes };
    house
        .once(&asker, request, Keep::Answer, async |store| {
            let project = store.create_project(tenant, name, now()).await?;
            let answer = Answer::ok(&view(&project))?.version(project.version());
            Ok(answer.created(format!("{PATH}/{}", project.id)))
        })
        .await
}

/// One project.
#[utoipa::path(get, path = "/v1/projects/{id}", operation_id = "get_project", tag = "projects",
    params(("id" = String, Path, description = "The project's id")),
    responses((status = 200, description = "As it is", body = ProjectView, headers(("etag" = String))), Reading))]
pub(crate) async fn get(
    State(house): State<Shared>,
    asker: Asker,
    At(id): At<String>,
) -> Result<Answer, Problem> {
    asker.demand(Operation::Read)?;
    let project = house.project(&asker, &id).await?;
    Ok(Answer::ok(&view(&project))?.version(project.version()))
}
