//! Tokens a second of the CPU device: a 512-token prefill, one stream's decode, and decode of several streams together.
//!
//! ```text
//! cargo run --release -p engine --example speed -- MODEL.gguf [--threads N] [--isa portable|avx2|avx512|avx512vnni]
//! ```
//! `integration/benches/peer.sh` runs it in turn with llama.cpp on the same file.
#![allow(clippy::print_stdout, reason = "a program that prints figures")]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a bench: it stops at the first surprise"
)]

use engine::device::{
    Chunk, Device, Want,
    cpu::{CpuDevice, CpuOptions},
};
use isolation::{
    lease::Lease,
    page::Verify,
    pool::Pool,
    tag::{Registry, TenantTag},
    units::{Epoch, Tokens},
};
use kernels::Isa;
use std::{path::Path, time::Instant};

const PREFILL: usize = 512;
const CONTEXT: usize = 16;
const DECODE: usize = 64;
const STREAMS: [usize; 4] = [1, 4, 8, 16];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: speed MODEL.gguf [--threads N] [--isa NAME]");
    let (mut threads, mut isa) = (2, None);
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        match (name.as_str(), value.as_str()) {
            ("--threads", count) => threads = count.parse().expect("--threads takes a number"),
            ("--isa", "portable") => isa = Some(Isa::Portable),
            ("--isa", "avx2") => isa = Some(Isa::Avx2),
            ("--isa", "avx512") => isa = Some(Isa::Avx512),
            ("--isa", "avx512vnni") => isa = Some(Isa::Avx512Vnni),
            (name, value) => panic!("unknown argument {name} {value}"),
        }
    }
    let options = CpuOptions { pool_tokens: Tokens::new(4096), threads, isa };
    let start = Instant::now();
    let mut device = CpuDevice::load(Path::new(&path), options, &mut |_| ()).expect("the model loads");
    let loaded = start.elapsed().as_secs_f64();
    let facts = device.facts();
    let mut pool = Pool::new(facts.pages, facts.page_size, Epoch::new(1));
    pool.scrub(facts.pages, Verify::TrustWipe, &mut device).expect("pages are wiped");
    let scope = Registry::new().open(TenantTag::new(1));
    let tokens: Vec<u32> = (0..PREFILL as u32).map(|i| 504 + (i * 7) % 4000).collect();

    let mut lease = pool.lease(&scope, facts.page_size.pages_for(Tokens::new(PREFILL as u32))).unwrap();
    let start = Instant::now();
    step(&mut device, &mut pool, &mut [(&mut lease, &tokens)]);
    let prefill = PREFILL as f64 / start.elapsed().as_secs_f64();
    drop(lease);
    print!("bulkhead prefill {prefill:.1}");

    for streams in STREAMS {
        pool.scrub(facts.pages, Verify::TrustWipe, &mut device).expect("pages are wiped");
        let need = facts.page_size.pages_for(Tokens::new((CONTEXT + DECODE) as u32));
        let mut leases: Vec<Lease> = (0..streams).map(|_| pool.lease(&scope, need).unwrap()).collect();
        for lease in &mut leases {
            step(&mut device, &mut pool, &mut [(lease, &tokens[..CONTEXT])]);
        }
        let start = Instant::now();
        for i in CONTEXT..CONTEXT + DECODE {
            let mut work: Vec<(&mut Lease, &[u32])> =
                leases.iter_mut().map(|lease| (lease, &tokens[i..=i])).collect();
            step(&mut device, &mut pool, &mut work);
        }
        let decode = (streams * DECODE) as f64 / start.elapsed().as_secs_f64();
        print!(" decode{} {decode:.1}", if streams == 1 { String::new() } else { format!("x{streams}") });
    }
    println!(" load {loaded:.2} s");
}

fn step(device: &mut CpuDevice, pool: &mut Pool, work: &mut [(&mut Lease, &[u32])]) {
    let step = pool.open_step().unwrap();
    let mut writes = vec![];
    let mut accesses = vec![];
    for (lease, tokens) in work.iter_mut() {
        let (write, access) = lease.include(Tokens::new(tokens.len() as u32), &step).unwrap();
        writes.push(write);
        accesses.push(access);
    }
    let chunks: Vec<Chunk<'_>> = work
        .iter()
        .zip(&accesses)
        .map(|((_, tokens), access)| Chunk { tokens, access, want: Want::LastLogits })
        .collect();
    let mut logits = vec![];
    let (receipt, result) = device.run(step, &chunks, &mut logits);
    result.expect("a step runs");
    for ((lease, _), write) in work.iter_mut().zip(writes) {
        lease.commit(write, &receipt).unwrap();
    }
    pool.settle(&receipt).unwrap();
}
