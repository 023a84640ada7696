use super::*;
use crate::{
    pool::Pool,
    testing::{SIZE, fill, pool, scope},
    units::Tokens,
};

/// A run that is filled with `tokens`, written by a sequence that has ended.
fn run(pool: &mut Pool, tag: u64, tokens: &[u32]) -> SharedRun {
    let count = Tokens::new(tokens.len() as u32);
    let mut lease = pool.lease(&scope(tag), SIZE.pages_for(count)).unwrap();
    fill(pool, &mut lease, count.get());
    lease.seal(tokens).unwrap().unwrap()
}

fn tree(max: u32) -> PrefixTree {
    of_revision(SIZE, max, 0)
}

fn of_revision(size: PageSize, max: u32, model: u8) -> PrefixTree {
    let revision = Revision { model: [model; 32], ..Revision::default() };
    PrefixTree::new(&scope(1), size, Pages::new(max), &Secrets::new([9; 16]), &revision)
}

fn found(tree: &mut PrefixTree, prompt: &[u32]) -> u32 {
    tree.find(prompt).map_or(0, |run| run.tokens().get())
}

#[test]
fn whole_pages_are_found_and_the_last_token_is_left() {
    let (mut pool, mut tree) = (pool(4, 1), tree(4));
    let tokens = [1, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(tree.insert(&run(&mut pool, 1, &tokens)), Ok(Pages::new(2)));
    // I8
    for (prompt, cached) in [(4, 0), (5, 4), (8, 4)] {
        assert_eq!(found(&mut tree, &tokens[..prompt]), cached, "of {prompt} tokens");
    }
    assert_eq!(found(&mut tree, &[1, 2, 3, 4, 5, 6, 7, 8, 9]), 8);
    assert_eq!(
        found(&mut tree, &[1, 2, 3, 4, 5, 6, 7, 0, 9]),
        4,
        "the second page differs in its last token"
    );
    assert_eq!(found(&mut tree, &[0, 2, 3, 4, 5]), 0);
    assert_eq!(found(&mut tree, &[]), 0);
}

#[test]
fn what_is_cached_already_stays_and_the_rest_is_added() {
    let (mut pool, mut tree) = (pool(8, 1), tree(8));
    tree.insert(&run(&mut pool, 1, &[1; 4])).unwrap();
    let before = tree.find(&[1; 5]).unwrap();
    assert_eq!(tree.insert(&run(&mut pool, 1, &[1; 8])), Ok(Pages::new(1)));
    let after = tree.find(&[1; 9]).unwrap();
    assert_eq!(after.pages()[0].facts(), before.pages()[0].facts());
    assert_eq!(
        (tree.held(), pool.census().shared),
        (Pages::new(2), Pages::new(2)),
        "the duplicate went home"
    );
}

#[test]
fn another_tenants_run_and_one_of_another_page_size_are_refused() {
    let (mut pool, mut tree) = (pool(4, 1), tree(4));
    // I8
    let refused = PrefixError::OtherTenant { tree: TenantTag::new(1), run: TenantTag::new(2) };
    assert_eq!(tree.insert(&run(&mut pool, 2, &[1; 4])), Err(refused));
    assert_eq!((tree.held(), pool.census().shared), (Pages::ZERO, Pages::ZERO));

    let pairs = PageSize::new(core::num::NonZeroU32::new(2).unwrap());
    let mut tree = of_revision(pairs, 4, 0);
    let refused = PrefixError::OtherPageSize { tree: pairs, run: SIZE };
    assert_eq!(tree.insert(&run(&mut pool, 1, &[1; 4])), Err(refused));
}

#[test]
fn the_least_recently_used_leaf_that_nobody_reads_goes_first() {
    let (mut pool, mut tree) = (pool(8, 1), tree(3));
    for first in 1..=3 {
        tree.insert(&run(&mut pool, 1, &[first; 4])).unwrap();
    }
    let read = tree.find(&[1; 5]);
    assert_eq!(found(&mut tree, &[2; 5]), 4);
    // I8: 1 is read, 2 was used after 3.
    assert_eq!(tree.insert(&run(&mut pool, 1, &[4; 4])), Ok(Pages::new(1)));
    assert_eq!(tree.held(), Pages::new(3), "the bound holds");
    assert_eq!([1, 2, 3, 4].map(|first| found(&mut tree, &[first; 5])), [4, 4, 0, 4]);
    assert_eq!(tree.evict(Pages::new(9)), Pages::new(2), "1 is read still");
    drop(read);
    assert_eq!(tree.evict(Pages::new(9)), Pages::new(1));
    assert_eq!(pool.census().shared, Pages::ZERO);
}

#[test]
fn a_run_longer_than_the_tree_is_kept_in_part_and_never_torn() {
    let (mut pool, mut tree) = (pool(8, 1), tree(2));
    assert_eq!(tree.insert(&run(&mut pool, 1, &[1; 12])), Ok(Pages::new(2)));
    assert_eq!(found(&mut tree, &[1; 13]), 8);
    assert_eq!(tree.evict(Pages::new(1)), Pages::new(1));
    assert_eq!(found(&mut tree, &[1; 13]), 4, "a leaf goes before its parent");
    assert_eq!(tree.evict(Pages::new(1)), Pages::new(1), "which is a leaf then");
    assert_eq!((tree.held(), pool.census().shared), (Pages::ZERO, Pages::ZERO));
}

#[test]
fn a_full_tree_does_not_evict_the_path_that_it_adds_to() {
    let (mut pool, mut tree) = (pool(8, 1), tree(1));
    tree.insert(&run(&mut pool, 1, &[1; 4])).unwrap();
    let tokens = [1, 1, 1, 1, 2, 2, 2, 2];
    assert_eq!(tree.insert(&run(&mut pool, 1, &tokens)), Ok(Pages::ZERO));
    // I8: the second page of a prompt is not the first of another.
    assert_eq!((found(&mut tree, &[1; 5]), found(&mut tree, &[2; 5])), (4, 0));
}

#[test]
fn what_another_revision_computed_is_not_found() {
    let (mut pool, mut old, mut new) = (pool(4, 1), of_revision(SIZE, 4, 1), of_revision(SIZE, 4, 2));
    old.insert(&run(&mut pool, 1, &[1; 4])).unwrap();
    // I8: the same tenant, secret and tokens; other weights.
    assert_eq!((found(&mut old, &[1; 5]), found(&mut new, &[1; 5])), (4, 0));
    assert_ne!(old.root, new.root);
}

/// Names of one bit collide all the time; what is found is still what was asked for.
#[cfg(feature = "seeded-faults")]
#[test]
fn a_collision_of_names_is_a_miss() {
    crate::fault::with(Fault::PrefixShortKey, a_tree_never_finds_what_was_not_kept);
}

/// The positive control: without the comparison the same trial finds foreign tokens.
#[cfg(feature = "seeded-faults")]
#[test]
#[should_panic(expected = "was found for")]
fn a_name_that_is_believed_gives_other_tokens() {
    crate::fault::with(Fault::PrefixNoTokenCompare, a_tree_never_finds_what_was_not_kept);
}

#[cfg(feature = "seeded-faults")]
fn a_tree_never_finds_what_was_not_kept() {
    let (mut pool, mut tree) = (pool(64, 1), tree(64));
    for first in 0..6 {
        tree.insert(&run(&mut pool, 1, &[first, first, 9, 9, first, 9, 9, 9])).unwrap();
        for asked in 0..6 {
            let prompt = [asked, asked, 9, 9, asked, 9, 9, 9, 1];
            let ids: Vec<u32> = tree.find(&prompt).iter().flat_map(SharedRun::ids).collect();
            assert!(prompt.starts_with(&ids), "{ids:?} was found for {prompt:?}");
        }
    }
}

/// Small prompts of few tokens, so that they often begin alike.
fn next_random(state: &mut u64) -> u64 {
    // Marsaglia's xorshift64.
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn a_tree_finds_what_a_plain_list_of_prompts_finds() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    std::println!("SEED={seed}");
    let mut state = seed;
    let (mut pool, mut tree) = (pool(4000, 1), tree(4000));
    // The naive model: the pages of every prompt that was kept, as a path of tokens.
    let mut kept: BTreeSet<Vec<u32>> = BTreeSet::new();
    let mut hits = 0;
    for _ in 0..2000 {
        let length = 1 + next_random(&mut state) as usize % 14;
        let prompt: Vec<u32> = (0..length).map(|_| next_random(&mut state) as u32 % 2).collect();
        let longest = (1..=(length - 1) / 4).rev().find(|pages| kept.contains(&prompt[..pages * 4]));
        let expected = longest.map_or(0, |pages| pages as u32 * 4);
        assert_eq!(found(&mut tree, &prompt), expected, "{prompt:?}");
        hits += expected;
        if length >= 4 && next_random(&mut state).is_multiple_of(8) {
            let full = length / 4 * 4;
            tree.insert(&run(&mut pool, 1, &prompt[..full])).unwrap();
            kept.extend((1..=length / 4).map(|pages| prompt[..pages * 4].to_vec()));
            pool.scrub(Pages::new(16), crate::page::Verify::ReadBack, &mut crate::testing::Blank).unwrap();
        }
        // I8, I10
        assert_eq!(tree.held(), pages(kept.len()));
        assert_eq!(pool.census().shared, tree.held());
    }
    assert!(hits > 1000, "a test without hits tests nothing");
    drop(tree);
    assert_eq!(pool.census().shared, Pages::ZERO);
}
