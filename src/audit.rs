//! `bulkhead audit`: the log, link by link, without a server.

use ::audit::AuditError;
use serde_json::json;

use crate::cli::AuditCommand;
use crate::data::DataDir;
use crate::exit::{Exit, Failure};
use crate::present::{self, Form};

pub(crate) fn run(data: &DataDir, command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify { json } => verify(data, Form::of(json)),
    }
}

fn verify(data: &DataDir, form: Form) -> Result<(), Failure> {
    let folder = data.audit();
    if !folder.is_dir() {
        return Err(Failure::new(
            Exit::Store,
            format_args!(
                "there is no audit log in {}: has a server run on this data folder?",
                folder.display()
            ),
        ));
    }
    let verified = ::audit::verify(&folder, &mut |_| {}).map_err(|error| unusable(&error))?;
    match form {
        Form::Json => present::json(&json!({
            "records": verified.records,
            "segments": verified.segments,
            "head": verified.hash.to_string(),
            "torn_bytes": verified.torn_bytes,
        })),
        Form::Table => present::line(&format!(
            "{} records in {} segments are what was written; the last one's hash is {}",
            verified.records, verified.segments, verified.hash
        )),
    }
}

/// What an audit log that cannot be used ends with.
pub(crate) fn unusable(error: &AuditError) -> Failure {
    let exit = match error {
        AuditError::Locked => Exit::Locked,
        AuditError::Disk(_)
        | AuditError::Tampered(_)
        | AuditError::Full { .. }
        | AuditError::Ended
        | AuditError::Unwritable => Exit::Store,
    };
    Failure::new(exit, error)
}
