//! Runs an experiment until its question is answered.

use super::exports::RequestedReports;
use super::merge_commits::CulpritMerge;
use super::observer::{ExperimentMessage, ExperimentObserver};
use super::outcome::{ExperimentOutcome, FinishedRun};
use super::preflight::fit_to_this_machine;
use super::request_scenarios::RequestScenarios;
use super::{engine, results};
use provoke_driver::{Driver, drive_run};
use provoke_exec::Executor;
use provoke_hosts::HostsExecutor;
use provoke_journal::{Journal, RunFolder, default_root};
use provoke_local::{LocalExecutor, StartedSlot};
use provoke_model::{Event, NoteLevel, Plan, Signal};
use provoke_questions as questions;
use provoke_questions::Verdict;
use provoke_report::Report;
use provoke_state::{EventSink as _, State};
use provoke_sys::cgroup;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// Where the results of an experiment go.
#[derive(Clone, Debug, Default)]
pub struct ExperimentSettings {
    /// The directory of the run; `None` for a new one below [`default_root`].
    pub out: Option<PathBuf>,
    /// Reports. Their files are created at the start, because a path that cannot be written should not cost an hour of
    /// trials.
    pub reports: RequestedReports,
}

/// A run with its resources.
pub struct Experiment {
    pub(super) state: State,
    pub(super) folder: RunFolder,
    pub(super) journal: Journal,
    pub(super) settings: ExperimentSettings,
    /// The slot of the first job, which starts while the environment is recorded.
    pub(super) first_slot: Option<StartedSlot>,
    /// Notes that the observer received before the first trial.
    pub(super) announced: Vec<String>,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunEnd {
    /// A further search may follow.
    Continues,
    /// Nothing follows.
    Last,
    /// It had ended before this process resumed it.
    Earlier,
}

/// A finished run, and what follows.
struct Conclusion {
    run: FinishedRun,
    /// The next question.
    next: Option<Plan>,
    /// Whether it is one of several searches along a list, and found nothing, so that the earlier ones are more
    /// informative.
    adds_nothing: bool,
    /// Why its results could not be written.
    error: Option<Diagnostic>,
}

impl Experiment {
    /// Returns whether the question is already answered.
    pub fn is_finished(&self) -> bool {
        self.state.stage.is_finished()
    }

    /// Returns the name of the run.
    pub fn run_name(&self) -> &str {
        &self.state.origin.run
    }

    /// Runs the experiment without signals and messages, and returns its result.
    pub fn run_silently(self) -> Result<ExperimentOutcome, Diagnostic> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (_sender, mut signals) = tokio::sync::mpsc::unbounded_channel();
        let mut observer = super::SilentObserver;
        runtime.block_on(self.run_to_end(&mut signals, &mut observer))
    }

