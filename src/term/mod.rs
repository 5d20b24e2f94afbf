//! Output on the terminal: the live line, the failures and the summary.
//!
//! The only user of `indicatif` and `console`. Standard output is for results,
//! standard error for talk. Nothing here fails: when nobody listens, nothing is said.

mod checkup;
mod counter;
mod differences;
mod live;
mod partings;
mod runs;
mod screen;
mod summary;
mod table;
mod ticks;

pub use checkup::checkup;
pub use counter::Counter;
pub use differences::differences;
pub use live::Live;
pub use partings::partings;
pub use runs::{StoredRun, runs};
pub use screen::{Command, Screen, page_width, width};
pub use summary::{Pooled, near, summary, verdict};
pub use ticks::Ticks;

use crate::untrusted::SafeText;
use std::io::{self, Write as _};

/// Says a line on standard error, broken at the width of the terminal.
pub fn say(line: &str) {
    say_as_it_is(&screen::for_stderr(line));
}

/// Says lines on standard error that are laid out already, or that are of a program.
pub fn say_as_it_is(lines: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", safe(lines));
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
