//! P1 on the whole forward pass, with a tiny random model: however a sequence comes to the device, its logits have the same bits.

use super::*;
use crate::device::Want;
use isolation::{
    lease::Lease,
    page::Verify,
    pool::Pool as Pages_,
    tag::{Registry, TenantScope, TenantTag},
    units::Epoch,
};
use model::LlamaShape;

#[cfg(feature = "seeded-faults")]
mod denied;

const VOCAB: usize = 96;

fn tiny() -> Arc<Weights> {
    let shape = LlamaShape {
        layers: 2,
        width: 64,
        ffn: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        context: 256,
        rope_base: 10_000.0,
        rms_eps: 1e-5,
        vocab: VOCAB,
        tied_head: true,
    };
    Arc::new(Weights::random(shape, 5))
}

/// A device with its pool of pages, scrubbed.
struct Rig {
    device: CpuDevice,
    pages: Pages_,
    registry: Registry,
}

impl Rig {
    fn new(weights: &Arc<Weights>, threads: usize, isa: Isa) -> Self {
        let options = CpuOptions { pool_tokens: Tokens::new(1024), threads, isa: Some(isa) };
        let mut device = CpuDevice::with_weights(Arc::clone(weights), options).unwrap();
        let facts = device.facts();
        let mut pages = Pages_::new(facts.pages, facts.page_size, Epoch::new(1));
        pages.scrub(facts.pages, Verify::ReadBack, &mut device).unwrap();
        Self { device, pages, registry: Registry::new() }
    }

    fn scope(&mut self, tag: u64) -> TenantScope {
        self.registry.open(TenantTag::new(tag))
    }

    fn lease(&mut self, scope: &TenantScope, tokens: usize) -> Lease {
        let need = self.pages.page_size().pages_for(Tokens::new(tokens as u32));
        self.pages.lease(scope, need).unwrap()
    }

    /// One step over several sequences; the logits of each one's last token, as bits.
    fn step(&mut self, work: &mut [(&mut Lease, &[u32])]) -> Vec<Vec<u32>> {
        let step = self.pages.open_step().unwrap();
        let mut pending = vec![];
        let mut accesses = vec![];
        for (lease, tokens) in work.iter_mut() {
            let (write, access) = lease.include(Tokens::new(tokens.len() as u32), &step).unwrap();
            pending.push(write);
            accesses.push(access);
        }
        let chunks: Vec<Chunk<'_>> = work
            .iter()
            .zip(&accesses)
            .map(|((_, tokens), access)| Chunk { tokens, access, want: Want::LastLogits })
            .collect();
        let mut logits = vec![];
        let (receipt, result) = self.device.run(step, &chunks, &mut logits);
        result.unwrap();
        for ((lease, _), write) in work.iter_mut().zip(pending) {
            lease.commit(write, &receipt).unwrap();
        }
        self.pages.settle(&receipt).unwrap();
        logits.chunks(VOCAB).map(|row| row.iter().map(|x| x.to_bits()).collect()).collect()
    }
}

fn tokens(len: usize, seed: u32) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 31 + seed * 17 + i * i % 7) % VOCAB as u32).collect()
}

/// The whole prompt in one chunk, on one thread, alone, by the portable path: what all others must equal.
fn alone(weights: &Arc<Weights>, prompt: &[u32]) -> Vec<u32> {
    let mut rig = Rig::new(weights, 1, Isa::Portable);
    let scope = rig.scope(1);
    let mut lease = rig.lease(&scope, prompt.len());
    rig.step(&mut [(&mut lease, prompt)]).remove(0)
}

#[test]
fn chunks_threads_and_instruction_sets_leave_the_bits_alone() {
    let weights = tiny();
    let prompt = tokens(53, 1);
    let truth = alone(&weights, &prompt);
    for cpu in Cpu::all() {
        for threads in [1, 2, 4] {
            for chunk in [1, 5, 16, 17, 53] {
                let mut rig = Rig::new(&weights, threads, cpu.isa());
                let scope = rig.scope(1);
                let mut lease = rig.lease(&scope, 64);
                let mut last = vec![];
                for part in prompt.chunks(chunk) {
                    last = rig.step(&mut [(&mut lease, part)]).remove(0);
                }
                assert!(last == truth, "{cpu:?}, {threads} threads, chunks of {chunk}");
            }
        }
    }
}

