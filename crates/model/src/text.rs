//! Arguments and values of environment variables, which may contain any bytes but NUL.

use super::hex::{decode_hex, encode_hex};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// An argument or a value of an environment variable: any bytes but NUL.
///
/// In JSON it is a plain string if it is UTF-8. Other bytes are written as hexadecimal after a NUL, which no argument
/// can contain, so the format is unambiguous and a replay passes exactly the same bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(OsString);

const HEX: &str = "\0hex:";

impl Text {
    /// Returns the text as a string of the operating system.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the raw bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the text with marks such as `{variant}` filled in; marks in the inserted values are not replaced.
    #[must_use]
    pub fn fill_marks<M: AsRef<str>, T: AsRef<OsStr>>(&self, marks: &[(M, T)]) -> Self {
        let mut filled = Vec::with_capacity(self.as_bytes().len());
        let mut rest = self.as_bytes();
        while let Some(position) = rest.iter().position(|byte| *byte == b'{') {
            filled.extend_from_slice(&rest[..position]);
            rest = &rest[position..];
            let mark_here = marks
                .iter()
                .find(|(mark, _)| rest.starts_with(mark.as_ref().as_bytes()));
            let (mark, value) = mark_here.map_or((1, &rest[..1]), |(mark, value)| {
                (mark.as_ref().len(), value.as_ref().as_bytes())
            });
            filled.extend_from_slice(value);
            rest = &rest[mark..];
        }
        filled.extend_from_slice(rest);
        Self(OsString::from_vec(filled))
    }

    /// Joins texts.
    #[must_use]
    pub fn join_texts(texts: &[Self], separator: &[u8]) -> Self {
        let bytes: Vec<&[u8]> = texts.iter().map(Self::as_bytes).collect();
        Self(OsString::from_vec(bytes.join(separator)))
    }

    /// Returns a short digest: equal texts have equal digests, and different texts almost certainly different ones
    /// (FNV-1a, 128 bits).
    pub fn content_digest(&self) -> String {
        let begin = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
        let hash = self.as_bytes().iter().fold(begin, |hash, byte| {
            (hash ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
        });
        format!("{hash:032x}")
    }
}

impl<T: Into<OsString>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl AsRef<OsStr> for Text {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.to_string_lossy().fmt(f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => to.serialize_str(text),
            None => to.serialize_str(&format!("{HEX}{}", encode_hex(self.as_bytes()))),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let Some(hex) = text.strip_prefix(HEX) else {
            return Ok(Self(text.into()));
        };
        decode_hex(hex)
            .map(|bytes| Self(OsString::from_vec(bytes)))
            .ok_or_else(|| D::Error::custom("broken hexadecimal text"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_any_bytes_is_read_from_the_journal_unchanged() {
        for bytes in [&b"plain"[..], b"", b"\xff\xfe \n", "gr\u{fc}n".as_bytes()] {
            let text = Text(OsString::from_vec(bytes.to_vec()));
            let line = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&line).unwrap(), text, "{line}");
        }
    }

    #[test]
    fn placeholders_are_filled_in_once() {
        let marks = [("{a}", "{b}"), ("{b}", "2")];
        let filled = Text::from("{a}{b}{c}{").fill_marks(&marks);
        assert_eq!(filled, Text::from("{b}2{c}{"));
    }

    #[test]
    fn content_digests_are_fnv_digests() {
        let digest = |text: &str| Text::from(text).content_digest();
        assert_eq!(digest(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(digest("a"), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn malformed_hexadecimal_is_refused() {
        for bad in [
            "\"\\u0000hex:f\"",
            "\"\\u0000hex:zz\"",
            "\"\\u0000hex:\u{e9}a\"",
        ] {
            assert!(serde_json::from_str::<Text>(bad).is_err(), "{bad}");
        }
    }
}
