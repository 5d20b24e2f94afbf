//! Describes one trial with all evidence of its failure.

use super::super::service_trial::service_run_lines;
use super::super::source_line;
use super::lines::WrappedText;
use super::{
    DETAILS, describe_site, hang_story, push_details, push_headline, push_source_line, push_stacks,
};
use provoke_judge as judge;
use provoke_judge::unusual_end;
use provoke_levers::{resource_limits, typed_conditions};
use provoke_model::{
    Autopsy, Ending, EvidenceDepth, Failure, FailureKind, LoadPlan, Observation, Outcome,
    Signature, Site, TrialConditions, TrialId, WaitObject,
};
use provoke_words::untrusted::shell_word;
use provoke_words::{
    format_bytes, format_count, format_seconds, plural_of, sanitize_line, without_colours,
};
use std::path::Path;

/// The facts for the description of a trial.
pub struct TrialDetails<'a> {
    /// Number.
    pub trial: TrialId,
    /// The name of its variant; empty if there is one only.
    pub variant: &'a str,
    /// Whether it was an extra trial that captured evidence.
    pub is_captured: bool,
    /// Outcome.
    pub outcome: &'a Outcome,
    /// The apparent hang of the trial when the run was stopped.
    pub seeming_hang: Option<&'a Failure>,
    /// Observation.
    pub observation: &'a Observation,
    /// Where its threads were held, and the data races seen meanwhile.
    pub holds: &'a [String],
    /// Conditions.
    pub conditions: &'a TrialConditions,
    /// The load, if it was a trial of a service under load.
    pub load: Option<&'a LoadPlan>,
    /// The requests in flight when the service crashed, oldest first.
    pub in_flight: &'a [RequestInFlight],
    /// Analyses of the cores of its processes.
    pub stories: &'a [Autopsy],
    /// The last lines that it wrote to stderr, or else to stdout.
    pub output: &'a [String],
    /// Another trial with the same failure and more evidence.
    pub better: Option<&'a BetterTrial>,
    /// The other failures of the run, each with its command, if the trial stands for the run.
    pub others: &'a [String],
    /// Width in columns.
    pub width: usize,
    /// Whether all registers and threads are shown in full.
    pub verbose: bool,
}

/// A trial with the same failure as another one, and more evidence.
#[derive(Clone, Debug)]
pub struct BetterTrial {
    /// Its number.
    pub trial: TrialId,
    /// Its failure.
    pub failure: Failure,
    /// The command that explains it.
    pub command: String,
}

/// A request in flight when the service crashed.
pub struct RequestInFlight {
    /// Its first line: method and target.
    pub request: String,
    /// The client that sent it.
    pub client: u64,
    /// Time between its sending and the crash, in seconds.
    pub age: f64,
    /// Its phase: `connect`, `write`, `head` or `body`.
    pub part: String,
    /// Number of received bytes of the response.
    pub received: u64,
}

/// Describes a trial.
pub fn trial_story(details: &TrialDetails<'_>) -> String {
    let mut lines = WrappedText::new(details.width);
    match details.outcome {
        Outcome::Pass => {
            lines.push_line(&match details.holds {
                [] => format!("{} passed: there is nothing to explain.", details.trial),
                _ => format!("{} passed.", details.trial),
            });
            for line in details.holds {
                lines.push_detail(line);
            }
            push_load_lines(details, &mut lines);
        }
        Outcome::Inconclusive(void) => match details.seeming_hang {
            Some(hang) => push_failure(details, hang, &mut lines),
            None => {
                lines.push_line(&format!("{} is inconclusive: {void}.", details.trial));
                push_inconclusive_reason(details.observation, &mut lines);
                push_load_lines(details, &mut lines);
            }
        },
        Outcome::Fail(failure) | Outcome::Other(failure) => {
            push_failure(details, failure, &mut lines);
        }
    }
    lines.into_text()
}

