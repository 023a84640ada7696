//! The one door into the engine. Knows no page: it only counts.

use crate::{
    fault::{Fault, seeded},
    outcome::Rejection,
    tag::{TenantScope, TenantTag},
    units::{PageSize, Pages, Tokens, index},
};
use alloc::vec::Vec;

/// The window that measured memory can honour.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    window: Tokens,
    page_size: PageSize,
}

impl Limits {
    /// The advertised window, if `measured` pages hold it.
    ///
    /// # Errors
    /// When they do not: the engine must not start.
    pub fn derive(
        advertised: Tokens,
        measured: Pages,
        page_size: PageSize,
    ) -> Result<Self, CapacityMismatch> {
        // I9
        let holds = holds(measured, page_size);
        if advertised > holds {
            return Err(CapacityMismatch { advertised, holds });
        }
        Ok(Self { window: advertised, page_size })
    }

    /// Tokens that a request may span, prompt and output together.
    pub const fn window(&self) -> Tokens {
        self.window
    }

    /// The window after the pool became smaller; never larger than before.
    #[must_use]
    pub fn narrowed(&self, measured: Pages) -> Self {
        Self { window: self.window.min(holds(measured, self.page_size)), page_size: self.page_size }
    }

    /// Lets a prompt in at its full length, prompt and output together, or refuses it as it is.
    ///
    /// # Errors
    /// When the prompt or the output is empty, or both together exceed the window.
    pub fn admit<P: Length>(
        &self,
        scope: &TenantScope,
        prompt: P,
        max_new: Tokens,
    ) -> Result<Bounded<P>, Rejected> {
        let length = prompt.length();
        if length == 0 && !seeded(Fault::EmptyAdmitted) {
            return Err(Rejected { reason: Rejection::EmptyPrompt });
        }
        if max_new == Tokens::ZERO {
            return Err(Rejected { reason: Rejection::NothingToGenerate });
        }
        // I9: in 64 bits, where the sum cannot pass for a small one.
        let asked = u64::try_from(length).unwrap_or(u64::MAX).saturating_add(u64::from(max_new.get()));
        let slack = u64::from(seeded(Fault::AdmitOffByOne));
        match u32::try_from(asked) {
            Ok(total) if u64::from(total) <= u64::from(self.window.get()).saturating_add(slack) => {
                Ok(Bounded { tag: scope.tag(), prompt, total: Tokens::new(total), max_new })
            }
            Ok(_) | Err(_) => Err(Rejected { reason: Rejection::TooLong { asked, window: self.window } }),
        }
    }

    /// Checks a waiting prompt again, after [`Limits::narrowed`].
    ///
    /// # Errors
    /// When it no longer fits.
    pub fn readmit<P>(&self, waiting: Bounded<P>) -> Result<Bounded<P>, Rejected> {
        if waiting.total > self.window {
            let asked = u64::from(waiting.total.get());
            return Err(Rejected { reason: Rejection::TooLong { asked, window: self.window } });
        }
        Ok(waiting)
    }
}

/// What cannot be counted in `Tokens` is more than any window.
fn holds(measured: Pages, page_size: PageSize) -> Tokens {
    page_size.tokens_in(measured).unwrap_or(Tokens::new(u32::MAX))
}

/// Something with a length in tokens.
pub trait Length {
    /// How many tokens.
    fn length(&self) -> usize;
}

impl Length for Vec<u32> {
    fn length(&self) -> usize {
        self.len()
    }
}

/// A prompt that was counted and fits. [`Limits::admit`] is the only maker.
///
/// ```compile_fail,E0451
/// use isolation::admit::Bounded;
/// fn forge(prompt: Vec<u32>) -> Bounded<Vec<u32>> {
///     Bounded { prompt, tag: todo!(), total: todo!(), max_new: todo!() }
/// }
/// ```
#[derive(Debug)]
pub struct Bounded<P> {
    tag: TenantTag,
    prompt: P,
    total: Tokens,
    max_new: Tokens,
}

impl<P> Bounded<P> {
    /// Whose prompt it is.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }

    /// Tokens of prompt and output together.
    pub const fn total(&self) -> Tokens {
        self.total
    }

    /// Tokens of output at most; at least one.
    pub const fn max_new(&self) -> Tokens {
        self.max_new
    }

    /// The prompt.
    pub const fn prompt(&self) -> &P {
        &self.prompt
    }
}

