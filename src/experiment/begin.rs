//! Begins an experiment: makes all checks that are possible before anything runs, and creates the run.

use super::conditions::untested_conditions;
use super::core_limits::{do_not_queue_for_cores, no_cores};
use super::exports::RequestedReports;
use super::helper::refuse_helper;
use super::observer::ExperimentObserver;
use super::preflight::{check_plan, check_program, fit_to_this_machine};
use super::run::{Experiment, ExperimentSettings};
use super::{baseline_check, earlier_runs, engine};
use provoke_journal as journal;
use provoke_journal::{Journal, RunFolder, default_root};
use provoke_levers as levers;
use provoke_local::StartedSlot;
use provoke_model::{Event, FORMAT, LoadPlan, NoteLevel, Plan, ServiceOwner, Survey, TrialsPlan};
use provoke_plan as plan;
use provoke_prepare as prepare;
use provoke_questions as questions;
use provoke_state::State;
use provoke_survey as survey;
use provoke_sys::signals;
use provoke_words as words;
use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use std::path::{Path, PathBuf};

impl Experiment {
    /// Makes all checks that are possible before anything runs, and writes the first line of the journal.
    ///
    /// From then on, this process survives a file that exceeds the limit of its size.
    pub fn begin(
        mut plan: Plan,
        settings: ExperimentSettings,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<Self, Diagnostic> {
        refuse_helper()?;
        signals::survive_file_size_limit();
        check_plan(&plan.trials)?;
        check_hosts(&plan.trials)?;
        levers::check_trials(&plan.trials)?;
        // Each host finds out for itself.
        if plan.trials.hosts.is_none() {
            fit_to_this_machine(&mut plan.trials)?;
            if let Some(question) = plan.goal.question.as_why_mut() {
                question.untested = untested_conditions(&plan.trials)?;
            }
            plan.trials.settings.no_cores = no_cores(&plan.trials);
        }
        let root = default_root();
        prepare::check_plan(&plan.trials, &[&root])
            .map_err(|unready| locate_refusal(&plan, unready))?;
        check_program(&plan.trials)?;
        let host = survey::this_host();
        baseline_check::check_baseline(&mut plan.goal, &plan.trials, &host)?;
        settings.reports.create_files()?;
        let folder = RunFolder::create_run(settings.out.as_deref(), &root)?;
        if levers::may_change_user(&plan.trials) {
            folder.let_through(&root)?;
        }
        prepare::make_variants(
            &mut plan.trials,
            &folder.variants_path(),
            &[&root, folder.path()],
        )?;
        let coarse = do_not_queue_for_cores(&plan.goal, &mut plan.trials);
        plan.trials.rules.only = questions::bugs_without_cores(&plan.goal, &plan.trials);
        // Its process starts on another processor while the environment is recorded. If it cannot be started, the first
        // trial reports why.
        let first_slot = runs_here(&plan.trials).then(StartedSlot::start);
        let first_slot = first_slot.and_then(Result::ok);
        let survey = survey_trials(&plan.trials, &[&root, folder.path()], &settings.reports);
        earlier_runs::add_to_search(&mut plan.goal, &plan.trials, &host, &survey);
        baseline_check::note_unchanged_program(&mut plan.goal, &plan.trials, &host, &survey);
        plan.goal.earlier_checks = earlier_runs::count_checks(&plan, &host, &survey);
        // The time of the journal file and that of its first event are compared before its commands are run again.
        let time = jiff::Timestamp::now().as_second();
        let mut journal = Journal::open_for_append(&folder.journal_path())?;
        let raises_rate = questions::raises_rate(&plan.goal);
        if raises_rate {
            plan.trials.add_settings(host.cpus);
        }
        let started = Event::RunStarted {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: settings.out.as_ref().map_or_else(
                || folder.run_name(),
                |folder| folder.to_string_lossy().into_owned(),
            ),
            plan: Box::new(plan),
            survey,
            host,
            at: time,
        };
        journal.add_event(&started)?;
        let state = State::begin_fold(started, questions::begin_memory)
            .expect("a journal begins with this event");
        let mut experiment = Self {
            state,
            folder,
            journal,
            settings,
            first_slot,
            announced: Vec::new(),
        };
        experiment.note_cautions(observer);
        if raises_rate && experiment.state.raise.is_none() {
            let text =
                "--raise-rate has no other setting to try: -j and --copies are high enough already";
            experiment.record_note(NoteLevel::Info, text.to_owned(), observer);
        }
        if let Some(coarse) = coarse {
            experiment.record_note(NoteLevel::Info, coarse, observer);
        }
        Ok(experiment)
    }

    /// Records warnings about the plan itself.
    fn note_cautions(&mut self, observer: &mut dyn ExperimentObserver) {
        for (level, text) in survey::plan_cautions(&self.state.trials) {
            let text = words::sanitize_line(&text);
            if level == NoteLevel::Warning {
                self.announced.push(text.clone());
            }
            self.record_note(level, text, observer);
        }
        if let Some(text) = engine::unheeded_limit(&self.state.trials) {
            self.record_note(NoteLevel::Warning, text, observer);
        }
    }
}

/// Returns whether provoke starts the program, on this machine.
fn runs_here(trials: &TrialsPlan) -> bool {
    trials.hosts.is_none() && !trials.load.as_ref().is_some_and(attaches_to_service)
}

fn attaches_to_service(load: &LoadPlan) -> bool {
    load.owner != ServiceOwner::Provoke
}

/// Refuses what is not possible on other hosts.
pub(super) fn check_hosts(trials: &TrialsPlan) -> Result<(), Diagnostic> {
    if trials.hosts.is_none() {
        return Ok(());
    }
    if trials.waves {
        let error = "trials on several hosts cannot start in waves";
        return Err(Diagnostic::usage(error).with_hint("leave out --wave or --on"));
    }
    if trials.load.as_ref().is_some_and(attaches_to_service) {
        let error = "a service that provoke does not start cannot be on another host";
        return Err(Diagnostic::usage(error).with_hint("leave out --on"));
    }
    Ok(())
}

/// Adds the position in the scenario file to the reason why a variant cannot be prepared, if there is a file.
fn locate_refusal(plan: &Plan, refusal: Diagnostic) -> Diagnostic {
    match &plan.goal.scenario {
        Some(file) if refusal.category == ErrorCategory::Usage => {
            plan::complain_about(Path::new(file.as_os_str()), refusal)
        }
        _ => refusal,
    }
}

/// Records the environment of the trials. Files in these directories and reports are not files of the program.
fn survey_trials(trials: &TrialsPlan, directories: &[&Path], reports: &RequestedReports) -> Survey {
    let mut survey = survey::survey_plan(trials);
    let directories = directories.iter().map(|directory| directory.to_path_buf());
    let reports = reports.files().cloned();
    let earlier_reports = journal::written_reports(&default_root());
    let own_folders: Vec<PathBuf> = directories.chain(reports).chain(earlier_reports).collect();
    survey::add_files(&mut survey, trials, &own_folders);
    survey
}
