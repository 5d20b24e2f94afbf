//! Reads the end of the kept output of a trial, with secrets masked.

use provoke_journal::Secrets;
use provoke_sys::files;
use provoke_words as words;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of bytes shown of a stream of a trial, from its end.
const OUTPUT: u64 = 8 * 1024;

/// Returns the last line of stderr of the first of these trials whose stderr is in the directory of their run.
pub fn last_stderr_line(folder: &Path, trials: &[u64]) -> Option<String> {
    let secrets = Secrets::default();
    let text = trials.iter().find_map(|trial| {
        let folder = folder.join("trials").join(trial.to_string());
        read_stream_end(&folder, "stderr", &secrets)
    })?;
    let line = text.lines().rfind(|line| !line.trim().is_empty())?;
    Some(line.trim().to_owned())
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
