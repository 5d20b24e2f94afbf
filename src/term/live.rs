//! Shows the live line, and a line for each failure when it happens.

use super::{safe, say, screen};
use crate::model::{
    Depth, Event, Failure, Find, Level, Observation, Outcome, Question, TrialId, VariantId, Void,
};
use crate::oracle;
use crate::policy::{self, Collect, Progress, Race, Ramp, Search, Standing};
use crate::report::{Speed, answer, forecast as load_forecast, words};
use crate::state::{Reproduced, Sink, State};
use console::{Term, style, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use provoke_stats::real;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Without a terminal, a line so often.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// Failures of one kind that are shown one by one; the rest is counted.
const SHOWN_PER_KIND: u64 = 3;
/// Variants whose evidence is shown.
const CONTRASTS: usize = 4;

/// Shows how it goes.
pub struct Live {
    bar: Option<ProgressBar>,
    /// Without a terminal: when a line was last written. Never, if none is wanted.
    last_line: Option<Instant>,
    every_trial: bool,
    began: Instant,
    /// When the last trial ended.
    last_end: Instant,
    completed_before: Option<u64>,
    shown: BTreeMap<String, u64>,
    /// Whether a search is long was looked at.
    hinted: bool,
    /// The trials that run: since when, and of which variant if there are several.
    running: BTreeMap<TrialId, (Instant, Option<VariantId>)>,
    /// Working time before this process, of a run that was resumed.
    worked_before: Duration,
    /// Says what goes on within the trials that run.
    within: Option<Box<dyn Fn() -> String>>,
    /// Returns how many answers a second a service under load gives, once that is known.
    rate: Option<Box<dyn Fn() -> Option<f64>>>,
}

impl Live {
    /// A line that rewrites itself.
    pub fn moving(every_trial: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("a fixed template"));
        Self {
            bar: Some(bar),
            ..Self::new(every_trial)
        }
    }

    /// Plain lines now and then.
    pub fn plain(every_trial: bool) -> Self {
        Self {
            last_line: Some(Instant::now()),
            ..Self::new(every_trial)
        }
    }

    /// Nothing but failures as they happen.
    pub fn still(every_trial: bool) -> Self {
        Self::new(every_trial)
    }

    fn new(every_trial: bool) -> Self {
        Self {
            bar: None,
            last_line: None,
            every_trial,
            began: Instant::now(),
            last_end: Instant::now(),
            completed_before: None,
            shown: BTreeMap::new(),
            hinted: false,
            running: BTreeMap::new(),
            worked_before: Duration::ZERO,
            within: None,
            rate: None,
        }
    }

    /// Shows also what goes on within trials, where there is something to see.
    #[must_use]
    pub fn with(mut self, within: Option<Box<dyn Fn() -> String>>) -> Self {
        self.within = within;
        self
    }

    /// Says how long the run will take, once the answers per second are known.
    #[must_use]
    pub fn forecasting(mut self, rate: Option<Box<dyn Fn() -> Option<f64>>>) -> Self {
        self.rate = rate;
        self
    }

    /// Prints how long the run will take, if that is long; once.
    fn forecast(&mut self, state: &State, speed: Speed) {
        self.rate = None;
        // A forecast from the plan alone was printed before the start.
        if load_forecast(state, None).is_none()
            && let Some(text) = load_forecast(state, Some(speed))
        {
            self.text(2, &text);
        }
    }

    /// Takes the live line away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                let width = Term::stderr().size_checked().map(|(_, columns)| columns);
                let width = width.map_or(usize::MAX, usize::from);
                bar.println(&*safe(&truncate_str(text, width, "…")));
            }
            None => say(text),
        }
    }

    /// Writes text, broken where it does not fit.
    fn text(&self, indent: usize, text: &str) {
        let text = format!("{}{text}", " ".repeat(indent));
        for line in screen::for_stderr(&text).lines() {
            self.line(line);
        }
    }

    fn ended(
        &mut self,
        state: &State,
        id: TrialId,
        of: &str,
        seen: &Observation,
        outcome: &Outcome,
    ) {
        let time = words::seconds(seen.elapsed.as_secs_f64());
        let text = match outcome {
            Outcome::Fail(failure) => {
                let (name, about) = called(failure);
                format!("{} {about}", style(name).red().bold())
            }
            Outcome::Other(failure) => {
                let (name, about) = called(failure);
                format!("{} {about} (not the bug looked for)", style(name).yellow())
            }
            Outcome::Void(Void::Interrupted) => return,
            Outcome::Void(void) => format!("{}{}", style(void).dim(), why(seen)),
            Outcome::Pass if self.every_trial => style("ok").green().to_string(),
            Outcome::Pass => return,
        };
        if !self.every_trial {
            let name = match outcome {
                Outcome::Fail(failure) | Outcome::Other(failure) => failure.kind.name(),
                Outcome::Void(void) => void.to_string(),
                Outcome::Pass => String::new(),
            };
            let shown = self.shown.entry(name.clone()).or_default();
            *shown += 1;
            let shown = *shown;
            if shown == SHOWN_PER_KIND + 1 {
                self.line(&format!("  ...    more {name}: counted, not shown"));
            }
            if shown > SHOWN_PER_KIND {
                return;
            }
        }
        let words = seen
            .actors
            .iter()
            .map(|actor| actor.telling.as_deref().unwrap_or(&actor.last_words))
            .find(|w| !w.is_empty());
        let words = words.map_or(String::new(), |words| {
            style(format!("  {}", words::sanitize(words)))
                .dim()
                .to_string()
        });
        self.line(&format!(
            "  {:<6} {of}{text}  {time}{words}",
            id.to_string()
        ));
        if let Some(killer) = oracle::killer(seen, &state.plan.limits) {
            self.line(&format!("         killed by: {killer}"));
        }
        for leaked in seen.residue.leaked.iter().take(3) {
            let command: Vec<String> = leaked.command.iter().map(ToString::to_string).collect();
            self.line(&format!(
                "         left behind: pid {}, {}, {} KiB: {}",
                leaked.pid,
                words::seconds(leaked.age.as_secs_f64()),
                leaked.rss_kib,
                words::sanitize(&command.join(" ")),
            ));
        }
        for object in seen.residue.objects.iter().take(3) {
            let object = words::sanitize(&object.to_string());
            self.line(&format!("         left behind: {object}"));
        }
    }

    /// Says once, when the rate of a search is known, that a setting may shorten it.
    fn hint(&mut self, state: &State) {
        let reduces = matches!(state.plan.question, Question::Reduce(_));
        let begun = !reduces || state.reduction.is_some();
        if self.hinted || state.reproduced() != Reproduced::Yes || !begun {
            return;
        }
        self.hinted = true;
        if reduces && let Some(trials) = policy::trials_left(state) {
            let trials = words::plural(trials, "more trial");
            let time = self.estimate(state, state.completed());
            let time = time.map_or(String::new(), |time| format!(", {}", words::seconds(time)));
            self.text(2, &format!("expected: at least {trials}{time}"));
        }
        if let Some(text) = answer::raise_hint(state) {
            self.text(2, &text);
        }
    }

    fn status(&self, state: &State) -> String {
        if state.capturing {
            let (caught, wanted) = Collect::caught(state);
            return format!(
                "collecting stacks: {caught} of {wanted} (extra trials, not counted; Ctrl-C skips)"
            );
        }
        let completed = state.completed();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, count) in state.arrivals() {
            *counts.entry(kind.name()).or_default() += count;
        }
        let failed: u64 = counts.values().sum();
        let left = policy::of(&state.plan).left(state);
        let ran = match left {
            Some(left) => format!("{completed} of {} trials", completed + left),
            None => words::plural(completed, "trial"),
        };
        let (first, last) = match &state.plan.question {
            // Only passing trials bring it nearer.
            Question::Confirm(_) => (progress(state), None),
            Question::Rate => (Some(ran), rate(failed, completed)),
            _ => (Some(ran), progress(state)),
        };
        let mut parts: Vec<String> = first.into_iter().collect();
        parts.extend(
            counts
                .iter()
                .map(|(name, count)| style(format!("{count} {name}")).red().to_string()),
        );
        if state.void() > 0 {
            parts.push(format!("{} inconclusive", state.void()));
        }
        parts.extend(last);
        let making = state.making.iter().map(|id| &state.plan.variant(*id).name);
        let making: Vec<String> = making.map(|name| words::sanitize(name)).collect();
        if !making.is_empty() {
            parts.push(format!("building {}", making.join(", ")));
        }
        let late = self.late(completed);
        parts.extend(late.map(|(trial, time)| format!("{trial} takes {}", in_seconds(time))));
        parts.push(self.time(state, completed, left.filter(|_| late.is_none())));
        // Last, because a narrow terminal cuts it off.
        parts.extend(self.within.as_ref().map(|say| {
            let of = self.running.values().find_map(|(_, variant)| *variant);
            let of = of.map(|id| &state.plan.variant(id).name);
            of.map_or_else(&say, |name| format!("{}: {}", words::sanitize(name), say()))
        }));
        parts.join("   ")
    }

    /// Returns the trial that runs unusually long, and its time so far.
    fn late(&self, completed: u64) -> Option<(TrialId, Duration)> {
        let fresh = completed.saturating_sub(self.completed_before.unwrap_or(0));
        let until_last = self.last_end.duration_since(self.began);
        let usual = until_last.checked_div(u32::try_from(fresh).ok()?)?;
        let oldest = self.running.iter().min_by_key(|(_, (since, _))| *since);
        let (trial, since) = oldest.map(|(trial, (since, _))| (*trial, since.elapsed()))?;
        (since > LATE.max(usual * LATE_TIMES)).then_some((trial, since))
    }

    /// Returns in about how many seconds a search ends.
    fn estimate(&self, state: &State, completed: u64) -> Option<f64> {
        let fresh = completed.checked_sub(self.completed_before.unwrap_or(0));
        let fresh = fresh.filter(|fresh| *fresh > 0 && state.raising().is_none())?;
        let each = self.began.elapsed().as_secs_f64() / real(fresh);
        Some(each * real(policy::trials_left(state)?))
    }

    fn time(&self, state: &State, completed: u64, left: Option<u64>) -> String {
        let elapsed = self.began.elapsed();
        let spent = in_seconds(elapsed);
        let fresh = completed.saturating_sub(self.completed_before.unwrap_or(0));
        match (left, state.plan.stop.duration()) {
            (Some(left), _) if fresh > 0 && left > 0 => {
                let left = elapsed.as_secs_f64() * real(left) / real(fresh);
                format!("{spent}, {} left", words::seconds(left))
            }
            (None, Some(most)) => {
                let spent = elapsed + self.worked_before;
                format!("{} of {}", in_seconds(spent), in_seconds(most))
            }
            (None, None) if self.late(completed).is_none() => {
                let left = self.estimate(state, completed);
                let left = left.map(|left| format!(", {} left", words::seconds(left)));
                spent + &left.unwrap_or_default()
            }
            _ => spent,
        }
    }
}

