//! Tests variants that differ in arguments, variables, hooks or files.

use super::support::{PROVOKE, Sandbox, assert_gone, unique_linger, wait_until, words};
use serde_json::{Value, json};

/// Runs a scenario and returns its report of each variant, by name.
fn scenario(sandbox: &Sandbox, text: &str, flags: &[&str]) -> (Value, Vec<(String, Value)>) {
    sandbox.write("s.toml", text);
    let args = words("scenario s.toml --progress=none --export-json report.json");
    let output = sandbox.provoke(&[&args[..], flags].concat());
    let text = sandbox.read("report.json");
    let report: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output}"));
    let variants = outcomes(&report);
    (report, variants)
}

fn outcomes(report: &Value) -> Vec<(String, Value)> {
    let variants = report["variants"].as_array().unwrap().iter();
    let of = |variant: &Value| {
        let name = variant["name"].as_str().unwrap().to_owned();
        let mut seen = variant["outcomes"].clone();
        seen.as_object_mut().unwrap().retain(|_, count| *count != 0);
        (name, seen)
    };
    variants.map(of).collect()
}

fn untestable(sandbox: &Sandbox) -> Vec<Value> {
    let events = sandbox.events().into_iter();
    let found = events.map(|event| event["variant_untestable"].clone());
    found.filter(|event| !event.is_null()).collect()
}

#[test]
fn a_matrix_sets_placeholders_and_variables() {
    let sandbox = Sandbox::new();
    let line = "test {threads} = 8 && test $MODE = safe && exit 3; exit 0";
    let (report, output) = sandbox.report(&[
        "-n",
        "2",
        "-L",
        "threads=1,8",
        "-L",
        "MODE=fast,safe",
        "--",
        "sh",
        "-c",
        line,
    ]);
    let pass = || json!({"pass": 2});
    assert_eq!(
        outcomes(&report),
        [
            ("threads=1 MODE=fast".to_owned(), pass()),
            ("threads=1 MODE=safe".to_owned(), pass()),
            ("threads=8 MODE=fast".to_owned(), pass()),
            ("threads=8 MODE=safe".to_owned(), json!({"exit 3": 2})),
        ],
        "{output}"
    );
    let trials = &sandbox.events()[0]["run_started"]["plan"]["trials"];
    assert_eq!(
        trials["factors"],
        json!([
            {"name": "threads", "levels": ["1", "8"]},
            {"name": "MODE", "levels": ["fast", "safe"]},
        ])
    );
    assert_eq!(trials["variants"][2]["levels"], json!([1, 0]));
}

#[test]
fn a_matrix_of_the_file_is_combined_with_its_variants() {
    let sandbox = Sandbox::new();
    let text = "
        runs = 1
        command = ['sh', '-c', 'echo $CC $1 >> log', 'sh', '{opt}']
        prepare = 'echo prepare $CC {opt} >> log'
        [matrix]
        opt = ['-O0', '-O2']
        [[variant]]
        name = 'gcc'
        env = { CC = 'gcc' }
        [[variant]]
        name = 'clang'
        env = { CC = 'clang' }
        ";
    let (_, variants) = scenario(&sandbox, text, &[]);
    let names: Vec<_> = variants.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gcc opt=-O0",
            "gcc opt=-O2",
            "clang opt=-O0",
            "clang opt=-O2"
        ]
    );
    let log = sandbox.read("log");
    let mut lines: Vec<_> = log.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "clang -O0",
            "clang -O2",
            "gcc -O0",
            "gcc -O2",
            "prepare clang -O0",
            "prepare clang -O2",
            "prepare gcc -O0",
            "prepare gcc -O2"
        ]
    );
}

