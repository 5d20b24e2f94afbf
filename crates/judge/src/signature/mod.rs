//! Names failures: the same bug has the same name in every trial.
//!
//! A name is a hash of a short text. The text comes from evidence of one of four depths: a stack, a
//! line of the kernel log, a message of the program, or the exit status. A failure is named by its
//! deepest evidence. It also has the names from weaker evidence, so that the bug is recognized in
//! trials with less evidence.

mod case;
mod diagnosis;
mod frames;
mod hang;
mod kernel;
mod message;
mod runtime_calls;
mod sites;
mod skipped;
mod stack;
mod status;
#[cfg(test)]
mod tests;

pub use diagnosis::{HangDiagnosis, diagnose_hang};
pub use frames::bare_module;
pub use kernel::place_in_file as logged_place;
pub use sites::{failure_functions, failure_sites, is_library_source, of_crash as sites_of_crash};

use provoke_model::{
    ActorObservation, ActorRole, CaseEnd, CaseFailure, CoreObservation, Crash, Ending,
    EvidenceDepth, FailureKind, Family, Observation, Signal, Signature, SignatureId, VariantPlan,
};

/// Limit of characters of a title, because titles are shown in tables.
const LONGEST_TITLE: usize = 100;

/// A name from evidence of one depth.
struct EvidenceName {
    depth: EvidenceDepth,
    /// Text for the id, followed by texts from less of the same evidence.
    texts: Vec<String>,
    title: String,
    /// The text contains an offset in a file.
    placed: bool,
    family: Option<&'static str>,
    /// Wider names, whose texts are also their titles.
    families: Vec<String>,
}

/// Returns the signature of a failure of this kind, from the best evidence.
pub fn signature_of_failure(
    kind: &FailureKind,
    variant: &VariantPlan,
    observation: &Observation,
) -> Signature {
    let main = find_culprit(kind, variant, observation);
    let mut levels = vec![status::status_level(kind, observation)];
    match kind {
        FailureKind::Signal { .. } | FailureKind::Exit { .. } => {
            levels.extend(of_crash(kind, variant, main, observation));
        }
        FailureKind::Hang { .. } => levels.extend(of_hang(kind, variant, main, observation)),
        FailureKind::Output => levels.extend(message::of_rule(observation)),
        FailureKind::Slow
        | FailureKind::Leak
        | FailureKind::Oom { .. }
        | FailureKind::ServiceVanished
        | FailureKind::Refused
        | FailureKind::Test
        | FailureKind::TestPassed => {}
    }
    signature_of_levels(levels)
}

/// Returns the signature of a failure of a test of a suite, from the report of its runner.
pub fn signature_of_case(end: CaseEnd, failure: Option<&CaseFailure>) -> Signature {
    signature_of_levels(vec![case::of_case(end, failure)])
}

/// Makes the signature from the last level; the other levels become weaker names.
fn signature_of_levels(mut levels: Vec<EvidenceName>) -> Signature {
    let best_name = levels
        .pop()
        .unwrap_or_else(|| EvidenceName::new(EvidenceDepth::Status, "", ""));
    let id = hash_to_id(&best_name.texts[0]);
    let weaker = best_name.texts[1..]
        .iter()
        .map(|text| (best_name.depth, text));
    let other_names = levels
        .iter()
        .rev()
        .flat_map(|level| level.texts.iter().map(|text| (level.depth, text)));
    let mut also: Vec<(EvidenceDepth, SignatureId)> = Vec::new();
    for (depth, text) in weaker.chain(other_names) {
        let name = (depth, self::hash_to_id(text));
        if !also.contains(&name) {
            also.push(name);
        }
    }
    Signature {
        id,
        title: shorten_title(best_name.title),
        depth: best_name.depth,
        also,
        placed: best_name.placed,
        family: best_name.family.map(str::to_owned),
        families: best_name.families.into_iter().map(make_family).collect(),
    }
}

fn make_family(title: String) -> Family {
    Family {
        id: hash_to_id(&format!("family | {title}")),
        title,
    }
}

impl EvidenceName {
    fn new(depth: EvidenceDepth, text: impl Into<String>, title: impl Into<String>) -> Self {
        Self {
            depth,
            texts: vec![text.into()],
            title: title.into(),
            placed: false,
            family: None,
            families: Vec::new(),
        }
    }
}

/// Computes FNV-1a with 64 bits, folded to 32: the same on every machine and in every version.
fn hash_to_id(text: &str) -> SignatureId {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let folded = (hash >> 32) ^ (hash & u64::from(u32::MAX));
    SignatureId(u32::try_from(folded).unwrap_or(u32::MAX))
}

fn shorten_title(title: String) -> String {
    match title.char_indices().nth(LONGEST_TITLE) {
        Some(_) => {
            let start: String = title.chars().take(LONGEST_TITLE - 1).collect();
            format!("{start}…")
        }
        None => title,
    }
}

/// Returns the main processes of a trial: those that decide about its outcome.
pub fn main_actors<'a>(
    variant: &'a VariantPlan,
    observation: &'a Observation,
) -> impl Iterator<Item = &'a ActorObservation> {
    let role = |actor: &ActorObservation| {
        variant
            .actors
            .get(actor.actor as usize)
            .map(|plan| plan.role)
    };
    observation
        .actors
        .iter()
        .filter(move |actor| role(actor).is_some_and(ActorRole::decides_outcome))
}

