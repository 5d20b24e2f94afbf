//! The secrets of a run, which are masked in all shared data: variables and request headers with secret names.

use super::text_mask::{MASK, NOT_SHOWN, SHORTEST, SHORTEST_PART, TextMask, any_of};
use provoke_model::{TrialsPlan, encode_hex, is_secret, parse_untrusted_json};
use regex::bytes::Regex;
use serde_json::Value;
use std::borrow::Cow;
use std::string::FromUtf8Error;

/// What may be inside a secret in JSON text.
fn invisible_in_json() -> String {
    let escaped = r"\\u001b(?:\[[ -?]*[@-~]|[()][0-9A-Z])|\\u00[0-9a-f]{2}|\\[bfnrt]";
    format!(r"{escaped}|[ \t\x7f]|{NOT_SHOWN}")
}

/// The secret values of a run, which are masked in all shared data.
#[derive(Debug, Default)]
pub struct Secrets {
    in_text: TextMask,
    /// Pattern of the values, and of parts of them at a cut, in JSON text.
    in_json: Option<Regex>,
}

impl Secrets {
    /// Finds the secrets of the trials of a run.
    pub fn of_trials(trials: &TrialsPlan) -> Self {
        let template = trials.space.iter().map(|space| &space.template);
        let actors = trials.variants.iter().chain(template);
        let own_variables = actors
            .flat_map(|variant| &variant.actors)
            .flat_map(|actor| &actor.env)
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let variables = trials.environment.iter().map(|(name, value)| (name, value));
        let mut values: Vec<Vec<u8>> = Vec::new();
        for (name, value) in variables.chain(own_variables) {
            if is_secret(&name.as_os_str().to_string_lossy()) {
                values.extend(printed_parts(value.as_bytes()));
            } else {
                values.extend(secrets_of_url(value.as_bytes()));
            }
        }
        let requests = trials.load.iter().flat_map(|load| &load.requests);
        for (name, value) in requests.flat_map(|request| &request.headers) {
            if is_secret(name) {
                values.extend(printed_parts(value.as_bytes()));
                values.extend(header_parts(value.as_bytes()));
            }
        }
        // A program may print a secret as JSON.
        let quoted: Vec<Vec<u8>> = values.iter().map(|value| json_quoted(value)).collect();
        values.extend(quoted);
        Self::new(values)
    }

    fn new(values: Vec<Vec<u8>>) -> Self {
        let in_text = TextMask::new(values);
        let forms = in_text
            .values()
            .iter()
            .flat_map(|value| [json_quoted(value), encode_hex(value).into_bytes()]);
        let in_json = forms.flat_map(|form| {
            let length = SHORTEST_PART.min(form.len());
            [
                form[..length].to_vec(),
                form[form.len() - length..].to_vec(),
            ]
        });
        Self {
            in_json: any_of(in_json, &invisible_in_json()),
            in_text,
        }
    }

    /// Returns whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.in_text.values().is_empty()
    }

    /// Masks secrets in text. If the text was cut, a part of a secret may remain at its end or at its beginning.
    pub fn mask_text<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.in_text.mask(text)
    }

    /// Parses JSON with the secrets in its strings masked.
    pub fn parse_masked<T>(
        &self,
        json: &[u8],
        parse: impl Fn(&[u8]) -> serde_json::Result<T>,
    ) -> serde_json::Result<T> {
        if !self.is_in_json(json) {
            return parse(json);
        }
        // Text is parsed again: code that reads values would double the code that reads journals.
        let parse_masked = |words_too| {
            let masked = self.masked_value(parse_untrusted_json(json)?, words_too);
            let json = serde_json::to_vec(&masked)?;
            drop(masked);
            parse(&json)
        };
        // A secret may equal a word of the format, such as the name of a state.
        parse_masked(true).or_else(|_| parse_masked(false))
    }

    /// Masks secrets in the strings of JSON; in all of them, or only in strings that are not a single plain word.
    fn masked_value(&self, value: Value, words_too: bool) -> Value {
        let is_word = |text: &str| {
            let mut letters = text.chars();
            letters.all(|c| c.is_ascii_lowercase() || c == '_')
        };
        match value {
            Value::String(text) if !words_too && is_word(&text) => Value::String(text),
            Value::String(text) if text.starts_with('\0') && self.is_in_json(text.as_bytes()) => {
                Value::String(MASK.to_owned())
            }
            Value::String(text) => {
                let masked = self.mask_text(text.as_bytes()).into_owned();
                let replaced =
                    |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
                Value::String(String::from_utf8(masked).unwrap_or_else(replaced))
            }
            Value::Array(values) => {
                let values = values.into_iter();
                values
                    .map(|value| self.masked_value(value, words_too))
                    .collect()
            }
            Value::Object(fields) => {
                let fields = fields.into_iter();
                let masked =
                    fields.map(|(name, value)| (name, self.masked_value(value, words_too)));
                Value::Object(masked.collect())
            }
            other_value => other_value,
        }
    }

    fn is_in_json(&self, json: &[u8]) -> bool {
        let pattern = self.in_json.as_ref();
        pattern.is_some_and(|pattern| pattern.is_match(json))
    }
}

