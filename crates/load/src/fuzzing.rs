//! Reads a response, for the fuzz targets.

use super::response::{ResponseObserver, ResponseReader};

/// What was read of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadResponse {
    heads: Vec<(u16, usize)>,
    body: Vec<u8>,
    consumed: usize,
    /// Whether the response ended.
    pub is_complete: bool,
    error: Option<String>,
}

impl ResponseObserver for ReadResponse {
    fn on_head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.heads.push((status, headers.len()));
    }

    fn on_body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// Reads a response in pieces of this length.
pub fn read_response(bytes: &[u8], length: usize) -> ReadResponse {
    let mut reader = ResponseReader::new();
    reader.begin_answer(false);
    let mut response = ReadResponse::default();
    for piece in bytes.chunks(length) {
        match reader.feed_bytes(piece, &mut response) {
            Ok(consumed) => response.consumed += consumed,
            Err(error) => {
                // How much was read before the error depends on the pieces.
                return ReadResponse {
                    error: Some(error.to_string()),
                    ..ReadResponse::default()
                };
            }
        }
        if reader.is_done() {
            break;
        }
    }
    response.is_complete = reader.is_done() || reader.end_of_connection();
    response
}
