use super::*;

/// Lines, each with the kind and the detail of its meaning.
const LINES: &[(&str, &str, &str)] = &[
    ("double free or corruption (!prev)", "double free", ""),
    ("double free or corruption (out)", "double free", ""),
    ("double free or corruption (fasttop)", "double free", ""),
    ("double free or corruption (top)", "double free", ""),
    (
        "*** Error in `./x': double free or corruption (out): 0x0193 ***",
        "double free",
        "",
    ),
    (
        "free(): double free detected in tcache 2",
        "double free",
        "",
    ),
    ("free(): invalid pointer", "bad free", ""),
    ("munmap_chunk(): invalid pointer", "bad free", ""),
    ("mremap_chunk(): invalid pointer", "bad free", ""),
    ("realloc(): invalid pointer", "bad free", ""),
    ("free(): invalid size", "heap corruption", ""),
    ("free(): invalid next size (fast)", "heap corruption", ""),
    ("free(): invalid next size (normal)", "heap corruption", ""),
    ("free(): corrupted unsorted chunks", "heap corruption", ""),
    (
        "free(): too many chunks detected in tcache",
        "heap corruption",
        "",
    ),
    (
        "free(): unaligned chunk detected in tcache 2",
        "heap corruption",
        "",
    ),
    ("malloc(): memory corruption", "heap corruption", ""),
    ("malloc(): corrupted top size", "heap corruption", ""),
    (
        "malloc(): corrupted unsorted chunks 2",
        "heap corruption",
        "",
    ),
    ("malloc(): invalid size (unsorted)", "heap corruption", ""),
    (
        "malloc(): invalid next size (unsorted)",
        "heap corruption",
        "",
    ),
    (
        "malloc(): invalid next->prev_inuse (unsorted)",
        "heap corruption",
        "",
    ),
    (
        "malloc(): mismatching next->prev_size (unsorted)",
        "heap corruption",
        "",
    ),
    (
        "malloc(): unsorted double linked list corrupted",
        "heap corruption",
        "",
    ),
    (
        "malloc(): smallbin double linked list corrupted",
        "heap corruption",
        "",
    ),
    (
        "malloc(): largebin double linked list corrupted (bk)",
        "heap corruption",
        "",
    ),
    (
        "malloc(): largebin double linked list corrupted (nextsize)",
        "heap corruption",
        "",
    ),
    (
        "malloc(): unaligned fastbin chunk detected 3",
        "heap corruption",
        "",
    ),
    (
        "malloc(): unaligned tcache chunk detected",
        "heap corruption",
        "",
    ),
    (
        "malloc_consolidate(): invalid chunk size",
        "heap corruption",
        "",
    ),
    (
        "malloc_consolidate(): unaligned fastbin chunk detected",
        "heap corruption",
        "",
    ),
    ("realloc(): invalid old size", "heap corruption", ""),
    ("realloc(): invalid next size", "heap corruption", ""),
    (
        "tcache_thread_shutdown(): unaligned tcache chunk detected",
        "heap corruption",
        "",
    ),
    ("corrupted size vs. prev_size", "heap corruption", ""),
    (
        "corrupted size vs. prev_size while consolidating",
        "heap corruption",
        "",
    ),
    (
        "corrupted size vs. prev_size in fastbins",
        "heap corruption",
        "",
    ),
    ("corrupted double-linked list", "heap corruption", ""),
    (
        "corrupted double-linked list (not small)",
        "heap corruption",
        "",
    ),
    (
        "int_mallinfo(): unaligned fastbin chunk detected",
        "heap corruption",
        "",
    ),
    ("break adjusted to free malloc space", "heap corruption", ""),
    (
        "Fatal glibc error: malloc.c:2599 (sysmalloc): malloc assertion failure in sysmalloc",
        "heap corruption",
        "",
    ),
    (
        "src/tcmalloc.cc:283] Attempt to free invalid pointer 0x7ff",
        "bad free",
        "",
    ),
    (
        "*** stack smashing detected ***: terminated",
        "overflow",
        "",
    ),
    (
        "*** buffer overflow detected ***: terminated",
        "overflow",
        "",
    ),
    (
        "*** longjmp causes uninitialized stack frame ***: terminated",
        "c library",
        "",
    ),
    ("*** %n in writable segment detected ***", "c library", ""),
    ("FATAL: exception not rethrown", "c library", ""),
    (
        "The futex facility returned an unexpected error code.",
        "c library",
        "",
    ),
    (
        "x: a.c:12: f: Assertion `n > 0' failed.",
        "assert",
        "n > 0 in f",
    ),
    (
        "x: a.cc:12: void a::B<T>::f(int) [with T = int]: Assertion `n > 0' failed.",
        "assert",
        "n > 0 in a::B::f",
    ),
    (
        "/u/v.h:1123: std::vector<_Tp>::reference std::vector<_Tp>::operator[](size_type) [with _Tp = int; reference = int&]: Assertion '__n < this->size()' failed.",
        "assert",
        "__n < this->size() in std::vector::operator[]",
    ),
    (
        "Assertion failed: n > 0 (a.c: f: 12)",
        "assert",
        "n > 0 in f",
    ),
    (
        "Assertion failed: (n > 0), function f, file a.c, line 12.",
        "assert",
        "n > 0 in f",
    ),
    (
        "Fatal glibc error: pthread_mutex_lock.c:450 (__pthread_mutex_lock_full): assertion failed: e != ESRCH || !robust",
        "assert",
        "e != ESRCH || !robust in __pthread_mutex_lock_full",
    ),
    (
        "F0101 12:00:00.000 7 a.cc:12] Check failed: n > 0 (0 vs. 1)",
        "assert",
        "n > 0",
    ),
    (
        "terminate called after throwing an instance of 'std::runtime_error', what():  disk 7",
        "c++ exception",
        "std::runtime_error",
    ),
    (
        "libc++abi: terminating due to uncaught exception of type std::out_of_range: vector",
        "c++ exception",
        "std::out_of_range",
    ),
    (
        "libc++abi.dylib: terminating with uncaught exception of type int",
        "c++ exception",
        "int",
    ),
    (
        "terminate called without an active exception",
        "c++ terminate",
        "",
    ),
    ("terminate called recursively", "c++ terminate", ""),
    ("pure virtual method called", "pure virtual", ""),
    (
        "libc++abi: Pure virtual function called!",
        "pure virtual",
        "",
    ),
    (
        "thread 'main' panicked at src/main.rs:4:5: index out of bounds: the len is 3 but the index is 99",
        "rust panic",
        "index out of bounds: the len is N but the index is N",
    ),
    (
        "thread 'main' (4711) panicked at src/main.rs:4:5: boom",
        "rust panic",
        "boom",
    ),
    (
        "thread '<unnamed>' panicked at 'boom', src/main.rs:4:5",
        "rust panic",
        "boom",
    ),
    (
        "thread 'main' has overflowed its stack",
        "rust stack overflow",
        "",
    ),
    (
        "Fatal Python error: Segmentation fault",
        "python fatal",
        "Segmentation fault",
    ),
    (
        "Fatal Python error: Segmentation fault, in f (a.py:3)",
        "python fatal",
        "Segmentation fault, in f",
    ),
    (
        "Fatal Python error: PyEval_SaveThread: the function must be called with the GIL held",
        "python fatal",
        "PyEval_SaveThread: the function must be called with the GIL held",
    ),
    (
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        "node heap",
        "",
    ),
    (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x1",
        "sanitizer",
        "AddressSanitizer heap-use-after-free",
    ),
    (
        "==7==ERROR: AddressSanitizer: SEGV on unknown address 0x0 (pc 0x1)",
        "sanitizer",
        "AddressSanitizer SEGV",
    ),
    (
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602, in g(int)",
        "sanitizer",
        "AddressSanitizer heap-use-after-free in g",
    ),
    (
        "==7==ERROR: LeakSanitizer: detected memory leaks",
        "sanitizer",
        "LeakSanitizer detected memory leaks",
    ),
    (
        "==7==WARNING: MemorySanitizer: use-of-uninitialized-value",
        "sanitizer",
        "MemorySanitizer use-of-uninitialized-value",
    ),
    (
        "WARNING: ThreadSanitizer: data race (pid=7)",
        "sanitizer",
        "ThreadSanitizer data race",
    ),
    (
        "a.c:3:5: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented",
        "sanitizer",
        "UndefinedBehaviorSanitizer signed integer overflow in a.c",
    ),
    (
        "# A fatal error has been detected by the Java Runtime Environment:",
        "jvm",
        "",
    ),
    (
        "A fatal error has been detected by the Java Runtime Environment: C  [libx.so+0x10]  f+0x1",
        "jvm",
        "C [libx.so+H] f+H",
    ),
    (
        "Exception in thread \"main\" java.lang.IllegalStateException: no 7",
        "java exception",
        "java.lang.IllegalStateException: no N",
    ),
    (
        "panic: runtime error: index out of range [5] with length 3",
        "go",
        "runtime error: index out of range [N] with length N",
    ),
    (
        "fatal error: all goroutines are asleep - deadlock!",
        "go",
        "all goroutines are asleep - deadlock!",
    ),
    (
        "fatal error: concurrent map writes",
        "go",
        "concurrent map writes",
    ),
    (
        "ValueError: 0x7ffe is bad",
        "python exception",
        "ValueError: H is bad",
    ),
    (
        "requests.exceptions.ConnectionError",
        "python exception",
        "requests.exceptions.ConnectionError",
    ),
    ("KeyboardInterrupt", "python exception", "KeyboardInterrupt"),
];

