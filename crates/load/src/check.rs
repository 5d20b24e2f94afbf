//! Checks whether a response is as expected.

use super::response::ResponseObserver;
use super::{LoadError, LoadPlaceholders, target};
use provoke_model::{RequestResult, ResponseRules, decode_hex};
use regex::bytes::Regex;
use ring::digest::{Context, SHA256};

/// Size up to which a body is kept for a check that needs the whole body.
const LONGEST_KEPT: usize = 64 << 20;

/// Expectations of a response, compiled.
pub(super) struct CompiledResponseRules {
    status: Vec<u16>,
    /// Name in reports, name of the header, and pattern of its value.
    headers: Vec<(String, String, Regex)>,
    body_regex: Option<Regex>,
    sha256: Option<Vec<u8>>,
    /// Name of the check, JSON pointer, and expected value.
    json: Vec<(String, String, Option<String>)>,
    max_bytes: Option<u64>,
    keep: bool,
}

/// Result of the checks of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResponseVerdict {
    Good,
    Status(u16),
    /// A check failed; contains the name of its scenario field.
    Check(String),
}

impl ResponseVerdict {
    pub(super) fn into_result(self) -> RequestResult {
        match self {
            Self::Good => RequestResult::Ok,
            Self::Status(status) => RequestResult::Status(status),
            Self::Check(name) => RequestResult::Check(name),
        }
    }
}

impl CompiledResponseRules {
    pub(super) fn new(answer: &ResponseRules, fill: &LoadPlaceholders) -> Result<Self, LoadError> {
        let compiled = |text: &str| {
            let text = target::fill_marks(text, fill);
            Regex::new(&text).map_err(|error| LoadError::Regex {
                text: text.clone(),
                error: Box::new(error),
            })
        };
        let headers = answer.headers.iter().map(|(name, value)| {
            let check = format!("expect-headers {}", name.to_ascii_lowercase());
            Ok((check, name.clone(), compiled(value)?))
        });
        let sha256 = answer.body_sha256.as_ref().map(|text| {
            decode_hex(text)
                .filter(|bytes| bytes.len() == 32)
                .ok_or_else(|| LoadError::Digest(text.clone()))
        });
        let json = answer.json.iter().map(|(pointer, expected_value)| {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(LoadError::Pointer(pointer.clone()));
            }
            let expected_text = expected_value.as_ref().map(ToString::to_string);
            Ok((
                format!("expect-json {pointer}"),
                pointer.clone(),
                expected_text,
            ))
        });
        let body_regex = answer.body_regex.as_deref().map(compiled).transpose()?;
        Ok(Self {
            status: answer.status.clone(),
            headers: headers.collect::<Result<_, _>>()?,
            keep: body_regex.is_some() || !answer.json.is_empty(),
            body_regex,
            sha256: sha256.transpose()?,
            json: json.collect::<Result<_, _>>()?,
            max_bytes: answer.max_bytes,
        })
    }
}

impl CompiledResponseRules {
    /// Returns whether any header is checked.
    pub(super) fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }
}

/// Facts about a response so far.
#[derive(Default)]
pub(super) struct ResponseFacts {
    pub(super) status: u16,
    length: u64,
    /// Index of the first header check that failed.
    header: Option<usize>,
    digest: Option<Context>,
    body: Vec<u8>,
}

impl ResponseFacts {
    pub(super) fn begin_answer(&mut self, expected: &CompiledResponseRules) {
        self.status = 0;
        self.length = 0;
        self.header = None;
        self.digest = expected.sha256.as_ref().map(|_| Context::new(&SHA256));
        self.body.clear();
    }

    /// Returns the verdict on a complete response.
    pub(super) fn judge_answer(&mut self, expected: &CompiledResponseRules) -> ResponseVerdict {
        let fits = if expected.status.is_empty() {
            self.status < 400
        } else {
            expected.status.contains(&self.status)
        };
        if !fits {
            return ResponseVerdict::Status(self.status);
        }
        if let Some(index) = self.header {
            return ResponseVerdict::Check(expected.headers[index].0.clone());
        }
        let failed = |name: &str| ResponseVerdict::Check(name.to_owned());
        if expected.max_bytes.is_some_and(|max| self.length > max) {
            return failed("max-bytes");
        }
        if let (Some(digest), Some(expected_digest)) = (self.digest.take(), &expected.sha256)
            && digest.finish().as_ref() != &expected_digest[..]
        {
            return failed("expect-sha256");
        }
        if !expected.keep {
            return ResponseVerdict::Good;
        }
        if self.length > self.body.len() as u64 {
            return failed("its body is too long to check");
        }
        let regex = expected.body_regex.as_ref();
        if regex.is_some_and(|regex| !regex.is_match(&self.body)) {
            return failed("expect-body");
        }
        if expected.json.is_empty() {
            return ResponseVerdict::Good;
        }
        let Ok(json) = serde_json::from_slice::<serde_json::Value>(&self.body) else {
            return failed("expect-json: it is not JSON");
        };
        for (name, pointer, expected_value) in &expected.json {
            let found_value = json.pointer(pointer);
            let right = found_value.is_some_and(|value| {
                let as_wanted = |expected_text: &String| match value {
                    serde_json::Value::String(text) => text == expected_text,
                    found_json => serde_json::from_str(expected_text)
                        .is_ok_and(|expected_json: serde_json::Value| expected_json == *found_json),
                };
                expected_value.as_ref().is_none_or(as_wanted)
            });
            if !right {
                return failed(name);
            }
        }
        ResponseVerdict::Good
    }
}

