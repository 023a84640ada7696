//! Tickets: the proof that a submission came from our gateway, for this session, once.

use crate::message::{Logprobs, Submit};
use ring::{digest, hmac};
use thiserror::Error;
use zeroize::ZeroizeOnDrop;

/// Separates this use of SHA-256 and HMAC from every other; bump with any change to what is covered.
const TICKET_DOMAIN: &[u8] = b"bulkhead wire ticket v1\0";
const TOKENS_DOMAIN: &[u8] = b"bulkhead token ids v1\0";

/// The digest of token ids that evidence is compared by: SHA-256 over a domain, the count and each id.
#[must_use]
pub fn digest_tokens(tokens: &[u32]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(TOKENS_DOMAIN);
    context.update(&count(tokens.len()));
    // Ids go in blocks, since one update an id would cost more than the hash.
    let mut block = [0; 4 * 256];
    for ids in tokens.chunks(256) {
        let (places, _) = block.as_chunks_mut::<4>();
        for (place, id) in places.iter_mut().zip(ids) {
            *place = id.to_le_bytes();
        }
        context.update(block.get(..ids.len().saturating_mul(4)).unwrap_or_default());
    }
    fixed(context.finish().as_ref())
}

/// The key that one gateway and one engine share. Wiped when dropped.
///
/// ```compile_fail
/// fn show(key: &wire::WireKey) -> String { format!("{key:?}") }
/// ```
#[derive(ZeroizeOnDrop)]
pub struct WireKey([u8; 32]);

impl WireKey {
    /// Takes 32 random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl Submit {
    /// Puts the ticket on: HMAC-SHA-256 of the session and every field that changes meaning.
    #[must_use]
    pub fn seal(mut self, key: &WireKey, session: &[u8; 16]) -> Self {
        let tag = hmac::sign(&key.hmac(), &self.covered(session));
        self.ticket = fixed(tag.as_ref());
        self
    }

    /// What the ticket covers; every part of variable length is preceded by its count.
    fn covered(&self, session: &[u8; 16]) -> Vec<u8> {
        let sampling = &self.sampling;
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(TICKET_DOMAIN);
        bytes.extend_from_slice(session);
        bytes.extend_from_slice(&self.request);
        for number in [self.tag, self.epoch, self.serial, sampling.seed] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&digest_tokens(&self.prompt));
        bytes.extend_from_slice(&digest_tokens(&self.stop_tokens));
        bytes.extend_from_slice(&self.max_tokens.to_le_bytes());
        bytes.extend_from_slice(&sampling.top_k.to_le_bytes());
        for number in [
            sampling.temperature,
            sampling.top_p,
            sampling.min_p,
            sampling.frequency_penalty,
            sampling.presence_penalty,
        ] {
            bytes.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        bytes.extend_from_slice(&count(sampling.logit_bias.len()));
        for (id, bias) in &sampling.logit_bias {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&bias.to_bits().to_le_bytes());
        }
        match sampling.logprobs {
            Logprobs::Omit => bytes.push(0),
            Logprobs::Top(top) => bytes.extend_from_slice(&[1, top]),
        }
        bytes
    }
}

/// Why a submission is not believed.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub enum TicketError {
    /// The ticket does not fit the fields, the key or the session.
    #[error("the ticket does not match the submission")]
    Forged,
    /// The submission was meant for another life of the engine.
    #[error("the submission names epoch {named}, this is epoch {epoch}")]
    WrongEpoch {
        /// What it named.
        named: u64,
        /// What it is.
        epoch: u64,
    },
    /// The serial did not rise: the submission was seen before, or came out of order.
    #[error("serial {serial} came after {last}")]
    Replayed {
        /// What it named.
        serial: u64,
        /// The last one accepted.
        last: u64,
    },
}

/// The engine's side of one session: accepts each ticket once, in order.
pub struct TicketCheck {
    key: hmac::Key,
    session: [u8; 16],
    epoch: u64,
    last: u64,
}

impl TicketCheck {
    /// A new session; `session` must be fresh random bytes.
    #[must_use]
    pub fn new(key: &WireKey, session: [u8; 16], epoch: u64) -> Self {
        Self { key: key.hmac(), session, epoch, last: 0 }
    }

