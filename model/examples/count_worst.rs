//! Measures how long the largest admissible body takes to count, whatever it holds: `count_worst MODEL.gguf`.
//!
//! Prints milliseconds of CPU time, the least and the most of several runs, and fails above the bound.

#![allow(clippy::print_stdout, reason = "an example that prints what it measured")]

use std::error::Error;
use std::path::Path;

use model::{ModelFile, Tokenizer};

/// Most milliseconds of CPU time for one body.
const BOUND_MS: f64 = 60.0;
const RUNS: usize = 5;
const WINDOW: usize = 8_192;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: count_worst MODEL.gguf")?;
    let file = ModelFile::open(Path::new(&path))?;
    let start = cpu_ms()?;
    let tokenizer = Tokenizer::from_gguf(file.header())?;
    println!("built in {:.1} ms", cpu_ms()? - start);
    let bytes = tokenizer.longest_token_bytes().saturating_mul(WINDOW);
    let mut slowest: f64 = 0.0;
    for (name, text) in bodies(bytes) {
        for (limit_name, limit) in [("window", WINDOW), ("no limit", bytes)] {
            let mut times = Vec::new();
            let mut tokens = 0;
            for _ in 0..RUNS {
                let start = cpu_ms()?;
                tokens = match tokenizer.encode_plain(&text, limit) {
                    Ok(ids) => ids.len(),
                    Err(over) => over.at_least,
                };
                times.push(cpu_ms()? - start);
            }
            let (least, most) = times
                .iter()
                .fold((f64::MAX, 0.0_f64), |(least, most), time| (least.min(*time), most.max(*time)));
            println!(
                "{name:24} {:7} bytes, {limit_name:8}: {tokens:7} tokens, {least:7.2} to {most:7.2} ms",
                text.len()
            );
            if limit == WINDOW {
                slowest = slowest.max(least);
            }
        }
    }
    println!("slowest within the window: {slowest:.2} ms, bound {BOUND_MS} ms");
    if slowest > BOUND_MS { Err("above the bound".into()) } else { Ok(()) }
}

/// Milliseconds this process has been on a CPU: on a busy machine, the time that counts.
fn cpu_ms() -> Result<f64, Box<dyn Error>> {
    let schedstat = std::fs::read_to_string("/proc/self/schedstat")?;
    let nanoseconds: f64 = schedstat.split_whitespace().next().ok_or("no schedstat")?.parse()?;
    Ok(nanoseconds / 1e6)
}

/// Bodies of just under `bytes` bytes.
fn bodies(bytes: usize) -> Vec<(&'static str, String)> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        u32::try_from(state >> 33).unwrap_or(0).checked_rem(below).unwrap_or(0)
    };
    let mut of = |below: u32, first: u32| -> String {
        let mut text = String::new();
        while text.len().saturating_add(4) <= bytes {
            text.push(char::from_u32(first.saturating_add(random(below))).unwrap_or('x'));
        }
        text
    };
    let (letters, cjk, emoji, lower8) = (of(26, 0x61), of(20_000, 0x4e00), of(0x300, 0x1f300), of(8, 0x61));
    let runs = of(0xfff, 0x10000); // lengths for the runs below
    let run_of = |marks: &[&str], least: usize, spread: usize| -> String {
        let mut text = String::new();
        for (place, number) in runs.chars().enumerate() {
            let mark =
                place.checked_rem(marks.len()).and_then(|place| marks.get(place)).copied().unwrap_or("#");
            let length = usize::try_from(u32::from(number)).unwrap_or(0).checked_rem(spread).unwrap_or(0);
            if text.len().saturating_add(length).saturating_add(least) > bytes {
                break;
            }
            text.push_str(&mark.repeat(least.saturating_add(length)));
        }
        text
    };
    let (hash_runs, dash_runs) = (run_of(&["#", "-"], 81, 300), run_of(&["-", "=", "*"], 40, 300));
    let (space_runs, short_runs) = (run_of(&[" ", "\n"], 60, 200), run_of(&["#", "-", "=", "/"], 1, 90));
    let (mixed, any) = (of(0x5f, 0x20), of(0xd000, 0x20));
    let repeat = |unit: &str| unit.repeat(bytes.checked_div(unit.len()).unwrap_or(0));
    let longest = format!("\n{}", " ".repeat(80));
    vec![
        ("English", repeat("The quick brown fox jumps over the lazy dog, and nobody minded at all. ")),
        ("code", repeat("fn main() {\n    let mut total = 0;\n    for i in 0..10 { total += i; }\n}\n")),
        ("one word of a", repeat("a")),
        ("random letters", letters),
        ("random of 8 letters", lower8),
        ("random printable", mixed),
        ("any character", any),
        ("CJK", cjk),
        ("emoji", emoji),
        ("spaces", repeat(" ")),
        ("spaces, then a letter", format!("{}a", " ".repeat(bytes.saturating_sub(1)))),
        ("hashes", repeat("#")),
        ("dashes", repeat("-")),
        ("equals", repeat("=")),
        ("newlines", repeat("\n")),
        ("tabs and newlines", repeat("\t\n")),
        ("runs of # and -", hash_runs),
        ("runs of - = *", dash_runs),
        ("runs of spaces", space_runs),
        ("short runs", short_runs),
        ("longest token", repeat(&longest)),
        ("79 hashes, then !", repeat(&format!("{}!", "#".repeat(79)))),
        ("bytes without token", repeat("\u{4}")),
        ("digits", repeat("0")),
        ("apostrophes", repeat("'")),
        ("aab", repeat("aab")),
    ]
}
