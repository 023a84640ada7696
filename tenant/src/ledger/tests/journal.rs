//! The journal's bytes: cut anywhere, flipped anywhere, doubled, moved.

use super::*;

/// A small life: a checkpoint and then one frame a record; and, for each number of frames kept, what must be
/// there: `(spent, reserved)` after recovery, and rows of usage.
struct Life {
    bytes: Vec<u8>,
    /// Where each frame after the checkpoint ends, the checkpoint's end first.
    ends: Vec<usize>,
    /// `spent` by then, once recovery has settled what is open.
    spent: Vec<u64>,
    budget: Budget,
}

fn life() -> Life {
    let mut bench = Bench::fresh(Bounds::FULL);
    let payer = payer(1, 1, 0);
    let budget = hard(Level::Tenant(payer.tenant), Unit::Tokens, Period::Total, 1_000);
    let budgets = [budget.clone()];
    let name = model("a");
    let worst = WorstCase::new(10, 10, 1).unwrap();
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
    let (mut ends, mut spent) = (vec![bench.medium.synced().len()], vec![0]);
    let mut note = |bench: &mut Bench, now: u64| {
        while bench.shared.queue.len() > 0 {
            bench.commit(1).unwrap();
            ends.push(bench.medium.synced().len());
            spent.push(now);
        }
    };
    let (mut first, _ticket) = bench.begin(&claim, at(0)).unwrap();
    note(&mut bench, 0);
    first.mark(used(10, 4, 1)).unwrap();
    note(&mut bench, 11);
    let (second, _ticket) = bench.begin(&claim, at(0)).unwrap();
    note(&mut bench, 11);
    drop(first.settle(used(10, 4, 5)).unwrap());
    note(&mut bench, 15);
    drop(second.settle(used(1, 0, 1)).unwrap());
    note(&mut bench, 17);
    let (mut open, _ticket) = bench.begin(&claim, at(0)).unwrap();
    note(&mut bench, 17);
    open.mark(used(7, 0, 0)).unwrap();
    note(&mut bench, 24);
    Life { bytes: bench.medium.synced(), ends, spent, budget }
}

impl Life {
    fn spent_after(&self, bytes: Vec<u8>) -> Result<(u64, u64), LedgerError> {
        let bench = Bench::reopen(bytes)?;
        Ok(bench.sum(payer(1, 1, 0).tenant, &self.budget, at(0)))
    }
}

#[test]
fn a_cut_at_any_byte_leaves_what_was_whole_before_it() {
    let life = life();
    for cut in 0..=life.bytes.len() {
        let found = life.spent_after(life.bytes[..cut].to_vec());
        match life.ends.iter().rposition(|end| *end <= cut) {
            Some(frame) => assert_eq!(found.unwrap(), (life.spent[frame], 0), "cut at {cut}"),
            None => assert!(matches!(found, Err(LedgerError::Damaged(_))), "cut at {cut}: no checkpoint"),
        }
    }
}

#[test]
fn a_flip_of_any_bit_is_refused_or_cuts_the_last_frame() {
    let life = life();
    let last = life.ends[life.ends.len() - 2];
    for at in 0..life.bytes.len() {
        for bit in 0..8 {
            let mut bytes = life.bytes.clone();
            bytes[at] ^= 1 << bit;
            match life.spent_after(bytes) {
                Err(LedgerError::Damaged(damaged)) => {
                    assert!(at < last, "byte {at}");
                    assert!(damaged.at <= at, "byte {at}: {damaged}");
                }
                // In the last frame a flip cannot be told from a torn write.
                found => {
                    assert!(at >= last, "byte {at} is believed");
                    assert_eq!(found.unwrap(), (life.spent[life.spent.len() - 2], 0));
                }
            }
        }
    }
}

#[test]
fn frames_that_are_missing_double_or_moved_are_refused() {
    let life = life();
    let frame = |i: usize| &life.bytes[life.ends[i]..life.ends[i + 1]];
    let head = &life.bytes[..life.ends[0]];
    let count = life.ends.len() - 1;
    for i in 0..count {
        let without: Vec<u8> = (0..count).filter(|j| *j != i).flat_map(|j| frame(j).to_vec()).collect();
        let result = life.spent_after([head, &without].concat());
        assert_eq!(result.is_err(), i + 1 < count, "without frame {i}");
        let doubled = [&life.bytes[..life.ends[i + 1]], frame(i), &life.bytes[life.ends[i + 1]..]].concat();
        assert!(matches!(life.spent_after(doubled), Err(LedgerError::Damaged(_))), "frame {i} twice");
    }
}

