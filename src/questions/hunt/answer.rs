//! Answer of `hunt`: the hold that makes a program fail, the window in the source, and both sides of the race.

use super::held_trials::{Examination, HeldCounts};
use super::memory::HuntMemory;
use super::policy::neighbour_holds;
use crate::model::{
    AccessingThread, CreationSide, Frame, Hold, HoldPoint, KnownBug, Occurrence, VariantId,
};
use crate::questions::FailureCounts;
use crate::questions::answer::{AnswerText, independence_assumptions};
use crate::state::State;
use crate::words;
use provoke_stats::{clopper_pearson, confidence_sequence, real, upper_one_sided};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Widest bar of a line of the window.
const BAR: u64 = 10;
/// Functions of a stack that are shown.
const SHOWN_FRAMES: usize = 3;
/// Races that are shown.
const SHOWN_RACES: usize = 3;
/// Beginning of the names of Go's runtime, which accesses memory of its threads without locks on purpose.
const GO_RUNTIME: &str = "runtime.";
/// Limit of the lines of the window that are shown.
const SHOWN_LINES: usize = 8;
/// With two holds, a line belongs to the window if its failure rate is at least this part of that of the best hold.
const PAIR_WINDOW: f64 = 0.5;
/// Functions of the C library that start a thread or a program.
const THREAD_STARTS: [&str; 6] = [
    "start_thread",
    "clone",
    "clone3",
    "__clone3",
    "__libc_start_call_main",
    "__libc_start_main",
];

/// The hold under which the program fails, with the numbers behind it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HuntReport {
    /// The answer in one sentence.
    pub sentence: String,
    /// Trials without holds.
    pub natural: FailureCounts,
    /// The interval of the natural failure rate; null without such a trial.
    pub natural_interval: Option<[f64; 2]>,
    /// Fresh trials under the hold that was found; null until there is one.
    pub held: Option<FailureCounts>,
    /// The interval of the failure rate under this hold.
    pub held_interval: Option<[f64; 2]>,
    /// Fresh trials in which the hold was not reached; they do not count.
    pub unreached: u64,
    /// Lower bound of the ratio of both rates; null if it is not known.
    pub times_as_often: Option<f64>,
    /// Where threads are held.
    pub places: Vec<HeldPlace>,
    /// The failure that happens under the hold, by its signature's title.
    pub crash: Option<String>,
    /// The run of `--baseline`, if it has the same failure.
    pub same_as: Option<String>,
    /// A failing trial, to repeat it.
    pub example: Option<u64>,
    /// The lines around the held point, with the trials in which a thread was held there.
    pub window: Vec<WindowLine>,
    /// Accesses of other threads to the memory that a held thread was about to access.
    pub races: Vec<RaceReport>,
    /// Number of points that the program reaches.
    pub points: u64,
    /// All trials with holds, whatever was held.
    pub tried: FailureCounts,
    /// Why threads could not be held; null if they could.
    pub refused: Option<String>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// A point at which a thread is held.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HeldPlace {
    /// The place in words: `drop() at refcount.c:7`.
    pub place: String,
    /// Name of the function, if it is known.
    pub function: Option<String>,
    /// Source file, if it is known.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Path of the executable or the shared object.
    pub object: Option<String>,
    /// Address in this file.
    pub address: Option<u64>,
    /// Which arrival is held, from 1; null for about every second one.
    pub occurrence: Option<u32>,
}

/// A line of the source, with the trials in which a thread was held before one of its instructions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WindowLine {
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Name of the function.
    pub function: Option<String>,
    /// The line, if the file can be read.
    pub text: Option<String>,
    /// Number of instructions that were tried.
    pub instructions: u64,
    /// Number of those at which trials failed.
    pub failing_instructions: u64,
    /// Trials in which a thread was held at one of them.
    pub trials: u64,
    /// Those that failed.
    pub failures: u64,
}

/// A data race that was seen: two threads access the same memory, and at least one of them writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RaceReport {
    /// Number of bytes.
    pub size: u8,
    /// Number of times it was seen.
    pub times: u64,
    /// A trial in which it was seen.
    pub trial: u64,
    /// The thread that was held before its access.
    pub held: RaceSide,
    /// The thread that accessed the memory meanwhile.
    pub other: RaceSide,
}

