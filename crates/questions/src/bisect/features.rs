//! Converts the features of failures into features for the statistics of a search.

use provoke_model::{EvidenceDepth, Failure, FailureName, SignatureId};
use provoke_stats::search::Features;
use std::time::Duration;

/// Times that differ by much less than this count as equal: the duration of a quick program depends on the machine.
const BLUR: Duration = Duration::from_secs(1);

/// The observed values of each feature, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct FeatureValues {
    signatures: Vec<SignatureId>,
    octaves: Vec<i32>,
    first_time: Option<Duration>,
}

/// Returns the index of a value in the order of first occurrence.
fn number_of_value<T: PartialEq>(values: &mut Vec<T>, value: T) -> usize {
    let position = values.iter().position(|known_value| *known_value == value);
    position.unwrap_or_else(|| {
        values.push(value);
        values.len() - 1
    })
}

impl FeatureValues {
    /// Returns the features of a failure. A signature is a feature only if the same bug has it in every build.
    pub(super) fn features_of(&mut self, failure: &Failure, time: Duration) -> Features {
        let name = FailureName::from(failure);
        let comparable = name.portable_depth() != EvidenceDepth::Status;
        let first = *self.first_time.get_or_insert(time);
        Features {
            signature: name
                .portable_names()
                .next()
                .filter(|_| comparable)
                .map(|name| number_of_value(&mut self.signatures, name)),
            time: Some(number_of_value(
                &mut self.octaves,
                octave_of_time(time, first),
            )),
        }
    }
}

/// Returns the octave of a time relative to another: 0 if the two are equal within a factor of about two.
#[expect(clippy::cast_possible_truncation, reason = "a logarithm of a time")]
fn octave_of_time(time: Duration, around: Duration) -> i32 {
    let ratio = (time + BLUR).div_duration_f64(around + BLUR);
    ratio.log2().round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_a_factor_of_two_or_below_a_second_are_equal() {
        let ms = Duration::from_millis;
        let of_quick = |time| octave_of_time(ms(time), ms(2));
        assert_eq!([of_quick(1), of_quick(100), of_quick(400)], [0; 3]);
        let of_slow = |time| octave_of_time(ms(time), ms(20_000));
        assert_eq!([of_slow(15_000), of_slow(28_000)], [0; 2]);
        assert_eq!([of_slow(10_000), of_slow(42_000), of_slow(0)], [-1, 1, -4]);
    }
}
