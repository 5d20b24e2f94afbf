//! Values of flags and fields. Each has one parser from text, whose error says what was expected.

use super::host_list::HostList;
use crate::case_settings::RunnerValue;
use crate::expected_value::list_alternatives;
use provoke_model::{Alpha, BugFilter, ExpectedResult, Signal, Timeout};
use provoke_transports::{HostsShape, TRANSPORTS, find_transport};
use provoke_words::names::nearest_name;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time such as `60s`, `1.5s`, `200ms`, `2m`, `1h 30m`; a bare number is seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationValue(pub Duration);

/// `auto`, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutValue(pub Timeout);

/// A rate such as `0.05` or `5%`, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateValue(pub u32);

/// A confidence in per cent, such as `95`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confidence(pub Alpha);

/// Exit codes such as `0,2,10-19`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes(pub BTreeSet<i32>);

/// A valid regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(pub String);

/// A kind of failure that is the bug.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnlyRule(pub BugFilter);

/// The expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation(pub ExpectedResult);

/// A range of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerRange(pub u64, pub u64);

/// The hosts on which trials run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostsValue {
    /// This machine.
    Local,
    /// Hosts that the transport with this name reaches; other settings have their names or their number.
    Over(String),
    /// These hosts, which the transport with this name reaches.
    Listed(String, HostList),
    /// Hosts that the transport with this name reaches by this command; another setting has their names.
    ByCommand(String, String),
}

impl HostsValue {
    /// Returns the name of the transport; `None` for this machine.
    pub fn transport(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Over(transport) | Self::Listed(transport, _) | Self::ByCommand(transport, _) => {
                Some(transport)
            }
        }
    }
}

/// A limit such as `0`, `4G`, `unlimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitValue(pub Option<u64>);

/// The value of an environment variable, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvValue(pub Option<String>);

impl DurationValue {
    /// Returns the time in microseconds.
    pub fn to_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

impl FromStr for DurationValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        provoke_levers::parse_time(text).map(Self)
    }
}

impl FromStr for TimeoutValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self(Timeout::Auto));
        }
        let DurationValue(time) = text
            .parse()
            .map_err(|error| format!("{error}, or `auto`"))?;
        if time.as_micros() == 0 {
            return Err("a timeout of 0 would make every trial a hang".to_owned());
        }
        Ok(Self(Timeout::After(time)))
    }
}

impl FromStr for RateValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a rate above 0 and up to 1, such as `0.05` or `5%`");
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
            None => text.parse::<f64>(),
        };
        let millionths = (share.map_err(|_| wrong())? * 1e6).round();
        if millionths > 1e6 && millionths <= 1e8 && !text.ends_with('%') {
            return Err(format!("{}; did you mean `{text}%`?", wrong()));
        }
        if !(1.0..=1e6).contains(&millionths) {
            return Err(wrong());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within 1..=1e6"
        )]
        Ok(Self(millionths as u32))
    }
}

impl FromStr for Confidence {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
        let alpha = percent.and_then(Alpha::from_confidence);
        alpha.map(Self).ok_or_else(|| {
            format!("`{text}` is not a confidence in percent between 50 and 99.9999, such as `95`")
        })
    }
}

impl FromStr for Codes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |bound: &str| {
            format!("`{bound}` is not an exit code from 0 to 255, or a range such as `10-19`")
        };
        let mut codes = BTreeSet::new();
        for bound in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (start, end) = bound.split_once('-').unwrap_or((bound, bound));
            let code = |text: &str| {
                text.trim()
                    .parse::<u8>()
                    .map(i32::from)
                    .map_err(|_| wrong(bound))
            };
            let range = code(start)?..=code(end)?;
            if range.is_empty() {
                return Err(format!(
                    "`{bound}` is an empty range: write the smaller code first"
                ));
            }
            codes.extend(range);
        }
        Ok(Self(codes))
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match regex::bytes::Regex::new(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => {
                // The crate's own message has several lines, and a mark that an indent would shift.
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default();
                let bare_reason = reason.strip_prefix("error: ").unwrap_or(reason);
                Err(format!(
                    "`{text}` is not a regular expression: {bare_reason}"
                ))
            }
        }
    }
}

impl FromStr for OnlyRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error| {
            let words = ["hang", "timeout", "leak", "oom", "output"].into_iter();
            let long = Signal::known_names();
            let short = Signal::known_names().map(|name| &name[3..]);
            let intended = match text.to_ascii_lowercase().as_str() {
                "segfault" | "sigsegfault" | "segmentation fault" => Some("SIGSEGV"),
                _ => nearest_name(text, words.chain(long).chain(short)),
            };
            match intended {
                Some(name) => format!("{error}; did you mean `{name}`?"),
                None => error,
            }
        })
    }
}

