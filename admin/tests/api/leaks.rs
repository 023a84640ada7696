//! Keys that were found where they should not be, and who may tell of them.

use admin::{REPORT_BYTES_MAX, REPORT_TOKENS_MAX, REPORTS_PER_SECOND_MAX};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tenant::{Reach, Role};

use crate::rig::{Answer, Rig, Scanner, on_both, send};

on_both!(
    a_signed_report_ends_what_works,
    a_report_is_believed_by_its_signature_alone,
    a_person_s_report_ends_what_the_person_reaches,
    a_report_by_a_key_that_leaked_itself_ends_all_of_it,
);

fn token(text: &str) -> Value {
    json!({ "token": text, "type": "bulkhead_key", "url": "https://example.com/a/b.py?q=1", "source": "commit" })
}

/// Sends a body, signed as it is.
async fn signed(rig: &Rig, scanner: &Scanner, body: String) -> Answer {
    let signature = scanner.sign(body.as_bytes());
    raw(
        rig,
        &[("github-public-key-identifier", scanner.name), ("github-public-key-signature", &signature)],
        body,
    )
    .await
}

async fn raw(rig: &Rig, headers: &[(&str, &str)], body: String) -> Answer {
    let uri = format!("http://{}/v1/leaked-keys", rig.address);
    let request = http::Request::post(uri).header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    send(request.body(body).unwrap()).await
}

