//! Compact record of a request.

use provoke_model::RequestPhase;

/// Words of one record.
pub(super) const WORDS: usize = 6;

/// Results of a request, as one byte of an event.
pub(super) mod code {
    pub(in super::super) const IN_FLIGHT: u8 = 0;
    pub(in super::super) const OK: u8 = 1;
    pub(in super::super) const STATUS: u8 = 2;
    pub(in super::super) const CHECK: u8 = 3;
    pub(in super::super) const REFUSED: u8 = 4;
    pub(in super::super) const RESET: u8 = 5;
    pub(in super::super) const CLOSED_EARLY: u8 = 6;
    pub(in super::super) const TIMEOUT: u8 = 8;
    pub(in super::super) const OTHER: u8 = 9;
    pub(in super::super) const CANCELLED: u8 = 10;
    /// In flight when the service crashed.
    pub(in super::super) const DIED: u8 = 11;

    pub(in super::super) fn code_name(end: u8) -> &'static str {
        match end {
            OK => "ok",
            STATUS => "status",
            CHECK => "check",
            REFUSED => "refused",
            RESET => "reset",
            CLOSED_EARLY => "closed_early",
            TIMEOUT => "timeout",
            CANCELLED => "cancelled",
            DIED => "died",
            _ => "other",
        }
    }
}

/// Unpacked record of a request. Times are nanoseconds of the trial's [`super::clock::Clock`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestRecord {
    pub(super) n: u64,
    pub(super) due: u64,
    pub(super) sent: u64,
    pub(super) done: u64,
    pub(super) bytes: u32,
    pub(super) client: u32,
    pub(super) kind: u8,
    pub(super) file: u32,
    /// HTTP status, or errno.
    pub(super) status: u16,
    pub(super) end: u8,
    pub(super) part: RequestPhase,
    /// The connection was opened for this request.
    pub(super) fresh: bool,
    /// A kept connection was closed during the request, which was then sent on another.
    pub(super) again: bool,
}

impl RequestRecord {
    pub(super) fn encode_words(&self) -> [u64; WORDS] {
        let flags = self.part as u64 | u64::from(self.fresh) << 2 | u64::from(self.again) << 3;
        [
            self.n,
            self.due,
            self.sent,
            self.done,
            u64::from(self.bytes) << 32 | u64::from(self.client),
            u64::from(self.kind) << 56
                | u64::from(self.file & 0xff_ffff) << 32
                | u64::from(self.status) << 16
                | u64::from(self.end) << 8
                | flags,
        ]
    }

    pub(super) fn from_words(words: &[u64]) -> Self {
        let [n, due, sent, done, sizes, rest] = *words else {
            return Self::default();
        };
        let bits = |shift: u32, count: u32| {
            u32::try_from(rest >> shift & ((1 << count) - 1)).unwrap_or_default()
        };
        let byte = |shift| u8::try_from(bits(shift, 8)).unwrap_or_default();
        Self {
            n,
            due,
            sent,
            done,
            bytes: u32::try_from(sizes >> 32).unwrap_or_default(),
            client: u32::try_from(sizes & 0xffff_ffff).unwrap_or_default(),
            kind: byte(56),
            file: bits(32, 24),
            status: u16::try_from(bits(16, 16)).unwrap_or_default(),
            end: byte(8),
            part: match bits(0, 2) {
                0 => RequestPhase::Connect,
                1 => RequestPhase::Write,
                2 => RequestPhase::Head,
                _ => RequestPhase::Body,
            },
            fresh: bits(2, 1) == 1,
            again: bits(3, 1) == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_unchanged_after_encoding_and_decoding() {
        let event = RequestRecord {
            n: u64::MAX,
            due: 1,
            sent: 2,
            done: 3,
            bytes: u32::MAX,
            client: 12,
            kind: 255,
            file: 0xff_ffff,
            status: 599,
            end: code::DIED,
            part: RequestPhase::Body,
            fresh: true,
            again: true,
        };
        assert_eq!(RequestRecord::from_words(&event.encode_words()), event);
    }
}
