use super::*;
use crate::fault;

const MINE: Capability = Capability { page: 1, owner: 4, generation: 9 };

/// Two pages of two layers; page 1 is owner 4's in generation 9, with 3 positions of layer 0 and none of layer 1.
fn labels() -> Labels {
    let mut labels = Labels::new(2, 2).unwrap();
    labels.wipe(1);
    for slot in 0..3 {
        labels.write(MINE, 0, slot).unwrap();
    }
    labels
}

/// What each way of asking for more than is mine gets; `Ok` would be a leak.
fn trespasses() -> Vec<(Fault, Result<(), Denied>)> {
    let labels = labels();
    let read = |asked, layer, upto| labels.read(asked, layer, upto, fault::seeded());
    vec![
        (Fault::NoOwnerCheck, read(Capability { owner: 5, ..MINE }, 0, 3)),
        (Fault::NoGenerationCheck, read(Capability { generation: 8, ..MINE }, 0, 3)),
        (Fault::NoFilledCheck, read(MINE, 0, 4)),
        (Fault::NoFilledCheck, read(MINE, 1, 1)),
        (Fault::NoFilledCheck, read(Capability { page: 0, ..MINE }, 0, 1)),
    ]
}

#[test]
fn a_page_opens_for_its_owner_in_its_life_as_far_as_it_is_filled() {
    let labels = labels();
    assert_eq!(labels.read(MINE, 0, 3, None), Ok(()));
    assert_eq!(labels.read(MINE, 1, 0, None), Ok(()));
    let got: Vec<_> = trespasses().into_iter().map(|(_, result)| result).collect();
    let page = 1;
    assert_eq!(
        got,
        [
            Err(Denied::Owner { page }),
            Err(Denied::Generation { page, asked: 8, found: 9 }),
            Err(Denied::Unwritten { page, layer: 0, filled: 3, asked: 4 }),
            Err(Denied::Unwritten { page, layer: 1, filled: 0, asked: 1 }),
            Err(Denied::Unwritten { page: 0, layer: 0, filled: 0, asked: 1 }),
        ]
    );
    let outside = Capability { page: 2, ..MINE };
    assert_eq!(labels.read(outside, 0, 1, None), Err(Denied::NoPage { page: 2 }));
}

/// The positive controls: without its guard, each trespass goes through, and the others do not.
#[cfg(feature = "seeded-faults")]
#[test]
fn seeded_faults_of_labels_are_noticed() {
    for fault in [Fault::NoOwnerCheck, Fault::NoGenerationCheck, Fault::NoFilledCheck] {
        for (guard, result) in fault::with(fault, trespasses) {
            assert_eq!(result.is_ok(), guard == fault, "{guard:?} without {fault:?}");
        }
    }
}

#[test]
fn a_write_needs_a_wiped_page_or_its_own_and_leaves_no_gap() {
    let mut labels = labels();
    let (page, layer) = (1, 0);
    assert_eq!(labels.write(Capability { page: 0, ..MINE }, 0, 0), Err(Denied::Unwiped { page: 0 }));
    assert_eq!(labels.write(Capability { page: 2, ..MINE }, 0, 0), Err(Denied::NoPage { page: 2 }));
    assert_eq!(labels.write(Capability { owner: 5, ..MINE }, 0, 3), Err(Denied::Owner { page }));
    assert_eq!(
        labels.write(Capability { generation: 10, ..MINE }, 0, 3),
        Err(Denied::Generation { page, asked: 10, found: 9 })
    );
    assert_eq!(labels.write(MINE, 0, 4), Err(Denied::Unwritten { page, layer, filled: 3, asked: 4 }));
    assert_eq!(labels.write(MINE, 0, 3), Ok(()));
    assert_eq!(labels.read(MINE, 0, 4, None), Ok(()));
}

#[test]
fn a_wipe_ends_a_life() {
    let mut labels = labels();
    labels.wipe(1);
    let denied = Denied::Unwritten { page: 1, layer: 0, filled: 0, asked: 1 };
    assert_eq!(labels.read(MINE, 0, 1, None), Err(denied));
    let next = Capability { owner: 5, generation: 10, ..MINE };
    assert_eq!(labels.write(next, 0, 0), Ok(()));
    assert_eq!(labels.read(MINE, 0, 1, None), Err(Denied::Owner { page: 1 }));
    assert_eq!(labels.read(next, 0, 1, None), Ok(()));
}
