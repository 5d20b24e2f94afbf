//! Tests the positions and the shapes of marks.

use super::*;
use maud::Render as _;
use provoke_words::document::{PointShape, RateMark};

#[test]
fn an_axis_covers_every_interval() {
    let highest = [0.011, 0.02, 0.03, 0.1, 0.31, 0.6, 1.0];
    let last_ticks = highest.map(|high| *RateAxis::covering([[0.0, high]]).ticks().last().unwrap());
    let expected = [0.02, 0.02, 0.05, 0.1, 0.5, 1.0, 1.0];
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    assert!(last_ticks.iter().zip(&expected).all(near), "{last_ticks:?}");
}

#[test]
fn rates_below_one_per_cent_have_a_logarithmic_axis() {
    let axis = RateAxis::covering([[0.000_02, 0.007]]);
    assert!((axis.position(0.01) - 1.0).abs() < 1e-9);
    assert!((axis.position(0.001) - 2.0 / 3.0).abs() < 1e-9);
    assert!(axis.position(0.0) <= 0.0);
    let labels = axis.draw().into_string();
    for label in [">0.001 %<", ">1 %<"] {
        assert!(labels.contains(label), "{label}: {labels}");
    }
}

#[test]
fn a_whisker_without_failures_is_open() {
    let draw = |interval, point, shape| {
        let axis = RateAxis::covering([[0.0, 1.0]]);
        let rate = RateMark {
            shape,
            limit: Some(0.25),
            ..RateMark::new(0, 1, interval, point)
        };
        draw_rate(&rate, axis, "x").into_string()
    };
    let clean = draw([0.0, 0.5], None, PointShape::Hollow);
    assert!(
        clean.contains("range open") && clean.contains(r#"cx="0%""#),
        "{clean}"
    );
    assert_eq!(clean.matches("class=\"cap\"").count(), 1);
    let failing = draw([0.25, 0.75], Some(0.5), PointShape::Filled);
    assert!(
        failing.contains(r#"x1="25%" x2="75%""#) && failing.contains(r#"cx="50%""#),
        "{failing}"
    );
    assert_eq!(failing.matches("class=\"cap\"").count(), 2);
    assert!(failing.contains(r#"class="limit" x1="25%""#), "{failing}");
}

#[test]
fn a_cell_is_in_the_row_and_the_column_of_its_trial() {
    let mut cells = vec![0; 234];
    cells[233] = 1;
    let picture = draw_cells(&cells, &["pass", "k1"]).render().into_string();
    assert!(
        picture.contains(r#"class="k1" d="M33.1 23v9h.8v-9z""#),
        "{picture}"
    );
    for first in [">1<", ">101<", ">201<"] {
        assert!(picture.contains(first), "{first}");
    }
}

#[test]
fn a_distribution_rises_from_0_to_1() {
    let steps = [(0.01, 0.5), (0.1, 1.0)];
    let axis = TimeAxis::covering([0.01, 0.1]);
    let curve = EcdfCurve {
        class: "passes",
        label: "passed",
        label_share: 0.4,
        label_is_left: false,
        steps: &steps,
    };
    let picture = draw_ecdf(&[curve], &[], axis).render().into_string();
    assert!(picture.contains("M0 100H"), "{picture}");
    assert!(
        picture.contains("V50.0H") && picture.contains("V0.0H1000"),
        "{picture}"
    );
    for label in [">10 ms<", ">20 ms<", ">100 ms<"] {
        assert!(picture.contains(label), "{label}: {picture}");
    }
}
