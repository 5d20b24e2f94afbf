//! Recognizes message lines with variable parts, and extracts these parts.

use super::table::{
    ASSERT, CXX_EXCEPTION, GO, GO_RACE, JAVA_EXCEPTION, JVM, PYTHON_EXCEPTION, PYTHON_FATAL,
    RUST_PANIC, SANITIZER,
};
use super::{MessageMeaning, bare_name, failed_tests, javascript, normalise_line};

/// Texts of `faulthandler` for the signals that it handles.
pub(super) const PYTHON_SIGNALS: [&str; 5] = [
    "Segmentation fault",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Illegal instruction",
];

/// First words of the Java virtual machine's crash message.
pub(super) const JAVA_CRASH: &str = "A fatal error has been detected by the Java Runtime";

/// First line of a report of Go's race detector.
pub(super) const DATA_RACE: &str = "WARNING: DATA RACE";

/// All parsers, the most specific first.
const FORMS: [fn(&str) -> Option<MessageMeaning>; 13] = [
    failed_tests::read_failed_tests,
    javascript::read_uncaught,
    read_race,
    read_sanitizer,
    read_undefined,
    read_jvm,
    read_assertion,
    read_cxx,
    read_rust,
    read_go,
    python_fatal,
    read_java,
    read_python,
];

pub(super) fn read_form(line: &str) -> Option<MessageMeaning> {
    FORMS.iter().find_map(|form| form(line))
}

/// Returns the text between two markers.
fn text_between<'a>(line: &'a str, prefix: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(prefix)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

/// Parses `==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x… at pc …, in f`.
fn read_sanitizer(line: &str) -> Option<MessageMeaning> {
    let (head, rest) = line.split_once("Sanitizer: ")?;
    let name = head
        .split_once("ERROR: ")
        .or(head.split_once("WARNING: "))?
        .1;
    let error = rest.split(" on ").next().unwrap_or(rest);
    let error = error.split([',', '(']).next().unwrap_or(error);
    let location = rest
        .rsplit_once(", in ")
        .map(|(_, function)| bare_name(function))
        .map_or(String::new(), |function| format!(" in {function}"));
    let error = normalise_line(error);
    Some(SANITIZER.make_tell(format!("{name}Sanitizer {error}{location}")))
}

/// Parses `a.c:3:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be …`.
fn read_undefined(line: &str) -> Option<MessageMeaning> {
    let (location, error) = line.split_once(": runtime error: ")?;
    let (file, _) = location.split_once(':')?;
    let error = error.split(':').next().unwrap_or(error);
    let error = normalise_line(error);
    Some(SANITIZER.make_tell(format!(
        "UndefinedBehaviorSanitizer {error} in {}",
        normalise_line(file)
    )))
}

/// Parses `A fatal error has been detected by the Java Runtime Environment: C [libx.so+0x10]
/// f+0x1`.
fn read_jvm(line: &str) -> Option<MessageMeaning> {
    let (_, rest) = line.split_once(JAVA_CRASH)?;
    let frame = rest.split_once(": ").map_or("", |(_, frame)| frame);
    Some(JVM.make_tell(normalise_line(frame)))
}

fn read_assertion(line: &str) -> Option<MessageMeaning> {
    // glibc: `prog: a.c:12: int f(int): Assertion `x > 0' failed.`; libstdc++ uses straight quotes.
    if let Some((location, rest)) = line.split_once(": Assertion ")
        && let Some(expression) = rest.rsplit_once(" failed").map(|(quoted, _)| quoted)
    {
        let expression = expression.trim_matches(['`', '\'']);
        // The function follows `file:line: `; its name may contain colons.
        let function = location
            .match_indices(": ")
            .find(|(position, _)| location[..*position].ends_with(|c: char| c.is_ascii_digit()))
            .map(|(position, _)| bare_name(&location[position + 2..]));
        return Some(tell_of_assertion(expression, function));
    }
    // musl, BSD: `Assertion failed: x > 0 (a.c: f: 12)`; macOS: `Assertion failed: (x > 0), function f, …`
    if let Some((_, rest)) = line.split_once("Assertion failed: ") {
        if let Some((expression, rest)) = rest.split_once(", function ") {
            let function = rest.split(',').next().map(bare_name);
            return Some(tell_of_assertion(
                expression.trim_matches(['(', ')']),
                function,
            ));
        }
        let (expression, location) = rest.rsplit_once(" (").unwrap_or((rest, ""));
        let function = location.split(": ").nth(1).map(bare_name);
        return Some(tell_of_assertion(expression, function));
    }
    // glibc itself: `Fatal glibc error: a.c:450 (f): assertion failed: e == 0`.
    if let Some((_, rest)) = line.split_once("Fatal glibc error: ")
        && let Some((_, expression)) = rest.split_once("assertion failed: ")
    {
        return Some(tell_of_assertion(
            expression,
            text_between(rest, "(", ")").map(bare_name),
        ));
    }
    // Abseil, glog, Chromium: `F0101 12:00:00.000 7 a.cc:12] Check failed: x > 0 (0 vs. 1)`.
    let (_, rest) = line.split_once("] Check failed: ")?;
    let expression = rest.split(" (").next().unwrap_or(rest);
    Some(tell_of_assertion(expression.trim_end_matches('.'), None))
}

