//! Bytes and words: hex where people read, bytes where a hash is taken.

use core::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeTuple as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `N` bytes. In text, 2 `N` lower-case hex digits; in a leaf, the bytes themselves.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Hex<const N: usize>(pub [u8; N]);

/// 64 bits whose value means nothing but equality: a tag, an epoch, a digest. In text, 16 lower-case hex digits: exact in every
/// reader's language, where a large JSON number is not. In a leaf, 8 bytes, the highest first.
#[derive(Clone, Copy, Eq, Hash, PartialEq)]
pub struct Word(pub u64);

impl<const N: usize> Hex<N> {
    /// Reads exactly 2 `N` lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        let mut digits = text.bytes();
        for byte in &mut bytes {
            *byte = nibble(digits.next()?)?.checked_mul(16)?.checked_add(nibble(digits.next()?)?)?;
        }
        digits.next().is_none().then_some(Self(bytes))
    }

    fn text(&self) -> String {
        const DIGITS: [char; 16] =
            ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
        let mut text = String::with_capacity(N.saturating_mul(2));
        for nibble in self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]) {
            text.extend(DIGITS.get(usize::from(nibble)));
        }
        text
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => digit.checked_sub(b'0'),
        b'a'..=b'f' => digit.checked_sub(b'a' - 10),
        _ => None,
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
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
        if serializer.is_human_readable() {
            return serializer.serialize_str(&self.text());
        }
        let mut tuple = serializer.serialize_tuple(N)?;
        for byte in &self.0 {
            tuple.serialize_element(byte)?;
        }
        tuple.end()
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes<const N: usize>;
        impl<'de, const N: usize> Visitor<'de> for Bytes<N> {
            type Value = Hex<N>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{N} bytes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Hex<N>, E> {
                Hex::parse(text).ok_or_else(|| E::custom("not hex"))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Hex<N>, A::Error> {
                let mut bytes = [0; N];
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = sequence.next_element()?.ok_or_else(|| A::Error::invalid_length(index, &self))?;
                }
                Ok(Hex(bytes))
            }
        }
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(Bytes)
        } else {
            deserializer.deserialize_tuple(N, Bytes)
        }
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

    #[test]
    fn a_leaf_has_the_bytes_themselves() {
        assert_eq!(postcard::to_stdvec(&Word(0x0102)).unwrap(), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(postcard::from_bytes::<Hex<2>>(&[7, 8]).unwrap(), Hex([7, 8]));
        assert!(postcard::from_bytes::<Hex<2>>(&[7]).is_err());
    }
}
