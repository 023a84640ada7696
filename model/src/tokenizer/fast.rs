//! A hash map for small integer keys that come from the model file, never from a prompt: fast, and not keyed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are `u32` or `u64`.
pub(super) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// One multiplication and a rotation: enough to spread keys that differ in any bit.
#[derive(Default)]
pub(super) struct Mix(u64);

impl Mix {
    fn mix(&mut self, number: u64) {
        // An odd constant of no pattern (2^64 / golden ratio); the rotation brings the well-mixed bits to where the
        // table looks.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }
}
