//! Maps and sets of numbers, with a fast hash that is the same on every machine.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers.
pub(super) type NumberMap<K, V> = HashMap<K, V, NumberHash>;
/// A set of numbers.
pub(super) type NumberSet<K> = HashSet<K, NumberHash>;
/// The hash of both. Nobody chooses the keys in order to make it slow.
pub(super) type NumberHash = BuildHasherDefault<MixHasher>;

/// Mixes numbers.
#[derive(Debug, Default)]
pub(super) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn finish(&self) -> u64 {
        (self.0 ^ self.0 >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }
}