/// Returns the main process with this failure; the first one if none ended with it.
pub fn find_culprit<'a>(
    kind: &FailureKind,
    variant: &'a VariantPlan,
    observation: &'a Observation,
) -> Option<&'a ActorObservation> {
    let fits = |actor: &&ActorObservation| match (&actor.ending, kind) {
        (Ending::Exited(code), kind) => kind.exit_code() == Some(*code),
        (Ending::Signaled(died, _), FailureKind::Signal { signal, .. }) => died == signal,
        (Ending::TimedOut { .. }, kind) => kind.is_timeout(),
        _ => false,
    };
    let first = main_actors(variant, observation).next();
    main_actors(variant, observation).find(fits).or(first)
}

fn of_crash(
    kind: &FailureKind,
    variant: &VariantPlan,
    main: Option<&ActorObservation>,
    observation: &Observation,
) -> Vec<EvidenceName> {
    let crash = find_crash(kind, main, observation);
    let mut levels: Vec<EvidenceName> = message::of_words(kind, main, crash).into_iter().collect();
    let of_core = crash.and_then(kernel::of_crash);
    if let Some(logged) = of_core.or_else(|| find_logged(kind, main, observation)) {
        let title = logged.in_words();
        levels.push(EvidenceName {
            texts: logged.id_texts(),
            families: logged.family_titles(),
            ..EvidenceName::new(
                EvidenceDepth::Kernel,
                "",
                after_crash(kind, logged.signal, title),
            )
        });
    }
    let stack_crash = crash.filter(|crash| !crash.stackless);
    levels.extend(stack_crash.map(|crash| {
        let among_others = !is_only_program(variant, &crash.program);
        stack::stack_level(kind, crash, main, among_others)
    }));
    levels
}

/// Returns whether every main command names this program, possibly behind `env` or an emulator.
/// Otherwise, for example in a shell command line, there may be other programs.
fn is_only_program(variant: &VariantPlan, program: &str) -> bool {
    let mut mains = variant
        .actors
        .iter()
        .filter(|actor| actor.role.decides_outcome());
    mains.all(|actor| {
        let mut words = actor.command.iter().map(ToString::to_string);
        // A container may take its command from its image.
        actor.command.is_empty()
            || words.any(|word| frames::is_named(&frames::bare_module(&word), program))
    })
}

/// Adds to the title how the main process ended, if it ended differently from the crashed process.
fn after_crash(kind: &FailureKind, signal: Signal, title: String) -> String {
    match kind {
        FailureKind::Signal { signal: main, .. } if *main == signal => title,
        kind => format!("{} after {title}", kind.name()),
    }
}

fn find_logged(
    kind: &FailureKind,
    main: Option<&ActorObservation>,
    observation: &Observation,
) -> Option<kernel::LoggedCrash> {
    let lines = || {
        observation.kernel.iter().filter_map(|line| {
            let logged = kernel::read_line(&line.text)?;
            let function = line.function.clone();
            Some((line.pid, kernel::LoggedCrash { function, ..logged }))
        })
    };
    let of_main = lines().find(|(pid, _)| main.is_some_and(|main| main.pid == *pid));
    let (_, logged) = of_main.or_else(|| lines().next())?;
    fits_kind(kind, logged.signal).then_some(logged)
}

/// Returns whether a failure of this kind may be the consequence of a process that died of this
/// signal.
fn fits_kind(kind: &FailureKind, signal: Signal) -> bool {
    match kind {
        FailureKind::Signal { signal: main, .. } => *main == signal || !main.is_crash(),
        _ => signal.is_crash(),
    }
}

/// Returns the crash in a core: of the main process, else of another process that died, else of any
/// process.
fn find_crash<'a>(
    kind: &FailureKind,
    main: Option<&ActorObservation>,
    observation: &'a Observation,
) -> Option<&'a Crash> {
    // If a handler converted a fault to another ending, the fault is the cause of the ending.
    let died = |pid: i32| {
        let mut dead = observation
            .crashed_children
            .iter()
            .filter(|process| process.pid == pid);
        main.is_some_and(|main| main.pid == pid)
            || dead.any(
                |process| matches!(kind, FailureKind::Signal { signal, .. } if process.signal == Some(*signal)),
            )
    };
    let read = |core: &'a CoreObservation| {
        let crash = core.crash.as_deref()?;
        crash
            .signal
            .is_some_and(|signal| fits_kind(kind, signal) || signal.is_crash() && died(core.pid))
            .then_some((core.pid, crash))
    };
    let rank = |pid: i32| match main {
        Some(main) if main.pid == pid => 0,
        _ if observation
            .crashed_children
            .iter()
            .any(|casualty| casualty.pid == pid) =>
        {
            1
        }
        _ => 2,
    };
    let cores = observation.cores.iter().filter_map(read);
    cores
        .min_by_key(|(pid, _)| rank(*pid))
        .map(|(_, crash)| crash)
}

/// Returns the names of a hang: that of a busy loop without a stack, and that from the stack.
fn of_hang(
    kind: &FailureKind,
    variant: &VariantPlan,
    main: Option<&ActorObservation>,
    observation: &Observation,
) -> Vec<EvidenceName> {
    let Some(hang) = &observation.hang else {
        return Vec::new();
    };
    if *kind == (FailureKind::Hang { stopped: true }) {
        return Vec::new();
    }
    let named = hang::name_hang(hang, main.map(|main| main.pid), |program| {
        is_only_program(variant, program)
    });
    let Some(named) = named else {
        return Vec::new();
    };
    let name = kind.name();
    let busy_loop = named.is_busy_loop.then(|| {
        let text = format!("{name} | busy loop");
        EvidenceName::new(EvidenceDepth::Status, text, &*named.title)
    });
    let texts = named.texts.iter();
    let stack = (!named.texts.is_empty()).then(|| EvidenceName {
        texts: texts.map(|text| format!("{name} | {text}")).collect(),
        ..EvidenceName::new(EvidenceDepth::Stack, "", &*named.title)
    });
    busy_loop.into_iter().chain(stack).collect()
}