fn in_seconds(time: Duration) -> String {
    words::seconds(time.as_secs_f64())
}

/// A trial that runs so much longer than the others take is late ...
const LATE_TIMES: u32 = 5;
/// ... but not before this time.
const LATE: Duration = Duration::from_secs(2);

impl Sink for Live {
    fn event(&mut self, event: &Event, state: &State) {
        if self.completed_before.is_none() {
            self.completed_before = Some(state.completed());
            self.worked_before = state.worked;
        }
        match event {
            Event::TrialStarted(trial) => {
                // A search begins with one variant, and others come later.
                let is_one_of = state.plan.variants.len() > 1 || state.plan.space.is_some();
                let variant = is_one_of.then_some(trial.variant);
                self.running.insert(trial.id, (Instant::now(), variant));
            }
            Event::TrialFinished {
                trial,
                seen,
                outcome,
                ..
            } => {
                self.last_end = Instant::now();
                let variant = self.running.remove(trial).and_then(|(_, variant)| variant);
                let of = variant.map_or(String::new(), |of| {
                    let name = words::sanitize(&state.plan.variant(of).label());
                    format!("{}  ", style(name).bold())
                });
                if !state.capturing || self.every_trial {
                    self.ended(state, *trial, &of, seen, outcome);
                }
                self.hint(state);
                if self.rate.is_some() && *outcome == Outcome::Pass {
                    self.forecast(state, Speed::ServiceRun(seen.elapsed));
                }
            }
            Event::SettingChosen(_) => {
                if let Some(text) = answer::raised(state) {
                    self.text(2, &text);
                }
            }
            // The summary tells how often it came.
            Event::Note {
                level: Level::Warning,
                text,
            } if state
                .notes
                .iter()
                .any(|(known, times)| known == text && *times > 1) => {}
            Event::Note { level, text } => {
                let text = words::sanitize(text);
                match level {
                    Level::Info => self.text(2, &text),
                    Level::Warning => {
                        self.text(0, &format!("{} {text}", style("warning:").yellow()));
                    }
                }
            }
            _ => {}
        }
    }

