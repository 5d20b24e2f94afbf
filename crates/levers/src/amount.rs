//! Reads amounts and times as people write them.

use std::time::Duration;

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Longer times are mistakes.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Reads an amount such as `0`, `512M` or `4G`; `None` means `unlimited`.
pub fn parse_bytes(text: &str) -> Result<Option<u64>, String> {
    if text == "unlimited" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(0),
        "k" | "kib" => Some(10),
        "m" | "mib" => Some(20),
        "g" | "gib" => Some(30),
        "t" | "tib" => Some(40),
        _ => None,
    };
    let amount = digits
        .parse::<u64>()
        .ok()
        .zip(unit)
        .and_then(|(number, shift)| number.checked_mul(1 << shift));
    amount.map(Some).ok_or_else(|| {
        format!("`{text}` is not an amount such as `0`, `512M`, `4G` or `unlimited`")
    })
}

/// Returns an amount in its largest whole unit: `512M` for 536870912.
pub(super) fn typed_amount(stored: &str) -> String {
    let Ok(number @ 1..) = stored.parse::<u64>() else {
        return stored.to_owned();
    };
    let unit = (number.trailing_zeros() / 10).min(4);
    let name = ["", "K", "M", "G", "T"][unit as usize];
    format!("{}{name}", number >> (10 * unit))
}

/// Reads a time such as `60s`, `1.5s`, `2m` or `1h 30m`; a bare number is seconds.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("`{text}` is not a time such as `60s`, `1.5s`, `200ms`, `2m` or `1h 30m`");
    let trimmed = text.trim();
    let days = trimmed.strip_suffix('d').map(str::parse::<f64>);
    let seconds = match days {
        Some(Ok(days)) => Ok(days * DAY),
        _ => trimmed.parse(),
    };
    let time = match seconds {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?,
        Err(_) => trimmed
            .parse::<jiff::SignedDuration>()
            .ok()
            .and_then(|time| time.try_into().ok())
            .ok_or_else(wrong)?,
    };
    if time > LONGEST {
        return Err(format!("`{trimmed}` is longer than ten years"));
    }
    Ok(time)
}
