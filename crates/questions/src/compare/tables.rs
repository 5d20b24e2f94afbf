//! Tables of a comparison: its variants, the settings, the pairs, and the facts that differ.

use super::{CompareAnswer, VariantResult, VariantVerdict};
use crate::answer::VariantSummary;
use provoke_model::CompareGoal;
use provoke_words as words;
use provoke_words::document::{
    Cell, Column, FoldedRows, Place, PointShape, RateMark, Row, Table, Tone,
};

/// From this number on, variants that passed may share a row.
const MANY: usize = 4;

impl CompareAnswer {
    pub(super) fn variant_table(&self, variants: &[VariantSummary], confidence: f64) -> Table {
        let columns = vec![
            Column::words("variant"),
            Column::words("result"),
            Column::numbers("trials"),
            Column::numbers("failed"),
            Column::numbers("rate").leaving(4),
            Column::numbers(format!("{confidence} %")).leaving(5),
            Column::numbers("pass").leaving(1),
            Column::numbers("fail").leaving(2),
            Column::rates(),
            Column::remarks("signature").leaving(3),
        ];
        let mut table = Table::new("Variants", Place::Screen, columns);
        table.legend = vec!["pass, fail: median time of such a trial"];
        if self.find == CompareGoal::Failing {
            "Filled: it fails. Hollow: it passed often enough. Dash: not known."
                .clone_into(&mut table.note);
        }
        let results = || self.variants.iter().zip(variants);
        let has_passed = |(result, variant): &(&VariantResult, &VariantSummary)| {
            result.standing.has_passed() && variant.failures_text.is_empty()
        };
        let row = |(result, variant): (&VariantResult, &VariantSummary)| {
            self.variant_row(result, variant)
        };
        let passed: Vec<_> = results().filter(has_passed).collect();
        if passed.len() < MANY {
            return table.with_rows(results().map(row));
        }
        let others = results().filter(|pair| !has_passed(pair));
        let mut table = table.with_rows(others.map(row));
        table.folded = Some(FoldedRows {
            label: format!("{} variants without a failure", passed.len()),
            sum: self.sum_of_passed(&passed),
            rows: passed.into_iter().map(row).map(Row::Cells).collect(),
        });
        table
    }

    fn variant_row(&self, result: &VariantResult, variant: &VariantSummary) -> Vec<Cell> {
        let is_tested = variant.trials > 0;
        let failed_tone = if variant.failures > 0 {
            Tone::Bad
        } else {
            Tone::Plain
        };
        let rate = match variant.point {
            Some(point) => format!("{} %", words::percent_within(point, variant.interval)),
            None if variant.failures == 0 => String::new(),
            // The variant ended with its first failure, so the share of failures does not estimate the rate.
            None => "-".to_owned(),
        };
        let interval = if is_tested {
            words::format_interval(variant.interval)
        } else {
            String::new()
        };
        let [pass, failure] = variant
            .times
            .map(|time| Cell::text(time.map_or(String::new(), words::format_seconds)));
        let remark = match &result.why {
            Some(why) if variant.failures_text.is_empty() => why,
            _ => &variant.failures_text,
        };
        vec![
            Cell::text(&*variant.name),
            self.standing_cell(result.standing, variant.failures),
            Cell::text(variant.trials.to_string()),
            Cell::toned(variant.failures.to_string(), failed_tone),
            Cell::text(rate),
            Cell::text(interval),
            pass,
            failure,
            self.rate_cell(result, variant),
            Cell::text(&**remark),
        ]
    }

    /// Sums up variants that passed.
    fn sum_of_passed(&self, passed: &[(&VariantResult, &VariantSummary)]) -> Vec<Cell> {
        let trials = || passed.iter().map(|(_, variant)| variant.trials);
        let trials = match (trials().min(), trials().max()) {
            (Some(min), Some(max)) if min < max => format!("{min}-{max}"),
            (min, _) => min.unwrap_or(0).to_string(),
        };
        // The variant with the fewest trials has the widest interval.
        let widest = passed.iter().min_by_key(|(_, variant)| variant.trials);
        let (interval, rate) = widest.map_or((Cell::Empty, Cell::Empty), |(result, variant)| {
            let interval = Cell::text(words::format_interval(variant.interval));
            (interval, self.rate_cell(result, variant))
        });
        vec![
            Cell::text(format!("{} others", passed.len())),
            self.standing_cell(passed[0].0.standing, 0),
            Cell::text(trials),
            Cell::text("0 each"),
            Cell::Empty,
            interval,
            Cell::Empty,
            Cell::Empty,
            rate,
            Cell::Empty,
        ]
    }

