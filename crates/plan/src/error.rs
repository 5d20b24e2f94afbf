//! Describes an error in a scenario file: message, position and hint.

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use provoke_words::diagnostic::{Diagnostic, Excerpt};
use provoke_words::untrusted::Untrusted as _;
use std::ops::Range;
use std::path::Path;

/// Creates the error of a part of a text.
pub(super) fn refuse_part(
    message: impl Into<String>,
    span: Range<usize>,
    hint: impl Into<String>,
) -> Diagnostic {
    let excerpt = Excerpt {
        span: Some(span),
        ..Excerpt::default()
    };
    Diagnostic {
        excerpt: Some(Box::new(excerpt)),
        ..Diagnostic::usage(message).with_hint(hint)
    }
}

/// Adds the file that contains an error.
pub(super) fn in_file(error: Diagnostic, file: &Path, source: Option<&str>) -> Diagnostic {
    let excerpt = Excerpt {
        file: file.to_safe().into_string(),
        source: source.map(str::to_owned),
        ..error.excerpt.map(|excerpt| *excerpt).unwrap_or_default()
    };
    Diagnostic {
        excerpt: Some(Box::new(excerpt)),
        ..error
    }
}

/// Returns an error in a file as a message of several lines, with colours if `styled`. Other errors have none.
pub fn render_in_file(error: &Diagnostic, styled: bool) -> Option<String> {
    let excerpt = error.excerpt.as_ref()?;
    let notes = excerpt
        .notes
        .iter()
        .map(|text| Level::NOTE.message(escape_control(text)));
    let helps = error
        .hints
        .iter()
        .map(|text| Level::HELP.message(escape_lines(text)));
    let title = Level::ERROR.primary_title(escape_control(&error.message));
    let file = escape_control(&excerpt.file);
    let group = match (&excerpt.source, &excerpt.span) {
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
    Some(renderer.render(&[group]))
}

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

/// Escapes a message, so that text from a file cannot control a terminal.
fn escape_control(text: &str) -> String {
    let escaped = |letter: char| match letter {
        letter if letter.is_control() => letter.escape_default().to_string(),
        letter => letter.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// The same for a hint, which may have several lines.
fn escape_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(escape_control).collect();
    lines.join("\n")
}
