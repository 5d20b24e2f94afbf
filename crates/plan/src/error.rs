//! Describes an error in a scenario file: message, position and hint.

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use provoke_words::untrusted::Untrusted as _;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// Why a scenario file is invalid, with the position and a hint.
#[derive(Clone, Debug)]
pub struct ScenarioError(Box<ScenarioErrorParts>);

#[derive(Clone, Debug)]
struct ScenarioErrorParts {
    finding: Finding,
    file: String,
    source: Option<String>,
}

/// An error within a known text.
#[derive(Clone, Debug, Default)]
pub(super) struct Finding {
    /// One sentence, without a full stop.
    pub(super) message: String,
    /// Position in the text; `None` if the error has no position.
    pub(super) span: Option<Range<usize>>,
    /// Hints.
    pub(super) helps: Vec<String>,
    /// Further information.
    pub(super) notes: Vec<String>,
}

impl ScenarioError {
    pub(super) fn new(file: &Path, source: Option<&str>, finding: Finding) -> Self {
        let parts = ScenarioErrorParts {
            finding,
            file: file.to_safe().into_string(),
            source: source.map(str::to_owned),
        };
        Self(Box::new(parts))
    }

    /// Returns the error as a message of several lines, with colours if `styled`.
    pub fn render_message(&self, styled: bool) -> String {
        let ScenarioErrorParts {
            finding,
            file,
            source,
        } = &*self.0;
        let message = escape_control(&finding.message);
        let file = escape_control(file);
        let notes = finding
            .notes
            .iter()
            .map(|text| Level::NOTE.message(escape_control(text)));
        let helps = finding
            .helps
            .iter()
            .map(|text| Level::HELP.message(escape_control(text)));
        let title = Level::ERROR.primary_title(message);
        let group = match (source, &finding.span) {
            (Some(source), Some(span)) => {
                let mark = AnnotationKind::Primary.span(first_line(source, span));
                title.element(Snippet::source(source).path(file).annotation(mark))
            }
            _ => title.element(Origin::path(file)),
        };
        let group = group
            .elements(notes.collect::<Vec<_>>())
            .elements(helps.collect::<Vec<_>>());
        let renderer = if styled {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        renderer.render(&[group])
    }

    /// Returns the error, without its position and hint.
    pub fn what_is_wrong(&self) -> &str {
        &self.0.finding.message
    }

    /// Returns the line and the column (in characters) of the error, both from 1.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        let source = self.0.source.as_ref()?;
        let text_before = &source[..first_line(source, self.0.finding.span.as_ref()?).start];
        let line = text_before.rsplit('\n').next().unwrap_or(text_before);
        Some((
            text_before.matches('\n').count() + 1,
            line.chars().count() + 1,
        ))
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render_message(false))
    }
}

impl std::error::Error for ScenarioError {}

/// Cuts a span to its first line, and to whole characters of the text: carets under a single line are clearer than
/// under many.
fn first_line(source: &str, span: &Range<usize>) -> Range<usize> {
    let boundary = |is_boundary: &usize| source.is_char_boundary(*is_boundary);
    // An error at the end of the text is shown after the last line, not on an empty one.
    let last = source.trim_end_matches(['\n', '\r']).len();
    let start = (0..=span.start.min(last)).rev().find(boundary).unwrap_or(0);
    let line = source[start..]
        .find(['\n', '\r'])
        .map_or(source.len(), |end| start + end);
    let end = (span.end..line).find(boundary).unwrap_or(line);
    start..end.max(start)
}

/// Escapes a message, but keeps its lines, so that text from a file cannot control a terminal.
fn escape_control(text: &str) -> String {
    let escaped = |letter: char| match letter {
        letter if letter.is_control() => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(escaped).collect()
}