impl Bounded<Vec<u32>> {
    /// Puts a generated token behind the prompt, if it was admitted with room for it. Returns whether it was.
    #[must_use]
    pub fn grow(&mut self, id: u32) -> bool {
        // I9: what was counted at the door is all that there will be.
        let has_room = self.prompt.len() < index(self.total.get());
        if has_room {
            self.prompt.push(id);
        }
        has_room
    }
}

/// A request that was refused before any page was touched. It leads to an answer, and to no sequence:
///
/// ```compile_fail,E0277
/// use isolation::admit::{Bounded, Rejected};
/// fn go_on_anyway(rejected: Rejected) -> Bounded<Vec<u32>> { rejected.into() }
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rejected {
    /// Why.
    pub reason: Rejection,
}

impl core::fmt::Display for Rejected {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.reason.fmt(f)
    }
}

impl core::error::Error for Rejected {}

/// More was promised than memory holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CapacityMismatch {
    /// The window promised.
    pub advertised: Tokens,
    /// Tokens that the measured pages hold.
    pub holds: Tokens,
}

impl core::fmt::Display for CapacityMismatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a window of {} tokens is advertised, the pool holds {}", self.advertised, self.holds)
    }
}

impl core::error::Error for CapacityMismatch {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZE, scope};

    struct Long(usize);

    impl Length for Long {
        fn length(&self) -> usize {
            self.0
        }
    }

    fn limits(window: u32) -> Limits {
        Limits::derive(Tokens::new(window), Pages::new(window.div_ceil(SIZE.tokens())), SIZE).unwrap()
    }

    #[test]
    fn a_request_is_admitted_exactly_when_prompt_and_output_fit() {
        let scope = scope(1);
        for (window, prompt, max_new) in
            (0..=9).flat_map(|w| (0..=9).flat_map(move |p| (0..=9).map(move |n| (w, p, n))))
        {
            let admitted = limits(window).admit(&scope, Long(prompt as usize), Tokens::new(max_new));
            // I9
            let fits = prompt > 0 && max_new > 0 && prompt + max_new <= window;
            assert_eq!(admitted.is_ok(), fits, "{prompt} and {max_new} in {window}");
            if let Ok(bounded) = admitted {
                assert_eq!((bounded.total().get(), bounded.max_new().get()), (prompt + max_new, max_new));
            }
        }
    }

    #[test]
    fn a_prompt_grows_to_what_it_was_admitted_with() {
        let mut known = limits(4).admit(&scope(1), alloc::vec![7], Tokens::new(2)).unwrap();
        // I9
        assert_eq!([8, 9, 10].map(|id| known.grow(id)), [true, true, false]);
        assert_eq!(
            (known.prompt().as_slice(), known.total(), known.max_new()),
            (&[7, 8, 9][..], Tokens::new(3), Tokens::new(2))
        );
    }

    #[test]
    fn a_sum_that_overflows_is_too_long_and_says_by_how_much() {
        let widest = Limits::derive(Tokens::new(u32::MAX), Pages::new(u32::MAX), SIZE).unwrap();
        for (length, max_new) in [(1, u32::MAX), (u32::MAX as usize, 1), (usize::MAX, u32::MAX)] {
            let rejected =
                widest.admit(&scope(1), Long(length), Tokens::new(max_new)).map(|_| ()).unwrap_err();
            let asked = (length as u64).saturating_add(u64::from(max_new));
            // I9
            assert_eq!(rejected.reason, Rejection::TooLong { asked, window: Tokens::new(u32::MAX) });
        }
    }

    #[test]
    fn more_cannot_be_promised_than_is_measured() {
        let refused = CapacityMismatch { advertised: Tokens::new(9), holds: Tokens::new(8) };
        // I9
        assert_eq!(Limits::derive(Tokens::new(9), Pages::new(2), SIZE), Err(refused));
        assert_eq!(
            Limits::derive(Tokens::new(8), Pages::new(2), SIZE).map(|l| l.window()),
            Ok(Tokens::new(8))
        );
    }

    #[test]
    fn a_smaller_pool_narrows_the_window_and_turns_away_who_waits() {
        let wide = limits(8);
        let waiting = wide.admit(&scope(1), Long(6), Tokens::new(2)).unwrap();
        let waiting = wide.readmit(waiting).unwrap();
        let narrow = wide.narrowed(Pages::new(1));
        // I9
        assert_eq!(
            (narrow.window(), narrow.narrowed(Pages::new(9)).window()),
            (Tokens::new(4), Tokens::new(4))
        );
        let rejected = narrow.readmit(waiting).map(|_| ()).unwrap_err();
        assert_eq!(rejected.reason, Rejection::TooLong { asked: 8, window: Tokens::new(4) });
    }
}
