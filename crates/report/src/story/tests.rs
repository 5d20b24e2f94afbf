use super::*;
use provoke_model::{
    CallLanguage, CoreObservation, Fault, Goroutine, Hang, HungThread, Module, Signal,
};
use std::time::Duration;

fn frame(module: &str, function: &str, line: Option<(&str, u32)>) -> Frame {
    Frame {
        offset: 0x1179,
        module: Some(module.to_owned()),
        function: (!function.is_empty()).then(|| function.to_owned()),
        line: line.map(|(file, line)| (file.to_owned(), line)),
        ..Frame::default()
    }
}

fn runtime_call(function: &str, line: Option<(&str, u32)>, is_library: bool) -> Frame {
    Frame {
        module: is_library.then(|| "java.base".to_owned()),
        ..frame("", function, line)
    }
}

/// Returns the description of a crash, 100 columns wide.
fn describe(autopsy: &Autopsy, verbose: bool) -> String {
    crash_story(autopsy, verbose, 100)
}

fn describe_hang(hang: &Hang) -> String {
    let mut lines = WrappedText::new(100);
    hang_story(&mut lines, hang, None, false);
    lines.into_text()
}

fn null_pointer_autopsy() -> Autopsy {
    let frames = vec![
        Frame {
            inlined: true,
            ..frame("libfoo.so.1", "at", Some(("foo.h", 7)))
        },
        frame("libfoo.so.1", "conv", Some(("foo.c", 12))),
        frame("libbar.so", "", None),
        frame("boom", "worker", Some(("boom.c", 40))),
    ];
    let waiting = |tid, name: &str| Thread {
        tid,
        name: name.to_owned(),
        frames: vec![
            frame("libc.so.6", "futex_wait", None),
            frame("libc.so.6", "pthread_cond_wait", None),
            frame("boom", "pool", None),
        ],
        cut: None,
    };
    Autopsy {
        crash: Crash {
            pid: 77,
            program: "boom".to_owned(),
            signal: Some(Signal::SEGV),
            fault: Fault {
                class: "null pointer".to_owned(),
                detail: "offset 0x10: a field of an object whose pointer is null".to_owned(),
                address: Some(0x10),
                instruction: Some("mov eax, [rdi+0x10]".to_owned()),
                ..Fault::default()
            },
            frames: frames.clone(),
            thread: 2,
            ..Crash::default()
        },
        threads: vec![
            Thread {
                tid: 78,
                name: "worker".to_owned(),
                frames,
                cut: Some("the stack is damaged".to_owned()),
            },
            Thread {
                tid: 77,
                name: "boom".to_owned(),
                frames: vec![
                    frame("libc.so.6", "pthread_join", None),
                    frame("boom", "main", None),
                ],
                cut: None,
            },
            waiting(79, "pool"),
            waiting(80, "pool"),
            waiting(81, "pool"),
        ],
        registers: vec![
            ("rax".to_owned(), 1),
            ("rbx".to_owned(), 2),
            ("rdi".to_owned(), 0),
            ("r8".to_owned(), 8),
        ],
        modules: vec![
            Module {
                path: "/opt/lib/libbar.so".to_owned(),
                base: 0x7f00,
                build_id: Some("a1b2".to_owned()),
                symbols: "nothing".to_owned(),
            },
            Module {
                path: "/usr/lib/libunused.so".to_owned(),
                symbols: "nothing".to_owned(),
                ..Module::default()
            },
        ],
        tools: vec![(
            "py-spy".to_owned(),
            "Thread 77 (idle)\n    wait (a.py:3)\n".to_owned(),
        )],
        gaps: vec!["the file /opt/lib/libbar.so has changed since the crash".to_owned()],
    }
}