#[test]
fn an_invalid_matrix_is_refused_with_a_hint() {
    let output_of = |flags: &[&str]| {
        let args = [&["run", "-n", "1"], flags, &["--", "true"]].concat();
        Sandbox::new().provoke(&args)
    };
    insta::assert_snapshot!(output_of(&["-L", "threads"]), @"
    ------- stderr -------
    error: invalid value 'threads' for '--matrix <VAR=a,b>': write NAME=VALUE,VALUE, such as threads=1,8

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["-L", "threads="]), @r#"
    ------- stderr -------
    error: `threads` has no values

    hint: give the values to try: -L threads=1,8, or `threads = ["1", "8"]` in a file
    [exit status: Some(2)]
    "#);
    insta::assert_snapshot!(output_of(&["-L", "a=1", "-L", "a=2"]), @"
    ------- stderr -------
    error: `a` is given twice

    hint: give all values together: a=VALUE,VALUE
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["-L", "seed=1,2"]), @"
    ------- stderr -------
    error: `{seed}` is a placeholder of provoke

    hint: rename the variable
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["-L", "with-dash=1,2"]), @"
    ------- stderr -------
    error: `{with-dash}` is not used, and `with-dash` cannot be an environment variable

    hint: write `{with-dash}` where its value belongs, or rename it to `with_dash`
    [exit status: Some(2)]
    ");
}

const HOOKS: &str = "
    runs = 3
    shell = 'test -z \"$BROKEN\"'
    setup = 'echo setup >> log'
    prepare = 'echo prepare $PROVOKE_VARIANT >> log'
    cleanup = 'echo cleanup >> log'
    [[variant]]
    name = 'plain'
    [[variant]]
    name = 'own'
    env = { COLOUR = 'red' }
    setup = 'echo setup $PROVOKE_VARIANT $COLOUR >> log'
    prepare = 'echo prepare own $COLOUR >> log'
    conclude = 'echo conclude $COLOUR >> log'
    cleanup = 'echo cleanup $COLOUR >> log'
    [[variant]]
    name = 'unready'
    setup = 'echo no compiler; exit 4'
    cleanup = 'echo never >> log'
    [[variant]]
    name = 'missing'
    command = ['./nope']
    ";

#[test]
fn variants_have_their_own_hooks_and_untestable_variants_are_left_out() {
    let sandbox = Sandbox::new();
    let (report, variants) = scenario(&sandbox, HOOKS, &[]);
    let outcomes: Vec<_> = variants.iter().map(|(_, outcomes)| outcomes).collect();
    let (three, none) = (json!({"pass": 3}), json!({}));
    assert_eq!(outcomes, [&three, &three, &none, &none]);
    assert_eq!(
        untestable(&sandbox),
        [
            json!({"variant": 2, "why": "`setup` failed: exit 4: no compiler", "at": 0}),
            json!({"variant": 3, "why": "cannot run `./nope`: there is no such file", "at": 0}),
        ]
    );
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("cannot test the variant `unready`: `setup` failed: exit 4: no compiler"),
        "{notes}"
    );
    let log = sandbox.read("log");
    let lines: Vec<_> = log.lines().collect();
    let (first, rest) = lines.split_at(2);
    assert_eq!(first, ["setup", "setup own red"]);
    let (trials, last) = rest.split_at(rest.len() - 2);
    assert_eq!(last, ["cleanup red", "cleanup"]);
    let count = |line: &str| trials.iter().filter(|one| **one == line).count();
    assert_eq!(
        (
            count("prepare plain"),
            count("prepare own red"),
            count("conclude red")
        ),
        (3, 3, 3),
        "{log}"
    );
    assert_eq!(trials.len(), 9, "{log}");
}

