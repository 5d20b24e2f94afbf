//! Shows how many trials the questions take, and how long.

use super::screen::Screen;
use crate::experiment::{AskedForecast, ForecastRow, TrialForecast};
use console::measure_text_width;
use provoke_report::wrap_text;
use provoke_stats::real;
use provoke_words as words;

/// From this number of trials on, a setting that raises the rate is suggested for a search.
const LONG_SEARCH: f64 = 150.0;

/// Shows a forecast. `source` says which run gave the rate, if it was not named.
pub fn format_forecast(
    forecast: &TrialForecast,
    asked: &AskedForecast,
    source: Option<&str>,
    width: Option<usize>,
) -> String {
    let mut screen = Screen::new(width);
    screen.push_text(0, &forecast.describe_basis());
    if let Some(source) = source {
        screen.push_text(2, source);
    }
    screen.push_gap();
    for line in format_rows(&forecast.rows(asked), asked, width) {
        screen.push_row(&line);
    }
    screen.push_gap();
    if let Some(rate) = forecast.uncertain_rate() {
        let rate = words::format_percent(rate);
        let hint = format!(
            "note: if you know that the rate is {rate} %, fewer are enough: --rate {rate}%"
        );
        screen.push_text(2, &hint);
    }
    if forecast.bisection_trials(asked.versions) >= LONG_SEARCH {
        let hint = "note: `bisect --raise-rate` first looks for a setting with more failures";
        screen.push_text(2, hint);
    }
    let confidence = forecast.confidence_percent();
    let assumptions = format!(
        "assumes: independent trials and a constant failure rate; {confidence} % confidence"
    );
    screen.push_text(2, &assumptions);
    screen.push_text(2, &describe_trial_time(asked));
    screen.into_text()
}

fn describe_trial_time(asked: &AskedForecast) -> String {
    let Some(seconds) = asked.trial_seconds else {
        return "add --time to see how long that takes".to_owned();
    };
    let seconds = words::format_seconds(seconds);
    match asked.jobs {
        1 => format!("a trial takes {seconds}"),
        jobs => format!("a trial takes {seconds}, also with {jobs} parallel trials"),
    }
}

/// Blanks between the columns of the table.
const GAP: usize = 3;
/// Minimum width of the column of questions.
const MIN_QUESTION: usize = 20;

/// Returns a table of the questions with a header; with times, if the duration of a trial is known. Questions are wrapped
/// if lines are too long.
fn format_rows(rows: &[ForecastRow], asked: &AskedForecast, width: Option<usize>) -> Vec<String> {
    let time_of = |trials: u64| {
        let seconds = real(trials.div_ceil(asked.jobs)) * asked.trial_seconds?;
        Some(words::format_seconds(seconds))
    };
    let time_head = asked.trial_seconds.map_or("", |_| "time");
    let header = ["", "trials", time_head].map(str::to_owned);
    let cells = rows.iter().map(|row| {
        let trials = match (row.trials, row.is_mean) {
            (None, _) => "impossible".to_owned(),
            (Some(trials), true) => format!("about {trials}"),
            (Some(trials), false) => trials.to_string(),
        };
        let time = row.trials.and_then(time_of).unwrap_or_default();
        [row.question.clone(), trials, time]
    });
    let table: Vec<[String; 3]> = std::iter::once(header).chain(cells).collect();
    let widest = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (trials_width, time_width) = (widest(1), widest(2));
    let room = width.map(|width| {
        let numbers = 2 + GAP + trials_width + GAP + time_width;
        width.saturating_sub(numbers).max(MIN_QUESTION)
    });
    let question_width = room.map_or(widest(0), |room| room.min(widest(0)));
    let lines = table.iter().flat_map(|[question, trials, time]| {
        let mut wrapped = wrap_text("", 2, question, Some(question_width), measure_text_width);
        wrapped[0] = format!(
            "{:question_width$}{:GAP$}{trials:>trials_width$}{:GAP$}{time:>time_width$}",
            wrapped[0], "", ""
        );
        wrapped.into_iter().map(|line| format!("  {line}"))
    });
    lines.collect()
}
