//! Compact record of the cases of one trial, for the journal.
//!
//! Cases are numbered in the order in which the run first saw them; [`super::Event::CasesNamed`] lists their names. A
//! record of 5,000 cases that passed in the order of their numbers has 5 KB, which are the durations.

use super::{CaseEnd, CaseFailure, Signature, SignatureId, is_default};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The cases of one trial, by their numbers in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaseRecord {
    /// How each case ended, by number: letters with counts, such as `3p1f12-`. A `-` is a case that the trial did not
    /// plan.
    pub ends: String,
    /// The numbers of the cases that started, in their order, for each process that ran cases; empty if one process
    /// ran them in the order of their numbers, or each ran in a separate process.
    #[serde(skip_serializing_if = "is_default")]
    pub orders: Vec<NumberList>,
    /// The duration of each case with an end, by number, one character on a logarithmic scale each.
    #[serde(skip_serializing_if = "is_default")]
    pub durations: String,
    /// Failures and crashes.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: Vec<CaseFailures>,
    /// The numbers of the cases that the runner ran more than once. They ended as in their first attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub retried: NumberList,
    /// Problems of the report of the runner.
    #[serde(skip_serializing_if = "is_default")]
    pub complaints: Vec<String>,
}

/// The cases of a trial with one failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseFailures {
    /// Which failure it is.
    #[serde(rename = "sig")]
    pub signature_id: SignatureId,
    /// The same in full; only in the first trial of the run with this failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signature: Option<Box<Signature>>,
    /// The numbers of the cases.
    pub cases: NumberList,
    /// The words of the runner about the first of these cases; only in the first trial with this failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure: Option<Box<CaseFailure>>,
}

/// Characters that JSON writes as they are.
const DIGITS: std::ops::RangeInclusive<u8> = b'#'..=b'~';
/// The one character in [`DIGITS`] that JSON escapes.
const ESCAPED: u8 = b'\\';
/// Number of usable characters.
const BASE: u32 = 91;
/// Ratio of two neighbouring durations on the logarithmic scale.
const STEP: f64 = 1.3;
/// Maximum length of a decoded list: no run has more cases.
const MAX_DECODED: usize = 1_000_000;

/// Returns the character of a digit below [`BASE`].
fn digit_char(digit: u32) -> char {
    let byte = DIGITS.start() + u8::try_from(digit.min(BASE - 1)).unwrap_or(0);
    char::from(if byte >= ESCAPED { byte + 1 } else { byte })
}

/// Returns the digit of a character.
fn char_digit(character: u8) -> Option<u32> {
    if !DIGITS.contains(&character) || character == ESCAPED {
        return None;
    }
    let skipped = u8::from(character > ESCAPED);
    Some(u32::from(character - DIGITS.start() - skipped))
}

/// A list of numbers in few characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NumberList(String);

impl NumberList {
    /// Encodes numbers with two digits each, or three if one of them needs them.
    pub fn encode(numbers: &[u32]) -> Self {
        let width = if numbers.iter().all(|number| *number < BASE * BASE) {
            2
        } else {
            3
        };
        let mut text = width.to_string();
        for number in numbers {
            for position in (0..width).rev() {
                text.push(digit_char(number / BASE.pow(position) % BASE));
            }
        }
        Self(text)
    }

    /// Returns the numbers; empty if the text is damaged.
    pub fn decode(&self) -> Vec<u32> {
        let (width, digits) = match self.0.as_bytes() {
            [b'2', digits @ ..] => (2, digits),
            [b'3', digits @ ..] => (3, digits),
            _ => return Vec::new(),
        };
        let number_of = |digits: &[u8]| {
            let mut digits = digits.iter();
            digits.try_fold(0, |number, digit| Some(number * BASE + char_digit(*digit)?))
        };
        let numbers = digits.chunks_exact(width).take(MAX_DECODED).map(number_of);
        numbers.collect::<Option<Vec<u32>>>().unwrap_or_default()
    }
}

/// The letters of the ends, in the order of [`CaseEnd::ALL`].
const LETTERS: &str = "pfesxXtcnu";

impl CaseEnd {
    /// Every end, in the order of the enumeration.
    pub const ALL: [Self; 10] = [
        Self::Passed,
        Self::Failed,
        Self::Error,
        Self::Skipped,
        Self::ExpectedFailure,
        Self::UnexpectedPass,
        Self::TimedOut,
        Self::Crashed,
        Self::NotRun,
        Self::Unknown,
    ];

