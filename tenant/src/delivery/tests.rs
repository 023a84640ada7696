use std::time::Duration;

use tokio::time::timeout;

use super::*;
use crate::ledger::{Claim, Price, Pricing, Reservation, Used, WorstCase};
use crate::level::{ModelName, ProjectId};
use crate::store::tests::{Bench, NOW, at, on_both};
use crate::store::{Stored, TenantId, UsageBy, UsageOf, UsageParts};

on_both!(
    a_folder_that_was_restored_from_an_older_copy_loses_nothing,
    usage_reaches_the_store_once,
    a_store_that_is_away_gets_it_later,
    a_batch_that_was_stored_and_not_confirmed_is_not_counted_again,
);

const EVERY: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_secs(30);

fn ledger(bench: &Bench) -> Arc<Ledger> {
    Arc::new(Ledger::open(&bench.folder.path().join("ledger"), at(NOW)).unwrap().0)
}

async fn reserved(ledger: &Ledger, tenant: TenantId) -> Reservation {
    let payer = crate::ledger::Payer {
        tenant,
        project: ProjectId(uuid::Uuid::from_u128(1)),
        key: crate::key::KeyId::parse("aaaaaaaaaaaa").unwrap(),
    };
    let claim = Claim {
        payer,
        model: &ModelName::new("m").unwrap(),
        pricing: Pricing::Priced(Price::new(1_000_000, 0, 2_000_000).unwrap()),
        budgets: &[],
        worst: WorstCase::new(100, 100, 1).unwrap(),
    };
    ledger.reserve(claim, at(NOW)).await.unwrap()
}

/// Requests, prompt tokens and cost of the tenant in the store.
async fn stored(bench: &Bench, tenant: TenantId) -> (u64, u64, u64) {
    let of = UsageOf { tenant, project: None, key: None, model: None, hours: 0..u64::MAX };
    let sums = bench.store.usage(&of, UsageBy::Day, UsageParts::default()).await.unwrap();
    sums.first().map_or((0, 0, 0), |sum| (sum.amounts.requests, sum.amounts.prompt, sum.amounts.cost_micro))
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            sleep(EVERY).await;
        }
    };
    timeout(WAIT_MAX, wait).await.expect("it comes");
}

async fn usage_reaches_the_store_once(bench: Bench) {
    let (tenant, ledger) = (bench.tenant("Acme").await.id, ledger(&bench));
    let delivery = Delivery::begin(Arc::clone(&ledger), bench.store.clone(), EVERY);
    for _ in 0..3 {
        reserved(&ledger, tenant).await.settle(Used { prompt: 10, cached: 0, completion: 5 }).unwrap();
    }
    until(async || stored(&bench, tenant).await.0 == 3).await;
    drop(reserved(&ledger, tenant).await);
    delivery.finish().await;
    assert_eq!(stored(&bench, tenant).await, (4, 30, 60), "the last comes with the end");
    assert_eq!((ledger.usage_backlog(), ledger.outstanding()), (0, 0));
}

async fn a_store_that_is_away_gets_it_later(bench: Bench) {
    let (tenant, ledger) = (bench.tenant("Acme").await.id, ledger(&bench));
    bench.by_hand("ALTER TABLE usage_batches RENAME TO away").await.unwrap();
    let delivery = Delivery::begin(Arc::clone(&ledger), bench.store.clone(), EVERY);
    let health = delivery.health();
    reserved(&ledger, tenant).await.settle(Used { prompt: 10, cached: 0, completion: 0 }).unwrap();
    until(async || health().failures > 1).await;
    assert_eq!((health().batches, ledger.usage_backlog()), (0, 1));
    bench.by_hand("ALTER TABLE away RENAME TO usage_batches").await.unwrap();
    until(async || health() == DeliveryHealth { batches: 1, failures: 0 }).await;
    assert_eq!(stored(&bench, tenant).await, (1, 10, 10));
}

/// As after a crash between the two.
async fn a_batch_that_was_stored_and_not_confirmed_is_not_counted_again(bench: Bench) {
    let (tenant, before) = (bench.tenant("Acme").await.id, ledger(&bench));
    reserved(&before, tenant).await.settle(Used { prompt: 10, cached: 0, completion: 0 }).unwrap();
    let Taken::Batch(batch) = before.take_batch().await.unwrap() else { panic!("there is one") };
    assert_eq!(bench.store.add_usage(&batch, at(NOW)).await.unwrap(), Stored::Added);
    drop(before);
    let ledger = ledger(&bench);
    reserved(&ledger, tenant).await.settle(Used { prompt: 7, cached: 0, completion: 0 }).unwrap();
    Delivery::begin(Arc::clone(&ledger), bench.store.clone(), EVERY).finish().await;
    assert_eq!(stored(&bench, tenant).await, (2, 17, 17));
    assert_eq!(ledger.usage_backlog(), 0);
}

async fn a_folder_that_was_restored_from_an_older_copy_loses_nothing(bench: Bench) {
    let tenant = bench.tenant("Acme").await.id;
    let [folder, copy] = ["ledger", "copy"].map(|name| bench.folder.path().join(name));
    let use_up = async |prompt| {
        let ledger = ledger(&bench);
        let used = Used { prompt, cached: 0, completion: 0 };
        reserved(&ledger, tenant).await.settle(used).unwrap().journalled.await.unwrap();
        ledger
    };
    let deliver = async |ledger| Delivery::begin(ledger, bench.store.clone(), EVERY).finish().await;
    drop(use_up(10).await);
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(folder.join("journal"), copy.join("journal")).unwrap();
    for prompt in [5, 3] {
        deliver(use_up(prompt).await).await;
    }
    assert_eq!(stored(&bench, tenant).await, (3, 18, 18));
    for (prompt, sum) in [(7, 25), (2, 27)] {
        std::fs::copy(copy.join("journal"), folder.join("journal")).unwrap();
        deliver(use_up(prompt).await).await;
        assert_eq!(
            stored(&bench, tenant).await.1,
            sum,
            "what is new is stored, and what was stored is not again"
        );
    }
}
