//! What holds of each resource alike: pages, ETags, requests that are done once, and what is another's.

use serde_json::{Value, json};
use tenant::{Reach, Role};

use crate::rig::{Rig, on_both};

on_both!(
    pages_go_on_where_they_ended,
    a_change_needs_the_etag_of_what_was_seen,
    a_request_is_done_once,
    a_secret_is_never_answered_again,
    what_is_another_tenants_is_not_there,
    keys_are_made_rotated_and_revoked,
    limits_are_set_and_changed,
    a_tenant_is_renamed_suspended_and_taken_back,
    what_cannot_be_is_refused_with_numbers,
);

async fn walk(rig: &Rig, key: &str, path: &str, most: usize) -> Vec<Value> {
    let (mut seen, mut after) = (vec![], String::new());
    loop {
        let join = if path.contains('?') { '&' } else { '?' };
        let page = rig.get(key, &format!("{path}{join}limit={most}{after}")).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let page = page.json();
        let data = page["data"].as_array().unwrap();
        assert!(data.len() <= most);
        seen.extend(data.iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return seen,
        }
    }
}

async fn pages_go_on_where_they_ended(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    rig.tenant("other").await;
    for number in 0..5 {
        rig.post(&owner, "/v1/projects", json!({ "name": format!("p{number}") })).await;
        let (id, _) = rig.live(&owner, acme).await;
        let body = json!({ "at_once": 1 });
        rig.ask(&owner, &format!("PATCH /v1/limits/key/{id}?model=a/b"), &[("if-match", "*")], Some(&body))
            .await;
        let line = format!("PUT /v1/budgets/key/{id}/tokens/day/hard?model=a/b");
        rig.ask(&owner, &line, &[("if-match", "*")], Some(&json!({ "limit": number }))).await;
    }
    for most in [1, 2, 5, 200] {
        assert_eq!(walk(&rig, &owner, "/v1/tenants", most).await.len(), 1);
        assert_eq!(walk(&rig, &rig.operator, "/v1/tenants", most).await.len(), 2);
        assert_eq!(walk(&rig, &owner, "/v1/projects", most).await.len(), 6);
        assert_eq!(walk(&rig, &owner, "/v1/keys", most).await.len(), 6);
        assert_eq!(walk(&rig, &rig.operator, "/v1/keys", most).await.len(), 8);
        assert_eq!(walk(&rig, &owner, "/v1/limits", most).await.len(), 5);
        assert_eq!(walk(&rig, &rig.operator, &format!("/v1/limits?tenant={acme}"), most).await.len(), 5);
        assert_eq!(walk(&rig, &owner, "/v1/budgets", most).await.len(), 5);
        assert_eq!(walk(&rig, &rig.operator, &format!("/v1/budgets?tenant={acme}"), most).await.len(), 5);
        let events = walk(&rig, &owner, "/v1/events", most).await;
        assert_eq!(events.len(), 2 + 1 + 20);
        assert_eq!(walk(&rig, &owner, "/v1/events", 200).await, events);
    }
    for bad in ["limit=0", "limit=201", "limit=x", "after=%00", "limit=1&limit=2", "size=3", "after="] {
        for path in ["tenants", "projects", "keys", "limits", "budgets", "events"] {
            let refused = rig.get(&owner, &format!("/v1/{path}?{bad}")).await;
            assert_eq!((refused.status, refused.problem()), (400, "bad-request".into()), "{path}?{bad}");
        }
    }
    let refused = rig.get(&owner, "/v1/keys?limit=201").await.json();
    assert_eq!((&refused["asked"], &refused["allowed"]), (&json!(201), &json!(200)));
}