#[test]
fn every_known_line_has_its_kind_and_detail() {
    for (line, kind, detail) in LINES {
        let tell = read_tell(line).unwrap_or_else(|| panic!("nothing told by: {line}"));
        assert_eq!(
            (tell.kind, tell.detail.as_str()),
            (*kind, *detail),
            "{line}"
        );
        assert!(!tell.words.is_empty());
    }
}

#[test]
fn all_heap_messages_have_the_heap_family() {
    for (line, kind, _) in LINES {
        let heap = ["double free", "bad free", "heap corruption"].contains(kind);
        assert_eq!(
            read_tell(line).unwrap().family,
            heap.then_some("heap"),
            "{line}"
        );
    }
}

#[test]
fn every_fixed_text_of_the_table_is_matched() {
    for row in table::FIXED {
        let tell = read_tell(&format!("{}x", row.text)).unwrap_or_else(|| panic!("{}", row.text));
        assert_eq!(tell.kind, row.sort.kind, "{}", row.text);
    }
}

#[test]
fn ordinary_lines_have_no_meaning() {
    for line in [
        "",
        "work done",
        "error: no such file",
        "fatal error: a.h: No such file or directory",
        "Error",
        "Segmentation fault (core dumped)",
        "sh: line 1: 77 Aborted ./x",
        "ERROR: something",
        "note: run with `RUST_BACKTRACE=1`",
        "http://host/Error: x",
        "12 Errors",
    ] {
        let meaning = read_tell(line).filter(|_| line != "Error");
        assert_eq!(meaning, None, "{line}");
    }
}

