//! The arguments of `bulkhead limit`.

use std::num::NonZeroU32;

use clap::{Args, Subcommand};
use tenant::{Limit, ModelName};

use super::store::model_name;

#[derive(Debug, Subcommand)]
pub(crate) enum LimitCommand {
    /// Set limits of a tenant, of one of its projects, or of one of its keys; a running server obeys within a second
    ///
    /// All limits that a request meets bind: those of its key, of its project and of its tenant, each for all models and for the
    /// one that it names. What is not named stays as it is; `open` lifts a limit.
    #[command(
        after_help = "Examples:\n  bulkhead limit set --tenant acme --requests-per-minute 600 --tokens-per-minute 200000\n  bulkhead limit set --tenant acme --project search --at-once 8\n  bulkhead limit set --tenant acme --key 3kTMd0ZyQ9aB --model smollm2-135m-instruct --tokens-per-minute open"
    )]
    Set {
        #[command(flatten)]
        scope: LimitScope,
        #[command(flatten)]
        limits: LimitArgs,
        /// Print one JSON array with the limits of this scope
        #[arg(long)]
        json: bool,
    },
    /// The limits of a tenant, its projects and its keys
    List {
        /// The tenant
        #[arg(long, value_name = "NAME")]
        tenant: String,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// Whom limits bind, and for which requests.
#[derive(Debug, Args)]
pub(crate) struct LimitScope {
    /// The tenant: all its projects and keys together, unless one is named
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: String,
    /// One of its projects: all keys of it together
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    pub(crate) project: Option<String>,
    /// One of its keys, by its id
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Requests for this model alone [default: all models together]
    #[arg(long, value_name = "MODEL", value_parser = model_name)]
    pub(crate) model: Option<ModelName>,
}

/// The limits.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct LimitArgs {
    /// Requests per minute: as many at once, and then evenly; `open` for no limit
    #[arg(long, value_name = "N|open", value_parser = limit)]
    pub(crate) requests_per_minute: Option<Limit>,
    /// Tokens per minute, prompt and output together; a request counts with the most that it can cost until it ends
    #[arg(long, value_name = "N|open", value_parser = limit)]
    pub(crate) tokens_per_minute: Option<Limit>,
    /// Requests under way at once
    #[arg(long, value_name = "N|open", value_parser = limit)]
    pub(crate) at_once: Option<Limit>,
    /// Tokens of one request's prompts together
    #[arg(long, value_name = "N|open", value_parser = limit)]
    pub(crate) prompt_tokens: Option<Limit>,
    /// Tokens that one request may have written, over all its choices
    #[arg(long, value_name = "N|open", value_parser = limit)]
    pub(crate) output_tokens: Option<Limit>,
}

fn limit(text: &str) -> Result<Limit, String> {
    if text == "open" {
        return Ok(Limit::Open);
    }
    let most = text.parse().ok().and_then(NonZeroU32::new).map(Limit::AtMost);
    most.ok_or_else(|| "a number from 1, or `open`, is needed".to_owned())
}
