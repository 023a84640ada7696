//! The GPT-2 alphabet: how vocabularies of byte-level BPE write each byte as one printable character.

/// The byte that `letter` stands for in a vocabulary's text.
///
/// Printable bytes stand for themselves; the other 68, in order, are written U+0100 to U+0143.
pub(super) fn byte_of(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    if let Ok(byte) = u8::try_from(code) {
        return is_printable(byte).then_some(byte);
    }
    let rank = usize::try_from(code.checked_sub(0x100)?).ok()?;
    (0..=u8::MAX).filter(|byte| !is_printable(*byte)).nth(rank)
}

/// The bytes of a token, or `None` when its text has characters outside the alphabet.
pub(super) fn bytes_of(text: &str, table: &Table) -> Option<Vec<u8>> {
    text.chars().map(|letter| table.byte_of(letter)).collect()
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// [`byte_of`] for each character below U+0144, computed once.
pub(super) struct Table(Vec<Option<u8>>);

impl Table {
    pub(super) fn new() -> Table {
        Table(('\0'..='\u{143}').map(byte_of).collect())
    }

    fn byte_of(&self, letter: char) -> Option<u8> {
        usize::try_from(u32::from(letter)).ok().and_then(|code| self.0.get(code).copied().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_one_letter() {
        let table = Table::new();
        let mut bytes: Vec<u8> =
            (0..0x200).filter_map(char::from_u32).filter_map(|c| table.byte_of(c)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        assert_eq!(bytes_of("Ġt", &table).unwrap(), b" t");
        assert_eq!(bytes_of("Ċ", &table).unwrap(), b"\n");
        assert_eq!(bytes_of("a b", &table), None);
        assert_eq!(bytes_of("伴", &table), None);
    }
}
