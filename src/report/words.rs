//! Numbers and words as they are shown everywhere.

use super::{Basis, Variant};
use crate::policy::{StopRule, Verdict};
use std::fmt::Write as _;

/// Shares below this, in per cent, are only said to be below it.
const SMALLEST: f64 = 0.001;

/// Returns a share in per cent, without the sign, with digits that mean something:
/// `10`, `26.5`, `2.1`, `0.70`, `<0.001`, `99.30`.
pub fn percent(share: f64) -> String {
    rounded(share, f64::round)
}

/// Returns a share that something is said to be below: like [`percent`], and never rounded down.
pub fn percent_bound(share: f64) -> String {
    // The product may have come out a little above a number of few digits.
    rounded(share.max(SMALLEST / 100.0), |x| (x - 1e-9).ceil())
}

fn rounded(share: f64, round: impl Fn(f64) -> f64) -> String {
    let percent = share * 100.0;
    if percent.is_nan() {
        return "?".to_owned();
    }
    if percent <= 0.0 || percent >= 100.0 {
        return if percent <= 0.0 { "0" } else { "100" }.to_owned();
    }
    // Two digits, counted from the nearer of 0 and 100, and one after the point at most times.
    let decimals = match percent.min(100.0 - percent) {
        p if p < 0.01 => 4,
        p if p < 0.1 => 3,
        p if p < 1.0 => 2,
        _ => 1,
    };
    let scale = 10_f64.powi(decimals);
    let shown = round(percent * scale) / scale;
    if percent < SMALLEST * 0.999_999 {
        format!("<{SMALLEST}")
    } else if percent > 100.0 - SMALLEST {
        format!(">{}", 100.0 - SMALLEST)
    } else if (shown - percent).abs() < 1e-9 && shown.fract() == 0.0 {
        format!("{shown:.0}")
    } else {
        format!("{shown:.*}", decimals.unsigned_abs() as usize)
    }
}

/// Returns an interval of shares: `2.1 .. 26.5 %`.
pub fn interval([lo, hi]: [f64; 2]) -> String {
    format!("{} .. {} %", percent(lo), percent(hi))
}

/// Returns `1 trial`, `2 trials`.
pub fn plural(count: u64, noun: &str) -> String {
    plural_of(count, noun, &format!("{noun}s"))
}

/// Returns `1 process`, `2 processes`.
pub fn plural_of(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a time in seconds as people say it: `0.25 ms`, `12 ms`, `1.23 s`, `4m 05s`, `2h 03m`, `3d 04h`.
pub fn seconds(time: f64) -> String {
    let ms = time * 1e3;
    match time {
        t if t < 0.000_995 => format!("{ms:.2} ms"),
        t if t < 0.009_95 => format!("{ms:.1} ms"),
        t if t < 0.999_5 => format!("{ms:.0} ms"),
        t if t < 9.995 => format!("{t:.2} s"),
        t if t < 59.95 => format!("{t:.1} s"),
        t => minutes(t),
    }
}

fn minutes(time: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and positive; it saturates after half a trillion years"
    )]
    let whole = time.round() as u64;
    let two = |large: u64, a: &str, small: u64, b: &str| format!("{large}{a} {small:02}{b}");
    match whole {
        t if t < 3600 => two(t / 60, "m", t % 60, "s"),
        t if t < 86_400 => two(t / 3600, "h", t % 3600 / 60, "m"),
        t => two(t / 86_400, "d", t % 86_400 / 3600, "h"),
    }
}

/// Returns a number of bytes as people say it: `16 GiB`, `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    let mut unit = 1_u64;
    for name in ["B", "KiB", "MiB", "GiB"] {
        if count / 1024 < unit {
            return in_unit(count, unit, name);
        }
        unit *= 1024;
    }
    in_unit(count, unit, "TiB")
}

fn in_unit(count: u64, unit: u64, name: &str) -> String {
    let tenths = u128::from(count) * 10 / u128::from(unit);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole} {name}"),
        (whole, _) if whole >= 10 => format!("{whole} {name}"),
        (whole, tenth) => format!("{whole}.{tenth} {name}"),
    }
}