#[test]
fn the_description_begins_with_the_answer_and_ends_with_the_gaps() {
    insta::assert_snapshot!(describe(&null_pointer_autopsy(), false), @"
    SIGSEGV at foo.h:7 in at: read from address 0x10 (null pointer + 0x10)
      called by conv (foo.c:12)

    Thread 2 of 5, where it happened (worker), innermost first:
        0  libfoo.so.1  at (inlined)  foo.h:7
        1  libfoo.so.1  conv  foo.c:12
        2  libbar.so    +0x1179
        3  boom         worker  boom.c:40
           … the list ends here: the stack is damaged

    4 other threads:
      thread 77 (boom): libc.so.6!pthread_join < boom!main
      3 threads: libc.so.6!futex_wait < pthread_cond_wait < boom!pool

    py-spy says:
      Thread 77 (idle)
          wait (a.py:3)

    Details:
      process 77 (boom) died of SIGSEGV: null pointer
      offset 0x10: a field of an object whose pointer is null
      at libfoo.so.1!at: mov eax, [rdi+0x10]
        rax = 0x1   rdi = 0x0
      next: find where the object should be created, and whether it is used before that or after it was
        destroyed.

    Files without symbols:
      /opt/lib/libbar.so (build id a1b2)
      Build them with -g and do not strip them, or install the package with their debug symbols
        (-dbgsym, -debuginfo); those in /usr/lib/debug are found by the build id.

    Not known:
      - the file /opt/lib/libbar.so has changed since the crash
    ");
}

#[test]
fn every_register_is_shown_if_verbose() {
    let brief = describe(&null_pointer_autopsy(), false);
    assert!(!brief.contains("rbx"));
    assert!(
        describe(&null_pointer_autopsy(), true)
            .contains("rax = 0x1   rbx = 0x2   rdi = 0x0   r8 = 0x8")
    );
}

#[test]
fn repeated_frames_of_a_recursion_are_shown_once() {
    let mut autopsy = null_pointer_autopsy();
    autopsy.threads.truncate(1);
    autopsy.threads[0].frames = vec![
        Frame {
            repeated: 2036,
            ..frame("boom", "rec", Some(("boom.c", 3)))
        },
        frame("boom", "main", None),
    ];
    autopsy.threads[0].cut = None;
    autopsy.crash.fault = Fault {
        class: "stack overflow".to_owned(),
        detail: "the calls are 2038 deep: recursion".to_owned(),
        ..Fault::default()
    };
    (autopsy.tools, autopsy.gaps) = (Vec::new(), Vec::new());
    insta::assert_snapshot!(describe(&autopsy, false), @"
    SIGSEGV at foo.h:7 in at: stack overflow
      called by conv (foo.c:12)

    Calls, innermost first:
        0  boom  rec  boom.c:3
           (and 2036 more like this)
        1  boom  main

    Details:
      process 77 (boom) died of SIGSEGV: stack overflow
      the calls are 2038 deep: recursion
      next: check the end condition of the recursion; a larger stack (ulimit -s) only delays the crash.

    Files without symbols:
      /opt/lib/libbar.so (build id a1b2)
      Build them with -g and do not strip them, or install the package with their debug symbols
        (-dbgsym, -debuginfo); those in /usr/lib/debug are found by the build id.
    ");
}

#[test]
fn the_abort_message_is_shown_and_explained() {
    let autopsy = Autopsy {
        crash: Crash {
            pid: 77,
            program: "boom".to_owned(),
            signal: Some(Signal::ABRT),
            fault: Fault {
                class: "aborted itself".to_owned(),
                sender: Some(77),
                ..Fault::default()
            },
            abort: Some("free(): double free detected in tcache 2\n".to_owned()),
            phase: ProcessPhase::Shutdown,
            python: vec![
                runtime_call("close", Some(("/usr/lib/python3.11/os.py", 7)), false),
                runtime_call("shut", Some(("a.py", 3)), false),
                runtime_call("main", Some(("a.py", 9)), false),
            ],
            ..Crash::default()
        },
        ..Autopsy::default()
    };
    insta::assert_snapshot!(describe(&autopsy, false), @"
    SIGABRT at a.py:3 in shut, while it was shutting down: free(): double free detected in tcache 2
      called by main (a.py:9)

    Calls: not known
      Python: close (os.py:7) < shut (a.py:3) < main (a.py:9)

    Details:
      process 77 (boom) died of SIGABRT: aborted itself
      the process sent the signal to itself
      it said: free(): double free detected in tcache 2
      memory was freed twice
      next: the damage happened earlier. Run it with AddressSanitizer (-fsanitize=address) or valgrind,
        which stop at the cause; they change timing, so they may need many trials.
    ");
}

#[test]
fn long_stacks_are_shortened_unless_verbose() {
    let mut autopsy = null_pointer_autopsy();
    autopsy.threads[0].frames = (0..40)
        .map(|n| frame("boom", &format!("f{n}"), None))
        .collect();
    let brief = describe(&autopsy, false);
    assert!(brief.contains("f23") && !brief.contains("f24") && brief.contains("… 16 more calls"));
    assert!(describe(&autopsy, true).contains("f39"));
}

#[test]
fn hostile_text_is_escaped() {
    let evil = "\u{1b}[31m\r\nx\u{202e}\u{7}";
    let mut autopsy = null_pointer_autopsy();
    autopsy.crash.program = evil.to_owned();
    autopsy.crash.abort = Some(evil.to_owned());
    autopsy.crash.python = vec![frame("", evil, Some((evil, 3)))];
    autopsy.crash.fault.class = evil.to_owned();
    autopsy.crash.fault.detail = evil.to_owned();
    autopsy.crash.fault.instruction = Some(evil.to_owned());
    for thread in &mut autopsy.threads {
        thread.name = evil.to_owned();
        thread.cut = Some(evil.to_owned());
        for frame in &mut thread.frames {
            frame.module = Some(evil.to_owned());
            frame.function = Some(evil.to_owned());
            frame.line = Some((evil.to_owned(), 1));
        }
    }
    autopsy.registers[0].0 = evil.to_owned();
    autopsy.tools = vec![(evil.to_owned(), evil.to_owned())];
    autopsy.gaps = vec![evil.to_owned()];
    let text = describe(&autopsy, true);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'));
}

#[test]
fn a_crash_without_facts_is_described_as_not_known() {
    insta::assert_snapshot!(describe(&Autopsy::default(), false), @"
    examined while it ran

    Calls: not known

    Details:
      process 0 was examined while it ran
    ");
}

#[test]
fn lines_fit_the_width() {
    for width in [60, 80, 100] {
        for line in crash_story(&null_pointer_autopsy(), true, width).lines() {
            assert!(line.chars().count() <= width, "{line}");
        }
    }
}

#[test]
fn a_stack_line_that_is_too_long_is_wrapped_before_its_file() {
    let mut autopsy = null_pointer_autopsy();
    autopsy.threads.truncate(1);
    let file = "./csu/../sysdeps/nptl/libc_start_call_main.h";
    let frames = vec![frame(
        "libc.so.6",
        "__libc_start_call_main",
        Some((file, 58)),
    )];
    autopsy.threads[0].frames = frames;
    (autopsy.tools, autopsy.gaps) = (Vec::new(), Vec::new());
    let shown = |width| {
        let text = crash_story(&autopsy, false, width);
        let stack = text
            .lines()
            .skip_while(|line| !line.contains("innermost first"));
        stack.take(3).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown(70), @"
    Calls, innermost first:
        0  libc.so.6  __libc_start_call_main  …/libc_start_call_main.h:58
           … the list ends here: the stack is damaged
    ");
    insta::assert_snapshot!(shown(50), @"
    Calls, innermost first:
        0  libc.so.6  __libc_start_call_main
                        …/libc_start_call_main.h:58
    ");
}

#[test]
fn memory_reads_and_writes_are_distinguished_by_the_instruction() {
    assert_eq!(memory_access("mov eax, [rdi+0x10]"), "read from");
    assert_eq!(memory_access("mov dword ptr [rax], 1"), "wrote to");
    assert_eq!(memory_access("add [rax], esi"), "touched");
    assert_eq!(memory_access("movsb [rdi], [rsi]"), "touched");
    assert_eq!(memory_access("call [rax]"), "touched");
}

#[test]
fn a_partial_register_is_mapped_to_its_full_register() {
    for (part, full) in [
        ("eax", "rax"),
        ("ax", "rax"),
        ("al", "rax"),
        ("ah", "rax"),
        ("rax", "rax"),
        ("edi", "rdi"),
        ("dil", "rdi"),
        ("di", "rdi"),
        ("esp", "rsp"),
        ("spl", "rsp"),
        ("r8d", "r8"),
        ("r15w", "r15"),
        ("r10", "r10"),
        ("r9b", "r9"),
        ("bl", "rbx"),
    ] {
        assert_eq!(full_register(part), full, "{part}");
    }
}

fn thread(tid: i32, name: &str, state: char) -> HungThread {
    HungThread {
        pid: 77,
        tid,
        name: name.to_owned(),
        state,
        call: "futex".to_owned(),
        channel: "futex_do_wait".to_owned(),
        ..HungThread::default()
    }
}

#[test]
fn a_deadlock_is_described_as_a_cycle() {
    let holder = |tid, other, function| HungThread {
        waits_for: Some(other),
        frames: vec![
            frame("libc.so.6", "pthread_mutex_lock", None),
            frame("boom", function, None),
        ],
        ..thread(tid, "worker", 'S')
    };
    let hang = Hang {
        threads: vec![
            thread(77, "boom", 'S'),
            holder(78, 79, "take_ab"),
            holder(79, 78, "take_ba"),
            thread(80, "idle", 'S'),
            thread(81, "idle", 'S'),
        ],
        unlisted: 5,
        cycle: vec![78, 79],
        ..Hang::default()
    };
    insta::assert_snapshot!(describe_hang(&hang), @"
    Deadlock: thread 78 (worker) waits for a lock that is held by thread 79 (worker), which waits for a
    lock that is held by thread 78 (worker).

    What its threads were doing:
      3 threads: asleep, in futex, at futex_do_wait in the kernel
      process 77, thread 78 (worker): asleep, in futex, at futex_do_wait in the kernel, waits for 79
          libc.so.6!pthread_mutex_lock < boom!take_ab
      process 77, thread 79 (worker): asleep, in futex, at futex_do_wait in the kernel, waits for 78
          libc.so.6!pthread_mutex_lock < boom!take_ba
      and 5 more threads
    ");
}

#[test]
fn busy_stuck_blocked_and_stopped_processes_are_distinguished() {
    let busy = HungThread {
        cpu: Duration::from_millis(199),
        call: String::new(),
        channel: "0".to_owned(),
        ..thread(77, "boom", 'R')
    };
    let describe_threads = |threads| {
        describe_hang(&Hang {
            threads,
            ..Hang::default()
        })
    };
    insta::assert_snapshot!(describe_threads(vec![busy]), @"
    Busy: 1 thread kept running.

    What its threads were doing:
      process 77 (boom): running, used 199 ms of CPU time
    ");
    insta::assert_snapshot!(describe_threads(vec![thread(77, "boom", 'D')]), @"
    Stuck in the kernel: a disk, a network file system or a driver does not respond.

    What its threads were doing:
      process 77 (boom): stuck in the kernel, in futex, at futex_do_wait in the kernel
    ");
    insta::assert_snapshot!(describe_threads(vec![thread(77, "boom", 'S')]), @"
    Blocked: every thread waits.

    What its threads were doing:
      process 77 (boom): asleep, in futex, at futex_do_wait in the kernel
    ");
    let other = Hang {
        threads: vec![thread(77, "boom", 'S')],
        cores: vec![CoreObservation {
            pid: 77,
            unread: Some("cannot write it: Permission denied".to_owned()),
            ..CoreObservation::default()
        }],
        ..Hang::default()
    };
    insta::assert_snapshot!(describe_hang(&other), @"
    Blocked: every thread waits.

    What its threads were doing:
      process 77 (boom): asleep, in futex, at futex_do_wait in the kernel
      no stack of 77: cannot write it: Permission denied
    ");
    insta::assert_snapshot!(describe_threads(vec![thread(77, "boom", 'T')]), @"
    Stopped: by SIGSTOP, or because it wanted its terminal.

    What its threads were doing:
      process 77 (boom): stopped, in futex, at futex_do_wait in the kernel
    ");
    insta::assert_snapshot!(describe_threads(Vec::new()), @"
    It did not end in time. No stack was taken: when its threads were examined, none was left.
    ");
    let slow = Hang {
        ended_after: std::time::Duration::from_millis(57),
        ..Hang::default()
    };
    insta::assert_snapshot!(describe_hang(&slow), @"
    No stack was taken: it ended by itself 57 ms after the time limit. It was only slow: a longer limit
    (-t) lets it end.
    ");
}

#[test]
fn goroutines_are_described_instead_of_the_threads_that_run_them() {
    let goroutine = |number, state: &str, calls| Goroutine {
        pid: 77,
        number,
        state: state.to_owned(),
        calls,
    };
    let main = runtime_call("main.main", Some(("/src/bank.go", 9)), false);
    let calls = [
        runtime_call(
            "sync.(*Mutex).Lock",
            Some(("/usr/lib/go-1.19/src/sync/mutex.go", 90)),
            false,
        ),
        runtime_call("main.credit", Some(("/src/bank.go", 4)), false),
    ];
    let hang = Hang {
        threads: vec![thread(77, "bank", 'S')],
        goroutines: vec![
            goroutine(1, "chan receive", vec![main]),
            goroutine(5, "semacquire", calls.to_vec()),
            goroutine(6, "semacquire", calls.to_vec()),
        ],
        ..Hang::default()
    };
    insta::assert_snapshot!(describe_hang(&hang), @"
    Blocked: 2 goroutines wait for locks.

    What its goroutines were doing:
      goroutine 1: chan receive
          Go: main.main (bank.go:9)
      2 goroutines: semacquire
          Go: sync.(*Mutex).Lock (mutex.go:90) < main.credit (bank.go:4)
    ");
}

#[test]
fn threads_of_the_java_virtual_machine_are_counted() {
    let with_calls = |calls, thread| HungThread {
        language: CallLanguage::Java,
        frames: vec![frame("libjvm.so", "Unsafe_Park", None)],
        calls,
        ..thread
    };
    let wait = || runtime_call("Object.wait", None, true);
    let hang = Hang {
        threads: vec![
            thread(77, "java", 'S'),
            with_calls(vec![wait()], thread(78, "Finalizer", 'S')),
            with_calls(
                vec![
                    wait(),
                    runtime_call("Bank.main", Some(("Bank.java", 13)), false),
                ],
                thread(79, "main", 'S'),
            ),
        ],
        ..Hang::default()
    };
    insta::assert_snapshot!(describe_hang(&hang), @"
    Blocked: every thread waits.

    What its threads were doing:
      process 77, thread 79 (main): asleep, in futex, at futex_do_wait in the kernel
          Java: Object.wait < Bank.main (Bank.java:13)
      and 2 threads of the Java virtual machine
    ");
}
