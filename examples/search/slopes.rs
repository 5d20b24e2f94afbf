//! Rates that differ between bad versions, and what helps.

use provoke::stats::search::Stop;

use super::bisect::{Setup, Truth, constant, report, setup};

type Shape = fn(f64) -> f64;

const SHAPES: [(&str, Shape); 5] = [
    ("constant", constant),
    ("linear from .3", |way| 0.3 + 0.7 * way),
    ("linear from .1", |way| 0.1 + 0.9 * way),
    (
        "step from .3 half way",
        |way| if way < 0.5 { 0.3 } else { 1.0 },
    ),
    (
        "step from .1 at the end",
        |way| if way < 0.9 { 0.1 } else { 1.0 },
    ),
];

/// Rates that differ between bad versions, and what helps.
pub(crate) fn slopes(trials: u64, clean: bool, n: usize, p: f64) {
    // With a background in the model a steeper rise than that is mistaken for one, for thousands of runs.
    let shapes = if clean { &SHAPES[..] } else { &SHAPES[..2] };
    for (name, guard, alpha) in [
        ("plain", 0, 0.05),
        ("guard 3 at .05", 3, 0.05),
        ("guard 3 at .025", 3, 0.025),
        ("guard 3 at .0125", 3, 0.0125),
    ] {
        for &(shape_name, shape) in shapes {
            let truth = Truth {
                n,
                p,
                q: 0.0,
                shape,
            };
            let mut setup = setup(clean, 0.0);
            setup.stop = Stop::at(0.05).with_guard(guard, alpha);
            report(
                &format!("{name:<22}{shape_name}"),
                &truth,
                &setup,
                trials,
                None,
            );
        }
    }
}

/// The guard where a background is possible.
pub(crate) fn guard(trials: u64) {
    for (name, stop) in [("plain", Stop::at(0.05)), ("guarded", Stop::guarded(0.05))] {
        for (shape_name, shape) in &SHAPES[..2] {
            for q in [0.0, 0.01] {
                let truth = Truth {
                    n: 64,
                    p: 0.5,
                    q,
                    shape: *shape,
                };
                let setup = Setup {
                    stop,
                    ..setup(false, 0.0)
                };
                report(
                    &format!("{name:<22}{shape_name}"),
                    &truth,
                    &setup,
                    trials,
                    None,
                );
            }
        }
    }
}
