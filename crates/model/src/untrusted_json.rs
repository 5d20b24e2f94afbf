//! Parses JSON that a hostile host, core or journal may contain.

use serde::Deserialize;
use serde::de::Error as _;

/// Objects that every text may contain.
const FREE_OBJECTS: usize = 4096;
/// Bytes that a longer text has on average for each object. The shortest objects that provoke writes in large numbers are
/// tests of a suite.
const BYTES_PER_OBJECT: usize = 16;

/// Parses JSON, unless it has far more objects than its length suggests: `{}` is a process with default values, which takes
/// hundreds of bytes of memory and of the journal.
pub fn parse_untrusted_json<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    let most = FREE_OBJECTS + json.len() / BYTES_PER_OBJECT;
    let braces: usize = json.iter().map(|byte| usize::from(*byte == b'{')).sum();
    // Text of a program may consist of braces.
    if braces > most && count_objects(json) > most {
        return Err(serde_json::Error::custom("too many objects for its length"));
    }
    serde_json::from_slice(json)
}

/// Returns the number of braces outside of strings.
fn count_objects(json: &[u8]) -> usize {
    let (mut count, mut in_string, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActorObservation, CaseName, TrialCases};

    #[test]
    fn text_with_far_too_many_objects_is_refused_before_it_takes_memory() {
        let list = |object: &str| format!("[{}{object}]", format!("{object},").repeat(100_000));
        let parse = |text: &str| parse_untrusted_json::<Vec<ActorObservation>>(text.as_bytes());
        let refused = parse(&list("{}")).unwrap_err().to_string();
        assert_eq!(refused, "too many objects for its length");
        assert!(parse(&list(r#"{"last_words":"\\"}"#)).is_ok());
        let few = format!("[{}{{}}]", "{},".repeat(1000));
        assert_eq!(parse(&few).unwrap().len(), 1001);
    }

    #[test]
    fn suites_with_short_names_and_text_of_braces_are_read() {
        let results = (0..100_000).map(|number| crate::CaseResult {
            case: CaseName::without_suite(number.to_string()),
            ..crate::CaseResult::default()
        });
        let cases = TrialCases {
            results: results.collect(),
            ..TrialCases::default()
        };
        let json = serde_json::to_vec(&cases).unwrap();
        assert_eq!(parse_untrusted_json::<TrialCases>(&json).unwrap(), cases);
        let text = r#"\"{"#.repeat(100_000);
        let json = format!("\"{text}\"");
        let parsed: String = parse_untrusted_json(json.as_bytes()).unwrap();
        assert_eq!(parsed.len(), 200_000);
    }
}
