//! What the failures of a search look like, as its statistics take it.

use crate::model::{Failure, Kind, SignatureId};
use crate::stats::search::Looks;
use std::time::Duration;

/// The kinds that were seen of each feature, in their order.
#[derive(Debug, Default)]
pub(super) struct LooksSeen {
    signatures: Vec<SignatureId>,
    octaves: Vec<i32>,
    first_time: Option<Duration>,
}

/// Returns the number of a value in the order in which they were seen.
fn number<T: PartialEq>(seen: &mut Vec<T>, value: T) -> usize {
    let known = seen.iter().position(|one| *one == value);
    known.unwrap_or_else(|| {
        seen.push(value);
        seen.len() - 1
    })
}

impl LooksSeen {
    /// Returns what a failure looks like. A signature tells nothing that the same bug need not have in another build,
    /// and times within a factor of two are alike.
    pub(super) fn of(&mut self, failure: &Failure, time: Duration) -> Looks {
        let signature = &failure.signature;
        let hangs = matches!(failure.kind, Kind::Hang { .. });
        let comparable = !hangs && signature.is_same_in_any_build();
        let first = *self.first_time.get_or_insert(time);
        Looks {
            signature: comparable.then(|| number(&mut self.signatures, signature.id)),
            time: octave(time, first).map(|octave| number(&mut self.octaves, octave)),
        }
    }
}

/// Returns the octave of a time around another: 0 if they are alike.
fn octave(time: Duration, around: Duration) -> Option<i32> {
    let octaves = time.div_duration_f64(around).log2().round();
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a logarithm of a finite number"
    )]
    octaves.is_finite().then_some(octaves as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_a_factor_of_two_are_alike() {
        let ms = Duration::from_millis;
        let of = |time| octave(ms(time), ms(1000));
        assert_eq!([of(710), of(1000), of(1410)], [Some(0); 3]);
        assert_eq!((of(500), of(2000), of(0)), (Some(-1), Some(1), None));
    }
}
