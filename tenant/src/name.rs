//! Names that people give.

use core::fmt;

/// A name that a person gave to a tenant or a key: 1 to [`Name::CHARS_MAX`] printable characters, no space at
/// either end.
///
/// It has no `Display`, and its `Debug` hides it: a name reaches an output only where somebody wrote
/// [`Name::as_str`].
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadName {
    /// Nothing is no name.
    #[error("a name must have at least 1 character")]
    Empty,
    /// Too long.
    #[error("a name must have at most {} characters, not {chars}", Name::CHARS_MAX)]
    TooLong {
        /// Characters found.
        chars: usize,
    },
    /// A control, invisible or direction-changing character, which would lie to whoever reads a listing.
    #[error("a name must be printable: character {at} is not")]
    NotPrintable {
        /// Counted from 1.
        at: usize,
    },
    /// White space at an end, which nobody sees and everybody mistypes.
    #[error("a name must not start or end with a space")]
    Padded,
}

impl Name {
    /// Characters that a name may have.
    pub const CHARS_MAX: usize = 128;

    /// Checks `text`.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn new(text: &str) -> Result<Self, BadName> {
        // Bytes first: counting the characters of a huge text would be work for nothing.
        let chars =
            if text.len() > Self::CHARS_MAX.saturating_mul(4) { text.len() } else { text.chars().count() };
        match chars {
            0 => return Err(BadName::Empty),
            1..=Self::CHARS_MAX => {}
            _ => return Err(BadName::TooLong { chars }),
        }
        if let Some(before) = text.chars().position(is_hidden) {
            return Err(BadName::NotPrintable { at: before.saturating_add(1) });
        }
        if text.trim() != text {
            return Err(BadName::Padded);
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Control characters (Unicode Cc), soft hyphen, zero-width and direction marks, line separators, tags,
/// byte-order mark.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_are_exact() {
        for good in
            ["a", "Acme GmbH & Co. KG", "株式会社", "é".repeat(128).as_str(), "🚢".repeat(128).as_str()]
        {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        assert_eq!(Name::new(""), Err(BadName::Empty));
        assert_eq!(Name::new(&"é".repeat(129)), Err(BadName::TooLong { chars: 129 }));
        assert!(matches!(Name::new(&"x".repeat(1 << 20)), Err(BadName::TooLong { .. })));
        assert_eq!(Name::new(" a"), Err(BadName::Padded));
        assert_eq!(Name::new("a\u{3000}"), Err(BadName::Padded));
        for hidden in ['\n', '\0', '\u{1b}', '\u{85}', '\u{200b}', '\u{202e}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(Name::new(&format!("a{hidden}b")), Err(BadName::NotPrintable { at: 2 }), "{hidden:?}");
        }
    }

    #[test]
    fn debug_hides_it() {
        assert_eq!(format!("{:?}", Name::new("Acme").unwrap()), "Name(..)");
    }
}
