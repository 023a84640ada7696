//! The log's key, and the keys of others: Ed25519 in the forms of C2SP's signed notes.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use signed_note::{Signature, Verifier, is_key_name_valid, key_id};
use zeroize::Zeroizing;

use crate::cosign;
use crate::hex::Hex;

/// A note's signature by Ed25519 over its text.
const PLAIN: u8 = 1;
/// A cosignature by Ed25519, over a checkpoint and the time at which a witness saw it.
const COSIGNATURE: u8 = 4;
/// Bytes of a key's name at most.
const NAME_BYTES_MAX: usize = 128;

/// The key that signs a log's checkpoints, or with which a witness cosigns those of others: never both, its kind says which. It has no
/// `Debug` and is written by [`LogKey::private`] alone.
pub struct LogKey {
    name: String,
    kind: u8,
    pair: Ed25519KeyPair,
    seed: Zeroizing<[u8; 32]>,
}

/// Why text is no key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// A name that notes cannot have.
    #[error("a key's name has 1 to {NAME_BYTES_MAX} bytes, no space and no plus sign")]
    Name,
    /// Not the form.
    #[error("a key is NAME+HASH+BASE64, a private one after PRIVATE+KEY+, as C2SP's signed notes write it")]
    Form,
    /// A log's key where a witness's is due, or the other way round.
    #[error(
        "the key is of kind {found}, and {wanted} is needed: {PLAIN} is a log's, {COSIGNATURE} a witness's"
    )]
    Kind {
        /// Its kind.
        found: u8,
        /// The kind that is needed.
        wanted: u8,
    },
    /// The hash is of another key.
    #[error("the key's hash is not its own: a letter of it was changed")]
    Hash,
    /// The system has no random bytes.
    #[error("the system gives no random bytes")]
    Random,
}

impl LogKey {
    /// A new key.
    ///
    /// # Errors
    /// [`KeyError::Name`], [`KeyError::Random`].
    pub fn generate(name: &str) -> Result<Self, KeyError> {
        Self::from_seed(name, random_seed()?)
    }

    /// A new key of a witness.
    ///
    /// # Errors
    /// As [`LogKey::generate`].
    pub fn generate_witness(name: &str) -> Result<Self, KeyError> {
        Self::of_kind(name, COSIGNATURE, random_seed()?)
    }

    /// A new key with a name that no other log has: `prefix/` and 16 random hex digits.
    ///
    /// # Errors
    /// As [`LogKey::generate`].
    pub fn unique(prefix: &str) -> Result<Self, KeyError> {
        Self::generate(&unique_name(prefix)?)
    }

    /// A new key of a witness with a name that no other has.
    ///
    /// # Errors
    /// As [`LogKey::generate`].
    pub fn unique_witness(prefix: &str) -> Result<Self, KeyError> {
        Self::generate_witness(&unique_name(prefix)?)
    }

    pub(crate) fn from_seed(name: &str, seed: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        Self::of_kind(name, PLAIN, seed)
    }

    #[cfg(test)]
    pub(crate) fn witness_from_seed(name: &str, seed: [u8; 32]) -> Self {
        Self::of_kind(name, COSIGNATURE, Zeroizing::new(seed)).unwrap()
    }

    fn of_kind(name: &str, kind: u8, seed: Zeroizing<[u8; 32]>) -> Result<Self, KeyError> {
        check_name(name)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| KeyError::Form)?;
        Ok(Self { name: name.to_owned(), kind, pair, seed })
    }

    /// Reads `PRIVATE+KEY+NAME+HASH+BASE64` of a log.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Self::parse_of(text, PLAIN)
    }

    /// Reads `PRIVATE+KEY+NAME+HASH+BASE64` of a witness.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse_witness(text: &str) -> Result<Self, KeyError> {
        Self::parse_of(text, COSIGNATURE)
    }

    fn parse_of(text: &str, wanted: u8) -> Result<Self, KeyError> {
        let rest = text.trim_end().strip_prefix("PRIVATE+KEY+").ok_or(KeyError::Form)?;
        let (name, hash, bytes) = parts(rest)?;
        let bytes = Zeroizing::new(bytes);
        let (kind, seed) = bytes.split_first().ok_or(KeyError::Form)?;
        check_kind(*kind, wanted)?;
        let seed: [u8; 32] = seed.try_into().map_err(|_| KeyError::Form)?;
        let key = Self::of_kind(name, wanted, Zeroizing::new(seed))?;
        if key.id() == hash { Ok(key) } else { Err(KeyError::Hash) }
    }

    /// `PRIVATE+KEY+NAME+HASH+BASE64`: for a file that only its owner can read, and nowhere else.
    pub fn private(&self) -> Zeroizing<String> {
        let bytes = Zeroizing::new([&[self.kind], &self.seed[..]].concat());
        let base64 = Zeroizing::new(BASE64.encode(&*bytes));
        Zeroizing::new(format!("PRIVATE+KEY+{}+{:08x}+{}", self.name, self.id(), *base64))
    }

    /// What verifies this key's signatures.
    pub fn public(&self) -> NoteKey {
        let mut public = [0; 32];
        public.copy_from_slice(self.pair.public_key().as_ref());
        NoteKey { name: self.name.clone(), kind: self.kind, public }
    }

    /// The key's name, which is the log's origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> u32 {
        self.public().key_id()
    }

    /// Signs `text` as a note. None for a witness's key, which never signs what it has not put a time to.
    pub(crate) fn note(&self, text: &[u8]) -> Option<Signature> {
        self.signature(PLAIN, self.sign(text).to_vec())
    }

    /// Cosigns a checkpoint's text as of `time`, in seconds of Unix. None for a log's key, and for a time that no cosignature may have.
    pub(crate) fn cosign(&self, text: &[u8], time: u64) -> Option<Signature> {
        let message = cosign::message(text, time)?;
        self.signature(COSIGNATURE, cosign::pack(time, self.sign(&message)))
    }

    fn signature(&self, kind: u8, bytes: Vec<u8>) -> Option<Signature> {
        if self.kind != kind {
            return None;
        }
        Signature::new(self.name.clone(), self.id(), bytes).ok()
    }

    /// Signs bytes that are in a form of their own, which no note has.
    pub fn sign(&self, bytes: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(bytes).as_ref());
        signature
    }
}