#[test]
fn neighbours_and_page_places_leave_the_bits_alone() {
    let weights = tiny();
    let (a, b, c) = (tokens(40, 1), tokens(33, 2), tokens(1, 3));
    let mut rig = Rig::new(&weights, 2, Cpu::best().isa());
    let (mine, other) = (rig.scope(1), rig.scope(2));
    let _elsewhere = rig.lease(&other, 100);
    let (mut la, mut lb, mut lc) = (rig.lease(&mine, 48), rig.lease(&other, 48), rig.lease(&mine, 16));
    let mut got = vec![];
    for part in 0..4 {
        let mut work: Vec<(&mut Lease, &[u32])> = vec![(&mut la, &a[part * 10..part * 10 + 10])];
        if part == 1 {
            work.insert(0, (&mut lb, &b));
        }
        if part == 3 {
            work.push((&mut lc, &c));
        }
        got.push(rig.step(&mut work));
    }
    assert!(got[3][0] == alone(&weights, &a));
    assert!(got[1][0] == alone(&weights, &b));
    assert!(got[3][1] == alone(&weights, &c));
}

/// The positive control: another token anywhere in the prompt shows.
#[test]
fn another_token_shows_in_the_logits() {
    let weights = tiny();
    let prompt = tokens(40, 1);
    let truth = alone(&weights, &prompt);
    for at in [0, 17, 39] {
        let mut other = prompt.clone();
        other[at] = (other[at] + 1) % VOCAB as u32;
        assert!(alone(&weights, &other) != truth, "token {at} was not read");
    }
}

/// A tenant's pages after another's, unscrubbed but for the pool's own wipe: no past shows.
#[test]
fn a_page_that_was_another_tenants_changes_nothing() {
    let weights = tiny();
    let prompt = tokens(40, 1);
    let mut rig = Rig::new(&weights, 1, Cpu::best().isa());
    let (mine, other) = (rig.scope(1), rig.scope(2));
    let total = rig.device.facts().pages;
    let mut theirs = rig.pages.lease(&other, total).unwrap();
    let noise = tokens(250, 9);
    rig.step(&mut [(&mut theirs, &noise)]);
    drop(theirs);
    rig.pages.scrub(total, Verify::ReadBack, &mut rig.device).unwrap();
    let mut lease = rig.lease(&mine, 40);
    assert!(rig.step(&mut [(&mut lease, &prompt)]).remove(0) == alone(&weights, &prompt));
}

#[test]
fn what_the_kernels_cannot_run_is_refused_before_they_run() {
    let weights = tiny();
    let mut rig = Rig::new(&weights, 1, Isa::Portable);
    let scope = rig.scope(1);
    let mut lease = rig.lease(&scope, 32);
    let step = rig.pages.open_step().unwrap();
    let (_write, access) = lease.include(Tokens::new(2), &step).unwrap();
    let mut logits = vec![1.0];
    let chunk = |tokens| [Chunk { tokens, access: &access, want: Want::LastLogits }];
    let (receipt, result) = rig.device.run(step, &chunk(&[1]), &mut logits);
    assert_eq!(result, Err(DeviceFault::Length { tokens: 1, access: Tokens::new(2) }));
    assert!(logits.is_empty());
    rig.pages.settle(&receipt).unwrap();
    let step = rig.pages.open_step().unwrap();
    let (_, result) = rig.device.run(step, &chunk(&[1, 2]), &mut logits);
    assert!(matches!(result, Err(DeviceFault::OtherStep { .. })));
    let mut lease = rig.lease(&scope, 32);
    let step = rig.pages.open_step().unwrap();
    let (_write, access) = lease.include(Tokens::new(1), &step).unwrap();
    let chunks = [Chunk { tokens: &[VOCAB as u32], access: &access, want: Want::Nothing }];
    let (_, result) = rig.device.run(step, &chunks, &mut logits);
    assert_eq!(result, Err(DeviceFault::Token { id: VOCAB as u32, vocab: VOCAB }));
}

#[test]
fn a_pool_that_no_memory_holds_is_an_error_with_its_numbers() {
    let options = CpuOptions { pool_tokens: Tokens::new(u32::MAX), threads: 1, isa: None };
    let huge = LlamaShape { layers: 1, kv_heads: 4, heads: 4, ..tiny().shape().clone() };
    let weights = Arc::new(Weights::random(huge, 1));
    // 2^32 tokens of 128 elements in 2 bytes: a TiB.
    let refused = CpuDevice::with_weights(weights, options);
    assert!(matches!(refused, Err(LoadError::NoMemoryForPool { page_bytes: 4096, .. })));
}
