//! What the store answers, case by case, on both databases.

use std::cell::RefCell;

use super::*;
use crate::error::StoreError;
use crate::ledger::{Amounts, Batch, UsageRow, hour};
use crate::purpose::Reach;
use crate::store::tests::on_both;
use crate::store::{Action, PART_GATEWAYS_MAX};

on_both!(
    parts_and_what_was_used_before_are_at_most_the_budget,
    a_message_that_comes_twice_or_late_lowers_nothing,
    a_budget_that_is_set_again_counts_what_is_held_of_before,
    who_waits_longest_gets_what_is_given_back,
    a_wish_that_nobody_can_fulfil_keeps_nothing_from_others,
    a_part_is_never_less_than_what_is_spent_of_it,
    what_is_handed_out_fits_the_limit_that_its_gateway_knows,
    wishes_go_by_the_clock_of_the_database,
    who_has_spent_all_gives_its_place_to_another,
    what_a_gateway_that_is_gone_held_of_a_count_that_is_over_is_free,
    what_a_gateway_that_is_gone_has_not_used_is_taken_back,
    parts_of_periods_long_over_are_forgotten,
);

/// What gateways say to a store of one budget of 100 tokens a day.
pub(super) struct Asked {
    database: Database,
    payer: Payer,
    budget: Budget,
    now: i64,
    /// Of each gateway's row, as it was told last.
    versions: RefCell<HashMap<String, i64>>,
}

impl Asked {
    pub(super) async fn of(database: Database) -> Self {
        let payer = payer(&database).await;
        let budget = hard(Level::Tenant(payer.tenant), Period::Day, 100);
        database.store.set_budget(&budget, at(NOON)).await.unwrap();
        Self { database, payer, budget, now: NOON, versions: RefCell::default() }
    }

    fn ask(&self, epoch: u64, [held, spent, used]: [u64; 3], grow: Grow) -> PartAsk {
        let slice = slice(&self.budget, self.now);
        PartAsk { slice, epoch, held, version: None, spent, used, grow, limit: None, base: None }
    }

    async fn say(&self, gateway: &str, ask: &PartAsk) -> PartAnswer {
        let limit = std::time::Duration::from_secs(20);
        let asks = std::slice::from_ref(ask);
        self.database.store.exchange_parts(gateway, asks, limit).await.unwrap().remove(0)
    }

    /// The answer to a gateway that has heard each answer before.
    async fn told(&self, gateway: &str, ask: &PartAsk) -> PartTold {
        let version = self.versions.borrow().get(gateway).copied();
        self.told_as_is(gateway, &PartAsk { version: ask.version.or(version), ..ask.clone() }).await
    }

    /// The answer, with the base summed up where it is not known.
    async fn told_as_is(&self, gateway: &str, ask: &PartAsk) -> PartTold {
        let (mut ask, mut answer) = (ask.clone(), self.say(gateway, ask).await);
        if let PartAnswer::Blind { version } = answer {
            ask.version = Some(version);
            answer = self.say(gateway, &ask).await;
        }
        if let PartAnswer::BaseUnknown { epoch } = answer {
            let used = self.database.store.used_before(&ask.slice).await.unwrap();
            answer = self.say(gateway, &PartAsk { base: Some(Base { epoch, used }), ..ask.clone() }).await;
        }
        let PartAnswer::Told(told) = answer else { panic!("{answer:?}") };
        self.versions.borrow_mut().insert(gateway.to_owned(), told.version);
        told
    }

    /// A part for a request of this size, by a gateway that holds nothing.
    async fn first(&self, gateway: &str, need: u64) -> PartTold {
        self.told(gateway, &self.ask(0, [0; 3], for_one(need))).await
    }

    /// As if what waits had waited for so many milliseconds more.
    async fn later(&self, millis: i64) {
        let sql = format!("UPDATE budget_parts SET wanted_ms = wanted_ms - {millis}");
        self.database.by_hand(&sql).await.unwrap();
    }

    async fn wanted(&self, gateway: &str) -> usize {
        self.database.store.wanted_parts(gateway).await.unwrap().len()
    }
}

fn for_one(need: u64) -> Grow {
    Grow::For { one: need, all: need }
}