/// Passes a response to its checks.
pub(super) struct ResponseChecker<'a> {
    pub(super) expected: &'a CompiledResponseRules,
    pub(super) facts: &'a mut ResponseFacts,
}

impl ResponseObserver for ResponseChecker<'_> {
    fn on_head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.facts.status = status;
        self.facts.header = self.expected.headers.iter().position(|(_, name, pattern)| {
            let mut values = headers
                .iter()
                .filter(|header| header.name.eq_ignore_ascii_case(name));
            !values.any(|header| pattern.is_match(header.value))
        });
    }

    fn on_body(&mut self, bytes: &[u8]) {
        self.facts.length += bytes.len() as u64;
        if let Some(digest) = &mut self.facts.digest {
            digest.update(bytes);
        }
        if self.expected.keep && self.facts.body.len() + bytes.len() <= LONGEST_KEPT {
            self.facts.body.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        answer: &ResponseRules,
        status: u16,
        headers: &[(&str, &str)],
        body: &str,
    ) -> ResponseVerdict {
        let expected = CompiledResponseRules::new(answer, &Vec::new()).unwrap();
        let mut seen = ResponseFacts::default();
        seen.begin_answer(&expected);
        let headers: Vec<httparse::Header<'_>> = headers
            .iter()
            .map(|(name, value)| httparse::Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        let mut checking = ResponseChecker {
            expected: &expected,
            facts: &mut seen,
        };
        checking.on_head(status, &headers);
        for piece in body.as_bytes().chunks(3) {
            checking.on_body(piece);
        }
        seen.judge_answer(&expected)
    }

    fn failed_check(name: &str) -> ResponseVerdict {
        ResponseVerdict::Check(name.to_owned())
    }

    #[test]
    fn the_status_is_checked_before_everything_else() {
        let plain = ResponseRules::default();
        assert_eq!(verdict(&plain, 302, &[], ""), ResponseVerdict::Good);
        assert_eq!(verdict(&plain, 404, &[], ""), ResponseVerdict::Status(404));
        let wanted = ResponseRules {
            status: vec![404, 500],
            max_bytes: Some(1),
            ..ResponseRules::default()
        };
        assert_eq!(verdict(&wanted, 404, &[], ""), ResponseVerdict::Good);
        assert_eq!(
            verdict(&wanted, 200, &[], "too long"),
            ResponseVerdict::Status(200)
        );
        assert_eq!(
            verdict(&wanted, 500, &[], "too long"),
            failed_check("max-bytes")
        );
    }

    #[test]
    fn each_failed_check_is_named() {
        let answer = ResponseRules {
            headers: vec![("X-Kind".into(), "^a+$".into())],
            body_regex: Some("class".into()),
            json: vec![("/class/0".into(), Some("7".into())), ("/b".into(), None)],
            ..ResponseRules::default()
        };
        let good = r#"{"class":[7],"b":null}"#;
        let header = [("x-kind", "aa")];
        assert_eq!(verdict(&answer, 200, &header, good), ResponseVerdict::Good);
        assert_eq!(
            verdict(&answer, 200, &[], good),
            failed_check("expect-headers x-kind")
        );
        assert_eq!(
            verdict(&answer, 200, &header, "{}"),
            failed_check("expect-body")
        );
        assert_eq!(
            verdict(&answer, 200, &header, "class"),
            failed_check("expect-json: it is not JSON")
        );
        let other = r#"{"class":[8],"b":1}"#;
        assert_eq!(
            verdict(&answer, 200, &header, other),
            failed_check("expect-json /class/0")
        );
        let without = r#"{"class":["7"]}"#;
        assert_eq!(
            verdict(&answer, 200, &header, without),
            failed_check("expect-json /b")
        );
    }

    #[test]
    fn a_digest_covers_the_whole_body() {
        // printf hello | sha256sum
        let answer = ResponseRules {
            body_sha256: Some(
                "2CF24DBA5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824".into(),
            ),
            ..ResponseRules::default()
        };
        assert_eq!(verdict(&answer, 200, &[], "hello"), ResponseVerdict::Good);
        assert_eq!(
            verdict(&answer, 200, &[], "hallo"),
            failed_check("expect-sha256")
        );
    }
}
