//! The engine's statement of what it did for one sequence, signed by its boot key, as a compact JWS (RFC 7515) of the kind
//! `EdDSA` (RFC 8037). Numbers and digests alone: no text, no tag, no tenant name.
//!
//! Two readings of one statement cannot differ: the header is one text, and so is the payload of any claims, whose names, order
//! and form are those of [`Statement::payload`]. What is written in another way is refused, even if it says the same.

use crate::message::{Finished, RequestId};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SecureRandom,
    signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey},
};
use thiserror::Error;
use zeroize::Zeroizing;

mod text;

/// Bytes of a statement at most: the longest that any claims give, rounded up.
pub const STATEMENT_BYTES_MAX: usize = 1_536;

/// The one header.
const HEADER: &str = r#"{"alg":"EdDSA","typ":"bulkhead-engine-statement"}"#;

/// What an engine signs its statements with: made at its start, one for each life, held in memory alone.
///
/// ```compile_fail,E0277
/// fn show(key: &wire::BootKey) -> String { format!("{key:?}") }
/// ```
pub struct BootKey(Ed25519KeyPair);

impl BootKey {
    /// A fresh one; `None` when the system gives no randomness.
    pub fn make(random: &dyn SecureRandom) -> Option<Self> {
        let mut seed = Zeroizing::new([0; 32]);
        random.fill(seed.as_mut()).ok()?;
        Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).ok().map(Self)
    }

    /// What its signatures are verified by.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        // Zeros, which verify nothing, where a public key had another length than 32 bytes.
        self.0.public_key().as_ref().try_into().unwrap_or_default()
    }
}

/// What the engine did for one sequence that completed. The claims of the payload, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The sequence.
    pub request: RequestId,
    /// The engine's life.
    pub epoch: u64,
    /// SHA-256 of the model file.
    pub model: [u8; 32],
    /// [`crate::digest_tokens`] of the ids that prefill consumed.
    pub prompt_sha256: [u8; 32],
    /// How many ids were sent.
    pub prompt_tokens: u32,
    /// Tokens adopted from the tenant's own sealed prefix.
    pub cached: u32,
    /// Tokens of the prompt written by this sequence.
    pub written: u32,
    /// Positions that the last prompt row attended to.
    pub attended: u32,
    /// Pages that the sequence read.
    pub pages: u32,
    /// Digest of those pages' ids and generations.
    pub generations: u64,
    /// Tokens to generate at most.
    pub max_tokens: u32,
    /// See [`crate::Sampling`]; so are the next five.
    pub temperature: f32,
    /// Nucleus mass.
    pub top_p: f32,
    /// Likeliest tokens kept.
    pub top_k: u32,
    /// Least part of the likeliest's probability.
    pub min_p: f32,
    /// For how often a token was generated.
    pub frequency_penalty: f32,
    /// For a token that was generated.
    pub presence_penalty: f32,
    /// [`crate::digest_bias`] of what is added to logits.
    pub logit_bias_sha256: [u8; 32],
    /// [`crate::digest_tokens`] of the tokens that end the sequence.
    pub stop_sha256: [u8; 32],
    /// Randomness is a function of this and the position alone.
    pub seed: u64,
    /// Why there are no more tokens.
    pub finish: Finished,
    /// Tokens sent.
    pub output_tokens: u32,
    /// [`crate::OutputDigest`] of the ids sent, in their order.
    pub output_sha256: [u8; 32],
}

/// A statement that is not signed or not believed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum StatementError {
    /// Longer than any statement can be.
    #[error("a statement of {bytes} bytes is over the limit of {STATEMENT_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Not three parts in base64url without padding.
    #[error("a statement is no compact JWS: three parts in base64url, without padding")]
    Form,
    /// The header is not the one of a statement, to the byte.
    #[error("the header of a statement is not {HEADER}")]
    Header,
    /// Another key signed it, or something else was signed.
    #[error("the signature of a statement does not fit the engine's boot key")]
    Signature,
    /// A claim is absent, in another place, or in another form.
    #[error("the claim {claim} of a statement is absent, in another place or in another form")]
    Claim {
        /// Which.
        claim: &'static str,
    },
    /// All claims are there, and something beside them, or a number in another form.
    #[error("the payload of a statement is not in its one form")]
    Payload,
    /// A claim is a number that JSON has no form for.
    #[error("the claim {claim} is not a finite number and cannot be stated")]
    NotFinite {
        /// Which.
        claim: &'static str,
    },
}

impl Statement {
    /// The compact JWS of these claims.
    ///
    /// # Errors
    /// [`StatementError::NotFinite`]; the engine admits no such number.
    pub fn sign(&self, key: &BootKey) -> Result<String, StatementError> {
        if let Some(claim) = self.not_finite() {
            return Err(StatementError::NotFinite { claim });
        }
        let mut jws = String::with_capacity(STATEMENT_BYTES_MAX);
        URL_SAFE_NO_PAD.encode_string(HEADER, &mut jws);
        jws.push('.');
        URL_SAFE_NO_PAD.encode_string(self.payload(), &mut jws);
        let signature = key.0.sign(jws.as_bytes());
        jws.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut jws);
        Ok(jws)
    }

    /// The claims of a compact JWS that the boot key with this public part signed.
    ///
    /// # Errors
    /// See [`StatementError`]; nothing of the payload is looked at before its signature is verified.
    pub fn read(jws: &str, key: &[u8; 32]) -> Result<Self, StatementError> {
        if jws.len() > STATEMENT_BYTES_MAX {
            return Err(StatementError::TooLong { bytes: jws.len() });
        }
        let (signed, signature) = jws.rsplit_once('.').ok_or(StatementError::Form)?;
        let (header, payload) = signed.split_once('.').ok_or(StatementError::Form)?;
        if header != URL_SAFE_NO_PAD.encode(HEADER) {
            return Err(StatementError::Header);
        }
        let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| StatementError::Form);
        let signature = decoded(signature)?;
        UnparsedPublicKey::new(&ED25519, key)
            .verify(signed.as_bytes(), &signature)
            .map_err(|_| StatementError::Signature)?;
        let payload = String::from_utf8(decoded(payload)?).map_err(|_| StatementError::Payload)?;
        Self::from_payload(&payload)
    }

    /// The first claim in which the other statement says something else.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<&'static str> {
        let pairs = self.claims().into_iter().zip(other.claims());
        pairs.into_iter().find(|(own, other)| own != other).map(|((claim, _), _)| claim)
    }
}

#[cfg(test)]
mod tests;
