//! Formats numbers, durations, lists and text from outside for all output.
//!
#![doc = include_str!("../README.md")]

pub mod diagnostic;
pub mod document;
pub mod equivalents;
pub mod names;
pub mod untrusted;

use crate::untrusted::{SafeText, Untrusted as _, shell_word};
use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fmt::Write as _;

/// Smaller shares, in per cent, are shown as below this.
const SMALLEST: f64 = 0.001;

/// Returns a share in per cent, without the sign, with two significant digits, counted from the nearer of 0 and 100:
/// `10`, `26`, `2.1`, `0.7`, `<0.001`, `99.3`.
pub fn format_percent(share: f64) -> String {
    format_rounded(share, percent_decimals(share), f64::round)
}

/// Returns a share as an upper bound: like [`format_percent`], but never rounded down.
pub fn percent_bound(share: f64) -> String {
    let share = share.max(SMALLEST / 100.0);
    // Rounding errors may put the product a little above a short number.
    format_rounded(share, percent_decimals(share), |x| (x - 1e-9).ceil())
}

/// Returns a share that something is above: like [`format_percent`], and never rounded up.
pub fn percent_at_least(share: f64) -> String {
    format_rounded(share, percent_decimals(share), |x| (x + 1e-9).floor())
}

/// Returns an interval of shares, rounded outwards: `2.1 to 27 %`, `9.94 to 10.06 %`.
pub fn format_interval(ends: [f64; 2]) -> String {
    let digits = interval_decimals(ends);
    let down = |x: f64| (x + 1e-9).floor();
    let lo = format_rounded(ends[0], digits.max(decimals_of_lower_end(ends[0])), down);
    let hi = format_rounded(ends[1], digits, |x| (x - 1e-9).ceil());
    format!("{lo} to {hi} %")
}

/// Returns how many digits after the point a lower end needs, so that it is not rounded to zero.
fn decimals_of_lower_end(share: f64) -> u8 {
    match share * 100.0 {
        percent if percent <= 0.0 || percent >= 10.0 => 0,
        percent if percent >= 0.1 => 1,
        percent if percent >= 0.01 => 2,
        _ => 3,
    }
}

/// Returns a share in per cent, without the sign, with the digits of its interval.
pub fn percent_within(share: f64, ends: [f64; 2]) -> String {
    format_rounded(
        share,
        interval_decimals(ends).max(u8::from(share < 0.1)),
        f64::round,
    )
}

/// Returns the number of decimals of an interval: two significant digits of its width.
fn interval_decimals([lo, hi]: [f64; 2]) -> u8 {
    match (hi - lo) * 100.0 {
        width if width < 0.01 => 4,
        width if width < 0.1 => 3,
        width if width < 1.0 => 2,
        width if width < 10.0 => 1,
        _ => 0,
    }
}

/// Returns the number of decimals that gives two significant digits of a share in per cent.
fn percent_decimals(share: f64) -> u8 {
    let percent = share * 100.0;
    match percent.min(100.0 - percent) {
        p if p < 0.01 => 3,
        p if p < 0.1 => 3,
        p if p < 1.0 => 2,
        p if p < 10.0 => 1,
        _ => 0,
    }
}

fn format_rounded(share: f64, decimals: u8, round: impl Fn(f64) -> f64) -> String {
    let percent = share * 100.0;
    if percent.is_nan() {
        return "?".to_owned();
    }
    if percent <= 0.0 || percent >= 100.0 {
        return if percent <= 0.0 { "0" } else { "100" }.to_owned();
    }
    let scale = 10_f64.powi(i32::from(decimals));
    let rounded = round(percent * scale) / scale;
    let decimals = usize::from(decimals);
    if percent < SMALLEST * 0.999_999 {
        format!("<{SMALLEST}")
    } else if percent > 100.0 - SMALLEST {
        format!(">{}", 100.0 - SMALLEST)
    } else {
        let text = format!("{rounded:.decimals$}");
        match text.split_once('.') {
            // A decimal of 0 is dropped.
            Some((integer, "0")) => integer.to_owned(),
            _ if rounded.fract() == 0.0 && (rounded - percent).abs() < 1e-9 => {
                format!("{rounded:.0}")
            }
            _ => text,
        }
    }
}

