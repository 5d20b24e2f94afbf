//! What a person sees: the live line, failures as they happen, the summary.
//!
//! The only user of `indicatif` and `console`. Standard output is for results,
//! standard error for talk. Nothing here fails: when nobody listens, nothing is said.

mod checkup;
mod differences;
mod live;
mod partings;
mod screen;
mod source;
mod summary;
mod table;
mod ticks;

pub use checkup::checkup;
pub use differences::differences;
pub use live::Live;
pub use partings::partings;
pub use screen::{Command, width};
pub use summary::{near, summary, verdict};
pub use ticks::Ticks;

use crate::untrusted::SafeText;
use std::io::{self, Write as _};

/// Says a line on standard error.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", safe(line));
}

/// Says text on standard error, broken where it does not fit.
pub fn say_text(indent: usize, text: &str) {
    for line in screen::broken(indent, text).lines() {
        say(line);
    }
}

/// Returns what may be written to standard error.
fn safe(text: &str) -> SafeText {
    SafeText::laid_out(text, console::colors_enabled_stderr())
}

/// Writes a result to standard output. A closed pipe is not an error.
pub fn tell(text: &str) -> io::Result<()> {
    let text = SafeText::laid_out(text, console::colors_enabled());
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}
