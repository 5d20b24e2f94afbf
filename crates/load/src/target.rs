//! Parses the target URL, and resolves its host.

use super::{LoadError, LoadPlaceholders};
use provoke_model::{TargetPlan, Text};
use provoke_words::untrusted::Untrusted as _;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};

/// A target without placeholders.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) secure: bool,
    pub(super) host: String,
    pub(super) port: u16,
    /// Host, and port if it is not the default port.
    pub(super) authority: String,
    /// Prefix of each request path, without a slash at its end.
    pub(super) prefix: String,
    pub(super) unix: Option<PathBuf>,
}

impl Target {
    pub(super) fn new(plan: &TargetPlan, fill: &LoadPlaceholders) -> Result<Self, LoadError> {
        let base = fill_marks(&plan.base, fill);
        let unix = plan
            .unix
            .as_ref()
            .map(|path| PathBuf::from(path.fill_marks(fill).as_os_str()));
        let wrong = |problem| LoadError::Base {
            base: base.clone(),
            why: problem,
        };
        let (secure, rest) = if let Some(rest) = base.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = base.strip_prefix("https://") {
            (true, rest)
        } else if unix.is_some() && (base.is_empty() || base.starts_with('/')) {
            (false, &base[..])
        } else {
            return Err(wrong("it must begin with `http://` or `https://`"));
        };
        if rest.contains(breaks_lines) {
            return Err(wrong("it contains a space or a control character"));
        }
        let slash = rest.find('/').unwrap_or(rest.len());
        let (authority, prefix) = rest.split_at(slash);
        if authority.contains('@') {
            return Err(wrong("put a user name and password in a header"));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong(
                "put the part from `?` or `#` on in the path of a request",
            ));
        }
        let authority = if authority.is_empty() && unix.is_some() {
            "localhost"
        } else {
            authority
        };
        let (host, port_text) = match authority.strip_prefix('[') {
            Some(v6) => v6
                .split_once(']')
                .ok_or_else(|| wrong("a `[` without its `]`"))?,
            None => authority.split_at(authority.rfind(':').unwrap_or(authority.len())),
        };
        let port = match port_text.strip_prefix(':') {
            None if port_text.is_empty() => 80 + 363 * u16::from(secure),
            digits => digits
                .and_then(|digits| digits.parse().ok())
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?,
        };
        if host.is_empty() || host.contains([' ', ':']) && !authority.starts_with('[') {
            return Err(wrong("it has no host"));
        }
        Ok(Self {
            secure,
            host: host.to_owned(),
            port,
            authority: authority.to_owned(),
            prefix: prefix.trim_end_matches('/').to_owned(),
            unix,
        })
    }

    /// Resolves the addresses of the host; blocks until the resolver returns.
    pub(super) fn resolve_addresses(&self) -> Result<Vec<SocketAddr>, String> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        match (&self.host[..], self.port).to_socket_addrs() {
            Ok(resolved) => {
                let addresses: Vec<SocketAddr> = resolved.collect();
                if addresses.is_empty() {
                    return Err(String::from("no address"));
                }
                Ok(addresses)
            }
            Err(error) => Err(resolver_said(&error)),
        }
    }

    /// Returns the first address that does not belong to this machine.
    pub(super) fn foreign_address(&self) -> Result<Option<IpAddr>, String> {
        if self.unix.is_some() {
            return Ok(None);
        }
        let socket_addresses = self.resolve_addresses()?;
        let mut addresses = socket_addresses.iter().map(SocketAddr::ip);
        Ok(addresses.find(|address| !is_ours(*address)))
    }

    /// Returns a name for messages.
    pub(super) fn display_name(&self) -> String {
        match &self.unix {
            Some(path) => path.to_safe().into_string(),
            None if self.host.contains(':') => format!("[{}]:{}", self.host, self.port),
            None => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Returns whether the address belongs to this machine: only such an address can be bound to.
fn is_ours(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

/// Returns whether a character is invalid in the first line of a request.
pub(super) fn breaks_lines(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

/// Replaces placeholders such as `{slot}`.
pub(super) fn fill_marks(text: &str, fill: &LoadPlaceholders) -> String {
    let text = Text::from(text).fill_marks(fill);
    text.to_string()
}

/// Replaces placeholders in a path.
pub(super) fn fill_path(text: &Text, fill: &LoadPlaceholders) -> PathBuf {
    Path::new(text.fill_marks(fill).as_os_str()).to_owned()
}

/// Returns the resolver's message without the prefix of all such errors.
pub(super) fn resolver_said(error: &io::Error) -> String {
    let message = error.to_string();
    let prefix = "failed to lookup address information: ";
    message.strip_prefix(prefix).unwrap_or(&message).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(base: &str, unix: Option<&str>) -> Result<Target, LoadError> {
        let plan = TargetPlan {
            base: base.to_owned(),
            unix: unix.map(Into::into),
            ..TargetPlan::default()
        };
        Target::new(&plan, &vec![("{slot}", "3".to_owned())])
    }

    #[test]
    fn a_base_url_has_a_host_a_port_and_a_path_prefix() {
        let cases = [
            ("http://a:81/v1/", false, "a", 81, "a:81", "/v1"),
            ("https://a", true, "a", 443, "a", ""),
            (
                "http://[::1]:900{slot}",
                false,
                "::1",
                9003,
                "[::1]:9003",
                "",
            ),
            ("http://127.0.0.1", false, "127.0.0.1", 80, "127.0.0.1", ""),
        ];
        for (base, secure, host, port, authority, prefix) in cases {
            let target = target(base, None).unwrap();
            assert_eq!(
                (target.secure, &target.host[..], target.port),
                (secure, host, port)
            );
            assert_eq!(
                (&target.authority[..], &target.prefix[..]),
                (authority, prefix)
            );
        }
        let target = target("", Some("/run/{slot}.sock")).unwrap();
        assert_eq!(target.unix.as_deref(), Some(Path::new("/run/3.sock")));
        assert_eq!(target.authority, "localhost");
    }

    #[test]
    fn a_malformed_base_url_is_refused() {
        for base in [
            "",
            "a:80",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://[::1",
            "http://u@a",
            "http://a/?b",
            "http://a/b c",
            "http://a/b\r\nX: y",
            "http://::1",
        ] {
            assert!(target(base, None).is_err(), "{base:?}");
        }
    }

    #[test]
    fn an_address_of_another_machine_is_recognized() {
        // The network for documentation (RFC 5737) has no hosts.
        let there = target("http://192.0.2.7", None).unwrap();
        assert_eq!(there.foreign_address(), Ok(Some([192, 0, 2, 7].into())));
        let here = target("http://127.0.0.1", None).unwrap();
        assert_eq!(here.foreign_address(), Ok(None));
    }
}
