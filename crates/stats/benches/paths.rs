//! Measures the error, the power and the duration of comparisons of paths.
//!
//! `cargo bench -p provoke-stats --bench paths -- [searches] [only]`, where `only` keeps the rows with this text.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(clippy::cast_precision_loss, reason = "small counts")]

#[path = "../tests/calibration/simulated_paths.rs"]
mod simulated_paths;

use std::time::Instant;

use provoke_stats::paths::{Arrival, PathPoint, PathTrial, PointKind, compare_paths};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use simulated_paths::{PathWorld, WITH_CAUSE, WITHOUT_CAUSE};

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let searches = arguments.first().map_or(2000, |searches| {
        searches.parse().expect("a number of searches")
    });
    let only = arguments.get(1).map_or("", String::as_str);
    println!(
        "| program | lead | first statement is the cause | by first comparison | second | arming | lead in two stages |"
    );
    for world in WITHOUT_CAUSE.into_iter().chain(WITH_CAUSE) {
        if format!("{world:?}").contains(only) {
            show_row(world, searches);
        }
    }
    if "large".contains(only) {
        for threads in [1, 2, 24] {
            show_duration(threads);
        }
    }
}

fn show_row(world: PathWorld, searches: u64) {
    let (mut leads, mut right, mut early, mut second, mut arming) = (0, 0, 0, 0, 0);
    let mut staged = 0;
    for seed in 0..searches {
        let end = world.search(seed);
        if let Some(lead) = end.comparison.lead {
            leads += 1;
            early += u64::from(end.looks == 1);
            right += u64::from(world.is_cause(end.comparison.groups[lead].statements[0]));
        }
        second += u64::from(end.comparison.second.is_some());
        arming += u64::from(end.has_effect);
        staged += u64::from(world.search_in_stages(seed).0);
    }
    let [leads, right, early, second, arming, staged] =
        [leads, right, early, second, arming, staged]
            .map(|count: u64| count as f64 / searches as f64);
    println!(
        "| {world:?} | {leads:.3} | {right:.3} | {early:.3} | {second:.3} | {arming:.3} | {staged:.3} |"
    );
}

/// Shows how long a comparison of 100 trials with 30,000 arrivals at 10,000 points takes.
fn show_duration(threads: u32) {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let point_count = 10_000;
    let point = |number: u32| PathPoint {
        kind: if number % 10 == 0 {
            PointKind::Entry
        } else {
            PointKind::Block
        },
        function: number / 10,
        is_ignored: false,
    };
    let points: Vec<PathPoint> = (0..point_count).map(point).collect();
    let trials: Vec<PathTrial> = (0..100)
        .map(|number| {
            let mut positions: Vec<u32> = (0..threads).map(|thread| thread * 400).collect();
            let arrivals = (0..30_000).map(|_| {
                let thread = random.random_range(0..threads);
                let position = &mut positions[thread as usize];
                // One of ten points is skipped.
                *position = (*position + random.random_range(1..20) / 10 + 1) % point_count;
                Arrival {
                    thread,
                    point: *position,
                }
            });
            PathTrial {
                arrivals: arrivals.collect(),
                failed: number % 5 == 0,
                ends: Vec::new(),
                armed: None,
                block: number / 16,
            }
        })
        .collect();
    let begin = Instant::now();
    let comparison = compare_paths(&points, &trials, 0.05);
    println!(
        "{threads} threads: {:.1} s, {} tests, {} groups",
        begin.elapsed().as_secs_f64(),
        comparison.tests,
        comparison.groups.len()
    );
}