    /// Runs trials until the question is answered or a signal comes, and then the trials of the next question, if there
    /// is one.
    pub async fn run_to_end(
        self,
        signals: &mut UnboundedReceiver<Signal>,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<ExperimentOutcome, Diagnostic> {
        let settings = self.settings.clone();
        let mut last = Box::pin(self.run_and_conclude(signals, observer)).await?;
        let mut stopped = last.run.stopping_signal();
        while let Some(plan) = last.next.take() {
            let settings = ExperimentSettings {
                out: last.run.folder.following_run_path(&default_root()),
                ..settings.clone()
            };
            let further = match Self::begin(plan, settings, observer) {
                Ok(further) => Box::pin(further.run_and_conclude(signals, observer)).await,
                Err(error) => Err(error),
            };
            match further {
                Err(error) => last.error = Some(error),
                Ok(further) if further.error.is_some() => last.error = further.error,
                // The result of an interrupted search is less informative than the earlier ones.
                Ok(further) if further.run.stopping_signal().is_some() => {
                    stopped = further.run.stopping_signal();
                }
                Ok(further) if further.adds_nothing => last.next = further.next,
                Ok(further) => last = further,
            }
        }
        Ok(ExperimentOutcome {
            run: last.run,
            stopped,
            error: last.error,
        })
    }

    /// Runs the trials of this run, unless it is finished.
    async fn run_and_conclude(
        mut self,
        signals: &mut UnboundedReceiver<Signal>,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<Conclusion, Diagnostic> {
        if self.is_finished() {
            return self.conclude_run(true, RunEnd::Earlier, observer);
        }
        let is_complete = self.run_trials(signals, observer).await?;
        let end = if observer.wants_more() {
            RunEnd::Continues
        } else {
            RunEnd::Last
        };
        self.conclude_run(is_complete, end, observer)
    }

    /// Runs the hooks and the trials; returns whether the journal is complete.
    async fn run_trials(
        &mut self,
        signals: &mut UnboundedReceiver<Signal>,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<bool, Diagnostic> {
        if let Some(note) = engine::sweep_containers(&self.state.trials) {
            observer.on_message(ExperimentMessage::Note(note));
        }
        let killed = cgroup::clean_up_after_dead_runs();
        if !killed.is_empty() {
            observer.on_message(ExperimentMessage::Note(describe_leftovers(&killed)));
        }
        let executor = tokio::select! {
            executor = self.start_executor(observer) => executor?,
            Some(signal) = signals.recv() => {
                self.stopped_by(signal)?;
                return Ok(self.journal.sync_to_disk());
            }
        };
        let result = self.between_hooks(&executor, signals, observer).await;
        self.journal.begin_sync();
        for complaint in executor.close().await {
            self.warn_user(complaint, observer);
        }
        result?;
        if let Some(error) = self.journal.take_trouble() {
            let warning = match self.journal.unwritten_trials() {
                0 => format!(
                    "the journal could not be written for a while, and is complete now: {error}"
                ),
                count => format!(
                    "{} of this result are not in the journal, because it could not be written: {error}; free space, and run `provoke resume {}`, which repeats these trials",
                    words::format_count(count, "trial"),
                    self.state.origin.run,
                ),
            };
            observer.on_message(ExperimentMessage::Warning(warning));
        }
        Ok(self.journal.sync_to_disk())
    }

    /// Starts the executor of the trials: on this machine, or on hosts.
    async fn start_executor(
        &mut self,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<Arc<dyn Executor>, Diagnostic> {
        let (plan, trials) = (&self.state.trials, self.folder.trials_path());
        let Some(hosts) = &plan.hosts else {
            // A resumed run may have begun on other hosts.
            let mut plan = plan.clone();
            fit_to_this_machine(&mut plan)?;
            let executor = LocalExecutor::new(&plan, &trials)?;
            let executor = match self.first_slot.take() {
                Some(slot) => executor.with_started_slot(slot)?,
                None => executor,
            };
            if let Some(load) = executor.live_load() {
                observer.watch_load(load);
            }
            return Ok(Arc::new(executor));
        };
        let describe_wait = |text| observer.on_message(ExperimentMessage::Waiting(text));
        let joined = self.state.hosts.count();
        let executor = HostsExecutor::connect(plan, hosts, joined, &trials, describe_wait);
        Ok(Arc::new(executor.await?))
    }

    pub(super) async fn repeat_trials(
        &mut self,
        executor: Arc<dyn Executor>,
        signals: &mut UnboundedReceiver<Signal>,
        observer: &mut dyn ExperimentObserver,
    ) {
        let question = questions::of(&self.state);
        observer.begin_trials(&self.state);
        let mut scenarios = RequestScenarios::new(self.folder.trials_path());
        let mut driver = Driver {
            state: &mut self.state,
            question,
            executor,
            sinks: vec![&mut self.journal, &mut scenarios, &mut *observer],
            signals,
            evidence: self.folder.trials_path(),
        };
        drive_run(&mut driver).await;
        observer.end_trials();
    }

    pub(super) fn warn_user(&mut self, text: String, observer: &mut dyn ExperimentObserver) {
        self.record_note(NoteLevel::Warning, text, observer);
    }

    pub(super) fn record_note(
        &mut self,
        level: NoteLevel,
        text: String,
        observer: &mut dyn ExperimentObserver,
    ) {
        observer.on_message(match level {
            NoteLevel::Warning => ExperimentMessage::Warning(text.clone()),
            NoteLevel::Info => ExperimentMessage::RecordedNote(text.clone()),
        });
        let note = Event::Note { level, text };
        self.journal.on_event(&note, &self.state);
        self.journal.before_wait(&self.state);
        self.state.apply_event(&note, |_| false);
    }

    /// Writes the results, passes them on, and returns the next question if the experiment continues.
    fn conclude_run(
        self,
        journal_complete: bool,
        end: RunEnd,
        observer: &mut dyn ExperimentObserver,
    ) -> Result<Conclusion, Diagnostic> {
        let Self {
            state,
            folder,
            announced,
            ..
        } = self;
        let report = Report {
            reference: folder.run_reference(&default_root()),
            ..Report::new(&state, journal_complete)
        };
        let (files, error) =
            match results::write_results(&state, &report, &folder, end == RunEnd::Earlier) {
                Ok(files) => (files, None),
                Err(error) => (Vec::new(), Some(error)),
            };
        let run = FinishedRun {
            state,
            folder,
            report,
            files,
            announced,
        };
        observer.on_result(&run)?;
        // The result is shown even if the patch cannot be written.
        if error.is_some() {
            return Ok(Conclusion {
                run,
                next: None,
                adds_nothing: false,
                error,
            });
        }
        let FinishedRun { state, report, .. } = &run;
        let merge = CulpritMerge::from_answer(state, report);
        let merged = match &merge {
            Some(merge) if end == RunEnd::Continues => merge.plan_merged_search(state, report),
            _ => None,
        };
        let section = if end == RunEnd::Continues && merged.is_none() {
            questions::next_search(state, report.verdict, report.answer.as_ref())
        } else {
            None
        };
        let adds_nothing =
            report.verdict == Verdict::NotThere && questions::follows_boundary(state);
        let (section, step) = section.unzip();
        let merge_text = merge.map(|merge| merge.describe_next(merged.is_some()));
        for step in merge_text.into_iter().chain(step) {
            observer.on_message(ExperimentMessage::Step(step));
        }
        Ok(Conclusion {
            next: merged.or(section),
            run,
            adds_nothing,
            error: None,
        })
    }
}

/// Processes that a note names.
const NAMED_LEFTOVERS: usize = 5;

/// Says which processes of dead runs were killed.
fn describe_leftovers(killed: &[String]) -> String {
    let named = words::list_first(killed, NAMED_LEFTOVERS);
    format!("killed what earlier runs could not end: {named}")
}
