//! Limits, on each database.

use std::num::NonZeroU32;

use super::*;
use crate::directory::{Caller, Directory};
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::purpose::Reach;
use crate::purpose::Role;
use crate::rate::{Limit, Limits, Rule, Scope};

on_both!(
    limits_are_kept_changed_lifted_and_followed,
    limits_of_what_is_not_there_are_refused,
    limits_have_a_bound,
    a_limit_of_nobodys_making_is_refused,
);

fn model(name: &str) -> ModelName {
    ModelName::new(name).unwrap()
}

fn most(number: u32) -> Limit {
    Limit::AtMost(NonZeroU32::new(number).unwrap())
}

fn rule(level: Level, models: Models, requests: u32) -> Rule {
    let limits = Limits { requests_per_minute: most(requests), ..Limits::OPEN };
    Rule { scope: Scope { level, models }, limits }
}

async fn limits_are_kept_changed_lifted_and_followed(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let project = bench.store.find_project(tenant, Project::DEFAULT).await.unwrap().unwrap().id;
    let (record, key) = bench.key(tenant).await;
    let directory = Directory::open(&bench.store).await.unwrap();
    let Ok(Caller::Service(principal)) = directory.authenticate(key.expose(), at(NOW)) else {
        panic!("it works")
    };
    let chain = |name: &str| directory.chain(&principal, &model(name)).unwrap().rules().to_vec();
    assert_eq!(chain("a"), []);

    let of_key = Rule {
        limits: Limits {
            requests_per_minute: most(1),
            tokens_per_minute: most(2),
            at_once: most(3),
            prompt_tokens: most(4),
            output_tokens: most(5),
        },
        ..rule(Level::Key(record.id), Models::All, 1)
    };
    let of_project = rule(Level::Project(project), Models::One(model("a")), 6);
    let of_tenant = rule(Level::Tenant(tenant), Models::All, 7);
    for rule in [&of_key, &of_project, &of_tenant] {
        bench.store.set_limits(rule, at(NOW)).await.unwrap();
    }
    let listed = bench.store.list_limits(tenant).await.unwrap();
    assert_eq!(listed, [of_key.clone(), of_project.clone(), of_tenant.clone()]);
    directory.refresh(&bench.store).await.unwrap();
    assert_eq!(chain("a"), [of_key.clone(), of_project, of_tenant.clone()]);
    assert_eq!(chain("b"), [of_key.clone(), of_tenant.clone()], "another model");

    let more = rule(Level::Tenant(tenant), Models::All, 9);
    bench.store.set_limits(&more, at(NOW)).await.unwrap();
    let lifted = Rule { limits: Limits::OPEN, ..of_key };
    bench.store.set_limits(&lifted, at(NOW)).await.unwrap();
    directory.refresh(&bench.store).await.unwrap();
    assert_eq!(chain("b"), std::slice::from_ref(&more));
    assert_eq!(bench.store.list_limits(tenant).await.unwrap().len(), 2);
    let anew = Directory::open(&bench.store).await.unwrap();
    assert_eq!(anew.chain(&principal, &model("b")).unwrap().rules(), [more]);
}

async fn limits_of_what_is_not_there_are_refused(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let key = KeyId::parse("aaaaaaaaaaaa").unwrap();
    let refused =
        async |level| bench.store.set_limits(&rule(level, Models::All, 1), at(NOW)).await.unwrap_err();
    assert!(matches!(refused(Level::Key(key)).await, StoreError::NoSuchKey(id) if id == key));
    let project = ProjectId(Uuid::nil());
    assert!(matches!(refused(Level::Project(project)).await, StoreError::NoSuchProject(id) if id == project));
    let nobody = TenantId(Uuid::nil());
    assert!(matches!(refused(Level::Tenant(nobody)).await, StoreError::NoSuchTenant(id) if id == nobody));
    let operator = Purpose::Person { reach: Reach::Installation, role: Role::Owner };
    let spec = KeySpec { purpose: operator, ..bench.spec(tenant).await };
    let (record, _) = bench.store.create_key(spec, at(NOW)).await.unwrap();
    assert!(matches!(refused(Level::Key(record.id)).await, StoreError::NoLimits));
}

async fn limits_have_a_bound(mut bench: Bench) {
    bench.store.room.limits = 1;
    let tenant = bench.tenant("Acme").await.id;
    let named = |name| rule(Level::Tenant(tenant), Models::One(model(name)), 1);
    bench.store.set_limits(&named("a"), at(NOW)).await.unwrap();
    let refused = bench.store.set_limits(&named("b"), at(NOW)).await;
    assert!(matches!(refused, Err(StoreError::Full { limit: 1 })));
    bench.store.set_limits(&named("a"), at(NOW)).await.unwrap();
}

async fn a_limit_of_nobodys_making_is_refused(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    bench.store.set_limits(&rule(Level::Tenant(tenant), Models::All, 1), at(NOW)).await.unwrap();
    for refused in ["UPDATE limits SET at_once = 0", "UPDATE limits SET level = 'world'"] {
        assert!(bench.by_hand(refused).await.is_err(), "the schema itself refuses: {refused}");
    }
    for (sql, damaged) in [
        ("UPDATE limits SET at_once = 99999999999", "at_once"),
        ("UPDATE limits SET at_once = NULL, model = 'a b'", "model"),
        ("UPDATE limits SET model = '', subject = 'x'", "subject"),
    ] {
        bench.by_hand(sql).await.unwrap();
        let error = bench.store.changes(Revision::NONE).await.err().unwrap();
        assert!(
            matches!(error, StoreError::Damaged { table: "limits", column } if column == damaged),
            "{error}"
        );
    }
}
