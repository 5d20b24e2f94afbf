//! Shows an experiment on the terminal: messages, progress and results.

use super::{
    LiveDisplay, TrialTicks, format_summary, format_verdict, print_message, print_page,
    relative_to_cwd, say_as_it_is, stdout_width,
};
use crate::experiment::{
    ExperimentMessage, ExperimentObserver, FinishedRun, ResultFile, pooled_baseline,
};
use crate::trace;
use clap::ValueEnum;
use provoke_journal::default_root;
use provoke_load::LoadProgress;
use provoke_model::{Event, NoteLevel};
use provoke_plan::DEFAULT_DURATION;
use provoke_questions as questions;
use provoke_report as report;
use provoke_runners::{find_runner, runner_named};
use provoke_state::{EventSink, State};
use provoke_words as words;
use provoke_words::document::SuggestedCommand;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How the progress of an experiment is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressDisplay {
    /// Not at all.
    Hidden,
    /// As a tick or a cross for each trial.
    Ticks,
    /// As a line that moves.
    MovingLine,
    /// As lines that do not move.
    PlainLines,
    /// As a line for each failure.
    Failures,
}

/// Style of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DisplayStyle {
    /// Show a live line; failures scroll by above it
    #[default]
    Line,
    /// Show a tick or a cross for each trial, in order
    Ticks,
    /// Show lines that do not move
    Plain,
}

/// Kind of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressKind {
    /// Show a live line if stderr is a terminal
    #[default]
    Auto,
    /// Print a line from time to time
    Plain,
    /// Show no progress
    None,
}

impl ProgressDisplay {
    /// Chooses how to show the progress on this terminal.
    pub fn choose(style: DisplayStyle, kind: ProgressKind, quiet: bool) -> Self {
        match (style, kind) {
            _ if quiet && style != DisplayStyle::Ticks => Self::Hidden,
            (DisplayStyle::Ticks, _) => Self::Ticks,
            (DisplayStyle::Line, ProgressKind::Auto)
                if console::user_attended_stderr() && !trace::is_wanted() =>
            {
                Self::MovingLine
            }
            (_, ProgressKind::None) => Self::Failures,
            _ => Self::PlainLines,
        }
    }
}

/// Settings of a [`TerminalObserver`].
#[derive(Clone, Copy, Debug)]
pub struct ObserverSettings {
    /// Show only the result.
    pub quiet: bool,
    /// How to show the progress.
    pub display: ProgressDisplay,
    /// Show every trial, and not only failing ones.
    pub every_trial: bool,
    /// A report goes to stdout, so the summary goes to stderr.
    pub stdout_is_taken: bool,
    /// Returns whether the user stopped the experiment.
    pub was_stopped: fn() -> bool,
}

/// Shows an experiment on the terminal.
pub struct TerminalObserver {
    settings: ObserverSettings,
    ticks: Option<TrialTicks>,
    load: Option<Arc<LoadProgress>>,
    live: Option<LiveDisplay>,
    /// The warning that was printed after the last trial, so that the result need not repeat it.
    last_warning: Option<String>,
}

impl TerminalObserver {
    /// Creates an observer.
    pub fn new(settings: ObserverSettings) -> Self {
        Self {
            settings,
            ticks: None,
            load: None,
            live: None,
            last_warning: None,
        }
    }

    fn sinks(&mut self) -> impl Iterator<Item = &mut dyn EventSink> {
        let ticks = self.ticks.as_mut().map(|ticks| ticks as &mut dyn EventSink);
        let live = self.live.as_mut().map(|live| live as &mut dyn EventSink);
        ticks.into_iter().chain(live)
    }
}

impl EventSink for TerminalObserver {
    fn on_event(&mut self, event: &Event, state: &State) {
        self.sinks().for_each(|sink| sink.on_event(event, state));
        match event {
            Event::TrialFinished { .. } => self.last_warning = None,
            Event::Note {
                level: NoteLevel::Warning,
                text,
            } if self.live.is_some() && console::user_attended() => {
                self.last_warning = Some(text.clone());
            }
            _ => {}
        }
    }

    fn before_wait(&mut self, state: &State) {
        self.sinks().for_each(|sink| sink.before_wait(state));
    }

    fn on_tick(&mut self, state: &State) {
        self.sinks().for_each(|sink| sink.on_tick(state));
    }
}

impl ExperimentObserver for TerminalObserver {
    fn on_message(&mut self, message: ExperimentMessage) {
        match message {
            ExperimentMessage::Warning(text) => print_message(&format!("warning: {text}")),
            ExperimentMessage::RecordedNote(_)
            | ExperimentMessage::Baseline(_)
            | ExperimentMessage::Waiting(_)
                if self.settings.quiet => {}
            ExperimentMessage::RecordedNote(text) | ExperimentMessage::Note(text) => {
                print_message(&format!("note: {text}"));
            }
            ExperimentMessage::Step(text) | ExperimentMessage::Baseline(text) => {
                print_message(&format!("  {text}"));
            }
            ExperimentMessage::Waiting(text) => {
                print_message(&format!("  {}", words::sanitize_line(&text)));
            }
        }
    }

