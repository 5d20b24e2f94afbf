//! Tests of `data/golden.json` and `data/golden_cases.json`: values from an independent implementation, or from exact enumeration, which every build
//! must reproduce.
//!
//! The interval cases also have `wilson`, `jeffreys` and `mid_p` columns. These intervals are deliberately not
//! implemented, because their coverage is well below nominal at some rates; the columns are for comparison and are not
//! read.

use std::collections::BTreeMap;

use provoke_stats as stats;
use provoke_stats::HostTrials;
use provoke_stats::cases::{
    CaseCounts, FailureSets, OrderRelation, OrderTable, benjamini_hochberg, runs_to_see_every,
    selected_alpha,
};
use provoke_stats::ramp::Ramp;
use provoke_stats::search::{
    Bisection, Cell, Channel, Costs, Features, Grid, SearchPrior, StopConditions, stage_prior,
};
use serde_json::Value;

const GOLDEN: [&str; 2] = [
    include_str!("data/golden.json"),
    include_str!("data/golden_cases.json"),
];

type Check = fn(&Case);

/// Kinds that are run below.
const IMPLEMENTED: [(&str, Check); 25] = [
    ("interval", interval),
    ("clean_runs_flat", clean_runs_flat),
    ("confirm_fixed", confirm_fixed),
    ("confirm_pvalue", confirm_p_value),
    ("overdispersion", overdispersion),
    ("clumps", clumps),
    ("mtbf_exponential", mtbf_exponential),
    ("laplace_trend", laplace_trend),
    ("runs_per_failure", runs_per_failure),
    ("growth", growth),
    ("sprt_exact", sprt_exact),
    ("eprocess_2x2", eprocess),
    ("fisher_2x2", fisher),
    ("host_permutation", host_permutation),
    ("default_grid", default_grid),
    ("bisect_posterior", bisect_posterior),
    ("failure_features", failure_features),
    ("reduce_stage_prior", reduce_stage_prior),
    ("capacity", capacity),
    ("ramp_posterior", ramp_posterior),
    ("selected_intervals", intervals_of_selected_cases),
    ("runs_to_see_every", runs_that_show_every_case),
    ("benjamini_hochberg", corrected_p_values),
    ("order_dependence", order_dependence),
    ("failure_clusters", failure_clusters),
];

/// Cases of `sprt_exact` whose test is deliberately not implemented.
///
/// They are sequential tests against a fix that leaves a known rate. Against a fix that removes the failure completely
/// such a test never needs fewer runs, so only the other cases are run: there the test equals the rule that stops at
/// the first failure or after a fixed number of clean runs.
const NOT_BUILT: [&str; 3] = ["g046", "g047", "g048"];

/// Cases of `confirm_fixed` whose `clean_runs_needed` is one too high.
///
/// The rule accepts an exact tie with alpha, and the file follows it in other cases (19 after 1/1, 990 after 1/10 at 1
/// %). In these cases the p-value one run earlier is exactly 1/20, which rounding hid when the file was made: 10/200,
/// 6/120 and 100/2000. The test proves the tie in integers before it accepts the lower number.
const MISSED_TIES: [&str; 3] = ["g032", "g035", "g038"];

struct Case<'a> {
    value: &'a Value,
    tolerance: &'a Value,
}

