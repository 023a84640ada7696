//! What a limiter costs a request: admit, settle and end by six rules, all rates and places limited.
//!
//! Run it with `cargo bench -p tenant --bench rate`. It prints the time per request of one thread alone, of eight on
//! tenants of their own, and of eight on one tenant.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench: to fail is its right"
)]

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use tenant::{
    Ask, Bounds, Chain, KeyId, Level, Limit, Limiter, Limits, ModelName, Models, MonoNanos, ProjectId, Rule,
    Scope, TenantId,
};

/// Requests of each thread, after a tenth as many to warm up.
const REQUESTS: u32 = 200_000;

fn chain(number: u32) -> Chain {
    let most = Limit::AtMost(NonZeroU32::MAX);
    let limits = Limits {
        requests_per_minute: most,
        tokens_per_minute: most,
        at_once: most,
        prompt_tokens: most,
        output_tokens: most,
    };
    let tenant = TenantId::parse(&format!("00000000-0000-0000-0000-{number:012}")).unwrap();
    let levels = [
        Level::Key(KeyId::parse(&format!("{number:012}")).unwrap()),
        Level::Project(ProjectId::parse(&format!("00000000-0000-0000-0001-{number:012}")).unwrap()),
        Level::Tenant(tenant),
    ];
    let models = [Models::All, Models::One(ModelName::new("smollm2-135m-instruct").unwrap())];
    let scopes = levels.iter().flat_map(|level| models.iter().map(|models| (*level, models.clone())));
    let rules = scopes.map(|(level, models)| Rule { scope: Scope { level, models }, limits });
    Chain::new(tenant, rules.collect()).unwrap()
}

fn requests(limiter: &Limiter, chain: &Chain, count: u32) {
    let start = Instant::now();
    for _ in 0..count {
        let ask = Ask { prompt_tokens: 100, output_tokens_max: 400 };
        let grant = limiter.admit(chain, ask, MonoNanos::between(start, Instant::now())).unwrap();
        grant.settle(300, MonoNanos::between(start, Instant::now()));
    }
}

/// Nanoseconds of one request, as its thread sees it.
fn run(limiter: &Limiter, threads: u32, tenant_of: fn(u32) -> u32) -> f64 {
    let elapsed: Duration = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let chain = chain(tenant_of(thread));
                    requests(limiter, &chain, REQUESTS / 10);
                    let start = Instant::now();
                    requests(limiter, &chain, REQUESTS);
                    start.elapsed()
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    elapsed.as_nanos() as f64 / f64::from(threads) / f64::from(REQUESTS)
}

fn main() {
    let cores = std::thread::available_parallelism().unwrap();
    println!("cores\t{cores}");
    println!("threads\ttenants\tns per request");
    println!("1\t1\t{:.0}", run(&Limiter::default(), 1, |_| 0));
    println!("8\t8\t{:.0}", run(&Limiter::default(), 8, |thread| thread));
    println!("8\t1\t{:.0}", run(&Limiter::default(), 8, |_| 0));
    // Within one slice of what may be ahead: what it costs to note what is to be told.
    println!("1\t1\t{:.0}\tcounted together", run(&Limiter::together(Bounds::default(), true), 1, |_| 0));
}
