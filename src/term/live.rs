//! Shows the live line, and a line for each failure when it happens.

use super::counter::moving_bar;
use super::live_fit::{Importance, StatusPart, fit_status, fit_trial_line, join_parts};
use super::live_hosts::HostProgress;
use super::load_progress::{TrialStatus, watch_progress, watch_rate};
use super::screen::stderr_columns;
use super::{ProgressDisplay, pictures, print_message, safe_for_stderr, screen};
use console::{style, truncate_str};
use indicatif::ProgressBar;
use provoke_judge as judge;
use provoke_load::LoadProgress;
use provoke_model::{
    Event, EvidenceDepth, Failure, HoldPlan, InconclusiveReason, NoteLevel, Observation, Outcome,
    Trial, TrialId, VariantId,
};
use provoke_questions as questions;
use provoke_questions::{CapturePolicy, ReproductionProgress, RerunPolicy, StopRule};
use provoke_report::{ANNOUNCED_FROM, LoadMeasurements, forecast_duration as load_forecast};
use provoke_state::{EventSink, State};
use provoke_stats::real;
use provoke_words as words;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of progress lines without a terminal.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// Time over which the trials per second are counted.
const RATE_WINDOW: Duration = Duration::from_secs(10);
/// Minimum width of a terminal for a progress bar.
const WIDE: usize = 70;
/// A forecast is corrected if the run takes longer by this factor.
const SLIPPED: f64 = 1.5;
/// Number of failures of one kind that are shown individually; the rest are counted.
const SHOWN_PER_KIND: u64 = 3;

/// Shows the progress of a run.
pub(super) struct LiveDisplay {
    bar: Option<ProgressBar>,
    /// Time of the last progress line without a terminal; `None` if no such lines are requested.
    last_line: Option<Instant>,
    every_trial: bool,
    began: Instant,
    /// Time of the last end of a trial.
    last_end: Instant,
    completed_before: Option<u64>,
    shown: BTreeMap<String, u64>,
    /// Whether it was said that a deadlocked trial ends before its timeout.
    is_early_end_shown: bool,
    /// Whether the check for a long search was made.
    hinted: bool,
    /// The running trials: their starting times, and their variants if there are several.
    running: BTreeMap<TrialId, (Instant, Option<VariantId>)>,
    /// The running trials that hold threads.
    traced_trials: BTreeMap<TrialId, &'static str>,
    /// When the last trials ended, if they run on hosts.
    recent_ends: VecDeque<Instant>,
    /// Working time before this process, for a resumed run.
    worked_before: Duration,
    /// Describes the progress within the running trials.
    trial_status: Option<Box<dyn Fn() -> TrialStatus>>,
    /// Returns the responses per second of a service under load, once they are known.
    rate: Option<Box<dyn Fn() -> Option<f64>>>,
    /// The duration of the run in seconds according to the last forecast.
    announced: Option<f64>,
}

impl LiveDisplay {
    /// Creates a display; `None` if nothing is shown, or only ticks. With a load, it shows the progress within trials, and
    /// announces the duration of the run once the responses per second are known.
    pub(super) fn new(
        display: ProgressDisplay,
        every_trial: bool,
        load: Option<&Arc<LoadProgress>>,
    ) -> Option<Self> {
        let (bar, last_line) = match display {
            ProgressDisplay::Hidden | ProgressDisplay::Ticks => return None,
            ProgressDisplay::MovingLine => (Some(moving_bar("{wide_msg}")), None),
            ProgressDisplay::PlainLines => (None, Some(Instant::now())),
            ProgressDisplay::Failures => (None, None),
        };
        Some(Self {
            bar,
            last_line,
            every_trial,
            began: Instant::now(),
            last_end: Instant::now(),
            completed_before: None,
            shown: BTreeMap::new(),
            is_early_end_shown: false,
            hinted: false,
            traced_trials: BTreeMap::new(),
            recent_ends: VecDeque::new(),
            running: BTreeMap::new(),
            worked_before: Duration::ZERO,
            trial_status: load.cloned().map(watch_progress),
            rate: load.cloned().map(watch_rate),
            announced: None,
        })
    }

