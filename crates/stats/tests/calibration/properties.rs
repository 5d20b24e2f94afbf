use proptest::prelude::*;
use provoke_stats::{
    clean_runs_needed, clopper_pearson, confidence_sequence, lower_one_sided,
    unchanged_p_value_effective, upper_one_sided,
};

fn counts(most: u64) -> impl Strategy<Value = (u64, u64)> {
    (1..=most).prop_flat_map(|n| (0..=n, Just(n)))
}

fn share(k: u64, n: u64) -> f64 {
    f64::from(u32::try_from(k).unwrap()) / f64::from(u32::try_from(n).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None, // a failing case gets its own test
        ..ProptestConfig::default()
    })]

    #[test]
    fn intervals_contain_the_observed_share_and_widen_with_confidence((k, n) in counts(1_000_000)) {
        for interval in [clopper_pearson, confidence_sequence] {
            let (narrow, wide) = (interval(k, n, 0.05), interval(k, n, 0.01));
            prop_assert!(0.0 <= narrow.lo && narrow.hi <= 1.0);
            prop_assert!(narrow.contains(share(k, n)));
            prop_assert!(wide.lo <= narrow.lo && narrow.hi <= wide.hi);
        }
    }

    #[test]
    fn one_sided_bounds_are_closer_than_two_sided_ends((k, n) in counts(100_000)) {
        let two_sided = clopper_pearson(k, n, 0.05);
        prop_assert!(two_sided.lo <= lower_one_sided(k, n, 0.05));
        prop_assert!(upper_one_sided(k, n, 0.05) <= two_sided.hi);
    }

    #[test]
    fn one_more_failure_raises_both_ends((k, n) in counts(10_000)) {
        prop_assume!(k < n);
        for interval in [clopper_pearson, confidence_sequence] {
            let (fewer, more) = (interval(k, n, 0.05), interval(k + 1, n, 0.05));
            prop_assert!(fewer.lo <= more.lo && fewer.hi <= more.hi);
        }
    }

    #[test]
    fn more_failures_or_less_certainty_need_fewer_clean_runs((k0, n0) in counts(100_000)) {
        prop_assume!(0 < k0 && k0 < n0);
        let needed = clean_runs_needed(k0, n0, 0.05);
        prop_assert!(clean_runs_needed(k0 + 1, n0, 0.05) <= needed);
        prop_assert!(needed <= clean_runs_needed(k0, n0, 0.01));
        prop_assert!(needed <= clean_runs_needed(k0, n0 + 1, 0.05));
    }

    #[test]
    fn another_clean_run_never_raises_the_p_value((k0, n0) in counts(10_000), m in 0_u64..5000) {
        let before = unchanged_p_value_effective(k0, n0, m, 1.0);
        prop_assert!(unchanged_p_value_effective(k0, n0, m + 1, 1.0) <= before * (1.0 + 1e-12));
        prop_assert!((0.0..=1.0).contains(&before));
    }
}
