//! Names a hang.

use super::LONGEST_TITLE;
use super::diagnosis::diagnose_hang;
use super::frames::{self, StackCall};
use super::runtime_calls::{self, RuntimeCall};
use provoke_messages::bare_name;
use provoke_model::{CallLanguage, Frame, Goroutine, Hang, HungThread, ThreadActivity};

/// Stable texts for the id of a hang, and its title.
#[derive(Default)]
pub(super) struct HangName {
    /// Text of the id, followed by texts from less evidence.
    pub(super) texts: Vec<String>,
    pub(super) title: String,
    /// Whether the id is of a busy loop: without a stack, it is a weaker name.
    pub(super) is_busy_loop: bool,
}

/// Number of calls that name a hang.
const COUNT: usize = 3;

/// Functions that wait: the caller of such a function counts. Functions of the C library are
/// included for statically linked programs.
const WAITS: &[&str] = &[
    "__futex*",
    "futex*",
    "syscall",
    "__lll_lock_wait*",
    "__GI___lll_lock_wait*",
    "lll_mutex_lock*",
    "__internal_syscall*",
    "__syscall_*",
    "pthread_mutex_*",
    "___pthread_mutex_*",
    "__pthread_*",
    "___pthread_*",
    "pthread_cond_*",
    "pthread_join*",
    "pthread_rwlock_*",
    "sem_wait*",
    "__new_sem_*",
    "do_futex_wait*",
    "poll",
    "__poll",
    "select",
    "epoll_wait*",
    "read",
    "__read",
    "__libc_read",
    "recv",
    "recvfrom",
    "recvmsg",
    "accept",
    "accept4",
    "wait4",
    "__wait4",
    "waitpid",
    "waitid",
    "nanosleep",
    "clock_nanosleep*",
    "__clock_nanosleep*",
    "sleep",
    "usleep",
    "pause",
    "sigsuspend",
    "std::mutex::*",
    "std::recursive_mutex::*",
    "std::timed_mutex::*",
    "std::shared_mutex::*",
    "std::lock_guard*",
    "std::scoped_lock*",
    "std::shared_lock*",
    "std::unique_lock*",
    "std::lock",
    "std::condition_variable*",
    "std::thread::*",
    "std::sys::*",
    "std::sync::*",
    "std::__atomic*",
    "__gthread*",
    "parking_lot*",
    "PyThread_*",
    "take_gil",
    "lock_PyThread*",
    "acquire_timed*",
];

/// Code that a thread executes.
struct ThreadCode {
    /// Texts for ids, from more to less evidence.
    texts: Vec<String>,
    /// Calls for the title, innermost first.
    words: Vec<String>,
}

/// Names the hang of a trial with this main process. The name of a program counts only if the trial
/// has other programs.
pub(super) fn name_hang(
    hang: &Hang,
    main: Option<i32>,
    is_only: impl Fn(&str) -> bool,
) -> Option<HangName> {
    if !hang.cycle.is_empty() {
        return Some(name_deadlock(hang, &is_only));
    }
    let diagnosis = diagnose_hang(hang, main)?;
    let thread = diagnosis.culprit;
    let waiters = runtime_calls::lock_waiters(hang, thread.pid);
    if !waiters.is_empty() {
        return Some(name_lock_waits(hang, &waiters, &is_only));
    }
    let code = place_of_thread(hang, thread, &is_only);
    let with_place = |what: &str| {
        let texts = code.texts.iter();
        HangName {
            texts: texts.map(|text| format!("{what} | {text}")).collect(),
            title: make_title(hang, thread, &code, |words| match words {
                "" => what.to_owned(),
                words => format!("{what} in {words}"),
            }),
            ..HangName::default()
        }
    };
    if let Some(owner) = thread.absent_owner {
        let owner_text = match owner.of_parent {
            Some(_) => "a lock taken before the fork",
            None => "a lock of a thread that has ended",
        };
        let texts = code.texts.iter();
        return Some(HangName {
            texts: texts.map(|text| format!("{owner_text} | {text}")).collect(),
            title: make_title(hang, thread, &code, |words| {
                let words = if words.is_empty() { "a thread" } else { words };
                format!("{words} waits for {owner_text}")
            }),
            ..HangName::default()
        });
    }
    Some(match thread.current_activity() {
        ThreadActivity::Stuck => {
            let channel = or_unknown(&thread.channel);
            plain_name(&format!("stuck in the kernel ({channel})"))
        }
        ThreadActivity::Busy => HangName {
            texts: busy_texts(hang, thread),
            is_busy_loop: true,
            ..with_place("busy loop")
        },
        ThreadActivity::WaitsForChild => plain_name("waiting for a child"),
        ThreadActivity::Blocked | ThreadActivity::Stopped => {
            match diagnosis.goroutines(hang).as_slice() {
                [] => with_place("blocked"),
                goroutines => name_goroutines(goroutines),
            }
        }
    })
}

fn plain_name(text: &str) -> HangName {
    HangName {
        texts: vec![text.to_owned()],
        title: format!("hang: {text}"),
        ..HangName::default()
    }
}

