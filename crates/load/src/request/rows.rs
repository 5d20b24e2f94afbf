//! Reads the rows of a CSV file that fill requests.

use super::super::LoadError;
use std::path::Path;

/// The rows of a CSV file.
#[derive(Default)]
pub(super) struct CsvRows {
    pub(super) columns: Vec<String>,
    cells: Vec<Vec<u8>>,
}

impl CsvRows {
    pub(super) fn read_csv(path: &Path) -> Result<Self, LoadError> {
        let failed = |error| LoadError::Rows {
            path: path.to_owned(),
            error,
        };
        let mut reader = csv::Reader::from_path(path).map_err(failed)?;
        let columns: Vec<String> = reader
            .byte_headers()
            .map_err(failed)?
            .iter()
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        // Equal names are ambiguous. Columns without a name cannot be used.
        let mut names: Vec<&String> = columns.iter().filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(LoadError::Twice {
                path: path.to_owned(),
                name: pair[0].clone(),
            });
        }
        let mut cells = Vec::new();
        for row in reader.byte_records() {
            let row = row.map_err(failed)?;
            cells.extend(row.iter().map(<[u8]>::to_vec));
            cells.extend(row.iter().map(escape_path));
        }
        if cells.is_empty() {
            return Err(LoadError::NoRows(path.to_owned()));
        }
        Ok(Self { columns, cells })
    }

    pub(super) fn row_count(&self) -> usize {
        self.cells.len() / (2 * self.columns.len()).max(1)
    }

    pub(super) fn find_column(&self, name: &str) -> Result<usize, LoadError> {
        let index = self.columns.iter().position(|column| column == name);
        index.ok_or_else(|| LoadError::Column {
            name: name.to_owned(),
            known: self.columns.clone(),
        })
    }

    /// Returns a cell. Behind the columns are copies of them that are escaped for paths.
    pub(super) fn cell_bytes(&self, row: usize, column: usize) -> &[u8] {
        &self.cells[row * 2 * self.columns.len() + column]
    }
}

/// Escapes bytes that are invalid in the path of a request.
pub(super) fn escape_path(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut escaped = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if !b"\"<>\\^`{|}#".contains(byte) => escaped.push(*byte),
            byte => drop(write!(escaped, "%{byte:02X}")), // writing to memory cannot fail
        }
    }
    escaped
}
