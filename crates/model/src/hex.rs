//! Hexadecimal digits of bytes.

/// Writes bytes as hexadecimal digits.
pub fn encode_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // writing to a string cannot fail
        text
    })
}

/// Reads hexadecimal digits; returns `None` if the text is anything else.
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|digit| digit.to_digit(16))
        .collect::<Option<_>>()?;
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_bytes_are_decoded_unchanged() {
        assert_eq!(encode_hex(&[0, 0x0f, 0xff]), "000fff");
        assert_eq!(decode_hex("000fFF"), Some(vec![0, 0x0f, 0xff]));
        for text in ["0", "0g", "+f", "\u{fc}0"] {
            assert_eq!(decode_hex(text), None, "{text}");
        }
    }
}
