//! Places among those that run, and who takes one from whom.

use crate::common::{PAGE, Session, engine, name, no_cache, oracle, prompt, submit};
use engine::core::{Ended, EngineConfig};
use wire::{Refusal, Submit};

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

/// A neighbour that always has one request waiting: the place that comes free is its own, and nobody is displaced for it.
#[test]
fn a_free_place_goes_first_to_who_has_none() {
    let mut all: Vec<Submit> = (1..9).map(|number| submit(number, 1, prompt(number, 3), 120)).collect();
    let mut session = session(600, 4);
    begin(&mut session, &all);
    for number in 10..30 {
        all.push(submit(number, 2, prompt(number, 3), 2));
        session.submit(&all[all.len() - 1]).unwrap();
    }
    while session.of(29).ended.is_none() {
        session.step();
        assert!(session.engine.status().running <= 4);
    }
    assert!(session.engine.preempted() <= 2, "{} were displaced", session.engine.preempted());
    end_well(session, &all);
}

/// One request after the other beside long ones: each gets in after a bounded time, however many there were before it.
#[test]
fn a_neighbour_that_asks_again_and_again_is_let_in_each_time() {
    let mut all: Vec<Submit> = (1..5).map(|number| submit(number, 1, prompt(number, 100), 250)).collect();
    let mut session = session(4_000, 4);
    begin(&mut session, &all);
    let mut worst = 0;
    for number in 10..60 {
        all.push(submit(number, 2, prompt(number, 3), 1));
        session.submit(&all[all.len() - 1]).unwrap();
        let longest = (1..5).map(|number| session.of(number).tokens.len() + 100).max().unwrap();
        let steps = steps_to_first(&mut session, number, 200);
        // Three of the four can give their place up. Each computes again what it lost, four tokens a step beside the others, and
        // then has to grow by a quarter.
        assert!(steps as usize <= longest / 4 + longest / 4, "{steps} steps beside {longest} tokens");
        worst = worst.max(steps);
        // Who was displaced is back before the next.
        session.step();
    }
    assert!(worst > 1, "the four times of each were used up");
    end_well(session, &all);
}

/// All that may wait is of one tenant: another has room nevertheless, up to as much as that one has.
#[test]
fn who_fills_the_line_makes_way() {
    let config = EngineConfig { sequences_max: 2, queue_max: 6, ..no_cache() };
    let mut session = Session::new(engine(64, config));
    let mut all: Vec<Submit> = (0..8).map(|number| submit(number, 1, prompt(number, 3), 9)).collect();
    begin(&mut session, &all);
    let full = Refusal::Overloaded { sequences: 8, sequences_max: 8 };
    assert_eq!(session.submit(&submit(8, 1, prompt(8, 3), 9)), Err(full.clone()), "not for itself");
    for number in 10..14 {
        all.push(submit(number, 2, prompt(number, 3), 9));
        session.submit(&all[all.len() - 1]).unwrap();
    }
    assert_eq!(session.submit(&submit(14, 2, prompt(14, 3), 9)), Err(full.clone()), "four of each");
    session.submit(&submit(20, 3, prompt(20, 3), 9)).unwrap();
    session.settle();
    let ended = |number: u32| session.of(number).ended.clone().unwrap();
    let refused: Vec<u32> = (0..8).chain(10..14).filter(|n| matches!(ended(*n), Ended::Refused(_))).collect();
    // The newest of the first tenant that waited, and then the newest of whoever had most.
    assert_eq!(refused, [4, 5, 6, 7, 13]);
    assert!(refused.iter().all(|number| ended(*number) == Ended::Refused(full.clone())));
    for submit in all.iter().filter(|submit| !refused.iter().any(|n| name(*n) == submit.request)) {
        assert_eq!(session.reader.transcripts()[&submit.request].tokens, oracle(submit));
    }
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
fn who_waits_for_its_right_is_overtaken_sixteen_times() {
    let full = [(1, 28 * PAGE), (2, 28 * PAGE), (3, PAGE)];
    let full = full.map(|(number, total)| submit(number, 1, prompt(number, 2), total - 2));
    let mut session = session(64, 8);
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
    let first = submit(4, 2, prompt(4, 3), 9 * PAGE - 3);
    session.submit(&first).unwrap();
    let mut all = [full.as_slice(), &[first]].concat();
    let mut before = 0;
    for number in 10..60 {
        // Always one of a tenant that has nothing.
        all.push(submit(number, u64::from(number), prompt(number, 2), 1));
        session.submit(&all[all.len() - 1]).unwrap();
        session.step();
        if session.of(4).tokens.is_empty() {
            before = (10..=number).filter(|number| !session.of(*number).tokens.is_empty()).count();
        }
    }
    assert_eq!(before, 16, "served before who was first");
    end_well(session, &all);
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
