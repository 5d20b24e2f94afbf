//! Reads the evidence in the directory of a trial.

use provoke_model::parse_untrusted_json;
use provoke_report::story::RequestInFlight;
use provoke_sys::files;
use serde_json::Value;
use std::path::Path;

/// Maximum length of the first line of a request.
const REQUEST_LINE: u64 = 8192;
/// Maximum size of a file of evidence that is read as a whole.
pub(super) const LARGEST: u64 = 64 << 20;
/// Maximum size of a file with JSON values, which can take twenty times as much memory.
const LARGEST_LIST: u64 = 8 << 20;
/// Maximum number of bytes that are read of the end of an output.
const OUTPUT: u64 = 64 << 10;
/// Number of output lines that are shown.
const LAST_LINES: usize = 15;

/// Returns the JSON values of a file with one per line; empty if the file cannot be read.
pub(super) fn json_lines(file: &Path) -> Vec<Value> {
    let bytes = files::read_itself(file, LARGEST_LIST).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| parse_untrusted_json(line).ok())
        .collect()
}

/// Returns the requests that were in flight when the service of a trial crashed.
pub(super) fn in_flight(directory: &Path) -> Vec<RequestInFlight> {
    let first_line = |line: &Value| {
        let file_name = Path::new(line["request"].as_str()?).file_name()?;
        let file = directory.join("requests").join(file_name);
        let bytes = files::read_beginning_of_itself(&file, REQUEST_LINE).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().next()?;
        let line = line.rsplit_once(" HTTP/").map_or(line, |(line, _)| line);
        Some(line.to_owned())
    };
    let request = |line: Value| RequestInFlight {
        request: first_line(&line)
            .or_else(|| line["kind"].as_str().map(str::to_owned))
            .unwrap_or_default(),
        client: line["client"].as_u64().unwrap_or(0),
        age: line["age_ms"].as_f64().unwrap_or(0.0) / 1e3,
        part: line["part"].as_str().unwrap_or_default().to_owned(),
        received: line["bytes"].as_u64().unwrap_or(0),
    };
    let lines = json_lines(&directory.join("in-flight.jsonl"));
    lines.into_iter().map(request).collect()
}

/// Returns the last lines that a trial wrote to stderr, or else to stdout.
pub(super) fn last_output(directory: &Path) -> Vec<String> {
    let last_lines = |name: &str| {
        let file = directory.join(name);
        let (bytes, _) = files::read_end_of_itself(&file, OUTPUT).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let first = lines.len().saturating_sub(LAST_LINES);
        lines[first..].iter().map(ToString::to_string).collect()
    };
    let errors: Vec<String> = last_lines("stderr");
    if errors.is_empty() {
        last_lines("stdout")
    } else {
        errors
    }
}