impl Case<'_> {
    fn field(&self, name: &str) -> &Value {
        let value = &self.value[name];
        assert!(
            !value.is_null() || self.value.get(name).is_some(),
            "{}: no field `{name}`",
            self.id()
        );
        value
    }

    fn id(&self) -> &str {
        self.value["id"].as_str().unwrap_or("?")
    }

    fn real(&self, name: &str) -> f64 {
        self.field(name).as_f64().expect(name)
    }

    fn count(&self, name: &str) -> u64 {
        self.field(name).as_u64().expect(name)
    }

    fn reals(&self, name: &str) -> Vec<f64> {
        let list = self.field(name).as_array().expect(name);
        list.iter().map(|v| v.as_f64().expect(name)).collect()
    }

    fn field_reals(&self, name: &str, inner: &str) -> Vec<f64> {
        let list = self.field(name)[inner].as_array().expect(inner);
        list.iter().map(|v| v.as_f64().expect(inner)).collect()
    }

    fn counts(&self, name: &str) -> Vec<u32> {
        let list = self.field(name).as_array().expect(name);
        let count = |v: &Value| u32::try_from(v.as_u64().expect(name)).expect(name);
        list.iter().map(count).collect()
    }

    fn tolerance(&self, name: &str) -> f64 {
        self.tolerance[name].as_f64().expect("a stated tolerance")
    }

    #[track_caller]
    fn close(&self, what: &str, got: f64, expected: f64) {
        self.close_to(what, got, expected, self.tolerance("relative"));
    }

    #[track_caller]
    fn close_to(&self, what: &str, got: f64, expected: f64, relative: f64) {
        assert!(
            (got - expected).abs() <= relative * expected.abs(),
            "{}: {what} is {got}, not {expected}",
            self.id()
        );
    }

    /// Compares with a number, or with null for `None`.
    #[track_caller]
    fn close_or_none(&self, what: &str, got: Option<f64>) {
        match (got, self.field(what).as_f64()) {
            (Some(got), Some(expected)) => self.close(what, got, expected),
            (got, expected) => assert_eq!(got, expected, "{}: {what}", self.id()),
        }
    }
}

#[test]
fn every_value_of_the_golden_file_is_reproduced() {
    let files = GOLDEN.map(|text| serde_json::from_str::<Value>(text).expect("valid JSON"));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for golden in &files {
        for value in golden["cases"].as_array().expect("a list of cases") {
            let kind = value["kind"].as_str().expect("a kind");
            *seen.entry(kind).or_default() += 1;
            match IMPLEMENTED.iter().find(|(name, _)| *name == kind) {
                Some((_, check)) => check(&Case {
                    value,
                    tolerance: &golden["tolerance"],
                }),
                None => panic!("unknown kind `{kind}`"),
            }
        }
    }
    for (kind, _) in IMPLEMENTED {
        assert!(seen.contains_key(kind), "no case of kind `{kind}`");
    }
}

fn interval(case: &Case) {
    let (k, n, alpha) = (case.count("k"), case.count("n"), case.real("alpha"));
    let tolerance = case.tolerance(if n >= 10_000 {
        "interval_n_over_10000"
    } else {
        "relative"
    });
    for (name, interval) in [
        ("clopper_pearson", stats::clopper_pearson(k, n, alpha)),
        (
            "conf_sequence_half_half",
            stats::confidence_sequence(k, n, alpha),
        ),
    ] {
        let expected = case.reals(name);
        case.close_to(name, interval.lo, expected[0], tolerance);
        case.close_to(name, interval.hi, expected[1], tolerance);
    }
    for (name, got) in [
        ("cp_upper_one_sided", stats::upper_one_sided(k, n, alpha)),
        ("cp_lower_one_sided", stats::lower_one_sided(k, n, alpha)),
    ] {
        case.close_to(name, got, case.real(name), tolerance);
    }
}

fn clean_runs_flat(case: &Case) {
    let p = case.real("p");
    for (alpha, name) in [(0.05, "n95"), (0.01, "n99")] {
        let expected = Some(case.count(name));
        let got = stats::clean_runs_at_known_rate(p, alpha);
        assert_eq!(got, expected, "{}: {name}", case.id());
        let got = stats::runs_to_see_one(p, 1.0 - alpha);
        assert_eq!(got, expected, "{}: {name}", case.id());
    }
    case.close("rule_of_three_n", 3.0 / p, case.real("rule_of_three_n"));
}