/// One side of a data race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RaceSide {
    /// Number of the thread, from 1 in the order of creation.
    pub thread: u32,
    /// Whether it writes.
    pub writes: bool,
    /// The functions that it runs, the innermost first.
    pub stack: Vec<String>,
    /// Source file and line.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
}

impl HuntReport {
    pub(super) fn new(
        state: &State,
        name_crash: &dyn Fn(VariantId) -> Option<String>,
    ) -> Option<Self> {
        let memory: &HuntMemory = state.learned()?;
        let alpha = state.plan.alpha.to_probability();
        let plain = state.tally_of(VariantId(0));
        let natural = FailureCounts {
            failures: plain.failures,
            trials: plain.counted_trials(),
        };
        let held_tally = state.held_tally(VariantId(0));
        let examined = memory.held_trials.best_examination();
        // The best of several examined holds is reported, so each interval shares the error rate.
        let held_alpha = alpha / real(memory.held_trials.examination_count().max(1));
        let fresh = examined.map_or_else(HeldCounts::default, |examination| examination.fresh);
        let most_frequent = held_tally
            .groups
            .values()
            .filter(|group| group.is_the_bug)
            .max_by_key(|group| (group.signature.depth, group.trials.len()));
        let held_crash = most_frequent.map(|group| group.signature.title.clone());
        let known_crash = memory.question.known.as_ref();
        let same_as = known_crash.zip(most_frequent).and_then(|(crash, group)| {
            let is_same = |bug: &KnownBug| bug.has_signature(&group.signature);
            crash.bugs.iter().any(is_same).then(|| crash.run.clone())
        });
        let mut report = Self {
            sentence: String::new(),
            natural,
            natural_interval: natural_interval(natural, alpha),
            held: examined.map(|_| FailureCounts {
                failures: fresh.failures,
                trials: fresh.trials,
            }),
            held_interval: examined.map(|_| {
                let interval = confidence_sequence(fresh.failures, fresh.trials, held_alpha);
                [interval.lo, interval.hi]
            }),
            unreached: fresh.unreached,
            times_as_often: examined.and_then(|_| ratio_of_rates(fresh, natural, held_alpha)),
            places: examined.map_or_else(Vec::new, |examination| {
                let holds = examination.holds.iter();
                holds.map(|hold| describe_place(memory, hold)).collect()
            }),
            same_as,
            crash: held_crash.or_else(|| name_crash(VariantId(0))),
            example: examined
                .and_then(|examination| examination.example)
                .map(|trial| trial.0),
            window: examined.map_or_else(Vec::new, |examination| window_lines(memory, examination)),
            races: seen_races(memory),
            points: memory.held_trials.points.in_order().len() as u64,
            tried: FailureCounts {
                failures: held_tally.failures,
                trials: held_tally.counted_trials(),
            },
            refused: memory.refused.clone(),
            assumptions: independence_assumptions(state),
        };
        report.sentence = report.write_sentence();
        Some(report)
    }

    fn write_sentence(&self) -> String {
        let natural = self.natural.in_words();
        if let (Some(held_counts), Some(interval)) = (self.held, self.held_interval) {
            let places_text = self.places_in_words();
            if self.natural.failures > 0 && self.times_as_often.is_none_or(|ratio| ratio <= 1.0) {
                return format!(
                    "It fails without a hold in {natural}, and no hold makes it fail clearly more often; the best one, if {places_text}: {} trials (95 % interval {})",
                    held_counts.in_words(),
                    words::format_interval(interval),
                );
            }
            return format!(
                "It fails in {} new trials (95 % interval {}) if {places_text}; without a hold in {natural}",
                held_counts.in_words(),
                words::format_interval(interval),
            );
        }
        if let Some(reason) = &self.refused {
            return format!(
                "NOT KNOWN: its threads cannot be held ({reason}); without a hold it failed in {natural} trials"
            );
        }
        let tried_text = self.tried.in_words();
        if self.tried.failures > 0 {
            format!(
                "NOT KNOWN YET: it failed in {tried_text} trials with holds, but no single hold makes it fail often; without a hold in {natural}"
            )
        } else if self.tried.trials == 0 {
            format!(
                "NOT KNOWN: no trial with holds was conclusive; without a hold it failed in {natural} trials"
            )
        } else {
            format!(
                "No failure: it passed in all {} trials with holds; without a hold it failed in {natural}",
                self.tried.trials
            )
        }
    }

