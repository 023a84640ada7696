//! The arguments of `bulkhead budget`, `price` and `usage`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use tenant::{Period, Thresholds, Unit, UtcHour};

use super::limit::LimitScope;

#[derive(Debug, Subcommand)]
pub(crate) enum BudgetCommand {
    /// Set how much a tenant, one of its projects or one of its keys may use; a running server obeys within a second
    ///
    /// The most that a request can cost is reserved in all budgets that bind it before the engine sees it, and what it did not
    /// use is free again when it ends. Several gateways over one database each hold a part of a hard budget, and together never
    /// more than all of it (`bulkhead budget parts`). A budget in money refuses models without a price. Days and months are those
    /// of UTC.
    #[command(
        after_help = "Examples:\n  bulkhead budget set --tenant acme --count tokens --per month --limit 5000000 --warn-at 50,80\n  bulkhead budget set --tenant acme --project search --count money --per day --limit 12.50\n  bulkhead budget set --tenant acme --key 3kTMd0ZyQ9aB --count tokens --per total --limit 10000 --soft"
    )]
    Set {
        #[command(flatten)]
        name: BudgetArgs,
        /// Tokens, or units of money with up to six decimals
        #[arg(long, value_name = "AMOUNT")]
        limit: String,
        /// Percents of the limit at which a warning is logged and sent as a header, rising, four at most
        #[arg(long, value_name = "PERCENTS", value_parser = thresholds)]
        warn_at: Option<Thresholds>,
        /// Print one JSON array with this budget
        #[arg(long)]
        json: bool,
    },
    /// Lift a budget; set again, it begins with what was used of its period by then, as far as gateways have told
    #[command(after_help = "Example:\n  bulkhead budget lift --tenant acme --count tokens --per month")]
    Lift {
        #[command(flatten)]
        name: BudgetArgs,
    },
    /// What each gateway holds of the budgets of a tenant, its projects and its keys, as it told last
    Parts {
        /// The tenant
        #[arg(long, value_name = "NAME")]
        tenant: String,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Take back what a gateway that is gone for good has not used of its parts
    ///
    /// This assumes that the gateway has ended and never starts again with its data folder. What it had used when it told last
    /// counts as spent; what it used after that is known only as far as its usage has reached the database. A gateway that is
    /// merely cut off goes on spending what it holds, and then more than a budget may be spent. One that starts again needs no
    /// such command: it still holds its parts, and gives back what it does not need.
    #[command(
        after_help = "Example:\n  bulkhead budget release --gateway 01a3185c-5000-7953-91fb-ee15f5009cbc"
    )]
    Release {
        /// The gateway, as `budget parts` and its own `/status` name it
        #[arg(long, value_name = "ID")]
        gateway: String,
        /// Print one JSON array with the parts, as they were
        #[arg(long)]
        json: bool,
    },
    /// The budgets of a tenant, its projects and its keys, and what is spent of each, as far as gateways have told
    List {
        /// The tenant
        #[arg(long, value_name = "NAME")]
        tenant: String,
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// Which budget.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    pub(crate) scope: LimitScope,
    /// What it counts
    #[arg(long, value_name = "tokens|money", value_parser = unit)]
    pub(crate) count: Unit,
    /// For how long
    #[arg(long, value_name = "day|month|total", value_parser = period)]
    pub(crate) per: Period,
    /// It warns, and refuses nothing; a hard budget of the same kind may stand beside it
    #[arg(long)]
    pub(crate) soft: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PriceCommand {
    /// Set the price list, in place of the one that there is; a running server charges by it within a second
    ///
    /// The file is TOML, and names units of money for a million tokens, as text:
    ///
    ///   [models."smollm2-135m-instruct"]
    ///   prompt = "0.15"
    ///   cached = "0.075"
    ///   completion = "0.60"
    ///
    /// Without `cached`, a token from the prefix cache costs what any other of a prompt does. A model that is not in the file has
    /// no price. Requests under way are charged by the prices that they began with.
    #[command(after_help = "Example:\n  bulkhead price apply deploy/prices.toml", verbatim_doc_comment)]
    Apply {
        /// The price list
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// What each model costs
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

/// `bulkhead usage`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  bulkhead usage --tenant acme\n  bulkhead usage --tenant acme --from 2026-11-01 --to 2026-12-01 --each key,model --json\n  bulkhead usage --tenant acme --by hour --from 2026-12-03T00 --to 2026-12-03T12"
)]
pub(crate) struct UsageArgs {
    #[command(flatten)]
    pub(crate) scope: LimitScope,
    /// The time that one row covers, in UTC
    #[arg(long, value_name = "hour|day", default_value = "day")]
    pub(crate) by: By,
    /// What has a row of its own
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub(crate) each: Vec<Part>,
    /// The first hour, `2026-12-03` or `2026-12-03T04`, in UTC [default: 30 days ago]
    #[arg(long, value_name = "TIME", value_parser = hour)]
    pub(crate) from: Option<UtcHour>,
    /// The hour at which it ends, which is not in it [default: now]
    #[arg(long, value_name = "TIME", value_parser = hour)]
    pub(crate) to: Option<UtcHour>,
    /// Print one JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long a row of usage is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum By {
    /// An hour.
    Hour,
    /// A day.
    Day,
}

/// What usage is listed by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Part {
    /// Each project.
    Project,
    /// Each key.
    Key,
    /// Each model.
    Model,
}

fn unit(text: &str) -> Result<Unit, String> {
    Unit::parse(text).ok_or_else(|| "`tokens` or `money` is needed".to_owned())
}

fn period(text: &str) -> Result<Period, String> {
    Period::parse(text).ok_or_else(|| "`day`, `month` or `total` is needed".to_owned())
}

fn thresholds(text: &str) -> Result<Thresholds, String> {
    let percents = text.split(',').map(|part| part.trim().parse());
    let percents =
        percents.collect::<Result<Vec<u8>, _>>().map_err(|_| "percents from 1 to 100 are needed")?;
    Thresholds::new(&percents).map_err(|error| error.to_string())
}

fn hour(text: &str) -> Result<UtcHour, String> {
    UtcHour::parse(text)
        .ok_or_else(|| "a day, `2026-12-03`, or an hour, `2026-12-03T04`, is needed".to_owned())
}