fn confirm_fixed(case: &Case) {
    let (k0, n0, alpha) = (case.count("k0"), case.count("n0"), case.real("alpha"));
    let needed = case.count("clean_runs_needed");
    let expected = if MISSED_TIES.contains(&case.id()) {
        let tie = needed - 1;
        let product = |from: u64| (0..k0).map(|i| u128::from(from - i)).product::<u128>();
        assert_eq!(20 * product(n0), product(n0 + tie), "{}: no tie", case.id());
        assert!((alpha - 0.05).abs() < 1e-15, "{}", case.id());
        tie
    } else {
        needed
    };
    assert_eq!(
        stats::clean_runs_needed(k0, n0, alpha),
        Some(expected),
        "{}",
        case.id()
    );
    assert_eq!(
        stats::clean_runs_needed(k0, n0, 0.01),
        Some(case.count("clean_runs_needed_01")),
        "{}",
        case.id()
    );
    case.close(
        "p_value_at_needed",
        stats::unchanged_p_value_effective(k0, n0, needed, 1.0),
        case.real("p_value_at_needed"),
    );
    // The flat rule treats the measured rate as known; if every run failed it needs 1 run.
    let rate = case.real("k0") / case.real("n0");
    assert_eq!(
        stats::clean_runs_at_known_rate(rate, alpha),
        Some(case.count("flat_rate_answer")),
        "{}",
        case.id()
    );
}

fn confirm_p_value(case: &Case) {
    let (k0, n0, m) = (case.count("k0"), case.count("n0"), case.count("clean_runs"));
    let p_value = stats::unchanged_p_value_effective(k0, n0, m, 1.0);
    case.close("p_value", p_value, case.real("p_value"));
    let fixed = case.field("decision") == "fixed";
    assert_eq!(p_value <= 0.05, fixed, "{}: decision", case.id());
}

fn overdispersion(case: &Case) {
    let batches: stats::Batches = case
        .counts("runs")
        .into_iter()
        .zip(case.counts("failures"))
        .collect();
    let dependence = batches
        .measure_dependence()
        .expect("two batches and two outcomes");
    assert_eq!(dependence.method, stats::Method::Exact, "{}", case.id());
    case.close("statistic", dependence.statistic, case.real("statistic"));
    case.close("exact_p", dependence.p_value, case.real("exact_p"));
    case.close_or_none("icc", dependence.icc);
}

/// Tests clumps: all placements of the failures are enumerated; the p-value of the gaps comes from random placements.
fn clumps(case: &Case) {
    let places: Vec<u64> = case.reals("places").into_iter().map(stats::whole).collect();
    let ended = case.field("ended_by_failure") == true;
    let found = stats::find_clumps(&places, case.count("trials"), ended).expect("three failures");
    assert_eq!(found.clumps, case.count("clumps"), "{}", case.id());
    case.close(
        "design_effect",
        found.design_effect,
        case.real("design_effect"),
    );
    let exact = case.real("exact_p");
    let error = 3.0 * exact * (1.0_f64 / 50.0).sqrt() + 0.001;
    assert!(
        (found.p_value - exact).abs() <= error,
        "{}: {found:?}",
        case.id()
    );
    if ended {
        let span = stats::span_p_value(&places);
        case.close("exact_span_p", span, case.real("exact_span_p"));
    }
}

fn mtbf_exponential(case: &Case) {
    let seen = stats::mtbf(case.count("failures"), case.real("total_time"), 0.05);
    case.close_or_none("mtbf", seen.estimate);
    case.close("ci95_low", seen.low, case.real("ci95_low"));
    case.close_or_none("ci95_high", seen.high);
    case.close(
        "one_sided_95_low",
        seen.low_one_sided,
        case.real("one_sided_95_low"),
    );
}

fn laplace_trend(case: &Case) {
    let times = case.reals("times");
    let k = u64::try_from(times.len()).expect("a short list");
    let mean = times.iter().sum::<f64>() / f64::from(u32::try_from(k).expect("a short list"));
    let trend = stats::laplace_trend(k, mean, case.real("horizon")).expect("failures");
    case.close("u", trend.u, case.real("u"));
    case.close("p_two_sided", trend.p_value, case.real("p_two_sided"));
}