pub async fn a_change_needs_the_etag_of_what_was_seen(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let project = rig.store.list_projects(tenant).await.unwrap()[0].id;
    let (id, _) = rig.live(&owner, tenant).await;
    for (see, change, body) in [
        (
            format!("/v1/tenants/{tenant}"),
            format!("PATCH /v1/tenants/{tenant}"),
            json!({ "share": { "floor": 7 } }),
        ),
        (
            format!("/v1/limits/project/{project}"),
            format!("PATCH /v1/limits/project/{project}"),
            json!({ "at_once": 7 }),
        ),
        (format!("/v1/keys/{id}"), format!("POST /v1/keys/{id}/rotate"), json!({})),
    ] {
        let tag = rig.get(&rig.operator, &see).await.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() == 34, "{see}: {tag}");
        let ask =
            async |headers: &[(&str, &str)]| rig.ask(&rig.operator, &change, headers, Some(&body)).await;
        let without = ask(&[]).await;
        assert_eq!((without.status, without.problem()), (428, "if-match-needed".into()));
        let stale = ask(&[("if-match", "\"00000000000000000000000000000000\"")]).await;
        assert_eq!((stale.status, stale.problem()), (412, "stale".into()));
        for bad in ["W/\"00000000000000000000000000000000\"", "x", "\"\"", "*, *"] {
            let refused = ask(&[("if-match", bad)]).await;
            assert_eq!((refused.status, refused.problem()), (400, "bad-request".into()), "{bad}");
        }
        assert_eq!(rig.get(&rig.operator, &see).await.header("etag"), tag, "a refusal changes nothing");
        let changed = ask(&[("if-match", &tag)]).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        let newer = rig.get(&rig.operator, &see).await;
        assert!(newer.header("etag") == changed.header("etag") && newer.header("etag") != tag);
        assert_eq!(ask(&[("if-match", &tag)]).await.status, 412, "what was seen is gone");
        assert_eq!(ask(&[("if-match", "*")]).await.status, 200);
    }
}

pub async fn a_request_is_done_once(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    let ask = async |key: &str, line: &str, name: &str, body: Value| {
        rig.ask(key, line, &[("idempotency-key", name)], Some(&body)).await
    };
    let first = ask(&rig.operator, "POST /v1/tenants", "one", json!({ "name": "new" })).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""));
    let again = ask(&rig.operator, "POST /v1/tenants", "one", json!({ "name": "new" })).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"));
    assert_eq!((again.text, rig.store.list_tenants().await.unwrap().len()), (first.text, 2));
    let other = ask(&rig.operator, "POST /v1/tenants", "one", json!({ "name": "newer" })).await;
    assert_eq!((other.status, other.problem()), (422, "idempotency-key-reused".into()));
    let elsewhere = json!({ "name": "new", "tenant_id": acme.to_string() });
    let other = ask(&rig.operator, "POST /v1/projects", "one", elsewhere).await;
    assert_eq!(other.problem(), "idempotency-key-reused", "the path is part of what was asked");
    let theirs = ask(&owner, "POST /v1/projects", "one", json!({ "name": "new" })).await;
    assert_eq!(theirs.status, 201, "another key's name is another");

    let failed = ask(&owner, "POST /v1/projects", "two", json!({ "name": "new" })).await;
    assert_eq!((failed.status, failed.problem()), (409, "name-taken".into()));
    let failed = ask(&owner, "POST /v1/projects", "two", json!({ "name": "next" })).await;
    assert_eq!(failed.status, 201, "what failed may be tried again");
    for bad in ["", "a b", &"x".repeat(129)] {
        let refused = ask(&owner, "POST /v1/projects", bad, json!({ "name": "last" })).await;
        assert_eq!((refused.status, refused.problem()), (400, "bad-request".into()), "{bad:?}");
    }
}

