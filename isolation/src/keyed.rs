//! Keyed names of cached pages: SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012). Knows no page.
//!
//! A name narrows a search down; it proves nothing. Who finds a page by its name compares the tokens too.

use crate::{
    fault::{Fault, seeded},
    tag::TenantScope,
};

/// 128 random bits of one engine, of which each tenant has its own 128.
pub struct Secrets(TreeSecret);

impl Secrets {
    /// The secrets that follow from these bytes, which must be random and used by one engine only.
    pub const fn new(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        Self(TreeSecret { first: low(bits), second: low(bits >> 64) })
    }

    /// The scope's tenant's own.
    pub(crate) fn of(&self, scope: &TenantScope) -> TreeSecret {
        let mut sip = Sip::new(&self.0);
        let tag = scope.tag().get().to_le_bytes();
        sip.field(0, tag.len(), tag.into_iter());
        let bits = sip.finish().0;
        TreeSecret { first: low(bits), second: low(bits >> 64) }
    }
}

impl core::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secrets")
    }
}

/// One tenant's, so that nobody else can foresee its names, or make two prefixes of one name.
pub(crate) struct TreeSecret {
    first: u64,
    second: u64,
}

impl TreeSecret {
    /// The name of a prefix without any page.
    pub(crate) fn root(&self, revision: &Revision) -> PageKey {
        let Revision { model, template, adapter } = revision;
        let mut sip = Sip::new(self);
        for (tag, field) in [(1, model), (2, template), (3, adapter)] {
            let field = if seeded(Fault::RevisionIgnored) { &[0; 32] } else { field };
            sip.field(tag, field.len(), field.iter().copied());
        }
        sip.finish()
    }

    /// The name of the page that holds `tokens` after the prefix named `before`.
    pub(crate) fn page(&self, before: PageKey, tokens: &[u32]) -> PageKey {
        let mut sip = Sip::new(self);
        let before = before.0.to_le_bytes();
        sip.field(4, before.len(), before.into_iter());
        sip.field(5, tokens.len(), tokens.iter().flat_map(|token| token.to_le_bytes()));
        sip.finish()
    }
}

impl core::fmt::Debug for TreeSecret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TreeSecret")
    }
}

/// What keys and values depend on beside the tokens; each a digest, or zeros for none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Revision {
    /// Of the weights.
    pub model: [u8; 32],
    /// Of the template that made the tokens.
    pub template: [u8; 32],
    /// Of the adapter.
    pub adapter: [u8; 32],
}

/// The name of a page in its prefix: of its own tokens and all before them.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct PageKey(u128);

/// Every field goes in with its tag and its length, so that no two lists of fields look alike.
struct Sip {
    v: [u64; 4],
    /// The word that is being filled, and the bits that it has.
    word: u64,
    bits: u32,
    bytes: u8,
}

impl Sip {
    const fn new(secret: &TreeSecret) -> Self {
        let (k0, k1) = (secret.first, secret.second);
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { v, word: 0, bits: 0, bytes: 0 }
    }

    fn field(&mut self, tag: u8, length: usize, bytes: impl Iterator<Item = u8>) {
        let length = u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes();
        for byte in [tag].into_iter().chain(length).chain(bytes) {
            self.push(byte);
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes = self.bytes.wrapping_add(1);
        self.word |= u64::from(byte) << self.bits;
        self.bits = self.bits.wrapping_add(8);
        if self.bits == 64 {
            self.absorb();
        }
    }

    fn absorb(&mut self) {
        self.v[3] ^= self.word;
        self.rounds(2);
        self.v[0] ^= self.word;
        (self.word, self.bits) = (0, 0);
    }

    fn finish(mut self) -> PageKey {
        self.word |= u64::from(self.bytes) << 56;
        self.absorb();
        self.v[2] ^= 0xee;
        self.rounds(4);
        let low = self.folded();
        self.v[1] ^= 0xdd;
        self.rounds(4);
        let high = self.folded();
        let key = u128::from(low) | (u128::from(high) << 64);
        let is_short = seeded(Fault::PrefixShortKey) || seeded(Fault::PrefixNoTokenCompare);
        PageKey(if is_short { key & 1 } else { key })
    }

    const fn folded(&self) -> u64 {
        self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]
    }

    fn rounds(&mut self, count: u32) {
        let [mut a, mut b, mut c, mut d] = self.v;
        for _ in 0..count {
            a = a.wrapping_add(b);
            b = b.rotate_left(13) ^ a;
            a = a.rotate_left(32);
            c = c.wrapping_add(d);
            d = d.rotate_left(16) ^ c;
            a = a.wrapping_add(d);
            d = d.rotate_left(21) ^ a;
            c = c.wrapping_add(b);
            b = b.rotate_left(17) ^ c;
            c = c.rotate_left(32);
        }
        self.v = [a, b, c, d];
    }
}

#[expect(clippy::as_conversions, reason = "the low half is wanted")]
const fn low(bits: u128) -> u64 {
    bits as u64
}

#[cfg(test)]
mod tests;
