//! The key that signs the audit log: made once, with the log, and never replaced in silence.

use std::path::Path;

use ::audit::{LogKey, NoteKey};

use crate::data::{DataDir, read_bounded, read_private, write_private};
use crate::exit::{Doing, Exit, Failure};

/// Bytes of a key's file, at most.
const FILE_BYTES_MAX: u64 = 1_024;

/// The log's key; made where there is neither a key nor a log.
pub(crate) fn load_or_create(data: &DataDir) -> Result<LogKey, Failure> {
    let (path, public) = (data.audit_key(), data.audit_public_key());
    if path.exists() {
        let text = read_private(&path, FILE_BYTES_MAX)
            .doing(Exit::Store, format_args!("read the audit log's key {}", path.display()))?;
        let text = std::str::from_utf8(&text).unwrap_or_default();
        let key = LogKey::parse(text)
            .doing(Exit::Store, format_args!("use the audit log's key {}", path.display()))?;
        if !public.exists() {
            write_public(&public, &key)?;
        }
        return Ok(key);
    }
    // A log whose key is gone cannot be gone on with: under another key it would be another log.
    if public.exists() || data.audit().join("checkpoint").exists() {
        return Err(Failure::new(
            Exit::Store,
            format_args!(
                "the audit log's key {} is missing, and {} was signed by it: put it back, or move {} and {} aside to begin another log",
                path.display(),
                data.audit().display(),
                data.audit().display(),
                public.display()
            ),
        ));
    }
    let key = LogKey::unique("bulkhead.invalid").doing(Exit::Other, "make a key for the audit log")?;
    write_private(&path, key.private().as_bytes())
        .doing(Exit::Store, format_args!("write {}", path.display()))?;
    write_public(&public, &key)?;
    Ok(key)
}

/// The public key in a file.
pub(crate) fn read_public(path: &Path) -> Result<NoteKey, Failure> {
    let bytes = read_bounded(path, FILE_BYTES_MAX)
        .doing(Exit::Undecided, format_args!("read the log's public key {}", path.display()))?;
    NoteKey::parse(std::str::from_utf8(&bytes).unwrap_or_default())
        .doing(Exit::Undecided, format_args!("use the log's public key {}", path.display()))
}

/// A witness's public key in a file.
pub(crate) fn read_witness(path: &Path) -> Result<NoteKey, Failure> {
    let bytes = read_bounded(path, FILE_BYTES_MAX)
        .doing(Exit::Undecided, format_args!("read the witness's public key {}", path.display()))?;
    NoteKey::parse_witness(std::str::from_utf8(&bytes).unwrap_or_default())
        .doing(Exit::Undecided, format_args!("use the witness's public key {}", path.display()))
}

/// A witness's private key in a file; none where there is no file.
pub(crate) fn read_witness_private(path: &Path) -> Result<Option<LogKey>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let text = read_private(path, FILE_BYTES_MAX)
        .doing(Exit::Store, format_args!("read the witness's key {}", path.display()))?;
    LogKey::parse_witness(std::str::from_utf8(&text).unwrap_or_default())
        .map(Some)
        .doing(Exit::Store, format_args!("use the witness's key {}", path.display()))
}

fn write_public(path: &Path, key: &LogKey) -> Result<(), Failure> {
    write_private(path, format!("{}\n", key.public()).as_bytes())
        .doing(Exit::Store, format_args!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_key_and_never_gets_another_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(Some(folder.path())).unwrap();
        let key = load_or_create(&data).unwrap();
        assert!(load_or_create(&data).unwrap().public() == key.public());
        assert!(read_public(&data.audit_public_key()).unwrap() == key.public());
        let private = std::fs::read_to_string(data.audit_key()).unwrap();
        assert_eq!(*private, **key.private());

        std::fs::remove_file(data.audit_key()).unwrap();
        let refused = load_or_create(&data).err().unwrap();
        assert!(refused.exit() == Exit::Store && refused.to_string().contains("is missing"), "{refused}");

        std::fs::remove_file(data.audit_public_key()).unwrap();
        std::fs::create_dir(data.audit()).unwrap();
        std::fs::write(data.audit().join("checkpoint"), "anything").unwrap();
        assert!(load_or_create(&data).is_err(), "a log without a key");
        write_private(&data.audit_key(), b"PRIVATE+KEY+x+00000000+AQ==").unwrap();
        assert!(load_or_create(&data).is_err(), "a key that is none");
    }
}
