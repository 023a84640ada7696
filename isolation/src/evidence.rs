//! What the gateway believes of an engine, and by which proof. Knows no text.

use crate::{
    tag::TenantTag,
    units::{Epoch, Pages, Tokens},
};

/// What an engine says it has prefilled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Evidence {
    /// The sequence.
    pub request: [u8; 16],
    /// Its tenant.
    pub tag: TenantTag,
    /// The engine's life.
    pub epoch: Epoch,
    /// SHA-256 of the token ids that the prompt's positions hold.
    pub prompt_digest: [u8; 32],
    /// Tokens written by this sequence.
    pub written: Tokens,
    /// Positions that the last prompt row attended to.
    pub attended: Tokens,
    /// Tokens adopted from the tenant's own sealed prefix.
    pub cached: Tokens,
    /// Pages that the sequence reads.
    pub pages: Pages,
    /// Digest of those pages' numbers and generations.
    pub generations: u64,
}

/// What was sent, and so what must come back.
#[derive(Debug)]
pub struct Expectation {
    request: [u8; 16],
    tag: TenantTag,
    epoch: Epoch,
    prompt_digest: [u8; 32],
    prompt: Tokens,
}

impl Expectation {
    /// Of one sequence: its id, tenant, engine life, and the digest and count of its prompt's token ids.
    pub const fn new(
        request: [u8; 16],
        tag: TenantTag,
        epoch: Epoch,
        prompt_digest: [u8; 32],
        prompt: Tokens,
    ) -> Self {
        Self { request, tag, epoch, prompt_digest, prompt }
    }

    /// Compares each field with what was sent.
    ///
    /// # Errors
    /// The first field that differs: the request must fail, and an alarm be raised.
    pub fn judge(self, evidence: &Evidence) -> Result<(FirstToken, StampCheck), IntegrityError> {
        let stamp =
            Stamp { request: evidence.request, tag: evidence.tag, epoch: evidence.epoch, sequence: 0 };
        let mut check = StampCheck { request: self.request, tag: self.tag, epoch: self.epoch, next: Some(0) };
        check.accept(stamp, ())?.into_inner();
        // I11
        let prompt = self.prompt;
        let Evidence { written, attended, cached, pages, .. } = *evidence;
        if evidence.prompt_digest != self.prompt_digest {
            return Err(IntegrityError::PromptDigest { prompt });
        }
        if attended != prompt {
            return Err(IntegrityError::Attended { prompt, attended });
        }
        if written.checked_add(cached) != Some(prompt) {
            return Err(IntegrityError::Written { prompt, written, cached });
        }
        if cached >= prompt {
            return Err(IntegrityError::CachedWhole { prompt, cached });
        }
        if pages == Pages::ZERO {
            return Err(IntegrityError::NoPages { prompt });
        }
        Ok((FirstToken { request: self.request, cached }, check))
    }
}

/// Proof that an engine prefilled this request's very tokens: what a 200 is made from. Only
/// [`Expectation::judge`] makes one.
///
/// ```compile_fail,E0451
/// let forged = isolation::evidence::FirstToken { request: [0; 16], cached: todo!() };
/// ```
/// ```compile_fail,E0599
/// use isolation::evidence::FirstToken;
/// fn twice(first: FirstToken) -> [FirstToken; 2] { [first.clone(), first] }
/// ```
#[derive(Debug)]
#[must_use = "a 200 takes it by value"]
pub struct FirstToken {
    request: [u8; 16],
    cached: Tokens,
}

impl FirstToken {
    /// The sequence that it is the proof of.
    pub const fn request(&self) -> [u8; 16] {
        self.request
    }

    /// Tokens of the prompt that came from the tenant's own sealed prefix.
    pub const fn cached(&self) -> Tokens {
        self.cached
    }
}

/// Names one frame of one sequence in one life of an engine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// The sequence.
    pub request: [u8; 16],
    /// Its tenant.
    pub tag: TenantTag,
    /// The engine's life.
    pub epoch: Epoch,
    /// 0 for the evidence, then one more for each frame.
    pub sequence: u32,
}

/// Accepts the frames of one sequence in order, and after one wrong frame none.
#[derive(Debug)]
pub struct StampCheck {
    request: [u8; 16],
    tag: TenantTag,
    epoch: Epoch,
    /// `None` after a wrong frame, or after the last number.
    next: Option<u32>,
}