    fn tick(&mut self, state: &State) {
        if let Some(rate) = self.rate.as_ref().and_then(|rate| rate()) {
            self.forecast(state, Speed::Answers(rate));
        }
        if let Some(bar) = &self.bar {
            bar.set_message(safe(&format!("  {}", self.status(state))).into_string());
            bar.tick();
        } else if self
            .last_line
            .is_some_and(|last| last.elapsed() >= NOW_AND_THEN)
        {
            self.last_line = Some(Instant::now());
            say(&format!(
                "  {}",
                console::strip_ansi_codes(&self.status(state))
            ));
        }
    }
}

/// How far the answer has come, by the trials that count.
fn progress(state: &State) -> Option<String> {
    match &state.plan.question {
        Question::Rate => None,
        Question::Ramp(_) => ramped(state),
        Question::Confirm(_) => {
            let progress = Progress::of(state)?;
            let needed = progress.needed?;
            Some(format!("{} of {needed} passed", progress.clean))
        }
        Question::Bisect(_) | Question::Reduce(_) if state.raising().is_some() => trying(state),
        Question::Bisect(_) => narrowed(state),
        Question::Reduce(_) => found(state),
        Question::Shrink(_) => answer::trying(state),
        Question::Compare(asked) if asked.find == Find::Failing => {
            let standings = Race::standings(state);
            let count = |wanted| standings.iter().filter(|one| **one == wanted).count();
            let (fail, open) = (count(Standing::Fails), count(Standing::Open));
            let passed = standings.iter().filter(|one| one.passed()).count();
            let word = match asked.floor {
                Some(_) => "clean",
                None => "fail less",
            };
            let needed = Race::needed(state).map_or(String::new(), |n| format!(" (after {n})"));
            Some(format!(
                "{fail} fail   {passed} {word}{needed}   {open} not known"
            ))
        }
        Question::Compare(_) => {
            let enough = words::number(policy::threshold(state).exp());
            let evidence = state.contrasts.iter().map(|one| {
                let evidence = one.evidence.ln_e_max().exp();
                format!(
                    "{} {}",
                    words::sanitize(&one.other),
                    words::number(evidence)
                )
            });
            let evidence: Vec<String> = evidence.take(CONTRASTS).collect();
            Some(format!("evidence of {enough}: {}", evidence.join(", ")))
        }
    }
}

