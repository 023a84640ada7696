//! The `bulkhead` command: parses arguments and wires the crates together; holds no rule.

#![cfg_attr(
    test,
    allow(clippy::arithmetic_side_effects, clippy::as_conversions, reason = "tests compute freely")
)]

#[cfg(bulkhead_tax_bench)]
compile_error!("a build whose guards may be compiled out is no server");

mod audit;
mod auditkey;
mod bench;
mod cli;
mod config;
mod data;
mod edge;
mod engine;
mod exit;
mod log;
mod memory;
mod model;
mod policy;
mod pool;
mod present;
mod progress;
mod serve;
mod shutdown;
mod status;
mod supervise;
mod tenants;
mod up;
mod wirekey;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use data::DataDir;
use exit::{Doing, Exit, Failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // With standard error gone there is nobody left to tell; the exit code still says it.
            drop(writeln!(std::io::stderr(), "bulkhead: {failure}"));
            ExitCode::from(&failure)
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    let server = matches!(cli.command, Command::Serve(_) | Command::Gateway(_) | Command::Engine(_));
    log::start(&cli.common, if server { "info" } else { "warn" })?;
    match cli.command {
        Command::Tenant(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_tenant(&data, command).await
        }),
        Command::Project(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_project(&data, command).await
        }),
        Command::Key(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_key(&data, command).await
        }),
        Command::Limit(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_limit(&data, command).await
        }),
        Command::Budget(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_budget(&data, command).await
        }),
        Command::Price(command) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_price(&data, command).await
        }),
        Command::Usage(args) => on_runtime(async move {
            let data = DataDir::open(cli.common.data.as_deref())?;
            tenants::run_usage(&data, args).await
        }),
        Command::Model(command) => model::run(&DataDir::open(cli.common.data.as_deref())?, command),
        Command::Policy(command) => policy::run(command),
        Command::Audit(command) => audit::run(&DataDir::open(cli.common.data.as_deref())?, command),
        Command::Status(args) => status::run(&args),
        Command::Bench(command) => bench::run(&cli.common, command),
        Command::Engine(args) => engine::run(&args),
        Command::Up(args) => on_runtime(up::run(&cli.common, &args)),
        Command::Serve(args) => on_runtime(serve::run(&cli.common, &args)),
        Command::Gateway(args) => on_runtime(edge::run(&cli.common, &args)),
    }
}

/// Runs `work` on a runtime of its own.
fn on_runtime(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.doing(Exit::Other, "start the runtime")?.block_on(work)
}