/// Says why a trial is not counted, with the last lines of a hook that failed.
fn push_inconclusive_reason(observation: &Observation, lines: &mut WrappedText) {
    let reason = observation
        .not_started()
        .or_else(|| observation.lost.clone())
        .or_else(|| observation.not_ready());
    if let Some(reason) = reason {
        lines.push_detail(&sanitize_line(&reason));
    }
    if let Some(hook) = &observation.prepare {
        lines.push_detail(&format!("it ended with {}; its last lines:", hook.ending));
        let output: Vec<&str> = hook.output.trim_end().lines().collect();
        for line in &output[output.len().saturating_sub(HOOK_LINES)..] {
            lines.push_quoted(&sanitize_line(&without_colours(line)));
        }
    }
}

fn push_failure(details: &TrialDetails<'_>, failure: &Failure, lines: &mut WrappedText) {
    let observation = details.observation;
    let shown = |autopsy: &&Autopsy| details.verbose || is_shown(observation, autopsy);
    let stories: Vec<&Autopsy> = details.stories.iter().filter(shown).collect();
    let first = first_story(failure, &stories);
    what_and_where(details, failure, first, lines);
    if !details.variant.is_empty() {
        lines.push_detail(&format!("a trial of {}", sanitize_line(details.variant)));
    }
    for line in details.holds {
        lines.push_detail(line);
    }
    if details.is_captured {
        lines.push_detail("an extra trial after the measurement, for evidence; it is not counted");
    }
    if details.seeming_hang.is_some() {
        let ran = format_seconds(observation.elapsed.as_secs_f64());
        lines.push_detail(&format!(
            "still running after {ran} when the run was stopped, and not counted"
        ));
    }
    push_hang(details, failure, lines);
    let is_leak = failure.kind == FailureKind::Leak;
    if is_leak && observation.residue.process_count() > 0 {
        lines.push_gap();
        push_left_behind(observation, lines);
    }
    for autopsy in &stories {
        if first.is_none_or(|first| !std::ptr::eq(first, *autopsy)) {
            lines.push_gap();
            push_headline(
                lines,
                &format!("process {}: ", autopsy.crash.pid),
                &autopsy.crash,
            );
        }
        push_stacks(lines, autopsy, details.verbose);
    }
    if !details.output.is_empty() {
        lines.push_gap();
        lines.push_line("Last lines of its output:");
        for line in details.output {
            lines.push_quoted(&sanitize_line(line));
        }
    }
    if !details.in_flight.is_empty() {
        lines.push_gap();
        in_flight(details, lines);
    }
    lines.push_gap();
    lines.push_line(DETAILS);
    if let Some(text) = unusual_end(observation) {
        lines.push_detail(&text);
    } else if details.seeming_hang.is_none() {
        lines.push_detail(&format!(
            "{}: {}",
            failure.kind,
            failure.kind.meaning_words()
        ));
    }
    push_endings(details, lines);
    lines.push_detail(&known_by(&failure.signature));
    for autopsy in &stories {
        push_details(lines, autopsy, details.verbose);
    }
    if !is_leak && observation.residue.process_count() > 0 {
        lines.push_gap();
        push_left_behind(observation, lines);
    }
    // A stack has more detail than a line of the kernel's log.
    if details.verbose || stories.is_empty() {
        for line in &observation.kernel {
            lines.push_prose("  kernel log: ", &sanitize_line(&line.text));
        }
    }
    push_core_files(observation, &stories, lines);
    if let Some(better) = details.better {
        push_better_trial(better, failure, lines);
    }
    if !details.others.is_empty() {
        lines.push_gap();
        lines.push_line("Other failures of the run:");
        for other in details.others {
            lines.push_detail(other);
        }
    }
}

/// Describes the processes of a hang thread by thread.
fn push_hang(details: &TrialDetails<'_>, failure: &Failure, lines: &mut WrappedText) {
    let Some(hang) = &details.observation.hang else {
        return;
    };
    let mut actors = details.observation.actors.iter();
    let is_over = details.seeming_hang.is_none();
    let hung = actors.find(|actor| match actor.ending {
        Ending::TimedOut { .. } => true,
        _ => !is_over,
    });
    // The lines of source code already show which thread waits for which.
    let mut cycle = hang.cycle.iter().filter_map(|tid| hang.find_thread(*tid));
    let is_shown = hang.cycle.len() > 1
        && failure.sites.len() >= hang.cycle.len()
        && !cycle.any(|thread| matches!(thread.waits_on, Some(WaitObject::RwLock { .. })));
    hang_story(lines, hang, hung.map(|actor| actor.pid), is_shown);
}