pub async fn a_secret_is_never_answered_again(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    let ask = async |line: &str, name: &str, body: Value| {
        rig.ask(&owner, line, &[("idempotency-key", name), ("if-match", "*")], Some(&body)).await
    };
    let made = ask("POST /v1/keys", "one", json!({ "name": "ci", "for": "live" })).await;
    let (id, key) = (made.json()["id"].clone(), made.json()["key"].as_str().unwrap().to_owned());
    let rotate = format!("POST /v1/keys/{}/rotate", id.as_str().unwrap());
    let rotated = ask(&rotate, "two", json!({})).await.json()["key"].as_str().unwrap().to_owned();
    for (line, name, body) in [
        ("POST /v1/keys", "one", json!({ "name": "ci", "for": "live" })),
        (rotate.as_str(), "two", json!({})),
    ] {
        let again = ask(line, name, body).await;
        assert_eq!((again.status, again.problem()), (409, "done-before".into()));
        assert_eq!(again.json()["id"], id);
        assert!(!again.text.contains("bh_"), "{}", again.text);
    }
    let (other, _) = rig.live(&owner, acme).await;
    let elsewhere = ask(&format!("POST /v1/keys/{other}/rotate"), "two", json!({})).await;
    assert_eq!(elsewhere.problem(), "idempotency-key-reused", "the path is part of what was asked");
    let record = rig.get(&owner, &format!("/v1/keys/{}", id.as_str().unwrap())).await;
    assert_eq!(record.json()["secrets"].as_array().unwrap().len(), 2, "rotated once");
    for path in ["/v1/keys", "/v1/events", "/v1/limits"] {
        let text = rig.get(&owner, path).await.text;
        for secret in [&key, &rotated] {
            assert!(!text.contains(&secret[21..]), "a secret in {path}");
        }
    }
}

pub async fn what_is_another_tenants_is_not_there(rig: Rig) {
    let (acme, _) = rig.tenant("acme").await;
    let (_, stranger) = rig.tenant("other").await;
    let project = rig.store.list_projects(acme).await.unwrap()[0].id;
    let (id, _) = rig.live(&rig.operator, acme).await;
    let (nobody, no_key) = ("01a3185c-5000-7f09-bdcb-b8ff3d1aebba", "AAAAAAAAAAAA");
    let body = json!({ "at_once": 1 });
    for (theirs, nothing) in [
        (format!("GET /v1/tenants/{acme}"), format!("GET /v1/tenants/{nobody}")),
        (format!("GET /v1/projects/{project}"), format!("GET /v1/projects/{nobody}")),
        (format!("GET /v1/keys/{id}"), format!("GET /v1/keys/{no_key}")),
        (format!("POST /v1/keys/{id}/revoke"), format!("POST /v1/keys/{no_key}/revoke")),
        (format!("GET /v1/limits/key/{id}"), format!("GET /v1/limits/key/{no_key}")),
        (format!("GET /v1/limits/project/{project}"), format!("GET /v1/limits/project/{nobody}")),
        (format!("GET /v1/limits/tenant/{acme}"), format!("GET /v1/limits/tenant/{nobody}")),
        (
            format!("GET /v1/budgets/key/{id}/tokens/day/hard"),
            format!("GET /v1/budgets/key/{no_key}/tokens/day/hard"),
        ),
        (format!("GET /v1/budgets?tenant={acme}"), format!("GET /v1/budgets?tenant={nobody}")),
        (format!("GET /v1/usage?tenant={acme}"), format!("GET /v1/usage?tenant={nobody}")),
        (format!("GET /v1/keys?tenant={acme}"), format!("GET /v1/keys?tenant={nobody}")),
        (format!("GET /v1/events?tenant={acme}"), format!("GET /v1/events?tenant={nobody}")),
    ] {
        let (one, other) =
            (rig.ask(&stranger, &theirs, &[], None).await, rig.ask(&stranger, &nothing, &[], None).await);
        assert_eq!((one.status, one.problem()), (404, "not-found".into()), "{theirs}");
        let same = |answer: &crate::rig::Answer| {
            let mut problem = answer.json();
            problem["instance"] = Value::Null;
            (answer.status, problem)
        };
        assert_eq!(same(&one), same(&other), "{theirs}");
    }
    let any = [("if-match", "*")];
    for (line, body) in [
        (format!("PATCH /v1/tenants/{acme}"), json!({ "name": "mine" })),
        (format!("PATCH /v1/limits/key/{id}"), body.clone()),
        (format!("PATCH /v1/limits/tenant/{acme}"), body),
        (format!("PUT /v1/budgets/key/{id}/tokens/day/hard"), json!({ "limit": 1 })),
        (format!("DELETE /v1/budgets/project/{project}/tokens/day/hard"), json!({})),
        (format!("POST /v1/keys/{id}/rotate"), json!({})),
        ("POST /v1/projects".to_owned(), json!({ "name": "x", "tenant_id": acme.to_string() })),
        ("POST /v1/keys".to_owned(), json!({ "name": "x", "for": "live", "tenant_id": acme.to_string() })),
        (
            "POST /v1/keys".to_owned(),
            json!({ "name": "x", "for": "live", "project_id": project.to_string() }),
        ),
    ] {
        let refused = rig.ask(&stranger, &line, &any, Some(&body)).await;
        assert_eq!((refused.status, refused.problem()), (404, "not-found".into()), "{line}");
    }
    let member = rig.person(Reach::Tenant(acme), Role::Member).await;
    assert_eq!(rig.get(&member, &format!("/v1/keys/{id}")).await.status, 200, "whose it is sees it");
}

