use super::*;
use crate::tree::Edge;

fn tenant(number: u32) -> Hex<16> {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    Hex(bytes)
}

/// The root over all heads, by a tree that grows leaf by leaf.
fn by_growing(heads: &Heads) -> Hex<32> {
    let mut edge = Edge::default();
    for head in heads.all() {
        edge.push(head.leaf(), &mut |_: crate::tree::Full<'_>| Ok::<(), ()>(())).unwrap();
    }
    let Hash(root) = edge.root();
    Hex(root)
}

#[test]
fn the_root_is_the_tree_over_all_heads_whatever_changed() {
    let mut heads = Heads::default();
    assert!(heads.root() == by_growing(&heads), "of none");
    let mut random = 7_u64;
    for step in 0..3_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let tenant = tenant(u32::try_from(random >> 33).unwrap() % (1 + u32::try_from(step / 8).unwrap()));
        let link = heads.next(tenant).unwrap();
        let hash = crate::leaf::leaf_hash(&step.to_be_bytes());
        heads.follow(&link, hash).unwrap();
        if step % 17 == 0 || step < 40 {
            assert!(heads.root() == by_growing(&heads), "after {step}");
        }
    }
    assert!(heads.len() > 100);
}

#[test]
fn a_leaf_must_be_its_tenants_next() {
    let mut heads = Heads::default();
    let (one, other) = (tenant(1), tenant(2));
    let first = TenantLink { tenant: one, seq: 1, prev: Hex([0; 32]) };
    assert_eq!(heads.next(one), Some(first));
    heads.follow(&first, Hex([5; 32])).unwrap();
    let second = TenantLink { tenant: one, seq: 2, prev: Hex([5; 32]) };
    assert_eq!(heads.next(one), Some(second));
    assert_eq!(heads.follow(&first, Hex([6; 32])), Err(Misfit::Seq { expected: 2 }), "again");
    let skipped = TenantLink { seq: 3, ..second };
    assert_eq!(heads.follow(&skipped, Hex([6; 32])), Err(Misfit::Seq { expected: 2 }));
    let forged = TenantLink { prev: Hex([4; 32]), ..second };
    assert_eq!(heads.follow(&forged, Hex([6; 32])), Err(Misfit::Prev));
    assert_eq!(
        heads.follow(&TenantLink { tenant: other, ..second }, Hex([6; 32])),
        Err(Misfit::Seq { expected: 1 })
    );
    heads.follow(&second, Hex([6; 32])).unwrap();
    assert_eq!(heads.len(), 1);
}

#[test]
fn there_is_a_bound_and_those_who_are_in_go_on() {
    let mut heads = Heads::default();
    for number in 0..u32::try_from(TENANTS_MAX).unwrap() {
        heads.put(Head { tenant: tenant(number), seq: 1, hash: Hex([1; 32]) });
    }
    assert_eq!(heads.next(tenant(u32::MAX)), None);
    assert_eq!(heads.next(tenant(7)).map(|link| link.seq), Some(2));
    let late = TenantLink { tenant: tenant(u32::MAX), seq: 1, prev: Hex([0; 32]) };
    assert_eq!(heads.follow(&late, Hex([1; 32])), Err(Misfit::TooMany));
}