/// Says how to open the cores in a debugger, or where they are if their program is not known.
fn push_core_files(observation: &Observation, stories: &[&Autopsy], lines: &mut WrappedText) {
    let cores = observation.cores.iter();
    for core in cores.filter(|core| !core.file.as_os_str().is_empty()) {
        let mut stories = stories.iter();
        let program = stories
            .find(|autopsy| autopsy.crash.pid == core.pid)
            .and_then(|autopsy| autopsy.program_path())
            .filter(|program| Path::new(program).is_file());
        if let Some(program) = program {
            let [program, file] = [program.as_ref(), core.file.as_os_str()].map(shell_word);
            lines.push_line(&format!("  in a debugger: gdb {program} {file}"));
            continue;
        }
        let unread = core
            .unread
            .as_ref()
            .map_or(String::new(), |reason| format!(" (not read: {reason})"));
        lines.push_line(&sanitize_line(&format!("  core: {}{unread}", core.file)));
    }
}

/// Names a trial with the same failure and more evidence.
fn push_better_trial(better: &BetterTrial, failure: &Failure, lines: &mut WrappedText) {
    // Many bugs end with the same exit status.
    let same_text = if failure.signature.depth == EvidenceDepth::Status {
        "which ended in the same way and may be the same bug"
    } else {
        "which has the same failure"
    };
    lines.push_gap();
    let crash = &better.failure;
    let site = Site::naming_site(&crash.sites);
    let site_text = site.map_or(String::new(), |site| format!(" at {site}"));
    let title = format!("{}{site_text}", crash.signature.title);
    lines.push_prose(
        "",
        &format!(
            "More is known of {}, {same_text}: {}",
            better.trial,
            sanitize_line(&title)
        ),
    );
    lines.push_line(&format!("  {}", better.command));
}

/// Describes the kind and place of a failure.
fn what_and_where(
    details: &TrialDetails<'_>,
    failure: &Failure,
    story: Option<&Autopsy>,
    lines: &mut WrappedText,
) {
    let head = format!("{}: ", details.trial);
    if let Some(story) = story {
        return push_headline(lines, &head, &story.crash);
    }
    let title = &failure.signature.title;
    let rest = title.strip_prefix(&format!("{}: ", failure.kind.name()));
    match (failure.sites.as_slice(), rest) {
        ([site], Some(rest)) => {
            let kind = failure.kind.name();
            lines.push_prose(
                &head,
                &format!("{kind}{}: {}", describe_site(site), sanitize_line(rest)),
            );
            push_source_line(lines, site);
        }
        (sites, _) => {
            lines.push_prose(&head, &sanitize_line(title));
            for site in sites {
                lines.push_detail(&sanitize_line(&site.to_string()));
                if let Some(text) = source_line(site) {
                    lines.push_quoted(&format!("{:>4} | {}", site.line, sanitize_line(&text)));
                }
            }
        }
    }
}

/// The description of a hang shows the processes thread by thread.
fn is_shown(observation: &Observation, autopsy: &Autopsy) -> bool {
    observation.hang.is_none() || autopsy.crash.signal.is_some()
}

/// Returns the core of the failing process.
fn first_story<'a>(failure: &Failure, stories: &[&'a Autopsy]) -> Option<&'a Autopsy> {
    let FailureKind::Signal { signal, .. } = &failure.kind else {
        return None;
    };
    stories
        .iter()
        .copied()
        .find(|story| story.crash.signal == Some(*signal))
}

