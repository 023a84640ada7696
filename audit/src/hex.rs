//! Bytes and words as hex: exact in every reader's language, where a large JSON number is not.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `N` bytes; in a line, 2 `N` lower-case hex digits.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Hex<const N: usize>(pub [u8; N]);

/// 64 bits whose value means nothing but equality: a tag, an epoch, a digest. In a line, 16 lower-case hex
/// digits.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Word(pub u64);

impl<const N: usize> Hex<N> {
    /// Reads exactly 2 `N` lower-case hex digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        let mut digits = text.bytes();
        for byte in &mut bytes {
            *byte = nibble(digits.next()?)?.checked_mul(16)?.checked_add(nibble(digits.next()?)?)?;
        }
        digits.next().is_none().then_some(Self(bytes))
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => digit.checked_sub(b'0'),
        b'a'..=b'f' => digit.checked_sub(b'a' - 10),
        _ => None,
    }
}

impl<const N: usize> Hex<N> {
    /// Appends the digits. By table: each line has some 300 of them, and formatting them one by one would be
    /// most of the writer's work.
    pub(crate) fn push_to(&self, text: &mut String) {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        for nibble in self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
            text.extend(DIGITS.get(usize::from(nibble)));
        }
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(N.saturating_mul(2));
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(N.saturating_mul(2));
        self.push_to(&mut text);
        serializer.serialize_str(&text)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Digits<const N: usize>;
        impl<const N: usize> Visitor<'_> for Digits<N> {
            type Value = Hex<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{N} bytes in hex")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Hex<N>, E> {
                Hex::parse(text).ok_or_else(|| E::custom("not hex"))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Hex(self.0.to_be_bytes()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Hex::deserialize(deserializer).map(|Hex(bytes)| Self(u64::from_be_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_one_form() {
        assert_eq!(Hex([0x0f, 0xa0]).to_string(), "0fa0");
        assert_eq!(Hex::parse("0fa0"), Some(Hex([0x0f, 0xa0])));
        for bad in ["", "0fa", "0fa00", "0FA0", "0fag", "+fa0", "0fé"] {
            assert_eq!(Hex::<2>::parse(bad), None, "{bad}");
        }
        assert_eq!(serde_json::to_string(&Word(255)).unwrap(), "\"00000000000000ff\"");
        assert_eq!(serde_json::from_str::<Word>("\"ffffffffffffffff\"").unwrap(), Word(u64::MAX));
    }
}
