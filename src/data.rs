//! The data folder: where each thing lies, and the lock that keeps two servers out of one folder.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::exit::{Doing, Exit, Failure};

/// Bytes of the longest path that a Unix socket may have: `sockaddr_un.sun_path` of 108 with its closing zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The data folder.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
}

/// Holds the folder for one server; let go when it is dropped, or when the process dies.
#[derive(Debug)]
pub(crate) struct DataLock {
    _file: File,
}

impl DataDir {
    /// `chosen`, or the platform's data folder; made with mode 0700 where absent.
    pub(crate) fn open(chosen: Option<&Path>) -> Result<Self, Failure> {
        let root = match chosen {
            Some(chosen) => std::path::absolute(chosen)
                .doing(Exit::Usage, format_args!("make {} a full path", chosen.display()))?,
            None => dirs::data_dir()
                .ok_or_else(|| {
                    Failure::new(
                        Exit::Usage,
                        "this user has no data folder (neither XDG_DATA_HOME nor HOME is set): name one by --data",
                    )
                })?
                .join("bulkhead"),
        };
        let data = Self { root };
        for folder in [data.root.clone(), data.run()] {
            private_folder(&folder)
                .doing(Exit::Store, format_args!("make the data folder {}", folder.display()))?;
        }
        Ok(data)
    }

    /// Takes the folder for this process.
    pub(crate) fn lock(&self) -> Result<DataLock, Failure> {
        let path = self.run().join("lock");
        let file =
            private_file(&path, true).doing(Exit::Store, format_args!("open the lock {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(DataLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Failure::new(
                Exit::Locked,
                format_args!(
                    "another bulkhead runs on the data folder {}: stop it, or name another folder by --data",
                    self.root.display()
                ),
            )),
            Err(TryLockError::Error(error)) => {
                Err(error).doing(Exit::Store, format_args!("lock {}", path.display()))
            }
        }
    }

    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Model files.
    pub(crate) fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Tenants and keys.
    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("tenants.db")
    }

    /// The copy of all keys, with which a gateway starts while the store is away.
    pub(crate) fn keys(&self) -> PathBuf {
        self.root.join("keys.copy")
    }

    /// What stored keys are hashed under; apart from the database, so that a copy of one is of no use.
    pub(crate) fn pepper(&self) -> PathBuf {
        self.root.join("pepper.key")
    }

    /// The last-known-good policy.
    pub(crate) fn policy(&self) -> PathBuf {
        self.root.join("policy")
    }

    /// The folder of the journal of reservations and usage.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.root.join("ledger")
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> PathBuf {
        self.root.join("audit")
    }

    /// The key that signs the audit log.
    pub(crate) fn audit_key(&self) -> PathBuf {
        self.root.join("audit.key")
    }

    /// The key that verifies it, to be given away.
    pub(crate) fn audit_public_key(&self) -> PathBuf {
        self.root.join("audit.pub")
    }

    /// The key of a witness of others' audit logs; its public part is beside it.
    pub(crate) fn witness_key(&self) -> PathBuf {
        self.root.join("witness.key")
    }

    /// What that witness has cosigned.
    pub(crate) fn witness(&self) -> PathBuf {
        self.root.join("witness")
    }

    /// The demo tenant's key, so that each `up` shows the same one.
    pub(crate) fn demo_key(&self) -> PathBuf {
        self.root.join("demo.key")
    }

    /// What lives as long as a server.
    pub(crate) fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The engine's socket, whose path must fit a socket address.
    pub(crate) fn engine_socket(&self) -> Result<PathBuf, Failure> {
        let path = self.run().join("engine.sock");
        let bytes = path.as_os_str().len();
        if bytes > SOCKET_PATH_BYTES_MAX {
            return Err(Failure::new(
                Exit::Usage,
                format_args!(
                    "the engine's socket would be {} ({bytes} bytes), a socket's path has {SOCKET_PATH_BYTES_MAX} at most: name a shorter folder by --data",
                    path.display()
                ),
            ));
        }
        Ok(path)
    }

    /// The key that gateway and engine share.
    pub(crate) fn wire_key(&self) -> PathBuf {
        self.run().join("wire.key")
    }
}

fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn private_file(path: &Path, keep: bool) -> io::Result<File> {
    let file = OpenOptions::new().create(true).write(true).truncate(!keep).mode(0o600).open(path)?;
    // The mode above holds only for a file that this call made.
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Writes a secret so that only this user reads it, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = private_file(&fresh, false)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Reads a file of at most `bytes_max` bytes.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {bytes_max} bytes, the most allowed"),
        ));
    }
    Ok(bytes)
}

/// Reads a secret of at most `bytes_max` bytes, from a file that is closed to group and others.
pub(crate) fn read_private(path: &Path, bytes_max: u64) -> io::Result<Zeroizing<Vec<u8>>> {
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("its mode is {mode:03o}; it must be closed to group and others (chmod 600)"),
        ));
    }
    read_bounded(path, bytes_max).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn one_folder_has_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(Some(folder.path())).unwrap();
        let lock = data.lock().unwrap();
        let refused = data.lock().unwrap_err();
        assert_eq!(refused.exit(), Exit::Locked);
        assert!(refused.to_string().contains("--data"));
        drop(lock);
        data.lock().unwrap();
    }

    #[test]
    fn a_secret_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(read_private(&path, 3).unwrap().as_slice(), b"new");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_private(&path, 3).unwrap_err().to_string().contains("640"));
        let data = DataDir::open(Some(&folder.path().join("data"))).unwrap();
        assert_eq!(mode(data.root()), 0o700);
    }

    #[test]
    fn a_file_over_its_bound_is_refused_with_the_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0; 11]).unwrap();
        assert_eq!(read_bounded(&path, 11).unwrap().len(), 11);
        let refused = read_bounded(&path, 10).unwrap_err();
        assert!(refused.to_string().contains("10"));
    }

    #[test]
    fn a_socket_path_that_no_address_holds_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(Some(&folder.path().join("d".repeat(120)))).unwrap();
        let refused = data.engine_socket().unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.to_string().contains("107"));
    }
}
