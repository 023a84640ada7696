//! Logs, to standard error.

use tracing_subscriber::EnvFilter;

use crate::cli::{Common, LogForm};
use crate::exit::{Doing, Exit, Failure};

/// Starts logging; `fallback` is the level where none was asked for.
pub(crate) fn start(common: &Common, fallback: &str) -> Result<(), Failure> {
    let asked = common.log_level.as_deref().unwrap_or(fallback);
    let filter = EnvFilter::try_new(asked).doing(Exit::Usage, format_args!("read --log-level {asked:?}"))?;
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    let started = match common.log {
        LogForm::Text => builder.try_init(),
        LogForm::Json => builder.json().try_init(),
    };
    started.doing(Exit::Other, "start logging")
}
