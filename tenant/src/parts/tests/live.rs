//! Gateways that live: real ledgers, a real store, and requests that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::directory::{Directory, Follower, Keep};
use crate::ledger::{Ledger, LedgerError};
use crate::parts::{BudgetParts, GRANT_WAIT_MAX};
use crate::store::tests::on_both;

on_both!(
    gateways_spend_what_there_is_and_no_more,
    what_another_holds_is_given_back_to_who_waits,
    what_is_held_lasts_over_a_start_and_is_given_back_at_the_end,
    a_budget_that_is_lifted_is_forgotten,
    what_is_spent_last_is_told_at_the_end,
    nothing_is_forgotten_on_the_word_of_an_old_copy,
);

struct Gateway {
    parts: BudgetParts,
    ledger: Arc<Ledger>,
    directory: Arc<Directory>,
    _follower: Follower,
}

impl Gateway {
    async fn on(database: &Database, name: &str) -> Self {
        Self::with(database.store.clone(), database, name).await
    }

    async fn with(store: Store, database: &Database, name: &str) -> Self {
        let ledger = Self::open(&database.folder.path().join(name)).await;
        let (ledger, directory) =
            (Arc::new(ledger), Arc::new(Directory::open(&database.store).await.unwrap()));
        let follower = directory.follow(database.store.clone(), Duration::from_millis(10), Keep::Nowhere);
        let parts = BudgetParts::begin(Arc::clone(&ledger), store, Arc::clone(&directory));
        Self { parts, ledger, directory, _follower: follower }
    }

    /// Opens its ledger, once whoever had it has let it go.
    async fn open(folder: &std::path::Path) -> Ledger {
        loop {
            match Ledger::open(folder, at(NOON)) {
                Err(LedgerError::Locked) => tokio::time::sleep(Duration::from_millis(5)).await,
                opened => return opened.unwrap().0,
            }
        }
    }

    async fn ask(&self, payer: Payer, budgets: &[Budget], tokens: u64) -> Result<Reservation, BudgetRefusal> {
        let (name, pricing) = (model("m"), Pricing::Priced(Price::new(1, 1, 1).unwrap()));
        let worst = WorstCase::new(tokens, 0, 1).unwrap();
        let charges = || (budgets.to_vec(), pricing);
        self.parts.reserve((payer, &name, worst), charges, now()).await
    }

    fn held(&self, payer: Payer, budget: &Budget) -> Sum {
        let slice = Slice { line: budget.line(), start: window(budget.period, now()) };
        self.ledger.shared().held(payer.tenant, &slice)
    }
}

fn now() -> crate::time::UnixMillis {
    crate::time::UnixMillis::from_system(std::time::SystemTime::now())
}

/// A payer with a budget for all times.
async fn account(database: &Database, limit: u64) -> (Payer, [Budget; 1]) {
    let payer = payer(database).await;
    let budget = hard(Level::Tenant(payer.tenant), Period::Total, limit);
    database.store.set_budget(&budget, at(NOON)).await.unwrap();
    (payer, [budget])
}

fn spend(reservation: Reservation, tokens: u64) {
    drop(reservation.settle(Used { prompt: tokens, cached: 0, completion: 0 }).unwrap());
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}: never"));
}

async fn gateways_spend_what_there_is_and_no_more(database: Database) {
    let (payer, budgets) = account(&database, 1_000).await;
    let gateways = [
        Gateway::on(&database, "a").await,
        Gateway::on(&database, "b").await,
        Gateway::on(&database, "c").await,
    ];
    let mut spent = 0;
    for round in 0..100 {
        let gateway = &gateways[round % 3];
        match gateway.ask(payer, &budgets, 30).await {
            Ok(reservation) => {
                spend(reservation, 20);
                spent += 20;
            }
            Err(BudgetRefusal::OverBudget(over)) => {
                assert!(over.left < 30 && spent + 30 > 1_000, "{over}: {spent}");
                let health = gateway.parts.health()();
                assert!(health.exchanges > 5 && health.grown > 3 && !health.is_away, "{health:?}");
                assert!(health.exchanges < 100, "not one for each request: {health:?}");
                return;
            }
            Err(other) => panic!("{other} after {spent}"),
        }
    }
    panic!("{spent} are spent of 1000");
}

