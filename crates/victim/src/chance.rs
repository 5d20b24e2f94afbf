//! Decides whether this run misbehaves. The functions are pure: the same trial always decides the same
//! way.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A probability, written `0.1` or `10%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.trim().strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text.trim(), 1.0),
        };
        let rate = number
            .parse::<f64>()
            .map_err(|_| format!("`{text}` is neither like 0.1 nor like 10%"))?
            / scale;
        if (0.0..=1.0).contains(&rate) {
            Ok(Self(rate))
        } else {
            Err(format!("`{text}` is not between 0 and 1 (0% and 100%)"))
        }
    }
}

/// Numbers of trials, written `3,7,20-25`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trials(Vec<RangeInclusive<u64>>);

impl Trials {
    fn contains(&self, trial: u64) -> bool {
        self.0.iter().any(|range| range.contains(&trial))
    }
}

impl FromStr for Trials {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| {
            part.trim()
                .parse::<u64>()
                .map_err(|_| format!("`{part}` in `{text}` is not a trial number"))
        };
        text.split(',')
            .map(|part| match part.split_once('-') {
                Some((first, last)) => {
                    let range = number(first)?..=number(last)?;
                    if range.is_empty() {
                        Err(format!("`{part}` runs backwards"))
                    } else {
                        Ok(range)
                    }
                }
                None => number(part).map(|trial| trial..=trial),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// All that the decision depends on, except for the trial's number.
#[derive(Clone, Debug)]
pub(crate) struct ChanceInputs {
    pub(crate) rate: Rate,
    pub(crate) fail_on: Option<Trials>,
    pub(crate) seed: u64,
}

impl ChanceInputs {
    /// Says whether the run misbehaves; `trial` is the text of `PROVOKE_TRIAL`, looked at only for `--fail-on`.
    pub(crate) fn decide(&self, trial: Option<&str>) -> Result<bool, String> {
        let Some(trials) = &self.fail_on else {
            return Ok(unit(self.seed) < self.rate.0);
        };
        let trial =
            trial.ok_or("--fail-on needs the number of the trial, but PROVOKE_TRIAL is not set")?;
        let number = trial
            .trim()
            .parse()
            .map_err(|_| format!("PROVOKE_TRIAL is `{trial}`, not a number"))?;
        Ok(trials.contains(number))
    }
}

/// Maps a seed to [0, 1), evenly and without regard to neighbouring seeds (the finaliser of `SplitMix64`).
fn unit(seed: u64) -> f64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    #[expect(
        clippy::cast_precision_loss,
        reason = "the upper 53 bits fit a f64 exactly"
    )]
    let numerator = (bits >> 11) as f64;
    numerator * (f64::EPSILON / 2.0) // divided by 2^53
}

/// A seed for runs outside of any trial: differs from one process to the next.
pub(crate) fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_secs().rotate_left(32)
        ^ u64::from(now.subsec_nanos())
        ^ (u64::from(std::process::id()) << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odds(rate: &str, fail_on: Option<&str>, seed: u64) -> ChanceInputs {
        ChanceInputs {
            rate: rate.parse().unwrap(),
            fail_on: fail_on.map(|text| text.parse().unwrap()),
            seed,
        }
    }

    #[test]
    fn a_rate_is_a_fraction_or_a_percentage() {
        assert_eq!("0.1".parse(), Ok(Rate(0.1)));
        assert_eq!("10%".parse(), Ok(Rate(0.1)));
        assert_eq!("100 %".parse(), Ok(Rate(1.0)));
        for text in ["", "x", "%", "-0.1", "1.01", "101%", "nan", "inf"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_of_one_always_fails_and_a_rate_of_zero_never_fails() {
        for seed in (0..1000).chain([u64::MAX]) {
            assert_eq!(odds("1", None, seed).decide(None), Ok(true));
            assert_eq!(odds("0", None, seed).decide(None), Ok(false));
        }
    }

    #[test]
    fn the_same_seed_always_gives_the_same_decision() {
        let failing: Vec<u64> = (0..60)
            .filter(|&seed| odds("10%", None, seed).decide(None) == Ok(true))
            .collect();
        assert_eq!(
            failing,
            [10, 18, 21, 41, 48],
            "documented replays would no longer fail"
        );
    }

    #[test]
    fn consecutive_seeds_fail_at_the_stated_rate() {
        for (rate, low, high) in [
            ("1%", 800, 1200),
            ("10%", 9600, 10400),
            ("0.5", 49_300, 50_700),
        ] {
            let failed = (0..100_000)
                .filter(|&seed| odds(rate, None, seed).decide(None) == Ok(true))
                .count();
            assert!((low..=high).contains(&failed), "{rate}: {failed} of 100000");
        }
    }

    #[test]
    fn listed_trials_fail_at_any_rate() {
        let odds = odds("0", Some("3,7, 20-25"), 1);
        let failing: Vec<u64> = (0..40)
            .filter(|trial| odds.decide(Some(&trial.to_string())) == Ok(true))
            .collect();
        assert_eq!(failing, [3, 7, 20, 21, 22, 23, 24, 25]);
    }

    #[test]
    fn listed_trials_need_a_trial_number() {
        let odds = odds("1", Some("3"), 1);
        assert!(
            odds.decide(None)
                .unwrap_err()
                .contains("PROVOKE_TRIAL is not set")
        );
        assert!(
            odds.decide(Some("three"))
                .unwrap_err()
                .contains("not a number")
        );
    }

    #[test]
    fn malformed_lists_of_trials_are_refused() {
        for text in ["", "3,", "a", "5-3", "1-2-3", "-4", "1.5"] {
            assert!(text.parse::<Trials>().is_err(), "{text}");
        }
    }
}
