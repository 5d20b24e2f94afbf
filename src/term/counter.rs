//! Shows the progress of a task that is not a run; without a terminal it shows nothing.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use provoke_words::untrusted::SafeText;

/// A progress line; it disappears when it is dropped.
pub struct ProgressLine(ProgressBar);

impl Default for ProgressLine {
    fn default() -> Self {
        Self(moving_bar("  {wide_msg}"))
    }
}

/// Returns a bar on stderr that shows its message in this template.
pub(super) fn moving_bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template(template).expect("a fixed template"));
    bar
}

impl ProgressLine {
    /// Replaces the text of the line.
    pub fn show_text(&self, text: &str) {
        self.0.set_message(SafeText::from_line(text).into_string());
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
