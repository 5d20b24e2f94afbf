//! Chooses the next request of a client.

use super::draw::{DrawnRequest, client_key, draw_number, hash_number, scale_below, to_index};
use super::kind::BodyContent;
use super::requests::Requests;
use provoke_model::FilePick;

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
        let drawn = scale_below(hash_number(draw ^ 1), total);
        let kind = requests.weights.partition_point(|upper| *upper <= drawn);
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
