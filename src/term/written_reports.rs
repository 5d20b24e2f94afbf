//! Names the files that reports of a run were written to.

use super::print_message;
use provoke_journal::SharedData;
use provoke_report::Report;
use provoke_words as words;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Prints the names of written files.
pub fn print_written_files(files: &[PathBuf]) {
    for path in files {
        let who_can_read = if is_private(path) {
            " (only you can read it; chmod a+r shares it)"
        } else {
            ""
        };
        print_message(&format!("wrote {}{who_can_read}", path.to_safe()));
    }
}

/// Returns whether only its owner can read a file.
fn is_private(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.mode() & 0o777 == 0o600)
}

/// Prints the size of an archive, and what it does not contain.
pub fn print_bundle(file: &Path, shared: SharedData) {
    let bytes = fs::metadata(file).map_or(0, |metadata| metadata.len());
    let size = words::format_bytes(bytes);
    print_message(&format!("wrote {} ({size})", file.to_safe()));
    let left_out = shared.left_out().join(", ");
    if !left_out.is_empty() {
        print_message(&format!("  left out: {left_out} (--with adds them)"));
    }
}

/// Suggests to report the run with the failures, if this one only tests a fix.
pub fn print_baseline_hint(report: &Report) {
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    if failures == 0
        && let Some(run) = report.confirmed_run()
    {
        let run = shell_word(run.as_ref());
        print_message(&format!(
            "hint: no trial of this run failed; a bug report of its baseline: provoke report {run} --md"
        ));
    }
}
