//! Section of the results of the trials.

use super::source::{PageDetail, PageSource};
use super::table::{document_table, page_section};
use crate::results_table::results_table;
use maud::Markup;
use provoke_questions::DescribedVariants;

/// Returns the number of trials by result.
pub(super) fn results_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let table = results_table(&source.report);
    let is_shown =
        source.report.described_variants() == DescribedVariants::Each && !table.is_empty();
    is_shown.then(|| page_section("results", "Results", &document_table(&table, detail.rows)))
}
