//! Who may do what, asked over HTTP: each operation by each role, of an operator and of a tenant's person.

use admin::roles::{Operation, may};
use serde_json::{Value, json};
use tenant::{Level, Models, Reach, Role, Scope, TenantId};

use crate::rig::{Answer, Rig, on_both};

on_both!(each_role_may_what_the_table_says, keys_of_operators_are_the_command_lines);

/// What is asked of each resource, and the operation that it is.
async fn ask(
    rig: &Rig,
    key: &str,
    of: &Reach,
    tenant: TenantId,
    operation: Operation,
    unique: &str,
) -> Vec<Answer> {
    let own = |mut body: Value| {
        if matches!(of, Reach::Installation) {
            body["tenant_id"] = json!(tenant.to_string());
        }
        body
    };
    let any = [("if-match", "*")];
    let list = |name: &str| match of {
        Reach::Installation => format!("/v1/{name}?tenant={tenant}"),
        Reach::Tenant(_) => format!("/v1/{name}"),
    };
    let (limits, budget) = (json!({ "at_once": 3 }), json!({ "limit": 3 }));
    match operation {
        Operation::Read => {
            let mut answers = vec![];
            for name in ["tenants", "projects", "keys", "limits", "budgets", "usage"] {
                answers.push(rig.get(key, &list(name)).await);
            }
            answers.push(rig.get(key, "/v1/prices").await);
            answers.push(rig.get(key, &format!("/v1/budgets/tenant/{tenant}/money/day/soft")).await);
            answers.push(rig.get(key, &format!("/v1/tenants/{tenant}")).await);
            answers.push(rig.get(key, &format!("/v1/limits/tenant/{tenant}")).await);
            answers
        }
        Operation::ReadEvents => vec![rig.get(key, &list("events")).await],
        Operation::CreateTenant => vec![rig.post(key, "/v1/tenants", json!({ "name": unique })).await],
        Operation::ChangeTenant => {
            let body = json!({ "share": { "weight": 2 } });
            vec![rig.ask(key, &format!("PATCH /v1/tenants/{tenant}"), &any, Some(&body)).await]
        }
        Operation::ChangeTenantLimits => {
            let path = format!("/v1/budgets/tenant/{tenant}/tokens/month/hard");
            vec![
                rig.ask(key, &format!("PATCH /v1/limits/tenant/{tenant}"), &any, Some(&limits)).await,
                rig.ask(key, &format!("PUT {path}"), &any, Some(&budget)).await,
                rig.ask(key, &format!("DELETE {path}"), &any, None).await,
            ]
        }
        Operation::CreateProject => vec![rig.post(key, "/v1/projects", own(json!({ "name": unique }))).await],
        Operation::ChangeLimits => change_limits(rig, key, tenant).await,
        Operation::ChangePrices => {
            vec![rig.ask(key, "PUT /v1/prices", &any, Some(&json!({ "data": [] }))).await]
        }
        Operation::ChangeServiceKeys => {
            let (id, _) = rig.live(&rig.operator, tenant).await;
            changes(rig, key, &id, own(json!({ "name": unique, "for": "test" }))).await
        }
        Operation::ChangePersonKeys => {
            let made = json!({ "name": "p", "for": "member", "tenant_id": tenant.to_string() });
            let id =
                rig.post(&rig.operator, "/v1/keys", made).await.json()["id"].as_str().unwrap().to_owned();
            let mut answers = changes(rig, key, &id, own(json!({ "name": unique, "for": "auditor" }))).await;
            answers.push(rig.post(key, "/v1/keys", own(json!({ "name": unique, "for": "audit" }))).await);
            answers
        }
        Operation::ReportLeakedKeys => vec![rig.post(key, "/v1/leaked-keys", json!([])).await],
        Operation::RevokeOperatorKeys => {
            rig.person(Reach::Installation, Role::Auditor).await;
            let keys = rig.store.list_keys().await.unwrap();
            let is_it =
                |key: &&tenant::KeyRecord| key.purpose.tenant().is_none() && key.name.as_str() == "person";
            let id = keys.iter().rfind(is_it).unwrap().id;
            vec![rig.ask(key, &format!("POST /v1/keys/{id}/revoke"), &[], None).await]
        }
    }
}

