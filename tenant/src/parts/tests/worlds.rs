//! Random worlds of three gateways, on both databases.

use super::world::{Plan, Seen, Turns, World};
use super::*;
use crate::ledger::tests::worlds::choices;

/// Worlds of each kind in the normal run: as many as take seconds.
const WORLDS: usize = 20;
pub(super) const PLAN: Plan = Plan { clients: 64, steps: 1_500, kill_one_in: 200, turns: Turns::None };

pub(super) fn run(
    database: impl AsyncFn() -> Database,
    seeds: std::ops::Range<u64>,
    plan: Plan,
) -> Vec<Seen> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = |seed| {
        let world = async {
            let database = database().await;
            World::run(&database, plan, &mut choices(seed)).await
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(world)));
        seen.unwrap_or_else(|_| panic!("world of seed {seed}, {plan:?}"))
    };
    seeds.map(world).collect()
}

/// No commit of it waits for a disk: what is on it is looked at by nobody else.
pub(super) async fn fast() -> Database {
    let database = Database::sqlite().await;
    database.by_hand("PRAGMA synchronous = OFF").await.unwrap();
    database
}

fn explore(database: impl AsyncFn() -> Database, seeds: std::ops::Range<u64>, turns: Turns) {
    let began = std::time::Instant::now();
    let all = run(database, seeds, Plan { turns, ..PLAN });
    let sum = |part: fn(&Seen) -> usize| all.iter().map(part).sum::<usize>();
    let [settled, over, short, grown] =
        [sum(|seen| seen.settled), sum(|seen| seen.over), sum(|seen| seen.short), sum(|seen| seen.grown)];
    let [lost, late, kills, given_back] =
        [sum(|seen| seen.lost), sum(|seen| seen.late), sum(|seen| seen.kills), sum(|seen| seen.given_back)];
    let [wanted, turned, let_go] = [sum(|seen| seen.wanted), sum(|seen| seen.turns), sum(|seen| seen.let_go)];
    println!(
        "{} worlds, {turns:?}, in {:?}: {settled} settled, {over} over, {short} short, {grown} grown, {lost} lost, {late} late, \
         {kills} kills, {given_back} given back, {wanted} wanted, {turned} turns, {let_go} let go",
        all.len(),
        began.elapsed()
    );
    if all.len() >= WORLDS {
        // Where budgets are set again and again, hardly one is spent.
        let over = if turns == Turns::Lifts { 1 } else { over };
        for met in [settled, over, short, grown, lost, late, kills, given_back, let_go] {
            assert!(met > 0, "nothing was seen of something");
        }
    }
    assert_eq!(turned > 0, turns != Turns::None);
}

#[test]
fn three_gateways_never_overshoot() {
    explore(fast, 0..WORLDS as u64, Turns::None);
}

#[test]
fn three_gateways_never_overshoot_while_limits_change() {
    explore(fast, 0..WORLDS as u64, Turns::Limits);
}

#[test]
fn three_gateways_never_overshoot_while_budgets_are_lifted_and_set() {
    explore(fast, 0..WORLDS as u64, Turns::Lifts);
}

#[test]
fn three_gateways_never_overshoot_on_a_server() {
    explore(Database::postgres, 0..3, Turns::None);
    explore(Database::postgres, 3..6, Turns::Limits);
    explore(Database::postgres, 6..9, Turns::Lifts);
}

#[test]
#[ignore = "minutes"]
fn soak_three_gateways_never_overshoot() {
    for turns in [Turns::None, Turns::Limits, Turns::Lifts] {
        explore(fast, 100..600, turns);
    }
}
