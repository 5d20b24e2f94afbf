//! Reads the results of stored runs: a list of all, or the report of one.

use jiff::{Timestamp, Zoned, tz::TimeZone};
use provoke_journal as journal;
use provoke_journal::{RunFolder, StoreError, default_root};
use provoke_questions as questions;
use provoke_report::{Report, RunListing, relative_time};
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::document::{Cell, Column, Place, Table, Tone};
use provoke_words::untrusted::shell_word;
use std::path::Path;

/// A stored run in the list.
pub struct StoredRun {
    /// The shortest text that names it in commands.
    pub reference: String,
    /// Its start, in words.
    pub when: String,
    /// Its summary; `None` if it cannot be read.
    pub listing: Option<RunListing>,
}

/// A stored run with its report.
pub struct StoredReport {
    /// Its directory.
    pub folder: RunFolder,
    /// Its state.
    pub state: State,
    /// Its report.
    pub report: Report,
}

/// Reads the state of a stored run.
pub(super) fn read_state(folder: &RunFolder) -> Result<State, StoreError> {
    journal::read_run(&folder.journal_path(), questions::FOLD, |_, _| {})
}

/// Lists the runs in a directory, the newest last, and the errors of runs that cannot be read.
pub fn list_runs(root: &Path) -> Result<(Vec<StoredRun>, Vec<StoreError>), StoreError> {
    let folders = RunFolder::all_runs(root)?;
    let references = RunFolder::shortest_references(&folders, root);
    let now = Zoned::now();
    let mut errors = Vec::new();
    let runs = folders.iter().zip(references).map(|(folder, reference)| {
        let state = read_state(folder).map_err(|error| errors.push(error)).ok();
        StoredRun {
            reference: shell_word(reference.as_ref()).into_string(),
            when: state.as_ref().map_or(String::new(), |state| {
                format_start_time(state.origin.started_at, &now)
            }),
            listing: state.as_ref().map(RunListing::new),
        }
    });
    Ok((runs.collect(), errors))
}

/// Returns a table of stored runs, one row each.
pub fn run_table(runs: &[StoredRun]) -> Table {
    let columns = vec![
        Column::words("RUN"),
        Column::words("WHEN"),
        Column::remarks("WHAT"),
        Column::remarks("RESULT"),
        Column::remarks("CRASH").with_cut_priority(1),
        Column::remarks("COMMAND").with_cut_priority(2),
    ];
    let rows = runs.iter().map(|run| {
        let (reference, when) = (Cell::text(&run.reference), Cell::text(&run.when));
        let Some(listing) = &run.listing else {
            let error = Cell::toned("cannot be read", Tone::Open);
            return vec![reference, when, Cell::Empty, error];
        };
        vec![
            reference,
            when,
            Cell::text(listing.asked),
            Cell::toned(&listing.result, listing.verdict.tone()),
            Cell::text(&listing.crash),
            Cell::text(&listing.command),
        ]
    });
    Table::new("Runs", Place::Screen, columns).with_rows(rows)
}

/// Formats the start of a run, given in seconds since 1970.
fn format_start_time(seconds: i64, now: &Zoned) -> String {
    let started = Timestamp::from_second(seconds).unwrap_or_default();
    relative_time(&started.to_zoned(TimeZone::system()), now)
}

impl StoredReport {
    /// Closes the directory, of which only the journal is read from now on: there may be more runs than descriptors.
    #[must_use]
    pub fn with_closed_folder(mut self) -> Self {
        self.folder.close();
        self
    }

    /// Reads a run by its name.
    pub fn read(name: &str) -> Result<Self, Diagnostic> {
        let folder = RunFolder::find_run(name, &default_root())?;
        let state = read_state(&folder)?;
        // A complete journal records how its run ended.
        let is_complete = state.stage.is_finished() || state.stage.stop_cause().is_some();
        let report = Report {
            reference: folder.run_reference(&default_root()),
            ..Report::new(&state, is_complete)
        };
        Ok(Self {
            folder,
            state,
            report,
        })
    }
}
