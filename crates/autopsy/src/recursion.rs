//! Collapses the repeated frames of a recursion.

/// The longest cycle of calls that is recognized.
const LONGEST: usize = 4;

/// Collapses runs of equal elements and short cycles into one copy, with the number of repetitions.
///
/// A single element counts as repeated from the second occurrence on, a cycle from the third.
pub(super) fn collapse_repeats<T: Copy + PartialEq>(items: &[T]) -> Vec<(T, u64)> {
    let mut short = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let (length, times) = (1..=LONGEST)
            .map(|length| (length, count_repeats(rest, length)))
            .find(|(length, times)| *times >= if *length == 1 { 2 } else { 3 })
            .unwrap_or((1, 1));
        let repeated = times as u64 - 1;
        short.extend(rest[..length].iter().map(|item| (*item, repeated)));
        rest = &rest[length * times..];
    }
    short
}

/// Returns how many times the first `length` elements occur in a row.
fn count_repeats<T: PartialEq>(items: &[T], length: usize) -> usize {
    let Some(front) = items.get(..length) else {
        return 0;
    };
    let rounds = items.chunks_exact(length);
    rounds.take_while(|round| *round == front).count()
}

#[cfg(test)]
mod tests {
    use super::collapse_repeats;

    #[test]
    fn repeated_calls_become_one_entry() {
        let short = collapse_repeats(&['a', 'b', 'b', 'b', 'c']);
        assert_eq!(short, [('a', 0), ('b', 2), ('c', 0)]);
    }

    #[test]
    fn mutually_recursive_calls_become_one_round() {
        let short = collapse_repeats(&['x', 'a', 'b', 'a', 'b', 'a', 'b', 'm']);
        assert_eq!(short, [('x', 0), ('a', 2), ('b', 2), ('m', 0)]);
    }

    #[test]
    fn two_rounds_are_not_collapsed() {
        let all = ['a', 'b', 'a', 'b', 'm'];
        assert_eq!(collapse_repeats(&all), all.map(|one| (one, 0)));
    }
}
