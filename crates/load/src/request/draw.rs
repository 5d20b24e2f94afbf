//! Random numbers of a request, by a hash of (seed, client, n).

/// A drawn request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct DrawnRequest {
    pub(in super::super) kind: usize,
    pub(in super::super) file: usize,
    pub(in super::super) row: usize,
    /// Number of the request among the requests of its client, and among all requests.
    pub(in super::super) n: u64,
    pub(in super::super) seq: u64,
    pub(in super::super) rand: u64,
}

pub(super) fn client_key(seed: u64, client: u32) -> u64 {
    hash_number(seed ^ hash_number(u64::from(client) + 1))
}

pub(super) fn draw_number(key: u64, n: u64) -> u64 {
    hash_number(key.wrapping_add(n.wrapping_mul(STEP)))
}

pub(super) fn to_index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(0)
}

/// The golden ratio, which is the increment of `SplitMix64`.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the increment and finalizer of `SplitMix64` applied to a number.
pub(in super::super) fn hash_number(x: u64) -> u64 {
    let mut x = x.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

pub(super) fn scale_below(draw: u64, limit: u64) -> u64 {
    u64::try_from((u128::from(draw) * u128::from(limit)) >> 64).unwrap_or(0)
}
