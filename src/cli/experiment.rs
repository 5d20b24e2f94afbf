//! Runs an experiment from its first event to its summary.

use super::args::{DisplayStyle, OutputFlags, ProgressKind, VerbosityFlags};
use super::baseline;
use super::earlier_runs;
use super::engine;
use super::error::CliError;
use super::exit::Exit;
use super::further_searches;
use super::merge::CulpritMerge;
use super::preflight::{check_commands, check_plan, find_ourselves};
use super::request_scenarios::RequestScenarios;
use super::results;
use super::signals::{Signals, listen_for_signals, signal_came};
use super::user;
use crate::driver::{Driver, drive_run};
use crate::exec::{LocalExecutor, StopUrgency};
use crate::model::{
    CaptureMode, Event, FORMAT, FailedHook, Host, NoteLevel, Plan, Question, Signal, StopCause,
    Survey, Text, TrialId, VariantId, VariantPlan,
};
use crate::policy::{self, Verdict};
use crate::prepare::{self, PreparationError};
use crate::report::{self, Report, words};
use crate::scenario::{self, DEFAULT_DURATION, PlanContext, PlanError};
use crate::state::{EventSink, State};
use crate::store::{Journal, RunFolder, default_root};
use crate::survey;
use crate::sys::{cgroup, core_pattern, host, signals};
use crate::term::{self, LiveDisplay, TrialTicks};
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;

/// A run with its resources.
pub(super) struct Experiment<'a> {
    pub(super) state: State,
    pub(super) folder: RunFolder,
    pub(super) journal: Journal,
    pub(super) output: &'a OutputFlags,
    /// Notes that were printed before the first trial. The summary does not repeat them.
    pub(super) printed: Vec<String>,
}

/// Returns the facts of this place that a plan needs.
pub(super) fn current_surroundings(base: PathBuf) -> PlanContext {
    let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
    // As random as the keys of the standard library's maps; 53 bits, as for trials.
    let seed = std::hash::RandomState::new().build_hasher().finish() >> 11;
    PlanContext {
        environment: environment.collect(),
        base,
        seed,
        baseline: None,
        searched: None,
    }
}

/// The result of a run.
struct RunResult {
    folder: RunFolder,
    report: Report,
    exit: Exit,
    /// The next question.
    next: Option<Plan>,
    /// Whether it is one of several searches along a list, and found nothing, so that the earlier ones are more
    /// informative.
    adds_nothing: bool,
}

impl<'a> Experiment<'a> {
    /// Makes all checks that are possible before anything runs, and writes the first line of the journal.
    pub(super) fn begin_run(plan: Plan, output: &'a OutputFlags) -> Result<Self, CliError> {
        Self::begin_in(plan, output.out.as_deref(), output)
    }

    /// Does the same in this directory, or in a new one.
    fn begin_in(
        mut plan: Plan,
        out: Option<&Path>,
        output: &'a OutputFlags,
    ) -> Result<Self, CliError> {
        signals::survive_file_size_limit();
        check_plan(&plan)?;
        engine::choose_engine(&mut plan)?;
        find_ourselves(&mut plan);
        let root = default_root();
        prepare::check_plan(&plan, &[&root]).map_err(|unready| locate_refusal(&plan, unready))?;
        check_program(&plan)?;
        let facts = host::host_facts();
        let host = Host {
            name: facts.name,
            kernel: facts.kernel,
            arch: facts.arch,
            cpu: facts.cpu,
            cpus: facts.cpus,
            memory: facts.memory,
        };
        baseline::complete_question(&mut plan, &host)?;
        output.exports.create_files()?;
        user::become_user(&mut plan)?;
        let folder = RunFolder::create_run(out, &root)?;
        if plan.user.is_some() {
            folder.let_through(&root).map_err(CliError::could_not)?;
        }
        prepare::make_variants(&mut plan, &folder.variants_path(), &[&root, folder.path()])?;
        plan.no_cores = no_cores(&plan);
        let coarse = do_not_queue_for_cores(&mut plan);
        plan.widen_bug_rules();
        let survey = output.record_survey(&plan, &[&root, folder.path()]);
        earlier_runs::add_to_search(&mut plan, &host, &survey);
        // The time of the journal file and that of its first event are compared before its commands are run again.
        let at = jiff::Timestamp::now().as_second();
        let mut journal = Journal::open_for_append(&folder.journal_path())?;
        plan.add_settings(host.cpus);
        let started = Event::RunStarted {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: out.map_or_else(
                || folder.run_name(),
                |out| out.to_string_lossy().into_owned(),
            ),
            plan: Box::new(plan),
            survey,
            host,
            at,
        };
        journal.add_event(&started)?;
        let state = State::begin_fold(started).expect("a journal begins with this event");
        let mut experiment = Self {
            state,
            folder,
            journal,
            output,
            printed: Vec::new(),
        };
        experiment.note_cautions();
        let asked = experiment.state.plan.question.as_search();
        if asked.is_some_and(|asked| asked.raise_rate) && experiment.state.raise.is_none() {
            let text =
                "--raise-rate has no other setting to try: -j and --copies are high enough already";
            experiment.record_note(NoteLevel::Info, text.to_owned());
        }
        if let Some(coarse) = coarse {
            experiment.record_note(NoteLevel::Info, coarse);
        }
        Ok(experiment)
    }

