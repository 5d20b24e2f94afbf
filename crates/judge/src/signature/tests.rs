use super::*;
use provoke_model::{
    ActorPlan, ActorRole, CrashedProcess, Fault, Frame, Hang, HungThread, KernelLine,
    ProcessObservation, ProcessPhase, SignalEvidence, Site, fault_class,
};
use std::time::Duration;

fn variant() -> VariantPlan {
    VariantPlan {
        actors: vec![ActorPlan {
            name: String::new(),
            role: ActorRole::Main,
            command: vec!["boom".into()],
            copies: 1,
            env: Vec::new(),
            cwd: ".".into(),
            stdin: None,
            container: None,
        }],
        ..VariantPlan::default()
    }
}

/// Parses a stack. `libfoo.so!conv` is a call in a file, `boom+0x1179` a call without a name,
/// `+conv` one that is inlined into the next, and `conv^7` one that occurs eight times.
fn frames(stack: &str) -> Vec<Frame> {
    let frame = |text: &str| {
        let (text, repeated) = text.split_once('^').unwrap_or((text, "0"));
        let plain = text.trim_start_matches('+');
        let (module, function, offset) = match (plain.split_once('!'), plain.split_once("+0x")) {
            (Some((module, function)), _) => (Some(module), Some(function), 0x1179),
            (None, Some((module, offset))) => {
                (Some(module), None, u64::from_str_radix(offset, 16).unwrap())
            }
            (None, None) if plain == "?" => (None, None, 0),
            (None, None) => (Some("boom"), Some(plain), 0x1179),
        };
        Frame {
            offset,
            module: module.map(str::to_owned),
            function: function.map(str::to_owned),
            inlined: text.starts_with('+'),
            repeated: repeated.parse().unwrap(),
            ..Frame::default()
        }
    };
    stack.split(" < ").map(frame).collect()
}

fn crash(signal: i32, class: &str, stack: &str) -> Crash {
    let frames = frames(stack);
    Crash {
        pid: 77,
        // Most programs are linked so that both offsets are the same.
        place: frames.first().map(|frame| frame.offset),
        program: "boom".to_owned(),
        signal: Some(Signal(signal)),
        fault: Fault {
            class: class.to_owned(),
            ..Fault::default()
        },
        frames,
        thread: 1,
        ..Crash::default()
    }
}

fn null_pointer_crash(stack: &str) -> Crash {
    let mut crash = crash(11, fault_class::NULL, stack);
    crash.fault.address = Some(0x10);
    crash
}

fn abort(stack: &str, words: &str) -> Crash {
    Crash {
        abort: Some(words.to_owned()),
        ..crash(6, fault_class::ABORTED, stack)
    }
}

/// Returns the observation of a main process that ended like this.
fn observation_of(ending: Ending) -> Observation {
    Observation {
        actors: vec![ActorObservation {
            pid: 77,
            ending,
            ..ActorObservation::default()
        }],
        ..Observation::default()
    }
}

fn kind_of(seen: &Observation) -> FailureKind {
    match seen.actors[0].ending {
        Ending::Signaled(signal, core) => FailureKind::Signal {
            signal,
            evidence: SignalEvidence::WaitStatus { core },
        },
        Ending::Exited(code) => FailureKind::Exit { code },
        _ => FailureKind::Hang { stopped: false },
    }
}

fn signature_of_observation(seen: &Observation) -> Signature {
    signature_of_failure(&kind_of(seen), &variant(), seen)
}

fn with_core(crash: Crash) -> Observation {
    let mut seen = observation_of(Ending::Signaled(crash.signal.unwrap(), true));
    seen.cores = vec![CoreObservation {
        pid: crash.pid,
        crash: Some(Box::new(crash)),
        ..CoreObservation::default()
    }];
    seen
}

fn signature_of(crash: Crash) -> Signature {
    signature_of_observation(&with_core(crash))
}

#[track_caller]
fn assert_same_signature(stacks: &[&str]) {
    let ids: Vec<String> = stacks
        .iter()
        .map(|it| signature_of(null_pointer_crash(it)).id.to_string())
        .collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?} {stacks:#?}");
}

#[track_caller]
fn assert_different_signatures(stacks: &[&str]) {
    let mut ids: Vec<SignatureId> = stacks
        .iter()
        .map(|it| signature_of(null_pointer_crash(it)).id)
        .collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "{stacks:#?}");
}