    /// Returns the name of the end in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::ExpectedFailure => "expected_failure",
            Self::UnexpectedPass => "unexpected_pass",
            Self::TimedOut => "timed_out",
            Self::Crashed => "crashed",
            Self::NotRun => "not_run",
            Self::Unknown => "unknown",
        }
    }
}

impl CaseRecord {
    /// Encodes the ends of cases by number; `None` for a case that the trial did not plan.
    pub fn encode_ends(ends: &[Option<CaseEnd>]) -> String {
        let letters = ends.iter().map(|end| letter_of(*end));
        let mut text = String::new();
        let mut group: Option<(char, u32)> = None;
        for letter in letters.chain(['\0']) {
            match &mut group {
                Some((same_letter, count)) if *same_letter == letter => *count += 1,
                _ => {
                    if let Some((letter, count)) = group.replace((letter, 1)) {
                        text.push_str(&count.to_string());
                        text.push(letter);
                    }
                }
            }
        }
        text
    }

    /// Returns the ends of the cases by number. A damaged text gives fewer.
    pub fn decode_ends(&self) -> Vec<Option<CaseEnd>> {
        let mut ends = Vec::new();
        let mut count = 0_usize;
        for character in self.ends.chars() {
            if let Some(digit) = character.to_digit(10) {
                count = count.saturating_mul(10).saturating_add(digit as usize);
                continue;
            }
            let end = match character {
                '-' => None,
                _ => match LETTERS.find(character) {
                    Some(position) => Some(CaseEnd::ALL[position]),
                    None => break,
                },
            };
            let room = MAX_DECODED - ends.len();
            ends.extend(std::iter::repeat_n(end, count.min(room)));
            count = 0;
        }
        ends
    }

    /// Encodes durations, one character each.
    pub fn encode_durations(durations: impl Iterator<Item = Duration>) -> String {
        let digits = durations.map(|duration| {
            let level = (duration.as_secs_f64() * 1e6 + 1.0).ln() / STEP.ln();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the level is not negative, and below 91"
            )]
            let digit = level.round().min(f64::from(BASE - 1)) as u32;
            digit_char(digit)
        });
        digits.collect()
    }

    /// Returns the durations, within 15 %.
    pub fn decode_durations(&self) -> impl Iterator<Item = Duration> {
        let digits = self.durations.bytes().take(MAX_DECODED);
        digits.map(|digit| {
            let level = f64::from(char_digit(digit).unwrap_or(0));
            Duration::from_secs_f64(((STEP.powf(level) - 1.0) / 1e6).max(0.0))
        })
    }
}

fn letter_of(end: Option<CaseEnd>) -> char {
    end.map_or('-', |end| char::from(LETTERS.as_bytes()[end as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_they_were_written() {
        let mut ends: Vec<Option<CaseEnd>> = vec![Some(CaseEnd::Passed); 4998];
        ends.extend(CaseEnd::ALL.map(Some));
        ends.extend([None; 3]);
        let text = CaseRecord::encode_ends(&ends);
        assert_eq!(text, "4999p1f1e1s1x1X1t1c1n1u3-");
        let record = CaseRecord {
            ends: text,
            ..CaseRecord::default()
        };
        assert_eq!(record.decode_ends(), ends);
        assert_eq!(CaseRecord::encode_ends(&[]), "");
    }

    #[test]
    fn damaged_texts_need_no_memory() {
        let record = CaseRecord {
            ends: "99999999999999999999999999p5f".to_owned(),
            ..CaseRecord::default()
        };
        assert_eq!(record.decode_ends().len(), MAX_DECODED);
        for damaged in ["", "4abc", "2\\\\", "2é"] {
            assert!(NumberList(damaged.to_owned()).decode().is_empty());
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for numbers in [vec![], vec![0, 90, 91, 8280], vec![8281, 0, 753_570]] {
            let list = NumberList::encode(&numbers);
            assert_eq!(list.decode(), numbers);
            assert!(!list.0.contains(['"', '\\']));
        }
    }

    #[test]
    fn durations_are_kept_within_a_seventh() {
        let micros = [0, 1, 100, 12_345, 1_000_000, 3_600_000_000];
        let durations = micros.map(Duration::from_micros);
        let record = CaseRecord {
            durations: CaseRecord::encode_durations(durations.into_iter()),
            ..CaseRecord::default()
        };
        assert_eq!(record.durations.len(), durations.len());
        for (decoded, duration) in record.decode_durations().zip(durations) {
            let difference = decoded.as_secs_f64() - duration.as_secs_f64();
            assert!(difference.abs() <= 0.15 * duration.as_secs_f64() + 1e-6);
        }
    }
}
