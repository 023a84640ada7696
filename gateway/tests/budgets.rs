//! Budgets: what is refused before an engine sees it, what each end is charged, and where that can be asked for.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    unreachable_pub,
    reason = "a test"
)]

#[allow(dead_code, reason = "each test target uses its part of it")]
mod rig;

use std::cell::Cell;
use std::time::Duration;

use rig::{Answer, Lie, MARKER, Rig, ids};
use serde_json::{Value, json};
use tenant::{
    Amounts, Budget, BudgetKind, KeyId, Level, Mode, ModelName, Models, Period, Price, Prices, ProjectId,
    Purpose, Scopes, TenantId, Thresholds, Unit, UnixMillis, UsageBy, UsageOf, UsageParts,
};

const CHAT: &str = "chat/completions";
const WAIT_MAX: Duration = Duration::from_secs(20);

fn hello(max_tokens: u32) -> Value {
    json!({ "messages": [{ "role": "user", "content": "Hello." }], "max_tokens": max_tokens })
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let head = answer.head.to_lowercase();
    head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned)
}

fn error(answer: &Answer) -> Value {
    serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone()
}

fn now() -> UnixMillis {
    UnixMillis::from_system(std::time::SystemTime::now())
}

/// Prompt, completion and total tokens of an answer.
fn tokens(answer: &Answer) -> (u64, u64, u64) {
    let usage = serde_json::from_str::<Value>(&answer.body).unwrap()["usage"].clone();
    let number = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{}", answer.body));
    (number("prompt_tokens"), number("completion_tokens"), number("total_tokens"))
}

/// A key, whose it is, and a way to wait until a gateway has seen all that was set so far.
struct Account {
    rig: Rig,
    key: KeyId,
    secret: String,
    project: ProjectId,
    tenant: TenantId,
}

impl Account {
    async fn of(rig: Rig) -> Self {
        let of = Cell::new(None);
        let (key, secret) = rig
            .key(|tenant, project| {
                of.set(Some((tenant, project)));
                Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() }
            })
            .await;
        let (tenant, project) = of.get().unwrap();
        rig.answered(&secret, 200).await;
        Self { rig, key, secret, project, tenant }
    }

    async fn budget(&self, level: Level, unit: Unit, limit: u64, kind: BudgetKind, thresholds: &[u8]) {
        let thresholds = Thresholds::new(thresholds).unwrap();
        let (models, period) = (Models::All, Period::Month);
        self.rig
            .store
            .set_budget(&Budget { level, models, unit, period, limit, kind, thresholds }, now())
            .await
            .unwrap();
        self.seen().await;
    }

    /// A later key is known only together with all before it.
    async fn seen(&self) {
        let (tenant, project) = (self.tenant, self.project);
        let purpose =
            |_, _| Purpose::Service { tenant, project, mode: Mode::Live, scopes: Scopes::default() };
        let (_, later) = self.rig.key(purpose).await;
        self.rig.answered(&later, 200).await;
    }

    async fn ask(&self, max_tokens: u32) -> Answer {
        self.rig.ask_by(&self.secret, CHAT, hello(max_tokens)).await
    }

    /// What the store has of this key, once so many requests are in it.
    async fn stored(&self, requests: u64) -> Amounts {
        let of = UsageOf {
            tenant: self.tenant,
            project: Some(self.project),
            key: Some(self.key),
            model: None,
            hours: 0..u64::MAX,
        };
        let read = async || {
            let sums = self.rig.store.usage(&of, UsageBy::Hour, UsageParts::default()).await.unwrap();
            sums.into_iter().fold(Amounts::default(), |sum, next| sum.and(next.amounts))
        };
        let wait = async {
            loop {
                let amounts = read().await;
                if amounts.requests >= requests {
                    return amounts;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, wait).await.expect("usage reaches the store")
    }
}

/// Refused before the engine sees it, with the numbers, in the words of `OpenAI`, and not to be tried again.
#[tokio::test]
async fn what_a_budget_does_not_hold_is_refused_by_name() {
    let account = Account::of(Rig::start(Lie::None).await).await;
    account.budget(Level::Key(account.key), Unit::Tokens, 200, BudgetKind::Hard, &[]).await;
    let first = account.ask(100).await;
    assert_eq!(first.status, 200, "{}", first.body);
    let (prompt, _, used) = tokens(&first);
    let refused = account.ask(200).await;
    let told = error(&refused);
    assert_eq!(
        (refused.status, told["code"].as_str(), told["type"].as_str()),
        (429, Some("insufficient_quota"), Some("insufficient_quota"))
    );
    let message = told["message"].as_str().unwrap();
    let (asked, left) = (format!("may need {}", prompt + 200), format!("{} left", 200 - used));
    for part in ["budget of 200 tokens", "month", "key ", &asked, &left, "begins anew on 20", "00:00 UTC"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(header(&refused, "x-bulkhead-reason").as_deref(), Some("key.budget.tokens.month"));
    assert_eq!(header(&refused, "x-should-retry").as_deref(), Some("false"));
    assert_eq!(header(&refused, "retry-after"), None);
    let fits = u32::try_from(200 - used - prompt).unwrap();
    assert_eq!(account.ask(fits + 1).await.status, 429, "one token too many");
    assert_eq!(account.ask(fits).await.status, 200, "to the last token");
    assert_eq!(account.rig.ask(1, CHAT, "", hello(100)).await.status, 200, "another tenant");
    let refused = account.rig.recorded_when("refused", 2).await;
    let rejected: Vec<_> = refused.iter().map(|one| &one["outcome"]["rejected"]).collect();
    let bound = json!({ "asked": prompt + 200, "allowed": 200 - used });
    assert_eq!(rejected[0], &json!({ "reason": "budget", "bound": bound }));
    let amounts = account.stored(2).await;
    assert_eq!((amounts.requests, amounts.prompt), (2, 2 * prompt));
}

/// However many come at once, no more is spent than there is; what they did not use is there again.
#[tokio::test]
async fn many_at_once_do_not_overshoot() {
    let account = Account::of(Rig::start(Lie::None).await).await;
    let (prompt, _, used) = tokens(&account.ask(10).await);
    account.stored(1).await;
    let (worst, limit) = (prompt + 100, used + 3 * (prompt + 100) + 50);
    account.budget(Level::Project(account.project), Unit::Tokens, limit, BudgetKind::Hard, &[]).await;
    let mut spent = used;
    let mut refusals = 0;
    while spent + worst <= limit {
        let all = (0..48).map(|_| account.ask(100));
        let answers = futures_all(all).await;
        let done: u64 = answers.iter().filter(|answer| answer.status == 200).map(|one| tokens(one).2).sum();
        assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 429)));
        assert!(done > 0, "one of them fits");
        spent += done;
        refusals += answers.iter().filter(|answer| answer.status == 429).count();
        assert!(spent <= limit, "{spent} of {limit}");
    }
    assert!(refusals > 0 && spent > 2 * used, "{refusals} {spent}");
    assert_eq!(account.ask(100).await.status, 429);
    account.rig.until_budgets("outstanding", 0).await;
}

