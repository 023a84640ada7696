use super::*;
use crate::leaf::TenantLink;
use crate::log::tests::{ACME, boot, engine, record, request};
use crate::outcome::{Finish, Reason};

fn leaf(event: Record) -> Leaf {
    let link = event.concerns_a_tenant().then_some(TenantLink { tenant: ACME, seq: 1, prev: Hex([0; 32]) });
    Leaf { time_ms: 0, link, event }
}

fn take(events: &[Record]) -> Result<Meaning, Nonsense> {
    let mut meaning = Meaning::default();
    for (index, event) in (0..).zip(events) {
        meaning.take(index, &leaf(*event))?;
    }
    Ok(meaning)
}

/// What becomes of a request whose records are changed so.
fn changed(change: impl FnOnce(&mut Admitted, &mut Ended)) -> Result<(), Nonsense> {
    let [Record::Admitted(mut admitted), Record::Ended(mut ended)] = request(1) else { panic!("a request") };
    change(&mut admitted, &mut ended);
    take(&[boot(), engine(), Record::Admitted(admitted), Record::Ended(ended)]).map(|_| ())
}

fn proof(change: impl FnOnce(&mut u32, &mut u32, &mut u32, &mut u32)) -> Result<(), Nonsense> {
    changed(|_, ended| {
        let Proof::Accepted { engine_tokens, cached, written, attended, .. } = &mut ended.proof else {
            panic!("a proof")
        };
        change(engine_tokens, cached, written, attended);
    })
}

#[test]
fn a_request_that_can_have_happened_is_taken() {
    assert_eq!(changed(|_, _| {}), Ok(()));
    let [admitted, ended] = request(1);
    assert_eq!(take(&[boot(), engine(), admitted]).unwrap().open(), 1, "a crash leaves it so");
    assert_eq!(take(&[boot(), engine(), admitted, ended]).unwrap().open(), 0);
    assert!(take(&[record(1)]).is_ok());
    let failed = Outcome::Failed { failure: crate::outcome::Failure::Device };
    assert_eq!(changed(|_, ended| ended.outcome = failed), Ok(()), "in the midst of its answer");
    let left = |_: &mut Admitted, ended: &mut Ended| {
        (ended.outcome, ended.status, ended.completion, ended.proof) =
            (Outcome::Cancelled, 0, 0, Proof::Absent);
    };
    assert_eq!(changed(left), Ok(()));
}

#[test]
fn each_rule_is_kept() {
    assert_eq!(changed(|admitted, _| admitted.policy = 1), Err(Nonsense::Policy(1)));
    assert_eq!(changed(|admitted, _| admitted.policy = 9), Err(Nonsense::Policy(9)));
    assert_eq!(changed(|admitted, _| admitted.epoch = Word(4)), Err(Nonsense::Engine));
    let window = Nonsense::Window { window: 4_097, capacity: 4_096 };
    assert_eq!(changed(|admitted, _| admitted.window = 4_097), Err(window));
    let over = Nonsense::OverWindow { asked: 2_049, window: 2_048 };
    assert_eq!(changed(|admitted, _| admitted.max_tokens = 2_012), Err(over));
    assert_eq!(changed(|admitted, _| admitted.edge_tokens = 0), Err(Nonsense::Nothing));
    assert_eq!(changed(|admitted, _| admitted.max_tokens = 0), Err(Nonsense::Nothing));
    assert_eq!(changed(|_, ended| ended.sequence = 1), Err(Nonsense::NotLetIn));
    assert_eq!(changed(|_, ended| ended.request = Hex([0; 16])), Err(Nonsense::NotLetIn));
    assert_eq!(
        changed(|admitted, _| admitted.edge_tokens = 38),
        Err(Nonsense::Counts { edge: 38, engine: 37 })
    );
    let more = Nonsense::Completion { completion: 17, allowed: 16 };
    assert_eq!(changed(|_, ended| ended.completion = 17), Err(more));
    assert_eq!(changed(|_, ended| ended.status = 500), Err(Nonsense::Unproved(500)));
    assert_eq!(changed(|_, ended| ended.status = 0), Err(Nonsense::Unproved(0)));
    assert_eq!(changed(|_, ended| ended.proof = Proof::Absent), Err(Nonsense::Sent));
    let unproved = |_: &mut Admitted, ended: &mut Ended| (ended.proof, ended.completion) = (Proof::Absent, 0);
    assert_eq!(changed(unproved), Err(Nonsense::Unproved(200)));
    let rejected = Outcome::Rejected { reason: Reason::TooLong, bound: None };
    assert_eq!(changed(|_, ended| ended.outcome = rejected), Err(Nonsense::RefusedWell));
}