    /// Prints the expected duration of the run once, if it is long.
    fn print_forecast(&mut self, state: &State, speed: LoadMeasurements) {
        self.rate = None;
        // A forecast from the plan alone was printed before the start.
        let announced = load_forecast(state, None);
        let forecast = match announced {
            Some(announced) => Some(announced),
            None => {
                let forecast = load_forecast(state, Some(speed));
                if let Some(forecast) = &forecast {
                    self.print_text(2, &forecast.text);
                }
                forecast
            }
        };
        self.announced = Some(forecast.map_or(ANNOUNCED_FROM, |forecast| forecast.seconds));
    }

    /// Prints a new forecast if the run will take much longer than the last one said.
    fn correct_forecast(&mut self, state: &State) {
        let (Some(announced), Some(left)) = (
            self.announced,
            questions::of(state).expected_seconds_left(state),
        ) else {
            return;
        };
        let total = self.began.elapsed().as_secs_f64() + left;
        if total < announced * SLIPPED {
            return;
        }
        self.announced = Some(total);
        let trials = questions::policy_of(state).remaining_trials(state);
        let trials = words::format_count(trials.unwrap_or(0), "more trial");
        let left = words::format_seconds(left);
        let text = if announced > ANNOUNCED_FROM {
            format!("the run takes longer than expected: {trials}, about {left} more")
        } else {
            format!("expected: {trials} if all of them pass, about {left} more")
        };
        self.print_text(2, &text);
    }

