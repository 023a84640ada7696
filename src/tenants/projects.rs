//! `bulkhead project`.

use serde_json::{Value, json};
use tenant::{Name, Project, Store, Tenant};

use super::{existing, now, open, refused};
use crate::cli::ProjectCommand;
use crate::data::DataDir;
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form, printable};

pub(crate) async fn run_project(data: &DataDir, command: ProjectCommand) -> Result<(), Failure> {
    let store = open(data).await?;
    match command {
        ProjectCommand::Create { name, tenant, json } => {
            let tenant = existing(&store, &tenant).await?;
            let name = Name::new(&name)
                .map_err(|error| Failure::new(Exit::Usage, format_args!("the project's name: {error}")))?;
            let made = store.create_project(tenant.id, name, now()).await;
            let project = made.map_err(|error| refused("make the project", &error))?;
            match Form::of(json) {
                Form::Json => present::json(&project_json(&project, &tenant)),
                Form::Table => present::line(&format!(
                    "project {} of {} has the id {}",
                    printable(project.name.as_str()),
                    printable(tenant.name.as_str()),
                    project.id
                )),
            }
        }
        ProjectCommand::List { tenant, json } => {
            let tenant = existing(&store, &tenant).await?;
            let projects = store.list_projects(tenant.id).await.doing(Exit::Store, "list the projects")?;
            match Form::of(json) {
                Form::Json => {
                    present::json(&projects.iter().map(|project| project_json(project, &tenant)).collect())
                }
                Form::Table => {
                    let row =
                        |project: &Project| vec![project.id.to_string(), printable(project.name.as_str())];
                    present::table(&["ID", "NAME"], &projects.iter().map(row).collect::<Vec<_>>())
                }
            }
        }
    }
}

/// The tenant's project of this name.
pub(super) async fn project(store: &Store, tenant: &Tenant, name: &str) -> Result<Project, Failure> {
    let found = store.find_project(tenant.id, name).await.doing(Exit::Store, "look the project up")?;
    found.ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "the tenant has no project of this name: `bulkhead project list --tenant NAME` shows those it has",
        )
    })
}

fn project_json(project: &Project, tenant: &Tenant) -> Value {
    json!({
        "id": project.id.to_string(),
        "name": project.name.as_str(),
        "tenant": tenant.name.as_str(),
        "tenant_id": tenant.id.to_string(),
        "created_ms": project.created.get(),
    })
}