async fn parts_and_what_was_used_before_are_at_most_the_budget(database: Database) {
    let mut asked = Asked::of(database).await;
    let amounts = Amounts { requests: 1, prompt: 20, ..Amounts::default() };
    let row = UsageRow { hour: hour(at(NOON)), payer: asked.payer, model: model("m"), amounts };
    let batch = Batch { journal: uuid::Uuid::from_u128(9), number: 1, rows: vec![row] };
    asked.database.store.add_usage(&batch, at(NOON)).await.unwrap();
    let first = asked.first("a", 16).await;
    assert_eq!((first.amount, first.spent_elsewhere), (16, 20), "80 / 8 is less");
    let more = asked.told("a", &asked.ask(first.epoch, [16, 3, 10], Grow::AsMayBe)).await;
    assert_eq!(more.amount, 24, "64 are free");
    let other = asked.first("b", 10).await;
    assert_eq!((other.amount, other.spent_elsewhere), (10, 23));
    // Of those that wait, who asks least is served though all together do not fit.
    let some = asked.told("c", &asked.ask(0, [0; 3], Grow::For { one: 40, all: 400 })).await;
    assert_eq!(some.amount, 46, "all that is left");
    assert_eq!(asked.first("d", 1).await.amount, 0);
    asked.budget.limit = 110;
    asked.database.store.set_budget(&asked.budget, at(NOON)).await.unwrap();
    assert_eq!(asked.first("d", 10).await.amount, 10, "a higher limit, and the same count");
    asked.budget.limit = 60;
    asked.database.store.set_budget(&asked.budget, at(NOON)).await.unwrap();
    assert_eq!(asked.told("d", &asked.ask(first.epoch, [10, 0, 0], for_one(11))).await.amount, 10);
    asked.now += DAY;
    assert_eq!(asked.first("d", 40).await.amount, 40, "another day");
    let soft = Budget { kind: BudgetKind::Soft, period: Period::Month, ..asked.budget.clone() };
    asked.database.store.set_budget(&soft, at(NOON)).await.unwrap();
    asked.budget = soft;
    let told = asked.told("a", &asked.ask(0, [5, 5, 5], Grow::AsMayBe)).await;
    assert_eq!((told.amount, told.spent, told.spent_elsewhere), (5, 5, 20), "a soft one is only told of");
    asked.database.store.lift_budget(&asked.budget.name(), at(NOON)).await.unwrap();
    assert_eq!(asked.say("a", &asked.ask(told.epoch, [5; 3], Grow::Not)).await, PartAnswer::Stale);
    let blind = asked.say("a", &asked.ask(0, [0; 3], Grow::Not)).await;
    assert_eq!(blind, PartAnswer::Blind { version: told.version });
    let knows = PartAsk { version: Some(told.version), ..asked.ask(0, [0; 3], Grow::Not) };
    assert_eq!(asked.say("a", &knows).await, PartAnswer::Lifted);
    assert_eq!(asked.say("a", &asked.ask(0, [0; 3], Grow::Not)).await, PartAnswer::Lifted);
}

async fn a_message_that_comes_twice_or_late_lowers_nothing(database: Database) {
    late(Asked::of(database).await).await;
}

pub(super) async fn late(asked: Asked) {
    let first = asked.first("a", 60).await;
    let again = asked.told_as_is("a", &asked.ask(0, [0; 3], for_one(60))).await;
    assert_eq!(again.amount, 60, "the first answer was lost");
    let held = asked.told("a", &asked.ask(first.epoch, [60, 0, 0], Grow::Not)).await;
    let back = PartAsk { version: Some(held.version), ..asked.ask(first.epoch, [10, 0, 10], Grow::Not) };
    // It is given up, and asked for again; then it comes.
    let again = asked.told_as_is("a", &asked.ask(first.epoch, [10, 0, 10], for_one(50))).await;
    assert_eq!(again.amount, 60);
    assert_eq!(asked.told("a", &back).await.amount, 60, "60 are held by now");
    assert_eq!(asked.first("b", 50).await.amount, 0);
    let told = asked.told("a", &asked.ask(first.epoch, [60, 0, 10], Grow::Not)).await;
    let back = PartAsk { version: Some(told.version), ..back };
    assert_eq!(asked.told("a", &back).await.amount, 10, "in its turn it is given back");
    assert_eq!(asked.first("b", 50).await.amount, 50);
    // One that has forgotten is told what it had spent.
    let spent = asked.told("a", &asked.ask(first.epoch, [10, 8, 9], Grow::Not)).await;
    let told = asked.told_as_is("a", &asked.ask(0, [0; 3], Grow::Not)).await;
    assert_eq!((spent.spent, told.spent, told.amount), (8, 8, 10));
    // What comes late says nothing of what is spent.
    let late = asked.told_as_is("a", &asked.ask(first.epoch, [10, 10, 10], Grow::Not)).await;
    let told = asked.told("a", &asked.ask(0, [0; 3], Grow::Not)).await;
    assert_eq!((late.spent, told.spent), (10, 8));
}

