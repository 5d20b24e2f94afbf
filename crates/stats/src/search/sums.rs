//! Sums of many terms: from their logarithms, and in a form that the compiler can vectorize.

/// Returns the logarithm of a sum from the logarithms of its terms.
pub(super) fn ln_sum(terms: &[f64]) -> f64 {
    let max = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_finite() {
        max + terms
            .iter()
            .map(|term| (term - max).exp())
            .sum::<f64>()
            .ln()
    } else {
        max
    }
}

/// Returns the sum of some values, and their sums of products with two others, in four parts that the compiler can
/// vectorize.
pub(super) fn sums_of_products(values: &[f64], a: &[f64], b: &[f64]) -> [f64; 3] {
    let mut parts = [[0.0; 4]; 3];
    let mut add = |values: &[f64], a: &[f64], b: &[f64]| {
        for (i, ((value, a), b)) in values.iter().zip(a).zip(b).enumerate() {
            parts[0][i] += value;
            parts[1][i] += value * a;
            parts[2][i] += value * b;
        }
    };
    let (values, a, b) = (values.chunks_exact(4), a.chunks_exact(4), b.chunks_exact(4));
    add(values.remainder(), a.remainder(), b.remainder());
    for ((values, a), b) in values.zip(a).zip(b) {
        add(values, a, b);
    }
    parts.map(|parts| (parts[0] + parts[1]) + (parts[2] + parts[3]))
}

/// Returns the sum, in four parts.
pub(super) fn sum_in_parts(a: &[f64]) -> f64 {
    let mut parts = [0.0; 4];
    let a = a.chunks_exact(4);
    let rest: f64 = a.remainder().iter().sum();
    for a in a {
        for i in 0..4 {
            parts[i] += a[i];
        }
    }
    (parts[0] + parts[1]) + (parts[2] + parts[3]) + rest
}
