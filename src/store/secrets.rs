//! Values that must not leave this machine with a report: of variables and of request headers
//! whose names say that they are secret.

use crate::model::{Event, Plan, is_secret};
use regex::bytes::{NoExpand, Regex};
use std::borrow::Cow;

/// A shorter value is also a word that means something else.
const SHORTEST: usize = 8;
/// Room for the pattern that finds them all.
const PATTERN_LIMIT: usize = 64 << 20;

/// What stands in the place of a value.
pub(super) const MASK: &str = "***";

/// The secret values of a run, to be masked in whatever is handed on.
#[derive(Debug, Default)]
pub struct Secrets {
    in_text: Option<Regex>,
    in_json: Option<Regex>,
}

impl Secrets {
    /// Finds the secrets of a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut values: Vec<String> = Vec::new();
        let template = plan.space.iter().map(|space| &space.template);
        let actors = plan.variants.iter().chain(template);
        let own = actors
            .flat_map(|variant| &variant.actors)
            .flat_map(|actor| &actor.env)
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let all = plan.environment.iter().map(|(name, value)| (name, value));
        for (name, value) in all.chain(own) {
            if is_secret(&name.as_os_str().to_string_lossy()) {
                values.extend(parts(&value.as_os_str().to_string_lossy()));
            }
        }
        let requests = plan.load.iter().flat_map(|load| &load.requests);
        for (name, value) in requests.flat_map(|request| &request.headers) {
            if is_secret(name) {
                values.extend(parts(value));
            }
        }
        // Of two values that begin alike, the longer one is masked whole.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        let quoted = |value: &String| {
            let json = serde_json::to_string(value).unwrap_or_default();
            json.trim_matches('"').to_owned()
        };
        Self {
            in_text: any_of(values.iter().cloned()),
            in_json: any_of(values.iter().map(quoted)),
        }
    }

    /// True when there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.in_text.is_none()
    }

    /// Masks them in text.
    pub fn masked<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        replaced(self.in_text.as_ref(), text)
    }

    /// Masks them in JSON.
    pub fn masked_json<'a>(&self, json: &'a [u8]) -> Cow<'a, [u8]> {
        replaced(self.in_json.as_ref(), json)
    }
}

/// Returns a value, and what programs print of it: its lines, and what follows `Bearer`.
fn parts(value: &str) -> Vec<String> {
    let words = value.split_whitespace();
    let all = [value.trim()].into_iter().chain(value.lines()).chain(words);
    let long = all.filter(|part| part.len() >= SHORTEST);
    long.map(str::to_owned).collect()
}

fn any_of(values: impl Iterator<Item = String>) -> Option<Regex> {
    let all: Vec<String> = values.map(|value| regex::escape(&value)).collect();
    if all.is_empty() {
        return None;
    }
    let mut pattern = regex::bytes::RegexBuilder::new(&all.join("|"));
    let pattern = pattern.size_limit(PATTERN_LIMIT).build();
    // Rather everything than a secret.
    Some(pattern.unwrap_or_else(|_| Regex::new(".+").expect("a pattern")))
}

fn replaced<'a>(pattern: Option<&Regex>, text: &'a [u8]) -> Cow<'a, [u8]> {
    pattern.map_or(Cow::Borrowed(text), |pattern| {
        pattern.replace_all(text, NoExpand(MASK.as_bytes()))
    })
}

/// What of a run is shared besides what reports show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// The values of all variables that are not secret.
    pub environment: bool,
    /// Core files.
    pub cores: bool,
    /// Request headers and bodies.
    pub requests: bool,
}

impl Shared {
    /// Takes out of an event what is not shared.
    pub(super) fn stripped(self, mut event: Event) -> Event {
        if let Event::RunStarted { plan, .. } = &mut event {
            if !self.environment {
                strip_environment(plan);
            }
            if !self.requests {
                let requests = plan.load.iter_mut().flat_map(|load| &mut load.requests);
                for (_, value) in requests.flat_map(|request| &mut request.headers) {
                    MASK.clone_into(value);
                }
            }
        }
        event
    }
}

fn strip_environment(plan: &mut Plan) {
    for (_, value) in &mut plan.environment {
        *value = MASK.into();
    }
    let template = plan.space.iter_mut().map(|space| &mut space.template);
    let actors = plan.variants.iter_mut().chain(template);
    for (_, value) in actors
        .flat_map(|variant| &mut variant.actors)
        .flat_map(|actor| &mut actor.env)
    {
        *value = value.take().map(|_| MASK.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let values = values.iter().map(|value| (*value).to_owned());
        Secrets {
            in_text: any_of(values.clone()),
            in_json: any_of(values.map(|value| {
                let json = serde_json::to_string(&value).unwrap();
                json.trim_matches('"').to_owned()
            })),
        }
    }

    #[test]
    fn a_value_is_masked_wherever_it_stands() {
        let secrets = secrets(&["hunter2hunter2", "a\"b\\c\nd12"]);
        let masked = |text: &str| String::from_utf8(secrets.masked(text.as_bytes()).into_owned());
        assert_eq!(masked("xhunter2hunter2y").unwrap(), "x***y");
        assert_eq!(masked("hunter2").unwrap(), "hunter2");
        let json = serde_json::to_string("=a\"b\\c\nd12=").unwrap();
        assert_eq!(&*secrets.masked_json(json.as_bytes()), b"\"=***=\"");
    }

    #[test]
    fn programs_print_a_secret_in_parts() {
        assert_eq!(
            parts("Bearer abcdefgh"),
            ["Bearer abcdefgh", "Bearer abcdefgh", "abcdefgh"]
        );
        assert_eq!(
            parts("line one\nline two"),
            ["line one\nline two", "line one", "line two"]
        );
        assert!(parts("short").is_empty());
    }
}
