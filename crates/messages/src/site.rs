//! Finds the line of source code that a message names.

use super::place::{first_place, site_at};
use super::source_owner::{SourceOwner, innermost_own_site};
use super::{bare_name, go};
use provoke_model::Site;

const PANIC: &str = " panicked at ";

/// Returns the source line of the last failure in an output: the user's innermost call in a Python
/// traceback, in a stack of JavaScript or in the backtrace of a panic, or the place of an assertion.
pub fn find_site(text: &str) -> Option<Site> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).rev().find_map(|index| {
        let (earlier, rest) = lines.split_at(index);
        innermost_own_site(&calls_of_failure(earlier, rest))
    })
}

/// Returns the calls of a failure whose description starts with the first of these lines, innermost
/// first.
fn calls_of_failure(earlier: &[&str], lines: &[&str]) -> Vec<Site> {
    let first = lines[0];
    if first
        .trim()
        .starts_with("Traceback (most recent call last)")
    {
        return calls_of_traceback(lines);
    }
    if let Some((_, rest)) = first.split_once(PANIC) {
        // Threads that wait for a thread that has panicked panic, too: the first panic is the failure.
        if earlier.iter().any(|line| line.contains(PANIC)) {
            return Vec::new();
        }
        return calls_of_panic(rest, lines);
    }
    if go::may_begin_trace(first) {
        return go::calls_of_trace(&lines[1..]);
    }
    if is_javascript_call(first) {
        let previous = earlier.last().copied().unwrap_or_default();
        // An inner call precedes this one, or it belongs to the backtrace of a panic.
        if is_javascript_call(previous) || rust_call(previous, first).is_some() {
            return Vec::new();
        }
        let calls = lines.iter().take_while(|line| is_javascript_call(line));
        return calls.filter_map(|line| javascript_call(line)).collect();
    }
    of_line(first).into_iter().collect()
}

/// Parses `Traceback (most recent call last):`, calls, then the exception. The innermost call is
/// the last.
fn calls_of_traceback(lines: &[&str]) -> Vec<Site> {
    let is_call = |line: &&&str| line.starts_with(' ');
    let call_lines = lines[1..].iter().take_while(is_call);
    let mut calls: Vec<Site> = call_lines.filter_map(|line| python_call(line)).collect();
    calls.reverse();
    calls
}

/// Parses the place of a panic of Rust, which follows `thread 'main' panicked at`, and the calls of
/// its backtrace. Until Rust 1.73, the message precedes the place.
fn calls_of_panic(rest: &str, lines: &[&str]) -> Vec<Site> {
    let place = rest.rsplit(", ").find_map(first_place);
    let place = place.or_else(|| first_place(rest));
    let pairs = lines.windows(2);
    let calls: Vec<Site> = pairs
        .filter_map(|pair| rust_call(pair[0], pair[1]))
        .collect();
    // The backtrace names the function of the place, unless it has another line of the same statement. Its paths are
    // relative to the working directory.
    let Some(place) = place else {
        return Vec::new();
    };
    let mut listed = calls.iter();
    let is_place = |call: &Site| {
        let is_file = place.file.ends_with(&call.file) || call.file.ends_with(&place.file);
        call.line == place.line && is_file
    };
    if listed.any(is_place) {
        return calls;
    }
    match SourceOwner::of_file(&place.file) {
        SourceOwner::User => vec![place],
        _ => [vec![place], calls].concat(),
    }
}

/// Parses two lines of a backtrace of Rust: `3: app::work` or `3: 0x55d0 - app::work`, then `at ./src/main.rs:4:5`.
fn rust_call(name_line: &str, place_line: &str) -> Option<Site> {
    let (number, function) = name_line.trim().split_once(": ")?;
    number.parse::<u32>().ok()?;
    let function = match function.trim().split_once(" - ") {
        Some((address, function)) if address.starts_with("0x") => function,
        _ => function,
    };
    let place = place_line.trim().strip_prefix("at ")?;
    Some(Site {
        function: Some(bare_name(function)),
        ..first_place(place.strip_prefix("./").unwrap_or(place))?
    })
}