/// Returns the numbers of trials, the first many of them: `#2 #10 #21 and 3 more`.
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

/// Returns the numbers of trials with ranges, the first many of these: `2, 5-9, 21, … 1234 in all`.
pub fn trial_list(ids: &[u64], at_most: usize) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = ids;
    while let Some(first) = rest.first().filter(|_| parts.len() < at_most) {
        let run = rest
            .iter()
            .zip(*first..)
            .take_while(|(id, next)| *id == next);
        // Two neighbours are no range yet.
        let length = match run.count() {
            2 => 1,
            length => length,
        };
        parts.push(match length {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[length - 1]),
        });
        rest = &rest[length..];
    }
    if !rest.is_empty() {
        parts.push(format!("… {} in all", ids.len()));
    }
    parts.join(", ")
}

/// Returns the failure rate of a variant in one sentence, never without how sure it is.
pub fn headline(variant: &Variant, confidence: f64) -> String {
    let (k, n) = (variant.failures, variant.trials);
    let rate = &variant.rate;
    if n == 0 {
        return "no trial says anything about the rate".to_owned();
    }
    let any_time = match rate.basis {
        Basis::Cp => "",
        Basis::Cs => " any-time",
    };
    let interval = format!(
        "{confidence} %{any_time} interval {}",
        interval(rate.interval())
    );
    match rate.point {
        None if k == 0 => {
            let bound = match rate.basis {
                Basis::Cp => rate.upper_one_sided,
                Basis::Cs => rate.cs[1],
            };
            let comma = if any_time.is_empty() { "" } else { "," };
            let bound = percent_bound(bound);
            format!("0/{n} failed: rate below {bound} % ({confidence} %{comma}{any_time})")
        }
        None => format!("first failure after {}: {interval}", plural(n, "trial")),
        Some(point) => format!("{k}/{n} failed: {} % ({interval})", percent(point)),
    }
}

/// Returns a verdict in words.
pub fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "No failure seen",
        Verdict::Failing => "Failures seen",
        Verdict::BelowMaxRate => "Not above the rate that is allowed",
        Verdict::AboveMaxRate => "Above the rate that is allowed",
        Verdict::Undecided => "Undecided",
        Verdict::CouldNotTest => "Could not be tested",
    }
}

/// Returns in words why trials came to an end.
pub fn stop_rule(rule: StopRule) -> &'static str {
    match rule {
        StopRule::PlannedN => "the planned number of trials is reached",
        StopRule::KthFailure => "the number of failures that was asked for is reached",
        StopRule::Decision => "the interval is as narrow as was asked for",
        StopRule::Time => "the time is spent",
        StopRule::User => "it was ended from outside, or still goes on",
    }
}

/// Makes text of a child safe for a terminal and for one line: control characters (line ends and
/// escape sequences among them), characters that change the direction of text, and invisible ones
/// are shown as the escapes of a program's source.
pub fn sanitize(text: &str) -> String {
    escaped(text, |_| false)
}

/// Makes text of a child safe for a terminal, and keeps its lines and tabs.
pub fn sanitize_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if keep(c) || !misleads(c) {
            safe.push(c);
        } else if c == '\u{1b}' {
            safe.push_str("\\x1b"); // as everybody writes it
        } else {
            safe.extend(c.escape_default());
        }
    }
    safe
}

/// True for characters that do something else than being seen where they stand.
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}')
}

/// Takes the colours out of the output of a child: terminal sequences of the form `ESC [ … letter`.
pub fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    plain.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let rest = piece.trim_start_matches(|c| matches!(c, ' '..='?'));
        if rest.starts_with(|c| matches!(c, '@'..='~')) {
            plain.push_str(&rest[1..]);
        } else {
            // Broken off: what is there instead is shown.
            plain.push_str("\u{1b}[");
            plain.push_str(piece);
        }
    }
    plain
}