impl FromStr for Expectation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "pass" => Ok(Self(ExpectedResult::Pass)),
            "fail" => Ok(Self(ExpectedResult::Fail)),
            "any" => Ok(Self(ExpectedResult::Any)),
            _ => Err(format!("`{text}` is not `pass`, `fail` or `any`")),
        }
    }
}

impl FromStr for IntegerRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = "write FIRST..LAST, such as 1..64";
        let (first_text, last_text) = text.split_once("..").ok_or(help)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| help);
        let (first, last) = (number(first_text)?, number(last_text)?);
        if first >= last {
            return Err(format!(
                "{first} is not below {last}: write the smaller number first"
            ));
        }
        Ok(Self(first, last))
    }
}

impl FromStr for HostsValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        let shape = find_transport(name).map(|transport| transport.shape);
        match (shape, rest) {
            (Some(HostsShape::Listed), Some(list)) => {
                Ok(Self::Listed(name.to_owned(), list.parse()?))
            }
            (Some(HostsShape::ByCommand), Some(command)) => {
                Ok(Self::ByCommand(name.to_owned(), command.to_owned()))
            }
            (Some(HostsShape::Listed | HostsShape::Counted), None) => {
                Ok(Self::Over(name.to_owned()))
            }
            _ => {
                let (shown, examples) = (text.to_safe(), hosts_examples());
                Err(format!(
                    "`{shown}` is not a list of hosts such as {examples}"
                ))
            }
        }
    }
}

/// Returns examples of hosts, as a list of alternatives.
pub(super) fn hosts_examples() -> String {
    let examples = TRANSPORTS.iter().map(|transport| transport.help.example);
    list_alternatives(&examples.chain(["local"]).collect::<Vec<_>>())
}

impl FromStr for LimitValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        provoke_levers::parse_bytes(text).map(Self)
    }
}

/// Writes values as their parsers read them.
macro_rules! shown_as {
    ($($value:ident: |$self:ident, $f:ident| $write:expr;)*) => {$(
        impl fmt::Display for $value {
            fn fmt(&self, $f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let $self = self;
                $write
            }
        }
    )*};
}
pub(super) use shown_as;