#[test]
fn zeros_and_noise_after_the_end_are_cut() {
    let life = life();
    for tail in [&[0; 4_096][..], b"bhLJ", b"bhLJbhLJ\0\0", &life.bytes[life.ends[1]..life.ends[2] - 1]] {
        let bench = Bench::reopen([&life.bytes[..], tail].concat()).unwrap();
        assert_eq!(bench.replayed.cut_bytes, tail.len());
        assert_eq!(bench.sum(payer(1, 1, 0).tenant, &life.budget, at(0)), (24, 0));
    }
}

#[test]
fn opening_again_and_again_changes_nothing_more() {
    let life = life();
    let mut bytes = life.bytes.clone();
    for round in 0..4 {
        let bench = Bench::reopen(bytes).unwrap();
        assert_eq!(bench.replayed.settled, u64::from(round == 0));
        assert_eq!(bench.sum(payer(1, 1, 0).tenant, &life.budget, at(0)), (24, 0));
        assert_eq!(bench.writer.image.usage.rows(), 1);
        bytes = bench.medium.synced();
    }
}

#[test]
fn a_checkpoint_says_what_the_image_says() {
    let mut bench = Bench::fresh(Bounds::FULL);
    let name = model(&"m".repeat(128));
    let mut open = Vec::new();
    for (tenant, key) in [(1, 0), (1, 1), (2, 0), (3, 2)] {
        let payer = payer(tenant, 1, key);
        let budgets: Vec<Budget> = [Period::Day, Period::Month, Period::Total]
            .into_iter()
            .flat_map(|period| {
                [Unit::Tokens, Unit::MicroMoney].map(|unit| Budget {
                    models: Models::One(name.clone()),
                    thresholds: Thresholds::new(&[1]).unwrap(),
                    ..hard(Level::Key(payer.key), unit, period, 500)
                })
            })
            .collect();
        let worst = WorstCase::new(10, 1, 1).unwrap();
        let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
        for day in 0..5 {
            let mut one = bench.reserve(&claim, at(day * 20 * DAY)).unwrap();
            one.mark(used(3, 1, 0)).unwrap();
            open.push(one);
        }
        drop(open.pop().unwrap().settle(used(9, 1, 1)).unwrap());
        bench.take();
    }
    bench.commit(usize::MAX).unwrap();
    let image = bench.writer.image.clone();
    let mut frames = Vec::new();
    let (mut builder, mut seq) = (frame::Builder::default(), 3);
    image
        .checkpoint(&mut |record| {
            builder.add(record);
            builder.seal(seq, &mut frames);
            seq += 1;
            Ok(())
        })
        .unwrap();
    let (again, read) = Image::read(&frames).unwrap();
    assert_eq!(again, image);
    assert_eq!((read.next_seq, read.records), (seq, 0));
    for cut in 0..frames.len() {
        let found = Image::read(&frames[..cut]).map(|_| ()).unwrap_err();
        assert_eq!(found.why, Damage::NoCheckpoint, "a checkpoint is whole or nothing");
    }
}

#[test]
fn a_full_disk_refuses_and_never_pretends() {
    let payer = payer(1, 1, 0);
    let budgets = [hard(Level::Tenant(payer.tenant), Unit::Tokens, Period::Total, 1_000)];
    let name = model("a");
    let worst = WorstCase::new(10, 10, 1).unwrap();
    let claim = Claim { payer, model: &name, pricing: price(), budgets: &budgets, worst };
    for operations in 0..2 {
        let medium = Medium::default();
        let source = Source::Fresh(Uuid::from_u128(7));
        let (ledger, _) = Ledger::open_on(&source, medium.clone(), Bounds::FULL).unwrap();
        give_all(&ledger.shared, &claim, at(0));
        let first = ledger.shared.begin(&claim, at(0)).unwrap();
        first.1.wait().unwrap();
        medium.fail_after(operations);
        let (second, ticket) = ledger.shared.begin(&claim, at(0)).unwrap();
        assert!(matches!(ticket.wait(), Err(LedgerError::Ended)), "it is not on disk");
        assert_eq!(ledger.ended_by(), Some(io::ErrorKind::StorageFull));
        let refused = ledger.shared.begin(&claim, at(0)).err();
        assert!(matches!(refused, Some(BudgetRefusal::Journal(LedgerError::Ended))), "{refused:?}");
        drop(second);
        let settled = first.0.settle(used(1, 0, 1)).unwrap();
        assert!(matches!(settled.journalled.wait(), Err(LedgerError::Ended)), "nor is this");
        assert_eq!(ledger.outstanding(), 0);
        drop(ledger);
        let again = Bench::reopen(medium.survivor(&mut |most| most - 1)).unwrap();
        assert_eq!(again.replayed.settled, 1 + operations as u64, "what was not settled on disk");
        assert_eq!(again.sum(payer.tenant, &budgets[0], at(0)), (0, 0));
    }
}
