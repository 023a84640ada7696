//! `bulkhead audit`: the log, leaf by leaf, without a server; and its witnesses.

mod cosign;
mod policy;
mod witness;

use std::path::Path;

use ::audit::{AuditError, CHECKPOINT_BYTES_MAX, Leaf, Trust, Why};
use serde_json::json;

use crate::auditkey;
use crate::cli::{AuditCommand, VerifyArgs};
use crate::data::{DataDir, read_bounded};
use crate::exit::{Doing, Exit, Failure};
use crate::present::{self, Form};
use crate::progress::Counted;

pub(crate) fn run(data: &DataDir, command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Verify(args) => verify(data, &args),
        AuditCommand::Show { folder, kind, from } => {
            show(&folder.unwrap_or_else(|| data.audit()), kind.as_deref(), from)
        }
        AuditCommand::Key => present::line(&auditkey::read_public(&data.audit_public_key())?.to_string()),
        AuditCommand::Cosign(args) => cosign::run(data, &args),
        AuditCommand::Witness(args) => crate::on_runtime(async { witness::run(data, &args).await }),
    }
}

/// Each leaf with its index, as one JSON object a line.
fn show(log: &Path, kind: Option<&str>, from: u64) -> Result<(), Failure> {
    let mut written = Ok(());
    ::audit::read_leaves(log, from, &mut |index, leaf| {
        if written.is_ok() {
            written = show_leaf(index, &leaf, kind);
        }
    })
    .map_err(|error| unusable(&error))?;
    written
}

fn show_leaf(index: u64, leaf: &Leaf, kind: Option<&str>) -> Result<(), Failure> {
    let mut value = serde_json::to_value(leaf).doing(Exit::Other, "write a leaf as JSON")?;
    if kind.is_some_and(|kind| value.pointer(&format!("/event/{kind}")).is_none()) {
        return Ok(());
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("index".to_owned(), json!(index));
    }
    present::json(&value)
}

fn verify(data: &DataDir, args: &VerifyArgs) -> Result<(), Failure> {
    let log = &args.folder.clone().unwrap_or_else(|| data.audit());
    if !log.is_dir() {
        return Err(Failure::new(
            Exit::Undecided,
            format_args!("there is no audit log in {}: has a server run on this data folder?", log.display()),
        ));
    }
    let trust = match &args.policy {
        Some(policy) => policy::read(policy)?,
        None => {
            let key = args.key.clone().unwrap_or_else(|| data.audit_public_key());
            Trust::in_log(auditkey::read_public(&key)?)
        }
    };
    let seen = args.seen.as_deref().map(read_checkpoint).transpose()?;
    let cosigned = args.cosigned.as_deref().map(read_checkpoint).transpose()?;
    let trust = Trust { seen, cosigned, ..trust };
    let mut counted = Counted::start("leaves verified");
    let verified =
        ::audit::verify(log, &trust, &mut |progress| counted.show(progress.leaves, progress.until));
    drop(counted);
    let verified = verified.map_err(|error| verdict(&error))?;
    match Form::of(args.json) {
        Form::Json => present::json(&json!({
            "leaves": verified.leaves,
            "root": verified.root,
            "epochs": verified.epochs,
            "tenants": verified.tenants,
            "open_sequences": verified.open,
            "continues_seen": verified.is_continued,
            "witnesses": verified.witnesses,
            "cosigned_leaves": verified.cosigned,
        })),
        Form::Table => {
            let ends = if verified.is_continued { ", and begins with what was seen before" } else { "" };
            let cosigned = match verified.witnesses {
                0 => String::new(),
                by => format!("; {by} witnesses have cosigned the first {}", verified.cosigned),
            };
            present::line(&format!(
                "{} leaves of {} tenants in {} epochs are what was signed{ends}{cosigned}; the root is {}",
                verified.leaves, verified.tenants, verified.epochs, verified.root
            ))
        }
    }
}

fn read_checkpoint(path: &Path) -> Result<Vec<u8>, Failure> {
    let most = u64::try_from(CHECKPOINT_BYTES_MAX).unwrap_or(u64::MAX);
    read_bounded(path, most).doing(Exit::Undecided, format_args!("read the checkpoint {}", path.display()))
}

/// What a verification that found something ends with.
fn verdict(error: &AuditError) -> Failure {
    let AuditError::Broken(broken) = error else { return Failure::new(Exit::Undecided, error) };
    let is_missing = matches!(broken.why, Why::Missing | Why::Quorum { .. });
    Failure::new(if is_missing { Exit::Incomplete } else { Exit::Tampered }, error)
}

/// What an audit log that cannot be used ends with.
pub(crate) fn unusable(error: &AuditError) -> Failure {
    let exit = match error {
        AuditError::Locked => Exit::Locked,
        AuditError::Disk(_)
        | AuditError::Broken(_)
        | AuditError::Full { .. }
        | AuditError::TooManyTenants
        | AuditError::Ended
        | AuditError::Unwritable => Exit::Store,
    };
    Failure::new(exit, error)
}
