//! Reads a stored run as a baseline.

use super::earlier_runs;
use super::measured_variant::{BaselineFilter, measure_variant, read_baseline_run};
use provoke_journal::{RunFolder, StoreError, default_root};
use provoke_model::{MeasuredBaseline, VariantId};
use provoke_plan::{MEASURE_FIRST, Scenario};
use provoke_questions as questions;
use provoke_report as report;
use provoke_state::{State, Tally};
use provoke_stats::real;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::names::nearest_name;

/// A baseline, with the settings of its trials.
#[derive(Debug, Default)]
pub struct ResolvedBaseline {
    pub measured: MeasuredBaseline,
    /// The settings of its trials, if it is a run of provoke.
    pub scenario: Option<Scenario>,
    /// The run, if it is one of provoke.
    pub chosen: Option<BaselineRun>,
}

/// The run that is the baseline.
#[derive(Debug)]
pub struct BaselineRun {
    /// Name of the run.
    pub run: String,
    /// The shortest text that names it in commands.
    pub reference: String,
    /// Command of its trials.
    pub command: String,
    /// Number of its parallel trials, which the question uses too.
    pub jobs: u32,
    /// Failing trials of this run and the other runs that count.
    pub failures: u64,
    /// Counted trials of these runs.
    pub trials: u64,
    /// Number of the other runs that count.
    pub other_runs: u64,
    /// No flag names a run: it is the newest one with failures.
    pub is_newest: bool,
}

/// A stored run as a baseline, without the trials of other runs.
pub(super) struct StoredBaseline {
    folder: RunFolder,
    state: State,
    variant: VariantId,
}

impl StoredBaseline {
    /// Reads a run as the baseline of a scenario.
    pub(super) fn read(
        name: &str,
        asked: &Scenario,
        looked_for: &BaselineFilter,
    ) -> Result<Self, Diagnostic> {
        let read = RunFolder::find_run(name, &default_root())
            .and_then(|folder| folder.check_trust(asked.trust))
            .and_then(|folder| {
                let state = read_baseline_run(&folder.journal_path(), looked_for)?;
                Ok((folder, state))
            });
        if let Ok((_, state)) = &read
            && state.is_probably_mistyped()
        {
            return Err(Diagnostic::of_field(
                "baseline",
                format!(
                    "the run {} stopped early, because every trial failed in the same way",
                    state.origin.run
                ),
                format!(
                    "run the rest of its trials: provoke resume {}",
                    state.origin.run
                ),
            ));
        }
        let (folder, state) = read.map_err(|error| {
            let none_is_stored =
                RunFolder::all_runs(&default_root()).map_or(true, |runs| runs.is_empty());
            let hint = match error {
                StoreError::NoRun { .. } if none_is_stored => MEASURE_FIRST.to_owned(),
                _ => error.hint(),
            };
            let what = match asked.items.repeated_run() {
                Some(_) => "run",
                None => "baseline",
            };
            Diagnostic::of_field("baseline", format!("cannot read the {what}: {error}"), hint)
        })?;
        let variant = match &asked.items.requests {
            Some(_) => crashed_variant(&state)?,
            None => find_variant(&state, asked.baseline.of.as_deref())?,
        };
        check_searched_cases(&state, looked_for)?;
        Ok(Self {
            folder,
            state,
            variant,
        })
    }

    /// Returns whether its own trials have failures.
    pub(super) fn has_failures(&self, looked_for: &BaselineFilter) -> bool {
        measure_variant(&self.state, self.variant, looked_for).failures > 0
    }
}

impl ResolvedBaseline {
    /// Reads a run as the baseline of a scenario.
    pub(super) fn of_run(
        name: &str,
        asked: &Scenario,
        looked_for: &BaselineFilter,
    ) -> Result<Self, Diagnostic> {
        Self::of_stored(
            StoredBaseline::read(name, asked, looked_for)?,
            asked,
            looked_for,
        )
    }

