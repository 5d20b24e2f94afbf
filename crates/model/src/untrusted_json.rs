//! Parses JSON that a hostile host, core or journal may contain.

use serde::Deserialize;
use serde::de::Error as _;

/// Objects that every text may contain.
const FREE_OBJECTS: usize = 4096;
/// Bytes that a longer text has on average for each object. The shortest objects that provoke writes in large numbers are
/// tests of a suite.
const BYTES_PER_OBJECT: usize = 16;
/// Objects of a text: a search has at most a million candidates.
const MOST_OBJECTS_OF_ALL: usize = 1 << 21;
/// Objects of a text outside of long lists. An object can take twenty times as much memory as its text.
const MOST_OBJECTS: usize = 1 << 17;
/// Elements of lists that every text may contain: a search has at most a million candidates. A short text in a list takes
/// twenty times as much memory as its JSON.
const FREE_ELEMENTS: usize = 1 << 21;
/// Members of an object that are not counted as elements. Only maps have more.
const FREE_MEMBERS: usize = 64;
/// Lists of objects that take little memory, of which there can be many: candidates and items of a search, names of tests,
/// their results and failures.
const LONG_LISTS: [&[u8]; 7] = [
    b"places",
    b"things",
    b"known",
    b"cases_named",
    b"failures",
    b"planned",
    b"results",
];
/// Depth to which the parser reads objects and lists.
const DEEPEST: usize = 128;

/// Parses JSON, unless it has far more objects or elements of lists than its length suggests: `{}` is a process with default
/// values, which takes hundreds of bytes of memory and of the journal.
pub fn parse_untrusted_json<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    if !is_parsed_untrusted(json) {
        return Err(serde_json::Error::custom("too many objects for its length"));
    }
    serde_json::from_slice(json)
}

/// Returns whether [`parse_untrusted_json`] parses JSON, and does not refuse it because of its objects and lists.
pub fn is_parsed_untrusted(json: &[u8]) -> bool {
    let of_length = FREE_OBJECTS + json.len() / BYTES_PER_OBJECT;
    let (most, most_elements) = (
        MOST_OBJECTS_OF_ALL.min(of_length),
        FREE_ELEMENTS.max(of_length),
    );
    // Text of a program may consist of braces and commas.
    let may_have_more = count_bytes(json, b'{') > most.min(MOST_OBJECTS)
        || json.len() > most_elements && count_bytes(json, b',') > most_elements;
    if !may_have_more {
        return true;
    }
    let objects = ObjectCount::of(json);
    objects.all <= most
        && objects.outside_of_long_lists <= MOST_OBJECTS
        && objects.elements <= most_elements
}

/// Parses JSON that must be small, because each of its objects takes much memory.
pub fn parse_small_json<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    if count_bytes(json, b'{') > MOST_OBJECTS && ObjectCount::of(json).all > MOST_OBJECTS {
        return Err(serde_json::Error::custom("too many objects"));
    }
    parse_untrusted_json(json)
}

fn count_bytes(json: &[u8], wanted: u8) -> usize {
    json.iter().map(|byte| usize::from(*byte == wanted)).sum()
}

/// Numbers of objects in a text.
#[derive(Debug, Default, PartialEq, Eq)]
struct ObjectCount {
    all: usize,
    outside_of_long_lists: usize,
    /// Elements of lists and members of maps, without the last one of each.
    elements: usize,
}

/// An object or a list that has not ended.
struct OpenValue {
    /// Members that may still follow without being counted.
    uncounted: usize,
    is_in_long_list: bool,
}

impl ObjectCount {
    fn of(json: &[u8]) -> Self {
        let mut count = Self::default();
        // The latest text, and the key before a value.
        let (mut text, mut key) = (&[][..], &[][..]);
        let mut open: Vec<OpenValue> = Vec::new();
        let mut position = 0;
        while let Some(byte) = json.get(position) {
            let is_in_long_list = open.last().is_some_and(|value| value.is_in_long_list);
            match byte {
                b'"' => {
                    let end = end_of_string(json, position + 1);
                    text = &json[position + 1..end];
                    position = end;
                }
                b':' => key = text,
                b'{' => {
                    count.all += 1;
                    count.outside_of_long_lists += usize::from(!is_in_long_list);
                    open.push(OpenValue {
                        uncounted: FREE_MEMBERS,
                        is_in_long_list,
                    });
                    key = &[];
                }
                b'[' => {
                    open.push(OpenValue {
                        uncounted: 0,
                        is_in_long_list: is_in_long_list || LONG_LISTS.contains(&key),
                    });
                    key = &[];
                }
                b',' => {
                    key = &[];
                    if let Some(value) = open.last_mut() {
                        match value.uncounted.checked_sub(1) {
                            Some(left) => value.uncounted = left,
                            None => count.elements += 1,
                        }
                    }
                }
                b'}' | b']' => drop(open.pop()),
                _ => {}
            }
            if open.len() > DEEPEST {
                // The parser refuses the text here.
                break;
            }
            position += 1;
        }
        count
    }
}

/// Returns the position of the quote that ends a string, or the end of the text.
fn end_of_string(json: &[u8], start: usize) -> usize {
    let mut position = start;
    while let Some(byte) = json.get(position) {
        match byte {
            b'"' => return position,
            b'\\' => position += 2,
            _ => position += 1,
        }
    }
    json.len()
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
    fn lists_with_far_too_many_elements_are_refused_before_they_take_memory() {
        let list =
            |element: &str, count| format!("[{}{element}]", format!("{element},").repeat(count));
        let is_parsed = |json: String| is_parsed_untrusted(json.as_bytes());
        for element in ["0", "\"\"", "[]"] {
            assert!(!is_parsed(list(element, 2_200_000)), "{element}");
            assert!(is_parsed(list(element, 2_000_000)), "{element}");
        }
        assert!(is_parsed(list("\"a name of a test\"", 2_200_000)));
        let map = format!(r#"{{"a":1{}}}"#, r#","b":1"#.repeat(2_200_000));
        assert!(!is_parsed(map));
        let small = r#"{"a":1,"b":1},"#.repeat(1_000_000);
        let json = format!(r#"{{"places":[{small}{{}}]}}"#);
        assert_eq!(ObjectCount::of(json.as_bytes()).elements, 1_000_000);
        let text = ",".repeat(3_000_000);
        assert!(is_parsed(format!("[\"{text}\"]")));
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

    #[test]
    fn only_lists_of_small_objects_are_long() {
        let count = |json: &str| {
            let count = ObjectCount::of(json.as_bytes());
            (count.all, count.outside_of_long_lists)
        };
        assert_eq!(count(r#"{"actors":[{},{"a":[{}]}]}"#), (4, 4));
        assert_eq!(count(r#"{"places":[{},{"a":[{}]}],"b":[{}]}"#), (5, 2));
        assert_eq!(count(r#"{"a":"\"places\":[{","b":{}}"#), (2, 2));
        assert_eq!(count(r#"{"a":"{"#), (1, 1));
        assert_eq!(
            count(r#"{"results":[],"actors" :[{}],"places" : [{}]}"#),
            (3, 2)
        );
        assert_eq!(count(r#"{"places":0,"a":[["places",[{}]],[{}]]}"#), (3, 3));
        let list = |name: &str| {
            let objects = r#"{"last_words":""},"#.repeat(200_000);
            format!(r#"{{"{name}":[{objects}{{}}]}}"#)
        };
        let parse = |name| parse_untrusted_json::<serde::de::IgnoredAny>(list(name).as_bytes());
        assert!(parse("places").is_ok());
        assert!(parse("actors").is_err());
    }
}
