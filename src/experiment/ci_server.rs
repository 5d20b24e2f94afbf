//! Recognizes the CI server on which provoke runs.

use std::ffi::OsString;

/// CI servers with their own output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CiServer {
    /// GitHub Actions, and servers that are compatible with it, such as Forgejo.
    GitHub,
    /// GitLab.
    GitLab,
}

impl CiServer {
    /// Returns the server that sets these variables.
    pub fn of_environment(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        // Trials of an outer provoke would all write to its page.
        if variable("PROVOKE_TRIAL").is_some() {
            return None;
        }
        let is_true = |name: &str| variable(name).is_some_and(|value| value == "true");
        if is_true("GITHUB_ACTIONS") {
            Some(Self::GitHub)
        } else if is_true("GITLAB_CI") {
            Some(Self::GitLab)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server_with(variables: &[(&str, &str)]) -> Option<CiServer> {
        CiServer::of_environment(|name| {
            let entry = variables.iter().find(|(variable, _)| *variable == name);
            entry.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_environment_determines_the_server() {
        let github = ("GITHUB_ACTIONS", "true");
        assert_eq!(server_with(&[github]), Some(CiServer::GitHub));
        assert_eq!(
            server_with(&[("GITLAB_CI", "true")]),
            Some(CiServer::GitLab)
        );
        assert_eq!(server_with(&[("GITHUB_ACTIONS", "")]), None);
        assert_eq!(server_with(&[("CI", "true")]), None);
        assert_eq!(server_with(&[github, ("PROVOKE_TRIAL", "1")]), None);
    }
}