async fn a_budget_that_is_set_again_counts_what_is_held_of_before(database: Database) {
    set_again(Asked::of(database).await).await;
}

pub(super) async fn set_again(asked: Asked) {
    let first = asked.first("a", 60).await;
    asked.database.store.lift_budget(&asked.budget.name(), at(NOON)).await.unwrap();
    asked.database.store.set_budget(&asked.budget, at(NOON)).await.unwrap();
    let other = asked.first("b", 40).await;
    assert!(other.epoch > first.epoch && other.amount == 40, "{other:?}");
    assert_eq!(asked.first("c", 1).await.amount, 0, "60 may still be spent");
    assert_eq!(asked.say("a", &asked.ask(first.epoch, [60, 0, 5], Grow::Not)).await, PartAnswer::Stale);
    assert_eq!(asked.first("c", 1).await.amount, 0, "and until they are let go");
    let late = asked.say("a", &asked.ask(0, [0; 3], for_one(60))).await;
    assert!(matches!(late, PartAnswer::Blind { .. }), "said before it held anything: {late:?}");
    assert_eq!(asked.first("c", 1).await.amount, 0);
    let anew = asked.told("a", &asked.ask(0, [5, 0, 5], Grow::Not)).await;
    assert_eq!((anew.epoch, anew.amount), (other.epoch, 5), "what runs counts on");
    assert_eq!(asked.first("c", 55).await.amount, 55);
}

async fn who_waits_longest_gets_what_is_given_back(database: Database) {
    let asked = Asked::of(database).await;
    let first = asked.first("a", 90).await;
    assert_eq!(asked.wanted("a").await, 0);
    assert_eq!(asked.first("b", 30).await.amount, 0);
    assert_eq!((asked.wanted("a").await, asked.wanted("b").await), (1, 0));
    asked.later(10).await;
    assert_eq!(asked.first("c", 5).await.amount, 0, "the 10 that are free wait for who came before");
    let held = asked.told("a", &asked.ask(first.epoch, [90, 0, 50], Grow::Not)).await;
    let back = asked.ask(first.epoch, [50, 0, 50], for_one(20));
    asked.later(10).await;
    let back = asked.told("a", &PartAsk { version: Some(held.version), ..back }).await;
    assert_eq!(back.amount, 50, "who gave back waits behind them");
    assert_eq!(asked.first("c", 5).await.amount, 5, "there is enough for both now");
    assert_eq!(asked.first("b", 30).await.amount, 30);
    assert_eq!(asked.wanted("a").await, 0);
    asked.later(10_000).await;
    assert_eq!(asked.first("c", 5).await.amount, 5);
    assert_eq!(asked.wanted("b").await, 0, "a wish lasts as long as somebody waits");
}

async fn a_wish_that_nobody_can_fulfil_keeps_nothing_from_others(database: Database) {
    let asked = Asked::of(database).await;
    let first = asked.first("a", 60).await;
    asked.told("a", &asked.ask(first.epoch, [60, 10, 60], Grow::Not)).await;
    assert_eq!(asked.first("b", 50).await.amount, 0);
    assert_eq!(asked.wanted("a").await, 1, "what runs there may end");
    assert_eq!(asked.first("c", 40).await.amount, 40, "but nobody waits for that");
    asked.told("a", &asked.ask(first.epoch, [60, 60, 60], Grow::Not)).await;
    let told = asked.first("b", 50).await;
    assert_eq!((told.amount, told.spent_elsewhere), (0, 60), "nothing that is held does any more");
    assert_eq!(asked.wanted("a").await, 0);
}

async fn a_part_is_never_less_than_what_is_spent_of_it(database: Database) {
    forgetful(Asked::of(database).await).await;
}

/// A gateway that has forgotten a part whose row's version it knows still.
pub(super) async fn forgetful(asked: Asked) {
    let first = asked.first("a", 95).await;
    asked.told("a", &asked.ask(first.epoch, [95; 3], Grow::Not)).await;
    let again = asked.told("a", &asked.ask(0, [0; 3], for_one(10))).await;
    assert_eq!((again.amount, again.spent), (95, 95), "it is told what it had spent");
    assert_eq!(asked.first("b", 10).await.amount, 0, "5 are left");
    // What runs there was let through beside what it has forgotten.
    let runs = asked.told("a", &asked.ask(0, [3, 0, 3], Grow::Not)).await;
    assert_eq!((runs.amount, runs.spent), (98, 95));
    assert_eq!(asked.first("b", 3).await.amount, 0);
}

