//! Reads lists of hosts: in a setting, separated by commas, and in a file, one on each line.

use super::error::{Finding, ScenarioError};
use super::file::read_text;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A destination of ssh, and the facts that the user knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHost {
    /// The destination.
    pub destination: String,
    /// Values by name.
    pub facts: BTreeMap<String, String>,
}

/// A part of a list that is wrong: its position, and the error.
type WrongPart = (Range<usize>, String);

impl ListedHost {
    /// Parses a destination and its facts, such as `alice gpu=a100`.
    fn parse(entry: &str) -> Result<Self, WrongPart> {
        let mut words = words_of(entry);
        let Some((span, destination)) = words.next() else {
            return Err((0..0, "a destination of ssh is missing".to_owned()));
        };
        if destination.starts_with('-') || destination.contains(char::is_control) {
            let message = format!("`{}` is not a destination of ssh", destination.to_safe());
            return Err((span, message));
        }
        if is_fact(destination) {
            let message = format!(
                "`{}` is a fact, and the destination before it is missing",
                destination.to_safe()
            );
            return Err((span, message));
        }
        let mut facts = BTreeMap::new();
        for (span, word) in words {
            let Some((key, value)) = word.split_once('=').filter(|_| is_fact(word)) else {
                let message = format!("`{}` is not a fact such as `gpu=a100`", word.to_safe());
                return Err((span, message));
            };
            if facts.insert(key.to_owned(), value.to_owned()).is_some() {
                let message = format!("the fact `{key}` is given twice");
                return Err((span, message));
            }
        }
        Ok(Self {
            destination: destination.to_owned(),
            facts,
        })
    }
}

impl fmt::Display for ListedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.destination)?;
        self.facts
            .iter()
            .try_for_each(|(key, value)| write!(f, " {key}={value}"))
    }
}

/// Returns the words of a text with their positions.
fn words_of(text: &str) -> impl Iterator<Item = (Range<usize>, &str)> {
    text.split_whitespace().map(|word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        (start..start + word.len(), word)
    })
}

/// Returns whether a word is a name, `=` and a value.
pub(super) fn is_fact(word: &str) -> bool {
    let is_name = |key: &str| {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
        !key.is_empty() && key.chars().all(is_plain)
    };
    word.split_once('=').is_some_and(|(key, value)| {
        is_name(key) && !value.is_empty() && !value.contains(char::is_control)
    })
}

/// Parses hosts that are separated by commas.
pub(super) fn parse_list(list: &str) -> Result<Vec<ListedHost>, String> {
    let mut hosts = Vec::new();
    for entry in list.split(',') {
        let host = ListedHost::parse(entry)
            .map_err(|(_, message)| format!("{message}, in `ssh:{}`", list.to_safe()))?;
        if is_known(&hosts, &host) {
            let name = host.destination;
            return Err(format!("`{name}` is in `ssh:{}` twice", list.to_safe()));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Reads a file with one host on each line. The text after `#` is a comment.
pub(super) fn read_host_file(file: &Path) -> Result<Vec<ListedHost>, ScenarioError> {
    let source = read_text(file, "list of hosts")?;
    let complain = |span: Range<usize>, message: String, help: &str| {
        let finding = Finding {
            message,
            span: Some(span),
            helps: vec![help.to_owned()],
            notes: Vec::new(),
        };
        ScenarioError::new(file, Some(&source), finding)
    };
    let mut hosts = Vec::new();
    let mut start = 0;
    for line in source.split_inclusive('\n') {
        let line_start = start;
        start += line.len();
        let entry = line.split('#').next().unwrap_or_default();
        if entry.trim().is_empty() {
            continue;
        }
        let at = |span: Range<usize>| line_start + span.start..line_start + span.end;
        let host = ListedHost::parse(entry).map_err(|(span, message)| {
            let help =
                "write one host on each line: a destination of ssh, and facts such as `gpu=a100`";
            complain(at(span), message, help)
        })?;
        if is_known(&hosts, &host) {
            let span = words_of(entry).next().map_or(0..0, |(span, _)| span);
            let message = format!("`{}` is in the file twice", host.destination);
            return Err(complain(at(span), message, "remove one of the lines"));
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        let help = "write one destination of ssh on each line";
        return Err(complain(0..0, "the file names no host".to_owned(), help));
    }
    Ok(hosts)
}

fn is_known(hosts: &[ListedHost], host: &ListedHost) -> bool {
    hosts
        .iter()
        .any(|known| known.destination == host.destination)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<ListedHost>, ScenarioError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, text).unwrap();
        read_host_file(&file)
    }

    #[test]
    fn a_file_has_a_host_and_its_facts_on_each_line() {
        let hosts = read("# ours\nalice gpu=a100\track=7 # fast\n\n  root@bob\r\n").unwrap();
        let texts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["alice gpu=a100 rack=7", "root@bob"]);
        assert_eq!(parse_list("alice gpu=a100 rack=7, root@bob"), Ok(hosts));
    }

    #[test]
    fn an_error_in_a_file_has_its_line_and_column() {
        for (text, place) in [
            (
                "a\n  b gpu\n",
                "2:5: `gpu` is not a fact such as `gpu=a100`",
            ),
            ("a x=1 x=2", "1:7: the fact `x` is given twice"),
            (
                "gpu=a100\n",
                "1:1: `gpu=a100` is a fact, and the destination before it is missing",
            ),
            ("a\nb\na\n", "3:1: `a` is in the file twice"),
            (
                "-oProxyCommand=x",
                "1:1: `-oProxyCommand=x` is not a destination of ssh",
            ),
            ("# none\n", "1:1: the file names no host"),
        ] {
            let error = read(text).unwrap_err();
            let (line, column) = error.line_and_column().unwrap();
            assert_eq!(format!("{line}:{column}: {}", error.what_is_wrong()), place);
        }
    }
}