    /// Returns where threads are held: `a thread is held at a.c:7, and another one at a.c:9`.
    fn places_in_words(&self) -> String {
        let names: Vec<&str> = self
            .places
            .iter()
            .map(|held_place| &*held_place.place)
            .collect();
        match names[..] {
            [first, second] if first == second => format!("two threads are held {first}"),
            _ => format!("a thread is held {}", names.join(", and another one ")),
        }
    }

    /// Adds the text of the source lines.
    pub fn add_source(&mut self, source_line: impl Fn(&str, u32) -> Option<String>) {
        for line in &mut self.window {
            let file_and_line = line.file.as_deref().zip(line.line);
            line.text = file_and_line.and_then(|(file, line)| source_line(file, line));
        }
    }
}

impl AnswerText for HuntReport {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.held.is_some()
            && let Some(crash) = &self.crash
        {
            let same_as = self.same_as.as_ref();
            let same_as_text =
                same_as.map_or_else(String::new, |run| format!(" (as in run {run})"));
            lines.push(format!("failure: {crash}{same_as_text}"));
        }
        if let Some(ratio) = self.times_as_often.filter(|ratio| *ratio >= 1.1) {
            // Rounded down, because it is a lower bound.
            let digits = if ratio < 10.0 { 10.0 } else { 1.0 };
            let ratio = words::format_number((ratio * digits).floor() / digits);
            lines.push(format!("at least {ratio} times as often as without a hold"));
        }
        if self.unreached > 0 {
            lines.push(format!(
                "in {} the hold was not reached; they do not count",
                words::format_count(self.unreached, "more trial")
            ));
        }
        lines.extend(self.window_text());
        lines.extend(
            self.races
                .iter()
                .take(SHOWN_RACES)
                .map(RaceReport::describe),
        );
        lines
    }

    fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

impl HuntReport {
    /// Draws the failing lines with a bar each, and counts the others.
    fn window_text(&self) -> Vec<String> {
        // If two threads are held, the other one alone may make it fail sometimes.
        let is_pair = self.places.len() > 1;
        let rate = |failures: u64, trials: u64| real(failures) / real(trials.max(1));
        let held_rate = self.held.map_or(0.0, |held_counts| {
            rate(held_counts.failures, held_counts.trials)
        });
        let is_failing = |line: &&WindowLine| {
            line.failures > 0
                && (!is_pair || rate(line.failures, line.trials) > held_rate * PAIR_WINDOW)
        };
        let (failing, passing): (Vec<_>, Vec<_>) = self.window.iter().partition(is_failing);
        let mut lines = Vec::new();
        for line in failing.iter().take(SHOWN_LINES) {
            let place_text = window_place(line);
            let text = line
                .text
                .as_ref()
                .map_or_else(String::new, |text| format!("  `{text}`"));
            let filled = (line.failures * BAR).div_ceil(line.trials.max(1));
            let bar: String = (0..BAR)
                .map(|position| if position < filled { '#' } else { '.' })
                .collect();
            lines.push(format!(
                "search: a thread held at {place_text}: {bar} {} of {} failed{text}",
                line.failures, line.trials
            ));
        }
        let hidden = &failing[failing.len().min(SHOWN_LINES)..];
        if !hidden.is_empty() {
            lines.push(format!(
                "and {} more with failures",
                words::format_count(hidden.len() as u64, "line")
            ));
        }
        let (failures, trials) = passing.iter().fold((0, 0), |(failures, trials), line| {
            (failures + line.failures, trials + line.trials)
        });
        if !lines.is_empty() && trials > 0 {
            lines.push(format!(
                "search: a thread held at the other {}: {failures} of {trials} failed",
                words::format_count(passing.len() as u64, "line")
            ));
        }
        lines
    }
}

impl RaceReport {
    /// Describes both sides.
    fn describe(&self) -> String {
        let verb = |side: &RaceSide| if side.writes { "writes" } else { "reads" };
        format!(
            "data race: thread {} {} {} at {}; meanwhile thread {} {} them at {} (seen in #{})",
            self.held.thread,
            verb(&self.held),
            words::format_count(u64::from(self.size), "byte"),
            self.held.place(),
            self.other.thread,
            verb(&self.other),
            self.other.place(),
            self.trial,
        )
    }
}

