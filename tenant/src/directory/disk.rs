//! The copy of a directory on disk, with which a gateway starts while the store is away.
//!
//! ```text
//! "bulkhead keys 3\n"  head  tenants  terms  keys  limits  CRC-32 of all before  2 confirmations
//! ```
//! The parts are in postcard's format. The head says of which store it is, and of which of its revisions.

mod confirmed;
mod stored;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::snapshot::{Snapshot, Terms};
use crate::error::StoreError;
use crate::store::{KEYS_MAX, LIMITS_MAX, StoreId, TENANTS_MAX, TenantEntry};
use crate::time::UnixMillis;
pub(super) use confirmed::confirm;
use stored::{Head, StoredKey, StoredRevision, StoredRule, StoredTenant, StoredTerms};

const MAGIC: &[u8] = b"bulkhead keys 3\n";
/// Bytes of the largest item: the terms of a key, with all the scopes that it may have.
const ITEM_BYTES_MAX: usize = 64 * 1024;

/// Why a copy was not taken.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// There is none, or it cannot be read.
    #[error("there is no copy of the keys: {0}")]
    File(#[from] io::Error),
    /// It is not what this program writes, or a part of it is lost.
    #[error("the copy of the keys is damaged")]
    Damaged,
    /// The store confirmed it too long ago.
    #[error("the copy of the keys is {} s old, and at most {} s are allowed", age.as_secs(), age_max.as_secs())]
    TooOld {
        /// How long ago.
        age: Duration,
        /// The longest allowed.
        age_max: Duration,
    },
    /// It is of another store than the one that is followed.
    #[error("the copy of the keys is one of another store ({copy}, not {store})")]
    OtherStore {
        /// Of which it is.
        copy: StoreId,
        /// Of which it must be.
        store: StoreId,
    },
    /// The system has no randomness to give.
    #[error("the system gives no randomness")]
    NoRandomness,
}

impl Snapshot {
    /// Writes the copy, which the store confirmed at `confirmed`, beside `path`, syncs it, and moves it into its place.
    pub(super) fn save(&self, path: &Path, confirmed: UnixMillis) -> io::Result<()> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = Path::new(&beside);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(beside)?;
        let mut out = Summed { inner: BufWriter::new(file), sum: crc32fast::Hasher::new() };
        self.write(&mut out)?;
        let Summed { inner: mut out, sum } = out;
        let sum = sum.finalize().to_le_bytes();
        out.write_all(&sum)?;
        out.write_all(&confirmed::both(sum, confirmed))?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(beside, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        let mut places: HashMap<*const Terms, u32> = HashMap::new();
        let mut terms: Vec<&Terms> = Vec::new();
        for entry in self.entries() {
            places.entry(Arc::as_ptr(&entry.terms)).or_insert_with(|| {
                terms.push(&entry.terms);
                count(terms.len()).saturating_sub(1)
            });
        }
        let (tenants, keys) = (count(self.tenants().count()), count(self.keys()));
        let (terms_count, rules) = (count(terms.len()), count(self.rules().count()));
        let revision = StoredRevision::of(self.revision());
        put(out, &Head { revision, tenants, terms: terms_count, keys, rules })?;
        for tenant in self.tenants() {
            put(out, &StoredTenant::of(tenant))?;
        }
        for terms in terms {
            put(out, &StoredTerms::of(terms)?)?;
        }
        for entry in self.entries() {
            let terms = places.get(&Arc::as_ptr(&entry.terms)).copied().unwrap_or(u32::MAX);
            put(out, &StoredKey::of(entry, terms))?;
        }
        self.rules().try_for_each(|rule| put(out, &StoredRule::of(rule)))
    }

    fn read(input: &mut impl Read) -> Result<Self, RecallError> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(lost)?;
        if magic != MAGIC {
            return Err(RecallError::Damaged);
        }
        let Head { revision, tenants, terms, keys, rules } = take(input)?;
        if tenants > TENANTS_MAX || terms > KEYS_MAX || keys > KEYS_MAX || rules > LIMITS_MAX {
            return Err(RecallError::Damaged);
        }
        let tenants: Vec<TenantEntry> =
            (0..tenants).map(|_| take::<StoredTenant>(input)?.read()).collect::<Result<_, _>>()?;
        let terms: Vec<Arc<Terms>> =
            (0..terms).map(|_| take::<StoredTerms>(input)?.read().map(Arc::new)).collect::<Result<_, _>>()?;
        let keys =
            (0..keys).map(|_| take::<StoredKey>(input)?.read(&terms)).collect::<Result<Vec<_>, _>>()?;
        let rules = (0..rules).map(|_| take::<StoredRule>(input)?.read()).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::whole(revision.read(), tenants, keys, rules))
    }
}

/// Reads the copy, and says how long ago the store confirmed it.
pub(super) fn load(path: &Path, age_max: Duration) -> Result<(Snapshot, Duration), RecallError> {
    let file = File::open(path)?;
    let mut input = Summed { inner: BufReader::new(file), sum: crc32fast::Hasher::new() };
    let snapshot = Snapshot::read(&mut input)?;
    let Summed { inner: mut input, sum } = input;
    let mut end = Vec::new();
    input.by_ref().take(confirmed::END_BYTES_MAX).read_to_end(&mut end)?;
    let confirmed = confirmed::newest(&end, sum.finalize().to_le_bytes()).ok_or(RecallError::Damaged)?;
    let now = UnixMillis::from_system(SystemTime::now());
    // A time that is still to come is that of a clock that was set back: nobody knows how old the copy is.
    let age = now.unsigned().checked_sub(confirmed.unsigned()).map_or(Duration::MAX, Duration::from_millis);
    if age > age_max {
        return Err(RecallError::TooOld { age, age_max });
    }
    Ok((snapshot, age))
}

impl From<StoreError> for RecallError {
    /// What no program of ours writes.
    fn from(_: StoreError) -> Self {
        Self::Damaged
    }
}

/// Sums up what passes.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.sum.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(bytes)?;
        self.sum.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// An item after its length.
fn put(out: &mut impl Write, item: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_allocvec(item).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= ITEM_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("an item is too long"))?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&bytes)
}

fn take<T: for<'a> Deserialize<'a>>(input: &mut impl Read) -> Result<T, RecallError> {
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(lost)?;
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > ITEM_BYTES_MAX {
        return Err(RecallError::Damaged);
    }
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(lost)?;
    match postcard::take_from_bytes(&bytes) {
        Ok((item, [])) => Ok(item),
        Ok(_) | Err(_) => Err(RecallError::Damaged),
    }
}

/// A file that ends too early is damaged.
fn lost(error: io::Error) -> RecallError {
    if error.kind() == io::ErrorKind::UnexpectedEof { RecallError::Damaged } else { error.into() }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