    /// Removes the live line.
    pub(super) fn clear_line(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn print_line(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                let width = stderr_columns().unwrap_or(usize::MAX);
                bar.println(&*safe_for_stderr(&truncate_str(text, width, "…")));
            }
            None => print_message(text),
        }
    }

    /// Writes text, wrapped to the width.
    fn print_text(&self, indent: usize, text: &str) {
        let text = format!("{}{text}", " ".repeat(indent));
        for line in screen::for_stderr(&text).lines() {
            self.print_line(line);
        }
    }

    fn trial_ended(
        &mut self,
        state: &State,
        (id, variant): (TrialId, VariantId),
        of: &str,
        observation: &Observation,
        outcome: &Outcome,
    ) {
        let time = words::format_seconds(observation.elapsed.as_secs_f64());
        let text = match outcome {
            Outcome::Fail(failure) => {
                let (name, label) = describe_failure(failure);
                format!("{} {label}", style(name).red().bold())
            }
            Outcome::Other(failure) => {
                let (name, label) = describe_failure(failure);
                format!("{} {label} (not the bug looked for)", style(name).yellow())
            }
            Outcome::Inconclusive(InconclusiveReason::Interrupted) => return,
            // The loss of the host is shown instead.
            Outcome::Inconclusive(InconclusiveReason::Lost) if state.trials.hosts.is_some() => {
                return;
            }
            Outcome::Inconclusive(void) => {
                format!("{}{}", style(void).dim(), inconclusive_reason(observation))
            }
            Outcome::Pass if self.every_trial => style("ok").green().to_string(),
            Outcome::Pass => return,
        };
        if !self.every_trial {
            let name = match outcome {
                Outcome::Fail(failure) | Outcome::Other(failure) => failure.kind.name(),
                Outcome::Inconclusive(void) => void.to_string(),
                Outcome::Pass => String::new(),
            };
            let times_shown = self.shown.entry(name.clone()).or_default();
            *times_shown += 1;
            let shown = *times_shown;
            if shown == SHOWN_PER_KIND + 1 {
                self.print_line(&format!(
                    "  ...    {name}: further trials are counted, but not listed"
                ));
            }
            if shown > SHOWN_PER_KIND {
                return;
            }
        }
        let words = observation
            .actors
            .iter()
            .map(|actor| actor.crash_message.as_deref().unwrap_or(&actor.last_words))
            .find(|w| !w.is_empty());
        let words = words.map_or(String::new(), |words| {
            style(format!("  {}", words::sanitize_line(words)))
                .dim()
                .to_string()
        });
        let head = format!("  {:<6} {of}", id.to_string());
        let columns = self.bar.as_ref().and_then(|_| stderr_columns());
        self.print_line(&fit_trial_line(&head, &text, &time, &words, columns));
        if !self.is_early_end_shown
            && let Some(text) = judge::unusual_end(observation)
        {
            self.is_early_end_shown = true;
            self.print_line(&format!("         {text}"));
        }
        let trials = &state.trials;
        let conditions = trials.conditions_of(trials.variant_plan(variant));
        let limits = provoke_levers::resource_limits(&conditions);
        if let Some(killer) = judge::describe_killer(observation, &limits) {
            self.print_line(&format!("         killed by: {killer}"));
        }
        for leaked in observation.residue.leaked.iter().take(3) {
            let command: Vec<String> = leaked.command.iter().map(ToString::to_string).collect();
            self.print_line(&format!(
                "         left behind: pid {}, {}, {} KiB: {}",
                leaked.pid,
                words::format_seconds(leaked.age.as_secs_f64()),
                leaked.rss_kib,
                words::sanitize_line(&command.join(" ")),
            ));
        }
    }

    /// Prints once that a setting may shorten the search, when its rate is known.
    fn print_hint(&mut self, state: &State) {
        let is_late = questions::of(state).estimates_effort_late();
        let remaining = questions::of(state).expected_trials_left(state);
        let has_started = !is_late || remaining.is_some();
        let reproduced = questions::reproduction_progress(state) == ReproductionProgress::Yes;
        if self.hinted || !reproduced || !has_started {
            return;
        }
        self.hinted = true;
        if is_late && let Some(trials) = remaining.filter(|trials| *trials > 0) {
            let trials = words::format_count(trials, "more trial");
            let time = self.estimate_remaining_seconds(state, state.completed_trials());
            let time = time.map_or(String::new(), |time| {
                format!(", {}", words::format_seconds(time))
            });
            self.print_text(2, &format!("expected: at least {trials}{time}"));
        }
        if let Some(text) = questions::raise_hint(state) {
            self.print_text(2, &text);
        }
    }

    /// Returns the share of a run with a planned end that is done.
    fn progress_share(&self, state: &State) -> Option<f64> {
        if state.stage.runs_extra_trials() {
            return None;
        }
        let completed = real(state.completed_trials());
        let remaining = questions::policy_of(state).remaining_trials(state);
        match (remaining, state.stop.time_budget()) {
            (Some(remaining), _) => Some(completed / (completed + real(remaining)).max(1.0)),
            (None, Some(time_limit)) => {
                let spent = self.began.elapsed() + self.worked_before;
                Some(spent.as_secs_f64() / time_limit.as_secs_f64().max(1e-9))
            }
            (None, None) => None,
        }
    }

    fn status_parts(&self, state: &State) -> Vec<StatusPart> {
        let progress_part = |text: String| StatusPart::new(Importance::Progress, text);
        if state.stage.reruns_tests() {
            let (completed, planned) = RerunPolicy::completed_and_planned(state);
            return vec![progress_part(format!(
                "running failing tests alone: {completed} of {planned} trials (counted separately; Ctrl-C skips)"
            ))];
        }
        if state.stage.runs_extra_trials() {
            let (caught, wanted_crashes) = CapturePolicy::caught_and_wanted(state);
            return vec![progress_part(format!(
                "collecting stacks: {caught} of {wanted_crashes} (extra trials, not counted; Ctrl-C skips)"
            ))];
        }
        let completed = state.completed_trials();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, count) in state.arrivals_by_kind() {
            *counts.entry(kind.name()).or_default() += count;
        }
        let failed: u64 = counts.values().sum();
        let remaining = questions::policy_of(state).remaining_trials(state);
        let question = questions::of(state);
        let planned = remaining.filter(|_| !question.forecasts_trials());
        let ran = match planned {
            Some(remaining) => format!("{completed} of {} trials", completed + remaining),
            None => words::format_count(completed, "trial"),
        };
        let progress = question.progress(state);
        let (first, last) = if question.tests_a_fix() {
            // Only passing trials bring the end closer.
            (progress, None)
        } else if question.only_measures() {
            (Some(ran), describe_rate(state, failed, completed))
        } else {
            (Some(ran), progress)
        };
        let mut parts: Vec<StatusPart> = first.map(progress_part).into_iter().collect();
        parts.extend(counts.iter().map(|(name, count)| {
            let text = style(format!("{count} {name}")).red().to_string();
            StatusPart::new(Importance::Count, text)
        }));
        if state.inconclusive_trials() > 0 {
            let text = format!("{} inconclusive", state.inconclusive_trials());
            parts.push(StatusPart::new(Importance::Count, text));
        }
        parts.extend(last.map(progress_part));
        let preparing: Vec<String> = state
            .preparation
            .running
            .iter()
            .map(|id| &state.trials.variant_plan(*id).name)
            .map(|name| words::sanitize_line(name))
            .collect();
        if !preparing.is_empty() {
            let text = format!("building {}", preparing.join(", "));
            parts.push(progress_part(text));
        }
        let hosts = HostProgress::of_state(state, self.trials_per_second());
        let host_counts = hosts.as_ref().map(HostProgress::describe_counts);
        parts.extend(host_counts.map(progress_part));
        let late = self.slow_trial(completed);
        let late_text = late.map(|(trial, time)| format!("{trial} takes {}", in_seconds(time)));
        parts.extend(late_text.map(progress_part));
        let time_left = if late.is_none() { remaining } else { None };
        parts.push(progress_part(
            self.describe_time(state, completed, time_left),
        ));
        let host_failures = hosts.and_then(|hosts| hosts.describe_failures());
        let trial_status = self.trial_status.as_ref().map(|say| {
            let status = match say() {
                TrialStatus::Waiting(status) | TrialStatus::Working(status) => status,
            };
            let variant_name = self
                .running
                .values()
                .find_map(|(_, variant)| *variant)
                .map(|id| &state.trials.variant_plan(id).name);
            variant_name.map_or_else(
                || status.clone(),
                |name| format!("{}: {status}", words::sanitize_line(name)),
            )
        });
        let details = host_failures.into_iter().chain(trial_status);
        parts.extend(details.map(|text| StatusPart::new(Importance::Detail, text)));
        parts
    }

    /// Returns how many trials on hosts ended per second in the last seconds.
    fn trials_per_second(&self) -> f64 {
        let recent = self.recent_ends.iter();
        let ended = recent.filter(|end| end.elapsed() < RATE_WINDOW).count();
        let window = self.began.elapsed().min(RATE_WINDOW).as_secs_f64();
        real(ended as u64) / window.max(0.1)
    }

    /// Returns the trial that runs unusually long, and its time so far.
    fn slow_trial(&self, completed: u64) -> Option<(TrialId, Duration)> {
        let fresh = completed.saturating_sub(self.completed_before.unwrap_or(0));
        let until_last = self.last_end.duration_since(self.began);
        let usual = until_last.checked_div(u32::try_from(fresh).ok()?)?;
        let oldest = self.running.iter().min_by_key(|(_, (started, _))| *started);
        let (trial, elapsed) = oldest.map(|(trial, (started, _))| (*trial, started.elapsed()))?;
        (elapsed > LATE.max(usual * LATE_TIMES)).then_some((trial, elapsed))
    }

    /// Returns the approximate number of seconds until the end of a search.
    fn estimate_remaining_seconds(&self, state: &State, completed: u64) -> Option<f64> {
        let fresh = completed.checked_sub(self.completed_before.unwrap_or(0));
        let fresh = fresh.filter(|fresh| *fresh > 0 && state.undecided_raise().is_none())?;
        let seconds_per_trial = self.began.elapsed().as_secs_f64() / real(fresh);
        Some(seconds_per_trial * real(questions::of(state).expected_trials_left(state)?))
    }

    fn describe_time(&self, state: &State, completed: u64, remaining: Option<u64>) -> String {
        let elapsed = self.began.elapsed();
        let spent = in_seconds(elapsed);
        let fresh = completed.saturating_sub(self.completed_before.unwrap_or(0));
        match (remaining, state.stop.time_budget()) {
            (Some(remaining), _) if fresh > 0 && remaining > 0 => {
                let expected = questions::of(state).expected_seconds_left(state);
                let left = expected
                    .unwrap_or_else(|| elapsed.as_secs_f64() * real(remaining) / real(fresh));
                format!("{spent}, {} left", words::format_seconds(left))
            }
            (None, Some(time_limit)) => {
                let spent = elapsed + self.worked_before;
                format!("{} of {}", in_seconds(spent), in_seconds(time_limit))
            }
            (None, None) if self.slow_trial(completed).is_none() => {
                let left = self.estimate_remaining_seconds(state, completed);
                let left_text =
                    left.map(|remaining| format!(", {} left", words::format_seconds(remaining)));
                spent + &left_text.unwrap_or_default()
            }
            _ => spent,
        }
    }

    fn print_warning(&mut self, text: &str) {
        self.print_text(0, &format!("{} {text}", style("warning:").yellow()));
    }

    /// Remembers a running trial.
    fn trial_started(&mut self, state: &State, trial: &Trial) {
        // A search begins with one variant, and others come later.
        let is_one_of = state.trials.variants.len() > 1 || state.trials.space.is_some();
        let variant = is_one_of.then_some(trial.variant);
        self.running.insert(trial.id, (Instant::now(), variant));
        if trial.explores_schedule() {
            let holds = match trial.hold.as_deref() {
                Some(HoldPlan::Hold { .. }) => true,
                Some(HoldPlan::Record(plan)) => !plan.holds.is_empty(),
                _ => false,
            };
            let label = if holds { "held  " } else { "observed  " };
            self.traced_trials.insert(trial.id, label);
        }
    }

    /// Prints what is new with the result of a trial.
    fn trial_finished(
        &mut self,
        state: &State,
        trial: TrialId,
        observation: &Observation,
        outcome: &Outcome,
    ) {
        self.last_end = Instant::now();
        if state.trials.hosts.is_some() {
            self.recent_ends.push_back(self.last_end);
            self.recent_ends.retain(|end| end.elapsed() < RATE_WINDOW);
        }
        let variant = self.running.remove(&trial).and_then(|(_, variant)| variant);
        let held_text = self.traced_trials.remove(&trial).unwrap_or_default();
        let of = variant.map_or(held_text.to_owned(), |id| {
            let name = words::sanitize_line(&state.trials.variant_plan(id).display_label());
            format!("{}  ", style(name).bold())
        });
        if !state.stage.runs_extra_trials() || self.every_trial {
            let ended = (trial, variant.unwrap_or(VariantId(0)));
            self.trial_ended(state, ended, &of, observation, outcome);
        }
        self.print_hint(state);
        if self.rate.is_some() && *outcome == Outcome::Pass {
            self.print_forecast(state, LoadMeasurements::ServiceRun(observation.elapsed));
        }
        self.correct_forecast(state);
    }
}