impl RaceSide {
    fn new(side: &AccessingThread) -> Self {
        let innermost = side.stack.first().and_then(|frame| frame.line.clone());
        Self {
            thread: side.thread + 1,
            writes: side.writes,
            stack: side.stack.iter().map(frame_name).collect(),
            file: innermost.as_ref().map(|(file, _)| file.clone()),
            line: innermost.map(|(_, line)| line),
        }
    }

    fn place(&self) -> String {
        let is_own = |name: &&str| !THREAD_STARTS.contains(name);
        let own_functions = self.stack.iter().map(|name| &**name).take_while(is_own);
        let stack: Vec<&str> = own_functions.take(SHOWN_FRAMES).collect();
        let stack_text = stack.join(" < ");
        match (&self.file, self.line) {
            (Some(file), Some(line)) => format!("{}:{line} in {stack_text}", base_name(file)),
            _ => stack_text,
        }
    }
}

fn frame_name(frame: &Frame) -> String {
    let module = || {
        format!(
            "{}+0x{:x}",
            frame.module.as_deref().unwrap_or("?"),
            frame.offset
        )
    };
    frame.function.clone().unwrap_or_else(module)
}

/// Returns the interval of the natural rate; one-sided without a failure.
fn natural_interval(natural: FailureCounts, alpha: f64) -> Option<[f64; 2]> {
    let FailureCounts { failures, trials } = natural;
    match (failures, trials) {
        (_, 0) => None,
        (0, trials) => Some([0.0, upper_one_sided(0, trials, alpha)]),
        _ => {
            let interval = clopper_pearson(failures, trials, alpha);
            Some([interval.lo, interval.hi])
        }
    }
}

/// Returns a lower bound of the ratio of the rates. Each bound may be wrong with half of the error rate.
fn ratio_of_rates(held_counts: HeldCounts, natural: FailureCounts, alpha: f64) -> Option<f64> {
    if natural.trials == 0 {
        return None;
    }
    // The number of trials under the hold depends on their failures.
    let held_rate = confidence_sequence(held_counts.failures, held_counts.trials, alpha).lo;
    let natural = upper_one_sided(natural.failures, natural.trials, alpha / 2.0);
    Some(held_rate / natural)
}

fn describe_place(memory: &HuntMemory, hold: &Hold) -> HeldPlace {
    let learned = memory
        .held_trials
        .points
        .get(&hold.point)
        .map(|point| &point.learned);
    let function = learned.and_then(|point| point.name.clone());
    let (file, line) = match (&hold.point, learned.and_then(|point| point.line.clone())) {
        (HoldPoint::Line { file, line }, _) => (Some(file.to_string()), Some(*line)),
        (_, Some((file, line))) => (Some(file), Some(line)),
        (_, None) => (None, None),
    };
    let occurrence = match hold.occurrence {
        Occurrence::Nth(number) => Some(number),
        Occurrence::Half(_) => None,
    };
    let occurrence_text = match (&hold.point, occurrence) {
        (HoldPoint::Start(_), _) | (_, Some(1)) => String::new(),
        (_, Some(number)) => format!(", at arrival {number}"),
        (_, None) => ", at about every second arrival".to_owned(),
    };
    let created = match occurrence {
        Some(1) | None => "the first thread or process".to_owned(),
        Some(number) => format!("thread or process number {number}"),
    };
    let (object, address) = match &hold.point {
        HoldPoint::Code(point) => (Some(point.object.to_string()), Some(point.address)),
        _ => (None, None),
    };
    let place_text = match &hold.point {
        HoldPoint::Start(CreationSide::Creator) => format!("right after it created {created}"),
        HoldPoint::Start(CreationSide::Created) => {
            format!("before its first instruction ({created} that was created)")
        }
        HoldPoint::Call { process, .. } => format!(
            "before {} in process {}",
            function.as_deref().unwrap_or("a system call"),
            process + 1
        ),
        HoldPoint::Line { .. } => {
            format!(
                "at {}",
                line_name(file.as_deref(), line, function.as_deref())
            )
        }
        HoldPoint::Code(point) if function.is_none() && line.is_none() => {
            format!(
                "at {}+0x{:x}",
                base_name(&point.object.to_string()),
                point.address
            )
        }
        HoldPoint::Code(_) => format!(
            "at {}",
            line_name(file.as_deref(), line, function.as_deref())
        ),
    };
    HeldPlace {
        place: format!("{place_text}{occurrence_text}"),
        function,
        file,
        line,
        object,
        address,
        occurrence,
    }
}

