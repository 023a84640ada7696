//! An idle engine costs nothing, and wakes at once.

use crate::gateway::{Gateway, Server};
use std::time::{Duration, Instant};

/// User and system time of this process so far, in clock ticks (10 ms each); see proc(5), fields 14 and 15.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn an_idle_engine_uses_no_processor() {
    let server = Server::start();
    let mut gateway = Gateway::open(&server);
    let steps = gateway.status().steps;
    let before = ticks();
    #[expect(clippy::disallowed_methods, reason = "idleness is what is measured")]
    std::thread::sleep(Duration::from_millis(500));
    let used = ticks() - before;
    assert!(used <= 1, "{used} ticks in half a second of idleness");
    assert_eq!(gateway.status().steps, steps);
}

#[test]
fn an_idle_engine_wakes_within_a_millisecond() {
    let server = Server::start();
    let mut gateway = Gateway::open(&server);
    let mut answers: Vec<Duration> = (0..200)
        .map(|_| {
            let asked = Instant::now();
            gateway.status();
            asked.elapsed()
        })
        .collect();
    answers.sort();
    // The best quarter: the machine may be busy with other things.
    assert!(answers[50] < Duration::from_millis(1), "{:?}", answers[50]);
}