async fn keys_are_made_rotated_and_revoked(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let asked = json!({
        "name": "ci", "for": "test", "window_cap": 128, "concurrency": "inherit", "expires_ms": 4_000_000_000_000_i64,
        "scopes": { "models": { "only": ["a"] }, "addresses": { "only": ["127.0.0.0/8"] }, "output_max": { "tokens": 3 } },
    });
    let made = rig.post(&owner, "/v1/keys", asked.clone()).await;
    let key = made.json();
    assert_eq!(made.header("location"), format!("/v1/keys/{}", key["id"].as_str().unwrap()));
    for field in ["name", "for", "window_cap", "concurrency", "expires_ms", "scopes"] {
        assert_eq!(key[field], asked[field], "{field}");
    }
    assert!(key["key"].as_str().unwrap().starts_with("bh_test_"));
    let path = made.header("location");
    let shown = rig.get(&owner, path).await;
    let mut without = key.clone();
    without.as_object_mut().unwrap().remove("key");
    assert_eq!((shown.json(), shown.header("etag")), (without, made.header("etag")));
    let works = async |key: &Value| {
        rig.directory.refresh(&rig.store).await.unwrap();
        rig.directory.authenticate(key.as_str().unwrap(), crate::rig::now()).is_ok()
    };
    assert!(works(&key["key"]).await);
    let rotated = rig
        .ask(&owner, &format!("POST {path}/rotate"), &[("if-match", "*")], Some(&json!({ "overlap_s": 0 })))
        .await;
    assert!(!works(&key["key"]).await && works(&rotated.json()["key"]).await);
    let revoked = rig.ask(&owner, &format!("POST {path}/revoke"), &[], None).await;
    assert!(revoked.json()["revoked_ms"].is_i64() && !works(&rotated.json()["key"]).await);
    let again = rig.ask(&owner, &format!("POST {path}/revoke"), &[], None).await;
    assert_eq!(again.text, revoked.text);
    let refused =
        rig.ask(&owner, &format!("POST {path}/rotate"), &[("if-match", "*")], Some(&json!({}))).await;
    assert_eq!((refused.status, refused.problem()), (409, "key-ended".into()));
    assert_eq!(rig.store.list_projects(tenant).await.unwrap()[0].id.to_string(), key["project_id"]);
}

async fn limits_are_set_and_changed(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let project = rig.store.list_projects(tenant).await.unwrap()[0].id;
    let path = format!("/v1/limits/project/{project}?model=a");
    let open = rig.get(&owner, &path).await.json();
    assert_eq!((&open["at_once"], &open["model"]), (&json!("open"), &json!("a")));
    let all = json!({ "requests_per_minute": 1, "tokens_per_minute": 2, "at_once": 3, "prompt_tokens": 4, "output_tokens": "open" });
    let any = [("if-match", "*")];
    let set = rig.ask(&owner, &format!("PUT {path}"), &any, Some(&all)).await.json();
    assert!(all.as_object().unwrap().iter().all(|(name, value)| set[name] == *value), "{set}");
    let changed =
        rig.ask(&owner, &format!("PATCH {path}"), &any, Some(&json!({ "at_once": "open" }))).await.json();
    assert_eq!((&changed["at_once"], &changed["tokens_per_minute"]), (&json!("open"), &json!(2)));
    assert_eq!(rig.get(&owner, "/v1/limits").await.json()["data"], json!([changed]));
    for bad in [
        json!({ "at_once": 0 }),
        json!({ "at_once": null }),
        json!({ "at_most": 1 }),
        json!({ "at_once": "pool" }),
        json!([]),
    ] {
        let refused = rig.ask(&owner, &format!("PATCH {path}"), &any, Some(&bad)).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{bad}");
    }
    let partial = rig.ask(&owner, &format!("PUT {path}"), &any, Some(&json!({ "at_once": 1 }))).await;
    assert_eq!(partial.problem(), "invalid", "what is put is put whole");
    assert_eq!(rig.get(&owner, &format!("/v1/limits/world/{project}")).await.problem(), "not-found");
    let refused = rig.get(&owner, &format!("/v1/limits/project/{project}?model=a%20b")).await;
    assert_eq!(refused.problem(), "bad-request");
}

