//! The key as its holder presents it.
//!
//! ```text
//! bh_live_3kTMd0ZyQ9aB_q7…43 characters…Xw1z9Kd2
//! prefix  id: 12       secret: 43       crc: 6        base 62
//! ```
//! For secret scanners: [`KEY_PATTERN`]. The checksum (CRC-32 of all before it) turns away typos before any look-up
//! and lets secret scanners match without false alarms; it protects nothing. The secret has 43 x log2(62) = 256.03
//! bits.

use core::fmt;

use ring::error::Unspecified;
use ring::rand::SecureRandom;
use zeroize::Zeroizing;

use crate::base62;
use crate::secret::Secret;

/// Characters of the longest key.
pub const KEY_CHARS_MAX: usize = 71;
/// What a key looks like, as a regular expression for secret scanners.
pub const KEY_PATTERN: &str = "bh_(live|test|admin|audit)_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}";

const ID_CHARS: usize = 12;
const SECRET_CHARS: usize = 43;

/// Finds a key: 12 base-62 characters. It is no secret; listings and logs show it.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct KeyId([u8; ID_CHARS]);

impl KeyId {
    /// Reads an id, as it stands in a listing.
    pub fn parse(text: &str) -> Option<Self> {
        let id: [u8; ID_CHARS] = text.as_bytes().try_into().ok()?;
        id.iter().all(|byte| base62::is_digit(*byte)).then_some(Self(id))
    }

    /// The 12 characters.
    pub fn as_str(&self) -> &str {
        // Base-62 digits are ASCII: both makers check.
        core::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The 12 characters, as ASCII.
    pub const fn bytes(&self) -> &[u8; 12] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// What a key is for. A key of one kind cannot do what is another's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum KeyKind {
    /// Asks models.
    Live,
    /// Asks models, and is listed apart in usage.
    Test,
    /// Changes tenants, projects and keys, in the name of a person.
    Admin,
    /// Reads a tenant's part of the audit log.
    Audit,
}

impl KeyKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Live, Self::Test, Self::Admin, Self::Audit];

    /// As it stands in a key, in a listing and in the store.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
            Self::Admin => "admin",
            Self::Audit => "audit",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Live => "bh_live_",
            Self::Test => "bh_test_",
            Self::Admin => "bh_admin_",
            Self::Audit => "bh_audit_",
        }
    }
}

/// What was presented is no key. It does not say why: whoever asks has no right to learn.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("not an API key")]
pub struct NotAKey;

/// A key with its secret; wiped when dropped, and not printable.
///
/// ```compile_fail,E0277
/// let key = tenant::ApiKey::parse("bh_live_").unwrap();
/// println!("{key:?}");
/// ```
/// ```compile_fail,E0599
/// let key = tenant::ApiKey::parse("bh_live_").ok().unwrap();
/// let copy = key.clone();
/// ```
pub struct ApiKey {
    kind: KeyKind,
    id: KeyId,
    secret: Zeroizing<[u8; SECRET_CHARS]>,
}

impl ApiKey {
    /// Makes a key that nobody has.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn generate(kind: KeyKind, random: &dyn SecureRandom) -> Result<Self, Unspecified> {
        Self::another(kind, KeyId(*base62::random(random)?), random)
    }

    /// Makes another secret for a key.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn another(kind: KeyKind, id: KeyId, random: &dyn SecureRandom) -> Result<Self, Unspecified> {
        Ok(Self { kind, id, secret: base62::random(random)? })
    }

    /// The same secret under another id.
    #[cfg(test)]
    pub(crate) fn with_id(&self, id: KeyId) -> Self {
        Self { kind: self.kind, id, secret: self.secret.clone() }
    }

    /// Reads a key; looks at no more than [`KEY_CHARS_MAX`] bytes of `presented`.
    ///
    /// # Errors
    /// [`NotAKey`] for a wrong length, prefix, character or checksum.
    pub fn parse(presented: &str) -> Result<Self, NotAKey> {
        Self::read(presented).ok_or(NotAKey)
    }

    fn read(presented: &str) -> Option<Self> {
        if presented.len() > KEY_CHARS_MAX {
            return None;
        }
        let (rest, sum) = presented.as_bytes().split_last_chunk::<6>()?;
        let of_kind = |kind: KeyKind| Some((kind, rest.strip_prefix(kind.prefix().as_bytes())?));
        let (kind, digits) = KeyKind::ALL.into_iter().find_map(of_kind)?;
        let (id, secret) = digits.split_first_chunk::<ID_CHARS>()?;
        let secret: &[u8; SECRET_CHARS] = secret.strip_prefix(b"_")?.try_into().ok()?;
        let are_digits = id.iter().chain(secret).all(|byte| base62::is_digit(*byte));
        let sum_holds = base62::decode_u32(sum)? == crc32fast::hash(rest);
        (are_digits && sum_holds).then(|| Self { kind, id: KeyId(*id), secret: Zeroizing::new(*secret) })
    }

    /// What it says it is for.
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The public part.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// What is authenticated of a key: its id and its secret, so that a digest is good for one id only.
    pub(crate) fn proof(&self) -> Zeroizing<[u8; ID_CHARS + SECRET_CHARS]> {
        let mut proof = Zeroizing::new([0; ID_CHARS + SECRET_CHARS]);
        for (to, from) in proof.iter_mut().zip(self.id.0.iter().chain(self.secret.iter())) {
            *to = *from;
        }
        proof
    }

    /// The whole key, to be shown once.
    pub fn reveal(&self) -> Secret<String> {
        // One allocation of the final size: growing would leave copies behind.
        let mut text = String::with_capacity(KEY_CHARS_MAX);
        text.push_str(self.kind.prefix());
        text.extend(self.id.0.iter().copied().map(char::from));
        text.push('_');
        text.extend(self.secret.iter().copied().map(char::from));
        let sum = base62::encode_u32(crc32fast::hash(text.as_bytes()));
        text.extend(sum.into_iter().map(char::from));
        Secret::new(text)
    }
}

#[cfg(test)]
mod tests;
