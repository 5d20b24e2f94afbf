//! Annotations of a CI server: the verdict, and the most frequent failures at their source lines.

use super::shared_failures::{SharedFailure, shared_failures};
use super::{Masked, MaskedRun, Report, SignatureReport, headlines};
use provoke_words as words;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of failures with an annotation. GitHub shows ten annotations of a step, and one is the verdict.
const MAX_FAILURES: usize = 9;
/// Maximum length of the text of an annotation, in characters.
const MAX_TEXT: usize = 1000;
/// Maximum length of a title, in characters.
const MAX_TITLE: usize = 200;
/// Maximum number of variants that an annotation lists.
const MAX_VARIANTS: usize = 5;

/// How serious an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationLevel {
    /// The job fails for this reason.
    Error,
    /// The reader should look at it.
    Warning,
    /// For information.
    Notice,
}

/// A message that a CI server shows beside a job or a line of source code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// How serious it is.
    pub level: AnnotationLevel,
    /// Its title.
    pub title: String,
    /// Its text.
    pub text: String,
    /// The file relative to the root of the repository, and the line.
    pub source: Option<(PathBuf, u32)>,
}

impl Annotation {
    /// Returns the command with which GitHub's runner shows the annotation.
    pub fn workflow_command(&self) -> String {
        let mut command = match self.level {
            AnnotationLevel::Error => "::error ".to_owned(),
            AnnotationLevel::Warning => "::warning ".to_owned(),
            AnnotationLevel::Notice => "::notice ".to_owned(),
        };
        if let Some((file, line)) = &self.source {
            let file = escape_property(&file.to_string_lossy());
            let _ = write!(command, "file={file},line={line},");
        }
        let title = escape_property(&self.title);
        let text = escape_data(&words::sanitize_lines(&self.text));
        let _ = write!(command, "title={title}::{text}");
        command
    }
}

/// Returns the verdict and the most frequent failures as annotations. Lines of source code below `root` are named.
pub fn export_annotations(
    run: &MaskedRun<'_>,
    verdict_level: AnnotationLevel,
    root: &Path,
) -> Vec<Annotation> {
    let report = run.report();
    let mut failures = shared_failures(&report.get().variants);
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.trials.len()));
    let unshown = failures.len().saturating_sub(MAX_FAILURES) as u64;
    let so_far = if report.finished { "" } else { " so far" };
    let mut sentences = headlines::answer_sentences(&report);
    let unshown_sentences = sentences.len().saturating_sub(MAX_VARIANTS) as u64;
    sentences.truncate(MAX_VARIANTS);
    if unshown_sentences > 0 {
        sentences.push(words::plural_of(
            unshown_sentences,
            "more variant",
            "more variants",
        ));
    }
    if unshown > 0 {
        let more = words::plural_of(unshown, "more signature", "more signatures");
        sentences.push(format!("{more} without an annotation"));
    }
    let verdict = Annotation {
        level: verdict_level,
        title: format!("{}{so_far}", headlines::verdict_text(report.verdict)),
        text: words::shorten_text(&sentences.join("\n"), MAX_TEXT),
        source: None,
    };
    let root = fs::canonicalize(root).ok();
    let failures = failures.into_iter().take(MAX_FAILURES).map(|failure| {
        let is_cause = failure.signature.is_the_bug && verdict_level == AnnotationLevel::Error;
        Annotation {
            level: if is_cause {
                AnnotationLevel::Error
            } else {
                AnnotationLevel::Warning
            },
            title: words::shorten_text(&failure.signature.title, MAX_TITLE),
            text: failure.describe_counts(report),
            source: root
                .as_deref()
                .and_then(|root| source_below(failure.signature, root)),
        }
    });
    std::iter::once(verdict).chain(failures).collect()
}

impl SharedFailure<'_> {
    fn describe_counts(&self, report: Masked<&Report>) -> String {
        let mut lines: Vec<String> = self
            .groups
            .iter()
            .take(MAX_VARIANTS)
            .map(|part| {
                let count = part.group.trial_count();
                let trials = words::format_count(part.variant.trials, "trial");
                match part.variant.name.as_str() {
                    "" => format!("{count} of {trials}"),
                    name => format!("{name}: {count} of {trials}"),
                }
            })
            .collect();
        let unshown = self.groups.len().saturating_sub(MAX_VARIANTS) as u64;
        if unshown > 0 {
            lines.push(words::plural_of(unshown, "more variant", "more variants"));
        }
        lines.push(format!("signature {}", self.signature.id));
        if let Some(trial) = self.groups[0].group.measured_trials().min() {
            lines.push(format!("provoke explain {}#{trial}", report.run));
        }
        words::shorten_text(&lines.join("\n"), MAX_TEXT)
    }
}

/// Returns the first source line of a failure that is a file below this directory.
fn source_below(signature: &SignatureReport, root: &Path) -> Option<(PathBuf, u32)> {
    signature.sites.iter().find_map(|site| {
        // The path comes from a program: only an existing file is named, and by its real path.
        let path = fs::canonicalize(root.join(&site.file)).ok()?;
        let relative = path.strip_prefix(root).ok()?;
        path.is_file().then(|| (relative.to_owned(), site.line))
    })
}

/// Escapes the text of a workflow command.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Escapes a property of a workflow command, in one line.
fn escape_property(text: &str) -> String {
    escape_data(&words::sanitize_line(text))
        .replace(':', "%3A")
        .replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_one_command_whatever_its_text_contains() {
        let annotation = Annotation {
            level: AnnotationLevel::Error,
            title: "a: b, 100 %\n::add-mask::x ##[group]".to_owned(),
            text: "50 %\r\n::stop-commands::x\n##vso[y]\u{1b}[2J".to_owned(),
            source: Some((PathBuf::from("a,b:c/%.c"), 7)),
        };
        insta::assert_snapshot!(annotation.workflow_command(), @r"::error file=a%2Cb%3Ac/%25.c,line=7,title=a%3A b%2C 100 %25\n\x3a%3Aadd-mask%3A%3Ax \x23#[group]::50 %25%0A\x3a:stop-commands::x%0A\x23#vso[y]\x1b[2J");
    }
}
