//! Reads the traces of Go: of a panic, a fatal error, or a data race.

use super::forms::DATA_RACE;
use super::place::site_at;
use provoke_model::Site;

/// Returns whether a trace may follow this line.
pub(super) fn may_begin_trace(line: &str) -> bool {
    ["panic: ", "fatal error: ", DATA_RACE]
        .iter()
        .any(|start| line.starts_with(start))
}

/// Returns the calls of the goroutine that failed, innermost first. Calls of the runtime are left out. `lines` follow the
/// message.
pub(super) fn calls_of_trace(lines: &[&str]) -> Vec<Site> {
    let begins = |line: &&str| {
        let line = line.to_lowercase();
        let is_access = line.starts_with("read at ") || line.starts_with("write at ");
        line.ends_with(':') && (line.starts_with("goroutine ") || is_access)
    };
    let Some(start) = lines.iter().position(begins) else {
        return Vec::new();
    };
    let stack: Vec<&str> = lines[start + 1..]
        .iter()
        .take_while(|line| !line.is_empty() && !line.starts_with("created by "))
        .copied()
        .collect();
    let calls = stack.windows(2);
    calls
        .filter_map(|pair| parse_go_call(pair[0], pair[1]))
        .collect()
}

/// Parses a call that is not one of the runtime: `main.(*Server).handle(0xc000012345, {0x1, 0x2})`, then
/// `\t/src/main.go:8 +0x1d`.
pub fn parse_go_call(call: &str, place: &str) -> Option<Site> {
    let (function, _) = call.trim().rsplit_once('(')?;
    let is_runtime = function == "panic" || function.starts_with("runtime.");
    let place = place.starts_with([' ', '\t']).then(|| place.trim())?;
    let (file, line) = place.split(' ').next()?.rsplit_once(':')?;
    (!is_runtime && file.rsplit('.').next() == Some("go")).then_some(())?;
    Some(Site {
        function: Some(function.to_owned()),
        ..site_at(file, line)?
    })
}
