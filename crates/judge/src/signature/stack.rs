//! Names a failure by the stack of the process that crashed.

use super::frames::StackCall;
use super::message::describe_tell;
use super::{EvidenceName, LONGEST_TITLE, frames};
use provoke_messages as messages;
use provoke_messages::MessageMeaning;
use provoke_model::{
    ActorObservation, Crash, EvidenceDepth, FailureKind, ProcessPhase, Signal, fault_class,
};

/// Names a crash by its stack.
///
/// The name of the program counts only if other programs run besides the one in the command,
/// because it may change in the next build.
pub(super) fn stack_level(
    kind: &FailureKind,
    crash: &Crash,
    main: Option<&ActorObservation>,
    among_others: bool,
) -> EvidenceName {
    let class = crash.fault.class.as_str();
    let steps = match class {
        fault_class::STACK_OVERFLOW => frames::recursion_circle(&crash.frames),
        _ => frames::naming_steps(&crash.frames),
    };
    let tell = find_tell(crash, main);
    let message_text = tell
        .as_ref()
        .map_or(String::new(), |tell| match tell.detail.as_str() {
            detail if detail.is_empty() || tell.is_prose() => tell.kind.to_owned(),
            detail => format!("{} {detail}", tell.kind),
        });
    let signal = crash
        .signal
        .map_or("no signal".to_owned(), |signal| signal.to_string());
    let text = |program: &str| {
        let calls = frames::join_texts(&steps, program);
        format!(
            "{signal} | {class} | {message_text} | {calls} | {}",
            crash.phase
        )
    };
    let mut texts = vec![text(&crash.program)];
    let mut own_program = crash.program.as_str();
    if among_others {
        own_program = "";
        texts.insert(0, text(own_program));
        texts.dedup();
    }
    // Wider names of one function, and of one library; the narrower comes first.
    let mut families = Vec::new();
    if let Some(step) = steps.first().filter(|step| step.is_named()) {
        let location = frames::join_words(&steps[..1], own_program);
        families.push(format!("{signal} in {location}"));
        let library = step
            .module
            .as_deref()
            .filter(|name| frames::is_library(name));
        families.extend(library.map(|library| format!("{signal} in {library}")));
    }
    let placed = frames::any_placed(&steps);
    // The outer calls are the least informative, so omit them first if the title is too long.
    let steps = frames::title_steps(&crash.frames, steps);
    let mut titles = (1..=steps.len())
        .rev()
        .map(|count| crash_title(kind, crash, tell.as_ref(), &steps[..count], own_program));
    let fits = |title: &String| title.chars().count() <= LONGEST_TITLE;
    let title = titles.find(fits).unwrap_or_else(|| {
        let steps = &steps[..steps.len().min(1)];
        self::crash_title(kind, crash, tell.as_ref(), steps, own_program)
    });
    EvidenceName {
        texts,
        families,
        placed,
        family: tell.as_ref().and_then(|tell| tell.family),
        ..EvidenceName::new(EvidenceDepth::Stack, "", title)
    }
}

/// Returns a title with event, place and circumstances; files are named except for the program
/// itself.
fn crash_title(
    kind: &FailureKind,
    crash: &Crash,
    tell: Option<&MessageMeaning>,
    steps: &[StackCall],
    own_program: &str,
) -> String {
    let location = frames::join_words(steps, own_program);
    let mut title = match tell {
        Some(tell) => describe_tell(tell),
        None => {
            let signal = crash.signal.map(|signal| signal.to_string());
            describe_fault(crash, signal.as_deref().unwrap_or("no signal"))
        }
    };
    if !location.is_empty() && !title.ends_with(&format!(" in {location}")) {
        // The function in an assertion is the innermost call anyway.
        let named = steps
            .first()
            .map_or(String::new(), |step| format!(" in {}", step.name));
        let title_end = title.strip_suffix(&named).map(str::to_owned);
        let title_start = title_end.unwrap_or(title);
        let mark = if tell.is_some() || crash.fault.class == fault_class::ABORTED {
            ""
        } else {
            ","
        };
        title = format!("{title_start}{mark} in {location}");
    }
    let masked = match kind {
        FailureKind::Signal { signal: main, .. } if Some(*main) == crash.signal => String::new(),
        kind => format!("{} after {}'s ", kind.name(), crash.program),
    };
    format!("{masked}{title}{}", describe_circumstances(crash))
}

/// Returns the message of a program that ended by itself.
///
/// For a fault the message adds no information, and must not make another failure of it.
fn find_tell(crash: &Crash, main: Option<&ActorObservation>) -> Option<MessageMeaning> {
    const BY_ITSELF: [&str; 5] = [
        fault_class::ABORTED,
        fault_class::DELIBERATE,
        fault_class::BREAKPOINT,
        fault_class::RAISED,
        fault_class::TRAP,
    ];
    let meaning = crash
        .abort
        .as_deref()
        .and_then(|words| words.lines().find_map(messages::read_tell))
        .or_else(|| messages::read_tell(main?.crash_message.as_deref()?));
    let by_itself = BY_ITSELF.contains(&crash.fault.class.as_str())
        && matches!(crash.signal, Some(Signal(4..=6)));
    meaning.filter(|tell| by_itself && !tell.is_echo())
}

fn describe_fault(crash: &Crash, signal: &str) -> String {
    let fault = &crash.fault;
    match fault.class.as_str() {
        "" | fault_class::ABORTED => signal.to_owned(),
        fault_class::NULL => match fault.address.map(u64::cast_signed) {
            None | Some(0) => format!("{signal}, null pointer"),
            Some(offset @ 1..) => format!("{signal}, null pointer + 0x{offset:x}"),
            Some(offset) => format!("{signal}, null pointer - 0x{:x}", offset.unsigned_abs()),
        },
        class if class.starts_with(fault_class::NEEDS) => format!("{signal}: {}", fault.detail),
        class => format!("{signal}, {class}"),
    }
}

fn describe_circumstances(crash: &Crash) -> String {
    let mut circumstances = Vec::new();
    if crash.thread > 1 || crash.thread_name.is_some() {
        circumstances.push(match &crash.thread_name {
            Some(name) => format!("thread {}, {name}", crash.thread),
            None => format!("thread {}", crash.thread),
        });
    }
    match crash.phase {
        ProcessPhase::Run => {}
        ProcessPhase::Start => circumstances.push("before main".to_owned()),
        ProcessPhase::Shutdown => circumstances.push("during shutdown".to_owned()),
    }
    match circumstances.join(", ") {
        text if text.is_empty() => text,
        text => format!(" ({text})"),
    }
}