    /// Adds the trials of other runs of the same program.
    pub(super) fn of_stored(
        stored: StoredBaseline,
        asked: &Scenario,
        looked_for: &BaselineFilter,
    ) -> Result<Self, Diagnostic> {
        let StoredBaseline {
            folder,
            state,
            variant,
        } = stored;
        let mut again = Scenario::of_variant(&state.goal, &state.trials, variant).ok();
        if let Some(again) = &mut again {
            questions::of_scenario(asked).restore_settings(&state.goal.question, again);
        }
        let alone = asked.count.ignore_earlier_runs.unwrap_or(false);
        let question = questions::of(&state);
        let measure = || measure_variant(&state, variant, looked_for);
        let measured = if question.tests_a_fix() {
            // A further fix is compared with the baseline of the first one.
            baseline_of_first_fix(&state)?
        } else if asked.trials.held.is_some() && question.searches_schedules() {
            super::hunt_holds::measure_hunt(&state, looked_for).unwrap_or_else(measure)
        } else if alone {
            measure()
        } else {
            earlier_runs::add_to(measure(), &state, variant, &folder, looked_for)
        };
        let chosen = BaselineRun {
            run: folder.run_name(),
            reference: folder.shortest_reference(&default_root()),
            command: report::command_line(&state.trials, variant),
            jobs: state.trials.jobs,
            failures: measured.failures,
            trials: measured.trials,
            other_runs: measured.run_count().saturating_sub(1),
            is_newest: false,
        };
        Ok(Self {
            measured,
            scenario: again,
            chosen: Some(chosen),
        })
    }
}

/// Refuses a run that does not have the cases whose failures are the bug.
fn check_searched_cases(state: &State, looked_for: &BaselineFilter) -> Result<(), Diagnostic> {
    let patterns = looked_for.searched_cases();
    if patterns.is_empty() || questions::of(state).tests_a_fix() {
        return Ok(());
    }
    let run = &state.origin.run;
    if state.trials.cases.is_none() {
        return Err(Diagnostic::of_field(
            "baseline",
            format!("the run {run} did not count its tests"),
            "measure it again with --cases",
        ));
    }
    let names = state.case_names.all_names();
    let missing = patterns
        .iter()
        .find(|pattern| !names.iter().any(|name| pattern.matches_case(name)));
    let Some(missing) = missing else {
        return Ok(());
    };
    let texts: Vec<String> = names.iter().map(ToString::to_string).collect();
    let similar = nearest_name(missing.as_str(), texts.iter().map(String::as_str));
    Err(Diagnostic::of_field(
        "only",
        format!("the run {run} has no test `{missing}`"),
        match similar {
            Some(name) => format!("did you mean `test:{name}`?"),
            None => format!("provoke report {run} --cases lists its tests"),
        },
    ))
}

/// Returns the baseline of a run that tested a fix.
fn baseline_of_first_fix(state: &State) -> Result<MeasuredBaseline, Diagnostic> {
    let compared = questions::of(state).baseline(&state.goal);
    compared
        .map(|compared| compared.measured.clone())
        .ok_or_else(|| {
            Diagnostic::of_field(
                "baseline",
                format!(
                    "the run {} has no measured baseline: its failure rate was assumed",
                    state.origin.run
                ),
                "give the rate again: --assume-rate P; or a measurement: --baseline 3/30",
            )
        })
}

/// Returns the variant whose service died most often.
fn crashed_variant(state: &State) -> Result<VariantId, Diagnostic> {
    let run = &state.origin.run;
    let rate = |tally: &Tally| real(tally.failures) / real(tally.counted_trials().max(1));
    let failing = state.all_tallies().filter(|(_, tally)| tally.failures > 0);
    let worst = failing.max_by(|(_, a), (_, b)| rate(a).total_cmp(&rate(b)));
    let (message, hint) = match worst {
        _ if state.trials.load.is_none() => (
            format!("the run {run} is not a run of `provoke load`"),
            "`provoke list` shows the stored runs",
        ),
        Some((variant, _)) => return Ok(variant),
        None => (
            format!("the service died in no trial of the run {run}"),
            "choose a run with failures; more clients or requests make them more likely",
        ),
    };
    Err(Diagnostic::of_field("requests", message, hint))
}

/// Returns the variant with this name.
fn find_variant(state: &State, of: Option<&str>) -> Result<VariantId, Diagnostic> {
    let variants = || (0..).map(VariantId).zip(&state.trials.variants);
    let names = || {
        let names = variants().map(|(_, variant)| format!("`{}`", variant.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let run = &state.origin.run;
    match (of, state.trials.variants.len()) {
        (None, 1) => Ok(VariantId(0)),
        (None, several) => Err(Diagnostic::of_field(
            "baseline",
            format!("the run {run} has {several} variants"),
            format!("choose the variant with --of: {}", names()),
        )),
        (Some(name), _) => {
            let found = variants().find(|(_, variant)| variant.name == name);
            found.map(|(id, _)| id).ok_or_else(|| {
                let what = format!("the run {run} has no variant `{name}`");
                Diagnostic::of_field("of", what, format!("its variants: {}", names()))
            })
        }
    }
}
