//! `bulkhead bench`: what a deployment can measure of itself.
//!
//! ```text
//! prompts ─► procedure ─(client)─► a server, ours for the while or one that runs ─► statistics ─► verdict ─► report
//! ```

mod client;
mod procedure;
mod prompts;
mod report;
mod statistics;
mod throwaway;
mod verdict;

use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::cli::{BenchCommand, Common, PrefixAuditArgs};
use crate::data::read_private;
use crate::exit::{Exit, Failure};
use crate::present::Form;
use client::{Client, Keys};
use procedure::{BeforeMiss, Procedure};
use prompts::Draws;
use report::{Progress, Setting};
use statistics::Comparison;
use verdict::{Verdict, judge};

/// Bytes of a file that holds a key.
const KEY_FILE_BYTES_MAX: u64 = 1024;
/// Samples that an advice goes up to; 531 have a p of 1e-318, about as small as a number can be.
const SAMPLES_MAX: u32 = 600;

/// Runs one bench.
pub(crate) fn run(common: &Common, command: BenchCommand) -> Result<(), Failure> {
    let BenchCommand::PrefixAudit(args) = command;
    must_be_able_to_reject(args.samples, args.alpha)?;
    match keys_of_running(&args)? {
        Some((url, keys)) => audit(&args, &url, keys),
        None => crate::on_runtime(async {
            let asked = args.clone();
            throwaway::with_server(common, &args, move |base, keys| audit(&asked, &base, keys)).await
        }),
    }
}

/// Refuses so few samples that no outcome could reject: the audit would be void, whatever it saw.
fn must_be_able_to_reject(samples: u32, alpha: f64) -> Result<(), Failure> {
    if Comparison::p_min(samples) < alpha {
        return Ok(());
    }
    let advice = Comparison::samples_for(alpha, SAMPLES_MAX).map_or_else(
        || "a larger --alpha".to_owned(),
        |least| format!("--samples {least} or more, or a larger --alpha"),
    );
    Err(Failure::new(
        Exit::Usage,
        format_args!(
            "{samples} samples cannot have a p below {:.1e}, and --alpha is {alpha:e}: ask for {advice}",
            Comparison::p_min(samples)
        ),
    ))
}

/// The running server that was named, and its keys.
fn keys_of_running(args: &PrefixAuditArgs) -> Result<Option<(String, Keys)>, Failure> {
    let files = (&args.victim_key_file, &args.same_tenant_key_file, &args.cross_tenant_key_file);
    let (Some(url), (Some(victim), Some(same_tenant), Some(cross_tenant))) = (&args.url, files) else {
        // The command line is refused where only some are named.
        return Ok(None);
    };
    let keys =
        Keys { victim: key(victim)?, same_tenant: key(same_tenant)?, cross_tenant: key(cross_tenant)? };
    Ok(Some((url.clone(), keys)))
}

/// A key from a file that only its user reads.
fn key(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let refused = |why: &str| {
        Failure::new(Exit::Usage, format_args!("the key file {} cannot be used: {why}", path.display()))
    };
    let bytes = read_private(path, KEY_FILE_BYTES_MAX).map_err(|error| refused(&error.to_string()))?;
    let text = std::str::from_utf8(&bytes).map_err(|_| refused("it is not text"))?;
    let key = text.trim();
    // What is no key could split a header; the server tells the rest.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refused("it must hold one key and nothing else"));
    }
    Ok(Zeroizing::new(key.to_owned()))
}

/// Audits the server behind `base`.
fn audit(args: &PrefixAuditArgs, base: &str, keys: Keys) -> Result<(), Failure> {
    let mut client = Client::connect(base, keys)?;
    client.must_hold(args.letters)?;
    let procedure = Procedure {
        letters: args.letters,
        samples: args.samples,
        warm_ups: args.warm_ups.clone(),
        prefix_percent: args.prefix_percent,
        before_miss: if args.decoys { BeforeMiss::Decoy } else { BeforeMiss::Nothing },
    };
    let seed = match args.seed {
        Some(seed) => seed,
        None => fresh_seed()?,
    };
    let mut draws = Draws::new(seed);
    let pace = procedure.pace(&mut client, &mut draws)?;
    let model = client.model().to_owned();
    let setting = Setting { procedure: &procedure, model: &model, seed, alpha: args.alpha, pace };
    report::announce(&setting);
    let mut progress = Progress::start();
    let audits = procedure.run(&mut client, &mut draws, &mut |event| progress.show(event));
    progress.end();
    let audits = audits?;
    let verdict = judge(&audits, args.alpha);
    report::print(&setting, &audits, verdict, Form::of(args.json))?;
    match verdict {
        Verdict::Pass => Ok(()),
        Verdict::Leak { .. } => Err(Failure::new(Exit::Leak, verdict)),
        Verdict::Void { .. } => Err(Failure::new(Exit::Void, verdict)),
    }
}

/// A seed that no audit had before, so that no prompt of it is in a cache.
fn fresh_seed() -> Result<u64, Failure> {
    let mut seed = [0; 8];
    let drawn = SystemRandom::new().fill(&mut seed);
    drawn.map_err(|_| Failure::new(Exit::Other, "the system gives no randomness for the seed"))?;
    Ok(u64::from_le_bytes(seed))
}
