//! Numbers and words as they are shown everywhere.

use std::fmt::Write as _;

/// Returns a share in per cent with digits that mean something.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p <= 0.0 => "0".to_owned(),
        p if p < 0.001 => "<0.001".to_owned(),
        p if p < 0.1 => format!("{p:.3}"),
        p if p < 1.0 => format!("{p:.2}"),
        p if p < 99.95 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    }
}

/// Returns `1 trial`, `2 trials`.
pub fn plural(count: u64, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// Returns a time in seconds as people say it.
pub fn seconds(time: f64) -> String {
    match time {
        t if t < 0.01 => format!("{:.1} ms", t * 1e3),
        t if t < 1.0 => format!("{:.0} ms", t * 1e3),
        t if t < 10.0 => format!("{t:.2} s"),
        t if t < 120.0 => format!("{t:.1} s"),
        t => format!("{:.0}m {:02.0}s", (t / 60.0).floor(), t % 60.0),
    }
}

/// Returns the numbers of trials, the first many of them.
pub fn trials(ids: &[u64], at_most: usize) -> String {
    let mut text = String::new();
    for id in ids.iter().take(at_most) {
        let _ = write!(text, "{}#{id}", if text.is_empty() { "" } else { " " });
    }
    if ids.len() > at_most {
        let _ = write!(text, " and {} more", ids.len() - at_most);
    }
    text
}

/// Makes text of a child safe for a terminal.
pub fn sanitize(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
