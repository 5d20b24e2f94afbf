//! Table of the levels of a load.

use super::{LoadLevelReport, RampAnswer};
use crate::answer::VariantSummary;
use provoke_model::LoadGoal;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, RateMark, Table};

impl RampAnswer {
    /// Returns the tested load levels. Neighbours without failures share a row.
    pub(super) fn level_table(&self, variants: &[VariantSummary], confidence: f64) -> Table {
        let has = |is_marked: fn(&LoadLevelReport) -> bool| self.levels.iter().any(is_marked);
        let failed = match self.find {
            LoadGoal::Death => "died",
            LoadGoal::Refusal => "failed",
        };
        let columns = vec![
            Column::numbers("clients"),
            Column::numbers("trials"),
            Column::numbers(failed),
            Column::numbers(format!("{confidence} %")),
            Column::numbers("refused"),
            Column::numbers("served before").leaving(1),
            Column::rates(),
            Column::remarks("signature"),
        ];
        let mut table = Table::new("Load levels", Place::Screen, columns);
        table.note = format!(
            "The failure rate at each number of clients. Hollow: no trial failed. Vertical line: the rate of {} % at which a level counts as failing.",
            words::format_percent(self.detect)
        );
        let tested: Vec<(&LoadLevelReport, &str)> = self
            .levels
            .iter()
            .zip(variants)
            .filter(|(level, _)| level.trials > 0 || level.untestable.is_some())
            .map(|(level, variant)| match &level.untestable {
                Some(reason) if variant.failures_text.is_empty() => (level, reason.as_str()),
                _ => (level, variant.failures_text.as_str()),
            })
            .collect();
        let is_plain = |(level, crashes): &(&LoadLevelReport, &str)| {
            level.failures == 0 && crashes.is_empty() && self.clean_to != Some(level.clients)
        };
        let shares_row = |a: &(&LoadLevelReport, &str), b: &(&LoadLevelReport, &str)| {
            is_plain(a) && is_plain(b) && self.refuses_load(a.0) == self.refuses_load(b.0)
        };
        let rows: Vec<&[(&LoadLevelReport, &str)]> = tested.chunk_by(shares_row).collect();
        let has_refusals = has(|level| level.refused > 0);
        // Levels that share a row have no interval.
        let has_limit =
            |row: &&[(&LoadLevelReport, &str)]| matches!(row, [(level, _)] if level.one_sided);
        let legend = [
            (
                rows.iter().any(has_limit),
                "at most: upper limit, because no trial failed",
            ),
            (has_refusals, "refused: share of the requests"),
            (
                has(|level| level.served_before_death.is_some()),
                "served before: responses before the death (min / median / max)",
            ),
        ];
        table.legend = legend
            .into_iter()
            .filter_map(|(is_shown, text)| is_shown.then_some(text))
            .collect();
        table.with_rows(rows.into_iter().map(|group| {
            let levels: Vec<&LoadLevelReport> = group.iter().map(|(level, _)| *level).collect();
            let rate = match levels.as_slice() {
                [level] => self.level_rate(level),
                _ => None,
            };
            let mut cells = level_cells(&levels, has_refusals);
            cells.extend([rate.map_or(Cell::Empty, Cell::Rate), Cell::text(group[0].1)]);
            cells
        }))
    }

    /// Returns the rate at a level; `None` if it was not tested.
    fn level_rate(&self, level: &LoadLevelReport) -> Option<RateMark> {
        let rate = RateMark::of_share(level.failures, level.trials, level.interval?);
        Some(RateMark {
            limit: Some(self.detect),
            ..rate
        })
    }

    /// Returns whether a level is one of those from which on the service refuses its load.
    fn refuses_load(&self, level: &LoadLevelReport) -> bool {
        let refusals = self.refusals.as_ref();
        refusals.is_some_and(|refusals| level.clients >= refusals.from.clients)
    }
}

/// Returns the cells of neighbouring load levels that share a row.
fn level_cells(levels: &[&LoadLevelReport], has_refusals: bool) -> Vec<Cell> {
    let [first, last] = [levels[0], levels[levels.len() - 1]];
    let clients = match levels.len() {
        1 => first.clients.to_string(),
        _ => format!("{} to {}", first.clients, last.clients),
    };
    let sum = |count: fn(&LoadLevelReport) -> u64| -> u64 {
        levels.iter().map(|level| count(level)).sum()
    };
    let (refused, requests) = (sum(|level| level.refused), sum(|level| level.requests));
    // A bound for all levels of a row together would be no bound for any of them.
    let interval = first.interval.filter(|_| levels.len() == 1);
    let rate = interval.map_or(String::new(), |ends| {
        if first.one_sided {
            format!("at most {} %", words::percent_bound(ends[1]))
        } else {
            words::format_interval(ends)
        }
    });
    let share = real(refused) / real(requests.max(1));
    let refused = has_refusals.then(|| format!("{} %", words::format_percent(share)));
    let served = first.served_before_death.as_ref();
    let served = served.map(|[min, median, max]| format!("{min} / {median} / {max}"));
    vec![
        Cell::text(clients),
        Cell::text(sum(|level| level.trials).to_string()),
        Cell::text(sum(|level| level.failures).to_string()),
        Cell::text(rate),
        Cell::text(refused.unwrap_or_default()),
        Cell::text(served.unwrap_or_default()),
    ]
}