/// Describes how the processes of the trial ended.
fn push_endings(details: &TrialDetails<'_>, lines: &mut WrappedText) {
    let observation = details.observation;
    push_load_lines(details, lines);
    let conditions = typed_conditions(details.conditions);
    if !conditions.is_empty() {
        lines.push_detail(&format!(
            "it ran under {}",
            sanitize_line(&conditions.join(" and "))
        ));
    }
    let limits = resource_limits(details.conditions);
    if let Some(killer) = judge::describe_killer(observation, &limits) {
        lines.push_detail(&format!("killed by {killer}"));
    }
    if observation.refused_forks > 0 {
        lines.push_detail(&format!(
            "the kernel refused to start {}, because the limit of processes and threads was reached",
            plural_of(observation.refused_forks, "process or thread", "processes or threads")
        ));
    }
    for casualty in &observation.crashed_children {
        let name = match casualty.program.as_str() {
            "" => String::new(),
            name => format!(" ({})", sanitize_line(name)),
        };
        let signal = casualty
            .signal
            .map_or("a signal".to_owned(), |signal| signal.to_string());
        lines.push_detail(&format!("process {}{name} died of {signal}", casualty.pid));
    }
    if !details.output.is_empty() {
        return;
    }
    for actor in &observation.actors {
        for output in actor.crash_message.iter().chain(Some(&actor.last_words)) {
            if !output.is_empty() {
                lines.push_detail(&format!("it said: {}", sanitize_line(output)));
                break;
            }
        }
    }
}

/// Describes the load on a service and its results.
fn push_load_lines(details: &TrialDetails<'_>, lines: &mut WrappedText) {
    let Some((observation, load)) = details.observation.load.as_deref().zip(details.load) else {
        return;
    };
    for line in service_run_lines(observation, load) {
        lines.push_detail(&sanitize_line(&line));
    }
}

/// Maximum number of requests in flight that are listed.
const REQUESTS: usize = 16;
/// Maximum number of shown lines of the output of a hook that failed.
const HOOK_LINES: usize = 12;

/// Lists the requests in flight when the service crashed.
fn in_flight(details: &TrialDetails<'_>, lines: &mut WrappedText) {
    lines.push_line("Requests in flight, oldest first:");
    let requests = match details.in_flight {
        requests if details.verbose => requests,
        requests => &requests[..requests.len().min(REQUESTS)],
    };
    let ages: Vec<String> = requests
        .iter()
        .map(|request| format_seconds(request.age))
        .collect();
    let width = ages
        .iter()
        .map(|age| age.chars().count())
        .max()
        .unwrap_or(0);
    for (request, age) in requests.iter().zip(ages) {
        let pending = match request.part.as_str() {
            "connect" => "not connected yet".to_owned(),
            "write" => "not sent completely".to_owned(),
            "head" => "sent, no response yet".to_owned(),
            _ => format!(
                "{} of the response received",
                format_bytes(request.received)
            ),
        };
        lines.push_line(&format!(
            "  {age:>width$} old  {}  client {}: {pending}",
            sanitize_line(&request.request),
            request.client
        ));
    }
    let unshown = details.in_flight.len() - requests.len();
    if unshown > 0 {
        lines.push_line(&format!("  and {unshown} more: -v lists all"));
    }
    lines.push_line(
        "Their bytes are in `requests/` of the trial, with a list in `in-flight.jsonl`.",
    );
}

fn known_by(signature: &Signature) -> String {
    format!("signature {}, from the {}", signature.id, signature.depth)
}

fn push_left_behind(observation: &Observation, lines: &mut WrappedText) {
    let processes = plural_of(observation.residue.process_count(), "process", "processes");
    lines.push_line(&format!("Left behind: {processes}"));
    for process in &observation.residue.leaked {
        let command: Vec<String> = process.command.iter().map(ToString::to_string).collect();
        let waiting = match process.waiting.as_str() {
            "" => process.state.to_string(),
            waiting => waiting.to_owned(),
        };
        lines.push_prose(
            &format!("  {} ", process.pid),
            &sanitize_line(&format!(
                "{}: {} MiB, {}, in {waiting}, {:.1} s old",
                command.join(" "),
                process.rss_kib.div_ceil(1024),
                format_count(process.threads, "thread"),
                process.age.as_secs_f64(),
            )),
        );
        if !process.ancestors.is_empty() {
            lines.push_prose(
                "      below ",
                &sanitize_line(&process.ancestors.join(", below ")),
            );
        }
    }
}
