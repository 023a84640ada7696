use proptest::prelude::*;
use tlog_tiles::record_hash;

use super::*;

/// RFC 6962, section 2.1, as it is written there.
fn by_definition(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => EMPTY_HASH,
        [leaf] => *leaf,
        _ => {
            let left = leaves.len().next_power_of_two() / 2;
            node_hash(by_definition(&leaves[..left]), by_definition(&leaves[left..]))
        }
    }
}

fn leaves(count: usize) -> Vec<Hash> {
    (0..count).map(|leaf| record_hash(&leaf.to_be_bytes())).collect()
}

fn grown(leaves: &[Hash]) -> (Edge, Vec<(u8, u64, Vec<Hash>)>) {
    let (mut edge, mut tiles) = (Edge::default(), Vec::new());
    for leaf in leaves {
        edge.push(*leaf, &mut |full: Full<'_>| {
            tiles.push((full.level, full.number, full.hashes.to_vec()));
            Ok::<(), ()>(())
        })
        .unwrap();
    }
    (edge, tiles)
}

#[test]
fn the_root_is_the_one_of_the_definition() {
    for count in (0..70).chain([255, 256, 257, 300, 511, 512, 513, 1_000, 70_000]) {
        let leaves = leaves(count);
        let (edge, _) = grown(&leaves);
        assert!(edge.root() == by_definition(&leaves), "{count}");
    }
}

#[test]
fn full_tiles_are_told_once_each_with_the_roots_below_them() {
    let leaves = leaves(256 * 256 + 300);
    let (edge, tiles) = grown(&leaves);
    assert_eq!(tiles.len(), 256 + 1 + 1);
    for (level, number, hashes) in tiles {
        let number = usize::try_from(number).unwrap();
        match level {
            0 => assert!(hashes == leaves[number * 256..][..256]),
            1 => {
                let roots = leaves.chunks_exact(256).skip(number * 256).take(256).map(by_definition);
                assert!(hashes == roots.collect::<Vec<_>>());
            }
            _ => panic!("a tile of level {level}"),
        }
    }
    assert_eq!(edge.levels().iter().map(Vec::len).collect::<Vec<_>>(), [44, 1, 1]);
}

proptest! {
    #[test]
    fn an_edge_goes_on_where_it_was_left(before in 0_usize..600, after in 0_usize..600) {
        let leaves = leaves(before + after);
        let (edge, _) = grown(&leaves[..before]);
        let mut again = Edge::restore(edge.size(), edge.levels()[..depth(edge.size())].to_vec()).unwrap();
        for leaf in &leaves[before..] {
            again.push(*leaf, &mut |_: Full<'_>| Ok::<(), ()>(())).unwrap();
        }
        prop_assert!(again.root() == by_definition(&leaves));
        // One that does not fit its size is none.
        prop_assert!(Edge::restore(edge.size() + 1, edge.levels().to_vec()).is_none());
    }
}