/// All at once.
async fn futures_all<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = all.map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if waiting.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    waiting.into_iter().map(|(_, done)| done.unwrap()).collect()
}

#[tokio::test]
async fn money_is_counted_by_the_price_and_refused_without_one() {
    let account = Account::of(Rig::start(Lie::None).await).await;
    account.budget(Level::Tenant(account.tenant), Unit::MicroMoney, 1_000_000, BudgetKind::Hard, &[]).await;
    let unpriced = account.ask(10).await;
    assert_eq!((unpriced.status, error(&unpriced)["code"].as_str()), (503, Some("model_without_price")));
    assert_eq!(header(&unpriced, "x-should-retry").as_deref(), Some("false"));
    assert_eq!(header(&unpriced, "x-bulkhead-reason").as_deref(), Some("tenant.budget.money"));
    account.rig.until_budgets("unusable", 1).await;

    let model = ModelName::new(&rig::model_name()).unwrap();
    // Two units of money for a token of a prompt, five for one of an answer.
    let price = Price::new(2_000_000, 1_000_000, 5_000_000).unwrap();
    account.rig.store.set_prices(&Prices::new([(model, price)]).unwrap(), now()).await.unwrap();
    account.seen().await;
    let answer = account.ask(10).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let (prompt, completion, _) = tokens(&answer);
    let amounts = account.stored(1).await;
    assert_eq!(amounts.cost_micro, 2 * prompt + 5 * completion);
    assert_eq!((amounts.completion, amounts.unpriced), (ids(MARKER).len() as u64, 0));
}

#[tokio::test]
async fn a_soft_budget_warns_and_refuses_nothing() {
    let account = Account::of(Rig::start(Lie::None).await).await;
    let (_, _, used) = tokens(&account.ask(10).await);
    account.stored(1).await;
    account.budget(Level::Tenant(account.tenant), Unit::Tokens, 3 * used, BudgetKind::Soft, &[60]).await;
    let warning = async |max_tokens| {
        let answer = account.ask(max_tokens).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        header(&answer, "x-bulkhead-budget-warning")
    };
    assert_eq!(warning(10).await, None, "a third was spent before the budget was set");
    // A soft budget waits for nobody: that third is known soon after its first request.
    account.rig.until_parts("held", 1).await;
    assert_eq!(warning(1_000).await.as_deref(), Some("tenant.budget.tokens.month=60"));
    assert_eq!(warning(10).await.as_deref(), Some("tenant.budget.tokens.month=100"));
    // Each once.
    account.rig.until_budgets("warnings", 2).await;
}

/// Who leaves before the first token has had a prompt computed, or has had it wait in the engine's line.
#[tokio::test]
async fn a_client_that_leaves_early_pays_its_prompt() {
    let account = Account::of(Rig::start(Lie::None).await).await;
    let prompt = tokens(&account.ask(10).await).0;
    let account = Account::of(Rig::start(Lie::Silent).await).await;
    account.seen().await;
    let client = account.rig.begin(&Rig::text_by(&account.secret, CHAT, "", hello(10))).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(client);
    account.rig.cancelled().await;
    let amounts = account.stored(1).await;
    assert_eq!((amounts.prompt, amounts.completion), (prompt, 0));
}

/// What failed on our side before anything was sent costs nothing, and holds nothing.
#[tokio::test]
async fn a_request_that_we_fail_costs_nothing() {
    for lie in [Lie::DiesFirst, Lie::Digest, Lie::Refuses] {
        let account = Account::of(Rig::start(lie).await).await;
        account.budget(Level::Key(account.key), Unit::Tokens, 1_000, BudgetKind::Hard, &[]).await;
        let answer = account.ask(10).await;
        assert!(answer.status >= 400 && answer.status != 429, "{lie:?}: {}", answer.body);
        let amounts = account.stored(1).await;
        assert_eq!((amounts.prompt, amounts.completion), (0, 0), "{lie:?}");
        account.rig.until_budgets("outstanding", 0).await;
    }
}