/// Returns a value and the parts of it that programs print: its lines, and the text after `Bearer`.
fn printed_parts(value: &[u8]) -> Vec<Vec<u8>> {
    let words = value.split(u8::is_ascii_whitespace);
    let lines = value.split(|byte| *byte == b'\n');
    let trimmed = [value]
        .into_iter()
        .chain(lines)
        .chain(words)
        .map(<[u8]>::trim_ascii);
    let long = trimmed.filter(|part| part.len() >= SHORTEST);
    long.map(<[u8]>::to_vec).collect()
}

/// Returns the values of the fields of a header, as in `Cookie: session=VALUE; theme=dark`.
fn header_parts(value: &[u8]) -> Vec<Vec<u8>> {
    let fields = value.split(|byte| matches!(byte, b';' | b','));
    let values = fields.flat_map(|field| {
        let start = field.iter().position(|byte| *byte == b'=');
        let value = start.map(|start| &field[start + 1..]);
        [Some(field), value].into_iter().flatten()
    });
    let trimmed = values.map(|part| {
        let part = part.trim_ascii();
        let inside = part
            .strip_prefix(b"\"")
            .and_then(|part| part.strip_suffix(b"\""));
        inside.unwrap_or(part)
    });
    let long = trimmed.filter(|part| part.len() >= SHORTEST);
    long.map(<[u8]>::to_vec).collect()
}

/// Returns the password in `scheme://user:password@host`, or the token in `https://token@host`, as it is written and as
/// programs print it.
fn secrets_of_url(value: &[u8]) -> Vec<Vec<u8>> {
    let secret = || {
        let text = std::str::from_utf8(value).ok()?;
        let (scheme, rest) = text.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        let (user, _) = host.rsplit_once('@')?;
        match user.split_once(':') {
            Some((_, password)) => Some(password.as_bytes()),
            None => scheme.starts_with("http").then_some(user.as_bytes()),
        }
    };
    let Some(secret) = secret().filter(|secret| secret.len() >= SHORTEST) else {
        return Vec::new();
    };
    vec![secret.to_vec(), without_percents(secret)]
}

/// Returns what `%40` and the like in a URL stand for.
fn without_percents(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    decoded
}

/// Returns the form of a value in a JSON string.
fn json_quoted(value: &[u8]) -> Vec<u8> {
    let json = serde_json::to_string(&String::from_utf8_lossy(value)).unwrap_or_default();
    let inside = json
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    inside.unwrap_or_default().as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coloured_secret_in_json_is_masked() {
        let secrets = Secrets::new(vec![b"hunter2hunter2".to_vec()]);
        let json = br#"{"message":"h\u001b[1munter2hunte\u001b[0mr2"}"#;
        let value: Value = secrets
            .parse_masked(json, |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(value["message"], "***");
        let json = "{\"message\":\"h\u{200d}unter2\\u0007hunter\u{fe0f}2\"}".as_bytes();
        let value: Value = secrets
            .parse_masked(json, |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(value["message"], "***");
    }

    #[test]
    fn masking_keeps_json_keys_and_numbers() {
        #[derive(serde::Deserialize, PartialEq, Debug)]
        #[serde(rename_all = "snake_case")]
        enum State {
            Interrupted,
        }
        let secrets = Secrets::new(vec![b"environment".to_vec(), b"60000000".to_vec()]);
        let json = br#"{"environment": 60000000, "kind": "an environment", "hex": "\u0000hex:656e7669726f6e6d656e74"}"#;
        let value: Value = secrets
            .parse_masked(json, |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(value["environment"], 60_000_000);
        assert_eq!(value["kind"], "an ***");
        assert_eq!(value["hex"], "***");
        let secrets = Secrets::new(vec![b"interrupted".to_vec()]);
        let state: State = secrets
            .parse_masked(b"\"interrupted\"", |json| serde_json::from_slice(json))
            .unwrap();
        assert_eq!(state, State::Interrupted);
    }

    #[test]
    fn secrets_are_divided_into_parts_that_programs_print() {
        let parts = |text: &str| -> Vec<String> {
            let parts = printed_parts(text.as_bytes()).into_iter();
            parts.map(|part| String::from_utf8(part).unwrap()).collect()
        };
        assert!(parts("Bearer abcdefgh").contains(&"abcdefgh".to_owned()));
        assert!(parts("line one\nline two").contains(&"line two".to_owned()));
        assert!(parts("short").is_empty());
        let url = |text: &str| -> Vec<String> {
            let parts = secrets_of_url(text.as_bytes()).into_iter();
            parts.map(|part| String::from_utf8(part).unwrap()).collect()
        };
        assert_eq!(
            url("postgres://u:p%40ssw0rd%2@h/db"),
            ["p%40ssw0rd%2", "p@ssw0rd%2"]
        );
        assert_eq!(url("https://ghp_1234567@h/r")[0], "ghp_1234567");
        assert!(url("ssh://builder1@host/a").is_empty());
        assert!(url("http://host:8080/a@b").is_empty());
        let header = header_parts(b"theme=dark; session=\"hunter2hunter2\"");
        assert!(header.contains(&b"hunter2hunter2".to_vec()));
    }
}