/// Compares with `scipy.stats.kendalltau` (`s`, `sigma`, `p_exact`) and `scipy.stats.theilslopes`; `p_greater` is the
/// same normal approximation with the continuity correction that scipy leaves out.
fn growth(case: &Case) {
    let (x, y) = (case.reals("x"), case.reals("y"));
    let test = stats::mann_kendall(&y);
    case.close("s", test.s, case.real("s"));
    case.close("sigma", test.sigma, case.real("sigma"));
    case.close("p_greater", test.p_greater(), case.real("p_greater"));
    if let Some(exact) = case.field("p_exact").as_f64() {
        let off = (test.p_greater() - exact).abs();
        assert!(off < 0.01, "{}: the normal law is off by {off}", case.id());
    }
    let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
    let slope = stats::theil_sen_slope(&points, test.sigma, 0.05).expect("several points");
    case.close("slope", slope.middle, case.real("slope"));
    case.close("low", slope.low, case.real("low"));
    case.close("high", slope.high, case.real("high"));
}

fn runs_per_failure(case: &Case) {
    let (k, n) = (case.count("k"), case.count("n"));
    let interval = stats::clopper_pearson(k, n, 0.05);
    let rate = case.real("k") / case.real("n");
    case.close_or_none("runs_per_failure", (k > 0).then(|| rate.recip()));
    case.close("low", interval.hi.recip(), case.real("low"));
    case.close_or_none("high", (k > 0).then(|| interval.lo.recip()));
    assert_eq!(
        stats::runs_to_see_one(rate, 0.95),
        Some(case.count("runs_to_see_one_95")),
        "{}",
        case.id()
    );
}

fn sprt_exact(case: &Case) {
    if NOT_BUILT.contains(&case.id()) {
        assert!(case.real("p1") > 0.0, "{}: is built", case.id());
        return;
    }
    assert!(case.real("p1") <= 0.0, "{}: is not built", case.id());
    let (p0, rate) = (case.real("p0"), case.real("true_rate"));
    let needed = stats::clean_runs_at_known_rate(p0, case.real("alpha")).expect("a rate above 0");
    case.close(
        "prob_accept_fixed",
        1.0 - stats::chance_to_see(rate, needed),
        case.real("prob_accept_fixed"),
    );
    case.close(
        "mean_runs",
        stats::confirm_mean_runs(rate, needed),
        case.real("mean_runs"),
    );
}

fn eprocess(case: &Case) {
    let mut process = stats::EProcess::new();
    let mut told = None;
    for (a, b) in case.counts("a").into_iter().zip(case.counts("b")) {
        process.push_a(a == 1);
        process.push_b(b == 1);
        if told.is_none() && process.ln_e_max() >= -0.05_f64.ln() {
            told = Some(process.pair_count());
        }
    }
    case.close("log_e_final", process.ln_e(), case.real("log_e_final"));
    case.close("log_e_max", process.ln_e_max(), case.real("log_e_max"));
    let expected = case.field("first_pair_reject_05").as_u64();
    assert_eq!(told, expected, "{}: first_pair_reject_05", case.id());
}

fn fisher(case: &Case) {
    let table = case.field("table");
    let cell = |row: usize, column: usize| table[row][column].as_u64().expect("a count");
    let runs = |row: usize| cell(row, 0) + cell(row, 1);
    let test = stats::fisher(cell(0, 0), runs(0), cell(1, 0), runs(1));
    case.close("p_two_sided", test.two_sided, case.real("p_two_sided"));
    case.close("p_greater", test.greater, case.real("p_greater"));
}

fn host_permutation(case: &Case) {
    let hosts = case.field("hosts").as_array().expect("hosts").iter();
    let hosts: Vec<HostTrials> = hosts
        .map(|host| HostTrials {
            failures: host[0].as_u64().expect("a count"),
            trials: host[1].as_u64().expect("a count"),
            has_property: host[2] == 1,
        })
        .collect();
    case.close("p", stats::property_p_value(&hosts), case.real("p"));
}

/// Returns a model without the hypotheses "bad at the good end" and "none is bad", which the cases do not have.
fn model(clean: bool) -> SearchPrior {
    SearchPrior {
        clean,
        already_bad: 0.0,
        none: 0.0,
    }
}

