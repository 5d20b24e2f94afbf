//! Style sheet of a page, and the policy that allows nothing else.

use ring::digest::{SHA256, digest};

/// The style sheet: colours and marks, then the layout.
pub(super) const STYLE: &str = concat!(include_str!("../svg/marks.css"), include_str!("page.css"));

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the policy: no script, no network, no forms, and only this style sheet.
pub(super) fn content_policy() -> String {
    let hash = encode_base64(digest(&SHA256, STYLE.as_bytes()).as_ref());
    format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'")
}

fn encode_base64(bytes: &[u8]) -> String {
    let encode = |chunk: &[u8]| {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |shift: u32| char::from(BASE64[(bits >> shift & 63) as usize]);
        let digits = [18, 12, 6, 0].map(digit).into_iter().take(chunk.len() + 1);
        digits
            .chain(std::iter::repeat_n('=', 3 - chunk.len()))
            .collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_encoded_as_in_the_standard() {
        let encoded = ["", "f", "fo", "foo", "foob", "fooba", "foobar"]
            .map(|text| encode_base64(text.as_bytes()));
        assert_eq!(
            encoded.join(" "),
            " Zg== Zm8= Zm9v Zm9vYg== Zm9vYmE= Zm9vYmFy"
        );
    }

    #[test]
    fn the_style_sheet_loads_nothing() {
        for word in ["url(", "@import", "http", "</", "expression"] {
            assert!(!STYLE.contains(word), "{word}");
        }
    }
}
