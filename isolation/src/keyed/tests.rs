use super::*;

fn secret() -> TreeSecret {
    Secrets::new([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]).0
}

#[test]
fn a_secret_says_its_name_and_nothing_else() {
    assert_eq!(alloc::format!("{:?}", secret()), "TreeSecret");
}

/// Vectors of the reference implementation: less than a word, almost two, and many.
#[test]
fn it_is_siphash() {
    let hash = |len: u8| {
        let mut sip = Sip::new(&secret());
        (0..len).for_each(|byte| sip.push(byte));
        sip.finish().0.to_le_bytes()
    };
    let known = [
        (0, 0xa381_7f04_ba25_a8e6_6df6_7214_c755_0293_u128),
        (1, 0xda87_c1d8_6b99_af44_3476_5911_9b22_fc45),
        (2, 0x8177_228d_a4a4_5dc7_fca3_8bde_f60a_ffe4),
        (15, 0x5493_e999_33b0_a811_7e08_ec0f_97cf_c3d9),
        (63, 0x5150_d177_2f50_834a_503e_069a_973f_bd7c),
    ];
    for (len, expected) in known {
        assert_eq!(u128::from_be_bytes(hash(len)), expected, "of {len} bytes");
    }
}

#[test]
fn what_is_framed_otherwise_has_another_name() {
    let secret = secret();
    let root = secret.root(&Revision::default());
    let mut names: alloc::vec::Vec<PageKey> = [
        secret.page(root, &[1, 2]),
        secret.page(secret.page(root, &[1]), &[2]),
        secret.page(root, &[2, 1]),
        secret.page(root, &[1, 2, 0]),
        secret.page(root, &[0x0201]),
    ]
    .into();
    for field in 0..3 {
        let mut revision = Revision::default();
        [&mut revision.model, &mut revision.template, &mut revision.adapter][field][0] = 1;
        names.push(secret.page(secret.root(&revision), &[1, 2]));
    }
    for tag in 0..3 {
        let own = Secrets(TreeSecret { ..secret }).of(&crate::testing::scope(tag));
        names.push(own.page(own.root(&Revision::default()), &[1, 2]));
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    // I8
    assert_eq!(names.len(), count);
}

/// A half that is the same for all would leave half the secret.
#[test]
fn both_halves_of_a_secret_are_the_tenants_own() {
    let secrets = Secrets::new([7; 16]);
    let [one, two] = [1, 2].map(|tag| secrets.of(&crate::testing::scope(tag)));
    assert!(one.first != two.first && one.second != two.second && one.first != one.second);
}

type Held = Result<(), alloc::string::String>;

fn hold(holds: bool, what: &str) -> Held {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Weights, a template and an adapter of the same name, reloaded: the digest is another, and so is every name of a page.
fn g05() -> Held {
    let secret = secret();
    let old = Revision { model: [1; 32], template: [2; 32], adapter: [3; 32] };
    let reloaded = [
        Revision { model: [9; 32], ..old },
        Revision { template: [9; 32], ..old },
        Revision { adapter: [9; 32], ..old },
        // The same bytes in other fields.
        Revision { model: old.template, template: old.model, ..old },
    ];
    reloaded.iter().try_for_each(|new| {
        let is_other = secret.page(secret.root(new), &[1, 2]) != secret.page(secret.root(&old), &[1, 2]);
        hold(is_other, "another revision has the same names")
    })
}

/// A hundred thousand prefixes: were a name cut to 32 bits anywhere on its way, some two would be equal.
fn g10() -> Held {
    let secret = secret();
    let root = secret.root(&Revision::default());
    let mut names: alloc::vec::Vec<u128> = (0..100_000).map(|i| secret.page(root, &[i, 7]).0).collect();
    for half in [0, 64] {
        let mut halves: alloc::vec::Vec<u64> = names.iter().map(|name| low(name >> half)).collect();
        halves.sort_unstable();
        halves.dedup();
        hold(halves.len() == names.len(), "two prefixes have one name in half its bits")?;
    }
    names.sort_unstable();
    names.dedup();
    hold(names.len() == 100_000, "two prefixes have one name")
}

#[test]
fn fault_g05_another_revision_has_other_names() {
    // I8
    assert_eq!(g05(), Ok(()));
}

#[test]
fn fault_g10_a_name_is_kept_whole() {
    // I8
    assert_eq!(g10(), Ok(()));
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_g05_another_revision_has_other_names() {
    use crate::fault::with;
    assert_eq!(with(Fault::RevisionIgnored, g05), Err("another revision has the same names".into()));
}

#[cfg(feature = "seeded-faults")]
#[test]
fn control_g10_a_name_is_kept_whole() {
    use crate::fault::with;
    assert_eq!(with(Fault::PrefixShortKey, g10), Err("two prefixes have one name in half its bits".into()));
}
