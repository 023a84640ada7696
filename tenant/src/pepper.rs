//! The pepper: a secret apart from the database, without which its digests cannot be tried.
//!
//! ```text
//! bulkhead pepper 1
//! 1 <64 hex digits>
//! ```
//! Each line after the first is one version, rising; the last one digests new keys, the others still check
//! old ones.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

use crate::key::ApiKey;

const HEADER: &str = "bulkhead pepper 1";
/// Versions that one file may hold.
const VERSIONS_MAX: usize = 16;
/// Bytes of the longest file: the header, and a number of up to 10 digits, a space, 64 digits, a line's end
/// for each version.
const FILE_BYTES_MAX: usize = 18 + VERSIONS_MAX * 76;
/// What is digested to recognise a pepper without knowing it.
const FINGERPRINT_OF: &[u8] = b"bulkhead pepper fingerprint";

/// HMAC keys by version. Not printable; `ring` keeps them.
///
/// ```compile_fail,E0277
/// fn print(pepper: tenant::Pepper) { println!("{pepper:?}"); }
/// ```
pub struct Pepper {
    current: Version,
    older: Vec<Version>,
}

struct Version {
    number: u32,
    key: hmac::Key,
}

/// What a pepper makes of a key's secret: all that the store holds of it.
pub(crate) struct Digest {
    pub(crate) version: u32,
    pub(crate) tag: [u8; 32],
}

/// Why there is no pepper. All are the operator's to mend.
#[derive(Debug, thiserror::Error)]
pub enum PepperError {
    /// The file cannot be read or made.
    #[error("the pepper file cannot be used: {0}")]
    File(#[source] io::Error),
    /// Others than its owner may read or write it.
    #[error("the pepper file has mode {mode:03o}; it must be closed to group and others (chmod 600)")]
    Open {
        /// The permission bits found.
        mode: u32,
    },
    /// It is not what this program writes.
    #[error("the pepper file is damaged")]
    Damaged,
    /// The system has no randomness to give.
    #[error("the system gives no randomness")]
    NoRandomness,
}

impl Pepper {
    /// Reads the file, or makes it (mode 0600, synced) when there is none. Two processes that make it at once
    /// get the same.
    ///
    /// # Errors
    /// [`PepperError`]. A damaged file is never replaced: every key in the store would be lost.
    pub fn load_or_create(path: &Path) -> Result<Self, PepperError> {
        match File::open(path) {
            Ok(file) => Self::read(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create(path)?;
                Self::read(File::open(path).map_err(PepperError::File)?)
            }
            Err(error) => Err(PepperError::File(error)),
        }
    }

    fn read(file: File) -> Result<Self, PepperError> {
        let mode = file.metadata().map_err(PepperError::File)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(PepperError::Open { mode });
        }
        // One allocation of the final size: growing would leave copies behind.
        let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX.saturating_add(1)));
        let limit = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
        file.take(limit).read_to_string(&mut text).map_err(PepperError::File)?;
        if text.len() > FILE_BYTES_MAX {
            return Err(PepperError::Damaged);
        }
        parse(&text).ok_or(PepperError::Damaged)
    }

    /// Whether new digests are made under this version.
    pub(crate) const fn is_current(&self, version: u32) -> bool {
        self.current.number == version
    }

    pub(crate) fn digest(&self, key: &ApiKey) -> Digest {
        Digest { version: self.current.number, tag: sign(&self.current.key, key.proof().as_ref()) }
    }

    /// Whether `tag` is what the pepper of `version` makes of `key`; compared in constant time. The same work
    /// is done for a version that does not exist, and the answer is no.
    pub(crate) fn verify(&self, version: u32, key: &ApiKey, tag: &[u8; 32]) -> bool {
        let known = self.versions().find(|of| of.number == version);
        let matches = hmac::verify(&known.unwrap_or(&self.current).key, key.proof().as_ref(), tag).is_ok();
        matches & known.is_some()
    }

    /// Recognises each version without telling it.
    pub(crate) fn fingerprints(&self) -> impl Iterator<Item = (u32, [u8; 32])> {
        self.versions().map(|of| (of.number, sign(&of.key, FINGERPRINT_OF)))
    }

    fn versions(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().chain([&self.current])
    }
}

fn sign(key: &hmac::Key, data: &[u8]) -> [u8; 32] {
    let signed = hmac::sign(key, data);
    let mut tag = [0; 32];
    for (to, from) in tag.iter_mut().zip(signed.as_ref()) {
        *to = *from;
    }
    tag
}

