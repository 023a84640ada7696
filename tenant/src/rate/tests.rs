//! One rule and one level at a time; the other files run many at once.

mod bounds;
mod buckets;
pub(crate) mod count;
mod giving;
mod history;
mod reference;
mod threads;
mod together;

use core::num::NonZeroU32;
use core::time::Duration;

use uuid::Uuid;

use super::*;
use crate::key::KeyId;
use crate::level::{Level, ModelName, Models, ProjectId};
use crate::store::TenantId;
use crate::time::MonoNanos;

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;

fn at_most(limit: u32) -> Limit {
    Limit::AtMost(NonZeroU32::new(limit).unwrap())
}

fn tenant(number: u128) -> TenantId {
    TenantId(Uuid::from_u128(number))
}

fn key(number: u8) -> Level {
    Level::Key(KeyId::parse(&format!("key{number:09}")).unwrap())
}

fn project(number: u128) -> Level {
    Level::Project(ProjectId(Uuid::from_u128(number)))
}

fn one_model(number: u8) -> Models {
    Models::One(ModelName::new(&format!("model-{number}")).unwrap())
}

fn rule(level: Level, models: Models, limits: Limits) -> Rule {
    Rule { scope: Scope { level, models }, limits }
}

fn chain(rules: &[Rule]) -> Chain {
    Chain::new(tenant(1), rules.to_vec()).unwrap()
}

fn ask(prompt_tokens: u32, output_tokens_max: u32) -> Ask {
    Ask { prompt_tokens, output_tokens_max }
}

fn at(nanos: u64) -> MonoNanos {
    MonoNanos::new(nanos)
}

fn over(refused: Result<Grant, Refusal>) -> OverLimit {
    match refused.expect_err("admitted") {
        Refusal::Over(over) => *over,
        refusal @ (Refusal::NoRoom(_) | Refusal::Ahead(_)) => panic!("{refusal}"),
    }
}

/// The scopes of a chain: every level, for all models and for one.
fn scopes() -> Vec<(Level, Models)> {
    let levels = [key(1), project(1), Level::Tenant(tenant(1))];
    levels.iter().flat_map(|level| [(*level, Models::All), (*level, one_model(1))]).collect()
}

/// All six rules, open but for the one at `place`.
fn only(place: usize, limits: Limits) -> Chain {
    let rules = scopes().into_iter().enumerate().map(|(index, (level, models))| {
        rule(level, models, if index == place { limits } else { Limits::OPEN })
    });
    Chain::new(tenant(1), rules.collect()).unwrap()
}

#[test]
fn each_limit_binds_at_each_level_and_says_so() {
    let cases = [
        (Limits { requests_per_minute: at_most(1), ..Limits::OPEN }, Quota::RequestsPerMinute, 1, 1),
        (Limits { tokens_per_minute: at_most(30), ..Limits::OPEN }, Quota::TokensPerMinute, 30, 30),
        (Limits { at_once: at_most(1), ..Limits::OPEN }, Quota::AtOnce, 1, 1),
        (Limits { prompt_tokens: at_most(9), ..Limits::OPEN }, Quota::PromptTokens, 10, 9),
        (Limits { output_tokens: at_most(19), ..Limits::OPEN }, Quota::OutputTokens, 20, 19),
    ];
    for place in 0..RULES_MAX {
        for (limits, quota, asked, limit) in cases {
            let (limiter, chain) = (Limiter::default(), only(place, limits));
            let first = limiter.admit(&chain, ask(9, 19), at(0)).unwrap();
            let said = over(limiter.admit(&chain, ask(10, 20), at(0)));
            let (level, models) = scopes()[place].clone();
            assert_eq!((said.quota, said.scope), (quota, Scope { level, models }));
            assert_eq!((said.asked, said.limit.get()), (asked, limit));
            drop(first);
            limiter.sweep(at(2 * MINUTE));
            assert_eq!((limiter.tenants(), limiter.counters(tenant(1))), (0, 0));
        }
    }
}