async fn a_tenant_is_renamed_suspended_and_taken_back(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let patch = async |body: Value| {
        let answer = rig
            .ask(&rig.operator, &format!("PATCH /v1/tenants/{tenant}"), &[("if-match", "*")], Some(&body))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        rig.directory.refresh(&rig.store).await.unwrap();
        answer.json()
    };
    let renamed = patch(json!({ "name": "Acme 株式会社", "share": { "floor": 64, "cap": 128 } })).await;
    assert_eq!(
        (&renamed["name"], &renamed["share"]),
        (&json!("Acme 株式会社"), &json!({ "floor": 64, "cap": 128, "weight": 1 }))
    );
    assert_eq!(patch(json!({ "share": { "cap": "pool" } })).await["share"]["cap"], "pool");
    let suspended = patch(json!({ "state": "suspended" })).await;
    assert!(suspended["suspended_ms"].is_i64());
    let refused = rig.get(&owner, "/v1/tenants").await;
    assert_eq!((refused.status, refused.problem()), (403, "suspended".into()));
    let back = patch(json!({ "state": "active" })).await;
    assert_eq!((&back["state"], &back["suspended_ms"]), (&json!("active"), &Value::Null));
    assert_eq!(rig.get(&owner, "/v1/tenants").await.json()["data"][0]["name"], "Acme 株式会社");
}

async fn what_cannot_be_is_refused_with_numbers(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let (id, _) = rig.live(&owner, tenant).await;
    let (any, share) = ([("if-match", "*")], format!("PATCH /v1/tenants/{tenant}"));
    for (line, body, asked, allowed) in [
        (format!("POST /v1/keys/{id}/rotate"), json!({ "overlap_s": 2_592_001 }), 2_592_001, 2_592_000),
        (share.clone(), json!({ "share": { "floor": 9, "cap": 8 } }), 9, 8),
        (share, json!({ "share": { "weight": 1001 } }), 1_001, 1_000),
    ] {
        let refused = rig.ask(&rig.operator, &line, &any, Some(&body)).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{line}: {}", refused.text);
        assert_eq!((&refused.json()["asked"], &refused.json()["allowed"]), (&json!(asked), &json!(allowed)));
    }
    for body in [
        json!({ "name": "x", "for": "live", "expires_ms": 1 }),
        json!({ "name": "x", "for": "live", "expires_ms": -1 }),
        json!({ "name": "", "for": "live" }),
        json!({ "name": "x", "for": "king" }),
        json!({ "name": "x", "for": "member", "scopes": {} }),
        json!({ "name": "x", "for": "live", "scopes": { "modles": { "only": [] } } }),
        json!({ "name": "x", "for": "live", "scopes": { "models": { "only": vec!["m"; 65] } } }),
        json!({ "name": "x", "for": "live", "window_cap": 4_294_967_295_u32 }),
        json!({ "name": "x", "for": "live", "scopes": [] }),
        json!({ "name": "x", "for": "live", "scopes": { "prompt_max": [3] } }),
        json!({ "name": "x", "for": "live", "scopes": { "models": null } }),
        json!({ "name": "x", "for": "live", "scopes": null }),
        json!({ "name": "x", "for": "live", "tag": 1 }),
        json!({ "name": "x" }),
    ] {
        let refused = rig.post(&owner, "/v1/keys", body.clone()).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{body}");
    }
}