#[test]
fn a_message_that_only_repeats_the_signal_is_an_echo() {
    assert!(
        read_tell("Fatal Python error: Segmentation fault, in f (a.py:3)")
            .unwrap()
            .is_echo()
    );
    assert!(
        !read_tell("Fatal Python error: take_gil: no GIL")
            .unwrap()
            .is_echo()
    );
    assert!(!read_tell("free(): invalid pointer").unwrap().is_echo());
}

#[track_caller]
fn assert_telling_line(output: &str, line: &str) {
    let telling_line = find_message_line(output.as_bytes());
    assert_eq!(telling_line.as_deref(), Some(line));
    assert!(read_tell(line).is_some(), "{line}");
}

#[test]
fn a_cpp_exception_is_joined_with_its_message() {
    assert_telling_line(
        "x\nterminate called after throwing an instance of 'std::runtime_error'\n  what():  disk 7\nAborted\n",
        "terminate called after throwing an instance of 'std::runtime_error', what():  disk 7",
    );
}

#[test]
fn the_message_of_the_cause_is_preferred_to_later_messages() {
    assert_telling_line(
        "pure virtual method called\nterminate called without an active exception\n",
        "pure virtual method called",
    );
    assert_telling_line(
        "free(): invalid pointer\nFatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n",
        "free(): invalid pointer",
    );
}

