//! Base 62: digits, capitals, small letters. Every text has one value and every value one text.

use ring::error::Unspecified;
use ring::rand::SecureRandom;
use zeroize::Zeroizing;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Whether `byte` is one of the 62.
pub(crate) const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn digit(value: u8) -> u8 {
    // `value` is below 62 by its makers; the fallback is no digit, so that a mistake cannot pass for one.
    ALPHABET.get(usize::from(value)).copied().unwrap_or(b'!')
}

fn value(digit: u8) -> Option<u32> {
    ALPHABET.iter().position(|of| *of == digit).and_then(|position| u32::try_from(position).ok())
}

/// Six digits, the highest first: 62^6 is above 2^32.
pub(crate) fn encode_u32(mut number: u32) -> [u8; 6] {
    let mut digits = [b'0'; 6];
    for place in digits.iter_mut().rev() {
        *place = digit(u8::try_from(number.checked_rem(62).unwrap_or_default()).unwrap_or(u8::MAX));
        number = number.checked_div(62).unwrap_or_default();
    }
    digits
}

/// The number of exactly six digits; none when they are no digits, or above `u32::MAX`.
pub(crate) fn decode_u32(digits: &[u8]) -> Option<u32> {
    let digits: &[u8; 6] = digits.try_into().ok()?;
    digits.iter().try_fold(0_u32, |number, of| number.checked_mul(62)?.checked_add(value(*of)?))
}

/// `N` digits, each equally likely: log2(62) = 5.954 bits each. The random bytes are wiped.
pub(crate) fn random<const N: usize>(random: &dyn SecureRandom) -> Result<Zeroizing<[u8; N]>, Unspecified> {
    /// The largest multiple of 62 that a byte can hold; bytes above it would favour the first digits.
    const FAIR: u8 = 248;
    /// Refills. One fill of 64 bytes yields 62 digits on average; that 32 yield fewer than 43 does not
    /// happen.
    const FILLS_MAX: usize = 32;
    let mut digits = Zeroizing::new([0; N]);
    let mut places = digits.iter_mut();
    let mut bytes = Zeroizing::new([0_u8; 64]);
    for _ in 0..FILLS_MAX {
        random.fill(bytes.as_mut())?;
        for byte in bytes.iter().filter(|byte| **byte < FAIR) {
            let Some(place) = places.next() else { return Ok(digits) };
            *place = digit(byte.checked_rem(62).unwrap_or(u8::MAX));
        }
    }
    Err(Unspecified)
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;

    use super::*;

    #[test]
    fn numbers_survive() {
        for number in [0, 1, 61, 62, 3_843, 3_844, u32::MAX - 1, u32::MAX] {
            assert_eq!(decode_u32(&encode_u32(number)), Some(number));
        }
        assert_eq!(&encode_u32(u32::MAX), b"4gfFC3");
        assert_eq!(decode_u32(b"4gfFC4"), None, "above 2^32");
        assert_eq!(decode_u32(b"zzzzzz"), None);
        assert_eq!(decode_u32(b"00000"), None);
        assert_eq!(decode_u32(b"00000-"), None);
    }

    #[test]
    fn every_digit_is_drawn_about_equally_often() {
        let random_digits = random::<43>;
        let mut counts = [0_u32; 256];
        for _ in 0..2_000 {
            for digit in random_digits(&SystemRandom::new()).unwrap().iter() {
                counts[usize::from(*digit)] += 1;
            }
        }
        // 86,000 draws over 62: 1,387 each, standard deviation 37. Eight of them is a chance of 1 in 10^15.
        for (byte, count) in counts.into_iter().enumerate() {
            let drawn = is_digit(u8::try_from(byte).unwrap());
            assert!(if drawn { (1_090..1_690).contains(&count) } else { count == 0 }, "{byte}: {count}");
        }
    }
}
