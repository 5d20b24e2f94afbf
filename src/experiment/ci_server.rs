//! Recognizes the CI server on which provoke runs, and shows the result of a run on the page of its job.

use super::exports::{annotate_report, append_step_summary, append_to_summary};
use super::outcome::FinishedRun;
use provoke_report::{Annotation, AnnotationLevel};
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsString;
use std::path::PathBuf;

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

/// Appends the report of a run to the summary of a step of GitHub Actions, whose variables name the file. Returns the
/// annotations to print, and warnings about what could not be written.
pub fn show_on_github(
    run: &FinishedRun,
    verdict_level: AnnotationLevel,
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Vec<Annotation>, Vec<String>) {
    let mut warnings = Vec::new();
    let root = variable("GITHUB_WORKSPACE").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let annotations = annotate_report(&run.folder, &run.report, verdict_level, &root)
        .unwrap_or_else(|error| {
            warnings.push(format!("no annotations: {error}"));
            Vec::new()
        });
    if let Some(path) = step_summary(variable)
        && let Err(error) = append_step_summary(&run.folder, &run.report, &path)
    {
        warnings.push(format!("no summary of the step: {error}"));
    }
    (annotations, warnings)
}

/// Appends a text in Markdown to the summary of a step of GitHub Actions.
pub fn show_text_on_github(
    text: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), Diagnostic> {
    let path = step_summary(variable);
    path.map_or(Ok(()), |path| append_to_summary(&path, text.as_bytes()))
}

fn step_summary(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = variable("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    path.map(PathBuf::from)
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
