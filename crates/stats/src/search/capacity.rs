//! Calculates the minimum and the expected number of runs of a search.
//!
//! The information of a run about the culprit is at most the capacity of a channel that outputs "failed" with
//! probability p for a bad version and q for a good one. To find one of n versions takes at least the runs that this
//! capacity requires. To be certain of both versions next to the boundary takes further runs, as in a sequential test.

use super::super::convert::real;

/// A run at known rates, as an information channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// The rate at which bad versions fail.
    pub p: f64,
    /// The rate at which good ones fail.
    pub q: f64,
}

fn x_ln(x: f64, y: f64) -> f64 {
    if x > 0.0 { x * y.ln() } else { 0.0 }
}

/// Returns the entropy of a Bernoulli variable, in nats.
fn coin_entropy(x: f64) -> f64 {
    -x_ln(x, x) - x_ln(1.0 - x, 1.0 - x)
}

/// Returns the divergence of a Bernoulli variable of rate `a` from one of rate `b`, in nats.
fn coin_divergence(a: f64, b: f64) -> f64 {
    x_ln(a, a / b) + x_ln(1.0 - a, (1.0 - a) / (1.0 - b))
}

impl Channel {
    /// Returns the maximum information of a run, in bits.
    pub fn bits_per_run(&self) -> f64 {
        let noise = coin_entropy(self.p) - coin_entropy(self.q);
        let apart = self.p - self.q;
        let fails = 1.0 / (1.0 + (noise / apart).exp());
        let share = (fails - self.q) / apart;
        (coin_entropy(fails) - coin_entropy(self.q) - share * noise) / std::f64::consts::LN_2
    }

    /// Returns the lower bound of the mean number of runs that find one of `n` versions with error probability `delta`.
    pub fn least_runs_to_find(&self, n: u64, delta: f64) -> f64 {
        let bits = (1.0 - delta) * real(n).log2() - coin_entropy(delta) / std::f64::consts::LN_2;
        (bits / self.bits_per_run()).max(0.0)
    }

    /// Returns the lower bound of the mean number of runs that show the culprit to be bad and the version before it to
    /// be good.
    pub fn least_runs_to_be_sure(&self, delta: f64) -> f64 {
        let information = coin_divergence(delta, 1.0 - delta);
        let culprit = if self.q > 0.0 {
            information / coin_divergence(self.p, self.q)
        } else {
            (1.0 - 2.0 * delta) / self.p
        };
        information / coin_divergence(self.q, self.p) + culprit
    }
}

/// Returns the approximate number of runs of a search after a baseline of five failures.
///
/// The two bounds are weighted by results of simulations; the weights account for the rates being unknown.
pub fn bisect_runs(n: u64, channel: &Channel, clean: bool, delta: f64) -> f64 {
    let (find, sure) = if clean {
        (1.2, 0.35)
    } else if channel.p > 0.99 {
        (1.2, 0.8)
    } else {
        (1.5, 1.5)
    };
    find * channel.least_runs_to_find(n, delta) + sure * channel.least_runs_to_be_sure(delta)
}
