//! Writes the parts that were left out as a patch.

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};
use std::convert::Infallible;

/// Number of lines shown around a change.
const CONTEXT: usize = 3;

/// Returns a unified diff of two texts, byte for byte, for `git apply` and `patch -p1`. The name is relative to the top
/// of the tree, and contains no line end. Equal texts have an empty diff.
pub fn unified_diff(name: &str, old: &[u8], new_text: &[u8]) -> Vec<u8> {
    let lines = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect();
    let (old, new_lines): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old), lines(new_text));
    let hunks = group_diff_ops(find_changes(&old, &new_lines), CONTEXT);
    let mut output = Vec::new();
    if !hunks.is_empty() {
        // A tab marks the end of a name with spaces.
        let end = if name.contains(' ') { "\t" } else { "" };
        let head = format!("--- a/{name}{end}\n+++ b/{name}{end}\n");
        output.extend_from_slice(head.as_bytes());
    }
    for hunk in hunks {
        if let (Some(first), Some(last)) = (hunk.first(), hunk.last()) {
            let old_range = hunk_range(first.old_range().start, last.old_range().end);
            let after = hunk_range(first.new_range().start, last.new_range().end);
            output.extend_from_slice(format!("@@ -{old_range} +{after} @@\n").as_bytes());
        }
        for change in hunk {
            write_change(&mut output, change, &old, &new_lines);
        }
    }
    output
}

/// Compares with one algorithm: `similar::capture_diff_slices` would add the code of all of them to the program.
fn find_changes(old: &[&[u8]], new_lines: &[&[u8]]) -> Vec<DiffOp> {
    let mut changes = Compact::new(Replace::new(Capture::new()), old, new_lines);
    let (old_range, new_range) = (0..old.len(), 0..new_lines.len());
    let found: Result<(), Infallible> =
        myers::diff(&mut changes, old, old_range, new_lines, new_range);
    let Ok(()) = found;
    changes.into_inner().into_inner().into_ops()
}

fn write_change(output: &mut Vec<u8>, change: DiffOp, old: &[&[u8]], new_lines: &[&[u8]]) {
    let (tag, old_range, after) = change.as_tag_tuple();
    if tag == DiffTag::Equal {
        return write_lines(output, b' ', &old[old_range]);
    }
    write_lines(output, b'-', &old[old_range]);
    write_lines(output, b'+', &new_lines[after]);
}

fn write_lines(output: &mut Vec<u8>, mark: u8, lines: &[&[u8]]) {
    for line in lines {
        output.push(mark);
        output.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            output.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

/// Returns the range of a hunk's header: an empty range is named by the line before it.
fn hunk_range(start: usize, end: usize) -> String {
    let first = if start == end { start } else { start + 1 };
    format!("{first},{}", end - start)
}