fn in_seconds(time: Duration) -> String {
    words::format_seconds(time.as_secs_f64())
}

/// A trial is late if it runs this many times longer than others, and at least [`LATE`].
const LATE_TIMES: u32 = 5;
/// Minimum time after which a trial is late.
const LATE: Duration = Duration::from_secs(2);

impl EventSink for LiveDisplay {
    fn on_event(&mut self, event: &Event, state: &State) {
        if self.completed_before.is_none() {
            self.completed_before = Some(state.completed_trials());
            self.worked_before = state.worked;
        }
        match event {
            Event::TrialStarted(trial) => self.trial_started(state, trial),
            Event::TrialFinished {
                trial,
                seen,
                outcome,
                ..
            } => self.trial_finished(state, *trial, seen, outcome),
            Event::TrialWithdrawn(trial) => {
                self.running.remove(trial);
            }
            Event::SettingChosen(_) => {
                if let Some(text) = questions::describe_raised(state) {
                    self.print_text(2, &text);
                }
            }
            Event::HostJoined { joined, .. } => {
                let machine = &joined.machine;
                let slots = words::format_count(u64::from(joined.slots), "trial");
                let text = words::sanitize_line(&format!(
                    "host {}: {slots} at once, {}, {}",
                    joined.destination, machine.kernel, machine.cpu
                ));
                self.print_text(2, &text);
            }
            Event::HostMissing { name, why, .. } => {
                let text =
                    format!("the host `{name}` cannot start: {why}; the trials run without it");
                self.print_warning(&words::sanitize_line(&text));
            }
            Event::HostLost { host, why, .. } => {
                let hosts = state.hosts.all();
                let name = hosts
                    .get(host.0 as usize)
                    .map(|host| host.joined.destination.as_str());
                let text = words::sanitize_line(&format!(
                    "the host `{}` was lost: {why}; its trials run again on another host",
                    name.unwrap_or_default()
                ));
                self.print_warning(&text);
            }
            // The summary shows how often each warning occurred.
            Event::Note {
                level: NoteLevel::Warning,
                text,
            } if state
                .notes
                .iter()
                .any(|(shown_text, times)| shown_text == text && *times > 1) => {}
            Event::Note { level, text } => {
                let (text, output) = screen::split_note(text);
                match level {
                    NoteLevel::Info => self.print_text(2, &text),
                    NoteLevel::Warning => self.print_warning(&text),
                }
                for line in output {
                    self.print_line(&line);
                }
            }
            _ => {}
        }
    }

