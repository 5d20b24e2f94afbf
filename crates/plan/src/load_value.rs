//! Values of the flags and fields of a load, with their parsers.

use super::value::{DurationValue, Pattern, shown_as};
use provoke_model::ReadyCondition;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Every level of a range is a candidate, unless the range has more levels than this.
const MAX_LEVELS: u64 = 1024;

/// Number of concurrent clients, or load levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// This number.
    Of(NonZeroU32),
    /// Levels in this range.
    Between(u64, u64),
    /// These levels.
    Levels(Vec<u32>),
}

/// A frequency in thousandths of a hertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency(pub u64);

/// When a service is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyWhen(pub ReadyCondition);

/// The process under load, if provoke does not start the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachedProcess(pub Option<i32>);

impl Concurrency {
    /// Returns whether these are several levels, of which the lowest failing one is searched.
    pub fn are_levels(&self) -> bool {
        !matches!(self, Self::Of(_))
    }

    /// Returns the levels in ascending order: all of a range, or a few per doubling if the range is too wide.
    pub fn load_levels(&self) -> Vec<u32> {
        match self {
            Self::Of(clients) => vec![clients.get()],
            Self::Levels(levels) => levels.clone(),
            Self::Between(first, last) => {
                let lists_each = last - first < MAX_LEVELS;
                // 1024, 1280, 1536, 2048, 2560, 3072, 4096 ...
                let coarse = |level: &u64| {
                    let power = 1 << level.ilog2();
                    let is_round = (level * 4).is_multiple_of(power) && level * 2 <= power * 3;
                    lists_each || is_round || level == first || level == last
                };
                let levels = (*first..=*last).filter(coarse);
                levels
                    .filter_map(|level| u32::try_from(level).ok())
                    .collect()
            }
        }
    }
}

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const MAX_CLIENTS: u64 = 100_000;
        let help = || {
            format!(
                "`{text}` is not a number of clients such as `10`, or levels such as `1..64` or `8,9,10`"
            )
        };
        let number = |bound: &str| {
            let number = bound.trim().parse::<u64>().ok();
            number
                .filter(|number| (1..=MAX_CLIENTS).contains(number))
                .ok_or_else(help)
        };
        if let Some((first, last)) = text.split_once("..") {
            let (first, last) = (number(first)?, number(last)?);
            return if first < last {
                Ok(Self::Between(first, last))
            } else {
                Err(format!(
                    "{first} is not below {last}: write the smaller number first"
                ))
            };
        }
        let mut levels: Vec<u32> = Vec::new();
        for bound in text.split(',') {
            levels.push(u32::try_from(number(bound)?).map_err(|_| help())?);
        }
        levels.sort_unstable();
        levels.dedup();
        match levels.as_slice() {
            [jobs] => NonZeroU32::new(*jobs).map(Self::Of).ok_or_else(help),
            _ => Ok(Self::Levels(levels)),
        }
    }
}

impl FromStr for Frequency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a rate such as `50/s` or `90/min`");
        let (number_text, unit) = text.split_once('/').unwrap_or((text, "s"));
        let seconds = match unit.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number = number_text.trim().parse::<f64>().map_err(|_| wrong())?;
        let millihertz = (number / seconds * 1e3).round();
        if !(1.0..=1e9).contains(&millihertz) {
            return Err(wrong());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within 1..=1e9"
        )]
        Ok(Self(millihertz as u64))
    }
}

impl FromStr for ReadyWhen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "tcp" {
            return Ok(Self(ReadyCondition::Connects));
        }
        if text.starts_with('/') {
            return Ok(Self(ReadyCondition::Http {
                path: text.to_owned(),
                status: None,
            }));
        }
        if let Some(pattern) = text.strip_prefix("log:") {
            let Pattern(pattern) = pattern.parse()?;
            return Ok(Self(ReadyCondition::Log(pattern)));
        }
        let time = text
            .parse::<DurationValue>()
            .map(|span| Self(ReadyCondition::After(span.0)));
        time.map_err(|_| {
            format!("`{text}` is not `tcp`, a path such as `/healthz`, `log:REGEX`, or a time such as `2s`")
        })
    }
}

impl FromStr for AttachedProcess {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "listener" {
            return Ok(Self(None));
        }
        let pid = text.parse::<i32>().ok().filter(|pid| *pid > 0);
        pid.map(|pid| Self(Some(pid)))
            .ok_or_else(|| format!("`{text}` is not a PID or `listener`"))
    }
}

shown_as! {
    Concurrency: |clients, f| match clients {
        Self::Of(clients) => clients.fmt(f),
        Self::Between(first, last) => write!(f, "{first}..{last}"),
        Self::Levels(levels) => {
            let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
            f.write_str(&levels.join(","))
        }
    };
    Frequency: |rate, f| match (rate.0 / 1000, rate.0 % 1000) {
        (whole, 0) => write!(f, "{whole}/s"),
        (whole, part) => write!(f, "{whole}.{part:03}/s"),
    };
    ReadyWhen: |ready, f| match &ready.0 {
        ReadyCondition::Connects => f.write_str("tcp"),
        ReadyCondition::Http { path, .. } => f.write_str(path),
        ReadyCondition::Log(pattern) => write!(f, "log:{pattern}"),
        ReadyCondition::After(time) => DurationValue(*time).fmt(f),
    };
    AttachedProcess: |process, f| match process.0 {
        Some(pid) => pid.fmt(f),
        None => f.write_str("listener"),
    };
}