fn is_javascript_call(line: &str) -> bool {
    line.trim().starts_with("at ")
}

/// Parses `    at loss (/src/job.js:4:11)` or `at shop.Main.load(Main.java:8)`; calls in the runtime have no place.
fn javascript_call(line: &str) -> Option<Site> {
    let call = line.trim().strip_prefix("at ")?;
    if is_java_library(call) {
        return None;
    }
    first_place(call.rsplit(['(', ' ']).next()?.trim_end_matches(')'))
}

/// Returns whether a Java function belongs to the libraries of Java or Kotlin.
pub fn is_java_library(function: &str) -> bool {
    const PACKAGES: [&str; 6] = ["java.", "javax.", "jdk.", "sun.", "com.sun.", "kotlin."];
    PACKAGES.iter().any(|start| function.starts_with(start))
}

/// Parses `File "job.py", line 4, in loss`.
fn python_call(line: &str) -> Option<Site> {
    let rest = line.trim().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let (line, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    let mut site = site_at(file, line)?;
    site.function =
        Some(function.to_owned()).filter(|name| !name.is_empty() && *name != "<module>");
    Some(site)
}

fn of_line(line: &str) -> Option<Site> {
    // C: `prog: a.c:12: int f(int): Assertion `x > 0' failed.`
    if let Some((location, _)) = line.split_once(": Assertion ") {
        return location.split(' ').find_map(first_place);
    }
    // The sanitizer of undefined behaviour: `a.c:3:5: runtime error: signed integer overflow: …`
    if let Some((location, _)) = line.split_once(": runtime error: ") {
        return first_place(location);
    }
    // Sanitizers: `SUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:12:3 in f`.
    if let Some((_, rest)) = line.split_once("SUMMARY: ")
        && rest.contains("Sanitizer: ")
    {
        let (location, function) = rest.rsplit_once(" in ")?;
        let mut site = location.rsplit(' ').find_map(first_place)?;
        site.function = Some(function.trim().to_owned());
        return Some(site);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site_text(text: &str) -> String {
        find_site(text).map_or("none".to_owned(), |site| site.to_string())
    }

    #[test]
    fn the_site_is_the_innermost_call_of_the_last_traceback() {
        let text = "Traceback (most recent call last):\n  File \"old.py\", line 1, in <module>\nKeyError: 1\nretrying\nTraceback (most recent call last):\n  File \"/src/job.py\", line 7, in <module>\n    loss(i, 0.02)\n  File \"/src/job.py\", line 4, in loss\n    raise ValueError\nValueError: loss is nan\n";
        assert_eq!(site_text(text), "job.py:4 in loss, called from job.py:7");
        assert_eq!(site_text("  File \"job.py\", line 7, in f"), "none");
    }

    #[test]
    fn calls_of_libraries_and_packages_do_not_name_the_place() {
        let call = |file: &str, line: u32, function: &str| {
            format!("  File \"{file}\", line {line}, in {function}\n    x()\n")
        };
        let traceback = |calls: &[String]| {
            let calls = calls.concat();
            format!("Traceback (most recent call last):\n{calls}KeyError: 1\n")
        };
        let own = call("/src/job.py", 7, "load");
        let package = call("/v/lib/python3.12/site-packages/kit/io.py", 3, "read");
        let library = call("/usr/lib/python3.12/json/decoder.py", 355, "raw_decode");
        for (calls, expected) in [
            (
                vec![own, package.clone(), library.clone()],
                "job.py:7 in load",
            ),
            (vec![package, library.clone()], "io.py:3 in read"),
            (vec![library], "decoder.py:355 in raw_decode"),
        ] {
            assert_eq!(site_text(&traceback(&calls)), expected);
        }
        let script = "Error: no\n    at read (/app/node_modules/kit/io.js:3:1)\n    at load (/app/job.js:4:11)\n    at main (/app/job.js:9:1)\n    at node:internal/main:23:47\n\nNode.js v20.0.0\n";
        assert_eq!(site_text(script), "job.js:4, called from job.js:9");
    }

    #[test]
    fn the_backtrace_of_a_panic_does_not_replace_its_place() {
        let backtrace = "stack backtrace:\n   0: rust_begin_unwind\n             at /rustc/82e1608dfa6e/library/std/src/panicking.rs:665:5\n   1: app::work\n             at ./src/main.rs:4:5\n   2: app::main\n             at ./src/main.rs:9:5\n   3: core::ops::function::FnOnce::call_once\n             at /rustc/82e1608dfa6e/library/core/src/ops/function.rs:250:5\nnote: Some details are omitted\n";
        let panic = |place: &str| format!("thread 'main' panicked at {place}:\nno\n{backtrace}");
        for (place, expected) in [
            (
                "src/main.rs:4:5",
                "main.rs:4 in app::work, called by app::main (main.rs:9)",
            ),
            // A statement of several lines.
            ("src/main.rs:2:5", "main.rs:2"),
            (
                "/rustc/82e1608dfa6e/library/core/src/str/mod.rs:660:13",
                "main.rs:4 in app::work, called by app::main (main.rs:9)",
            ),
        ] {
            assert_eq!(site_text(&panic(place)), expected);
        }
        // `RUST_BACKTRACE=full` adds addresses and the working directory.
        let full = backtrace.replace(": app", ":     0x55d01d40d0d8 - app");
        let full = full.replace("at ./", "at /home/me/app/");
        assert_eq!(
            site_text(&format!(
                "thread 'main' panicked at src/main.rs:4:5:\nno\n{full}"
            )),
            "main.rs:4 in app::work, called by app::main (main.rs:9)"
        );
    }

    #[test]
    fn the_first_of_several_panics_names_the_place() {
        let text = "thread 'a' panicked at src/work.rs:3:5:\nno\nthread 'main' panicked at src/main.rs:9:5:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n";
        assert_eq!(site_text(text), "work.rs:3");
    }

    #[test]
    fn sites_of_panics_assertions_sanitizers_and_scripts_are_found() {
        for (text, expected) in [
            (
                "thread 'main' panicked at src/main.rs:4:5:\nno",
                "main.rs:4",
            ),
            (
                "thread 'a' (7) panicked at 'no, never', src/lib.rs:9:1",
                "lib.rs:9",
            ),
            (
                "prog: dir/a.c:12: int f(int): Assertion `x > 0' failed.",
                "a.c:12",
            ),
            (
                "SUMMARY: AddressSanitizer: heap-use-after-free /src/a.c:12:3 in f",
                "a.c:12 in f",
            ),
            ("Error: no\n    at loss (/src/job.js:4:11)\n", "job.js:4"),
            (
                "a.c:8:14: runtime error: signed integer overflow: 7 * 3 cannot be represented",
                "a.c:8",
            ),
            (
                "panic: no\n[signal SIGSEGV]\n\ngoroutine 1 [running]:\npanic({0x4a, 0x5b})\n\t/usr/lib/go/src/runtime/panic.go:884 +0x212\nmain.(*Shop).load(0xc0)\n\t/src/main.go:8 +0x1d\nmain.main()\n\t/src/main.go:16 +0x70\n",
                "main.go:8 in main.(*Shop).load, called by main.main (main.go:16)",
            ),
            (
                "WARNING: DATA RACE\nRead at 0x5d by goroutine 7:\n  main.bump()\n      /src/main.go:5 +0x6a\n\nPrevious write at 0x5d by goroutine 8:\n  main.main()\n      /src/main.go:9 +0x84\n",
                "main.go:5 in main.bump",
            ),
            (
                "Exception in thread \"main\" java.lang.IllegalStateException: no\n\tat Main.load(Main.java:8)\nCaused by: java.lang.NumberFormatException: 12x\n\tat java.base/java.lang.Integer.parseInt(Integer.java:668)\n\tat Main.parse(Main.java:3)\n\tat Main.load(Main.java:6)\n\t... 1 more\n",
                "Main.java:3, called from Main.java:6",
            ),
            ("SUMMARY: ThreadSanitizer: data race", "none"),
            ("everything is fine: 12:30:01", "none"),
            ("panicked at nowhere:0:0", "none"),
        ] {
            assert_eq!(site_text(text), expected, "{text}");
        }
    }
}
