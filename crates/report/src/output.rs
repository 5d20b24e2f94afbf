//! Reads the end of the kept output of a trial, with secrets masked.

use provoke_journal::Secrets;
use provoke_messages::normalise_line;
use provoke_sys::files;
use provoke_words as words;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of bytes shown of a stream of a trial, from its end.
const OUTPUT: u64 = 8 * 1024;

/// Maximum number of trials whose last lines are read.
const TRIALS: usize = 10;
/// Maximum number of different last lines that are named.
const LINES: usize = 3;

/// Describes the last lines of stderr of these trials, of those whose stderr is in the directory of their run. Lines that
/// differ in more than numbers may come from different failures.
pub fn describe_last_lines(folder: &Path, trials: &[u64]) -> Option<String> {
    let secrets = Secrets::default();
    let texts = trials.iter().filter_map(|trial| {
        let folder = folder.join("trials").join(trial.to_string());
        read_stream_end(&folder, "stderr", &secrets)
    });
    let mut known: Vec<(String, String, u64)> = Vec::new();
    for text in texts.take(TRIALS) {
        let Some(line) = text.lines().rfind(|line| !line.trim().is_empty()) else {
            continue;
        };
        let kind = normalise_line(line.trim());
        match known.iter_mut().find(|(other, ..)| *other == kind) {
            Some((.., count)) => *count += 1,
            None => known.push((kind, words::sanitize_line(line.trim()), 1)),
        }
    }
    known.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    match known.as_slice() {
        [] => None,
        [(_, line, _)] => Some(format!("last line of stderr: {line}")),
        _ => {
            let trials: u64 = known.iter().map(|(.., count)| count).sum();
            let lines = known.iter().take(LINES);
            let lines: Vec<String> = lines
                .map(|(_, line, count)| format!("{line} ({count}x)"))
                .collect();
            let more = match known.len() - lines.len() {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            Some(format!(
                "perhaps {} failures: last lines of stderr of {trials} trials: {}{more}",
                known.len(),
                lines.join("; ")
            ))
        }
    }
}

/// Returns the end of a stream of a trial, of each process that wrote to it.
pub(super) fn read_stream_end(trial: &Path, name: &str, secrets: &Secrets) -> Option<String> {
    let mut paths = files::folder_entries(trial).ok()?;
    let named = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str());
        file.is_some_and(|file| file == name || file.ends_with(&format!(".{name}")))
    };
    // Only regular files are opened: the program under test can create pipes and links here.
    paths.retain(|path| named(path) && files::is_regular(path));
    let mut text = String::new();
    for path in &paths {
        if paths.len() > 1 {
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            text.extend(["[", &words::sanitize_line(&file), "]\n"]);
        }
        text.push_str(&read_file_end(path, OUTPUT / paths.len() as u64, secrets).ok()?);
    }
    Some(text).filter(|text| !text.is_empty())
}

fn read_file_end(path: &Path, at_most: u64, secrets: &Secrets) -> io::Result<String> {
    let (mut bytes, skipped) = files::read_end_of_itself(path, at_most)?;
    if skipped > 0 && !secrets.is_empty() {
        // The beginning may be a part of a secret.
        let line = bytes.iter().position(|byte| *byte == b'\n');
        bytes.drain(..line.map_or(bytes.len(), |end| end + 1));
    }
    let masked = secrets.mask_text(&bytes);
    let text = String::from_utf8_lossy(&masked);
    let text = words::sanitize_lines(&words::without_colours(&text));
    // Removing colours may have joined the parts of a secret.
    let masked = secrets.mask_text(text.as_bytes());
    let text = String::from_utf8_lossy(&masked).into_owned();
    Ok(match skipped {
        0 => text,
        _ => format!(
            "[{} before this are not shown]\n{text}",
            words::format_bytes(skipped)
        ),
    })
}