async fn what_another_holds_is_given_back_to_who_waits(database: Database) {
    let (payer, budgets) = account(&database, 100).await;
    let [first, second] = [Gateway::on(&database, "a").await, Gateway::on(&database, "b").await];
    spend(first.ask(payer, &budgets, 90).await.unwrap(), 1);
    assert_eq!(first.held(payer, &budgets[0]).part.amount, 90);
    let began = Instant::now();
    let held = second.ask(payer, &budgets, 50).await.unwrap();
    assert!(began.elapsed() < GRANT_WAIT_MAX, "{:?}", began.elapsed());
    assert_eq!(first.parts.health()().given_back, 1);
    // Now the first waits for what runs at the second: that may end, so it may be tried again.
    let refused = first.ask(payer, &budgets, 60).await.err().unwrap();
    assert!(matches!(refused, BudgetRefusal::Elsewhere(ref over) if over.left == 99), "{refused}");
    assert!(began.elapsed() >= GRANT_WAIT_MAX);
    drop(held);
    let never = first.ask(payer, &budgets, 101).await.err().unwrap();
    assert!(matches!(never, BudgetRefusal::OverBudget(_)), "{never}");
    spend(first.ask(payer, &budgets, 60).await.unwrap(), 60);
    let refused = second.ask(payer, &budgets, 50).await.err().unwrap();
    assert!(matches!(refused, BudgetRefusal::OverBudget(ref over) if over.left == 39), "{refused}");
}

async fn what_is_held_lasts_over_a_start_and_is_given_back_at_the_end(database: Database) {
    let (payer, budgets) = account(&database, 100).await;
    let gateway = Gateway::on(&database, "a").await;
    spend(gateway.ask(payer, &budgets, 40).await.unwrap(), 25);
    let name = gateway.parts.gateway().to_owned();
    drop(gateway);
    let gateway = Gateway::on(&database, "a").await;
    assert_eq!(gateway.parts.gateway(), name, "it is the same one");
    let sum = gateway.held(payer, &budgets[0]);
    assert!(sum.part.amount >= 40 && sum.spent == 25, "before the store was asked anything: {sum:?}");
    gateway.parts.finish().await;
    let parts = database.store.list_parts(payer.tenant).await.unwrap();
    assert_eq!((parts[0].amount, parts[0].spent, parts[0].used), (25, 25, 25));
    let other = Gateway::on(&database, "b").await;
    spend(other.ask(payer, &budgets, 75).await.unwrap(), 75);
}

async fn a_budget_that_is_lifted_is_forgotten(database: Database) {
    let (payer, budgets) = account(&database, 100).await;
    let gateway = Gateway::on(&database, "a").await;
    spend(gateway.ask(payer, &budgets, 40).await.unwrap(), 30);
    database.store.lift_budget(&budgets[0].name(), at(NOON)).await.unwrap();
    let rounds = Arc::clone(&gateway.parts.house);
    until("the line is forgotten", async || {
        let stands = gateway.directory.line_stands(&budgets[0].line());
        crate::parts::rounds::scan(&rounds, now());
        stands == crate::directory::LineStands::Lifted
            && gateway.ledger.shared().all_held(payer.tenant).is_empty()
            && database.store.list_parts(payer.tenant).await.unwrap().is_empty()
    })
    .await;
    assert_eq!(gateway.parts.health()().held, 0);
}

async fn what_is_spent_last_is_told_at_the_end(database: Database) {
    let (payer, budgets) = account(&database, 100).await;
    let gateway = Gateway::on(&database, "a").await;
    let last = gateway.ask(payer, &budgets, 100).await.unwrap();
    until("what runs is told", async || !gateway.parts.house.desk().is_flying(payer.tenant)).await;
    spend(last, 100);
    gateway.parts.finish().await;
    let parts = database.store.list_parts(payer.tenant).await.unwrap();
    assert_eq!((parts[0].amount, parts[0].spent, parts[0].used), (100, 100, 100));
}