/// The incident's own: what was attended to and not written.
#[test]
fn a_request_that_read_what_is_not_its_own_is_found() {
    let attended = |attended, written, cached| Err(Nonsense::Attended { attended, written, cached });
    assert_eq!(proof(|_, _, _, attended| *attended = 38), attended(38, 21, 16));
    assert_eq!(proof(|_, _, written, _| *written = 20), attended(37, 20, 16));
    assert_eq!(proof(|_, cached, _, _| *cached = 15), attended(37, 21, 15));
    assert_eq!(
        proof(|_, cached, written, _| (*cached, *written) = (u32::MAX, u32::MAX)),
        attended(37, u32::MAX, u32::MAX)
    );
    assert_eq!(proof(|engine, _, _, _| *engine = 36), Err(Nonsense::Counts { edge: 37, engine: 36 }));
}

#[test]
fn a_sequence_is_let_in_and_ends_once_and_for_its_own_tenant() {
    let [admitted, ended] = request(1);
    assert_eq!(take(&[boot(), engine(), admitted, admitted]).err(), Some(Nonsense::Twice));
    assert_eq!(take(&[boot(), engine(), admitted, ended, ended]).err(), Some(Nonsense::NotLetIn));
    assert_eq!(take(&[boot(), admitted]).err(), Some(Nonsense::Engine), "before its engine");
    assert_eq!(take(&[engine(), admitted]).err(), Some(Nonsense::Policy(0)), "before its policy");
    let mut meaning = take(&[boot(), engine(), admitted]).unwrap();
    let mut foreign = leaf(ended);
    foreign.link = foreign.link.map(|link| TenantLink { tenant: Hex([1; 16]), ..link });
    assert_eq!(meaning.take(3, &foreign), Err(Nonsense::NotLetIn));
}

/// Sessions of one life, of which the later one's pool is smaller: what was counted by the earlier may be recorded after it.
#[test]
fn a_pool_that_shrank_makes_no_nonsense_of_what_was_counted_before() {
    let Record::EngineSeen(seen) = engine() else { panic!("an engine") };
    let shrunk = Record::EngineSeen(crate::record::EngineSeen { capacity: 1_024, ..seen });
    let [admitted, ended] = request(1);
    assert!(take(&[boot(), engine(), shrunk, admitted, ended]).is_ok());
    assert!(matches!(take(&[boot(), shrunk, admitted]).err(), Some(Nonsense::Window { .. })));
}

#[test]
fn a_refusal_is_no_success() {
    let Record::Refused(refused) = record(1) else { panic!("a refusal") };
    let with = |status, outcome| take(&[Record::Refused(Refused { status, outcome, ..refused })]).err();
    assert_eq!(with(200, refused.outcome), Some(Nonsense::RefusedWell));
    assert_eq!(with(200, Outcome::Cancelled), Some(Nonsense::RefusedWell));
    let completed = Outcome::Completed { finish: Finish::Stop };
    assert_eq!(with(429, completed), Some(Nonsense::Unproved(429)));
    assert_eq!(with(0, Outcome::Cancelled), None);
}