#[test]
fn a_run_without_a_testable_variant_is_an_error() {
    let sandbox = Sandbox::new();
    let text = "
        shell = 'true'
        cleanup = 'touch cleaned'
        [[variant]]
        name = 'a'
        setup = 'echo no compiler; exit 4'
        [[variant]]
        name = 'b'
        command = ['./nope']
        ";
    let file = sandbox.write("s.toml", text);
    let output = sandbox.provoke(&["scenario", file.to_str().unwrap()]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: none of the 2 variants can be tested
      caused by: a: `setup` failed: exit 4: no compiler
        b: cannot run `./nope`: there is no such file
    [exit status: Some(125)]
    ");
    assert!(sandbox.path("cleaned").exists());
    // An error of all variants is printed once.
    let output = sandbox.provoke(&["run", "-L", "n=1,2", "--", "./nope", "{n}"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: cannot run `./nope`: there is no such file

    hint: the path is relative to the working directory `SANDBOX`
    [exit status: Some(125)]
    ");
}

#[test]
fn a_variant_whose_prepare_hook_always_fails_becomes_untestable() {
    let sandbox = Sandbox::new();
    let text = "
        runs = 20
        shell = 'true'
        [[variant]]
        name = 'good'
        [[variant]]
        name = 'bad'
        prepare = 'exit 1'
        ";
    let (report, variants) = scenario(&sandbox, text, &["-j", "2"]);
    assert_eq!(variants[0].1, json!({"pass": 20}));
    assert_eq!(report["verdict"], "clean");
    let events = untestable(&sandbox);
    assert_eq!(
        events[0]["why"],
        "10 consecutive trials were inconclusive: prepare failed: exit 1"
    );
}

#[test]
fn processes_started_by_the_setup_of_a_variant_end_with_the_run() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let text = format!(
        "
        runs = 3
        shell = 'kill -0 $(cat pid)'
        [[variant]]
        name = 'a'
        setup = 'setsid {PROVOKE} victim leftover --linger {linger} >/dev/null 2>&1 & echo $! > pid'
        [[variant]]
        name = 'b'
        "
    );
    let (_, variants) = scenario(&sandbox, &text, &[]);
    assert!(
        variants.iter().all(|(_, seen)| *seen == json!({"pass": 3})),
        "{variants:?}"
    );
    assert_gone(&linger);
}

const FILES: &str = "
    runs = 2
    shell = 'cat config.ini >> out; ! grep -q bad config.ini'
    setup = 'pwd > setup-ran-here'
    [[variant]]
    name = 'edited'
    [[variant.edit]]
    file = 'config.ini'
    find = 'good'
    replace = 'bad'
    [[variant]]
    name = 'as it is'
    [[variant]]
    name = 'replaced'
    files = { 'config.ini' = 'other.ini' }
    ";

#[test]
fn a_variant_with_edited_files_runs_in_a_copy() {
    let sandbox = Sandbox::new();
    sandbox.write("config.ini", "good\n");
    sandbox.write("other.ini", "other\n");
    let (_, variants) = scenario(&sandbox, FILES, &["--keep", "all"]);
    let seen: Vec<_> = variants
        .iter()
        .map(|(_, outcomes)| outcomes.clone())
        .collect();
    let pass = json!({"pass": 2});
    assert_eq!(seen, [json!({"exit 1": 2}), pass.clone(), pass]);
    assert_eq!(sandbox.read("config.ini"), "good\n");
    assert_eq!(
        sandbox.read("out"),
        "good\ngood\n",
        "only the variant as it is runs here"
    );
    let copy = |index: u32| format!("provoke-out/last/variants/{index}");
    assert_eq!(sandbox.read(&format!("{}/out", copy(0))), "bad\nbad\n");
    assert_eq!(sandbox.read(&format!("{}/out", copy(2))), "other\nother\n");
    assert!(!sandbox.path(&copy(1)).exists());
    assert!(!sandbox.path(&copy(0)).join("provoke-out").exists());
    // The general hook runs in the original directory, not in the first variant's copy.
    assert!(sandbox.path("setup-ran-here").exists());

    // A trial of the variant is replayed in its copy.
    let trial = sandbox.events().into_iter().find_map(|event| {
        let trial = &event["trial_started"];
        (trial["variant"] == 0)
            .then(|| trial["id"].as_u64())
            .flatten()
    });
    let trial = format!("last#{}", trial.unwrap());
    let output = sandbox.provoke(&["replay", &trial]);
    assert_eq!(output.code, Some(1), "{output}");
    assert_eq!(sandbox.read(&format!("{}/out", copy(0))), "bad\nbad\nbad\n");
    assert_eq!(sandbox.read("out"), "good\ngood\n");
}

#[test]
fn an_edit_that_does_not_apply_is_refused_before_the_start() {
    let sandbox = Sandbox::new();
    sandbox.write("config.ini", "fine\n");
    sandbox.write("other.ini", "other\n");
    sandbox.write("s.toml", FILES);
    insta::assert_snapshot!(sandbox.provoke(&["scenario", "s.toml"]), @"
    ------- stderr -------
    error: the variant `edited`: `config.ini` does not contain the text `good`
     --> s.toml:9:12
      |
    9 |     find = 'good'
      |            ^^^^^^
      |
      = help: `find` must match exactly: check spaces, quotes and line ends
    [exit status: Some(2)]
    ");
    assert!(!sandbox.path("provoke-out").exists());
}

#[test]
fn a_resumed_run_keeps_untestable_variants_untestable() {
    let sandbox = Sandbox::new();
    sandbox.write("config.ini", "good\n");
    let text = "
        runs = 3
        shell = 'cat config.ini >> $OUT; touch up; while [ -e $OUT.wait ]; do sleep 0.01; done'
        [[variant]]
        name = 'unready'
        setup = 'echo unready >> $OUT; test -e $OUT.repaired'
        [[variant]]
        name = 'edited'
        setup = 'echo setup >> $OUT'
        [[variant.edit]]
        file = 'config.ini'
        find = 'good'
        replace = 'bad'
        ";
    let out = sandbox.path("out").display().to_string();
    let wait = sandbox.write("out.wait", "");
    let file = sandbox.write("s.toml", &format!("env.OUT = '{out}'\n{text}"));
    let child = sandbox.start(&["scenario", file.to_str().unwrap()]);
    wait_until("a trial runs", || sandbox.read("out").contains("bad"));
    child.signal(rustix::process::Signal::INT);
    assert_eq!(child.end().code, Some(130));
    std::fs::remove_file(wait).unwrap();
    sandbox.write("out.repaired", "");
    let output = sandbox.provoke(&["resume", "last", "--export-json", "report.json"]);
    assert_eq!(output.code, Some(0), "{output}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    let seen: Vec<_> = outcomes(&report)
        .into_iter()
        .map(|(_, seen)| seen)
        .collect();
    assert_eq!(seen, [json!({}), json!({"pass": 3})], "{output}");
    assert_eq!(
        sandbox.read("out"),
        "unready\nsetup\nbad\nsetup\nbad\nbad\nbad\n",
        "what cannot be tried stays so; the others are set up again"
    );
    assert_eq!(untestable(&sandbox).len(), 1);
    assert_eq!(sandbox.read("config.ini"), "good\n");
}

#[test]
fn an_interrupt_during_a_variant_setup_runs_the_earlier_cleanups() {
    let sandbox = Sandbox::new();
    let linger = unique_linger();
    let text = format!(
        "
        shell = 'true'
        setup = 'touch general'
        cleanup = 'touch cleaned'
        [[variant]]
        name = 'a'
        cleanup = 'touch cleaned-a'
        [[variant]]
        name = 'b'
        setup = 'touch up; exec {PROVOKE} victim leftover --linger {linger}'
        cleanup = 'touch cleaned-b'
        "
    );
    let file = sandbox.write("s.toml", &text);
    let child = sandbox.start(&["scenario", file.to_str().unwrap()]);
    wait_until("setup runs", || sandbox.path("up").exists());
    child.signal(rustix::process::Signal::INT);
    let output = child.end();
    assert_eq!(output.code, Some(130), "{output}");
    let there = |name: &str| sandbox.path(name).exists();
    assert!(
        there("cleaned") && there("cleaned-a") && !there("cleaned-b"),
        "{output}"
    );
    assert_gone(&linger);
}

#[test]
fn general_hooks_run_in_addition_to_the_hooks_of_variants() {
    let sandbox = Sandbox::new();
    let text = "
        shell = 'true'
        runs = 1
        setup = 'echo general {n} >> log # with a comment'
        cleanup = 'echo cleaned {n} >> log'
        [matrix]
        n = [1, 2]
        [[variant]]
        name = 'a'
        setup = 'echo own {n} $PROVOKE_VARIANT >> log'
        cleanup = 'exit 7'
        ";
    let (report, _) = scenario(&sandbox, text, &[]);
    assert_eq!(
        sandbox.read("log"),
        "general 1\nown 1 a n=1\ngeneral 2\nown 2 a n=2\ncleaned 1\ncleaned 2\n"
    );
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("the `cleanup` of `a n=2` failed: exit 7"),
        "{notes}"
    );
}
