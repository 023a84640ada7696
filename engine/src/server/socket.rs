//! The socket's path: free, ours, and nobody else's. Knows no session.

use crate::server::ServerError;
use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::{
        fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
};

/// Makes the folder if it is absent, and sees to it that nobody answers at `socket` and nothing lies there.
pub(super) fn prepare<E>(socket: &Path) -> Result<(), ServerError<E>> {
    let folder = match socket.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let make = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    make.map_err(ServerError::system("make the socket's folder"))?;
    let facts = fs::metadata(folder).map_err(ServerError::system("look at the socket's folder"))?;
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ServerError::OpenFolder { folder: folder.to_path_buf(), mode });
    }
    let found = match fs::symlink_metadata(socket) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ServerError::system("look at the socket")(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ServerError::NotASocket { socket: socket.to_path_buf() });
    }
    // Only a refused connection proves that nobody listens; any other answer may come from a server that is busy.
    match UnixStream::connect(socket) {
        Ok(_) => Err(ServerError::Live { socket: socket.to_path_buf() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!("a stale socket is removed");
            remove(socket).map_err(ServerError::system("remove a stale socket"))
        }
        Err(error) => Err(ServerError::system("ask who listens at the socket")(error)),
    }
}

/// Listens at a path that [`prepare`] found free. The folder keeps others out until the mode is set.
pub(super) fn listen<E>(socket: &Path) -> Result<UnixListener, ServerError<E>> {
    let listener = match UnixListener::bind(socket) {
        Ok(listener) => listener,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            return Err(ServerError::Live { socket: socket.to_path_buf() });
        }
        Err(error) => return Err(ServerError::system("listen at the socket")(error)),
    };
    let owner_only = fs::set_permissions(socket, Permissions::from_mode(0o600));
    owner_only.map_err(ServerError::system("close the socket to others"))?;
    Ok(listener)
}

/// Removes the socket; it may be gone already.
pub(super) fn remove(socket: &Path) -> io::Result<()> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
