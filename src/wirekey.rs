//! The key that gateway and engine share: 32 random bytes in a file that only its user reads.

use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use wire::WireKey;
use zeroize::Zeroizing;

use crate::data::{read_private, write_private};
use crate::exit::{Doing, Exit, Failure};

const KEY_BYTES: usize = 32;

/// Makes a fresh key and writes it to `path`: each start of a server has its own.
pub(crate) fn make(path: &Path) -> Result<WireKey, Failure> {
    let mut key = Zeroizing::new([0_u8; KEY_BYTES]);
    SystemRandom::new()
        .fill(key.as_mut())
        .map_err(|_| Failure::new(Exit::Other, "the system gives no randomness for the wire key"))?;
    write_private(path, key.as_ref()).doing(Exit::Store, format_args!("write {}", path.display()))?;
    Ok(WireKey::new(*key))
}

/// Reads the key that somebody else made.
pub(crate) fn read(path: &Path) -> Result<WireKey, Failure> {
    let refused = |why: String| {
        Failure::new(Exit::Config, format_args!("the wire key {} cannot be used: {why}", path.display()))
    };
    let bytes = read_private(path, 4096).map_err(|error| refused(error.to_string()))?;
    let key = <[u8; KEY_BYTES]>::try_from(bytes.as_slice())
        .map_err(|_| refused(format!("it has {} bytes, {KEY_BYTES} are needed", bytes.len())))?;
    Ok(WireKey::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_start_has_its_own_key_and_only_its_user_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wire.key");
        make(&path).unwrap();
        let one = std::fs::read(&path).unwrap();
        make(&path).unwrap();
        assert_ne!(std::fs::read(&path).unwrap(), one);
        read(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let refused = read(&path).err().unwrap();
        assert!(refused.exit() == Exit::Config && refused.to_string().contains("640"), "{refused}");
    }

    #[test]
    fn a_key_of_another_length_is_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wire.key");
        for bytes in [0, 31, 33] {
            write_private(&path, &vec![1; bytes]).unwrap();
            let refused = read(&path).err().unwrap().to_string();
            assert!(refused.contains(&bytes.to_string()) && refused.contains("32"), "{refused}");
        }
    }
}
