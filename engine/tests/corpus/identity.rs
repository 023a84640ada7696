//! G: the names of prefixes. A wrong name is a wrong hit, or another tenant's.

#[cfg(feature = "seeded-faults")]
use crate::stage::Loss;
use crate::{
    common::{EPOCH, PAGE, config, name, prompt, submit},
    row,
    stage::{Stage, Wrong, demand},
};
use engine::device::stamp::Lie;
#[cfg(feature = "seeded-faults")]
use isolation::fault::Fault as Core;

/// Prompts of one length and many contents, of two tenants: each gets its own.
fn g01(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(60, config(), lie)?;
    for number in 0..24 {
        stage.send(submit(number, 1 + u64::from(number % 2), prompt(number / 2, 2 * PAGE + 1), 3))?;
        stage.settle()?;
    }
    stage.end()
}
row!(fault_g01_equal_names_are_no_equal_prompts, control_g01, g01, [Loss::Core(Core::PrefixNoTokenCompare)]);
row!(fault_g10_a_short_name_is_no_hit, control_g10, g01, [Loss::Core(Core::PrefixNoTokenCompare)]);

/// G10: names of one bit collide all the time, and still nobody gets another prompt's pages.
#[cfg(feature = "seeded-faults")]
#[test]
fn fault_g10_names_of_one_bit_leak_nothing() {
    assert_eq!(isolation::fault::with(Core::PrefixShortKey, || g01(Lie::None)), Ok(()));
}

/// G02: the same tokens, cut at other places, are other prompts.
fn g02(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(60, config(), lie)?;
    let ids = prompt(1, 5 * PAGE);
    for (number, length) in (0..).zip((1..5 * PAGE).rev()) {
        let cached = stage.cached(submit(number, 1, ids[..length as usize].to_vec(), 2))?;
        let whole = (length - 1) / PAGE * PAGE;
        demand(cached == if number == 0 { 0 } else { whole }, || format!("{cached} of {length} cached"))?;
    }
    // The pages of one prompt, in another order.
    let turned = [&ids[PAGE as usize..2 * PAGE as usize], &ids[..PAGE as usize], &[1]].concat();
    let cached = stage.cached(submit(100, 1, turned, 2))?;
    demand(cached == 0, || format!("{cached} tokens of another order"))?;
    stage.end()
}
row!(fault_g02_another_framing_is_another_prompt, control_g02, g02, [Loss::Core(Core::PrefixNoTokenCompare)]);

/// G03, G12: nothing that a client chooses is part of a name: requests that differ in all of it hit the same prefix, and the
/// strangest tags do no harm.
fn g03(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(60, config(), lie)?;
    for (number, tag) in (0..).step_by(3).zip([0, 1, u64::MAX, 1 << 63, 0x2f5c_0040]) {
        let ids = prompt(3, 3 * PAGE + 1);
        demand(stage.cached(submit(number, tag, ids.clone(), 2))? == 0, || "a foreign hit".to_owned())?;
        let mut other = submit(number + 1, tag, ids, 3);
        other.sampling.seed = 77;
        other.stop_tokens = vec![63];
        demand(stage.cached(other)? == 3 * PAGE, || "a client's choice is in the name".to_owned())?;
    }
    stage.end()
}
row!(fault_g03_no_choice_of_a_client_names_a_prefix, control_g03, g03, [Loss::Device(Lie::ReadShort)]);
row!(fault_g12_no_tag_is_too_strange, control_g12, g03, [Loss::Device(Lie::ReadNeighbour)]);

/// G05: another life of the engine, with another revision, knows nothing of the prefixes that the memory still holds.
fn g05(lie: Lie) -> Result<(), Wrong> {
    use isolation::{keyed::Secrets, units::Epoch};
    let mut stage = Stage::new(20, config(), lie)?;
    let ids = prompt(1, 3 * PAGE + 1);
    stage.cached(submit(1, 1, ids.clone(), 2))?;
    demand(stage.cached(submit(2, 1, ids.clone(), 2))? == 3 * PAGE, || "nothing to hit".to_owned())?;
    let device = stage.session.engine.into_device();
    let next = engine::core::Engine::new(device, config(), Epoch::new(EPOCH + 1), Secrets::new([9; 16]));
    let mut session = crate::common::Session::new(next.map_err(|error| error.to_string())?);
    let again = wire::Submit { epoch: EPOCH + 1, ..submit(3, 1, ids, 2) };
    let cached = session.cached(&again);
    demand(cached == 0, || format!("{cached} tokens of a former life"))?;
    demand(session.of(3).tokens == crate::common::oracle(&again), || "a former life's keys".to_owned())
}
row!(fault_g05_another_revision_hits_nothing, control_g05, g05, [Loss::Device(Lie::ReadShort)]);

/// G09: separation must not be a hit that never happens, nor one that always does: the same tenant hits, each other does not.
fn g09(lie: Lie) -> Result<(), Wrong> {
    both_directions(lie, |tag| tag)
}

fn both_directions(lie: Lie, tag_of: fn(u64) -> u64) -> Result<(), Wrong> {
    let mut stage = Stage::new(60, config(), lie)?;
    let ids = prompt(2, 3 * PAGE + 1);
    for tenant in 1..=5 {
        let number = 10 * tenant as u32;
        let first = stage.cached(submit(number, tag_of(tenant), ids.clone(), 2))?;
        demand(first == 0, || format!("{first} tokens of another tenant"))?;
        let second = stage.cached(submit(number + 1, tag_of(tenant), ids.clone(), 2))?;
        demand(second == 3 * PAGE, || format!("{second} of its own tokens"))?;
    }
    stage.end()
}
row!(fault_g09_the_same_tenant_hits_and_no_other, control_g09, g09, [Loss::Device(Lie::ReadShort)]);

/// The control of G09 in its own words: a tag that is carried and then dropped.
#[test]
fn fault_g09_a_dropped_tag_would_be_noticed() {
    assert!(both_directions(Lie::None, |_| 1).is_err());
}

/// G13: what is found is the longest known head in whole pages, by a naive search.
fn g13(lie: Lie) -> Result<(), Wrong> {
    let mut stage = Stage::new(200, config(), lie)?;
    let mut rng = crate::common::Rng(5);
    let mut known: Vec<(u64, Vec<u32>)> = vec![];
    for number in 0..60 {
        let tag = 1 + rng.below(2);
        let mut ids = match known.len() {
            0 => vec![],
            count => known[rng.below(count as u64) as usize].1.clone(),
        };
        ids.truncate(rng.below(1 + ids.len() as u64) as usize);
        ids.extend((0..1 + rng.below(6)).map(|_| rng.below(4) as u32));
        let page = PAGE as usize;
        let head = |other: &Vec<u32>| ids.iter().zip(other).take_while(|(a, b)| a == b).count() / page * page;
        let own = known.iter().filter(|(owner, _)| *owner == tag);
        let longest = own.map(|(_, other)| head(other)).max().unwrap_or(0).min((ids.len() - 1) / page * page);
        let request = submit(number, tag, ids.clone(), 1);
        let cached = stage.cached(request)? as usize;
        demand(cached == longest, || format!("{cached} cached, {longest} known"))?;
        known.push((tag, ids));
    }
    let last = stage.session.of(59).ended.clone();
    demand(last.is_some() && name(59)[0] == 59, || "the last has no end".to_owned())?;
    stage.end()
}
row!(
    fault_g13_the_tree_finds_what_a_naive_search_finds,
    control_g13,
    g13,
    [Loss::Core(Core::PrefixNoTokenCompare), Loss::Core(Core::PrefixWholePrompt),]
);