/// A gateway that starts without the store, from a copy of before the budget was set.
async fn nothing_is_forgotten_on_the_word_of_an_old_copy(database: Database) {
    let old = Arc::new(Directory::open(&database.store).await.unwrap());
    let (payer, budgets) = account(&database, 100).await;
    let gateway = Gateway::on(&database, "a").await;
    spend(gateway.ask(payer, &budgets, 100).await.unwrap(), 30);
    drop(gateway);
    let ledger = Arc::new(Gateway::open(&database.folder.path().join("a")).await);
    let away = database.again().await.unwrap();
    away.clone().close().await;
    let slice = Slice { line: budgets[0].line(), start: 0 };
    let held = |ledger: &Ledger| ledger.shared().held(payer.tenant, &slice);
    for store in [away, database.store.clone()] {
        let parts = BudgetParts::begin(Arc::clone(&ledger), store, Arc::clone(&old));
        crate::parts::rounds::scan(&parts.house, now());
        until("it is asked", async || !parts.house.desk().is_flying(payer.tenant)).await;
        assert_eq!((held(&ledger).part.amount, held(&ledger).spent), (100, 30), "the budget is set");
    }
}

/// What others want is given back also where a request waits for more, which then takes its turn.
#[tokio::test]
async fn who_waits_for_more_gives_back_what_others_want() {
    let database = Database::sqlite().await;
    let (payer, budgets) = account(&database, 100).await;
    let gateway = Gateway::on(&database, "a").await;
    spend(gateway.ask(payer, &budgets, 60).await.unwrap(), 1);
    let slice = Slice { line: budgets[0].line(), start: 0 };
    let shared = gateway.ledger.shared();
    for wishes in
        [[Wish::of(Act::GiveBack), Wish::need(70, 100)], [Wish::need(70, 100), Wish::of(Act::GiveBack)]]
    {
        let both = BTreeMap::from([(slice.clone(), wishes[0].and(wishes[1]))]);
        let (tickets, asks) = begin(shared, payer.tenant, &both).unwrap();
        for ticket in tickets {
            ticket.await.unwrap();
        }
        assert_eq!((asks[0].held, asks[0].grow), (1, Grow::For { one: 70, all: 70 }));
    }
}

/// The store falls silent: what is held is spent, then requests are refused, and the refusal says what to do.
#[tokio::test]
async fn without_a_store_what_is_held_is_spent() {
    let database = Database::sqlite().await;
    let (payer, budgets) = account(&database, 1_000).await;
    let store = database.again().await.unwrap();
    let gateway = Gateway::with(store.clone(), &database, "a").await;
    let first = gateway.ask(payer, &budgets, 100).await.unwrap();
    until("the part", async || gateway.held(payer, &budgets[0]).part.amount >= 200).await;
    let held = gateway.held(payer, &budgets[0]).part.amount;
    store.close().await;
    let second = gateway.ask(payer, &budgets, held - 100).await.unwrap();
    let refused = gateway.ask(payer, &budgets, 1).await.err().unwrap();
    assert!(matches!(refused, BudgetRefusal::StoreAway { left_here: 0, .. }), "{refused}");
    let health = gateway.parts.health()();
    assert_eq!((health.unanswered, health.is_away, health.waiting), (1, true, 0));
    drop((first, second));
    gateway.ask(payer, &budgets, 30).await.map(drop).unwrap();
    gateway.ask(payer, &budgets, 1_001).await.map(drop).unwrap_err();
}

#[tokio::test]
async fn one_flight_serves_all_that_wait() {
    let database = Database::sqlite().await;
    let (payer, budgets) = account(&database, 100_000).await;
    let gateway = Gateway::on(&database, "a").await;
    let all = (0..64).map(|_| gateway.ask(payer, &budgets, 100));
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(reserved) => {
                done.push(reserved.unwrap());
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let exchanges = gateway.parts.health()().exchanges;
    assert!(exchanges <= 8, "{exchanges}");
    assert_eq!(gateway.held(payer, &budgets[0]).reserved, 6_400);
    drop(done);
}