async fn change_limits(rig: &Rig, key: &str, tenant: TenantId) -> Vec<Answer> {
    let (limits, budget) = (json!({ "at_once": 3 }), json!({ "limit": 3 }));
    let any = [("if-match", "*")];

    let project = rig.store.list_projects(tenant).await.unwrap()[0].id;
    let (id, _) = rig.live(&rig.operator, tenant).await;
    vec![
        rig.ask(key, &format!("PATCH /v1/limits/project/{project}"), &any, Some(&limits)).await,
        rig.ask(key, &format!("PATCH /v1/limits/key/{id}"), &any, Some(&limits)).await,
        rig.ask(key, &format!("PUT /v1/budgets/project/{project}/money/day/soft"), &any, Some(&budget)).await,
        rig.ask(key, &format!("PUT /v1/budgets/key/{id}/tokens/total/hard"), &any, Some(&budget)).await,
        rig.ask(key, &format!("DELETE /v1/budgets/key/{id}/tokens/total/hard"), &any, None).await,
    ]
}

async fn changes(rig: &Rig, key: &str, id: &str, made: Value) -> Vec<Answer> {
    let body = json!({ "overlap_s": 5 });
    vec![
        rig.post(key, "/v1/keys", made).await,
        rig.ask(key, &format!("POST /v1/keys/{id}/rotate"), &[("if-match", "*")], Some(&body)).await,
        rig.ask(key, &format!("POST /v1/keys/{id}/revoke"), &[], None).await,
    ]
}

pub async fn each_role_may_what_the_table_says(rig: Rig) {
    let (tenant, _) = rig.tenant("acme").await;
    for reach in [Reach::Installation, Reach::Tenant(tenant)] {
        for role in Role::ALL {
            let key = rig.person(reach, role).await;
            for (place, operation) in Operation::ALL.into_iter().enumerate() {
                let unique = format!("{}-{}-{place}", matches!(reach, Reach::Installation), role.name());
                // Who reaches one tenant does not see that there are operators.
                let hidden = operation == Operation::RevokeOperatorKeys && reach != Reach::Installation;
                for answer in ask(&rig, &key, &reach, tenant, operation, &unique).await {
                    let seen =
                        format!("{reach:?} {} {operation:?}: {} {}", role.name(), answer.status, answer.text);
                    match (may(reach, role, operation), hidden) {
                        (true, _) => assert!((200..300).contains(&answer.status), "{seen}"),
                        (false, true) => assert_eq!(answer.status, 404, "{seen}"),
                        (false, false) => {
                            assert_eq!((answer.status, answer.problem()), (403, "forbidden".into()), "{seen}")
                        }
                    }
                }
            }
        }
    }
}

async fn keys_of_operators_are_the_command_lines(rig: Rig) {
    let made = rig.post(&rig.operator, "/v1/keys", json!({ "name": "x", "for": "owner" })).await;
    assert_eq!(made.problem(), "invalid", "no operator is made here");
    let operator = rig.store.list_keys().await.unwrap()[0].id;
    let body = json!({});
    let line = format!("POST /v1/keys/{operator}/rotate");
    let rotated = rig.ask(&rig.operator, &line, &[("if-match", "*")], Some(&body)).await;
    assert_eq!(rotated.problem(), "forbidden");
    let limits = rig.get(&rig.operator, &format!("/v1/limits/key/{operator}")).await;
    assert_eq!(limits.problem(), "invalid", "an operator's key asks no models");
    let (tenant, owner) = rig.tenant("acme").await;
    for path in [
        format!("/v1/keys/{operator}"),
        format!("/v1/limits/key/{operator}"),
        format!("/v1/budgets/key/{operator}/tokens/day/hard"),
    ] {
        assert_eq!(rig.get(&owner, &path).await.problem(), "not-found", "{path}");
    }
    let raised = rig.post(&owner, "/v1/keys", json!({ "name": "x", "for": "owner" })).await.json();
    assert_eq!(raised["tenant_id"], tenant.to_string(), "an owner's persons are the tenant's");
    let (_, rule) =
        rig.store.limits_of(&Scope { level: Level::Tenant(tenant), models: Models::All }).await.unwrap();
    assert_eq!(rule.limits, tenant::Limits::OPEN);
}