fn default_grid(case: &Case) {
    let grid = Grid::new(&model(false));
    let cells = grid.cells();
    assert_eq!(cells.len() as u64, case.count("cells"));
    let mut rates: Vec<f64> = cells.iter().map(|cell| cell.p).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let (first, last) = (case.reals("p_first_nodes"), case.reals("p_last_nodes"));
    for (got, expected) in rates.iter().zip(first) {
        case.close("p_first_nodes", *got, expected);
    }
    for (got, expected) in rates[rates.len() - last.len()..].iter().zip(last) {
        case.close("p_last_nodes", *got, expected);
    }
    let mean = |of: fn(&Cell) -> f64| cells.iter().map(|cell| cell.weight * of(cell)).sum();
    case.close("sum_w", mean(|_| 1.0), case.real("sum_w"));
    case.close(
        "prior_mean_p",
        mean(|cell| cell.p),
        case.real("prior_mean_p"),
    );
    case.close(
        "prior_mean_q",
        mean(|cell| cell.q),
        case.real("prior_mean_q"),
    );
    let without = mean(|cell| if cell.q > 0.0 { 0.0 } else { 1.0 });
    case.close("prior_prob_q0", without, case.real("prior_prob_q0"));
}

fn bisect_posterior(case: &Case) {
    let n = usize::try_from(case.count("n")).expect("a small number");
    let weights = case.field("prior").as_array().map(|_| case.reals("prior"));
    let clean = case.real("w_q0") >= 1.0;
    let mut search = Bisection::new(n, &model(clean), weights.as_deref());
    search.observe_many(
        n,
        case.count("baseline_failures"),
        case.count("baseline_runs"),
    );
    for pair in case.field("observations").as_array().expect("a list") {
        let version = usize::try_from(pair[0].as_u64().expect("a version")).expect("small");
        search.observe_run(version, pair[1] == 1);
    }
    let posterior = search.posterior_masses();
    assert_eq!(posterior.len(), n + 2);
    for (c, expected) in case.reals("posterior").into_iter().enumerate() {
        case.close_to("posterior", posterior[c + 1], expected, 1e-8);
    }
    let gains = [
        (0, case.reals("info_gain_nats")),
        (2, case.field_reals("ig_m", "4")),
        (5, case.field_reals("ig_m", "32")),
    ];
    for (block, expected) in gains {
        for (version, expected) in expected.into_iter().enumerate() {
            let got = search.information_gain(version, block);
            assert!(
                (got - expected).abs() < 1e-9,
                "{}: {got}, not {expected}",
                case.id()
            );
        }
    }
    let stop = StopConditions::at_delta(0.05);
    let likeliest = search.likeliest_group();
    assert_eq!(
        likeliest.first as u64,
        case.count("map_culprit"),
        "{}",
        case.id()
    );
    assert_eq!(
        likeliest.mass >= 0.95,
        case.field("stop_at_95") == true,
        "{}",
        case.id()
    );
    case.close("mean_p", search.rate_range(0.05).0, case.real("mean_p"));
    case.close("prob_q0", search.no_background(), case.real("prob_q0"));
    if likeliest.mass < 0.95 {
        // The best single run is the best query if a block is never cheaper than its runs.
        let best = (0..=n).fold(0, |best, version| {
            let more =
                search.information_gain(version, 0) - search.information_gain(best, 0) > 1e-9;
            if more { version } else { best }
        });
        assert_eq!(best as u64, case.count("argmax_position"), "{}", case.id());
        let query = search
            .choose_query(&stop, &Costs::RUNS)
            .expect("an open search");
        let index = query.block.trailing_zeros() as usize;
        assert!((search.information_gain(query.version, index) - query.gain).abs() < 1e-12);
        for version in 0..=n {
            for block in 0..9 {
                let gain = search.information_gain(version, block) / f64::from(1_u32 << block);
                let best = query.gain / f64::from(1_u32 << index);
                assert!(
                    gain <= best * (1.0 + 1e-6),
                    "{}: {version}, {block}",
                    case.id()
                );
            }
        }
    }
}