#[test]
fn the_first_of_two_panics_is_the_cause() {
    assert_telling_line(
        "thread 'w' panicked at src/a.rs:1:2:\nboom\nnote: x\nthread 'main' panicked at src/b.rs:3:4:\ncalled `Result::unwrap()` on an `Err` value: Any { .. }\n",
        "thread 'w' panicked at src/a.rs:1:2: boom",
    );
}

#[test]
fn a_panic_in_a_destructor_is_named_with_the_first_panic() {
    assert_telling_line(
        "\nthread 'main' (9) panicked at src/main.rs:6:5:\nfirst\nnote: run with `RUST_BACKTRACE=1`\n\nthread 'main' (9) panicked at src/main.rs:3:34:\nsecond\nstack backtrace:\n   0: x\n\nthread 'main' (9) panicked at library/core/src/panicking.rs:233:5:\npanic in a destructor during cleanup\nthread caused non-unwinding panic. aborting.\n",
        "thread 'main' (9) panicked at src/main.rs:6:5: first; then a destructor panicked at src/main.rs:3:34: second, which aborts",
    );
}

#[test]
fn a_sanitizer_report_is_joined_with_its_function() {
    assert_telling_line(
        "=====\n==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602 at pc 0x4 bp 0x7\nREAD of size 1\n    #0 0x4 in g /s/a.c:3\nSUMMARY: AddressSanitizer: heap-use-after-free /s/a.c:3:1 in g\n",
        "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x602, in g",
    );
    assert_telling_line(
        "==7==ERROR: AddressSanitizer: attempting double-free on 0x604 in thread T0:\n    #0 0x7 in __interceptor_free ../../src/libsanitizer/asan/a.cpp:52\n    #1 0x5 in close(int, char) /s/a.cc:5\n\nSUMMARY: AddressSanitizer: double-free a.cpp:52 in __interceptor_free\n",
        "==7==ERROR: AddressSanitizer: attempting double-free on 0x604 in thread T0, in close(int, char)",
    );
    assert_telling_line(
        "==7==ERROR: LeakSanitizer: detected memory leaks\n\nSUMMARY: AddressSanitizer: 7 byte(s) leaked in 1 allocation(s).\n",
        "==7==ERROR: LeakSanitizer: detected memory leaks",
    );
}

#[test]
fn the_uncaught_python_exception_is_that_of_the_last_traceback() {
    let output = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3\n    f()\nValueError: 12\n";
    assert_telling_line(output, "ValueError: 12");
    let own = "Traceback (most recent call last):\n  File \"a.py\", line 3\nBoom: 12\n";
    assert_eq!(
        find_message_line(own.as_bytes()).as_deref(),
        Some("Boom: 12")
    );
}

#[test]
fn an_exception_that_was_only_logged_is_ignored() {
    assert_eq!(find_message_line(b"ValueError: ignored\nok\n"), None);
}

#[test]
fn a_faulthandler_message_is_joined_with_the_innermost_python_function() {
    assert_telling_line(
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x7f (most recent call first):\n  File \"/x/a.py\", line 3 in f\n  File \"/x/a.py\", line 9 in <module>\n",
        "Fatal Python error: Segmentation fault, in f (a.py:3)",
    );
}

#[test]
fn a_faulthandler_message_is_joined_with_the_thread_that_crashed() {
    assert_telling_line(
        "Fatal Python error: Segmentation fault\n\nThread 0x7e (most recent call first):\n  File \"/x/socket.py\", line 294 in accept\n\nCurrent thread 0x7f (most recent call first):\n  File \"/x/a.py\", line 3 in f\n",
        "Fatal Python error: Segmentation fault, in f (a.py:3)",
    );
}