fn tell_of_assertion(expression: &str, function: Option<String>) -> MessageMeaning {
    let expression = expression.trim();
    ASSERT.make_tell(match function.filter(|name| !name.is_empty()) {
        Some(function) => format!("{expression} in {function}"),
        None => expression.to_owned(),
    })
}

/// Parses the messages of `std::terminate`, which differ between libstdc++ and libc++.
fn read_cxx(line: &str) -> Option<MessageMeaning> {
    if let Some(kind) = text_between(
        line,
        "terminate called after throwing an instance of '",
        "'",
    ) {
        return Some(CXX_EXCEPTION.make_tell(kind));
    }
    if !line.contains("terminating") {
        return None;
    }
    let (_, rest) = line.split_once("uncaught exception of type ")?;
    Some(CXX_EXCEPTION.make_tell(rest.split(": ").next().unwrap_or(rest)))
}

/// Parses `thread 'main' (7) panicked at src/a.rs:1:2: message`, and the older `panicked at
/// 'message', src/a.rs:1:2`.
fn read_rust(line: &str) -> Option<MessageMeaning> {
    let (_, rest) = line.split_once("thread '")?;
    let (_, rest) = rest.split_once("' ")?;
    let (_, rest) = rest.split_once("panicked at ")?;
    if let Some(rest) = rest.strip_prefix('\'') {
        let message = rest.rsplit_once("', ").map_or(rest, |(message, _)| message);
        return Some(RUST_PANIC.make_prose_tell(message));
    }
    let message = rest.split_once(": ").map_or("", |(_, message)| message);
    Some(RUST_PANIC.make_prose_tell(message))
}

/// Parses `WARNING: DATA RACE in main.load and main.store`.
fn read_race(line: &str) -> Option<MessageMeaning> {
    let functions = line.strip_prefix(DATA_RACE)?;
    // Keep numbers, which distinguish anonymous functions.
    Some(GO_RACE.make_tell(functions.trim_start_matches(" in ")))
}

/// Parses `panic: runtime error: …` and `fatal error: all goroutines are asleep - deadlock!`.
fn read_go(line: &str) -> Option<MessageMeaning> {
    const FATAL: [&str; 7] = [
        "all goroutines are asleep",
        "concurrent map",
        "stack overflow",
        "unexpected signal",
        "out of memory",
        "sync: ",
        "found bad pointer in Go heap",
    ];
    if let Some(message) = line.strip_prefix("panic: ") {
        return Some(GO.make_prose_tell(message));
    }
    let message = line.strip_prefix("fatal error: ")?;
    let is_fatal = FATAL.iter().any(|start| message.contains(start));
    is_fatal.then(|| GO.make_prose_tell(message))
}

/// Parses `Fatal Python error: Segmentation fault, in f (a.py:3)`; `find` has appended the place.
fn python_fatal(line: &str) -> Option<MessageMeaning> {
    let (_, rest) = line.split_once("Fatal Python error: ")?;
    let rest = rest.rsplit_once(" (").map_or(rest, |(head, _)| head);
    Some(PYTHON_FATAL.make_prose_tell(rest))
}

/// Parses `Exception in thread "main" java.lang.IllegalStateException: message`.
fn read_java(line: &str) -> Option<MessageMeaning> {
    let (_, rest) = line.split_once("Exception in thread \"")?;
    let (_, rest) = rest.split_once("\" ")?;
    Some(JAVA_EXCEPTION.make_prose_tell(rest))
}

/// Parses `ValueError: message` and `some.module.SomeError`.
fn read_python(line: &str) -> Option<MessageMeaning> {
    const ENDS: [&str; 8] = [
        "Error",
        "Exception",
        "Warning",
        "Interrupt",
        "Exit",
        "Iteration",
        "Group",
        "Timeout",
    ];
    let kind = line.split(':').next().unwrap_or(line);
    let named = kind.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && kind
            .chars()
            .all(|c| c.is_alphanumeric() || "_.".contains(c))
        && ENDS.iter().any(|end| kind.ends_with(end))
        && kind
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(char::is_uppercase));
    let message = &line[kind.len()..];
    let fits = message.is_empty() || message == ":" || message.starts_with(": ");
    (named && fits).then(|| PYTHON_EXCEPTION.make_prose_tell(line))
}
