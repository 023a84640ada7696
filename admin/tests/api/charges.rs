//! Budgets, prices and usage.

use admin::{BODY_BYTES_MAX, PRICES_BYTES_MAX};
use serde_json::{Value, json};
use tenant::{
    Amounts, Batch, KeyId, ModelName, PRICE_MAX, PRICED_MODELS_MAX, Payer, ProjectId, Reach, Role, TenantId,
    USAGE_ANSWER_MAX, UnixMillis, UsageRow,
};
use uuid::Uuid;

use crate::rig::{Rig, now, on_both};

on_both!(
    the_longest_price_list_fits,
    budgets_are_set_shown_and_lifted,
    a_budget_needs_the_etag_of_what_was_seen,
    a_budget_that_cannot_be_is_refused,
    prices_are_set_as_one_list,
    prices_that_cannot_be_are_refused,
    usage_is_summed_by_its_parts,
    usage_is_its_tenants_alone,
    usage_that_is_too_much_is_refused,
);

const ANY: [(&str, &str); 1] = [("if-match", "*")];
/// 2026-12-03T04.
const HOUR: u64 = 498_964;

fn row(hour: u64, payer: Payer, model: &str, tokens: u64) -> UsageRow {
    let (prompt, completion) = (tokens, 10 * tokens);
    let amounts = Amounts {
        requests: 1,
        prompt,
        cached: tokens / 2,
        completion,
        cost_micro: 100 * tokens,
        unpriced: 1,
    };
    UsageRow { hour, payer, model: ModelName::new(model).unwrap(), amounts }
}

async fn add(rig: &Rig, rows: Vec<UsageRow>) {
    // At their own time: what is old by the clock would be forgotten.
    let last = rows.iter().map(|row| row.hour).max().unwrap();
    let at = UnixMillis::new(i64::try_from(last * 3_600_000).unwrap()).unwrap();
    let batch = Batch { journal: Uuid::now_v7(), number: 1, rows };
    rig.store.add_usage(&batch, at).await.unwrap();
}

async fn payer(rig: &Rig, tenant: TenantId) -> Payer {
    let (id, _) = rig.live(&rig.operator, tenant).await;
    let project = rig.store.list_projects(tenant).await.unwrap()[0].id;
    Payer { tenant, project, key: KeyId::parse(&id).unwrap() }
}

fn this_hour() -> u64 {
    now().unsigned() / 3_600_000
}

async fn budgets_are_set_shown_and_lifted(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let payer = payer(&rig, tenant).await;
    add(&rig, vec![row(this_hour(), payer, "a", 3), row(this_hour(), payer, "b", 5)]).await;
    let of_key = format!("/v1/budgets/key/{}/tokens/total/hard", payer.key);
    let open = rig.get(&owner, &of_key).await.json();
    assert_eq!((&open["limit"], &open["spent"], &open["warn_at"]), (&json!("open"), &json!(88), &json!([])));
    let body = json!({ "limit": 9_223_372_036_854_775_807_u64, "warn_at": [50, 80] });
    let set = rig.ask(&owner, &format!("PUT {of_key}"), &ANY, Some(&body)).await;
    let shown = json!({ "level": "key", "id": payer.key.to_string(), "model": null, "count": "tokens", "per": "total",
        "kind": "hard", "limit": 9_223_372_036_854_775_807_u64, "spent": 88, "warn_at": [50, 80] });
    assert_eq!((set.status, set.json()), (200, shown.clone()));
    assert_eq!(rig.get(&owner, &of_key).await.header("etag"), set.header("etag"));

    let of_tenant = format!("/v1/budgets/tenant/{tenant}/money/total/soft?model=b");
    let body = json!({ "limit": 0 });
    let refused = rig.ask(&owner, &format!("PUT {of_tenant}"), &ANY, Some(&body)).await;
    assert_eq!((refused.status, refused.problem()), (403, "forbidden".into()), "its provider's to say");
    let money = rig.ask(&rig.operator, &format!("PUT {of_tenant}"), &ANY, Some(&body)).await.json();
    assert_eq!((&money["limit"], &money["spent"], &money["model"]), (&json!(0), &json!(500), &json!("b")));
    assert_eq!(rig.get(&owner, "/v1/budgets").await.json()["data"], json!([shown, money]));

    let refused = rig.ask(&owner, &format!("DELETE {of_tenant}"), &ANY, None).await;
    assert_eq!((refused.status, refused.problem()), (403, "forbidden".into()));
    let lifted = rig.ask(&owner, &format!("DELETE {of_key}"), &ANY, None).await;
    assert_eq!((lifted.status, lifted.json()), (200, open));
    assert_eq!(rig.get(&owner, "/v1/budgets").await.json()["data"], json!([money]));
    let events = rig.get(&owner, "/v1/events?limit=200").await.json()["data"].clone();
    let last = events.as_array().unwrap().last().unwrap();
    assert_eq!((&last["action"], &last["after"]), (&json!("budget.change"), &Value::Null));
    assert_eq!(last["before"]["warn_at"], json!([50, 80]));
}