fn parse(text: &str) -> Option<Pepper> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()? != HEADER {
        return None;
    }
    let mut versions = Vec::new();
    for line in lines {
        let (number, digits) = line.split_once(' ')?;
        let number: u32 = number.parse().ok()?;
        let rises = versions.last().is_none_or(|last: &Version| last.number < number);
        if !rises || versions.len() >= VERSIONS_MAX {
            return None;
        }
        versions.push(Version { number, key: hmac::Key::new(hmac::HMAC_SHA256, unhex(digits)?.as_ref()) });
    }
    let current = versions.pop()?;
    Some(Pepper { current, older: versions })
}

fn unhex(digits: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    let mut pairs = digits.as_bytes().chunks_exact(2);
    for byte in bytes.iter_mut() {
        let pair = core::str::from_utf8(pairs.next()?).ok()?;
        // `from_str_radix` would take a sign.
        *byte = pair.bytes().all(|c| c.is_ascii_hexdigit()).then(|| u8::from_str_radix(pair, 16).ok())??;
    }
    (pairs.next().is_none() && pairs.remainder().is_empty()).then_some(bytes)
}

/// Writes a fresh pepper beside `path` and links it into place, which fails when somebody else was first:
/// theirs is then used.
fn create(path: &Path) -> Result<(), PepperError> {
    let random = SystemRandom::new();
    let mut secret = Zeroizing::new([0_u8; 32]);
    let mut nonce = [0_u8; 8];
    random
        .fill(secret.as_mut())
        .and_then(|()| random.fill(&mut nonce))
        .map_err(|_| PepperError::NoRandomness)?;
    let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
    text.push_str(HEADER);
    text.push_str("\n1 ");
    for nibble in secret.iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
        text.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
    }
    text.push('\n');

    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:016x}.new", u64::from_ne_bytes(nonce)));
    let linked = write_new(Path::new(&beside), text.as_bytes()).and_then(|()| fs::hard_link(&beside, path));
    // The link holds the file now, or nobody wants it.
    let removed = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(PepperError::File(error)),
        Ok(()) | Err(_) => {}
    }
    removed.and_then(|()| sync_folder_of(path)).map_err(PepperError::File)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn fingerprint(pepper: &Pepper) -> Vec<(u32, [u8; 32])> {
        pepper.fingerprints().collect()
    }

    #[test]
    fn it_is_made_once_closed_to_others_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pepper.key");
        let made: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| fingerprint(&Pepper::load_or_create(&path).unwrap())))
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(made.iter().all(|of| *of == made[0]), "all makers must get the same pepper");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pepper.key");
        Pepper::load_or_create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601, 0o666] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = Pepper::load_or_create(&path).err().unwrap();
            assert!(matches!(error, PepperError::Open { mode: found } if found == mode), "{error}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        assert!(Pepper::load_or_create(&path).is_ok());
    }

    #[test]
    fn a_damaged_file_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pepper.key");
        Pepper::load_or_create(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert!(matches!(Pepper::load_or_create(&path), Err(PepperError::Damaged)), "cut at {cut}");
            assert_eq!(fs::read(&path).unwrap(), &whole[..cut]);
        }
        let line = "ab".repeat(32);
        for bad in [
            format!("{HEADER}\n1 {line}\n1 {line}\n"),
            format!("{HEADER}\n2 {line}\n1 {line}\n"),
            format!("{HEADER}\n1 {line}x\n"),
            format!("{HEADER}\n1 +a{}\n", "ab".repeat(31)),
            "x".repeat(FILE_BYTES_MAX + 1),
        ] {
            assert!(parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn older_versions_still_check_and_unknown_ones_never_do() {
        let key = ApiKey::generate(crate::key::KeyKind::Live, &SystemRandom::new()).unwrap();
        let (one, two) = ("11".repeat(32), "22".repeat(32));
        let old = parse(&format!("{HEADER}\n1 {one}\n")).unwrap();
        let new = parse(&format!("{HEADER}\n1 {one}\n2 {two}\n")).unwrap();
        let digest = old.digest(&key);
        assert!(new.verify(1, &key, &digest.tag));
        assert!(!new.verify(2, &key, &digest.tag));
        assert_eq!(new.digest(&key).version, 2);
        assert!(!old.verify(2, &key, &digest.tag), "the right tag under a version that does not exist");
        let other = ApiKey::generate(crate::key::KeyKind::Live, &SystemRandom::new()).unwrap();
        assert!(!old.verify(1, &other, &digest.tag));
    }

    #[test]
    fn the_most_versions_fit_the_bound_and_one_more_does_not() {
        let file = |versions: usize| {
            let lines: String =
                (0..versions).map(|i| format!("{} {}\n", i + 1_000_000_000, "ab".repeat(32))).collect();
            format!("{HEADER}\n{lines}")
        };
        assert_eq!(file(VERSIONS_MAX).len(), FILE_BYTES_MAX);
        assert!(parse(&file(VERSIONS_MAX)).is_some());
        assert!(parse(&file(VERSIONS_MAX + 1)).is_none());
    }
}