#[test]
fn a_minute_s_worth_at_once_and_then_evenly() {
    let limiter = Limiter::default();
    let rules = only(2, Limits { requests_per_minute: at_most(7), ..Limits::OPEN });
    for _ in 0..7 {
        drop(limiter.admit(&rules, ask(1, 1), at(5)).unwrap());
    }
    // 60 s / 7 is no whole number of nanoseconds: rounded up once, and no drift after.
    for turn in 1..=70_u64 {
        let due = 5 + (turn * MINUTE).div_ceil(7);
        let said = over(limiter.admit(&rules, ask(1, 1), at(due - 1)));
        assert_eq!(said.clears, Clears::In(Duration::from_nanos(1)), "{turn}");
        drop(limiter.admit(&rules, ask(1, 1), at(due)).unwrap());
    }
}

#[test]
fn what_can_never_be_is_told_with_a_way_out() {
    let limiter = Limiter::default();
    let tokens = only(4, Limits { tokens_per_minute: at_most(100), ..Limits::OPEN });
    let said = over(limiter.admit(&tokens, ask(60, 41), at(0)));
    assert_eq!((said.clears, said.clears.retry()), (Clears::Never, Retry::Useless));
    assert_eq!(
        said.to_string(),
        format!(
            "tokens_per_minute of tenant {}, all models: 101 asked, and one request may have 100; it never clears: \
             shorten the prompt, ask for fewer output tokens, or have the limit raised",
            tenant(1)
        )
    );
    let prompt = only(1, Limits { prompt_tokens: at_most(100), ..Limits::OPEN });
    let said = over(limiter.admit(&prompt, ask(101, 0), at(0)));
    assert_eq!(
        said.to_string(),
        "prompt_tokens of key key000000001, model model-1: 101 asked, and one request may have 100; it never \
         clears: shorten the prompt, or have the limit raised"
    );
    assert_eq!(limiter.tenants(), 0, "a refusal leaves nothing behind");
    limiter.admit(&tokens, ask(60, 40), at(0)).unwrap().settle(100, at(0));
}

#[test]
fn of_several_refusals_the_last_to_clear_is_told() {
    let all = Limits {
        requests_per_minute: at_most(1),
        tokens_per_minute: at_most(60),
        at_once: at_most(1),
        prompt_tokens: at_most(30),
        output_tokens: Limit::Open,
    };
    let (limiter, rules) = (Limiter::default(), only(0, all));
    let running = limiter.admit(&rules, ask(30, 0), at(0)).unwrap();
    let said = over(limiter.admit(&rules, ask(30, 20), at(SECOND)));
    assert_eq!(said.quota, Quota::RequestsPerMinute);
    assert_eq!(said.clears, Clears::In(Duration::from_secs(59)), "tokens clear 40 s earlier");
    assert_eq!(over(limiter.admit(&rules, ask(31, 20), at(SECOND))).quota, Quota::PromptTokens);
    assert_eq!(over(limiter.admit(&rules, ask(1, 1), at(MINUTE))).quota, Quota::AtOnce, "alone it is told");
    drop(running);
    drop(limiter.admit(&rules, ask(1, 1), at(MINUTE)).unwrap());

    // Two rules that clear together: the first of the chain is told, in whatever order they were given.
    let limits = Limits { requests_per_minute: at_most(1), ..Limits::OPEN };
    let both =
        chain(&[rule(Level::Tenant(tenant(1)), Models::All, limits), rule(key(1), Models::All, limits)]);
    let limiter = Limiter::default();
    drop(limiter.admit(&both, ask(0, 0), at(0)).unwrap());
    assert_eq!(over(limiter.admit(&both, ask(0, 0), at(0))).scope.level, key(1));
}

#[test]
fn a_refusal_takes_nothing_from_the_rules_that_would_have_admitted() {
    let wide = Limits {
        requests_per_minute: at_most(3),
        tokens_per_minute: at_most(30),
        at_once: at_most(3),
        ..Limits::OPEN
    };
    let narrow = Limits { requests_per_minute: at_most(1), ..Limits::OPEN };
    let limiter = Limiter::default();
    let of_key = |number| {
        chain(&[rule(key(number), Models::All, narrow), rule(Level::Tenant(tenant(1)), Models::All, wide)])
    };
    let first = limiter.admit(&of_key(1), ask(5, 5), at(0)).unwrap();
    for _ in 0..9 {
        assert_eq!(over(limiter.admit(&of_key(1), ask(5, 5), at(0))).scope.level, key(1));
    }
    assert_eq!((limiter.in_flight(tenant(1)), limiter.counters(tenant(1))), (1, 2));
    let second = limiter.admit(&of_key(2), ask(5, 5), at(0)).unwrap();
    let third = limiter.admit(&of_key(3), ask(5, 5), at(0)).unwrap();
    assert_eq!(over(limiter.admit(&of_key(4), ask(5, 5), at(0))).scope.level, Level::Tenant(tenant(1)));
    assert_eq!(limiter.counters(tenant(1)), 4, "nothing is kept for the fourth key");
    drop((first, second, third));
}