    fn watch_load(&mut self, load: Arc<LoadProgress>) {
        self.load = Some(load);
    }

    fn begin_trials(&mut self, state: &State) {
        if !self.settings.quiet {
            announce_start(state);
        }
        let is_ticking = self.settings.display == ProgressDisplay::Ticks;
        self.ticks = is_ticking.then(|| TrialTicks::new(state));
        self.live = LiveDisplay::new(
            self.settings.display,
            self.settings.every_trial,
            self.load.as_ref(),
        );
    }

    fn end_trials(&mut self) {
        if let Some(live) = self.live.take() {
            live.clear_line();
        }
        self.ticks = None;
    }

    fn on_result(&mut self, run: &FinishedRun) -> io::Result<()> {
        let summary = if self.settings.quiet {
            format_verdict(&run.report)
        } else {
            let mut report = run.report.clone();
            let announced = run.announced.iter().chain(&self.last_warning);
            let announced: Vec<&String> = announced.collect();
            report.notes.retain(|note| !announced.contains(&note));
            format_summary(
                &report,
                run.folder.path(),
                &run.folder.shortest_reference(&default_root()),
                pooled_baseline(&run.state, &run.folder),
                run.files.iter().map(describe_file).collect(),
                stdout_width(),
            )
        };
        if self.settings.stdout_is_taken {
            say_as_it_is(summary.trim_end());
            Ok(())
        } else {
            print_page(&summary)
        }
    }

    fn wants_more(&self) -> bool {
        !(self.settings.was_stopped)()
    }
}

/// Describes a run before it starts.
fn announce_start(state: &State) {
    for line in report::lines_before_start(state) {
        print_message(&format!("  {line}"));
    }
    if let Some(runner) = cases_hint(state) {
        let text = format!("--cases counts each test that {runner} runs");
        print_message(&format!("  {text}"));
    }
    let filters = &state.trials.rules.only;
    if !filters.is_empty() && questions::of(state).only_measures() {
        let names: Vec<String> = filters.iter().map(ToString::to_string).collect();
        let names_text = names.join(", ");
        let text = format!("counting only {names_text}; other failures are counted separately");
        print_message(&format!("  {text}"));
    }
    let stop = &state.stop;
    let limits = match (stop.trials, stop.time_budget()) {
        (Some(runs), Some(DEFAULT_DURATION)) => {
            format!("at most {runs} trials or 10 minutes (-n and -d change this)")
        }
        (None, Some(DEFAULT_DURATION)) => "at most 10 minutes (-n and -d change this)".to_owned(),
        // A time without a unit is in seconds.
        (_, Some(limit)) => {
            let limit = words::format_seconds(limit.as_secs_f64());
            format!("at most {limit} (-d)")
        }
        _ => return,
    };
    print_message(&format!("  {limits}"));
}

/// Returns the test runner of a run that does not count its tests.
fn cases_hint(state: &State) -> Option<&'static str> {
    let trials = &state.trials;
    if trials.cases.is_some() || !questions::of(state).only_measures() || trials.load.is_some() {
        return None;
    }
    let runner = find_runner(&trials.variants.first()?.main_actor()?.command)?;
    Some(runner_named(&runner.name)?.title)
}

/// Returns the path of a file of a result, or the command that uses it.
pub fn describe_file(file: &ResultFile) -> SuggestedCommand {
    let short_path = |path: &Path| relative_to_cwd(path).to_safe().to_string();
    let typed = |path: &Path| shell_word(relative_to_cwd(path).as_os_str()).into_string();
    match file {
        ResultFile::Log(path) => SuggestedCommand::new("log of the search", short_path(path))
            .with_remark("edit it, and continue with --log FILE"),
        ResultFile::SmallestLoad(path) => SuggestedCommand::new(
            "send the smallest load",
            format!("provoke load {}", typed(path)),
        )
        .with_remark("add -c 1..N to find the number of clients"),
        ResultFile::Patch(path) => SuggestedCommand::new(
            "remove the unneeded parts",
            format!("patch -p1 < {}", typed(path)),
        ),
        ResultFile::Reduced(path) => SuggestedCommand::new("reduced", path.to_safe().to_string()),
        ResultFile::UnneededFiles(path) => {
            SuggestedCommand::new("files that are not needed", short_path(path))
        }
        ResultFile::Removed(count) => {
            let count = words::format_count(*count, "file");
            SuggestedCommand::new("removed", format!("{count} that are not needed"))
        }
    }
}