    fn on_tick(&mut self, state: &State) {
        if let Some(rate) = self.rate.as_ref().and_then(|rate| rate()) {
            self.print_forecast(state, LoadMeasurements::Answers(rate));
        }
        if let Some(bar) = &self.bar {
            let columns = stderr_columns().unwrap_or(usize::MAX);
            let wait = self.trial_status.as_ref().and_then(|say| match say() {
                TrialStatus::Waiting(wait) => Some(words::sanitize_line(&wait)),
                TrialStatus::Working(_) => None,
            });
            // Nothing else happens until the service is ready.
            let parts = match wait {
                Some(wait) => vec![StatusPart::new(Importance::Progress, wait)],
                None => {
                    let share = self.progress_share(state).filter(|_| columns >= WIDE);
                    let picture = share.map(pictures::draw_progress);
                    picture
                        .map(|picture| StatusPart::new(Importance::Picture, picture))
                        .into_iter()
                        .chain(self.status_parts(state))
                        .collect()
                }
            };
            let status = fit_status(parts, columns.saturating_sub(2));
            bar.set_message(safe_for_stderr(&format!("  {status}")).into_string());
            bar.tick();
        } else if self
            .last_line
            .is_some_and(|last| last.elapsed() >= NOW_AND_THEN)
        {
            self.last_line = Some(Instant::now());
            print_message(&format!(
                "  {}",
                console::strip_ansi_codes(&join_parts(&self.status_parts(state)))
            ));
        }
    }
}