/// Returns a text of at most `max_length` characters, with a mark if it was cut.
pub fn shorten_text(text: &str, max_length: usize) -> String {
    if text.chars().count() <= max_length {
        return text.to_owned();
    }
    let prefix: String = text.chars().take(max_length.saturating_sub(1)).collect();
    format!("{prefix}\u{2026}")
}

/// Returns text with a capital first letter, unless it begins with a name such as `suite::test_name`.
pub fn capitalize_first(text: &str) -> String {
    let first_word = text.split([' ', ',', ';']).next().unwrap_or_default();
    let is_name = first_word
        .trim_end_matches(':')
        .contains(['_', ':', '.', '/', '=']);
    if is_name {
        return text.to_owned();
    }
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(rest).collect()
    })
}

/// Returns `1 trial`, `2 trials`.
pub fn format_count(count: u64, noun: &str) -> String {
    plural_of(count, noun, &format!("{noun}s"))
}

/// Returns `1 process`, `2 processes`.
pub fn plural_of(count: u64, singular: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { many })
}

/// Formats a time in seconds: `0.25 ms`, `12 ms`, `1.23 s`, `4m 05s`, `2h 03m`, `3d 04h`.
pub fn format_seconds(time: f64) -> String {
    let ms = time * 1e3;
    match time {
        t if t < 0.000_995 => format!("{ms:.2} ms"),
        t if t < 0.009_95 => format!("{ms:.1} ms"),
        t if t < 0.999_5 => format!("{ms:.0} ms"),
        t if t < 9.995 => format!("{t:.2} s"),
        t if t < 59.95 => format!("{t:.1} s"),
        t => format_minutes(t),
    }
}

fn format_minutes(time: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and positive; it saturates after half a trillion years"
    )]
    let minutes = time.round() as u64;
    let two = |large: u64, a: &str, small: u64, b: &str| format!("{large}{a} {small:02}{b}");
    match minutes {
        t if t < 3600 => two(t / 60, "m", t % 60, "s"),
        t if t < 86_400 => two(t / 3600, "h", t % 3600 / 60, "m"),
        t => two(t / 86_400, "d", t % 86_400 / 3600, "h"),
    }
}

/// Formats a number of bytes: `16 GiB`, `1.5 GiB`.
pub fn format_bytes(count: u64) -> String {
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
        (integer, 0) => format!("{integer} {name}"),
        (integer, _) if integer >= 10 => format!("{integer} {name}"),
        (integer, tenth) => format!("{integer}.{tenth} {name}"),
    }
}

/// Formats an amount with two significant digits, with at most four decimals, and as an integer from 10 on: `129`,
/// `1.2`, `0.051`.
pub fn format_number(amount: f64) -> String {
    let decimals = match amount.abs() {
        x if !(0.000_05..9.95).contains(&x) => 0,
        x if x >= 0.995 => 1,
        x if x >= 0.099_5 => 2,
        x if x >= 0.009_95 => 3,
        _ => 4,
    };
    let number = format!("{amount:.decimals$}");
    match number.split_once('.') {
        Some((integer, rest)) if rest.bytes().all(|digit| digit == b'0') => integer.to_owned(),
        _ => number,
    }
}

/// Returns a p-value: `p = 0.02`, `p < 0.001`.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "p < 0.001".to_owned()
    } else {
        format!("p = {}", format_number(p))
    }
}

/// Returns a p-value for a column of p-values: `0.02`, `< 0.001`.
pub fn p_value_cell(p: f64) -> String {
    let named = p_value(p);
    let number = named.trim_start_matches("p ").trim_start_matches("= ");
    number.to_owned()
}

/// Lists the numbers of trials, at most `at_most` of them: `#2 #10 #21 and 3 more`.
pub fn format_trial_ids(ids: &[u64], at_most: usize) -> String {
    let mut text = String::new();
    for id in ids.iter().take(at_most) {
        let _ = write!(text, "{}#{id}", if text.is_empty() { "" } else { " " });
    }
    if ids.len() > at_most {
        let _ = write!(text, " and {} more", ids.len() - at_most);
    }
    text
}

