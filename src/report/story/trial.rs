//! The story of one trial: everything that was seen of its failure.

use super::super::load;
use super::super::words::{bytes, left_behind, plural, sanitize, seconds};
use super::lines::Lines;
use super::{hang_story, story};
use crate::model::{
    Autopsy, Depth, Ending, Failure, Limit, Load, ObjectSort, Observation, Outcome, Residue,
    Signature, TrialId,
};
use crate::oracle;

/// What is told of a trial.
pub struct Told<'a> {
    /// Its number.
    pub trial: TrialId,
    /// How it was judged.
    pub outcome: &'a Outcome,
    /// The hang that it seemed to be in when the run was stopped.
    pub seeming_hang: Option<&'a Failure>,
    /// What was seen of it.
    pub seen: &'a Observation,
    /// The limits that it ran under.
    pub limits: &'a [Limit],
    /// What was asked of it, where it was a life of a service under load.
    pub load: Option<&'a Load>,
    /// The requests that were in flight when the service died, oldest first.
    pub in_flight: &'a [InFlight],
    /// What the cores of its processes say.
    pub stories: &'a [Autopsy],
    /// The last lines that it wrote to standard error, or else to standard output.
    pub output: &'a [String],
    /// Another trial that showed the same failure, and says more of it.
    pub better: Option<TrialId>,
    /// Every register, and every thread in full.
    pub verbose: bool,
}

fn sites(failure: &Failure, lines: &mut Lines) {
    for site in &failure.sites {
        lines.line(&format!("  {}", sanitize(&site.to_string())));
    }
}

/// A request in flight when the service died.
pub struct InFlight {
    /// Its first line: method and target.
    pub request: String,
    /// The client that sent it.
    pub client: u64,
    /// How long before the death it was sent, in seconds.
    pub age: f64,
    /// What was pending: `connect`, `write`, `head` or `body`.
    pub part: String,
    /// How many bytes of the response had arrived.
    pub received: u64,
}

/// Returns the story of a trial.
pub fn trial_story(told: &Told<'_>) -> String {
    let mut lines = Lines::default();
    let seen = told.seen;
    match told.outcome {
        Outcome::Pass => {
            lines.line(&format!(
                "{} passed: there is nothing to explain.",
                told.trial
            ));
            lived(told, &mut lines);
            return lines.finish();
        }
        Outcome::Void(void) => {
            let Some(hang) = told.seeming_hang else {
                lines.line(&format!("{} is inconclusive: {void}.", told.trial));
                lived(told, &mut lines);
                return lines.finish();
            };
            let title = sanitize(&hang.signature.title);
            lines.line(&format!("{}: {title}", told.trial));
            sites(hang, &mut lines);
            let ran = seconds(seen.elapsed.as_secs_f64());
            lines.line(&format!(
                "  still running after {ran} when the run was stopped, and not counted"
            ));
        }
        Outcome::Fail(failure) | Outcome::Other(failure) => {
            let title = sanitize(&failure.signature.title);
            lines.line(&format!("{}: {title}", told.trial));
            sites(failure, &mut lines);
            lines.line(&format!("  {}: {}", failure.kind, failure.kind.words()));
            lines.line(&format!("  {}", known_by(&failure.signature)));
        }
    }
    lived(told, &mut lines);
    if let Some(killer) = oracle::killer(seen, told.limits) {
        lines.prose("  killed by ", &killer);
    }
    for casualty in &seen.casualties {
        let name = match casualty.program.as_str() {
            "" => String::new(),
            name => format!(" ({})", sanitize(name)),
        };
        let signal = casualty
            .signal
            .map_or("a signal".to_owned(), |signal| signal.to_string());
        lines.line(&format!(
            "  process {}{name} died of {signal}",
            casualty.pid
        ));
    }
    for actor in seen.actors.iter().filter(|_| told.output.is_empty()) {
        for said in actor.telling.iter().chain(Some(&actor.last_words)) {
            if !said.is_empty() {
                lines.prose("  it said: ", &sanitize(said));
                break;
            }
        }
    }
    // A stack says more than a line of the kernel's log.
    let shows_kernel = told.verbose || told.stories.is_empty();
    for line in seen.kernel.iter().filter(|_| shows_kernel) {
        lines.prose("  kernel log: ", &sanitize(&line.text));
    }
    if !told.output.is_empty() {
        lines.gap();
        lines.line("Last lines of its output:");
        for line in told.output {
            lines.line(&format!("  {}", sanitize(line)));
        }
    }
    let mut out = lines.finish();
    let mut add = |text: &str| {
        out.push('\n');
        out.push_str(text);
    };
    if let Some(hang) = &seen.hang {
        let mut actors = seen.actors.iter();
        let is_over = told.seeming_hang.is_none();
        let hung = actors.find(|actor| match actor.ending {
            Ending::TimedOut { .. } => true,
            _ => !is_over,
        });
        add(&hang_story(hang, hung.map(|actor| actor.pid)));
    }
    // What a hung process was doing has been told, thread by thread.
    let told_already = |autopsy: &&Autopsy| seen.hang.is_none() || autopsy.crash.signal.is_some();
    for autopsy in told
        .stories
        .iter()
        .filter(|one| told.verbose || told_already(one))
    {
        add(&story(autopsy, told.verbose));
    }
    if !told.in_flight.is_empty() {
        add(&in_flight(told));
    }
    if seen.residue.is_leak() {
        add(&left(seen));
    }
    let cores = seen
        .cores
        .iter()
        .filter(|core| !core.file.as_os_str().is_empty());
    for core in cores {
        let unread = core.unread.as_ref();
        let unread = unread.map_or(String::new(), |why| format!(" (not read: {why})"));
        add(&sanitize(&format!("core: {}{unread}", core.file)));
        add("");
    }
    if let Some(better) = told.better {
        let depth = told
            .outcome
            .failure()
            .map(|failure| failure.signature.depth);
        // Many bugs end with the same exit status.
        add(&if depth == Some(Depth::Status) {
            format!(
                "More is known of {better}, which ended in the same way and may be the same bug: explain that trial.\n"
            )
        } else {
            format!("More is known of {better}, which has the same failure: explain that trial.\n")
        });
    }
    out
}