async fn what_is_handed_out_fits_the_limit_that_its_gateway_knows(database: Database) {
    let asked = Asked::of(database).await;
    let knows = |limit| PartAsk { limit: Some(limit), ..asked.ask(0, [0; 3], for_one(40)) };
    let told = asked.told("a", &knows(60)).await;
    assert_eq!((told.amount, told.limit), (40, Some(60)), "100 / 8 is less");
    let told = asked.told("b", &knows(60)).await;
    assert_eq!((told.amount, told.limit), (0, Some(60)));
    asked.later(10_000).await;
    let told = asked.told("c", &knows(300)).await;
    assert_eq!((told.amount, told.limit), (40, Some(100)));
    let told = asked.told("b", &knows(60)).await;
    assert_eq!((told.amount, told.limit), (0, None), "others hold 80");
}

async fn wishes_go_by_the_clock_of_the_database(database: Database) {
    let asked = Asked::of(database).await;
    asked.first("a", 90).await;
    asked.first("b", 30).await;
    let parts = asked.database.store.list_parts(asked.payer.tenant).await.unwrap();
    let now = crate::time::UnixMillis::from_system(std::time::SystemTime::now()).get();
    // The servers of tests are on this machine.
    assert!(parts.iter().all(|part| (part.seen.get() - now).abs() < 60_000), "{now}: {parts:?}");
    assert_eq!(asked.wanted("a").await, 1);
    asked.later(2_000).await;
    assert_eq!(asked.wanted("a").await, 1);
    asked.later(2_000).await;
    assert_eq!(asked.wanted("a").await, 0);
    // A clock that was set back: what is of later is of nobody who waits.
    asked.later(-3_600_000).await;
    assert_eq!(asked.first("c", 10).await.amount, 10);
}

async fn who_has_spent_all_gives_its_place_to_another(database: Database) {
    crowd(Asked::of(database).await).await;
}

pub(super) async fn crowd(asked: Asked) {
    let first = asked.first("0", 30).await;
    for gateway in 1..PART_GATEWAYS_MAX {
        asked.told(&gateway.to_string(), &asked.ask(first.epoch, [1, 0, 0], Grow::Not)).await;
    }
    assert_eq!(asked.say("one more", &asked.ask(0, [0; 3], for_one(1))).await, PartAnswer::Crowded);
    asked.first("0", 1).await;
    let all = asked.told("0", &asked.ask(first.epoch, [30; 3], Grow::Not)).await;
    for gateway in 1..PART_GATEWAYS_MAX {
        asked.told(&gateway.to_string(), &asked.ask(first.epoch, [0; 3], Grow::Not)).await;
    }
    let told = asked.first("one more", 71).await;
    assert_eq!((told.amount, told.spent_elsewhere), (0, 30), "what it had spent counts on");
    assert_eq!(asked.first("one more", 70).await.amount, 70);
    let parts = asked.database.store.list_parts(asked.payer.tenant).await.unwrap();
    assert_eq!(parts.len(), PART_GATEWAYS_MAX);
    assert!(parts.iter().all(|part| part.gateway != "0"), "who told longest ago");
    let back = asked.told_as_is("0", &asked.ask(first.epoch, [30; 3], for_one(1))).await;
    assert_eq!((back.amount, back.spent), (30, 30), "it is counted twice, and gets no more");
    assert!(back.version > all.version, "no version comes twice");
}

async fn what_a_gateway_that_is_gone_held_of_a_count_that_is_over_is_free(database: Database) {
    let asked = Asked::of(database).await;
    let first = asked.first("a", 60).await;
    asked.told("a", &asked.ask(first.epoch, [60, 50, 55], Grow::Not)).await;
    asked.database.store.lift_budget(&asked.budget.name(), at(NOON)).await.unwrap();
    asked.database.store.set_budget(&asked.budget, at(NOON)).await.unwrap();
    assert_eq!(asked.first("b", 41).await.amount, 0);
    let released = asked.database.store.release_parts("a", at(NOON)).await.unwrap();
    assert_eq!((released.len(), released[0].freed), (1, 60));
    assert_eq!(asked.first("b", 100).await.amount, 100, "what it had spent is in what was used before");
    // It was not gone.
    assert_eq!(asked.say("a", &asked.ask(first.epoch, [60; 3], Grow::Not)).await, PartAnswer::Stale);
}

