//! `bulkhead policy`: whether a server would obey a file, and what it would change.

use std::path::Path;

use policies::{InForce, Policy, PolicyStore, Source};
use serde_json::json;

use crate::cli::PolicyCommand;
use crate::data::{DataDir, read_bounded};
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};

pub(crate) fn run(command: PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Check { file, json } => check(&file, Form::of(json)),
        PolicyCommand::Show => present::line(Policy::shipped_text().trim_end()),
    }
}

fn check(file: &Path, form: Form) -> Result<(), Failure> {
    let bytes_max = u64::try_from(policies::FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = read_bounded(file, bytes_max).doing(Exit::Config, format_args!("read {}", file.display()))?;
    let text = String::from_utf8(bytes).doing(Exit::Config, format_args!("read {}", file.display()))?;
    let new = Policy::parse(&text).map_err(|unusable| {
        Failure::new(Exit::Config, format_args!("{} is refused: {unusable}", file.display()))
    })?;
    let shipped = Policy::shipped().doing(Exit::Other, "read the shipped policy")?;
    let changes = shipped.compare(&new);
    match form {
        Form::Json => present::json(&json!({
            "version": new.version().to_string(),
            "changes": changes
                .iter()
                .map(|change| json!({
                    "field": change.field,
                    "old": change.old.to_string(),
                    "new": change.new.to_string(),
                }))
                .collect::<Vec<_>>(),
        })),
        Form::Table => {
            present::line(&format!(
                "{} is good, version {}; against the shipped policy it changes {} fields",
                file.display(),
                new.version(),
                changes.len()
            ))?;
            changes.iter().try_for_each(|change| present::line(&format!("  {change}")))
        }
    }
}

/// The policy to obey; a refused file that has a last-known-good behind it is logged for a human to mend.
pub(crate) fn load(data: &DataDir, file: Option<&Path>) -> Result<InForce, Failure> {
    let store = PolicyStore::open(&data.policy()).doing(Exit::Store, "open the policy folder")?;
    let in_force = store.load(file).map_err(|error| Failure::new(Exit::Config, error))?;
    match &in_force.source {
        Source::File | Source::Shipped => {}
        Source::LastKnownGood { why } => {
            tracing::error!(%why, "the policy file is refused; the last good policy stays in force");
        }
    }
    Ok(in_force)
}