    /// Prints and records warnings about the plan itself.
    fn note_cautions(&mut self) {
        for (level, text) in survey::plan_cautions(&self.state.plan) {
            let text = words::sanitize_line(&text);
            if level == NoteLevel::Warning {
                self.printed.push(text.clone());
            }
            self.record_note(level, text);
        }
        if let Some(text) = engine::unheeded_limit(&self.state.plan) {
            self.record_note(NoteLevel::Warning, text);
        }
    }

    /// Runs trials until the question is answered or the run is interrupted, and then the trials of the next question, if
    /// there is one.
    pub(super) fn run_to_end(self) -> Result<Exit, CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CliError::could_not)?;
        let output = self.output;
        let signals = runtime.block_on(async { listen_for_signals() });
        let mut signals = signals.map_err(CliError::could_not)?;
        let mut once = |mut run: Self| {
            let complete = runtime.block_on(run.run_trials(&mut signals))?;
            run.report_result(complete, !signal_came())
        };
        let mut told = once(self)?;
        while let Some(plan) = told.next.take() {
            let within = told.folder.following_run_path(&default_root());
            let further = Self::begin_in(plan, within.as_deref(), output).and_then(&mut once);
            match further {
                // The result of an interrupted search is less informative than the earlier ones.
                Ok(RunResult {
                    exit: exit @ Exit::Stopped(_),
                    ..
                }) => told.exit = exit,
                Ok(further) if further.adds_nothing => told.next = further.next,
                Ok(further) => told = further,
                Err(error) => {
                    output.export_reports(&told.folder, &told.report)?;
                    return Err(error);
                }
            }
        }
        output.export_reports(&told.folder, &told.report)?;
        Ok(told.exit)
    }

    async fn run_trials(&mut self, signals: &mut Signals) -> Result<bool, CliError> {
        engine::sweep_containers(&self.state.plan);
        match cgroup::clean_up_after_dead_runs() {
            0 => {}
            1 => term::print_message("note: killed a process that an earlier run left behind"),
            killed => term::print_message(&format!(
                "note: killed {killed} processes that earlier runs left behind"
            )),
        }
        let executor = LocalExecutor::new(&self.state.plan, &self.folder.trials_path());
        let executor = Arc::new(executor.map_err(CliError::could_not)?);
        let done = self.between_hooks(&executor, signals).await;
        for complaint in executor.close_slots().await {
            self.warn_user(complaint);
        }
        done?;
        if let Some(error) = self.journal.take_trouble() {
            term::print_message(&format!(
                "warning: the journal could not be written for a while: {error}"
            ));
        }
        Ok(self.journal.sync_to_disk())
    }

    /// Runs `setup`, the trials, and always `cleanup`.
    async fn between_hooks(
        &mut self,
        executor: &Arc<LocalExecutor>,
        signals: &mut Signals,
    ) -> Result<(), CliError> {
        let hooks = self.state.plan.hooks.clone();
        if let Some(setup) = &hooks.setup {
            match run_hook(executor, None, setup, signals).await? {
                RunHookResult::Done => {}
                RunHookResult::Failed(seen) => return Err(hook_failed(&seen)),
                RunHookResult::Stopped(signal) => return self.stopped_by(signal),
            }
        }
        let mut set_up = Vec::new();
        let ready = self.set_up(executor, signals, &mut set_up).await;
        if let Ok(true) = ready {
            self.announce_start();
            self.repeat_trials(Arc::clone(executor), signals).await;
        }
        set_up.extend(executor.set_up());
        for id in set_up {
            let VariantPlan { name, hooks, .. } = self.state.plan.variant_plan(id);
            if let Some(cleanup) = hooks.cleanup.clone() {
                let name = match name.as_str() {
                    "" => "`cleanup`".to_owned(),
                    name => format!("the `cleanup` of `{name}`"),
                };
                self.clean_up(executor, signals, Some(id), &cleanup, &name)
                    .await;
            }
        }
        let kept = report::answer::kept_variants(&self.state);
        if self.state.finished && self.state.plan.space.is_some() {
            executor.clean_up(&self.folder.variants_path(), &kept);
        }
        if let Some(cleanup) = &hooks.cleanup {
            self.clean_up(executor, signals, None, cleanup, "`cleanup`")
                .await;
        }
        ready.map(drop)
    }

    /// Runs the `setup` of each variant, and checks for its commands, which `setup` may have created. A variant without
    /// its commands is given up, unless no other is left. Returns whether trials can begin; `done` receives the
    /// variants that were set up.
    async fn set_up(
        &mut self,
        executor: &Arc<LocalExecutor>,
        signals: &mut Signals,
        done: &mut Vec<VariantId>,
    ) -> Result<bool, CliError> {
        if self.state.plan.space.is_some() {
            return Ok(true);
        }
        let ids = (0..).map(VariantId).take(self.state.plan.variants.len());
        let ids: Vec<VariantId> = ids.filter(|id| self.state.is_testable(*id)).collect();
        let mut failed: Vec<(VariantId, CliError)> = Vec::new();
        for &id in &ids {
            if let Some(setup) = self.state.plan.variant_plan(id).hooks.setup.clone() {
                match run_hook(executor, Some(id), &setup, signals).await? {
                    RunHookResult::Done => {}
                    RunHookResult::Failed(seen) => {
                        failed.push((id, hook_failed(&seen)));
                        continue;
                    }
                    RunHookResult::Stopped(signal) => {
                        return self.stopped_by(signal).map(|()| false);
                    }
                }
            }
            done.push(id);
            if let Err(error) = check_commands(&self.state.plan, id) {
                failed.push((id, error));
            }
        }
        if failed.len() == ids.len() {
            return match none_left(&self.state.plan, failed) {
                Some(error) => Err(error),
                // No variant was left before, so there is nothing to do.
                None => Ok(true),
            };
        }
        for (variant, error) in failed {
            let why = error.in_a_line();
            let name = &self.state.plan.variant_plan(variant).name;
            self.warn_user(words::sanitize_line(&format!(
                "cannot test the variant `{name}`: {why}"
            )));
            let at = self.state.worked;
            let event = Event::VariantUntestable { variant, why, at };
            self.journal.add_event(&event)?;
            self.state.apply_event(&event, policy::is_done);
        }
        Ok(true)
    }

    async fn clean_up(
        &mut self,
        executor: &Arc<LocalExecutor>,
        signals: &mut Signals,
        variant: Option<VariantId>,
        command: &Text,
        name: &str,
    ) {
        match run_hook(executor, variant, command, signals).await {
            Ok(RunHookResult::Done) => {}
            Ok(RunHookResult::Failed(seen)) => {
                self.warn_user(format!("{name} failed: {}", seen.ending));
            }
            Ok(RunHookResult::Stopped(_)) => {
                self.warn_user(format!("{name} did not finish: it was stopped"));
            }
            Err(error) => self.warn_user(format!("{name} did not finish: {}", error.in_a_line())),
        }
    }

    async fn repeat_trials(&mut self, executor: Arc<LocalExecutor>, signals: &mut Signals) {
        let VerbosityFlags {
            quiet,
            verbose,
            style,
            progress,
        } = self.output.talk;
        let policy = policy::policy_of_plan(&self.state.plan);
        let mut ticks = (style == DisplayStyle::Ticks).then(|| TrialTicks::new(&self.state));
        let terminal = console::user_attended_stderr();
        let mut live = match (style, progress) {
            _ if quiet => None,
            (DisplayStyle::Ticks, _) => None,
            (DisplayStyle::Line, ProgressKind::Auto) if terminal => {
                Some(LiveDisplay::with_moving_line(verbose))
            }
            (_, ProgressKind::None) => Some(LiveDisplay::failures_only(verbose)),
            _ => Some(LiveDisplay::with_plain_lines(verbose)),
        };
        live = live.map(|line| {
            line.with_trial_status(executor.live_load().map(super::load::watch_progress))
                .with_forecast(executor.live_load().map(super::load::watch_rate))
        });
        let mut bundles = RequestScenarios::new(self.folder.trials_path());
        let mut sinks: Vec<&mut dyn EventSink> = vec![&mut self.journal, &mut bundles];
        sinks.extend(ticks.as_mut().map(|sink| sink as &mut dyn EventSink));
        sinks.extend(live.as_mut().map(|sink| sink as &mut dyn EventSink));
        let evidence = self.folder.trials_path();
        let mut driver = Driver {
            state: &mut self.state,
            policy,
            executor,
            sinks,
            signals,
            evidence,
        };
        drive_run(&mut driver).await;
        if let Some(live) = live {
            live.clear_line();
        }
    }

    /// Records that the run was interrupted before its first trial.
    fn stopped_by(&mut self, signal: Signal) -> Result<(), CliError> {
        let stopped = Event::RunStopped {
            why: StopCause::Signal(signal),
            at: self.state.worked,
        };
        self.journal.add_event(&stopped)?;
        self.state.apply_event(&stopped, |_| false);
        Ok(())
    }

    /// Describes the run before it starts.
    fn announce_start(&self) {
        if self.output.talk.quiet {
            return;
        }
        for line in report::answer::lines_before_start(&self.state) {
            term::print_message(&format!("  {line}"));
        }
        let only = &self.state.plan.rules.only;
        if !only.is_empty() && matches!(self.state.plan.question, Question::Rate) {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            let only = only.join(", ");
            let text = format!("counting only {only}; other failures are counted separately");
            term::print_message(&format!("  {text}"));
        }
        let stop = &self.state.plan.stop;
        let limits = match (stop.trials, stop.time_budget()) {
            (Some(runs), Some(DEFAULT_DURATION)) => {
                format!("at most {runs} trials or 10 minutes (-n and -d change this)")
            }
            (None, Some(DEFAULT_DURATION)) => {
                "at most 10 minutes (-n and -d change this)".to_owned()
            }
            // A time without a unit is in seconds.
            (_, Some(limit)) => {
                let limit = words::format_seconds(limit.as_secs_f64());
                format!("at most {limit} (-d)")
            }
            _ => return,
        };
        term::print_message(&format!("  {limits}"));
    }

    fn warn_user(&mut self, text: String) {
        self.record_note(NoteLevel::Warning, text);
    }

    fn record_note(&mut self, level: NoteLevel, text: String) {
        match level {
            NoteLevel::Warning => term::print_message(&format!("warning: {text}")),
            NoteLevel::Info if self.output.talk.quiet => {}
            NoteLevel::Info => term::print_message(&format!("note: {text}")),
        }
        let note = Event::Note { level, text };
        self.journal.on_event(&note, &self.state);
        self.journal.before_wait(&self.state);
        self.state.apply_event(&note, |_| false);
    }

    /// Reports the result of a run.
    pub(super) fn conclude_run(self) -> Result<Exit, CliError> {
        let output = self.output;
        let told = self.report_result(true, false)?;
        output.export_reports(&told.folder, &told.report)?;
        Ok(told.exit)
    }

    /// Prints the result, and returns the next question if the run continues.
    fn report_result(self, journal_complete: bool, goes_on: bool) -> Result<RunResult, CliError> {
        let Self {
            state,
            folder,
            output,
            printed,
            ..
        } = self;
        let mut report = Report {
            reference: folder.run_reference(&default_root()),
            ..Report::new(&state, journal_complete)
        };
        let more = results::write_results(&state, &report, &folder);
        let (more, failed) = match more {
            Ok(more) => (more, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let summary = if output.talk.quiet {
            term::format_verdict(&report)
        } else {
            let reference = folder.shortest_reference(&default_root());
            let pooled = baseline::with_other_runs(&state, &folder);
            let notes = report.notes.clone();
            report.notes.retain(|note| !printed.contains(note));
            let summary = term::format_summary(
                &report,
                folder.path(),
                &reference,
                pooled,
                more,
                term::stdout_width(),
            );
            report.notes = notes;
            summary
        };
        if output.exports.takes_stdout() {
            term::say_as_it_is(summary.trim_end());
        } else {
            term::print_page(&summary).map_err(CliError::could_not)?;
        }
        let merge = CulpritMerge::from_answer(&state, &report);
        let next = merge.as_ref().filter(|_| goes_on);
        let next = next.and_then(|merge| merge.plan_merged_search(&state, &report));
        let stretch =
            further_searches::next_search(&state, &report).filter(|_| goes_on && next.is_none());
        let exit = match state.stopped {
            Some(StopCause::Signal(signal)) => Exit::Stopped(signal),
            Some(StopCause::NothingCounts | StopCause::CannotMake | StopCause::AllAlike) | None => {
                Exit::of_verdict(report.verdict, state.plan.expect)
            }
        };
        // The result is printed and exported even if the patch cannot be written.
        if let Some(error) = failed {
            output.export_reports(&folder, &report)?;
            return Err(error);
        }
        let adds_nothing =
            report.verdict == Verdict::NotThere && further_searches::follows_boundary(&state);
        let merge = merge.map(|merge| merge.describe_next(next.is_some()));
        let (stretch, text) = stretch.unzip();
        for line in merge.iter().chain(&text) {
            term::print_message(line);
        }
        Ok(RunResult {
            folder,
            report,
            exit,
            next: next.or(stretch),
            adds_nothing,
        })
    }
}

/// Checks the program of a plain run before anything is stored. Other commands may be created first.
fn check_program(plan: &Plan) -> Result<(), CliError> {
    match plan.variants.as_slice() {
        [only]
            if plan.space.is_none()
                && plan.hooks.setup.is_none()
                && only.hooks.setup.is_none()
                && only.edits.is_empty() =>
        {
            check_commands(plan, VariantId(0))
        }
        _ => Ok(()),
    }
}

/// Shows why a variant cannot be prepared, with the position in the scenario, if there is one.
fn locate_refusal(plan: &Plan, unready: PreparationError) -> CliError {
    match (unready, &plan.scenario) {
        (PreparationError::Refused { what, at, hint }, Some(file)) => {
            let refusal = PlanError { what, at, hint };
            let complaint = scenario::complain_about(Path::new(file.as_os_str()), refusal);
            CliError::already_rendered(complaint.render_message(console::colors_enabled_stderr()))
        }
        (unready, _) => unready.into(),
    }
}

/// Runs trials that may dump cores one at a time if cores would overwrite each other. `confirm` keeps its parallel
/// trials: the load under which the program failed matters more than the stack of a failure.
fn do_not_queue_for_cores(plan: &mut Plan) -> Option<String> {
    let confirms = matches!(plan.question, Question::Confirm(_));
    let queues = plan.capture == CaptureMode::On && plan.no_cores.is_none() && plan.jobs > 1;
    if !(confirms && queues && core_pattern::cores_overwrite_each_other()) {
        return None;
    }
    plan.capture = CaptureMode::Auto;
    Some("cores of parallel trials would overwrite each other on this machine, so failures are identified by exit status only; `provoke doctor` shows how to change that".to_owned())
}

/// Returns why no core of the main processes can be captured here.
fn no_cores(plan: &Plan) -> Option<String> {
    // A tracer writes its own cores.
    if plan.capture == CaptureMode::Trace {
        return None;
    }
    let destination = match core_pattern::read_destination() {
        Ok(destination) => destination,
        Err(error) => {
            return Some(format!(
                "cannot read where the kernel writes cores: {error}"
            ));
        }
    };
    let mut mains = plan.variants.iter().flat_map(|variant| {
        let mains = variant
            .actors
            .iter()
            .filter(|actor| actor.role.decides_outcome());
        // A directory that is prepared later is probably on the same disk as its source.
        let made = variant.make.as_ref().map(|make| &make.cwd);
        mains.map(move |main| (main, Path::new(made.unwrap_or(&main.cwd).as_os_str())))
    });
    mains.find_map(|(main, folder)| match &main.container {
        None => core_pattern::core_obstacle(&destination, folder),
        // A core in the container's own file system is copied out of it.
        Some(container) => {
            let shared = container.sees_folder() && container.enters;
            let template = destination
                .core_template()
                .filter(|one| shared && !one.is_rooted());
            template?.overwrites_in(folder)
        }
    })
}

impl OutputFlags {
    /// Records the environment of the trials. Files at these paths and reports are not files of the program.
    fn record_survey(&self, plan: &Plan, ours: &[&Path]) -> Survey {
        let mut survey = survey::survey_plan(plan);
        let reports = self.exports.wanted_formats().map(|(_, path)| path);
        let ours = ours.iter().copied().chain(reports);
        let ours: Vec<PathBuf> = ours.map(Path::to_owned).collect();
        survey::add_files(&mut survey, plan, &ours);
        survey
    }

    /// Writes the requested reports.
    fn export_reports(&self, folder: &RunFolder, report: &Report) -> Result<(), CliError> {
        self.exports.write_reports(folder, report, self.talk.quiet)
    }
}

/// Result of a hook of the whole run.
enum RunHookResult {
    Done,
    Failed(FailedHook),
    /// provoke received a signal, and stopped the hook.
    Stopped(Signal),
}

/// Runs a hook of the whole run to its end: others may follow it.
async fn run_hook(
    executor: &Arc<LocalExecutor>,
    variant: Option<VariantId>,
    command: &Text,
    signals: &mut Signals,
) -> Result<RunHookResult, CliError> {
    let (halt, halted) = watch::channel(StopUrgency::No);
    let mut running = pin!(executor.run_hook(variant, command, halted));
    tokio::select! {
        seen = &mut running => Ok(match seen.map_err(CliError::could_not)? {
            None => RunHookResult::Done,
            Some(seen) => RunHookResult::Failed(seen),
        }),
        Some(signal) = signals.recv() => {
            halt.send_replace(StopUrgency::Gently);
            tokio::select! {
                _ = &mut running => {}
                Some(_) = signals.recv() => {
                    halt.send_replace(StopUrgency::Now);
                    drop(running.await);
                }
            }
            Ok(RunHookResult::Stopped(signal))
        }
    }
}

fn hook_failed(seen: &FailedHook) -> CliError {
    let output = seen.output.trim();
    let error = anyhow::anyhow!(
        "{}",
        if output.is_empty() {
            "it printed nothing"
        } else {
            output
        }
    );
    CliError::could_not(error.context(format!("`setup` failed: {}", seen.ending)))
}

/// Returns the error if no variant is left: one error for all of them, or one for each.
fn none_left(plan: &Plan, failed: Vec<(VariantId, CliError)>) -> Option<CliError> {
    let each = failed.iter().map(|(id, error)| (*id, error.in_a_line()));
    let each: Vec<(VariantId, String)> = each.collect();
    let alike = each.iter().all(|(_, why)| *why == each[0].1);
    let (_, first) = failed.into_iter().next()?;
    if alike {
        return Some(first);
    }
    let lines = each
        .iter()
        .map(|(id, why)| format!("{}: {why}", plan.variant_plan(*id).name));
    let error = anyhow::Error::msg(lines.collect::<Vec<_>>().join("\n    "));
    let what = format!("none of the {} variants can be tested", each.len());
    Some(CliError::could_not(error.context(what)))
}

/// Parses `RUN#17`.
pub(super) fn run_and_trial(text: &str) -> Result<(&str, TrialId), CliError> {
    let parts = text
        .rsplit_once('#')
        .and_then(|(run, id)| Some((run, id.parse().ok()?)));
    match parts {
        Some((run, id)) if id > 0 => Ok((if run.is_empty() { "last" } else { run }, TrialId(id))),
        _ => Err(
            CliError::usage(anyhow::anyhow!("`{text}` is not a trial reference")).with_hint(
                "write RUN#TRIAL, such as last#17; `provoke report` lists failing trials",
            ),
        ),
    }
}
