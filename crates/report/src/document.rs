//! Returns what a report says, whichever question was asked.

use super::derive::summarize;
use super::{Report, VariantReport};
use provoke_questions::{Answer, AnswerText, DescribedVariants, RateMeaning, variant_rates};
use provoke_words::document::{Place, RateMark, Table};

impl Report {
    /// Returns what answers the question; `None` if only the rate was asked.
    pub fn answer_text(&self) -> Option<&dyn AnswerText> {
        match &self.max_rate {
            Some(check) => Some(check),
            None => self.answer.as_ref().map(Answer::text),
        }
    }

    /// Returns the tables that have their place here. If only the rate was asked, it is the table of rates.
    pub fn tables(&self, places: &[Place]) -> Vec<Table> {
        let tables = match &self.document {
            Some(document) => document.tables.clone(),
            None => vec![variant_rates(&summarize(&self.variants), None)],
        };
        let is_shown = |table: &Table| places.contains(&table.place) && !table.is_empty();
        tables.into_iter().filter(is_shown).collect()
    }

    /// Returns which variants are described besides the tables.
    pub fn described_variants(&self) -> DescribedVariants {
        let answer = self.answer_text();
        answer.map_or(DescribedVariants::Each, AnswerText::described_variants)
    }

    /// Returns the meaning of the failure rates of the variants.
    pub fn rate_meaning(&self) -> RateMeaning {
        let answer = self.answer_text();
        answer.map_or(RateMeaning::Measured, AnswerText::rate_meaning)
    }

    /// Returns the variants that lists show, in their order.
    pub fn listed_variants(&self) -> Vec<&VariantReport> {
        let answer = self.answer_text();
        match answer.and_then(|answer| answer.listed_variants(&summarize(&self.variants))) {
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
        let answer = self.answer_text()?;
        Some(answer.result(self.verdict, &summarize(&self.variants)))
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