/// Returns the place of a line of the window. Without debug information, it is an address.
fn window_place(line: &WindowLine) -> String {
    match (&line.function, line.line) {
        (Some(address), None) if address.contains("+0x") => address.clone(),
        _ => line_name(line.file.as_deref(), line.line, line.function.as_deref()),
    }
}

/// Returns a place in words: `refcount.c:7 in drop()`.
fn line_name(file: Option<&str>, line: Option<u32>, function: Option<&str>) -> String {
    let function = function.map(|name| {
        if name.contains('(') {
            name.to_owned()
        } else {
            format!("{name}()")
        }
    });
    match (file.zip(line), function) {
        (Some((file, line)), Some(function)) => format!("{}:{line} in {function}", base_name(file)),
        (Some((file, line)), None) => format!("{}:{line}", base_name(file)),
        (None, Some(function)) => function,
        (None, None) => "an unknown place".to_owned(),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Counts the trials at the points around a hold by lines of the source.
fn window_lines(memory: &HuntMemory, examined: &Examination) -> Vec<WindowLine> {
    // The lines of the program come before those of libraries.
    type LineKey = (bool, Option<String>, Option<u32>, Option<String>);
    let mut lines: BTreeMap<LineKey, WindowLine> = BTreeMap::new();
    for (point, holds) in neighbour_holds(examined) {
        let counts = memory.held_trials.counts_of(holds);
        let Some(learned) = memory
            .held_trials
            .points
            .get(point)
            .map(|point| &point.learned)
        else {
            continue;
        };
        if counts.trials == 0 {
            continue;
        }
        let (file, number) = match point {
            HoldPoint::Line { file, line } => (Some(file.to_string()), Some(*line)),
            _ => learned.line.clone().unzip(),
        };
        let address = || {
            if number.is_some() {
                return None;
            }
            let point = point.as_code()?;
            let object = point.object.to_string();
            Some(format!("{}+0x{:x}", base_name(&object), point.address))
        };
        let function = learned.name.clone().or_else(address);
        let key = (learned.is_library, file.clone(), number, function.clone());
        let line = lines.entry(key).or_insert_with(|| WindowLine {
            file,
            line: number,
            function,
            text: None,
            instructions: 0,
            failing_instructions: 0,
            trials: 0,
            failures: 0,
        });
        line.instructions += 1;
        line.failing_instructions += u64::from(counts.failures > 0);
        line.trials += counts.trials;
        line.failures += counts.failures;
    }
    lines.into_values().collect()
}

/// Returns each race once, the most frequent first.
fn seen_races(memory: &HuntMemory) -> Vec<RaceReport> {
    let mut races: Vec<RaceReport> = Vec::new();
    for (trial, race) in &memory.races {
        let is_of_runtime = |side: &AccessingThread| {
            let innermost = side.stack.first().and_then(|frame| frame.function.as_ref());
            innermost.is_some_and(|name| name.starts_with(GO_RUNTIME))
        };
        if !(race.held.writes || race.other.writes)
            || is_of_runtime(&race.held)
            || is_of_runtime(&race.other)
        {
            continue;
        }
        let (held_side, other_side) = (RaceSide::new(&race.held), RaceSide::new(&race.other));
        let is_same_race = |race: &&mut RaceReport| {
            race.held.line == held_side.line
                && race.other.line == other_side.line
                && race.held.stack.first() == held_side.stack.first()
                && race.other.stack.first() == other_side.stack.first()
        };
        match races.iter_mut().find(is_same_race) {
            Some(race) => race.times += 1,
            None => races.push(RaceReport {
                size: race.size,
                times: 1,
                trial: trial.0,
                held: held_side,
                other: other_side,
            }),
        }
    }
    races.sort_by_key(|race| std::cmp::Reverse(race.times));
    races
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(_: &State) -> Vec<String> {
    vec![
        "stops one thread at a point of the program until all other threads wait, and tries each point in turn"
            .to_owned(),
    ]
}