/// Returns the failure rate of a single variant with the interval that is valid at any moment, in which trials count in the
/// order in which they started; of several variants, the share of failures in the displayed counts.
fn describe_rate(state: &State, failed: u64, completed: u64) -> Option<String> {
    if let [_] = state.trials.variants.as_slice() {
        let tally = state.tally_of(VariantId(0));
        let alpha = state.goal.alpha.to_probability();
        let rate = StopRule::Decision.interval(tally.failures, tally.counted_trials(), alpha);
        return (tally.counted_trials() > 0)
            .then(|| format!("rate {}", words::format_interval(rate.ends())));
    }
    let share = real(failed) / real(completed.max(1));
    (failed > 0).then(|| format!("{} %", words::format_percent(share)))
}

/// Returns the name of a failure, and the text after it.
fn describe_failure(failure: &Failure) -> (String, String) {
    if failure.signature.depth > EvidenceDepth::Output {
        return (
            words::sanitize_line(&failure.signature.title),
            String::new(),
        );
    }
    let label = failure.kind.evidence_label();
    let label_text = label.map_or_else(String::new, |label| format!("({label})"));
    (failure.kind.name(), label_text)
}

/// Returns why a trial is inconclusive.
fn inconclusive_reason(observation: &Observation) -> String {
    let unprepared = observation
        .prepare
        .as_ref()
        .map(|hook| hook.output.trim().to_owned());
    let reason = observation
        .not_started()
        .or(unprepared)
        .or_else(|| observation.lost.clone())
        .or_else(|| observation.not_ready())
        .unwrap_or_default();
    let last = reason.lines().last().unwrap_or_default();
    if last.is_empty() {
        String::new()
    } else {
        format!(": {}", words::sanitize_line(last))
    }
}
