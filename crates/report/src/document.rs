//! Returns what a report says, whichever question was asked.

use super::derive::summarize;
use super::{Report, VariantReport};
use provoke_questions::{Answer, DescribedVariants, RateMeaning, rate_table};
use provoke_words as words;
use provoke_words::document::{Document, Place, RateMark, Table};

impl Report {
    /// Returns the document of the answer, if there is one.
    pub fn document(&self) -> Option<&Document> {
        self.answer.as_ref().map(Answer::document)
    }

    /// Returns the tables that have their place here. If only the rate was asked, it is the table of rates.
    pub fn tables(&self, places: &[Place]) -> Vec<Table> {
        let tables = match self.document() {
            Some(document) => document.tables.clone(),
            None => vec![self.rates_table()],
        };
        let is_shown = |table: &Table| places.contains(&table.place) && !table.is_empty();
        tables.into_iter().filter(is_shown).collect()
    }

    fn rates_table(&self) -> Table {
        let limit = self.max_rate.as_ref().map(|check| check.allowed);
        let note = limit.map(|limit| {
            let limit = words::format_percent(limit);
            format!("Vertical line: the allowed rate of {limit} %.")
        });
        let table = rate_table(self.variants.iter().map(|variant| {
            (
                variant.name.clone(),
                RateMark {
                    limit,
                    ..variant.rate_mark()
                },
            )
        }));
        Table {
            note: note.unwrap_or_default(),
            ..table
        }
    }

    /// Returns which variants are described besides the tables.
    pub fn described_variants(&self) -> DescribedVariants {
        let answer = self.answer.as_ref();
        answer.map_or(DescribedVariants::Each, |answer| {
            answer.text().described_variants()
        })
    }

    /// Returns the meaning of the failure rates of the variants.
    pub fn rate_meaning(&self) -> RateMeaning {
        let answer = self.answer.as_ref();
        answer.map_or(RateMeaning::Measured, |answer| answer.text().rate_meaning())
    }

    /// Returns the variants that lists show, in their order.
    pub fn listed_variants(&self) -> Vec<&VariantReport> {
        let answer = self.answer.as_ref();
        match answer.and_then(|answer| answer.text().listed_variants(&summarize(&self.variants))) {
            Some(names) => {
                let find =
                    |name: &String| self.variants.iter().find(|variant| variant.name == *name);
                names.iter().filter_map(find).collect()
            }
            None => self.variants.iter().collect(),
        }
    }

    /// Returns the answer in a few words, for a list of runs; `None` if only the rate was asked.
    pub(super) fn result_of_answer(&self) -> Option<String> {
        let answer = self.answer.as_ref()?;
        Some(
            answer
                .text()
                .result(self.verdict, &summarize(&self.variants)),
        )
    }
}

impl VariantReport {
    /// Returns its failure rate for a picture.
    pub(super) fn rate_mark(&self) -> RateMark {
        RateMark::new(
            self.failures,
            self.trials,
            self.rate.interval(),
            self.rate.point,
        )
    }
}