async fn a_budget_needs_the_etag_of_what_was_seen(rig: Rig) {
    let (tenant, owner) = rig.tenant("acme").await;
    let project = rig.store.list_projects(tenant).await.unwrap()[0].id;
    let path = format!("/v1/budgets/project/{project}/tokens/day/hard");
    let (put, delete) = (format!("PUT {path}"), format!("DELETE {path}"));
    let body = json!({ "limit": 7 });
    let unset = rig.get(&owner, &path).await.header("etag").to_owned();
    let without = rig.ask(&owner, &put, &[], Some(&body)).await;
    assert_eq!((without.status, without.problem()), (428, "if-match-needed".into()));
    let set = rig.ask(&owner, &put, &[("if-match", &unset)], Some(&body)).await;
    assert_eq!(set.status, 200, "{}", set.text);
    let other = rig.ask(&owner, &put, &[("if-match", &unset)], Some(&json!({ "limit": 8 }))).await;
    assert_eq!((other.status, other.problem()), (412, "stale".into()), "it is set already");
    assert_eq!(rig.get(&owner, &path).await.json()["limit"], 7);
    assert_eq!(rig.ask(&owner, &delete, &[], None).await.problem(), "if-match-needed");
    assert_eq!(rig.ask(&owner, &delete, &[("if-match", &unset)], None).await.problem(), "stale");
    let lifted = rig.ask(&owner, &delete, &[("if-match", set.header("etag"))], None).await;
    assert_eq!((lifted.status, lifted.header("etag")), (200, unset.as_str()));
}

async fn a_budget_that_cannot_be_is_refused(rig: Rig) {
    let (tenant, _) = rig.tenant("acme").await;
    let path = format!("/v1/budgets/tenant/{tenant}/tokens/day/hard");
    for bad in [
        json!({}),
        json!({ "limit": -1 }),
        json!({ "limit": "open" }),
        json!({ "limit": 9_223_372_036_854_775_808_u64 }),
        json!({ "limit": 1, "warn_at": [80, 50] }),
        json!({ "limit": 1, "warn_at": [101] }),
        json!({ "limit": 1, "warn_at": [1, 2, 3, 4, 5] }),
        json!({ "limit": 1, "warn_at": null }),
        json!({ "limit": 1, "spent": 0 }),
    ] {
        let refused = rig.ask(&rig.operator, &format!("PUT {path}"), &ANY, Some(&bad)).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{bad}");
    }
    for bad in ["world/x/tokens/day/hard", "tenant/x/tokens/day/hard"] {
        assert_eq!(rig.get(&rig.operator, &format!("/v1/budgets/{bad}")).await.problem(), "not-found");
    }
    for bad in ["gold/day/hard", "tokens/week/hard", "tokens/day/firm"] {
        let refused = rig.get(&rig.operator, &format!("/v1/budgets/tenant/{tenant}/{bad}")).await;
        assert_eq!((refused.status, refused.problem()), (404, "not-found".into()), "{bad}");
    }
    let own = rig.store.list_keys().await.unwrap()[0].id;
    let refused = rig.get(&rig.operator, &format!("/v1/budgets/key/{own}/tokens/day/hard")).await;
    assert_eq!(refused.problem(), "invalid", "an operator's key asks no models");
}

async fn prices_are_set_as_one_list(rig: Rig) {
    let (_, owner) = rig.tenant("acme").await;
    let none = rig.get(&owner, "/v1/prices").await;
    assert_eq!(none.json(), json!({ "data": [] }));
    let price = |model, part: u64| json!({ "model": model, "prompt": part, "cached": 0, "completion": 1 });
    let two = json!({ "data": [price("b", 2), price("a", 1_000_000_000_000)] });
    let refused = rig.ask(&owner, "PUT /v1/prices", &ANY, Some(&two)).await;
    assert_eq!((refused.status, refused.problem()), (403, "forbidden".into()));
    let without = rig.ask(&rig.operator, "PUT /v1/prices", &[], Some(&two)).await;
    assert_eq!((without.status, without.problem()), (428, "if-match-needed".into()));
    let seen = [("if-match", none.header("etag"))];
    let set = rig.ask(&rig.operator, "PUT /v1/prices", &seen, Some(&two)).await;
    assert_eq!(set.json(), json!({ "data": [price("a", 1_000_000_000_000), price("b", 2)] }));
    let shown = rig.get(&owner, "/v1/prices").await;
    assert_eq!((shown.text, shown.headers["etag"].clone()), (set.text.clone(), set.headers["etag"].clone()));
    let stale = rig.ask(&rig.operator, "PUT /v1/prices", &seen, Some(&two)).await;
    assert_eq!((stale.status, stale.problem()), (412, "stale".into()));
    let one = json!({ "data": [price("b", 3)] });
    let seen = [("if-match", set.header("etag"))];
    assert_eq!(rig.ask(&rig.operator, "PUT /v1/prices", &seen, Some(&one)).await.json(), one);
    let events = rig.get(&rig.operator, "/v1/events?limit=200").await.json()["data"].clone();
    assert_eq!(events.as_array().unwrap().last().unwrap()["action"], "price.change");
}