/// Says what the service did, where it was put under load.
fn lived(told: &Told<'_>, lines: &mut Lines) {
    let Some((seen, load)) = told.seen.load.as_deref().zip(told.load) else {
        return;
    };
    for line in load::life(seen, load) {
        lines.prose("  ", &sanitize(&line));
    }
}

/// Requests in flight that are listed.
const REQUESTS: usize = 16;

/// Lists the requests in flight when the service died.
fn in_flight(told: &Told<'_>) -> String {
    let mut lines = Lines::default();
    lines.line("Requests in flight, oldest first:");
    let shown = match told.in_flight {
        all if told.verbose => all,
        all => &all[..all.len().min(REQUESTS)],
    };
    let ages: Vec<String> = shown.iter().map(|one| seconds(one.age)).collect();
    let width = ages
        .iter()
        .map(|age| age.chars().count())
        .max()
        .unwrap_or(0);
    for (one, age) in shown.iter().zip(ages) {
        let pending = match one.part.as_str() {
            "connect" => "not connected yet".to_owned(),
            "write" => "not sent completely".to_owned(),
            "head" => "sent, no response yet".to_owned(),
            _ => format!("{} of the response received", bytes(one.received)),
        };
        lines.line(&format!(
            "  {age:>width$} old  {}  client {}: {pending}",
            sanitize(&one.request),
            one.client
        ));
    }
    let more = told.in_flight.len() - shown.len();
    if more > 0 {
        lines.line(&format!("  and {more} more: -v lists all"));
    }
    lines.line("Their bytes are in `requests/` of the trial, with a list in `in-flight.jsonl`.");
    lines.finish()
}

fn known_by(signature: &Signature) -> String {
    format!("signature {}, from the {}", signature.id, signature.depth)
}

fn left(seen: &Observation) -> String {
    let mut lines = Lines::default();
    let Residue { objects, .. } = &seen.residue;
    let all = left_behind(seen.residue.processes(), objects.len() as u64);
    lines.line(&format!("Left behind: {}", all.unwrap_or_default()));
    for process in &seen.residue.leaked {
        let command: Vec<String> = process.command.iter().map(ToString::to_string).collect();
        let waiting = match process.waiting.as_str() {
            "" => process.state.to_string(),
            waiting => waiting.to_owned(),
        };
        lines.prose(
            &format!("  {} ", process.pid),
            &sanitize(&format!(
                "{}: {} MiB, {}, in {waiting}, {:.1} s old",
                command.join(" "),
                process.rss_kib.div_ceil(1024),
                plural(process.threads, "thread"),
                process.age.as_secs_f64(),
            )),
        );
        if !process.ancestors.is_empty() {
            lines.prose(
                "      below ",
                &sanitize(&process.ancestors.join(", below ")),
            );
        }
    }
    for object in objects {
        let status = match object.status.as_str() {
            "" => String::new(),
            status => format!(", {status}"),
        };
        let name = match object.sort {
            ObjectSort::Container => format!(" ({})", object.name),
            ObjectSort::Volume | ObjectSort::Network => String::new(),
        };
        lines.prose("  ", &sanitize(&format!("{object}{name}{status}")));
    }
    lines.finish()
}