fn or_unknown(channel: &str) -> &str {
    match channel {
        "" | "0" => "it does not say where",
        name => name,
    }
}

/// Makes a title with as many calls as fit, and with further facts about the thread.
fn make_title(
    hang: &Hang,
    thread: &HungThread,
    code: &ThreadCode,
    describe: impl Fn(&str) -> String,
) -> String {
    let mut detail_texts = Vec::new();
    let leader = hang
        .find_thread(thread.pid)
        .map(|leader| leader.name.as_str());
    let is_main = thread.tid == thread.pid || thread.name == "main";
    if !is_main && !thread.name.is_empty() && leader != Some(&thread.name) {
        detail_texts.push(format!("thread {}", thread.name));
    }
    if hang.forked_from_threads.contains(&thread.pid) {
        detail_texts.push("forked from a multi-threaded process".to_owned());
    }
    let details = match detail_texts.join(", ") {
        text if text.is_empty() => text,
        details => format!(" ({details})"),
    };
    let title = |calls: usize| {
        let words = code.words[..calls].join(" < ");
        format!("hang: {}{details}", describe(&words))
    };
    let mut titles = (1..=code.words.len()).rev().map(title);
    let fitting = titles.find(|title| title.chars().count() <= LONGEST_TITLE);
    fitting.unwrap_or_else(|| title(code.words.len().min(1)))
}

/// Returns the calls in which a thread waits or works.
fn place_of_thread(
    hang: &Hang,
    thread: &HungThread,
    is_only: &impl Fn(&str) -> bool,
) -> ThreadCode {
    let program = program_of_thread(hang, thread);
    let steps = native_steps(thread);
    let own_program = if is_only(program) { program } else { "" };
    let mut code = ThreadCode {
        texts: vec![
            frames::join_texts(&steps, own_program),
            frames::join_texts(&steps, program),
        ],
        words: frames::word_list(&steps, own_program),
    };
    code.texts.dedup();
    if steps.is_empty() {
        code.texts = vec![thread.call.clone()];
        code.words = match thread.call.as_str() {
            "" => Vec::new(),
            call => vec![call.to_owned()],
        };
    }
    let mut calls = runtime_calls::blocked_calls(&thread.calls);
    if !calls.is_empty() {
        // The call of an extension, if it has a name, comes before the Python calls.
        let native = without_waits(thread);
        let is_python = thread.language == CallLanguage::Python;
        let extension = native
            .first()
            .filter(|step| is_python && step.is_of_extension());
        calls.truncate(COUNT - usize::from(extension.is_some()));
        let words = calls.iter().map(|call| call.function.clone());
        code.words = extension
            .map(StackCall::module_and_function)
            .into_iter()
            .chain(words)
            .collect();
        let python_texts = calls.iter().map(RuntimeCall::file_and_function);
        let texts: Vec<String> = extension
            .map(StackCall::module_and_function)
            .into_iter()
            .chain(python_texts)
            .collect();
        code.texts.insert(0, texts.join(" < "));
    }
    code
}

/// Returns the texts for the id of a busy loop. A sample finds the loop in any of the functions
/// that it calls; only the outermost calls are constant. Without a stack there is no text.
fn busy_texts(hang: &Hang, thread: &HungThread) -> Vec<String> {
    if thread.frames.is_empty() && thread.calls.is_empty() {
        return Vec::new();
    }
    let text = |location: &str| format!("busy loop | {location}");
    let outermost = frames::outermost_steps(&thread.frames);
    let mut texts = vec![text(&frames::join_texts(
        &outermost,
        program_of_thread(hang, thread),
    ))];
    let calls = runtime_calls::own_calls(&thread.calls);
    if !calls.is_empty() {
        let outermost_calls = &calls[calls.len().saturating_sub(2)..];
        let outermost: Vec<String> = outermost_calls
            .iter()
            .map(RuntimeCall::file_and_function)
            .collect();
        texts.insert(0, text(&outermost.join(" < ")));
    }
    texts
}

/// Returns the name of a thread's program, which may differ from the name of the thread.
fn program_of_thread<'a>(hang: &'a Hang, thread: &'a HungThread) -> &'a str {
    let leader = || {
        hang.find_thread(thread.pid)
            .map(|leader| leader.name.as_str())
    };
    let program = hang.program_name(thread.pid).or_else(leader);
    program.unwrap_or(&thread.name)
}

