//! Places among those that run, and who takes one from whom.

use crate::common::{PAGE, Session, engine, no_cache, oracle, prompt, submit};
use engine::core::EngineConfig;
use wire::Submit;

fn session(pages: u32, sequences_max: u32) -> Session {
    Session::new(engine(pages, EngineConfig { sequences_max, ..no_cache() }))
}

fn begin(session: &mut Session, all: &[Submit]) {
    for submit in all {
        session.submit(submit).unwrap();
    }
    session.step();
    session.step();
}

/// Steps until a request has its first token, at most `most`.
fn steps_to_first(session: &mut Session, number: u32, most: u32) -> u32 {
    for steps in 1..=most {
        session.step();
        if !session.of(number).tokens.is_empty() {
            return steps;
        }
    }
    panic!("no first token of {number} in {most} steps");
}

fn end_well(mut session: Session, all: &[Submit]) {
    session.settle();
    for submit in all {
        assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
}

#[test]
fn who_was_preempted_for_pages_can_still_make_a_place() {
    let long = [1, 2].map(|number| submit(number, 1, prompt(number, 3), 50));
    let mut session = session(64, 2);
    begin(&mut session, &long);
    for _ in 0..4 {
        assert!(session.engine.preempt(long[1].request));
        session.step();
    }
    let late = submit(3, 2, prompt(3, 3), 2);
    session.submit(&late).unwrap();
    steps_to_first(&mut session, 3, 1);
    end_well(session, &[long.as_slice(), &[late]].concat());
}

#[test]
fn when_the_largest_tenant_has_nobody_left_to_give_the_next_one_gives() {
    let largest = [1, 2, 3].map(|number| submit(number, 1, prompt(number, 3), 90));
    let second = [4, 5].map(|number| submit(number, 3, prompt(number, 3), 90));
    let mut all = [largest.as_slice(), &second].concat();
    // Pages enough that nobody waits for a wipe.
    let mut session = session(600, 5);
    begin(&mut session, &all);
    // Two of the largest tenant can be displaced four times each, and then one of the second tenant.
    for number in 10..21 {
        let late = submit(number, 2, prompt(number, 3), 1);
        session.submit(&late).unwrap();
        steps_to_first(&mut session, number, 1);
        session.step();
        all.push(late);
    }
    assert_eq!(session.engine.preempted(), 11);
    end_well(session, &all);
}

#[test]
fn a_place_that_pages_made_is_not_made_twice() {
    let places = [1, 2, 3].map(|number| submit(number, 1, prompt(number, 1), 3));
    let pages = submit(4, 3, prompt(4, 3), 12 * PAGE - 3);
    let all = [places.as_slice(), &[pages]].concat();
    let mut session = session(16, 4);
    for submit in &all {
        session.submit(submit).unwrap();
    }
    session.step();
    let late = submit(5, 2, prompt(5, 3), 4 * PAGE - 3);
    session.submit(&late).unwrap();
    steps_to_first(&mut session, 5, 2);
    assert_eq!(session.engine.preempted(), 1);
    end_well(session, &[all.as_slice(), &[late]].concat());
}

#[test]
fn a_place_is_not_taken_before_the_turn_of_who_waits_for_its_right() {
    let full = [(1, 6 * PAGE), (2, 6 * PAGE), (3, PAGE)];
    let full = full.map(|(number, total)| submit(number, 1, prompt(number, 2), total - 2));
    let mut session = session(16, 3);
    begin(&mut session, &full[..2]);
    // These two give their pages back no more, and the third alone has too few.
    for submit in full.iter().take(2).cycle().take(8) {
        assert!(session.engine.preempt(submit.request));
        session.step();
        session.step();
    }
    session.submit(&full[2]).unwrap();
    session.step();
    assert_eq!(session.engine.status().running, 3);
    let first = submit(4, 2, prompt(4, 3), 5 * PAGE - 3);
    let second = submit(5, 3, prompt(5, 2), 2);
    session.submit(&first).unwrap();
    session.submit(&second).unwrap();
    while session.of(4).tokens.is_empty() {
        assert!(session.of(5).tokens.is_empty(), "who came later is served first");
        session.step();
    }
    end_well(session, &[full.as_slice(), &[first, second]].concat());
}

#[test]
fn who_has_a_place_takes_no_other() {
    let mut session = session(64, 4);
    let mut all: Vec<Submit> = (1..4).map(|number| submit(number, 1, prompt(number, 3), 40)).collect();
    all.push(submit(4, 2, prompt(4, 3), 40));
    begin(&mut session, &all);
    all.push(submit(5, 2, prompt(5, 3), 40));
    session.submit(&all[4]).unwrap();
    for _ in 0..5 {
        session.step();
    }
    assert_eq!(session.engine.preempted(), 0);
    assert!(session.of(5).tokens.is_empty());
    end_well(session, &all);
}