    /// Checks the ticket, then the epoch, then that the serial rises from 0.
    ///
    /// # Errors
    /// See [`TicketError`].
    pub fn accept(&mut self, submit: &Submit) -> Result<(), TicketError> {
        hmac::verify(&self.key, &submit.covered(&self.session), &submit.ticket)
            .map_err(|_| TicketError::Forged)?;
        if submit.epoch != self.epoch {
            return Err(TicketError::WrongEpoch { named: submit.epoch, epoch: self.epoch });
        }
        if submit.serial <= self.last {
            return Err(TicketError::Replayed { serial: submit.serial, last: self.last });
        }
        self.last = submit.serial;
        Ok(())
    }
}

pub(crate) fn count(length: usize) -> [u8; 8] {
    u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes()
}

/// SHA-256 and HMAC-SHA-256 give 32 bytes; anything else would leave zeros, which match nothing.
pub(crate) fn fixed(bytes: &[u8]) -> [u8; 32] {
    bytes.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sampling;

    const SESSION: [u8; 16] = [5; 16];

    fn submit(serial: u64) -> Submit {
        Submit {
            request: [1; 16],
            tag: 2,
            epoch: 3,
            serial,
            prompt: vec![4, 5],
            max_tokens: 6,
            stop_tokens: vec![7],
            sampling: Sampling {
                temperature: 1.0,
                top_p: 1.0,
                top_k: 0,
                min_p: 0.0,
                seed: 8,
                frequency_penalty: 0.0,
                presence_penalty: 0.0,
                logit_bias: vec![(9, 1.0)],
                logprobs: Logprobs::Top(2),
            },
            ticket: [0; 32],
        }
    }

    fn key() -> WireKey {
        WireKey::new([11; 32])
    }

    #[test]
    fn a_ticket_is_accepted_once() {
        let mut check = TicketCheck::new(&key(), SESSION, 3);
        let sealed = submit(1).seal(&key(), &SESSION);
        assert_eq!(check.accept(&sealed), Ok(()));
        assert_eq!(check.accept(&sealed), Err(TicketError::Replayed { serial: 1, last: 1 }));
        assert_eq!(check.accept(&submit(2).seal(&key(), &SESSION)), Ok(()));
    }

    #[test]
    fn every_field_is_covered() {
        type Change = fn(&mut Submit);
        let changes: [Change; 17] = [
            |s| s.request[0] ^= 1,
            |s| s.tag ^= 1,
            |s| s.epoch ^= 1,
            |s| s.serial ^= 8,
            |s| s.prompt.push(0),
            |s| s.max_tokens ^= 1,
            |s| s.stop_tokens.clear(),
            |s| s.sampling.temperature = 0.5,
            |s| s.sampling.top_p = 0.5,
            |s| s.sampling.top_k = 1,
            |s| s.sampling.min_p = 0.5,
            |s| s.sampling.seed ^= 1,
            |s| s.sampling.frequency_penalty = 0.5,
            |s| s.sampling.presence_penalty = 0.5,
            |s| s.sampling.logit_bias[0].1 = 2.0,
            |s| s.sampling.logprobs = Logprobs::Top(3),
            |s| s.ticket[31] ^= 1,
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut sealed = submit(1).seal(&key(), &SESSION);
            change(&mut sealed);
            let mut check = TicketCheck::new(&key(), SESSION, 3);
            assert_eq!(check.accept(&sealed), Err(TicketError::Forged), "change {index} was not noticed");
        }
    }

    #[test]
    fn another_session_key_or_epoch_is_refused() {
        let sealed = submit(1).seal(&key(), &SESSION);
        assert_eq!(TicketCheck::new(&key(), [6; 16], 3).accept(&sealed), Err(TicketError::Forged));
        assert_eq!(
            TicketCheck::new(&WireKey::new([12; 32]), SESSION, 3).accept(&sealed),
            Err(TicketError::Forged)
        );
        assert_eq!(
            TicketCheck::new(&key(), SESSION, 4).accept(&sealed),
            Err(TicketError::WrongEpoch { named: 3, epoch: 4 })
        );
    }

    #[test]
    fn the_token_digest_tells_counts_and_orders_apart() {
        let long: Vec<u32> = (0..1000).collect();
        let digests =
            [vec![], vec![0], vec![0, 0], vec![1, 2], vec![2, 1], long].map(|ids| digest_tokens(&ids));
        for (i, a) in digests.iter().enumerate() {
            for b in digests.iter().skip(i + 1) {
                assert_ne!(a, b);
            }
        }
    }
}
