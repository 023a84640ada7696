use super::*;
use isolation::{lease::Lease, page::Verify, pool::Pool, tag::Registry, units::Epoch};

const TAG: TenantTag = TenantTag::new(7);

struct Bench {
    device: StampDevice,
    pool: Pool,
    lease: Lease,
}

fn bench(lie: Lie) -> Bench {
    let mut device = StampDevice::new(Pages::new(8), NonZeroU32::new(4).unwrap(), Tokens::new(64)).lying(lie);
    let mut pool = Pool::new(Pages::new(8), device.facts().page_size, Epoch::new(1));
    pool.scrub(Pages::new(8), Verify::TrustWipe, &mut device).unwrap();
    let lease = pool.lease(&Registry::new().open(TAG), Pages::new(6)).unwrap();
    Bench { device, pool, lease }
}

impl Bench {
    fn feed(&mut self, tokens: &[u32]) -> Vec<f32> {
        let step = self.pool.open_step().unwrap();
        let (write, access) = self.lease.include(Tokens::new(tokens.len() as u32), &step).unwrap();
        let mut logits = vec![];
        let chunk = Chunk { tokens, access: &access, want: Want::LastLogits };
        let (receipt, result) = self.device.run(step, &[chunk], &mut logits);
        result.unwrap();
        self.lease.commit(write, &receipt).unwrap();
        self.pool.settle(&receipt).unwrap();
        logits
    }
}

fn tokens() -> Vec<u32> {
    (0..19).map(|i| i * 7 % STAMP_VOCAB).collect()
}

#[test]
fn the_device_equals_the_oracle_whatever_the_chunking() {
    let tokens = tokens();
    for chunk in 1..=tokens.len() {
        let mut bench = bench(Lie::None);
        let mut last = vec![];
        for part in tokens.chunks(chunk) {
            last = bench.feed(part);
        }
        assert_eq!(last, expected_logits(TAG, &tokens), "chunks of {chunk}");
    }
}

#[test]
fn tag_token_order_and_length_change_the_logits() {
    let base = expected_logits(TAG, &[1, 2, 3]);
    for (tag, other) in [(7, vec![1, 3, 2]), (7, vec![1, 2]), (7, vec![1, 2, 3, 0]), (8, vec![1, 2, 3])] {
        assert_ne!(expected_logits(TenantTag::new(tag), &other), base);
    }
}

#[test]
fn each_lie_shows() {
    for lie in [Lie::ReadBeyond, Lie::ReadShort, Lie::DropWrite, Lie::ReadNeighbour] {
        let mut bench = bench(lie);
        for part in tokens().chunks(5) {
            bench.feed(part);
        }
        assert_ne!(bench.feed(&[1]), expected_logits(TAG, &[tokens(), vec![1]].concat()), "{lie:?}");
    }
    assert!(!bench(Lie::SkipWipe(0)).device.slots.contains(&Slot::default()));
}

#[test]
fn memory_is_born_poisoned_and_wiped_blank() {
    let mut device = StampDevice::new(Pages::new(2), NonZeroU32::new(4).unwrap(), Tokens::new(8));
    assert!(!device.slots.contains(&Slot::default()));
    let mut pool = Pool::new(Pages::new(2), device.facts().page_size, Epoch::new(1));
    assert_eq!(pool.scrub(Pages::new(2), Verify::ReadBack, &mut device).unwrap().pages, Pages::new(2));
    assert!(device.slots.iter().all(|slot| *slot == Slot::default()));
}