#[test]
fn what_was_not_used_is_given_back_and_never_twice() {
    let rules = only(2, Limits { tokens_per_minute: at_most(60), ..Limits::OPEN });
    let remaining = |limiter: &Limiter, now| match limiter.standing(&rules, at(now)).tokens {
        Meter::Tightest(measure) => measure.remaining,
        Meter::Open => panic!("limited"),
    };
    let limiter = Limiter::default();
    limiter.admit(&rules, ask(10, 50), at(0)).unwrap().settle(15, at(0));
    assert_eq!(remaining(&limiter, 0), 45);
    // Without a settlement the worst case stays charged.
    drop(limiter.admit(&rules, ask(5, 40), at(0)).unwrap());
    assert_eq!(remaining(&limiter, 0), 0);

    // A charge that has run out is not given back out of another's.
    let limiter = Limiter::default();
    let slow = limiter.admit(&rules, ask(0, 60), at(0)).unwrap();
    let next = limiter.admit(&rules, ask(0, 60), at(MINUTE)).unwrap();
    slow.settle(0, at(MINUTE));
    assert_eq!(remaining(&limiter, MINUTE), 0);
    next.settle(0, at(MINUTE));
    assert_eq!(remaining(&limiter, MINUTE), 60);

    // Of a charge that has half run out, half is given back.
    let limiter = Limiter::default();
    let slow = limiter.admit(&rules, ask(0, 60), at(0)).unwrap();
    let next = limiter.admit(&rules, ask(0, 30), at(MINUTE / 2)).unwrap();
    slow.settle(0, at(MINUTE / 2));
    assert_eq!(remaining(&limiter, MINUTE / 2), 30);
    // What was used beyond the worst case is charged.
    next.settle(45, at(MINUTE / 2));
    assert_eq!(remaining(&limiter, MINUTE / 2), 15);
    // And charged when it is known, not when the request began.
    let limiter = Limiter::default();
    limiter.admit(&rules, ask(0, 10), at(0)).unwrap().settle(40, at(MINUTE));
    assert_eq!(remaining(&limiter, MINUTE), 30);
}

#[test]
fn a_new_rate_keeps_what_was_used() {
    let limiter = Limiter::default();
    let of = |limit| only(2, Limits { tokens_per_minute: at_most(limit), ..Limits::OPEN });
    drop(limiter.admit(&of(60), ask(0, 60), at(0)).unwrap());
    // At the old rate until the new one is seen.
    let said = over(limiter.admit(&of(120), ask(0, 120), at(10 * SECOND)));
    assert_eq!((said.left, said.clears), (70, Clears::In(Duration::from_secs(25))));
    drop(limiter.admit(&of(120), ask(0, 120), at(35 * SECOND)).unwrap());
    let said = over(limiter.admit(&of(10), ask(0, 10), at(35 * SECOND)));
    assert_eq!((said.left, said.clears), (0, Clears::In(Duration::from_secs(720))));
}

#[test]
fn a_clock_that_comes_late_takes_nobody_back() {
    let limiter = Limiter::default();
    let rules = only(2, Limits { requests_per_minute: at_most(1), ..Limits::OPEN });
    drop(limiter.admit(&rules, ask(0, 0), at(10 * SECOND)).unwrap());
    let said = over(limiter.admit(&rules, ask(0, 0), at(4 * SECOND)));
    assert_eq!(said.clears, Clears::In(Duration::from_secs(66)), "from the caller's own moment");
    drop(limiter.admit(&rules, ask(0, 0), at(70 * SECOND)).unwrap());
}

