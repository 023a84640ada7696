//! What the gateway adds: the same prompt through HTTP and straight to the engine, in turns, and the difference of the medians.
//!
//! Run it with `BULKHEAD_TEST_MODEL=… cargo bench --bench overhead`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench: to fail is its right"
)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use integration::http::Connection;
use integration::server::{Home, Services};
use serde_json::json;
use wire::{
    Decoder, Ending, GatewayHello, Hello, Logprobs, PROTOCOL, Sampling, Submit, ToEngine, ToGateway, WireKey,
    encode,
};

/// Pairs that are measured, after as many again to warm up divided by ten.
const PAIRS: usize = 300;
/// Tokens of the prompt.
const PROMPT: usize = 32;
/// Tokens of the answer.
const OUTPUT: u32 = 4;

/// A gateway as the engine sees one, and nothing more.
struct Direct {
    stream: UnixStream,
    decoder: Decoder,
    hello: Hello,
    key: WireKey,
    serial: u64,
}

impl Direct {
    fn connect(socket: &Path, key: [u8; 32]) -> Self {
        let mut stream = UnixStream::connect(socket).expect("the engine listens");
        let hello = encode(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL })).expect("a frame");
        stream.write_all(&hello).expect("the engine takes a hello");
        let mut decoder = Decoder::new();
        let ToGateway::Hello(hello) = next(&mut stream, &mut decoder) else { panic!("no hello") };
        Self { stream, decoder, hello: *hello, key: WireKey::new(key), serial: 0 }
    }

    /// One sequence; the time from the first byte sent to the last frame.
    fn ask(&mut self, prompt: &[u32]) -> Duration {
        self.serial += 1;
        let mut request = [0; 16];
        request[..8].copy_from_slice(&self.serial.to_le_bytes());
        let submit = Submit {
            request,
            tag: 1,
            epoch: self.hello.epoch,
            serial: self.serial,
            prompt: prompt.to_vec(),
            max_tokens: OUTPUT,
            stop_tokens: vec![],
            sampling: Sampling {
                temperature: 0.0,
                top_p: 1.0,
                top_k: 0,
                min_p: 0.0,
                seed: 1,
                frequency_penalty: 0.0,
                presence_penalty: 0.0,
                logit_bias: vec![],
                logprobs: Logprobs::Omit,
            },
            ticket: [0; 32],
        };
        let start = Instant::now();
        let sealed = submit.seal(&self.key, &self.hello.session);
        let frame = encode(&ToEngine::Submit(Box::new(sealed))).expect("a frame");
        self.stream.write_all(&frame).expect("the engine takes a submission");
        loop {
            match next(&mut self.stream, &mut self.decoder) {
                ToGateway::End(end) => {
                    let took = start.elapsed();
                    assert!(matches!(end.ending, Ending::Completed(_)), "{:?}", end.ending);
                    assert_eq!(end.completion, OUTPUT);
                    return took;
                }
                ToGateway::Refused { refusal, .. } => panic!("{refusal:?}"),
                ToGateway::Hello(_)
                | ToGateway::Evidence { .. }
                | ToGateway::Delta(_)
                | ToGateway::Status(_)
                | ToGateway::Alarm(_) => {}
            }
        }
    }
}

fn next(stream: &mut UnixStream, decoder: &mut Decoder) -> ToGateway {
    let mut bytes = [0; 64 * 1024];
    loop {
        if let Some(message) = decoder.take().expect("frames of our protocol") {
            return message;
        }
        let read = stream.read(&mut bytes).expect("the engine answers");
        assert!(read > 0, "the engine hung up");
        decoder.push(&bytes[..read]);
    }
}

/// Token ids that differ from one pair to the next, so that no prefix is found.
fn prompt(pair: usize) -> Vec<u32> {
    (0..PROMPT).map(|place| 1000 + ((pair * 7919 + place * 104_729) % 40_000) as u32).collect()
}

fn main() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let key = home.key("bench");
    let services = Services::gateway(&home);
    let engine = services.engine(&["--pool-tokens", "2048"]);
    services.knows(&key);
    let mut direct = Direct::connect(&home.path().join("run/engine.sock"), integration::server::WIRE_KEY);
    let mut client = Connection::open(services.address());
    let (mut through, mut straight) = (vec![], vec![]);
    for pair in 0..PAIRS + PAIRS / 10 {
        let ids = prompt(pair);
        let body = json!({
            "model": "smollm2-135m-instruct", "prompt": ids, "max_tokens": OUTPUT, "temperature": 0,
            "logit_bias": {}
        })
        .to_string();
        let engine_alone = direct.ask(&prompt(pair + 100_000));
        let start = Instant::now();
        client.post("/v1/completions", &key, body.as_bytes());
        let answer = client.answer();
        let whole = start.elapsed();
        assert_eq!(answer.status(), 200, "{}", answer.json());
        if pair >= PAIRS / 10 && answer.json()["usage"]["completion_tokens"] == OUTPUT {
            through.push(whole);
            straight.push(engine_alone);
        }
    }
    engine.stop();
    let (through, straight) = (Quantiles::of(through), Quantiles::of(straight));
    println!("{} pairs, prompt {PROMPT}, output {OUTPUT}", through.count);
    println!("through the gateway: {through}");
    println!("straight to the engine: {straight}");
    let added = through.median.as_secs_f64() - straight.median.as_secs_f64();
    println!("the gateway adds {:.3} ms at the median", added * 1e3);
}

struct Quantiles {
    count: usize,
    median: Duration,
    p99: Duration,
}

impl Quantiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        let count = times.len();
        assert!(count > PAIRS / 2, "too few whole answers: {count}");
        Self { count, median: times[count / 2], p99: times[count * 99 / 100] }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "median {:.3} ms, p99 {:.3} ms", ms(self.median), ms(self.p99))
    }
}
