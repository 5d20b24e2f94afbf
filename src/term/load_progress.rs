//! Describes the load of the running trial for the live line.

use provoke_load::LoadProgress;
use provoke_model::LoadStage;
use provoke_stats::real;
use provoke_words as words;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum number of kinds of errors in the live line.
const ERRORS: usize = 3;

/// What the running trial does.
pub(super) enum TrialStatus {
    /// It waits until its service is ready.
    Waiting(String),
    /// Anything else.
    Working(String),
}

/// Describes the progress of the running trial.
pub(super) fn watch_progress(live: Arc<LoadProgress>) -> Box<dyn Fn() -> TrialStatus> {
    let last = Cell::new((Instant::now(), 0_u64, 0.0));
    Box::new(move || {
        let load_count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let stage = match live.current_stage() {
            LoadStage::Starting => {
                let wait = live.describe_wait().map(TrialStatus::Waiting);
                return wait.unwrap_or_else(|| TrialStatus::Working("starting".to_owned()));
            }
            LoadStage::WarmUp => "warm-up",
            LoadStage::Loading => "load",
            LoadStage::Settling | LoadStage::Over => {
                return TrialStatus::Working("quiet time".to_owned());
            }
        };
        let (last_time, last_served, rate) = last.get();
        let (now, served) = (Instant::now(), load_count(&live.served));
        let seconds = now.duration_since(last_time).as_secs_f64();
        // A rate over a shorter time fluctuates too much.
        let rate = if seconds > 0.5 {
            let rate = real(served.saturating_sub(last_served)) / seconds;
            last.set((now, served, rate));
            rate
        } else {
            rate
        };
        let latency = words::format_seconds(real(load_count(&live.latency_us)) / 1e6);
        TrialStatus::Working(format!(
            "{stage} {rate:.0}/s, {} in flight, {latency}, {} so far",
            load_count(&live.in_flight),
            describe_errors(&live.frequent_errors()),
        ))
    })
}

/// Time over which the throughput is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// Returns a function for the responses per second of the first service trial, once they are known.
pub(super) fn watch_rate(live: Arc<LoadProgress>) -> Box<dyn Fn() -> Option<f64>> {
    let began: Cell<Option<(Instant, u64)>> = Cell::new(None);
    Box::new(move || {
        if live.current_stage() != LoadStage::Loading {
            return None;
        }
        let served = live.served.load(Ordering::Relaxed);
        let Some((since, served_before)) = began.get() else {
            began.set(Some((Instant::now(), served)));
            return None;
        };
        let elapsed = since.elapsed();
        let measured = real(served.saturating_sub(served_before)) / elapsed.as_secs_f64();
        (elapsed >= MEASURED).then_some(measured)
    })
}

/// Lists the errors by kind, the most frequent first.
fn describe_errors(errors: &[(String, u64)]) -> String {
    let sum = errors.iter().map(|(_, count)| count).sum();
    let sum = words::format_count(sum, "error");
    if errors.is_empty() {
        return sum;
    }
    let mut shown_errors: Vec<String> = errors
        .iter()
        .take(ERRORS)
        .map(|(name, count)| format!("{count} {}", words::sanitize_line(name)))
        .collect();
    if errors.len() > ERRORS {
        shown_errors.push("others".to_owned());
    }
    format!("{sum} ({})", shown_errors.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_line_lists_the_most_frequent_errors() {
        let mut all: Vec<(String, u64)> =
            [("refused", 9), ("status 503", 4), ("timeout (head)", 1)]
                .map(|(name, n)| (name.to_owned(), n))
                .into();
        assert_eq!(describe_errors(&[]), "0 errors");
        assert_eq!(
            describe_errors(&all),
            "14 errors (9 refused, 4 status 503, 1 timeout (head))"
        );
        all.push(("TLS: \x1b[1m".to_owned(), 1));
        assert_eq!(
            describe_errors(&all),
            "15 errors (9 refused, 4 status 503, 1 timeout (head), others)"
        );
    }
}
