//! Chooses the next request of a client, by a hash of (seed, client, n).

use super::{BodyContent, Requests};
use crate::model::FilePick;

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

/// Draws the requests of a client.
pub(in super::super) struct RequestDraws {
    key: u64,
    client: u64,
    /// Number of clients.
    clients: u64,
    next: u64,
    /// Number of drawn requests of each kind.
    drawn: Vec<u64>,
}

impl RequestDraws {
    pub(in super::super) fn new(requests: &Requests, seed: u64, client: u32, clients: u32) -> Self {
        Self {
            key: client_key(seed, client),
            client: u64::from(client),
            clients: u64::from(clients.max(1)),
            next: 0,
            drawn: vec![0; requests.kinds.len()],
        }
    }

    /// Draws the next request; returns `None` when all files that are sent once have been sent.
    pub(in super::super) fn draw_next(&mut self, requests: &Requests) -> Option<DrawnRequest> {
        let n = self.next;
        self.next += 1;
        let draw = draw_number(self.key, n);
        let total = requests.weights.last().copied().unwrap_or(1);
        let place = scale_below(hash_number(draw ^ 1), total);
        let kind = requests.weights.partition_point(|until| *until <= place);
        // The clients divide the files of a kind among themselves without communication.
        let turn = self.client + self.drawn[kind] * self.clients;
        self.drawn[kind] += 1;
        let file = match &requests.kinds[kind].body {
            BodyContent::Files(files, FilePick::Random) => {
                scale_below(hash_number(draw ^ 2), files.len() as u64)
            }
            BodyContent::Files(files, FilePick::Cycle) => turn % files.len() as u64,
            BodyContent::Files(files, FilePick::Once) if turn >= files.len() as u64 => return None,
            BodyContent::Files(_, FilePick::Once) => turn,
            _ => 0,
        };
        Some(DrawnRequest {
            kind,
            file: to_index(file),
            n,
            seq: n * self.clients + self.client,
            ..requests.row_and_rand(draw)
        })
    }
}

pub(in super::super) fn client_key(seed: u64, client: u32) -> u64 {
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