impl StampCheck {
    /// Lets `payload` through if `stamp` is the one that must come next.
    ///
    /// # Errors
    /// The field that differs: the stream must be cut, and an alarm be raised.
    pub fn accept<T>(&mut self, stamp: Stamp, payload: T) -> Result<Verified<T>, IntegrityError> {
        // I11: taken, so that a wrong frame leaves none to come.
        let next = self.next.take().ok_or(IntegrityError::Closed { sequence: stamp.sequence })?;
        if stamp.request != self.request {
            return Err(IntegrityError::Request { expected: self.request, got: stamp.request });
        }
        if stamp.tag != self.tag {
            return Err(IntegrityError::Tag { expected: self.tag, got: stamp.tag });
        }
        if stamp.epoch != self.epoch {
            return Err(IntegrityError::Epoch { expected: self.epoch, got: stamp.epoch });
        }
        if stamp.sequence != next {
            return Err(IntegrityError::Sequence { expected: next, got: stamp.sequence });
        }
        self.next = next.checked_add(1);
        Ok(Verified(payload))
    }
}

/// A payload whose stamp was checked: the only thing that goes out. Only [`StampCheck::accept`] makes one.
///
/// ```compile_fail,E0603
/// let forged = isolation::evidence::Verified("another tenant's token");
/// ```
#[derive(Debug)]
#[must_use = "a verified payload is to be sent"]
pub struct Verified<T>(T);

impl<T> Verified<T> {
    /// What was checked.
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// The engine's word and what was sent are not the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IntegrityError {
    /// A frame of another request.
    Request {
        /// Ours.
        expected: [u8; 16],
        /// The frame's.
        got: [u8; 16],
    },
    /// A frame of another tenant.
    Tag {
        /// Ours.
        expected: TenantTag,
        /// The frame's.
        got: TenantTag,
    },
    /// A frame of another engine life.
    Epoch {
        /// Ours.
        expected: Epoch,
        /// The frame's.
        got: Epoch,
    },
    /// A frame out of order.
    Sequence {
        /// The number that must come.
        expected: u32,
        /// The number that came.
        got: u32,
    },
    /// A frame after a wrong one.
    Closed {
        /// Its number.
        sequence: u32,
    },
    /// Other token ids were prefilled.
    PromptDigest {
        /// Tokens sent.
        prompt: Tokens,
    },
    /// The last row did not attend to the prompt, the whole prompt and nothing else.
    Attended {
        /// Tokens sent.
        prompt: Tokens,
        /// Positions attended.
        attended: Tokens,
    },
    /// Written and cached tokens are not the prompt.
    Written {
        /// Tokens sent.
        prompt: Tokens,
        /// Tokens written.
        written: Tokens,
        /// Tokens cached.
        cached: Tokens,
    },
    /// Nothing was computed.
    CachedWhole {
        /// Tokens sent.
        prompt: Tokens,
        /// Tokens cached.
        cached: Tokens,
    },
    /// No page holds the prompt.
    NoPages {
        /// Tokens sent.
        prompt: Tokens,
    },
    /// The engine's signed statement is absent, or not of what was sent and received.
    Statement,
}

impl core::fmt::Display for IntegrityError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Request { .. } => f.write_str("a frame of another request"),
            Self::Tag { expected, got } => write!(f, "a frame of tenant {got} for tenant {expected}"),
            Self::Epoch { expected, got } => write!(f, "a frame of epoch {got} in epoch {expected}"),
            Self::Sequence { expected, got } => write!(f, "frame {got} came where {expected} must"),
            Self::Closed { sequence } => write!(f, "frame {sequence} after a wrong one"),
            Self::PromptDigest { prompt } => write!(f, "other tokens than the {prompt} sent were prefilled"),
            Self::Attended { prompt, attended } => write!(f, "{attended} positions attended of {prompt}"),
            Self::Written { prompt, written, cached } => {
                write!(f, "{written} tokens written and {cached} cached of {prompt}")
            }
            Self::CachedWhole { prompt, cached } => {
                write!(f, "{cached} tokens cached of {prompt}, none computed")
            }
            Self::NoPages { prompt } => write!(f, "no page holds the {prompt} tokens"),
            Self::Statement => f.write_str("no signed statement of what was sent and received"),
        }
    }
}

