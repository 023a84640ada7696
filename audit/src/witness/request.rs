//! The body of `add-checkpoint`: what the log thinks that the witness knows, the proof from there, and the checkpoint.

use tlog_tiles::Hash;

use super::answer::Refusal;
use super::fault::{Fault, seeded};
use crate::checkpoint::CHECKPOINT_BYTES_MAX;

/// Lines of a proof at most: no tree is higher.
pub const PROOF_LINES_MAX: usize = 63;
/// Bytes of a proof's line, with its end.
const PROOF_LINE_BYTES: usize = 45;
/// Bytes of the first line and of the empty one, at most.
const FRAME_BYTES_MAX: usize = 32;
/// Bytes of a request's body at most.
pub const REQUEST_BYTES_MAX: usize =
    CHECKPOINT_BYTES_MAX + PROOF_LINES_MAX * PROOF_LINE_BYTES + FRAME_BYTES_MAX;

/// A request that is in its form. Nothing of it is believed yet.
pub(crate) struct Request<'a> {
    /// Leaves that the witness is said to know.
    pub(crate) old: u64,
    /// Why the checkpoint begins with those.
    pub(crate) proof: Vec<Hash>,
    /// The signed checkpoint.
    pub(crate) checkpoint: &'a [u8],
}

/// Writes a request.
pub(crate) fn write(old: u64, proof: &[Hash], checkpoint: &[u8]) -> Vec<u8> {
    let mut body = format!("old {old}\n");
    for hash in proof {
        body.push_str(&format!("{hash}\n"));
    }
    body.push('\n');
    [body.as_bytes(), checkpoint].concat()
}

/// Reads a request. There is one way to write each: what is read and written again is the same bytes.
pub(crate) fn parse(body: &[u8]) -> Result<Request<'_>, Refusal> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    let (first, mut rest) = line(body)?;
    let old = first.strip_prefix("old ").and_then(decimal).ok_or(Refusal::Malformed("line `old`"))?;
    let mut proof = Vec::new();
    loop {
        let (hash, after) = line(rest)?;
        rest = after;
        if hash.is_empty() {
            return Ok(Request { old, proof, checkpoint: rest });
        }
        if proof.len() >= PROOF_LINES_MAX && !seeded(Fault::ProofUnbounded) {
            return Err(Refusal::Malformed("proof: it has more than 63 lines"));
        }
        proof.push(Hash::parse_hash(hash).map_err(|_| Refusal::Malformed("proof"))?);
    }
}

fn line(bytes: &[u8]) -> Result<(&str, &[u8]), Refusal> {
    let malformed = Refusal::Malformed("lines before the checkpoint");
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(malformed)?;
    let (line, rest) = bytes.split_at_checked(end).ok_or(malformed)?;
    let line = core::str::from_utf8(line).map_err(|_| malformed)?;
    Ok((line, rest.get(1..).unwrap_or_default()))
}

/// A number as it is written: without sign, and without zeros before it.
fn decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}