/// The setting that is tried now.
fn trying(state: &State) -> Option<String> {
    let variant = state.plan.variant(state.last_launched?);
    let setting = variant.setting.filter(|setting| !setting.is_as_planned());
    Some(setting.map_or_else(
        || "reproducing the failure".to_owned(),
        |setting| format!("trying {setting}"),
    ))
}

/// What a search has narrowed it down to.
fn narrowed(state: &State) -> Option<String> {
    let search = Search::of(state)?;
    let places = state.plan.space.as_ref()?.choices.places();
    let all = places.len();
    if search.known.counts(all - 1).0 == 0 {
        return Some("reproducing the failure".to_owned());
    }
    let left = search.known.credible_set(1.0 - state.plan.alpha.value());
    let group = search.known.likeliest();
    let best = &places[group.last.min(all - 1)].name;
    Some(format!(
        "{} of {all} left   best guess {} ({} %)",
        left.len(),
        words::sanitize(best),
        words::percent(group.mass),
    ))
}

/// What is known of the levels of load so far.
fn ramped(state: &State) -> Option<String> {
    let ramp = state.ramp.as_ref()?;
    let name = |level: usize| words::sanitize(&state.plan.variants[level].name);
    let fails = ramp.lowest_failing();
    if let Some((below, seen, more)) = ramp.guarding(&Ramp::rule(state)) {
        let needed = seen + more;
        return Some(format!("{}: {seen} of {needed} passed", name(below)));
    }
    match fails {
        Some(level) => {
            let left = ramp.credible(1.0 - state.plan.alpha.value()).len() as u64;
            let left = words::plural(left, "level");
            Some(format!("fails at {}   {left} left", name(level)))
        }
        None => {
            let tried = ramp.lives().iter().rposition(|lives| lives.runs > 0)?;
            Some(format!("no failure up to {}", name(tried)))
        }
    }
}

/// What a search found to be needed so far.
fn found(state: &State) -> Option<String> {
    let Some(reduction) = &state.reduction else {
        return Some("reproducing the failure".to_owned());
    };
    let things = state.plan.space.as_ref()?.len();
    let found = reduction.answer().needed.len();
    Some(if reduction.is_found() {
        format!("{found} of {things} needed, confirming")
    } else {
        format!("{found} of {things} needed so far")
    })
}

/// The share of failures in the counts that are shown.
fn rate(failed: u64, completed: u64) -> Option<String> {
    let share = real(failed) / real(completed.max(1));
    (failed > 0).then(|| format!("{} %", words::percent(share)))
}

/// The name of a failure, and what follows it.
fn called(failure: &Failure) -> (String, String) {
    if failure.signature.depth > Depth::Output {
        return (words::sanitize(&failure.signature.title), String::new());
    }
    let label = failure.kind.label();
    let about = label.map_or_else(String::new, |label| format!("({label})"));
    (failure.kind.name(), about)
}

/// Why a trial is inconclusive.
fn why(seen: &Observation) -> String {
    use crate::model::Ending;
    let not_started = seen.actors.iter().find_map(|actor| match &actor.ending {
        Ending::NotStarted(why) => Some(why.clone()),
        _ => None,
    });
    let unprepared = seen
        .prepare
        .as_ref()
        .map(|hook| hook.output.trim().to_owned());
    let why = not_started
        .or(unprepared)
        .or_else(|| seen.lost.clone())
        .or_else(|| seen.not_ready())
        .unwrap_or_default();
    let last = why.lines().last().unwrap_or_default();
    if last.is_empty() {
        String::new()
    } else {
        format!(": {}", words::sanitize(last))
    }
}