/// Names a deadlock by the functions of its threads, sorted by name: the thread at which the cycle
/// was found is random.
fn name_deadlock(hang: &Hang, is_only: &impl Fn(&str) -> bool) -> HangName {
    let threads: Option<Vec<&HungThread>> = hang
        .cycle
        .iter()
        .map(|tid| hang.find_thread(*tid))
        .collect();
    let has_stack = |thread: &&HungThread| !thread.frames.is_empty() || !thread.calls.is_empty();
    let threads = threads.filter(|threads| threads.iter().all(has_stack));
    let locations: Option<Vec<(String, String)>> =
        threads.and_then(|threads| waiting_calls(hang, &threads, is_only));
    let Some(mut places) = locations else {
        return match hang.cycle.len() {
            1 => plain_name("deadlock, a thread waits for itself"),
            length => plain_name(&format!("deadlock of {length} threads")),
        };
    };
    let is_alone = places.len() == 1;
    places.sort();
    places.dedup();
    let (texts, names): (Vec<String>, Vec<String>) = places.into_iter().unzip();
    if is_alone {
        return HangName {
            texts: vec![format!("deadlock with itself | {}", texts[0])],
            title: format!("hang: deadlock, {} waits for itself", names[0]),
            ..HangName::default()
        };
    }
    HangName {
        texts: vec![format!("deadlock | {}", texts.join(" <-> "))],
        title: match names.as_slice() {
            [name] => format!("hang: deadlock, {name} <-> {name}"),
            names => format!("hang: deadlock, {}", names.join(" <-> ")),
        },
        ..HangName::default()
    }
}

/// Names a hang of Python threads that wait for locks whose owners are not known.
fn name_lock_waits(
    hang: &Hang,
    waiters: &[&HungThread],
    is_only: &impl Fn(&str) -> bool,
) -> HangName {
    let calls = waiting_calls(hang, waiters, is_only).unwrap_or_default();
    name_waits_for_locks(waiters.len(), "thread", calls)
}

/// Names a hang of a Go program.
fn name_goroutines(goroutines: &[&Goroutine]) -> HangName {
    if let [goroutine] = goroutines
        && !runtime_calls::waits_for_lock(goroutine)
    {
        let calls = runtime_calls::blocked_calls(&goroutine.calls);
        let calls = &calls[..calls.len().min(COUNT)];
        let texts = calls.iter().map(RuntimeCall::file_and_function);
        let words = calls.iter().map(|call| call.function.as_str());
        return HangName {
            texts: vec![format!(
                "blocked | {}",
                texts.collect::<Vec<String>>().join(" < ")
            )],
            title: format!(
                "hang: blocked in {} ({})",
                words.collect::<Vec<&str>>().join(" < "),
                goroutine.state
            ),
            ..HangName::default()
        };
    }
    let own_calls = goroutines
        .iter()
        .map(|goroutine| innermost_own_call(&goroutine.calls));
    let waits = own_calls.flatten().collect();
    name_waits_for_locks(goroutines.len(), "goroutine", waits)
}

/// Names a hang by the calls in which threads or goroutines wait for locks.
fn name_waits_for_locks(count: usize, noun: &str, mut calls: Vec<(String, String)>) -> HangName {
    calls.sort();
    calls.dedup();
    let (texts, names): (Vec<String>, Vec<String>) = calls.into_iter().unzip();
    let who = match count {
        1 => format!("a {noun} waits for a lock"),
        2 => format!("two {noun}s wait for locks"),
        count => format!("{count} {noun}s wait for locks"),
    };
    HangName {
        texts: vec![format!("wait for locks | {}", texts.join(", "))],
        title: format!("hang: {who} in {}", names.join(", ")),
        ..HangName::default()
    }
}

/// Returns the innermost call of each thread, as a text for ids and as a word for titles.
fn waiting_calls(
    hang: &Hang,
    threads: &[&HungThread],
    is_only: &impl Fn(&str) -> bool,
) -> Option<Vec<(String, String)>> {
    let first = |thread: &&HungThread| {
        // In Python, the native calls of an extension come before the Python calls.
        if thread.language == CallLanguage::Java
            && let Some(call) = innermost_own_call(&thread.calls)
        {
            return Some(call);
        }
        let code = place_of_thread(hang, thread, is_only);
        let text = code.texts.first()?.split(" < ").next()?.to_owned();
        Some((text, code.words.first()?.clone()))
    };
    threads.iter().map(first).collect()
}

/// Returns the innermost call of a runtime's language in the program itself, as a text for ids and as a word for titles.
fn innermost_own_call(calls: &[Frame]) -> Option<(String, String)> {
    let call = runtime_calls::own_calls(calls).into_iter().next()?;
    Some((call.file_and_function(), call.function))
}

/// Returns the counted calls without calls that only wait; if all calls wait, returns the outermost
/// of them.
fn native_steps(thread: &HungThread) -> Vec<StackCall> {
    let mut counted = without_waits(thread);
    if counted.is_empty() {
        counted = frames::all_counted(&thread.frames);
        counted.drain(..counted.len().saturating_sub(1));
    }
    if counted.is_empty() {
        counted = frames::naming_steps(&thread.frames);
    }
    counted
}

/// Returns the counted calls without calls that only wait.
fn without_waits(thread: &HungThread) -> Vec<StackCall> {
    let waits = |frame: &&Frame| {
        let name = frame.function.as_deref().map(bare_name).unwrap_or_default();
        WAITS.iter().any(|row| frames::fits_pattern(&name, row))
    };
    let inner = thread.frames.iter().take_while(waits).count();
    frames::counted_steps(&thread.frames[inner..])
}