async fn prices_that_cannot_be_are_refused(rig: Rig) {
    let price =
        |model: &str, part: u64| json!({ "model": model, "prompt": part, "cached": 0, "completion": 1 });
    let many: Vec<_> = (0..=1_024).map(|number| price(&number.to_string(), 1)).collect();
    let put = async |data: Value| {
        let body = json!({ "data": data });
        let refused = rig.ask(&rig.operator, "PUT /v1/prices", &ANY, Some(&body)).await;
        assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{}", refused.text);
        refused.json()
    };
    let too_many = put(json!(many)).await;
    assert_eq!((&too_many["asked"], &too_many["allowed"]), (&json!(1_025), &json!(1_024)));
    let too_high = put(json!([price("a", 1_000_000_000_001)])).await;
    assert_eq!(too_high["allowed"], json!(1_000_000_000_000_u64));
    put(json!([price("a", 1), price("a", 1)])).await;
    put(json!([price("a b", 1)])).await;
    put(json!([{ "model": "a", "prompt": 1, "completion": 1 }])).await;
    put(json!([{ "model": "a", "prompt": 1.5, "cached": 1, "completion": 1 }])).await;
    assert_eq!(rig.get(&rig.operator, "/v1/prices").await.json()["data"], json!([]));
}

async fn usage_is_summed_by_its_parts(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    let one = payer(&rig, acme).await;
    let two = payer(&rig, acme).await;
    let rows = vec![row(HOUR, one, "a", 1), row(HOUR, two, "b", 2), row(HOUR + 1, one, "a", 4)];
    add(&rig, [rows, vec![row(HOUR + 24, one, "a", 8)]].concat()).await;
    let ask = async |query: &str| {
        let path = format!("/v1/usage?from=2026-12-03&to=2026-12-05{query}");
        let answer = rig.get(&owner, &path).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    let sums = |answer: &Value| {
        let sum =
            |one: &Value| (one["from"].as_str().unwrap().to_owned(), one["prompt_tokens"].as_u64().unwrap());
        answer["data"].as_array().unwrap().iter().map(sum).collect::<Vec<_>>()
    };
    let at = |hour: &str, tokens: u64| (format!("2026-12-{hour}"), tokens);
    let days = ask("").await;
    assert_eq!((&days["by"], &days["tenant_id"]), (&json!("day"), &json!(acme.to_string())));
    assert_eq!((&days["from"], &days["to"]), (&json!("2026-12-03T00"), &json!("2026-12-05T00")));
    assert_eq!(sums(&days), [at("03T00", 7), at("04T00", 8)]);
    let whole = json!({ "from": "2026-12-03T00", "project_id": null, "key_id": null, "model": null, "requests": 3,
        "prompt_tokens": 7, "cached_tokens": 3, "completion_tokens": 70, "cost_micro": 700, "unpriced_requests": 3 });
    assert_eq!(days["data"][0], whole);
    let hours = ask("&by=hour").await;
    assert_eq!(sums(&hours), [at("03T04", 3), at("03T05", 4), at("04T04", 8)]);
    let parts = ask("&each=model,key").await["data"].as_array().unwrap().clone();
    assert!(parts.len() == 3 && parts.iter().all(|sum| sum["project_id"].is_null()), "{parts:?}");
    assert!(parts.iter().any(|sum| sum["key_id"] == two.key.to_string() && sum["model"] == "b"));
    assert_eq!(sums(&ask("&model=b").await), [at("03T00", 2)]);
    assert_eq!(sums(&ask(&format!("&key={}", one.key)).await), [at("03T00", 5), at("04T00", 8)]);
    assert_eq!(sums(&ask(&format!("&project={}", one.project)).await).len(), 2);
    let narrow = rig.get(&owner, "/v1/usage?from=2026-12-03T05&to=2026-12-04T04&by=hour").await.json();
    assert_eq!(sums(&narrow), [at("03T05", 4)]);
    for (bad, status, problem) in [
        ("from=2026-12-05&to=2026-12-05", 422, "invalid"),
        ("from=yesterday", 400, "bad-request"),
        ("to=2026-12-3", 400, "bad-request"),
        ("by=week", 400, "bad-request"),
        ("each=tenant", 400, "bad-request"),
        ("each=", 400, "bad-request"),
        ("model=a%20b", 400, "bad-request"),
        ("limit=1", 400, "bad-request"),
    ] {
        let refused = rig.get(&owner, &format!("/v1/usage?{bad}")).await;
        assert_eq!((refused.status, refused.problem()), (status, problem.into()), "{bad}");
    }
}

async fn usage_is_its_tenants_alone(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    let (other, stranger) = rig.tenant("other").await;
    let (one, foreign) = (payer(&rig, acme).await, payer(&rig, other).await);
    add(&rig, vec![row(this_hour(), one, "a", 1), row(this_hour(), foreign, "a", 1_000)]).await;
    let own = rig.get(&owner, "/v1/usage").await.json();
    assert_eq!(own["data"][0]["prompt_tokens"], 1, "the last 30 days, the current hour among them");
    for role in Role::ALL {
        let key = rig.person(Reach::Tenant(acme), role).await;
        assert_eq!(rig.get(&key, "/v1/usage").await.json()["data"], own["data"], "{}", role.name());
    }
    let named = rig.get(&rig.operator, &format!("/v1/usage?tenant={acme}")).await.json();
    assert_eq!(named["data"], own["data"]);
    assert_eq!(rig.get(&rig.operator, "/v1/usage").await.problem(), "bad-request");
    let nothing = ProjectId::parse("01a3185c-5000-7f09-bdcb-b8ff3d1aebba").unwrap();
    for query in [
        format!("tenant={acme}"),
        format!("project={}", one.project),
        format!("key={}", one.key),
        format!("project={nothing}"),
        "key=x".to_owned(),
    ] {
        let refused = rig.get(&stranger, &format!("/v1/usage?{query}")).await;
        assert_eq!((refused.status, refused.problem()), (404, "not-found".into()), "{query}");
    }
    let crossed = format!("/v1/usage?tenant={other}&key={}", one.key);
    assert_eq!(rig.get(&rig.operator, &crossed).await.problem(), "not-found", "not that tenant's key");
}

async fn usage_that_is_too_much_is_refused(rig: Rig) {
    let (acme, owner) = rig.tenant("acme").await;
    let one = payer(&rig, acme).await;
    let most = u64::from(USAGE_ANSWER_MAX);
    let begin = this_hour() - 9_000;
    let half = |model: &'static str| (0..=most / 2).map(move |hour| row(begin + hour, one, model, 1));
    add(&rig, half("a").chain(half("b")).collect()).await;
    let path = "/v1/usage?from=2020-01-01&by=hour&to=2100-01-01";
    let refused = rig.get(&owner, &format!("{path}&each=model")).await;
    assert_eq!((refused.status, refused.problem()), (422, "invalid".into()), "{}", refused.text);
    assert_eq!((&refused.json()["asked"], &refused.json()["allowed"]), (&json!(most + 1), &json!(most)));
    assert_eq!(rig.get(&owner, path).await.status, 200, "fewer parts fit");
}

async fn the_longest_price_list_fits(rig: Rig) {
    // Names of the most characters, each of which JSON has to escape, and the highest prices.
    let one = |number: usize| {
        let model = format!("{number:04}{}", "\"".repeat(124));
        json!({ "model": model, "prompt": PRICE_MAX, "cached": PRICE_MAX, "completion": PRICE_MAX })
    };
    let list = |models: usize| json!({ "data": (0..models).map(one).collect::<Vec<_>>() });
    let any = [("if-match", "*")];
    let longest = list(PRICED_MODELS_MAX);
    assert!(longest.to_string().len() > BODY_BYTES_MAX && longest.to_string().len() <= PRICES_BYTES_MAX);
    let set = rig.ask(&rig.operator, "PUT /v1/prices", &any, Some(&longest)).await;
    assert_eq!((set.status, set.json()), (200, longest), "{}", &set.text[..200]);
    let too_many = rig.ask(&rig.operator, "PUT /v1/prices", &any, Some(&list(PRICED_MODELS_MAX + 1))).await;
    assert_eq!((too_many.status, too_many.json()["allowed"].clone()), (422, json!(PRICED_MODELS_MAX)));
    let body = Value::from("x".repeat(PRICES_BYTES_MAX));
    let too_long = rig.ask(&rig.operator, "PUT /v1/prices", &any, Some(&body)).await;
    assert_eq!((too_long.status, too_long.problem()), (413, "too-large".into()));
    assert!(too_long.text.contains(&PRICES_BYTES_MAX.to_string()));
    // Elsewhere the bound is what it was.
    let body = Value::from("x".repeat(BODY_BYTES_MAX));
    assert_eq!(rig.post(&rig.operator, "/v1/tenants", body).await.status, 413);
}