/// Lists the numbers of trials with ranges, at most `at_most` of these: `2, 5-9, 21 and 1227 more`.
pub fn trial_list(ids: &[u64], at_most: usize) -> String {
    let mut ranges: Vec<String> = Vec::new();
    let mut rest = ids;
    // One more is listed instead of "and 1 more".
    while let Some(first) = rest.first()
        && (ranges.len() < at_most || rest.len() == 1)
    {
        let run = (0..)
            .zip(rest)
            .take_while(|(offset, id)| **id - first == *offset);
        // Two neighbours are not yet a range.
        let length = match run.count() {
            2 => 1,
            length => length,
        };
        ranges.push(match length {
            1 => first.to_string(),
            _ => format!("{first}-{}", rest[length - 1]),
        });
        rest = &rest[length..];
    }
    let listed = ranges.join(", ");
    match rest.len() {
        0 => listed,
        remaining => format!("{listed} and {remaining} more"),
    }
}

/// Lists names, at most `at_most` of them: `a, b and 3 more`.
pub fn list_first<N: Borrow<str>>(names: &[N], at_most: usize) -> String {
    let listed = names[..names.len().min(at_most)].join(", ");
    match names.len().saturating_sub(at_most) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Joins names by commas, and the last two by a word: `a, b and c`.
pub fn join_names<N: Borrow<str>>(word: &str, names: impl IntoIterator<Item = N>) -> String {
    match names.into_iter().collect::<Vec<_>>().as_slice() {
        [first @ .., last] if !first.is_empty() => {
            format!("{} {word} {}", first.join(", "), last.borrow())
        }
        names => names.join(", "),
    }
}

/// Quotes an argument if a shell would read it differently.
pub fn quote_word(word: &OsStr) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./:=@#%+,-{}".contains(byte);
    let bytes = word.as_encoded_bytes();
    let first = bytes
        .first()
        .is_some_and(|byte| *byte != b'#' && *byte != b'{');
    let braces = bytes.contains(&b'{') && (bytes.contains(&b',') || bytes.contains(&b'.'));
    if first && !braces && bytes.iter().all(plain) {
        word.to_safe().to_string()
    } else {
        shell_word(word).to_string()
    }
}