/// A public key, with its name: of a log, or of a witness.
#[derive(Clone, Eq, PartialEq)]
pub struct NoteKey {
    name: String,
    kind: u8,
    public: [u8; 32],
}

impl NoteKey {
    /// Reads `NAME+HASH+BASE64` of a log.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Self::parse_of(text, PLAIN)
    }

    /// Reads `NAME+HASH+BASE64` of a witness.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse_witness(text: &str) -> Result<Self, KeyError> {
        Self::parse_of(text, COSIGNATURE)
    }

    fn parse_of(text: &str, wanted: u8) -> Result<Self, KeyError> {
        let (name, hash, bytes) = parts(text.trim_end())?;
        check_name(name)?;
        let (kind, public) = bytes.split_first().ok_or(KeyError::Form)?;
        check_kind(*kind, wanted)?;
        let public = public.try_into().map_err(|_| KeyError::Form)?;
        let key = Self { name: name.to_owned(), kind: *kind, public };
        if key.key_id() == hash { Ok(key) } else { Err(KeyError::Hash) }
    }

    /// Whether `signature` is this key's over `bytes` that are in a form of their own.
    pub fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.public).verify(bytes, signature).is_ok()
    }

    /// Whether it is a log's, and not a witness's.
    pub(crate) const fn is_log(&self) -> bool {
        self.kind == PLAIN
    }

    /// Whether it is a witness's.
    pub(crate) const fn is_witness(&self) -> bool {
        self.kind == COSIGNATURE
    }

    /// The key itself.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.public
    }

    fn encoded(&self) -> Vec<u8> {
        [&[self.kind], &self.public[..]].concat()
    }
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:08x}+{}", self.name, self.key_id(), BASE64.encode(self.encoded()))
    }
}

impl fmt::Debug for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Verifier for NoteKey {
    fn name(&self) -> &str {
        &self.name
    }

    fn key_id(&self) -> u32 {
        key_id(&self.name, &self.encoded())
    }

    fn verify(&self, text: &[u8], signature: &[u8]) -> bool {
        if self.is_witness() {
            cosign::time(self, text, signature).is_some()
        } else {
            self.has_signed(text, signature)
        }
    }
}

fn unique_name(prefix: &str) -> Result<String, KeyError> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(format!("{prefix}/{}", Hex(bytes)))
}

fn random_seed() -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let mut seed = Zeroizing::new([0; 32]);
    SystemRandom::new().fill(&mut *seed).map_err(|_| KeyError::Random)?;
    Ok(seed)
}

/// A log's key where a witness's is due would pass a signature off as what it is not.
const fn check_kind(found: u8, wanted: u8) -> Result<(), KeyError> {
    if found == wanted { Ok(()) } else { Err(KeyError::Kind { found, wanted }) }
}

/// Name, hash and bytes of a key. The name may have no plus sign; base64 may.
fn parts(text: &str) -> Result<(&str, u32, Vec<u8>), KeyError> {
    let (name, rest) = text.split_once('+').ok_or(KeyError::Form)?;
    let (hash, base64) = rest.split_once('+').ok_or(KeyError::Form)?;
    let is_hash = hash.len() == 8 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    let hash = u32::from_str_radix(hash, 16).ok().filter(|_| is_hash).ok_or(KeyError::Form)?;
    Ok((name, hash, BASE64.decode(base64).map_err(|_| KeyError::Form)?))
}

fn check_name(name: &str) -> Result<(), KeyError> {
    let is_printable = name.chars().all(|letter| !letter.is_control());
    let is_good = name.len() <= NAME_BYTES_MAX && is_key_name_valid(name) && is_printable;
    if is_good { Ok(()) } else { Err(KeyError::Name) }
}

#[cfg(test)]
mod tests;
