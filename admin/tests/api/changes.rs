//! What was changed over HTTP is told of, with who changed it.

use serde_json::{Value, json};
use tenant::{Reach, Role};

use crate::rig::{Rig, on_both};

on_both!(each_change_is_told_of_with_its_actor);

async fn each_change_is_told_of_with_its_actor(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let admin = rig.person(Reach::Tenant(tenant), Role::Admin).await;
    let admin_id = &admin["bh_admin_".len()..][..12];
    let last = async || {
        let page = rig.get(&owner, "/v1/events?limit=200").await.json();
        page["data"].as_array().unwrap().last().unwrap().clone()
    };
    let before = last().await;
    assert_eq!(
        (&before["actor"], &before["action"]),
        (&json!({ "kind": "command_line" }), &json!("key.create"))
    );

    let made = rig.post(&admin, "/v1/keys", json!({ "name": "ci", "for": "live" })).await.json();
    let id = made["id"].as_str().unwrap();
    let by = json!({ "kind": "key", "key_id": admin_id });
    let event = last().await;
    assert_eq!(
        (&event["actor"], &event["action"], &event["before"]),
        (&by, &json!("key.create"), &Value::Null)
    );
    assert_eq!(event["subject"], json!({ "kind": "key", "id": id }));
    assert_eq!((&event["tenant_id"], &event["after"]["name"]), (&json!(tenant.to_string()), &json!("ci")));
    assert!(!event.to_string().contains(&made["key"].as_str().unwrap()[21..]), "a secret in an event");

    let body = json!({ "at_once": 3 });
    rig.ask(&admin, &format!("PATCH /v1/limits/key/{id}"), &[("if-match", "*")], Some(&body)).await;
    let event = last().await;
    assert_eq!((&event["actor"], &event["action"]), (&by, &json!("limit.change")));
    assert_eq!((&event["before"]["at_once"], &event["after"]["at_once"]), (&Value::Null, &json!(3)));

    rig.ask(&admin, &format!("POST /v1/keys/{id}/revoke"), &[], None).await;
    let revoked = last().await;
    assert_eq!((&revoked["action"], &revoked["before"]["revoked_ms"]), (&json!("key.revoke"), &Value::Null));
    assert!(revoked["after"]["revoked_ms"].is_i64());

    let body = json!({ "share": { "floor": 5 } });
    rig.ask(&rig.operator, &format!("PATCH /v1/tenants/{tenant}"), &[("if-match", "*")], Some(&body)).await;
    let changed = last().await;
    assert_eq!(changed["action"], "tenant.change");
    assert_eq!(
        (&changed["before"]["share"]["floor"], &changed["after"]["share"]["floor"]),
        (&json!(0), &json!(5))
    );

    let place = changed["id"].as_str().unwrap();
    rig.post(&admin, "/v1/projects", json!({ "name": "new" })).await;
    let page = rig.get(&owner, &format!("/v1/events?after={place}")).await.json();
    assert_eq!(
        (page["data"].as_array().unwrap().len(), &page["data"][0]["action"]),
        (1, &json!("project.create"))
    );
}
