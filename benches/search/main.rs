//! Measures the cost and the error rate of searches and comparisons.
//!
//! `cargo bench --bench search -- <table> [trials] [only]`, where the tables are named in `main`, and `only`
//! keeps the rows with these words.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small counts"
)]

mod bisect;
mod chance;
mod compare;
mod contradictions;
mod parallel;
mod priors;
mod raise;
mod ramp;
mod reduce;
mod reduce_rivals;
mod reduce_shipped;
mod rivals;
mod shipped;
#[path = "../common/simulated.rs"]
mod simulated;
mod timings;

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let table = arguments.first().map_or("targets", String::as_str);
    let trials = arguments
        .get(1)
        .map_or(1000, |trials| trials.parse().expect("a number of trials"));
    let only = arguments.get(2).map_or("", String::as_str);
    match table {
        "targets" => bisect::targets(trials, only),
        "rivals" => rivals::rivals(trials, only),
        "parallel" => parallel::rounds(trials),
        "priors" => priors::weights(trials),
        "stacks" => priors::stacks(trials),
        "raise" => raise::raised(trials, only),
        "ramp" => ramp::ramps(trials, only),
        "ramp-background" => ramp::backgrounds(trials, only),
        "compare" => compare::comparisons(trials, only),
        "shipped" => {
            shipped::shown(&shipped::CONSTANT, trials, only);
            shipped::shown(&shipped::VARYING, trials, only);
        }
        "features" => shipped::features(trials, only),
        "earlier" => shipped::after_earlier_runs(trials, only),
        "timings" => timings::timings(),
        "reduce" => reduce::targets(trials),
        "reduce-background" => reduce::background(trials),
        "reduce-untestable" => reduce::untestable(trials),
        "reduce-order" => reduce::order(trials),
        "reduce-shipped" => reduce_shipped::ordinary(trials),
        "reduce-graded" => reduce_shipped::graded(trials),
        "reduce-rivals" => reduce_rivals::rivals(trials, only),
        "contradictions" => contradictions::contradictions(trials),
        other => panic!("no table `{other}`"),
    }
}