/// Compares the posterior with features with the posterior without them times the factor of each culprit.
fn failure_features(case: &Case) {
    let n = usize::try_from(case.count("n")).expect("a small number");
    let mut plain = Bisection::new(n, &model(false), None);
    let mut search = plain.clone();
    for failure in case.field("failures").as_array().expect("a list") {
        let number = |at: usize| failure[at].as_u64().and_then(|n| usize::try_from(n).ok());
        let version = number(0).expect("a version");
        let features = Features {
            signature: number(1),
            time: number(2),
        };
        plain.observe_run(version, true);
        search.observe_with_features(version, true, features);
    }
    let (plain, posterior) = (plain.posterior_masses(), search.posterior_masses());
    let products: Vec<f64> = case
        .reals("factors")
        .iter()
        .zip(plain)
        .map(|(factor, mass)| factor * mass)
        .collect();
    let total: f64 = products.iter().sum();
    assert_eq!(posterior.len(), products.len());
    for (mass, product) in posterior.into_iter().zip(products) {
        case.close_to("posterior", mass, product / total, 1e-9);
    }
}

fn reduce_stage_prior(case: &Case) {
    let remaining = usize::try_from(case.count("remaining")).expect("a small number");
    let prior = stage_prior(remaining, case.field("first") == true);
    let expected = case.reals("prior");
    assert_eq!(prior.len(), expected.len(), "{}", case.id());
    for (got, expected) in prior.into_iter().zip(expected) {
        case.close("prior", got, expected);
    }
}

fn capacity(case: &Case) {
    let channel = Channel {
        p: case.real("p"),
        q: case.real("q"),
    };
    let printed = 1e-5; // the file has six digits, and eight of the capacity
    let (expected, got) = (case.real("bits_per_run"), channel.bits_per_run());
    case.close_to("bits_per_run", got, expected, 1e-7);
    let (expected, got) = (
        case.real("lb_info_n64"),
        channel.least_runs_to_find(64, 0.05),
    );
    case.close_to("lb_info_n64", got, expected, printed);
    let (expected, got) = (case.real("lb_conf"), channel.least_runs_to_be_sure(0.05));
    case.close_to("lb_conf", got, expected, printed);
}

fn ramp_posterior(case: &Case) {
    let least: f64 = case.real("pmin");
    let mut ramp = Ramp::new(&case.counts("levels"), least / 0.8);
    for pair in case
        .field("observations_level_index_from_0")
        .as_array()
        .expect("a list")
    {
        let level = usize::try_from(pair[0].as_u64().expect("a level")).expect("small");
        ramp.observe_life(level, pair[1] == 1);
    }
    let got = ramp.level_posterior();
    let expected = case.reals("posterior_threshold_index_then_never");
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.into_iter().zip(expected) {
        case.close_to("posterior", got, expected, 1e-9);
    }
}

/// Returns a list of numbers of cases or trials.
fn indices(value: &Value) -> Vec<u32> {
    let list = value.as_array().expect("a list").iter();
    let index = |value: &Value| u32::try_from(value.as_u64().expect("an index")).expect("small");
    list.map(index).collect()
}

/// Returns `[failures, trials]`.
fn case_counts(value: &Value) -> CaseCounts {
    CaseCounts {
        failures: value[0].as_u64().expect("failures"),
        trials: value[1].as_u64().expect("trials"),
    }
}