shown_as! {
    DurationValue: |time, f| match time.0.as_micros() {
        micros if micros.is_multiple_of(1_000_000) => write!(f, "{}s", micros / 1_000_000),
        micros if micros.is_multiple_of(1000) => write!(f, "{}ms", micros / 1000),
        micros => write!(f, "{micros}us"),
    };
    TimeoutValue: |timeout, f| match timeout.0 {
        Timeout::Auto => f.write_str("auto"),
        Timeout::After(time) => DurationValue(time).fmt(f),
    };
    RateValue: |rate, f| write!(f, "{}", f64::from(rate.0) / 1e6);
    Confidence: |confidence, f| write!(f, "{}", confidence.0.confidence_percent());
    Pattern: |pattern, f| f.write_str(&pattern.0);
    OnlyRule: |rule, f| rule.0.fmt(f);
    RunnerValue: |runner, f| match &runner.0 {
        Some(runner) => runner.fmt(f),
        None => f.write_str("auto"),
    };
    Expectation: |expected, f| f.write_str(match expected.0 {
        ExpectedResult::Fail => "fail",
        ExpectedResult::Any => "any",
        ExpectedResult::Pass | ExpectedResult::MaxRate(_) => "pass",
    });
    IntegerRange: |range, f| write!(f, "{}..{}", range.0, range.1);
    HostsValue: |hosts, f| match hosts {
        Self::Local => f.write_str("local"),
        Self::Listed(transport, hosts) => write!(f, "{transport}:{hosts}"),
        Self::Over(transport) => f.write_str(transport),
        Self::ByCommand(transport, command) => write!(f, "{transport}:{command}"),
    };
    LimitValue: |limit, f| match limit.0 {
        Some(amount) => amount.fmt(f),
        None => f.write_str("unlimited"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_valid<T: FromStr<Err = String>>(text: &str) -> T {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    fn assert_all_invalid<T: FromStr<Err = String>>(texts: &[&str]) {
        for text in texts {
            match text.parse::<T>() {
                Ok(_) => panic!("`{text}` was accepted"),
                Err(error) => assert!(!error.contains('\n') && !error.is_empty(), "{error}"),
            }
        }
    }

    #[test]
    fn durations_are_parsed_with_and_without_units() {
        for (text, millis) in [
            ("60s", 60_000),
            ("1.5s", 1_500),
            ("200ms", 200),
            ("2m", 120_000),
            ("1h 30m", 5_400_000),
            ("0", 0),
            ("5", 5_000),
            ("0.25", 250),
            (" 5 ", 5_000),
            ("1e1", 10_000),
            ("87600h", 315_360_000_000),
            ("1d", 86_400_000),
            ("0.5d", 43_200_000),
        ] {
            assert_eq!(
                parse_valid::<DurationValue>(text),
                DurationValue(Duration::from_millis(millis)),
                "{text}"
            );
        }
        assert_all_invalid::<DurationValue>(&[
            "", "s", "-1", "-5s", "60x", "nan", "inf", "1e300", "87601h", "2m ago", "1:30", "½s",
            "d",
        ]);
    }

    #[test]
    fn a_timeout_is_a_positive_duration_or_auto() {
        assert_eq!(
            parse_valid::<TimeoutValue>("auto"),
            TimeoutValue(Timeout::Auto)
        );
        let second = Timeout::After(Duration::from_secs(1));
        assert_eq!(parse_valid::<TimeoutValue>("1s"), TimeoutValue(second));
        assert_all_invalid::<TimeoutValue>(&["0", "0s", "1ns", "AUTO", "", "-1"]);
    }

    #[test]
    fn rates_are_above_0_and_at_most_1() {
        for (text, millionths) in [
            ("5%", 50_000),
            ("0.05", 50_000),
            ("1", 1_000_000),
            ("100%", 1_000_000),
            ("0.000001", 1),
            ("0.0001 %", 1),
        ] {
            assert_eq!(
                parse_valid::<RateValue>(text),
                RateValue(millionths),
                "{text}"
            );
        }
        assert_all_invalid::<RateValue>(&[
            "0",
            "0%",
            "-5%",
            "101%",
            "1.1",
            "5",
            "%",
            "",
            "nan",
            "inf",
            "0.0000001",
            "5%%",
        ]);
    }

    #[test]
    fn a_confidence_is_a_percentage_of_at_least_50() {
        for (text, alpha) in [
            ("95", 0.05),
            ("95%", 0.05),
            ("99.9999", 0.000_001),
            ("50", 0.5),
        ] {
            assert!(
                (parse_valid::<Confidence>(text).0.to_probability() - alpha).abs() < 1e-9,
                "{text}"
            );
        }
        assert_all_invalid::<Confidence>(&["0.95", "100", "49.9", "-95", "nan", "", "%", "95%%"]);
    }

    #[test]
    fn exit_codes_are_numbers_and_ranges() {
        assert_eq!(
            parse_valid::<Codes>("0,2,10-12").0,
            BTreeSet::from([0, 2, 10, 11, 12])
        );
        assert_eq!(
            parse_valid::<Codes>(" 1 , 3 - 4 ,").0,
            BTreeSet::from([1, 3, 4])
        );
        assert_eq!(parse_valid::<Codes>("255,7-7").0, BTreeSet::from([7, 255]));
        assert!(parse_valid::<Codes>("").0.is_empty());
        assert_all_invalid::<Codes>(&["256", "-1", "a", "1-", "-", "12-10", "1-2-3", "0;2", "1.5"]);
    }

    #[test]
    fn limits_have_binary_units() {
        for (text, amount) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("4k", Some(4096)),
            ("512M", Some(512 << 20)),
            ("4G", Some(4 << 30)),
            ("4GiB", Some(4 << 30)),
            ("1t", Some(1 << 40)),
            ("unlimited", None),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            assert_eq!(
                parse_valid::<LimitValue>(text),
                LimitValue(amount),
                "{text}"
            );
        }
        assert_all_invalid::<LimitValue>(&[
            "",
            "G",
            "-1",
            "1.5G",
            "4X",
            "4 G",
            "18446744073709551615K",
            "16777216T",
            "ü",
        ]);
    }

    #[test]
    fn an_unknown_kind_of_failure_is_refused_with_a_similar_one() {
        let error = "SIGSEGFAULT".parse::<OnlyRule>().unwrap_err();
        assert!(error.ends_with("did you mean `SIGSEGV`?"), "{error}");
        let error = "leek".parse::<OnlyRule>().unwrap_err();
        assert!(error.ends_with("did you mean `leak`?"), "{error}");
        for text in ["segv", "SIGSEGV", "11", "code:3", "hang", "OOM", "output"] {
            parse_valid::<OnlyRule>(text);
        }
        assert_all_invalid::<OnlyRule>(&["", "code:", "code:x", "0", "99", "crash and burn"]);
    }

    #[test]
    fn an_invalid_pattern_is_refused_in_one_line() {
        parse_valid::<Pattern>("data race|(?i)error");
        assert_all_invalid::<Pattern>(&["(a", "[", "a{99999999}", "\\p{zebra}", "(?P<n"]);
    }

    #[test]
    fn hosts_are_those_of_a_transport_or_this_machine() {
        for text in [
            "ssh:a,root@b.example gpu=a100",
            "ssh:@hosts",
            "local",
            "ssh",
            "slurm",
        ] {
            assert_eq!(parse_valid::<HostsValue>(text).to_string(), text);
        }
        assert_all_invalid::<HostsValue>(&[
            "",
            "a,b",
            "ssh:",
            "ssh:a,",
            "ssh:a,a",
            "ssh:-oProxyCommand=x",
            "ssh:a b",
            "ssh:@",
            "ssh:a\nb",
            "slurm:a",
            "rsh:a",
        ]);
    }
}