impl core::error::Error for IntegrityError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: TenantTag = TenantTag::new(3);
    const EPOCH: Epoch = Epoch::new(5);

    fn judged(change: impl FnOnce(&mut Evidence)) -> Result<(FirstToken, StampCheck), IntegrityError> {
        let mut evidence = Evidence {
            request: [1; 16],
            tag: TAG,
            epoch: EPOCH,
            prompt_digest: [2; 32],
            written: Tokens::new(6),
            attended: Tokens::new(10),
            cached: Tokens::new(4),
            pages: Pages::new(3),
            generations: 0,
        };
        change(&mut evidence);
        Expectation::new([1; 16], TAG, EPOCH, [2; 32], Tokens::new(10)).judge(&evidence)
    }

    fn refused(change: impl FnOnce(&mut Evidence)) -> IntegrityError {
        judged(change).map(|_| ()).unwrap_err()
    }

    #[test]
    fn evidence_passes_only_if_each_field_is_as_sent() {
        // I11
        let (first, _) = judged(|_| ()).unwrap();
        assert_eq!((first.request(), first.cached()), ([1; 16], Tokens::new(4)));
        let prompt = Tokens::new(10);
        let (written, cached) = (Tokens::new(6), Tokens::new(4));
        assert_eq!(
            refused(|e| e.request = [9; 16]),
            IntegrityError::Request { expected: [1; 16], got: [9; 16] }
        );
        let other = TenantTag::new(4);
        assert_eq!(refused(|e| e.tag = other), IntegrityError::Tag { expected: TAG, got: other });
        let other = Epoch::new(4);
        assert_eq!(refused(|e| e.epoch = other), IntegrityError::Epoch { expected: EPOCH, got: other });
        assert_eq!(refused(|e| e.prompt_digest[31] ^= 1), IntegrityError::PromptDigest { prompt });
        for wrong in [0, 1, 9, 11] {
            let attended = Tokens::new(wrong);
            assert_eq!(refused(|e| e.attended = attended), IntegrityError::Attended { prompt, attended });
        }
        for wrong in [0, 5, 7, u32::MAX] {
            let wrong = Tokens::new(wrong);
            let error = refused(|e| e.written = wrong);
            assert_eq!(error, IntegrityError::Written { prompt, written: wrong, cached });
            let error = refused(|e| e.cached = wrong);
            assert_eq!(error, IntegrityError::Written { prompt, written, cached: wrong });
        }
        let whole = refused(|e| (e.written, e.cached) = (Tokens::ZERO, prompt));
        assert_eq!(whole, IntegrityError::CachedWhole { prompt, cached: prompt });
        assert_eq!(refused(|e| e.pages = Pages::ZERO), IntegrityError::NoPages { prompt });
    }

    fn stamp(sequence: u32) -> Stamp {
        Stamp { request: [1; 16], tag: TAG, epoch: EPOCH, sequence }
    }

    #[test]
    fn frames_pass_in_order_and_none_after_a_wrong_one() {
        let wrong = [
            stamp(0),
            stamp(1),
            stamp(3),
            Stamp { request: [9; 16], ..stamp(2) },
            Stamp { tag: TenantTag::new(4), ..stamp(2) },
            Stamp { epoch: Epoch::new(4), ..stamp(2) },
        ];
        for wrong in wrong {
            let (_first, mut check) = judged(|_| ()).unwrap();
            assert_eq!(check.accept(stamp(1), "a").map(Verified::into_inner), Ok("a"));
            // I11
            assert!(check.accept(wrong, "b").is_err(), "{wrong:?}");
            let closed = check.accept(stamp(2), "c").map(Verified::into_inner);
            assert_eq!(closed, Err(IntegrityError::Closed { sequence: 2 }));
        }
    }

    #[test]
    fn the_last_number_has_none_after_it() {
        let (_first, mut check) = judged(|_| ()).unwrap();
        check.next = Some(u32::MAX);
        assert!(check.accept(stamp(u32::MAX), ()).is_ok());
        assert!(check.accept(stamp(0), ()).is_err(), "no wrap");
    }
}