#[test]
fn a_java_crash_is_joined_with_its_problematic_frame() {
    assert_telling_line(
        "#\n# A fatal error has been detected by the Java Runtime Environment:\n#\n#  SIGSEGV (0xb) at pc=0x7f\n#\n# Problematic frame:\n# C  [libx.so+0x10]  f+0x1\n#\n",
        "A fatal error has been detected by the Java Runtime Environment: C  [libx.so+0x10]  f+0x1",
    );
}

#[test]
fn only_the_end_of_a_long_output_is_searched() {
    let mut output = b"free(): invalid pointer\n".to_vec();
    output.extend(std::iter::repeat_n(b'x', 70_000));
    assert_eq!(find_message_line(&output), None);
    assert_eq!(find_message_line(b""), None);
    assert_eq!(find_message_line(&[0xff, 0xfe, b'\n']), None);
}

#[test]
fn an_endless_line_is_cut_between_characters() {
    let output = format!("free(): invalid pointer {}", "\u{fc}".repeat(1000));
    assert!(find_message_line(output.as_bytes()).unwrap().len() <= 400);
}

/// Returns the line that is found in an output, and the detail of its meaning.
fn kind_and_detail(output: &str) -> (String, String) {
    let line = find_message_line(output.as_bytes()).unwrap_or_default();
    let tell = read_tell(&line).unwrap_or_else(|| panic!("{line}"));
    assert_eq!(read_tell(&line).map(|tell| tell.kind), Some(tell.kind));
    (tell.kind.to_owned(), tell.detail)
}

#[test]
fn failed_tests_are_named_for_pytest_unittest_and_go() {
    let pytest = |lines: &str| {
        format!(
            "F.F\n____ test_b ____\nTraceback (most recent call last):\nKeyError: 'x'\ndouble free or corruption\n\
             =========================== short test summary info ============================\n{lines}\
             2 failed, 1 passed in 0.02s\n"
        )
    };
    let name = |text: &str| ("test".to_owned(), text.to_owned());
    let one = pytest("FAILED t/test_a.py::test_b[1-x] - KeyError: 'database is go...\n");
    assert_eq!(kind_and_detail(&one), name("t/test_a.py::test_b[1-x]"));
    let two = pytest("FAILED test_a.py::test_c\nERROR test_a.py::test_b - fixture 'x' not found\n");
    assert_eq!(
        kind_and_detail(&two),
        name("test_a.py::test_b, test_a.py::test_c")
    );
    let parts = read_tell(&find_message_line(two.as_bytes()).unwrap())
        .unwrap()
        .parts;
    assert_eq!(parts, ["test_a.py::test_b", "test_a.py::test_c"]);

    let rule = "=".repeat(70);
    let unittest = format!(
        "FE\n{rule}\nERROR: test_b (__main__.T.test_b)\n----\nTraceback (most recent call last):\nKeyError: 'x'\n\n\
         {rule}\nFAIL: test_a (__main__.T.test_a)\n----\nAssertionError: 1 != 2\n\nRan 2 tests in 0.001s\n\n\
         FAILED (failures=1, errors=1)\n"
    );
    assert_eq!(
        kind_and_detail(&unittest),
        name("test_a (__main__.T.test_a), test_b (__main__.T.test_b)")
    );

    let go = "=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tx/a\t0.003s\nFAIL\n";
    assert_eq!(kind_and_detail(go), name("TestA"));
}

#[test]
fn many_failed_tests_fit_into_one_line() {
    let lines: Vec<String> = (0..100)
        .map(|n| format!("FAILED test_a.py::test_{n:03}"))
        .collect();
    let lines = lines.join(
        "
",
    );
    let output = format!("== short test summary info ==\n{lines}");
    let line = find_message_line(output.as_bytes()).unwrap();
    assert!(
        line.len() < 400 && line.contains(", and ") && line.ends_with(" more"),
        "{line}"
    );
    let tell = read_tell(&line).unwrap();
    assert_eq!(tell.parts[0], "test_a.py::test_000");
    assert!(
        tell.parts
            .iter()
            .all(|part| part.starts_with("test_a.py::test_"))
    );
}

