//! Measures the error and the power of screens for conditions under which a program fails.
//!
//! `cargo bench -p provoke-stats --bench conditions -- [screens] [only]`, where `only` keeps the rows with this text.
#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(clippy::cast_precision_loss, reason = "small counts")]

#[path = "../tests/calibration/simulated_screen.rs"]
mod simulated_screen;

use simulated_screen::World;

/// The number of conditions.
const COUNT: usize = 25;

/// Failure rates of plain trials without an effect.
const HARMLESS: [f64; 8] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 0.9, 1.0];

/// Failure rates of plain trials, and under the one condition with an effect.
const EFFECTS: [(f64, f64); 16] = [
    (0.0, 1.0),
    (0.0, 0.5),
    (0.0, 0.3),
    (0.0, 0.1),
    (0.01, 0.3),
    (0.2, 0.5),
    (0.2, 0.6),
    (0.2, 0.95),
    (0.2, 0.0),
    (0.5, 0.8),
    (0.5, 0.2),
    (0.5, 0.0),
    (0.6, 0.9),
    (0.9, 0.6),
    (0.9, 0.0),
    (1.0, 0.0),
];

fn main() {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let screens = arguments.first().map_or(2000, |screens| {
        screens.parse().expect("a number of screens")
    });
    let only = arguments.get(1).map_or("", String::as_str);
    print_table(screens, only);
}

fn print_table(screens: u64, only: &str) {
    println!(
        "| program | wrong | all found | seeds claimed | median trials of first claim | claim by 80 | by 150 | median trials | tests |"
    );
    let show = |name: &str, world: &World| {
        if name.contains(only) {
            show_row(name, world, screens);
        }
    };
    for base in HARMLESS {
        let world = World::harmless(base, COUNT);
        show(&format!("harmless, {base}"), &world);
        show(
            &format!("harmless, {base}, with seeds"),
            &world.with_seeds(),
        );
    }
    for (from, to) in [(0.1, 0.6), (0.6, 0.1), (0.0, 0.5), (1.0, 0.5)] {
        let world = World {
            base: [from, to],
            ..World::harmless(from, COUNT).with_seeds()
        };
        show(&format!("harmless, {from} and {to} in turn"), &world);
    }
    let several = |parallel| World {
        parallel,
        inconclusive: 0.1,
        ..World::harmless(0.5, COUNT)
    };
    for parallel in [2, 4] {
        let name = format!("harmless, 0.5, {parallel} in parallel, 10 % inconclusive");
        show(&name, &several(parallel));
    }
    for (base, rate) in [(0.0, 1.0), (0.0, 0.5), (0.2, 0.8)] {
        let world = World::harmless(base, COUNT).with_raising_sham(rate);
        show(&format!("sham, {base} to {rate}"), &world);
    }
    for (base, rate) in EFFECTS {
        let world = World::harmless(base, COUNT).with_effects(&[(7, rate)]);
        show(&format!("{base} to {rate}"), &world);
    }
    let three = [(3, 1.0), (9, 1.0), (20, 1.0)];
    let world = World::harmless(0.0, COUNT).with_effects(&three);
    show("three always", &world);
    let world = World::harmless(0.0, COUNT).with_effects(&[&three[..], &[(15, 0.4)]].concat());
    show("three always, one 0.4", &world);
    let world = World::harmless(0.0, 2 * COUNT).with_effects(&[(47, 1.0)]);
    show("0 to 1, 50 conditions", &world);
    let world = World::harmless(0.2, 2 * COUNT).with_effects(&[(47, 0.6)]);
    show("0.2 to 0.6, 50 conditions", &world);
    for (base, failing) in [
        (0.2, 6),
        (0.5, 6),
        (0.08, 1),
        (0.14, 1),
        (0.17, 2),
        (0.25, 3),
        (0.92, 11),
    ] {
        let world = World {
            failing_seeds: Some(failing),
            ..World::harmless(base, COUNT).with_seeds()
        };
        show(&format!("{base}, {failing} of 12 seeds fail"), &world);
    }
}

fn show_row(name: &str, world: &World, screens: u64) {
    let (mut wrong, mut found, mut seeds, mut tests) = (0, 0, 0, 0);
    let (mut trials, mut first_claims) = (Vec::new(), Vec::new());
    for seed in 0..screens {
        let ended = world.run_screen(seed, 300);
        wrong += u64::from(ended.is_wrong);
        found += u64::from(ended.found >= world.effects.len().max(1));
        seeds += u64::from(ended.seed_claim.is_some());
        tests += ended.screen.pair_tests().len() as u64;
        trials.push(ended.trials);
        first_claims.extend(ended.first_claim.or(ended.seed_claim));
    }
    let share = |count: u64| count as f64 / screens as f64;
    let by = |limit: u64| {
        let claims = first_claims.iter().filter(|claim| **claim <= limit);
        share(claims.count() as u64)
    };
    let (by_80, by_150) = (by(80), by(150));
    println!(
        "| {name} | {:.3} | {:.2} | {:.2} | {} | {by_80:.2} | {by_150:.2} | {} | {:.1} |",
        share(wrong),
        share(found),
        share(seeds),
        median(&mut first_claims).map_or("-".to_owned(), |median| median.to_string()),
        median(&mut trials).unwrap_or(0),
        share(tests),
    );
}

fn median(counts: &mut [u64]) -> Option<u64> {
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied()
}
