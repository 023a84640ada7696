//! Who is let in, and what a client may take of the listener.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use admin::{BODY_BYTES_MAX, PAGE_MAX};
use serde_json::{Value, json};
use tenant::{Reach, Role};

use crate::rig::{FAILURES, Rig, send};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_no_person_is_refused_alike() {
    let rig = Rig::sqlite().await;
    let (tenant, owner) = rig.tenant("acme").await;
    let (id, live) = rig.live(&owner, tenant).await;
    let other = rig.person(Reach::Tenant(tenant), Role::Owner).await;
    let revoked =
        rig.store.list_keys().await.unwrap().into_iter().find(|key| other.contains(key.id.as_str()));
    rig.store.revoke_key(revoked.unwrap().id, crate::rig::now()).await.unwrap();
    rig.directory.refresh(&rig.store).await.unwrap();
    let unknown = owner.replace(&owner[9..21], &id);
    let mut seen = vec![];
    for key in ["", "x", "bh_admin_", &unknown, &other] {
        let answer = rig.get(key, "/v1/tenants").await;
        assert_eq!((answer.status, answer.problem()), (401, "unauthenticated".into()), "{key:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        seen.push(answer.json()["detail"].clone());
    }
    assert!(seen.iter().all(|detail| *detail == seen[0]));
    let service = rig.get(&live, "/v1/tenants").await;
    assert_eq!((service.status, service.problem()), (403, "forbidden".into()));
    let body = json!({ "name": "x", "for": "audit" });
    let audit = rig.post(&owner, "/v1/keys", body).await.json()["key"].as_str().unwrap().to_owned();
    rig.directory.refresh(&rig.store).await.unwrap();
    assert_eq!(rig.get(&audit, "/v1/events").await.status, 403);
    assert_eq!(rig.get(&owner, "/v1/tenants").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_goes_on_failing_is_told_to_stop() {
    let rig = Rig::sqlite().await;
    let mut statuses = vec![];
    for _ in 0..=FAILURES + 2 {
        statuses.push(rig.get("x", "/v1/tenants").await.status);
    }
    assert!(
        statuses[..5].iter().all(|status| *status == 401) && statuses.last() == Some(&429),
        "{statuses:?}"
    );
    let refused = rig.get("x", "/v1/tenants").await;
    assert_eq!(
        (refused.problem(), &refused.json()["allowed"]),
        ("too-many-failures".into(), &json!(FAILURES))
    );
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(rig.get(&rig.operator, "/v1/tenants").await.status, 200, "a key that works is not slowed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_of_ours_is_a_problem() {
    let rig = Rig::sqlite().await;
    let key = &rig.operator;
    for (line, status, problem) in [
        ("GET /", 404, "not-found"),
        ("GET /v1", 404, "not-found"),
        ("GET /v1/keys/x/y", 404, "not-found"),
        ("GET /v1/keys/%FF", 404, "not-found"),
        ("GET /v1/keys/..%2F", 404, "not-found"),
        ("DELETE /v1/tenants", 405, "method-not-allowed"),
        ("PUT /v1/keys/AAAAAAAAAAAA", 405, "method-not-allowed"),
    ] {
        let answer = rig.ask(key, line, &[], None).await;
        assert_eq!((answer.status, answer.problem()), (status, problem.into()), "{line}");
        assert_eq!(answer.header("allow").is_empty(), status != 405, "{line}");
        assert_eq!(answer.header("cache-control"), "no-store");
    }
    let post = |kind: &str, body: String| {
        let uri = format!("http://{}/v1/tenants", rig.address);
        let request = http::Request::post(uri).header("authorization", format!("Bearer {key}"));
        send(request.header("content-type", kind).body(body).unwrap())
    };
    let json = "application/json";
    for (kind, body, status, problem) in [
        ("text/plain", "{}".to_owned(), 415, "not-json"),
        (json, String::new(), 400, "bad-request"),
        (json, "{".to_owned(), 400, "bad-request"),
        (json, "{\"name\": \"a\"} {}".to_owned(), 400, "bad-request"),
        (json, "{\"name\": \"\\ud800\"}".to_owned(), 400, "bad-request"),
        (json, "[".repeat(10_000), 422, "invalid"),
        (json, "null".to_owned(), 422, "invalid"),
        (json, "{\"name\": \"a\", \"name\": \"b\"}".to_owned(), 422, "invalid"),
        (json, format!("\"{}\"", "x".repeat(BODY_BYTES_MAX)), 413, "too-large"),
    ] {
        let begin: String = body.chars().take(30).collect();
        let answer = post(kind, body).await;
        assert_eq!((answer.status, answer.problem()), (status, problem.into()), "{kind} {begin}");
    }
    let planted = rig.live(key, rig.tenant("acme").await.0).await.1;
    for body in [json!({ "name": planted.clone(), planted.clone(): 1 }), json!({ "name": [planted.clone()] })]
    {
        let refused = rig.post(key, "/v1/tenants", body).await;
        assert!(!refused.text.contains(&planted[21..]), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_document_is_served_and_describes_each_route() {
    let rig = Rig::sqlite().await;
    let document = rig.get("", "/openapi.json").await;
    assert_eq!((document.status, document.header("content-type")), (200, "application/json"));
    let document = document.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 16);
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let statuses: Vec<_> = operation["responses"].as_object().unwrap().keys().collect();
            assert!(statuses.iter().any(|status| status.starts_with('2')), "{method} {path}: {statuses:?}");
            assert!(statuses.iter().any(|status| *status == "401"), "{method} {path}: {statuses:?}");
            let path = path.replace("{id}", "AAAAAAAAAAAA").replace("{level}", "key");
            let line = format!("{} {path}", method.to_uppercase());
            assert_eq!(rig.ask("", &line, &[], None).await.status, 401, "{line} is not described truly");
            rig.get(&rig.operator, "/v1/tenants").await;
        }
    }
    assert_eq!(PAGE_MAX, 200, "as the document says");
    let limit = |path: &str| document["paths"][path]["get"]["parameters"][0]["schema"]["maximum"].clone();
    assert_eq!(limit("/v1/keys"), json!(PAGE_MAX));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_does_not_come_is_given_up() {
    let rig = Rig::sqlite().await;
    let (address, key) = (rig.address, rig.operator.clone());
    let said = tokio::task::spawn_blocking(move || {
        let mut slow = TcpStream::connect(address).unwrap();
        slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!("POST /v1/tenants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n");
        let rest = "content-type: application/json\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{";
        slow.write_all((head + rest).as_bytes()).unwrap();
        let mut said = vec![];
        let _ended = slow.read_to_end(&mut said);
        String::from_utf8(said).unwrap()
    });
    let said = said.await.unwrap();
    assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("/problems/too-slow"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_is_said_to_be_away() {
    let rig = Rig::sqlite().await;
    rig.store.clone().close().await;
    let answer = rig.get(&rig.operator, "/v1/tenants").await;
    assert_eq!((answer.status, answer.problem()), (503, "store-away".into()));
    let problem: Value = answer.json();
    assert!(!problem.to_string().contains("sqlx") && !problem.to_string().contains("pool"), "{problem}");
}

/// What is known of keys is too old to be relied on: nobody is let in, whoever it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_too_old_let_nobody_in() {
    let rig = Rig::aged(Duration::from_millis(300)).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let answer = rig.get(&rig.operator, "/v1/tenants").await;
    assert_eq!((answer.status, answer.problem()), (503, "store-away".into()));
    let again = async {
        loop {
            rig.directory.refresh(&rig.store).await.unwrap();
            if rig.get(&rig.operator, "/v1/tenants").await.status == 200 {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("it is let in again");
}