async fn what_a_gateway_that_is_gone_has_not_used_is_taken_back(database: Database) {
    released(Asked::of(database).await).await;
}

pub(super) async fn released(asked: Asked) {
    let store = &asked.database.store;
    let first = asked.first("a", 60).await;
    asked.told("a", &asked.ask(first.epoch, [60, 20, 25], Grow::Not)).await;
    asked.first("b", 40).await;
    assert_eq!(asked.first("c", 30).await.amount, 0);
    let parts = store.list_parts(asked.payer.tenant).await.unwrap();
    let listed: Vec<_> =
        parts.iter().map(|part| (part.gateway.as_str(), part.amount, part.spent, part.used)).collect();
    assert_eq!(listed, [("a", 60, 20, 25), ("b", 40, 0, 0), ("c", 0, 0, 0)]);
    assert!(matches!(store.release_parts("x", at(NOON)).await, Err(StoreError::NoSuchGateway)));
    let released = store.release_parts("a", at(NOON)).await.unwrap();
    assert_eq!((released.len(), released[0].freed, &released[0].part), (1, 35, &parts[0]));
    assert_eq!(asked.first("c", 30).await.amount, 30);
    let events = store.events(Reach::Tenant(asked.payer.tenant), None, 100).await.unwrap();
    let event = events.last().unwrap();
    assert_eq!((event.action, &event.subject), (Action::BudgetRelease, &asked.payer.tenant.to_string()));
    assert_eq!(event.after.as_ref().unwrap()["part"], 25);
    assert_eq!(store.release_parts("a", at(NOON)).await.unwrap(), []);
    // It was not gone: it keeps what it uses by now, and what it had beside that is not its own any more.
    let mut back = asked.ask(first.epoch, [60, 20, 30], Grow::Not);
    assert_eq!(asked.told("a", &back).await.amount, 30);
    back.used = 33;
    assert_eq!(asked.told_as_is("a", &back).await.amount, 33, "the answer was lost");
    back = asked.ask(first.epoch, [35, 20, 35], Grow::Not);
    assert_eq!(
        asked.told("a", &back).await.amount,
        35,
        "it has heard, and says what it had let pass meanwhile"
    );
    let late = asked.ask(first.epoch, [40, 20, 20], Grow::Not);
    assert_eq!(asked.told_as_is("a", &late).await.amount, 40, "and is believed as any other");
    assert_eq!(asked.told("b", &asked.ask(first.epoch, [40, 0, 0], Grow::AsMayBe)).await.amount, 40);
}

/// A server that would show each transaction what there was when it began, where nobody says otherwise.
#[tokio::test]
async fn exchanges_see_what_there_is_whatever_the_server_does_by_itself() {
    let database = Database::postgres().await;
    let sql = "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database()
        || ' SET default_transaction_isolation = ''repeatable read'''; END $$";
    database.by_hand(sql).await.unwrap();
    let asked = Asked::of(database).await;
    let stores = [asked.database.again().await.unwrap(), asked.database.again().await.unwrap()];
    let ask = async |gateway: usize| {
        let (name, limit) = (gateway.to_string(), std::time::Duration::from_secs(20));
        for _ in 0..50 {
            let asks = [asked.ask(0, [0; 3], for_one(1))];
            stores[gateway].exchange_parts(&name, &asks, limit).await.unwrap();
        }
    };
    asked.first("0", 1).await;
    tokio::join!(ask(0), ask(1));
}

async fn parts_of_periods_long_over_are_forgotten(database: Database) {
    long_over(Asked::of(database).await).await;
}

pub(super) async fn long_over(mut asked: Asked) {
    let now = crate::time::UnixMillis::from_system(std::time::SystemTime::now()).get();
    for days in [9, 5] {
        asked.now = now - days * DAY;
        asked.first("a", 10).await;
    }
    let store = &asked.database.store;
    let held = async || store.list_parts(asked.payer.tenant).await.unwrap().len();
    // A gateway whose clock is a year ahead, or behind.
    for wrong in [now + 365 * DAY, now - 365 * DAY] {
        let apart = store.forget_old_parts(at(wrong)).await.unwrap();
        assert!(apart.is_some_and(|apart| apart > 364 * DAY.unsigned_abs()), "{apart:?}");
        assert_eq!(held().await, 2);
    }
    assert_eq!(store.forget_old_parts(at(now)).await.unwrap(), None);
    assert_eq!(held().await, 1);
}
