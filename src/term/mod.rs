//! Output on the terminal: the live line, the failures and the summary.
//!
//! This module is the only user of `indicatif` and `console`. Results go to stdout, messages to stderr. Errors in
//! writing to stderr are ignored.

mod counter;
mod document;
mod errors;
mod experiment;
mod live;
mod live_fit;
mod live_hosts;
mod load_progress;
mod man_pages;
mod pictures;
mod replay;
mod runs;
mod screen;
mod suite;
mod summary;
mod table;
mod ticks;
mod written_reports;

pub use counter::ProgressLine;
pub use document::{format_documents, format_table};
pub use errors::{print_error, print_hint, render_parser_message, stderr_has_colours};
pub use experiment::{
    DisplayStyle, ObserverSettings, ProgressDisplay, ProgressKind, TerminalObserver, describe_file,
};
pub use man_pages::{render_man_page, show_every_help, write_man_pages};
pub use replay::{format_replay, print_rerun_limits};
pub use runs::{describe_run_count, format_runs, format_runs_nearby};
pub use screen::{Screen, help_width, page_width, stdout_width};
pub use suite::format_cases;
pub use summary::{format_summary, format_verdict};
pub use written_reports::{print_baseline_hint, print_bundle, print_written_files};

use live::LiveDisplay;
use provoke_report::Annotation;
use provoke_words::untrusted::SafeText;
use std::io::{self, Write as _};
use summary::relative_to_cwd;
use ticks::TrialTicks;

/// Writes a message to stderr, wrapped to the width of the terminal.
pub fn print_message(line: &str) {
    say_as_it_is(&screen::for_stderr(line));
}

/// Writes lines to stderr that already have their layout, or that come from a program.
pub fn say_as_it_is(lines: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", safe_for_stderr(lines));
}

/// Writes the commands of a CI server to stderr, which its runner executes.
pub fn print_annotations(annotations: &[Annotation]) {
    let mut stderr = io::stderr().lock();
    for annotation in annotations {
        // The command contains text of programs only with escapes.
        let _ = writeln!(stderr, "{}", annotation.workflow_command());
    }
}

/// Returns the text with escapes, for stderr.
fn safe_for_stderr(text: &str) -> SafeText {
    SafeText::laid_out(text, stderr_has_colours())
}

/// Writes a page whose first paragraph is its answer to stdout. A terminal that is too short for the page shows the
/// answer at the end, too.
pub fn print_page(page: &str) -> io::Result<()> {
    print_result(&screen::with_answer_last(page))
}

/// Writes a result to stdout. A closed pipe is not an error.
pub fn print_result(text: &str) -> io::Result<()> {
    let text = SafeText::laid_out(text, console::colors_enabled());
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
