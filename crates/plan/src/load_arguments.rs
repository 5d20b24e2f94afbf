//! Reads the command line of a load: its target, the command of its service, and the flags that it refuses.

use super::load::NO_CODES;
use super::{JudgeSettings, StopSettings};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use std::path::{Path, PathBuf};

/// What `provoke load` is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadTarget {
    /// A URL.
    Url(String),
    /// A scenario file.
    File(PathBuf),
}

impl LoadTarget {
    /// Reads a URL, with or without its scheme, or the path of a file.
    pub fn from_text(text: &str) -> Result<Self, Diagnostic> {
        if text.contains("://") {
            Ok(Self::Url(text.to_owned()))
        } else if Path::new(text).is_file() {
            Ok(Self::File(PathBuf::from(text)))
        } else if is_address(text) {
            Ok(Self::Url(format!("http://{text}")))
        } else {
            Err(refuse_at(
                format!("`{}` is neither a URL nor a file", text.to_safe()),
                &["load", "url"],
                "a URL is `http://HOST:PORT/PATH` or `HOST:PORT/PATH`",
            ))
        }
    }
}

/// Returns whether a text is a host and a port, with a path or not: a URL without its scheme.
fn is_address(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Splits the command that starts a service into its words.
pub fn split_service_command(command: &str) -> Result<Vec<String>, Diagnostic> {
    let words = shlex::split(command).filter(|words| !words.is_empty());
    words.ok_or_else(|| {
        refuse_at(
            format!("`{command}` is not a command"),
            &["command"],
            "check that every quote is closed and that the command is not empty",
        )
    })
}

/// Refuses flags of trials that have no meaning, or another one, for a service.
pub fn refuse_service_flags(stop: &StopSettings, judge: &JudgeSettings) -> Result<(), Diagnostic> {
    let refused = [
        (
            "-t",
            stop.timeout.is_some(),
            "--requests or --time ends a trial; --hang-after says when the service is hung",
        ),
        ("--ok", judge.ok.is_some(), NO_CODES),
        ("--skip", judge.skip.is_some(), NO_CODES),
    ];
    match refused.into_iter().find(|(_, is_given, _)| *is_given) {
        Some((flag, _, hint)) => {
            let message = format!("`{flag}` does not apply to a service under load");
            Err(refuse_at(message, &[flag], hint))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_url_without_its_scheme() {
        for (text, url) in [
            ("http://localhost", Some("http://localhost")),
            ("localhost:8080/a", Some("http://localhost:8080/a")),
            ("localhost", None),
            ("localhost:http", None),
            ("/localhost:80", None),
        ] {
            let target = LoadTarget::from_text(text).ok();
            assert_eq!(target, url.map(|url| LoadTarget::Url(url.to_owned())));
        }
    }
}
