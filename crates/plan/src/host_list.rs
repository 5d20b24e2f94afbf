//! Reads lists of hosts: in a setting, separated by commas, and in a file, one on each line.

use super::error::{in_file, refuse_part};
use super::file::read_text;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Hosts that are named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostList {
    /// These hosts.
    Hosts(Vec<ListedHost>),
    /// The hosts in this file.
    File(PathBuf),
}

/// A host, and the facts that the user knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedHost {
    /// Its name.
    pub name: String,
    /// Values by name.
    pub facts: BTreeMap<String, String>,
}

/// A part of a list that is wrong: its position, and the error.
type WrongPart = (Range<usize>, String);

impl ListedHost {
    /// Parses a name and facts, such as `alice gpu=a100`.
    fn parse(entry: &str) -> Result<Self, WrongPart> {
        let mut words = words_of(entry);
        let Some((span, name)) = words.next() else {
            return Err((0..0, "the name of a host is missing".to_owned()));
        };
        // A command would take it for an option.
        if name.starts_with('-') || name.contains(char::is_control) {
            let message = format!("`{}` is not the name of a host", name.to_safe());
            return Err((span, message));
        }
        if is_fact(name) {
            let message = format!(
                "`{}` is a fact, and the host before it is missing",
                name.to_safe()
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
            name: name.to_owned(),
            facts,
        })
    }
}

impl fmt::Display for ListedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
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

impl HostList {
    /// Replaces the name of a file by the hosts in it. A relative path refers to a directory.
    pub(super) fn read_file(&mut self, base: &Path) -> Result<(), Diagnostic> {
        if let Self::File(file) = self {
            *self = Self::Hosts(read_host_file(&base.join(file))?);
        }
        Ok(())
    }
}

impl FromStr for HostList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix('@') {
            Some("") => Err("the name of the file is missing after `@`".to_owned()),
            Some(file) => Ok(Self::File(PathBuf::from(file))),
            None => parse_hosts(text).map(Self::Hosts),
        }
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                f.write_str(&hosts.join(","))
            }
            Self::File(file) => write!(f, "@{}", file.to_string_lossy()),
        }
    }
}

/// Parses hosts that are separated by commas.
fn parse_hosts(list: &str) -> Result<Vec<ListedHost>, String> {
    let mut hosts = Vec::new();
    for entry in list.split(',') {
        let host = ListedHost::parse(entry).map_err(|(_, message)| message)?;
        if is_known(&hosts, &host) {
            return Err(format!("`{}` is in the list twice", host.name));
        }
        hosts.push(host);
    }
    Ok(hosts)
}

/// Reads a file with one host on each line. The text after `#` is a comment.
fn read_host_file(file: &Path) -> Result<Vec<ListedHost>, Diagnostic> {
    let source = read_text(file, "list of hosts")?;
    let complain = |span: Range<usize>, message: String, help: &str| {
        in_file(refuse_part(message, span, help), file, Some(&source))
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
            let help = "write one host on each line: its name, and facts such as `gpu=a100`";
            complain(at(span), message, help)
        })?;
        if is_known(&hosts, &host) {
            let span = words_of(entry).next().map_or(0..0, |(span, _)| span);
            let message = format!("`{}` is in the file twice", host.name);
            return Err(complain(at(span), message, "remove one of the lines"));
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        let help = "write one host on each line";
        return Err(complain(0..0, "the file names no host".to_owned(), help));
    }
    Ok(hosts)
}

fn is_known(hosts: &[ListedHost], host: &ListedHost) -> bool {
    hosts.iter().any(|known| known.name == host.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render_in_file;

    fn read(text: &str) -> Result<Vec<ListedHost>, Diagnostic> {
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
        assert_eq!(parse_hosts("alice gpu=a100 rack=7, root@bob"), Ok(hosts));
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
                "1:1: `gpu=a100` is a fact, and the host before it is missing",
            ),
            ("a\nb\na\n", "3:1: `a` is in the file twice"),
            (
                "-oProxyCommand=x",
                "1:1: `-oProxyCommand=x` is not the name of a host",
            ),
            ("# none\n", "1:1: the file names no host"),
        ] {
            let error = read(text).unwrap_err();
            let shown = render_in_file(&error, false).unwrap();
            let (_, after_name) = shown.split_once("/hosts:").unwrap();
            let position = after_name.lines().next().unwrap();
            assert_eq!(format!("{position}: {}", error.message), place);
        }
    }
    #[test]
    fn a_missing_file_has_the_hint_of_a_similar_list_of_hosts() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("nodes.txt"), "a\n").unwrap();
        std::fs::write(folder.path().join("node.toml"), "").unwrap();
        let hint_of = |name: &str| {
            let error = read_host_file(&folder.path().join(name)).unwrap_err();
            error
                .hint()
                .replace(&format!("{}/", folder.path().to_str().unwrap()), "")
        };
        assert_eq!(hint_of("node.txt"), "did you mean `nodes.txt`?");
        assert_eq!(hint_of("hosts"), "give the path of a list of hosts");
    }
}
