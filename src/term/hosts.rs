//! Draws a table of the hosts on which trials ran.

use super::columns::Columns;
use console::{style, truncate_str};
use provoke_report::Report;
use provoke_words as words;
use std::fmt::Write as _;

/// Maximum width of the column of names.
const NAME: usize = 32;

/// Returns a table of the hosts; empty for a single host.
pub(super) fn host_table(report: &Report, width: Option<usize>) -> String {
    if report.hosts.len() < 2 {
        return String::new();
    }
    let confidence = format!("{} %", report.confidence);
    let heads = ["host", "trials", "failed", &confidence].map(str::to_owned);
    let cells = report.hosts.iter().map(|host| {
        let interval = host
            .interval
            .map_or_else(String::new, words::format_interval);
        let name = words::shorten_text(&words::sanitize_line(&host.name), NAME);
        [
            name,
            host.trials.to_string(),
            host.failures.to_string(),
            interval,
        ]
    });
    let cells: Vec<[String; 4]> = cells.collect();
    let columns = Columns::fit_to(std::iter::once(&heads).chain(&cells), 1);
    let mut out = String::new();
    let head = columns.line(&heads);
    let _ = writeln!(out, "  {}", style(head.trim_end()).dim());
    for (host, cells) in report.hosts.iter().zip(&cells) {
        let line = columns.line(cells);
        let lost = host.lost.as_ref();
        let lost = lost.map_or_else(String::new, |reason| {
            let attempts = match host.lost_attempts {
                0 => String::new(),
                count => format!(" with {}", words::format_count(count, "attempt")),
            };
            let verb = match host.machine {
                Some(_) => "lost",
                None => "did not start",
            };
            words::sanitize_line(&format!("{verb}{attempts}: {reason}"))
        });
        let room = width.map_or(usize::MAX, |width| {
            width.saturating_sub(columns.line_width() + 4)
        });
        let row = format!("  {line}  {}", truncate_str(&lost, room, "…"));
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out
}
