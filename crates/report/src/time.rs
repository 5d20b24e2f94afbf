//! Formats times for people.

use jiff::Zoned;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// Formats a past time relative to now: `3 min ago`, `yesterday 14:02`, `20 Nov 14:02`.
pub fn relative_time(instant: &Zoned, now: &Zoned) -> String {
    let seconds = now.timestamp().as_second() - instant.timestamp().as_second();
    let yesterday = now.date().yesterday().ok();
    match seconds {
        0..MINUTE => format!("{seconds} s ago"),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR.. if instant.date() == now.date() => format!("{} h ago", seconds / HOUR),
        HOUR.. if Some(instant.date()) == yesterday => {
            instant.strftime("yesterday %H:%M").to_string()
        }
        0.. if instant.year() == now.year() => instant.strftime("%-d %b %H:%M").to_string(),
        // Another year, or a future time from a wrong clock.
        _ => instant.strftime("%Y-%m-%d %H:%M").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::DateTime;
    use jiff::tz::TimeZone;

    #[test]
    fn a_recent_time_is_formatted_as_an_age() {
        let utc = |text: &str| {
            text.parse::<DateTime>()
                .unwrap()
                .to_zoned(TimeZone::UTC)
                .unwrap()
        };
        let now = utc("2026-11-22T15:00:00");
        let relative = |text: &str| relative_time(&utc(text), &now);
        assert_eq!(relative("2026-11-22T14:59:20"), "40 s ago");
        assert_eq!(relative("2026-11-22T14:57:00"), "3 min ago");
        assert_eq!(relative("2026-11-22T12:30:00"), "2 h ago");
        assert_eq!(relative("2026-11-21T14:02:00"), "yesterday 14:02");
        assert_eq!(relative("2026-11-02T14:02:00"), "2 Nov 14:02");
        assert_eq!(relative("2025-11-22T14:02:00"), "2025-11-22 14:02");
        assert_eq!(relative("2026-11-23T14:02:00"), "2026-11-23 14:02");
    }
}
