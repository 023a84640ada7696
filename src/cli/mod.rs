//! The command line: what can be said, and the help that teaches it.
//!
//! Architecture invariant: knows words and defaults, and does nothing.

mod audit;
mod bench;
mod charge;
mod limit;
mod server;
mod store;

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use audit::{AuditCommand, CosignArgs, VerifyArgs, WitnessArgs};
pub(crate) use bench::{BenchCommand, PrefixAuditArgs};
pub(crate) use charge::{BudgetArgs, BudgetCommand, By, Part, PriceCommand, UsageArgs};
pub(crate) use limit::{LimitArgs, LimitCommand, LimitScope};
pub(crate) use server::{EngineArgs, EngineSize, GatewayArgs, Listeners, ServeArgs, UpArgs};
pub(crate) use store::{
    KeyCommand, KeyCreate, KeyFor, ModelCommand, PolicyCommand, ProjectCommand, ScopeArgs, ShareArgs,
    TenantCommand,
};

const AFTER_HELP: &str = "\
Examples:
  bulkhead up                                   a demo server on 127.0.0.1:8080, from nothing
  bulkhead tenant create acme                   a customer
  bulkhead key create --tenant acme             an API key for it; shown this once
  bulkhead model list                           models that can be pulled, and those that are here
  bulkhead serve --config /etc/bulkhead.toml    a production server
  bulkhead status                               how a running server is
  bulkhead bench prefix-audit                   whether a prompt cache tells tenants of each other

Exit codes:
  0  done
  1  something else went wrong          6  Python or pip is missing
  2  the command line is wrong          7  the window is above the pool, or no memory for the pool
  3  a config or policy is refused      8  the engine would not start, or did not stay up
  4  a port is taken                    9  the data folder or a socket is in use
  5  the model is missing or damaged   10  the database, pepper or audit log cannot be used
                                       11  a bench missed its own control and says nothing
                                       12  an audit found that one tenant learns of another";

/// A multi-tenant AI gateway with an isolated engine.
///
/// Bulkhead answers OpenAI-style requests of many tenants from one engine, so that what a tenant gets back is, bit for bit, a
/// function of its own requests alone. The gateway knows keys, text and limits; the engine knows token ids, pages and an opaque
/// tag. `up` runs both with a demo tenant; `serve` runs both for production.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Folder of models, tenants, keys and the audit log [default: the platform's data folder, e.g. ~/.local/share/bulkhead]
    #[arg(long, value_name = "DIR", env = "BULKHEAD_DATA", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// How logs are written to standard error. Prompts, outputs, keys and tenant names are never in them
    #[arg(long, value_name = "FORM", default_value = "text", global = true)]
    pub(crate) log: LogForm,
    /// What is logged: error, warn, info, debug or trace, also by module, as in `warn,gateway=debug` [default: info for servers,
    /// warn otherwise]
    #[arg(long, value_name = "LEVEL", env = "BULKHEAD_LOG", global = true)]
    pub(crate) log_level: Option<String>,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogForm {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a demo: fetch the model if absent, make a demo tenant and key, start gateway and engine
    ///
    /// Prints each step, then the base URL, the key, a curl line, a Python snippet, and `ready` once a request would be answered.
    /// The demo tenant and its key are made once and kept in the data folder. Ctrl-C drains running requests and exits with 0.
    Up(UpArgs),
    /// Run gateway and engine for production, by a config file
    ///
    /// Makes no tenant, fetches no model. The file is TOML; deploy/bulkhead.toml shows every field. A field that is not known is
    /// refused.
    Serve(ServeArgs),
    /// Run the gateway alone; the engine is a service of its own
    Gateway(GatewayArgs),
    /// Run the engine alone
    ///
    /// Prints one JSON line on standard output when it is ready: the measured pool and the window it offers. The engine has no
    /// network and knows no key, no tenant name and no text.
    Engine(EngineArgs),
    /// Fetch models, and see what is here
    #[command(subcommand)]
    Model(ModelCommand),
    /// Make, list and suspend tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Make and list the projects of a tenant
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Make, list, rotate and revoke API keys
    #[command(subcommand)]
    Key(KeyCommand),
    /// Limit what a tenant, a project or a key may take in a minute, at once and in one request
    #[command(subcommand)]
    Limit(LimitCommand),
    /// Bound what a tenant, a project or a key may use in a day, a month or in all, in tokens or in money
    #[command(subcommand)]
    Budget(BudgetCommand),
    /// What the tokens of each model cost
    #[command(subcommand)]
    Price(PriceCommand),
    /// What a tenant used, by hour or day, project, key and model
    Usage(UsageArgs),
    /// Check limits before a server obeys them
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Verify the audit log, witness those of others, and have one's own witnessed
    #[command(subcommand)]
    Audit(AuditCommand),
    /// How a running server is, from its admin listener
    Status(StatusArgs),
    /// Measure what a server does, and what it lets one tenant learn of another
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// `bulkhead status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  bulkhead status --admin 127.0.0.1:9090 --json")]
pub(crate) struct StatusArgs {
    /// The server's admin listener
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub(crate) admin: std::net::SocketAddr,
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_help() {
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help", command.get_name());
            for argument in
                command.get_arguments().filter(|a| !matches!(a.get_id().as_str(), "help" | "version"))
            {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&Cli::command());
    }

    #[test]
    fn the_help_names_every_exit_code() {
        let codes = AFTER_HELP.split("Exit codes:").nth(1).unwrap();
        for code in 0..=12 {
            let named = codes.split_whitespace().any(|word| word == code.to_string());
            assert!(named, "code {code}");
        }
    }
}