#[test]
fn a_clock_that_comes_late_does_not_reach_behind_what_was_forgotten() {
    let limiter = Limiter::default();
    let rules = only(2, Limits { requests_per_minute: at_most(1), ..Limits::OPEN });
    drop(limiter.admit(&rules, ask(0, 0), at(0)).unwrap());
    limiter.sweep(at(MINUTE));
    assert_eq!(limiter.tenants(), 0);
    drop(limiter.admit(&rules, ask(0, 0), at(MINUTE - SECOND)).unwrap());
    let said = over(limiter.admit(&rules, ask(0, 0), at(MINUTE)));
    assert_eq!(said.clears, Clears::In(Duration::from_secs(60)));
}

#[test]
fn headers_are_of_the_tightest_rule() {
    let limits = |requests, tokens| Limits {
        requests_per_minute: at_most(requests),
        tokens_per_minute: at_most(tokens),
        ..Limits::OPEN
    };
    let rules = chain(&[
        rule(key(1), Models::All, limits(60, 150_000)),
        rule(Level::Tenant(tenant(1)), Models::All, limits(600, 15_000)),
    ]);
    let limiter = Limiter::default();
    let grant = limiter.admit(&rules, ask(10, 6), at(0)).unwrap();
    let expected = [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-limit-tokens", "15000"),
        ("x-ratelimit-remaining-tokens", "14984"),
        ("x-ratelimit-reset-tokens", "64ms"),
    ];
    assert_eq!(grant.standing().headers(), expected.map(|(name, value)| (name, value.to_owned())));
    assert_eq!(limiter.standing(&rules, at(0)), grant.standing());
    let said = over(limiter.admit(&rules, ask(15_000, 0), at(0)));
    assert_eq!(said.standing, grant.standing());
    assert_eq!(said.clears.retry(), Retry::After { seconds: 1, millis: 64 });
    assert_eq!(
        said.to_string(),
        format!(
            "tokens_per_minute of tenant {}, all models: 15000 asked, 14984 of 15000 left; it clears in 64ms",
            tenant(1)
        )
    );
    let none = limiter.standing(&only(0, Limits::OPEN), at(0));
    assert_eq!(none, Standing { requests: Meter::Open, tokens: Meter::Open });
    assert_eq!(none.headers(), []);
    let other = Chain::new(tenant(2), Vec::new()).unwrap();
    assert_eq!(limiter.standing(&other, at(0)), none);
    assert_eq!(limiter.tenants(), 1, "to look is not to take");
}

#[test]
fn retry_is_rounded_up_and_never_zero() {
    let after = |nanos| Clears::In(Duration::from_nanos(nanos)).retry();
    assert_eq!(after(0), Retry::After { seconds: 1, millis: 1 });
    assert_eq!(after(1_000_000_000), Retry::After { seconds: 1, millis: 1_000 });
    assert_eq!(after(1_000_000_001), Retry::After { seconds: 2, millis: 1_001 });
    assert_eq!(Clears::WhenOneEnds.retry(), Retry::After { seconds: 1, millis: 1_000 });
    let (soon, late) =
        (Retry::After { seconds: 1, millis: 1_000 }, Retry::After { seconds: 60, millis: 60_000 });
    assert_eq!(Refusal::NoRoom(NoRoom::InFlight { max: 1 }).retry(), soon);
    assert_eq!(Refusal::NoRoom(NoRoom::Counters { max: 1 }).retry(), late);
    assert_eq!(Refusal::NoRoom(NoRoom::Tenants { max: 1 }).retry(), late);
}

#[test]
fn a_chain_is_of_one_request() {
    let open = |level, models| rule(level, models, Limits::OPEN);
    let tenant_rule = |number| open(Level::Tenant(tenant(number)), Models::All);
    let bad = |rules: &[Rule]| Chain::new(tenant(1), rules.to_vec()).expect_err("a chain");
    assert_eq!(bad(&vec![tenant_rule(1); 7]), BadChain::TooMany { rules: 7 });
    assert!(matches!(bad(&[tenant_rule(1), tenant_rule(1)]), BadChain::Twice { .. }));
    assert!(matches!(bad(&[tenant_rule(2)]), BadChain::OtherTenant { .. }));
    let keys = [open(key(1), Models::All), open(key(2), one_model(1))];
    assert!(matches!(bad(&keys), BadChain::TwoOfAKind { .. }));
    let models = [open(key(1), one_model(1)), open(project(1), one_model(2))];
    assert!(matches!(bad(&models), BadChain::TwoModels { .. }));
    assert_eq!(only(0, Limits::OPEN).rules().len(), RULES_MAX);
}
