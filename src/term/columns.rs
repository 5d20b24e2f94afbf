//! Aligns the cells of a table in columns.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

/// Blanks between two columns.
const GAP: &str = "  ";

/// The columns of a table. A column of width 0 is left out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns<const N: usize> {
    pub(super) widths: [usize; N],
    /// Number of columns that are aligned left, which are the first ones.
    left_columns: usize,
}

impl<const N: usize> Columns<N> {
    /// Makes each column as wide as its widest cell. The first `left_columns` columns are aligned left, the others
    /// right.
    pub(super) fn fit_to<'a>(
        rows: impl Iterator<Item = &'a [String; N]>,
        left_columns: usize,
    ) -> Self {
        let mut widths = [0; N];
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = measure_text_width(cell).max(*width);
            }
        }
        Self {
            widths,
            left_columns,
        }
    }

    /// Returns the width of a line.
    pub(super) fn line_width(&self) -> usize {
        let shown_widths = self.widths.iter().filter(|width| **width > 0);
        let with_gaps: usize = shown_widths.map(|width| width + GAP.len()).sum();
        with_gaps.saturating_sub(GAP.len())
    }

    /// Returns the cells of a row in a line; `colour` changes the padded cells, which have the numbers of their columns.
    pub(super) fn coloured_line(
        &self,
        row: &[String; N],
        colour: impl Fn(usize, String) -> String,
    ) -> String {
        let cells = row.iter().zip(self.widths).enumerate();
        let padded = cells
            .filter(|(_, (_, width))| *width > 0)
            .map(|(column, (cell, width))| {
                let side = if column < self.left_columns {
                    Alignment::Left
                } else {
                    Alignment::Right
                };
                let cell = pad_str(&truncate_str(cell, width, "…"), width, side, None).into_owned();
                colour(column, cell)
            });
        padded.collect::<Vec<_>>().join(GAP)
    }

    /// Returns the cells of a row in a line.
    pub(super) fn line(&self, row: &[String; N]) -> String {
        self.coloured_line(row, |_, cell| cell)
    }
}
