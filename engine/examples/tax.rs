//! Tokens a second of the whole engine, step loop and all, at 1 and at 16 streams: what `integration/benches/tax.sh` compares
//! between a build with all guards and one without.
//!
//! ```text
//! tax MODEL.gguf
//! ```
#![allow(clippy::print_stdout, reason = "a program that prints figures")]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a bench: it stops at the first surprise"
)]

use engine::{
    core::{Engine, EngineConfig, Reader, settle},
    device::cpu::{CpuDevice, CpuOptions},
};
use isolation::{
    keyed::Secrets,
    units::{Epoch, Tokens},
};
use std::{path::Path, time::Instant};
use wire::{Logprobs, Sampling, Submit};

const PROMPT: u32 = 48;
const OUTPUT: u32 = 256;
/// Distinct prompts, so that nothing comes from a cache; several tenants, so that pages change hands.
const TENANTS: u64 = 4;

fn main() {
    let path = std::env::args().nth(1).expect("usage: tax MODEL.gguf");
    let options = CpuOptions { pool_tokens: Tokens::new(6144), threads: 2, isa: None };
    let device = CpuDevice::load(Path::new(&path), options, &mut |_| ()).expect("the model loads");
    let mut engine = Engine::new(device, EngineConfig::default(), Epoch::new(1), Secrets::new([1; 16]))
        .expect("it starts");
    let mut serial = 0;
    for streams in [1, 16] {
        let start = Instant::now();
        let mut reader = Reader::new();
        for _ in 0..streams {
            serial += 1;
            let submit = request(serial);
            reader.expect(&submit);
            engine.submit(submit).expect("it fits");
        }
        settle(&mut engine, &mut reader).expect("the engine is sound");
        let tokens = (streams * (PROMPT + OUTPUT)) as f64;
        print!("streams{streams} {:.2} ", tokens / start.elapsed().as_secs_f64());
    }
    println!();
}

fn request(serial: u32) -> Submit {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&serial.to_le_bytes());
    let sampling = Sampling {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        seed: 0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: vec![],
        logprobs: Logprobs::Omit,
    };
    Submit {
        request: name,
        tag: 1 + u64::from(serial) % TENANTS,
        epoch: 1,
        serial: 0,
        prompt: (0..PROMPT).map(|i| 504 + (serial * 131 + i * 7) % 4000).collect(),
        max_tokens: OUTPUT,
        stop_tokens: vec![],
        sampling,
        ticket: [0; 32],
    }
}