    /// Returns the rate of a variant in the shape of its result.
    fn rate_cell(&self, result: &VariantResult, variant: &VariantSummary) -> Cell {
        if variant.trials == 0 {
            return Cell::Empty;
        }
        let rate = variant.rate_mark();
        let shape = match result.standing {
            VariantVerdict::Open | VariantVerdict::Untestable
                if self.find == CompareGoal::Failing =>
            {
                PointShape::Dash
            }
            standing if standing.has_passed() => PointShape::Hollow,
            _ => rate.shape,
        };
        let limit = self.floor;
        Cell::Rate(RateMark {
            shape,
            limit,
            ..rate
        })
    }

    fn standing_cell(&self, standing: VariantVerdict, failures: u64) -> Cell {
        match standing {
            VariantVerdict::Fails => Cell::toned("fails", Tone::Bad),
            VariantVerdict::FailsLess if failures == 0 => Cell::toned("no failure", Tone::Good),
            VariantVerdict::FailsLess => Cell::toned("fails less", Tone::Good),
            VariantVerdict::Clean => Cell::toned("clean", Tone::Good),
            VariantVerdict::Untestable => Cell::toned("not testable", Tone::Open),
            // In a comparison of rates, this was not the question.
            VariantVerdict::Open if self.find == CompareGoal::Different => Cell::Empty,
            VariantVerdict::Open => Cell::toned("not known", Tone::Faint),
        }
    }

    /// Returns the variants by setting.
    pub(super) fn factor_table(&self) -> Option<Table> {
        let columns = vec![
            Column::words("setting"),
            Column::words("value"),
            Column::numbers("variants"),
            Column::numbers("of them fail"),
            Column::numbers("trials"),
            Column::numbers("of them failed"),
        ];
        let rows = self.factors.iter().flat_map(|factor| {
            factor.levels.iter().map(|level| {
                let counts = [level.variants, level.failing, level.trials, level.failures];
                let names = [&factor.name, &level.level].map(|name| Cell::text(&**name));
                names
                    .into_iter()
                    .chain(counts.map(|count| Cell::text(count.to_string())))
                    .collect()
            })
        });
        (self.factors.len() > 1)
            .then(|| Table::new("By setting", Place::Details, columns).with_rows(rows))
    }

    /// Returns the comparisons of two variants each.
    pub(super) fn contrast_table(&self) -> Option<Table> {
        let columns = vec![
            Column::words("variant"),
            Column::words("compared with"),
            Column::numbers("pairs"),
            Column::numbers("fails more often by"),
            Column::numbers("evidence"),
            Column::words("result"),
        ];
        let rows = self.contrasts.iter().map(|contrast| {
            let [evidence, enough] = [contrast.evidence, contrast.enough].map(words::format_number);
            vec![
                Cell::text(&*contrast.other),
                Cell::text(&*contrast.reference),
                Cell::text(contrast.pairs.to_string()),
                Cell::text(contrast.describe_difference()),
                Cell::text(format!("{evidence} of {enough}")),
                Cell::text(
                    match (contrast.differs, contrast.evidence >= contrast.enough) {
                        (true, true) => "differs",
                        (true, false) => "differs after all planned trials",
                        (false, _) => "no difference found",
                    },
                ),
            ]
        });
        (!self.contrasts.is_empty())
            .then(|| Table::new("Compared in pairs", Place::Page, columns).with_rows(rows))
    }

    /// Returns the facts in which variants differ, besides those varied on purpose.
    pub(super) fn fact_table(&self) -> Option<Table> {
        let columns = vec![
            Column::words("fact"),
            Column::words("value"),
            Column::words("variants"),
        ];
        let rows = self.facts.iter().flat_map(|fact| {
            fact.variants_by_value()
                .into_iter()
                .map(|(value, variants)| {
                    let value = value.filter(|value| !value.is_empty()).unwrap_or("–");
                    vec![
                        Cell::text(&*fact.name),
                        Cell::text(value),
                        Cell::text(variants.join(", ")),
                    ]
                })
        });
        (!self.facts.is_empty()).then(|| {
            Table::new(
                "Facts in which the variants differ",
                Place::Details,
                columns,
            )
            .with_rows(rows)
        })
    }
}