#[test]
fn an_uncaught_node_exception_is_named_with_its_function() {
    let output = |error: &str, call: &str| {
        format!(
            "/x/e.js:1\nsource\n  ^\n\n{error}\n    at {call}\n    at node:internal/main:28:49\n\nNode.js v20.20.2\n"
        )
    };
    let name = |text: &str| ("javascript exception".to_owned(), text.to_owned());
    let type_error = output("TypeError: first bug", "a (/x/e.js:1:21)");
    assert_eq!(
        kind_and_detail(&type_error),
        name("TypeError: first bug, in a")
    );
    let range_error = output(
        "RangeError: 7 is too much",
        "Object.<anonymous> (/x/e.js:1:21)",
    );
    assert_eq!(
        kind_and_detail(&range_error),
        name("RangeError: N is too much")
    );
    // An exception that was only logged is not the cause of the end.
    let logged = "TypeError: x\n    at a (/x/e.js:1:1)\ndone\n";
    assert_eq!(find_message_line(logged.as_bytes()), None);
}

#[test]
fn a_go_data_race_is_named_by_both_functions() {
    let report = |first: &str, second: &str| {
        format!(
            "==================\nWARNING: DATA RACE\nWrite at 0x00c0000b4010 by goroutine 7:\n  {first}()\n      /x/m.go:8 +0x44\n\n\
             Previous read at 0x00c0000b4010 by goroutine 6:\n  {second}()\n      /x/m.go:9 +0x3e\n\n\
             Goroutine 7 (running) created at:\n  main.main()\n==================\nFound 1 data race(s)\nexit status 66\n"
        )
    };
    let numbered = report("main.main.func2", "main.main.func1");
    assert_eq!(
        kind_and_detail(&numbered).1,
        "main.main.func1 and main.main.func2"
    );
    let name = ("go race".to_owned(), "main.load and main.store".to_owned());
    assert_eq!(kind_and_detail(&report("main.load", "main.store")), name);
    assert_eq!(kind_and_detail(&report("main.store", "main.load")), name);
}

#[test]
fn a_panic_of_go_is_joined_with_the_function_of_its_goroutine() {
    let trace = |message: &str| {
        format!(
            "{message}\n\ngoroutine 1 [running]:\nruntime.gopanic()\n\t/usr/lib/go/src/runtime/panic.go:8\nmain.load(0xc0)\n\t/src/main.go:8 +0x1d\n\ngoroutine 5 [chan send]:\nmain.other()\n\t/src/main.go:9\n"
        )
    };
    assert_telling_line(&trace("panic: no"), "panic: no, in main.load");
    assert_telling_line(
        &trace("fatal error: all goroutines are asleep - deadlock!"),
        "fatal error: all goroutines are asleep - deadlock!, in main.load",
    );
    assert_telling_line("panic: no\n", "panic: no");
}

#[test]
fn a_java_exception_is_joined_with_its_innermost_cause() {
    assert_telling_line(
        "Exception in thread \"main\" java.lang.IllegalStateException: no\n\tat Main.load(Main.java:8)\nCaused by: java.io.IOException: a\n\tat Main.read(Main.java:3)\n\t... 1 more\nCaused by: java.io.EOFException: b\n\t... 2 more\nbye\n",
        "Exception in thread \"main\" java.lang.IllegalStateException: no; caused by java.io.EOFException: b",
    );
}

#[test]
fn an_exception_of_node_is_that_of_the_program() {
    let call = "    at load (/src/main.js:5:9)\n    at node:internal/main:2:4\n";
    let emitted = format!(
        "Error: socket hang up\n{call}Emitted 'error' event at:\n{call}\nNode.js v20.20.2\n"
    );
    assert_telling_line(&emitted, "Uncaught Error: socket hang up, in load");
    assert_telling_line(
        "UnhandledPromiseRejection: This error originated here. The promise rejected with the reason \"no paper\".\n    at throwUnhandledRejectionsMode (node:internal/process/promises:389:7) {\n}\n\nNode.js v20.20.2\n",
        "Uncaught UnhandledPromiseRejection: no paper",
    );
}
