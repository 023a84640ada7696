//! The arguments of `bulkhead bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Audit whether the prompt cache tells one tenant what another has asked
    ///
    /// The published procedure (Gu et al., "Auditing Prompt Caching in Language Model APIs", 2025). A victim sends random prompts; an
    /// attacker sends them too (hits) or sends new ones (misses), in a shuffled order, and takes the time to the first byte of each
    /// answer. A one-sided two-sample Kolmogorov-Smirnov test then asks whether hits came sooner: with another key of the victim's
    /// tenant (the positive control), with the victim's own key, and with a key of another tenant.
    ///
    /// It prints D (the largest lead of the hits' distribution over the misses'), p, and what the best threshold on one answer's
    /// time is worth to an attacker at most, with 99 % confidence: true positive rate less false positive rate.
    ///
    /// Pass (0): the control was seen, and the other tenant's test did not reject. Void (11): the control was not seen, so a leak
    /// would not have been seen either. Leak (12): the other tenant's test rejected, or the server reported cached tokens to it.
    ///
    /// It starts a server of its own on a folder that vanishes with it, unless --url names one that runs. Let nothing else run on
    /// the machine meanwhile: noise hides what is to be seen. How long it takes is printed after the first two requests; the
    /// published size takes days on a CPU, a smaller one says less (the advantage is then bounded less tightly).
    #[command(
        after_help = "Examples:\n  bulkhead bench prefix-audit --letters 600 --samples 50 --warm-ups 1 --alpha 1e-6\n  bulkhead bench prefix-audit --url http://127.0.0.1:8080/v1 --victim-key-file one.key \\\n      --same-tenant-key-file two.key --cross-tenant-key-file other.key --json"
    )]
    PrefixAudit(Box<PrefixAuditArgs>),
}

/// `bulkhead bench prefix-audit`.
#[derive(Clone, Debug, Args)]
pub(crate) struct PrefixAuditArgs {
    /// Random letters of a prompt, with a space between two: about one token each
    #[arg(long, value_name = "N", default_value = "5000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) letters: u32,
    /// Hits of each test, and as many misses
    #[arg(long, value_name = "N", default_value = "250", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) samples: u32,
    /// How often the victim sends its prompt before a hit; each level is tested with each of these
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,5,25",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) warm_ups: Vec<u32>,
    /// How much of the victim's prompt the attacker sends, in percent (the paper also has 95); the rest of its letters are new
    #[arg(long, value_name = "PERCENT", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) prefix_percent: u32,
    /// A test rejects when its p is below this; with few samples, no p can be as small as the default
    #[arg(long, value_name = "P", default_value = "1e-8", value_parser = alpha)]
    pub(crate) alpha: f64,
    /// Draws the same prompts and order again; a running server may still have the prompts of the first time, which spoils misses
    /// [default: a new one, printed]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Let the victim send another prompt before each miss, as often as before a hit, so that hit and miss differ in nothing but
    /// whose prompt is asked (the paper has none)
    #[arg(long)]
    pub(crate) decoys: bool,
    /// A running server to audit, plain HTTP, up to `/v1`
    #[arg(long, value_name = "URL", requires_all = ["victim_key_file", "same_tenant_key_file", "cross_tenant_key_file"],
        conflicts_with_all = ["model", "pool_tokens", "threads"])]
    pub(crate) url: Option<String>,
    /// With --url: a file that holds the victim's key, closed to others (mode 0600)
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) victim_key_file: Option<PathBuf>,
    /// With --url: a file that holds another key of the victim's tenant
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) same_tenant_key_file: Option<PathBuf>,
    /// With --url: a file that holds a key of another tenant
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) cross_tenant_key_file: Option<PathBuf>,
    /// Without --url: the model to serve, a name of the catalog (fetched if absent) or a GGUF file
    #[arg(long, value_name = "MODEL", default_value = "smollm2-135m-instruct")]
    pub(crate) model: String,
    /// Without --url: tokens that the server's pool holds [default: four prompts, at least 2048]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pool_tokens: Option<u32>,
    /// Without --url: threads that compute [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn alpha(text: &str) -> Result<f64, String> {
    let alpha = text.parse().ok().filter(|alpha: &f64| *alpha > 0.0 && *alpha < 1.0);
    alpha.ok_or_else(|| "a number above 0 and below 1 is needed".to_owned())
}