#[test]
fn the_id_of_a_signature_never_changes() {
    // Runs of different versions are compared by these ids.
    assert_eq!(hash_to_id("").to_string(), "4fd0bfc1");
    let mut known = signature_of(null_pointer_crash("inner < outer < main"));
    known.also.clear();
    known.families.clear();
    insta::assert_json_snapshot!(known, @r#"
    {
      "id": "24135fd6",
      "title": "SIGSEGV, null pointer + 0x10, in inner < outer < main",
      "depth": "stack"
    }
    "#);
}

#[test]
fn debug_information_does_not_change_the_signature() {
    assert_same_signature(&[
        "conv < forward < main",
        "+at < +std::vector<int>::at < conv < forward < main",
        "conv < +helper < forward < main",
        "conv(int*, long) < forward(std::vector<int>&) < main",
        "conv.isra.0 < forward.part.2.cold < main",
    ]);
}

#[test]
fn the_next_build_has_the_same_signature() {
    let mut moved = null_pointer_crash("conv < forward < main");
    for frame in &mut moved.frames {
        frame.offset += 0x40;
        frame.line = Some(("a.c".to_owned(), 7));
    }
    assert_eq!(
        signature_of(moved).id,
        signature_of(null_pointer_crash("conv < forward < main")).id
    );
    assert_same_signature(&["libfoo.so.1!f < main", "libfoo.so.1.2.4!f < main"]);
    assert_same_signature(&[
        "t-0123456789abcdef!t::f::h0123456789abcdef",
        "t-fedcba9876543210!t::f::hfedcba9876543210",
    ]);
}

#[test]
fn frames_of_the_c_library_do_not_change_the_signature() {
    assert_same_signature(&[
        "libc.so.6!__strlen_avx2 < f < g < main < libc.so.6!__libc_start_call_main < _start",
        "libc.so.6!__strlen_evex < f < g < main < libc.so.6+0x271ca < libc.so.6!__libc_start_main < _start",
        "libc.so.6+0x15b0c < f < g < main",
        "f < g < main",
    ]);
    // The same crash in a statically linked program.
    assert_same_signature(&[
        "__pthread_kill_implementation < raise < abort < f < main < __libc_start_call_main < _start",
        "__GI_raise < __GI_abort < f < main < __libc_start_main_impl < _start",
        "libc.so.6!abort < f < main",
    ]);
}

#[test]
fn frames_of_the_standard_libraries_do_not_change_the_signature() {
    assert_same_signature(&[
        "f < g < main",
        "core::ptr::mut_ptr::<impl *mut T>::read_volatile < f < g < main",
        "<*mut T>::read_volatile < f < g < main",
        "core::cell::RefCell<T>::borrow_mut < alloc::rc::Rc<T>::drop < f < g < main",
        "std::vector<int, std::allocator<int> >::at < f < g < main",
    ]);
    // A program may have such a namespace.
    assert_different_signatures(&["core::Engine::step < main", "core::Engine::load < main"]);
}

#[test]
fn a_failure_without_lines_points_at_functions() {
    let observation = with_core(null_pointer_crash(
        "libc.so.6!__strlen_avx2 < conv.isra.0 < forward < main",
    ));
    let kind = kind_of(&observation);
    let functions = failure_functions(&kind, &variant(), &observation);
    assert_eq!(functions, ["conv", "forward"]);
    let unnamed = with_core(null_pointer_crash("app+0x1234 < main"));
    assert_eq!(failure_functions(&kind, &variant(), &unnamed), ["main"]);
}

#[test]
fn a_stack_of_only_ignored_frames_is_used_unchanged() {
    let lost = signature_of(null_pointer_crash("libc.so.6!abort < libc.so.6+0x10"));
    insta::assert_snapshot!(lost.title, @"SIGSEGV, null pointer + 0x10, in libc.so!abort < libc.so+0x10");
    insta::assert_snapshot!(signature_of(crash(11, fault_class::WILD_CALL, "?")).title, @"SIGSEGV, jump to nowhere, in unknown code");
    insta::assert_snapshot!(signature_of(crash(11, fault_class::WILD, "")).title, @"SIGSEGV, wild pointer, in boom+0x1179");
}

#[test]
fn other_functions_classes_messages_and_phases_change_the_signature() {
    assert_different_signatures(&[
        "f < g < main",
        "g < f < main",
        "f < h < main",
        "libfoo.so!f < g < main",
        "boom+0x10",
        "boom+0x20",
        "?",
    ]);
    let f = "f < main";
    let ids = [
        signature_of(crash(11, fault_class::NULL, f)).id,
        signature_of(crash(11, fault_class::WILD, f)).id,
        signature_of(crash(7, fault_class::SHORT_FILE, f)).id,
        signature_of(abort(f, "free(): double free detected in tcache 2\n")).id,
        signature_of(abort(f, "free(): invalid pointer\n")).id,
        signature_of(abort(f, "boom: a.c:3: f: Assertion `x' failed.\n")).id,
        signature_of(abort(f, "boom: a.c:4: f: Assertion `y' failed.\n")).id,
        signature_of(abort(f, "")).id,
        signature_of(Crash {
            phase: ProcessPhase::Shutdown,
            ..null_pointer_crash(f)
        })
        .id,
    ];
    assert!(
        ids.iter()
            .enumerate()
            .all(|(at, id)| !ids[..at].contains(id)),
        "{ids:?}"
    );
}

#[test]
fn crashes_of_two_programs_of_a_run_have_two_signatures() {
    let of_program = |variant: &VariantPlan, program: &str| {
        let mut crash = null_pointer_crash("main");
        crash.program = program.to_owned();
        crash.frames[0].module = Some(program.to_owned());
        signature_of_failure(
            &FailureKind::Signal {
                signal: Signal::SEGV,
                evidence: SignalEvidence::WaitStatus { core: true },
            },
            variant,
            &with_core(crash),
        )
    };
    // The next build of the program may have another name.
    let named = |command: &str| {
        let mut variant = variant();
        variant.actors[0].command = vec![command.into()];
        variant
    };
    let old = of_program(&named("./app-old"), "app-old");
    let new = of_program(&named("/elsewhere/app-new"), "app-new");
    assert_eq!(old.id, new.id);
    assert_eq!(old.title, "SIGSEGV, null pointer + 0x10, in main");
    // A shell may run any program.
    let [reader, writer] = ["reader", "writer"].map(|name| of_program(&named("sh"), name));
    assert_ne!(reader.id, writer.id);
    assert_eq!(reader.title, "SIGSEGV, null pointer + 0x10, in reader!main");
    // The next build is recognized in this case, too.
    let also = |one: &Signature| one.also.contains(&(EvidenceDepth::Stack, old.id));
    assert!(also(&reader) && also(&writer));
    // The same applies if the plan names two programs.
    let mut both = named("reader");
    let mut second = both.actors[0].clone();
    second.command = vec!["writer".into()];
    both.actors.push(second);
    assert_eq!(of_program(&both, "reader").id, reader.id);
    assert_eq!(of_program(&both, "writer").id, writer.id);
}

#[test]
fn signatures_of_one_function_or_one_library_have_a_family() {
    let families = |crash: Crash| -> Vec<String> {
        let families = signature_of(crash).families.into_iter();
        families.map(|family| family.title).collect()
    };
    let library = [
        "SIGSEGV in libfoo.so!conv".to_owned(),
        "SIGSEGV in libfoo.so".to_owned(),
    ];
    assert_eq!(
        families(null_pointer_crash("libfoo.so.1!conv < f < main")),
        library
    );
    assert_eq!(
        families(crash(11, fault_class::WILD, "libfoo.so.2!conv < g < main")),
        library
    );
    assert_eq!(families(null_pointer_crash("f < main")), ["SIGSEGV in f"]);
    let only = signature_of(null_pointer_crash("libfoo.so!conv < main")).families[1].id;
    let failure = provoke_model::Failure {
        kind: FailureKind::Signal {
            signal: Signal::SEGV,
            evidence: SignalEvidence::WaitStatus { core: true },
        },
        signature: signature_of(null_pointer_crash("libfoo.so!other < main")),
        sites: Vec::new(),
        functions: Vec::new(),
    };
    assert!(provoke_model::BugFilter::Signature(only).covers_failure(&failure));
    let logged = "b[77]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in libfoo.so.1[1179,55d0c6a00000+1000]";
    assert_eq!(
        signature_of_observation(&with_line(logged)).families[0].id,
        only
    );
}

#[test]
fn titles_contain_the_function_and_the_thread_if_known() {
    let mut seen = with_line(LINE);
    let id = signature_of_observation(&seen).id;
    // Older journals contain only the name.
    let older: KernelLine = serde_json::from_str(r#"{"function":"conv(int*)"}"#).unwrap();
    seen.kernel[0].function = older.function;
    let named = signature_of_observation(&seen);
    insta::assert_snapshot!(named.title, @"SIGSEGV, null pointer, in conv at boom+0x1179 (kernel log)");
    assert_eq!(named.id, id, "it is the same place");
    let mut crash = null_pointer_crash("conv < main");
    (crash.thread, crash.thread_name) = (2, Some("idx-worker".to_owned()));
    insta::assert_snapshot!(signature_of(crash).title, @"SIGSEGV, null pointer + 0x10, in conv < main (thread 2, idx-worker)");
}

#[test]
fn the_fault_address_and_the_thread_do_not_change_the_signature() {
    let mut other = null_pointer_crash("f < main");
    other.fault.address = Some(0x18);
    other.thread = 7;
    other.python = Frame::of_python("f (a.py:3)").into_iter().collect();
    assert_eq!(
        signature_of(other).id,
        signature_of(null_pointer_crash("f < main")).id
    );
}

#[test]
fn the_depth_of_a_recursion_does_not_change_the_signature() {
    let id = |stack: &str| signature_of(crash(11, fault_class::STACK_OVERFLOW, stack)).id;
    let direct = id("rec^2036 < main");
    assert_eq!(id("rec^17 < main"), direct);
    assert_eq!(id("leaf < rec^99 < main"), direct);
    assert_eq!(id("libc.so.6!printf < rec^99"), direct);
    assert_eq!(id("rec < rec < rec"), direct);
    let mutual = id("a < b < a < b < a");
    assert_eq!(id("b < a < b < a"), mutual);
    assert_eq!(id("leaf < a < b < a < b"), mutual);
    assert_ne!(direct, mutual);
}

#[test]
fn a_message_in_memory_or_in_the_output_gives_the_same_signature() {
    let words = "free(): double free detected in tcache 2";
    let in_memory = signature_of(abort("close_handle < main", words));
    let mut on_paper = with_core(crash(6, fault_class::ABORTED, "close_handle < main"));
    on_paper.actors[0].crash_message = Some(words.to_owned());
    assert_eq!(signature_of_observation(&on_paper), in_memory);
}

#[test]
fn the_message_of_faulthandler_does_not_change_the_id() {
    let plain = with_core(null_pointer_crash(
        "boomext.so!c_inner < boomext.so!th < libc.so.6!start_thread",
    ));
    let mut handled = plain.clone();
    handled.actors[0].crash_message =
        Some("Fatal Python error: Segmentation fault, in f (a.py:3)".to_owned());
    assert_eq!(
        signature_of_observation(&plain).id,
        signature_of_observation(&handled).id
    );
}

#[test]
fn frames_of_the_interpreter_do_not_change_the_signature() {
    assert_same_signature(&[
        "e.so!c_inner < e.so!boom < python3.11!cfunction_vectorcall_NOARGS < python3.11!_PyEval_EvalFrameDefault < python3.11!Py_RunMain < main",
        "e.so!c_inner < e.so!boom < python3.11+0x5a1b2 < python3.11!_PyEval_EvalFrameDefault < main",
    ]);
}

#[test]
fn titles_are_readable_and_at_most_100_characters_long() {
    let mut shown = Vec::new();
    let mut show = |crash: Crash| shown.push(signature_of(crash).title);
    show(Crash {
        thread: 7,
        ..null_pointer_crash("libfoo.so!conv < libfoo.so!forward < main")
    });
    show(null_pointer_crash("conv < main"));
    show(Crash {
        phase: ProcessPhase::Shutdown,
        fault: Fault {
            class: fault_class::NULL.to_owned(),
            address: Some(0),
            ..Fault::default()
        },
        ..null_pointer_crash("boomext.so!c_inner < boomext.so!at < libc.so.6!__run_exit_handlers")
    });
    let mut needs = crash(4, "needs AVX2", "search");
    needs.fault.detail = "vpaddd needs AVX2; this CPU lacks it".to_owned();
    show(needs);
    show(abort(
        "libc.so.6!abort < close_handle < main",
        "free(): double free detected in tcache 2",
    ));
    show(abort(
        "check < main",
        "boom: a.c:3: check: Assertion `n > 0' failed.",
    ));
    show(abort(
        "libstdc++.so.6!__cxa_throw < load < main",
        "terminate called after throwing an instance of 'std::bad_alloc'",
    ));
    show(abort(
        "boom::run < main",
        "thread 'main' panicked at src/a.rs:1:2: index 7",
    ));
    show(crash(6, fault_class::ABORTED, "libc.so.6!abort < give_up"));
    show(crash(11, fault_class::STACK_OVERFLOW, "rec^2036 < main"));
    show(crash(8, fault_class::DIVISION_BY_ZERO, "boom+0x1179"));
    show(null_pointer_crash(&format!(
        "{} < main",
        "very_long_name_of_a_function".repeat(5)
    )));
    insta::assert_snapshot!(shown.join("\n"), @"
    SIGSEGV, null pointer + 0x10, in libfoo.so!conv < forward < boom!main (thread 7)
    SIGSEGV, null pointer + 0x10, in conv < main
    SIGSEGV, null pointer, in boomext.so!c_inner < at (during shutdown)
    SIGILL: vpaddd needs AVX2; this CPU lacks it, in search
    double free in close_handle < main
    assertion n > 0 in check < main
    uncaught std::bad_alloc in load < main
    rust panic: index 7 in boom::run < main
    SIGABRT in give_up
    SIGSEGV, stack overflow, in rec
    SIGFPE, division by zero, in boom+0x1179
    SIGSEGV, null pointer + 0x10, in very_long_name_of_a_functionvery_long_name_of_a_functionvery_long_…
    ");
    assert!(shown.iter().all(|title| title.chars().count() <= 100));
}

#[test]
fn all_heap_errors_have_the_heap_family() {
    let family = |words| signature_of(abort("f", words)).family;
    assert_eq!(family("free(): invalid pointer").as_deref(), Some("heap"));
    assert_eq!(
        family("corrupted double-linked list").as_deref(),
        Some("heap")
    );
    assert_eq!(family("boom: a.c:3: f: Assertion `x' failed."), None);
}

const LINE: &str = "boom[77]: segfault at 10 ip 000055d0c6a01179 sp 00007ffd0 error 4 in boom[1179,55d0c6a00000+1000]";

fn with_line(text: &str) -> Observation {
    let mut seen = observation_of(Ending::Signaled(Signal::SEGV, false));
    seen.kernel = vec![KernelLine {
        pid: 77,
        text: text.to_owned(),
        function: None,
    }];
    seen
}

#[test]
fn a_stack_signature_contains_the_id_from_the_kernel_log() {
    let logged = signature_of_observation(&with_line(LINE));
    assert_eq!(logged.depth, EvidenceDepth::Kernel);
    insta::assert_snapshot!(logged.title, @"SIGSEGV, null pointer, at boom+0x1179 (kernel log)");
    let stack = signature_of(null_pointer_crash("f < main"));
    assert_eq!(stack.depth, EvidenceDepth::Stack);
    assert!(
        stack.also.contains(&(EvidenceDepth::Kernel, logged.id)),
        "{stack:?}"
    );
    let old = signature_of_observation(&with_line(
        "boom[77]: segfault at 10 ip 000055d0c6a01179 sp 0 error 4 in boom[55d0c6a01000+1000]",
    ));
    assert!(stack.also.contains(&(EvidenceDepth::Kernel, old.id)));
    assert!(logged.also.contains(&(EvidenceDepth::Kernel, old.id)));
    let call = signature_of_observation(&with_line(
        "boom[77]: segfault at 0 ip 0000000000000000 sp 0 error 14",
    ));
    let called = signature_of(crash(11, fault_class::NULL_CALL, "? < main"));
    assert!(called.also.contains(&(EvidenceDepth::Kernel, call.id)));
}

#[test]
fn every_depth_contains_the_ids_of_weaker_depths() {
    let bare = signature_of_observation(&observation_of(Ending::Signaled(Signal::ABRT, false)));
    assert_eq!(bare.depth, EvidenceDepth::Status);
    insta::assert_snapshot!(bare.title, @"SIGABRT");
    let mut told = observation_of(Ending::Signaled(Signal::ABRT, false));
    told.actors[0].crash_message = Some("free(): invalid pointer".to_owned());
    let words = signature_of_observation(&told);
    assert_eq!(
        (words.depth, words.title.as_str()),
        (EvidenceDepth::Output, "SIGABRT: bad free")
    );
    assert_eq!(words.also, [(EvidenceDepth::Status, bare.id)]);
    let mut full = with_core(crash(6, fault_class::ABORTED, "f"));
    full.actors[0]
        .crash_message
        .clone_from(&told.actors[0].crash_message);
    let full = signature_of_observation(&full);
    assert_eq!(
        full.also,
        [
            (EvidenceDepth::Output, words.id),
            (EvidenceDepth::Status, bare.id)
        ]
    );
}

#[test]
fn the_core_of_the_main_process_is_preferred() {
    let mut seen = with_core(null_pointer_crash("f < main"));
    let mut child = null_pointer_crash("other < main");
    child.pid = 99;
    seen.cores.insert(
        0,
        CoreObservation {
            pid: 99,
            crash: Some(Box::new(child)),
            ..CoreObservation::default()
        },
    );
    assert_eq!(
        signature_of_observation(&seen).id,
        signature_of(null_pointer_crash("f < main")).id
    );
}

#[test]
fn a_crash_behind_an_exit_code_is_in_the_title() {
    let mut worker = null_pointer_crash("work < main");
    worker.program = "worker".to_owned();
    let mut seen = with_core(worker);
    seen.actors[0].pid = 1;
    seen.actors[0].ending = Ending::Exited(1);
    seen.crashed_children = vec![CrashedProcess {
        pid: 77,
        program: "worker".to_owned(),
        signal: Some(Signal::SEGV),
        core: true,
    }];
    insta::assert_snapshot!(signature_of_observation(&seen).title, @"exit 1 after worker's SIGSEGV, null pointer + 0x10, in boom!work < main");
    seen.cores.clear();
    insta::assert_snapshot!(signature_of_observation(&seen).title, @"exit 1 after SIGSEGV of worker");
    seen.crashed_children[0].signal = Some(Signal::TERM);
    insta::assert_snapshot!(signature_of_observation(&seen).title, @"exit 1");
}

fn exit(code: i32, crash_message: Option<&str>, last_words: &str) -> Signature {
    let mut seen = observation_of(Ending::Exited(code));
    seen.actors[0].crash_message = crash_message.map(str::to_owned);
    seen.actors[0].last_words = last_words.to_owned();
    signature_of_observation(&seen)
}

#[test]
fn an_exit_code_is_distinguished_by_its_message() {
    let value = exit(1, Some("ValueError: 0x7ffe"), "");
    insta::assert_snapshot!(value.title, @"exit 1: ValueError: 0x7ffe");
    assert_eq!(value.id, exit(1, Some("ValueError: 0x12"), "bye").id);
    assert_ne!(value.id, exit(1, Some("KeyError: 'x'"), "").id);
    let panic = exit(
        101,
        Some("thread 'main' panicked at src/a.rs:1:2: index 7"),
        "",
    );
    insta::assert_snapshot!(panic.title, @"exit 101: rust panic: index 7");
    insta::assert_snapshot!(exit(3, None, "cannot open /tmp/x1/data.csv: 7").title, @"exit 3: cannot open /tmp/x1/data.csv: 7");
    // The last progress line is not a reason.
    assert_eq!(exit(3, None, "step 7 of 12 done").id, exit(3, None, "").id);
    insta::assert_snapshot!(exit(1, Some("Boom: 12"), "").title, @"exit 1: Boom: 12");
}

#[test]
fn the_last_output_line_of_a_crash_is_not_in_its_signature() {
    let mut seen = observation_of(Ending::Signaled(Signal::SEGV, false));
    seen.actors[0].last_words = "error rate 3".to_owned();
    assert_eq!(signature_of_observation(&seen).depth, EvidenceDepth::Status);
}

fn thread(tid: i32, call: &str, stack: &str) -> HungThread {
    HungThread {
        pid: 77,
        tid,
        name: "boom".to_owned(),
        state: 'S',
        call: call.to_owned(),
        frames: if stack.is_empty() {
            Vec::new()
        } else {
            frames(stack)
        },
        ..HungThread::default()
    }
}

fn hang(threads: Vec<HungThread>, cycle: &[i32]) -> Signature {
    signature_of_observation(&observation_of_hang(threads, cycle))
}

fn observation_of_hang(threads: Vec<HungThread>, cycle: &[i32]) -> Observation {
    let mut seen = observation_of(Ending::TimedOut {
        state: 'S',
        killed: true,
    });
    let cycle = cycle.to_vec();
    seen.hang = Some(Hang {
        threads,
        cycle,
        ..Hang::default()
    });
    seen
}

#[test]
fn a_trial_that_was_only_slow_never_has_the_name_of_a_hang() {
    let seen = observation_of_hang(vec![thread(77, "clock_nanosleep", "")], &[]);
    let slow = signature_of_failure(&FailureKind::Slow, &variant(), &seen);
    insta::assert_snapshot!(slow.title, @"timeout");
    assert_eq!((slow.depth, slow.also), (EvidenceDepth::Status, Vec::new()));
    let no_stack = hang(Vec::new(), &[]);
    insta::assert_snapshot!(no_stack.title, @"hang without a stack");
    assert_ne!(slow.id, no_stack.id);
}

#[test]
fn a_deadlock_has_the_same_signature_in_any_thread_order() {
    let a = || {
        thread(
            78,
            "futex",
            "libc.so.6!futex_wait < libc.so.6!pthread_mutex_lock < take_ab < th",
        )
    };
    let b = || {
        thread(
            79,
            "futex",
            "libc.so.6!futex_wait < libc.so.6!pthread_mutex_lock < take_ba < th",
        )
    };
    let main = || thread(77, "futex", "libc.so.6!pthread_join < main");
    let one = hang(vec![main(), a(), b()], &[78, 79]);
    let two = hang(vec![main(), b(), a()], &[79, 78]);
    assert_eq!(one, two);
    assert_eq!(one.depth, EvidenceDepth::Stack);
    insta::assert_snapshot!(one.title, @"hang: deadlock, take_ab <-> take_ba");
    let observation = observation_of_hang(vec![main(), a(), b()], &[78, 79]);
    let functions = failure_functions(&kind_of(&observation), &variant(), &observation);
    assert_eq!(functions, ["take_ab", "take_ba", "th"]);
    let blind = hang(
        vec![thread(78, "futex", ""), thread(79, "futex", "")],
        &[78, 79],
    );
    insta::assert_snapshot!(blind.title, @"hang: deadlock of 2 threads");
}

#[test]
fn a_hang_is_named_by_its_blocked_or_busy_function() {
    let wait = "libc.so.6!__poll < fetch < main < libc.so.6!__libc_start_call_main < _start";
    insta::assert_snapshot!(hang(vec![thread(77, "poll", wait)], &[]).title, @"hang: blocked in fetch < main");
    insta::assert_snapshot!(hang(vec![thread(77, "poll", "")], &[]).title, @"hang: blocked in poll");
    let mut busy = thread(
        77,
        "",
        "leaf < spin < run < main < libc.so.6!__libc_start_call_main < _start",
    );
    busy.cpu = Duration::from_millis(199);
    let spinning = hang(vec![busy.clone()], &[]);
    insta::assert_snapshot!(spinning.title, @"hang: busy loop in leaf < spin < run");
    busy.frames =
        frames("other_leaf < other < spin < run < main < libc.so.6!__libc_start_call_main");
    assert_eq!(
        hang(vec![busy], &[]).id,
        spinning.id,
        "the same loop, seen elsewhere"
    );
    let mut stuck = thread(77, "read", "");
    stuck.state = 'D';
    stuck.channel = "rpc_wait_bit_killable".to_owned();
    insta::assert_snapshot!(hang(vec![stuck], &[]).title, @"hang: stuck in the kernel (rpc_wait_bit_killable)");
    let parent = thread(77, "wait4", "libc.so.6!wait4 < main");
    insta::assert_snapshot!(hang(vec![parent.clone()], &[]).title, @"hang: waiting for a child");
    let mut child = thread(99, "read", "libc.so.6!read < serve < main");
    child.pid = 99;
    insta::assert_snapshot!(hang(vec![parent, child], &[]).title, @"hang: blocked in serve < main");
}

#[test]
fn a_leak_is_named_by_the_leaked_command() {
    let process = |pid, ppid, command: &str| ProcessObservation {
        pid,
        ppid,
        command: command.split(' ').map(Into::into).collect(),
        ..ProcessObservation::default()
    };
    let leak = |left: Vec<ProcessObservation>| {
        let mut seen = observation_of(Ending::Exited(0));
        seen.residue.leaked = left;
        signature_of_failure(&FailureKind::Leak, &variant(), &seen)
    };
    let one = leak(vec![process(7, 1, "/usr/bin/python daemon.py --port 8080")]);
    insta::assert_snapshot!(one.title, @"leak: python daemon.py --port N");
    let two = leak(vec![
        process(70, 1, "python daemon.py --port 9090"),
        process(71, 70, "sh -c x"),
        process(72, 1, "python daemon.py --port 9091"),
    ]);
    assert_eq!(one.id, two.id);
}

#[test]
fn a_match_of_an_output_rule_is_named_by_the_matched_text() {
    let mut seen = observation_of(Ending::Exited(0));
    seen.matched = vec![(1, "late 7".to_owned()), (0, " data race 7".to_owned())];
    let named = signature_of_failure(&FailureKind::Output, &variant(), &seen);
    assert_eq!(
        (named.depth, named.title.as_str()),
        (EvidenceDepth::Output, "output: data race 7")
    );
    seen.matched = vec![(0, "data race 8".to_owned())];
    assert_eq!(
        signature_of_failure(&FailureKind::Output, &variant(), &seen).id,
        named.id
    );
}

#[test]
fn an_oom_kill_has_its_own_signature() {
    let seen = observation_of(Ending::Signaled(Signal::KILL, false));
    let named = signature_of_failure(&FailureKind::Oom { masked: false }, &variant(), &seen);
    insta::assert_snapshot!(named.title, @"oom");
    assert_ne!(named.id, signature_of_observation(&seen).id);
}

#[test]
fn a_native_crash_has_the_python_line_as_a_second_site() {
    let mut crash = null_pointer_crash("_ctypes.so!string_at < python3.11!main");
    crash.frames[0].line = Some(("/build/_ctypes.c".to_owned(), 5564));
    let calls = [
        "string_at (/opt/lib/python3.11/ctypes/__init__.py:519)",
        "resize (/srv/server.py:9)",
        "<module> (/srv/server.py:36)",
    ];
    crash.python = calls
        .iter()
        .filter_map(|text| Frame::of_python(text))
        .collect();
    let sites: Vec<String> = sites_of_crash(&crash).iter().map(Site::to_string).collect();
    assert_eq!(
        sites,
        [
            "_ctypes.c:5564 in string_at",
            "server.py:9 in resize, called from server.py:36",
        ]
    );
    let Some(only) = Site::naming_site(&sites_of_crash(&crash)).cloned() else {
        panic!("a crash has one line in short");
    };
    assert_eq!(only.file_and_line(), "_ctypes.c:5564");
    // Older journals contain the innermost call as text.
    let old = r#"{"python":"close (a.py:3)"}"#;
    let old: Crash = serde_json::from_str(old).unwrap();
    assert_eq!(sites_of_crash(&old)[0].to_string(), "a.py:3 in close");
}

#[test]
fn a_title_names_inlined_functions_of_the_user_and_the_id_does_not() {
    let inlined = |file: &str| {
        let mut crash = null_pointer_crash("+sum < main");
        crash.frames[0].line = Some((file.to_owned(), 8));
        signature_of(crash)
    };
    let (own, of_library) = (inlined("/home/ann/list.c"), inlined("/usr/include/list.h"));
    insta::assert_snapshot!(own.title, @"SIGSEGV, null pointer + 0x10, in sum < main");
    insta::assert_snapshot!(of_library.title, @"SIGSEGV, null pointer + 0x10, in main");
    assert_eq!(own.id, signature_of(null_pointer_crash("main")).id);
    assert_eq!(own.id, of_library.id);
}