fn hash(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn feedback(text: &str, label: &str) -> Value {
    json!({ "token_hash": hash(text), "token_type": "bulkhead_key", "label": label })
}

async fn revocations(rig: &Rig) -> Vec<Value> {
    let events = rig.get(&rig.operator, "/v1/events?limit=200").await.json();
    let events = events["data"].as_array().unwrap().clone();
    events.into_iter().filter(|event| event["action"] == "key.revoke").collect()
}

async fn a_signed_report_ends_what_works(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let (id, live) = rig.live(&rig.operator, tenant).await;
    let (_, other) = rig.live(&rig.operator, tenant).await;
    let (revoked_id, revoked) = rig.live(&rig.operator, tenant).await;
    rig.ask(&owner, &format!("POST /v1/keys/{revoked_id}/revoke"), &[], None).await;
    // A checksum that holds over a secret that was never made, and one that does not hold.
    let unknown = Rig::sqlite().await.operator;
    let wrong = format!("{}0", &live[..live.len() - 1]);
    let texts = [&live, &unknown, &wrong, &revoked, &String::from("x"), &owner];
    let body = Value::from(texts.map(|text| token(text)).to_vec()).to_string();

    for round in 0..2 {
        let answer = signed(&rig, &rig.scanner, body.clone()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let (real, none) = ("true_positive", "false_positive");
        let labels = [real, none, none, real, none, real];
        let expected: Vec<_> = texts.iter().zip(labels).map(|(text, label)| feedback(text, label)).collect();
        assert_eq!(answer.json(), Value::from(expected), "round {round}");
        let revoked = revocations(&rig).await;
        assert_eq!(revoked.len(), 3, "once each, however often it is told: {revoked:?}");
        let event = revoked.iter().find(|event| event["subject"]["id"] == *id).unwrap();
        assert_eq!(event["actor"], json!({ "kind": "scanner", "public_key": "of-a-test" }));
        assert_eq!((&event["reason"], &event["found_at"]), (&json!("leaked"), &json!("example.com/a/b.py")));
        assert_eq!(
            (event["before"]["revoked_ms"].is_null(), event["after"]["revoked_ms"].is_i64()),
            (true, true)
        );
        let by_hand = revoked.iter().find(|event| event["subject"]["id"] == *revoked_id).unwrap();
        assert!(by_hand["reason"].is_null() && by_hand["found_at"].is_null());
        let told = Value::from(revoked).to_string() + &answer.text;
        assert!([&live, &owner].iter().all(|key| !told.contains(&key[22..40])), "a secret: {told}");
    }
    rig.directory.refresh(&rig.store).await.unwrap();
    let works = |key: &str| rig.directory.authenticate(key, crate::rig::now()).is_ok();
    assert!(!works(&live) && !works(&owner) && works(&other), "the ordinary way to gateways");
}

pub async fn a_report_is_believed_by_its_signature_alone(rig: Rig) {
    let (tenant, _) = rig.tenant("acme").await;
    let (_, live) = rig.live(&rig.operator, tenant).await;
    let body = Value::from(vec![token(&live)]).to_string();
    let (name, good) = (rig.scanner.name, rig.scanner.sign(body.as_bytes()));
    let (identifier, signature) = ("github-public-key-identifier", "github-public-key-signature");
    let forged = Scanner::new(name).sign(body.as_bytes());
    let of_another = rig.scanner.sign(b"[]");
    let bearer = format!("Bearer {}", rig.operator);
    for headers in [
        vec![],
        vec![(identifier, name)],
        vec![(signature, good.as_str())],
        vec![(identifier, "unknown"), (signature, good.as_str())],
        vec![(identifier, ""), (signature, good.as_str())],
        vec![(identifier, name), (signature, forged.as_str())],
        vec![(identifier, name), (signature, of_another.as_str())],
        vec![(identifier, name), (signature, "not base64")],
        vec![(identifier, name), (identifier, name), (signature, good.as_str())],
        vec![(identifier, name), (signature, good.as_str()), (signature, good.as_str())],
        // Who says to be a scanner is none by a person's key.
        vec![("authorization", bearer.as_str()), (identifier, name), (signature, forged.as_str())],
    ] {
        let answer = raw(&rig, &headers, body.clone()).await;
        assert_eq!((answer.status, answer.problem()), (401, "unauthenticated".into()), "{headers:?}");
    }
    assert!(revocations(&rig).await.is_empty());
    assert_eq!(signed(&rig, &rig.scanner, body).await.status, 200, "the control");
    assert_eq!(revocations(&rig).await.len(), 1);
}

async fn a_person_s_report_ends_what_the_person_reaches(rig: Rig) {
    let (acme, _) = rig.tenant("acme").await;
    let (other, _) = rig.tenant("other").await;
    let member = rig.person(Reach::Tenant(acme), Role::Member).await;
    let ((id, own), (_, theirs)) =
        (rig.live(&rig.operator, acme).await, rig.live(&rig.operator, other).await);
    let operator = rig.person(Reach::Installation, Role::Auditor).await;
    let report = Value::from([&own, &theirs, &operator].map(|text| token(text)).to_vec());
    let answer = rig.post(&member, "/v1/leaked-keys", report.clone()).await;
    let (real, none) = ("true_positive", "false_positive");
    let labels = |labels: [&str; 3]| {
        let of = [&own, &theirs, &operator].into_iter().zip(labels);
        Value::from(of.map(|(text, label)| feedback(text, label)).collect::<Vec<_>>())
    };
    assert_eq!(answer.json(), labels([real, none, none]), "what is another's looks as if it were not there");
    let revoked = revocations(&rig).await;
    assert_eq!((revoked.len(), &revoked[0]["subject"]["id"]), (1, &json!(id)));
    assert_eq!((&revoked[0]["actor"]["kind"], &revoked[0]["reason"]), (&json!("key"), &json!("leaked")));
    let answer = rig.post(&rig.operator, "/v1/leaked-keys", report).await;
    assert_eq!(answer.json(), labels([real, real, real]));
    assert_eq!(revocations(&rig).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_bounds() {
    let rig = Rig::sqlite().await;
    let most = Value::from(vec![token("x"); REPORT_TOKENS_MAX]).to_string();
    let answer = signed(&rig, &rig.scanner, most).await;
    assert_eq!((answer.status, answer.json().as_array().unwrap().len()), (200, REPORT_TOKENS_MAX));
    let padded = |bytes: usize| {
        let body = Value::from(vec![token("x")]).to_string();
        let space = " ".repeat(bytes - body.len());
        body + &space
    };
    assert_eq!(signed(&rig, &rig.scanner, padded(REPORT_BYTES_MAX)).await.status, 200);
    let answer = signed(&rig, &rig.scanner, padded(REPORT_BYTES_MAX + 1)).await;
    assert_eq!((answer.status, answer.problem()), (413, "too-large".into()));
    assert!(answer.text.contains(&REPORT_BYTES_MAX.to_string()), "{}", answer.text);
    let long = json!([{ "token": "x", "type": "t".repeat(129) }]);
    for (body, status, problem) in [
        (Value::from(vec![token("x"); REPORT_TOKENS_MAX + 1]), 422, "invalid"),
        (long, 422, "invalid"),
        (json!({ "token": "x", "type": "t" }), 422, "invalid"),
        (json!([["x", "t"]]), 422, "invalid"),
        (json!([{ "token": "x" }]), 422, "invalid"),
        (json!([{ "token": "x", "type": "t", "url": null, "more": 1 }]), 200, ""),
    ] {
        let answer = signed(&rig, &rig.scanner, body.to_string()).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(status == 200 || answer.problem() == problem, "{}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_that_come_too_often_are_told_to_wait() {
    let rig = Rig::sqlite().await;
    let storm = async |key: Option<&str>| {
        for _ in 0..REPORTS_PER_SECOND_MAX * 50 {
            let answer = match key {
                Some(key) => rig.post(key, "/v1/leaked-keys", json!([])).await,
                None => signed(&rig, &rig.scanner, "[]".to_owned()).await,
            };
            if answer.status != 200 {
                return Some(answer);
            }
        }
        None
    };
    let refused = storm(Some(&rig.operator)).await.expect("a person is told to wait");
    assert_eq!((refused.status, refused.problem()), (429, "too-many-reports".into()));
    assert_eq!(refused.json()["allowed"], json!(REPORTS_PER_SECOND_MAX));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    let (_, owner) = rig.tenant("acme").await;
    assert_eq!(
        rig.post(&owner, "/v1/leaked-keys", json!([])).await.status,
        200,
        "another is not held up by it"
    );
    assert_eq!(signed(&rig, &rig.scanner, "[]".to_owned()).await.status, 200);
    assert_eq!(storm(None).await.expect("scanners are told to wait").status, 429);
}

async fn a_report_by_a_key_that_leaked_itself_ends_all_of_it(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let (_, first) = rig.live(&rig.operator, tenant).await;
    let (_, last) = rig.live(&rig.operator, tenant).await;
    let report = [&owner, &first, &owner, &last, &owner, &first].map(|text| token(text));
    let answer = rig.post(&owner, "/v1/leaked-keys", Value::from(report.to_vec())).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.json().as_array().unwrap().iter().all(|one| one["label"] == "true_positive"));
    let revoked = revocations(&rig).await;
    assert_eq!(revoked.len(), 3, "{revoked:?}");
    assert!(owner.contains(revoked[2]["subject"]["id"].as_str().unwrap()), "its own comes last");
}
