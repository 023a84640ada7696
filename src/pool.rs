//! How many tokens the pool holds, when nobody says.

use std::fmt;

use crate::exit::{Exit, Failure};

/// Windows of the model that the pool holds where memory allows: four users with a full window each.
const WINDOWS: u64 = 4;
/// The part of the available memory that the pool takes at most; the rest is for weights, buffers and everybody else.
const PART_OF_MEMORY: u64 = 2;

/// What a model takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// Tokens that the model was trained to span.
    pub(crate) window: u32,
    /// Bytes of keys and values of one page.
    pub(crate) page_bytes: u64,
    /// Tokens of a page: the pool holds whole pages.
    pub(crate) page_tokens: u32,
}

impl Need {
    /// Bytes of the pages that hold so many tokens.
    pub(crate) fn bytes(&self, tokens: u32) -> u64 {
        let pages = tokens.checked_next_multiple_of(self.page_tokens).unwrap_or(u32::MAX);
        let pages = pages.checked_div(self.page_tokens).unwrap_or(u32::MAX);
        u64::from(pages).saturating_mul(self.page_bytes)
    }

    /// Tokens in whole pages that so many bytes hold.
    fn tokens(&self, bytes: u64) -> u64 {
        let pages = bytes.checked_div(self.page_bytes).unwrap_or(0);
        pages.saturating_mul(u64::from(self.page_tokens))
    }
}

/// A size, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Choice {
    /// Tokens.
    pub(crate) tokens: u32,
    /// Bytes of memory.
    pub(crate) bytes: u64,
    /// Where the number comes from.
    pub(crate) why: Why,
}

/// Where a pool's size comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Why {
    /// `--pool-tokens` or the config.
    Asked,
    /// [`WINDOWS`] of the model.
    Windows,
    /// Its part of the available memory, which is less.
    Memory,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "as asked",
            Self::Windows => "four windows of the model",
            Self::Memory => "what half of the available memory holds",
        })
    }
}

/// Chooses the pool's size; `available` is `None` where the system does not say.
///
/// # Errors
/// [`Exit::Capacity`] with both numbers, when memory does not hold what was asked, or not even one page.
pub(crate) fn choose(asked: Option<u32>, need: Need, available: Option<u64>) -> Result<Choice, Failure> {
    let choice = |tokens, why| Choice { tokens, bytes: need.bytes(tokens), why };
    let windows = u64::from(need.window).saturating_mul(WINDOWS);
    let windows = u32::try_from(windows).unwrap_or(u32::MAX);
    let Some(available) = available else {
        return Ok(asked.map_or_else(|| choice(windows, Why::Windows), |tokens| choice(tokens, Why::Asked)));
    };
    if let Some(tokens) = asked {
        let asked = choice(tokens, Why::Asked);
        if asked.bytes <= available {
            return Ok(asked);
        }
        return Err(Failure::new(
            Exit::Capacity,
            format_args!(
                "a pool of {tokens} tokens takes {} MiB, {} MiB are available: at most {} tokens fit; ask for less by --pool-tokens",
                mib(asked.bytes),
                mib(available),
                need.tokens(available)
            ),
        ));
    }
    let part = need.tokens(available.checked_div(PART_OF_MEMORY).unwrap_or(0));
    let part = u32::try_from(part).unwrap_or(u32::MAX);
    match part {
        0 => Err(Failure::new(
            Exit::Capacity,
            format_args!(
                "no memory for the pool: one page takes {} bytes, half of the available memory is {}; free some, or choose a size by --pool-tokens",
                need.page_bytes,
                available.checked_div(PART_OF_MEMORY).unwrap_or(0)
            ),
        )),
        part if part < windows => Ok(choice(part, Why::Memory)),
        _ => Ok(choice(windows, Why::Windows)),
    }
}

/// Whole MiB, rounded up.
pub(crate) fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need { window: 100, page_bytes: 16_000, page_tokens: 16 };

    #[test]
    fn four_windows_or_half_of_the_memory_whichever_is_less() {
        let rich = choose(None, NEED, Some(800_000)).unwrap();
        assert_eq!((rich.tokens, rich.bytes, rich.why), (400, 400_000, Why::Windows));
        let poor = choose(None, NEED, Some(799_999)).unwrap();
        assert_eq!((poor.tokens, poor.bytes, poor.why), (384, 384_000, Why::Memory));
        let unknown = choose(None, NEED, None).unwrap();
        assert_eq!((unknown.tokens, unknown.why), (400, Why::Windows));
    }

    #[test]
    fn a_page_that_is_begun_is_paid_for() {
        assert_eq!(NEED.bytes(16), 16_000);
        assert_eq!(NEED.bytes(17), 32_000);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_both_numbers() {
        assert_eq!(choose(Some(96), NEED, Some(96_000)).unwrap().why, Why::Asked);
        assert!(choose(Some(97), NEED, Some(111_999)).is_err());
        let refused = choose(Some(4_000_000), NEED, Some(3_000_000_000)).unwrap_err();
        assert_eq!(refused.exit(), Exit::Capacity);
        let told = refused.to_string();
        assert!(told.contains("4000000") && told.contains("3000000") && told.contains("2862"), "{told}");
        assert_eq!(choose(None, NEED, Some(31_999)).unwrap_err().exit(), Exit::Capacity);
        assert_eq!(choose(None, NEED, Some(32_000)).unwrap().tokens, 16);
    }
}