fn intervals_of_selected_cases(case: &Case) {
    let counts = case.field("counts").as_array().expect("counts").iter();
    let counts: Vec<CaseCounts> = counts.map(case_counts).collect();
    let tested = counts.iter().filter(|counts| counts.trials > 0).count() as u64;
    let alpha = selected_alpha(case.real("alpha"), tested);
    case.close("selected_alpha", alpha, case.real("selected_alpha"));
    let expected = case.field("intervals").as_array().expect("intervals");
    assert_eq!(counts.len(), expected.len(), "{}", case.id());
    for (counts, expected) in counts.iter().zip(expected) {
        assert_eq!(counts.trials == 0, expected.is_null(), "{}", case.id());
        if counts.trials > 0 {
            let interval = stats::clopper_pearson(counts.failures, counts.trials, alpha);
            case.close("lo", interval.lo, expected[0].as_f64().expect("lo"));
            case.close("hi", interval.hi, expected[1].as_f64().expect("hi"));
        }
    }
}

fn runs_that_show_every_case(case: &Case) {
    let runs = runs_to_see_every(
        case.count("tests"),
        case.real("rate"),
        case.real("confidence"),
    );
    assert_eq!(runs, Some(case.count("runs")), "{}", case.id());
}

fn corrected_p_values(case: &Case) {
    let corrected = benjamini_hochberg(&case.reals("p"));
    let expected = case.reals("q");
    assert_eq!(corrected.len(), expected.len());
    for (corrected, expected) in corrected.into_iter().zip(expected) {
        case.close("q", corrected, expected);
    }
}

fn order_dependence(case: &Case) {
    let mut table = OrderTable::new();
    for trial in case.field("trials").as_array().expect("trials") {
        let processes = trial["processes"].as_array().expect("processes").iter();
        let processes: Vec<Vec<u32>> = processes.map(indices).collect();
        let processes: Vec<&[u32]> = processes.iter().map(Vec::as_slice).collect();
        table.add_trial(
            &processes,
            &indices(&trial["failed"]),
            &indices(&trial["uncounted"]),
        );
    }
    let findings = table.find_dependences(&indices(case.field("victims")), case.real("alpha"));
    let expected = case.field("findings").as_array().expect("findings");
    assert_eq!(findings.len(), expected.len(), "{}", case.id());
    for (found, expected) in findings.iter().zip(expected) {
        let real = |name: &str| expected[name].as_f64().expect("a number");
        assert_eq!(found.victim, expected["victim"], "{}", case.id());
        case.close("corrected_p", found.corrected_p_value, real("corrected_p"));
        if let Some(p_value) = expected["place_corrected_p"].as_f64() {
            let place = found.place.expect("an effect of the place");
            case.close("place_corrected_p", place.corrected_p_value, p_value);
        }
        // Further findings about a victim depend on the first.
        let Some(finding) = found.dependences.first() else {
            assert!(expected["other"].is_null(), "{}", case.id());
            continue;
        };
        let relation = match finding.relation {
            OrderRelation::FailsAfter => "after",
            OrderRelation::FailsWithout => "without",
        };
        assert_eq!(relation, expected["relation"], "{}", case.id());
        assert_eq!(finding.other, expected["other"], "{}", case.id());
        assert_eq!(finding.after, case_counts(&expected["after"]));
        assert_eq!(finding.not_after, case_counts(&expected["not_after"]));
        case.close("p", finding.p_value, real("p"));
        case.close(
            "pair_corrected_p",
            finding.corrected_p_value,
            real("pair_corrected_p"),
        );
    }
}

fn failure_clusters(case: &Case) {
    let mut sets = FailureSets::new();
    for trial in case.field("trials").as_array().expect("trials") {
        sets.add_trial(&indices(&trial["counted"]), &indices(&trial["failed"]));
    }
    let clusters = sets.find_clusters(case.real("q"));
    let expected = case.field("clusters").as_array().expect("clusters");
    assert_eq!(clusters.len(), expected.len(), "{}", case.id());
    for (cluster, expected) in clusters.iter().zip(expected) {
        assert_eq!(cluster.cases, indices(&expected["cases"]), "{}", case.id());
        assert_eq!(
            cluster.trials,
            indices(&expected["trials"]),
            "{}",
            case.id()
        );
        let real = |name: &str| expected[name].as_f64().expect("a number");
        case.close("phi", cluster.smallest_phi, real("smallest_phi"));
        case.close("q", cluster.largest_q_value, real("largest_q"));
    }
}