/// Joins words to a line that every shell reads as these words: one of a program, which may contain any bytes. Lines that
/// a user typed are joined by [`quote_word`], which leaves more of them as they were.
pub fn shell_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> String {
    let quoted = words.into_iter().map(|word| shell_word(word.as_ref()));
    quoted
        .map(SafeText::into_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Escapes the text of a child process for a single line; see [`SafeText`].
pub fn sanitize_line(text: &str) -> String {
    SafeText::from_line(text).into_string()
}

/// Escapes the text of a child process, but keeps its line ends and tabs.
pub fn sanitize_lines(text: &str) -> String {
    SafeText::from_lines(text).into_string()
}

/// Removes colours from the output of a child process: terminal sequences of the form `ESC [ … letter`.
pub fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    plain.push_str(pieces.next().unwrap_or_default());
    for color_part in pieces {
        let rest = color_part.trim_start_matches(|c| matches!(c, ' '..='?'));
        if rest.starts_with(|c| matches!(c, '@'..='~')) {
            plain.push_str(&rest[1..]);
        } else {
            // The sequence is incomplete; its text is shown.
            plain.push_str("\u{1b}[");
            plain.push_str(color_part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_its_significant_digits() {
        let shares = [
            0.0, 1e-7, 1e-5, 5.3e-5, 4.26e-4, 0.007, 0.00699, 0.021, 0.1, 0.265_29, 0.5, 0.98,
            0.993, 0.9999, 0.999_999, 1.0,
        ];
        let shown = shares.map(format_percent).join("  ");
        insta::assert_snapshot!(shown, @"0  <0.001  0.001  0.005  0.043  0.70  0.70  2.1  10  27  50  98  99.30  99.990  >99.999  100");
    }

    #[test]
    fn a_bound_is_never_rounded_down() {
        assert_eq!(format_percent(0.007_041), "0.70");
        assert_eq!(percent_bound(0.007_041), "0.71");
        assert_eq!(percent_bound(0.007), "0.70");
        assert_eq!(percent_bound(1e-9), "0.001");
        assert_eq!(percent_bound(1.0), "100");
    }

    #[test]
    fn a_p_value_is_never_zero() {
        let shown = [0.117, 0.0153, 0.0035, 0.001, 0.000_99, 1e-12].map(p_value);
        insta::assert_snapshot!(shown.join("  "), @"p = 0.12  p = 0.015  p = 0.0035  p = 0.0010  p < 0.001  p < 0.001");
        let cells = [0.117, 0.001, 1e-12].map(p_value_cell);
        assert_eq!(cells, ["0.12", "0.0010", "< 0.001"]);
    }

    #[test]
    fn a_narrow_interval_has_more_digits() {
        assert_eq!(format_interval([0.021_1, 0.265_3]), "2.1 to 27 %");
        assert_eq!(format_interval([0.099_42, 0.100_59]), "9.94 to 10.06 %");
        assert_eq!(format_interval([0.0, 0.007]), "0 to 0.70 %");
        assert_eq!(format_interval([0.3, 1.0]), "30 to 100 %");
        assert_eq!(format_interval([0.0062, 0.17]), "0.6 to 17 %");
        assert_eq!(format_interval([0.0001, 0.17]), "0.01 to 17 %");
        assert_eq!(percent_within(0.100_006, [0.099_42, 0.100_59]), "10.00");
    }

    #[test]
    fn durations_are_formatted_with_readable_units() {
        let times = [
            0.0, 0.000_25, 0.0012, 0.0123, 0.9994, 0.9996, 1.234, 9.994, 9.996, 59.94, 59.96,
            119.7, 245.0, 3599.6, 7380.0, 86_399.0, 273_600.0,
        ];
        let shown = times.map(format_seconds).join("  ");
        insta::assert_snapshot!(shown, @"0.00 ms  0.25 ms  1.2 ms  12 ms  999 ms  1.00 s  1.23 s  9.99 s  10.0 s  59.9 s  1m 00s  2m 00s  4m 05s  1h 00m  2h 03m  23h 59m  3d 04h");
    }

    #[test]
    fn bytes_are_formatted_in_the_largest_unit() {
        let shown =
            [0, 1023, 1024, 1536, 16_777_216_000, 17_179_869_184, 1 << 45].map(format_bytes);
        insta::assert_snapshot!(shown.join("  "), @"0 B  1023 B  1 KiB  1.5 KiB  15 GiB  16 GiB  32 TiB");
    }

    #[test]
    fn an_amount_has_two_significant_digits() {
        let shown = [0.0, 0.000_61, 0.051, 0.2, 0.996, 1.0, 1.25, 9.96, 129.4].map(format_number);
        insta::assert_snapshot!(shown.join("  "), @"0  0.0006  0.051  0.20  1  1  1.2  10  129");
    }

    #[test]
    fn lists_of_trials_have_ranges_and_are_shortened() {
        assert_eq!(trial_list(&[], 3), "");
        assert_eq!(trial_list(&[7], 3), "7");
        assert_eq!(trial_list(&[2, 3, 10], 3), "2, 3, 10");
        assert_eq!(trial_list(&[2, 5, 6, 7, 8, 9, 21], 3), "2, 5-9, 21");
        let many: Vec<u64> = (1..=1234).map(|n| n * 3).collect();
        assert_eq!(trial_list(&many, 3), "3, 6, 9 and 1231 more");
        let range: Vec<u64> = (1..=1234).collect();
        assert_eq!(trial_list(&range, 3), "1-1234");
        assert_eq!(
            trial_list(&[u64::MAX - 1, u64::MAX], 3),
            "18446744073709551614, 18446744073709551615"
        );
    }

    #[test]
    fn names_are_joined_by_commas_and_a_word() {
        assert_eq!(join_names::<&str>("and", []), "");
        assert_eq!(join_names("and", ["a"]), "a");
        assert_eq!(join_names("or", ["a", "b"]), "a or b");
        assert_eq!(join_names("and", ["a", "b", "c"]), "a, b and c");
    }

    #[test]
    fn nouns_have_a_singular_and_a_plural() {
        assert_eq!(format_count(1, "trial"), "1 trial");
        assert_eq!(format_count(0, "trial"), "0 trials");
        assert_eq!(plural_of(2, "process", "processes"), "2 processes");
    }

    #[test]
    fn colours_are_removed_and_incomplete_escapes_are_kept() {
        assert_eq!(without_colours("\u{1b}[1;31merror\u{1b}[0m: x"), "error: x");
        assert_eq!(without_colours("plain"), "plain");
        assert_eq!(without_colours("\u{1b}]0;title"), "\u{1b}]0;title");
        assert_eq!(without_colours("x\u{1b}[12"), "x\u{1b}[12");
        assert_eq!(without_colours("x\u{1b}[\u{fc}"), "x\u{1b}[\u{fc}");
    }
}
