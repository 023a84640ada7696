//! C2SP's tlog-cosignature, version 1: a witness's word that, as of a time, this is the largest tree it has seen of a log, and that all
//! it saw before is the beginning of it.

use crate::sign::NoteKey;

/// Bytes of the time before the signature.
const TIME_BYTES: usize = 8;
/// The last second that a cosignature may be of.
const TIME_MAX: u64 = u64::MAX >> 1;

/// What is signed: no note begins like this, since a log's name would have to be this line and its size the next.
pub(crate) fn message(text: &[u8], time: u64) -> Option<Vec<u8>> {
    (time <= TIME_MAX).then(|| [format!("cosignature/v1\ntime {time}\n").as_bytes(), text].concat())
}

/// The bytes of a note's signature line, after the key's id.
pub(crate) fn pack(time: u64, signature: [u8; 64]) -> Vec<u8> {
    [&time.to_be_bytes()[..], &signature].concat()
}

/// The time that `key` has cosigned `text` at, if the signature is its own.
pub(crate) fn time(key: &NoteKey, text: &[u8], packed: &[u8]) -> Option<u64> {
    let (time, signature) = packed.split_first_chunk::<TIME_BYTES>()?;
    let time = u64::from_be_bytes(*time);
    key.has_signed(&message(text, time)?, signature).then_some(time)
}

#[cfg(test)]
mod tests;
