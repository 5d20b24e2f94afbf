//! Parses the values of the victim's options. The functions are pure.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Reads `20ms`, `1.5s`, `2m`, or a number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration like 20ms, 1.5s or 2m");
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
    }
    let signed = text.parse::<jiff::SignedDuration>().map_err(|_| wrong())?;
    Duration::try_from(signed).map_err(|_| wrong())
}

/// Reads a number of bytes such as `4096`, `64k`, `10MiB`, `1G`; every unit is a power of 1024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size like 4096, 64k, 10M or 1G");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// Reads a seed in decimal, or in hexadecimal after `0x`.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    }
    .map_err(|_| format!("`{text}` is not a number"))
}

/// A signal by number, with its usual name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalNumber(pub(crate) i32);

impl SignalNumber {
    pub(crate) const KILL: Self = Self(libc::SIGKILL);
    pub(crate) const STOP: Self = Self(libc::SIGSTOP);
}

const NAMES: [(&str, i32); 30] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

impl FromStr for SignalNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse() {
            // 32 and 33 belong to the C library's threads.
            return match number {
                1..=31 | 34..=64 => Ok(Self(number)),
                _ => Err(format!("there is no signal {number} to send")),
            };
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|&(_, number)| Self(number))
            .ok_or_else(|| format!("`{text}` is not a signal; try SEGV, SIGTERM or 11"))
    }
}

impl fmt::Display for SignalNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => write!(formatter, "SIG{name}"),
            None => write!(formatter, "signal {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_seconds() {
        assert_eq!(duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert_eq!(duration("0.25"), Ok(Duration::from_millis(250)));
        for text in ["", "x", "-1", "-1s", "5 parsecs", "nan", "1e300"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_count_in_powers_of_1024() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("10MiB"), Ok(10 << 20));
        assert_eq!(size("1 G"), Ok(1 << 30));
        for text in [
            "",
            "k",
            "-1",
            "1.5G",
            "3x",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seeds_are_decimal_or_hexadecimal() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(seed("0xff"), Ok(255));
        assert!(seed("").is_err() && seed("ff").is_err() && seed("-1").is_err());
    }

    #[test]
    fn signals_are_known_by_name_and_number() {
        for text in ["SEGV", "SIGSEGV", "sigsegv", "11"] {
            assert_eq!(text.parse(), Ok(SignalNumber(libc::SIGSEGV)), "{text}");
        }
        for text in ["", "SIG", "BOOM", "0", "32", "65", "-9"] {
            assert!(text.parse::<SignalNumber>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_signal_name_is_parsed_back() {
        for (name, number) in NAMES {
            assert_eq!(SignalNumber(number).to_string(), format!("SIG{name}"));
            assert_eq!(format!("SIG{name}").parse(), Ok(SignalNumber(number)));
        }
        assert_eq!(SignalNumber(40).to_string(), "signal 40");
    }
}
