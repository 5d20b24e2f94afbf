//! Tests `compare` with real processes.

use super::support::{CommandOutput, PROVOKE, Sandbox, wait_until, words};
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

impl Sandbox {
    /// Compares variants; returns the report.
    fn compare(&self, args: &[&str]) -> (Value, CommandOutput) {
        self.run_with_report("compare", args)
    }
}

fn summarize((report, output): &(Value, CommandOutput)) -> (&str, i32) {
    (report["verdict"].as_str().unwrap(), output.code.unwrap())
}

fn standings(report: &Value) -> Vec<(&str, &str)> {
    let all = report["answer"]["compare"]["variants"].as_array().unwrap();
    all.iter()
        .map(|one| {
            (
                one["name"].as_str().unwrap(),
                one["standing"].as_str().unwrap(),
            )
        })
        .collect()
}

/// Half of the trials of one variant fail, by the hash of their numbers; the other never fails.
const SOMETIMES: &str = "[ $M != b ] || [ $((PROVOKE_SEED / 7 % 2)) = 0 ]";

#[test]
fn two_variants_with_different_rates_are_called_different() {
    let sandbox = Sandbox::new();
    let args = ["-L", "M=a,b", "--seed", "1", "--shell", SOMETIMES];
    let result = sandbox.compare(&args);
    assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
    let answer = &result.0["answer"]["compare"];
    assert_eq!(answer["find"], "different");
    let contrast = &answer["contrasts"][0];
    assert_eq!([&contrast["reference"], &contrast["other"]], ["a", "b"]);
    assert_eq!(
        [&contrast["factor"], &contrast["differs"]],
        [&json!("M"), &json!(true)]
    );
    assert!(contrast["evidence"].as_f64() >= contrast["enough"].as_f64());
    let wanted = "DIFFERENT at 95 %: M=b fails more often than M=a";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    // The same comparison with the other variant as the reference.
    let result = sandbox.compare(&[&["--reference", "M=b"], &args[..]].concat());
    assert_eq!(summarize(&result), ("different", 1));
    let wanted = "M=a fails less often than M=b";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn two_variants_without_a_difference_report_the_detectable_rates() {
    let result = Sandbox::new().compare(&["-L", "M=a,b", "-n", "30", "--", "true"]);
    assert_eq!(summarize(&result), ("no_difference", 3), "{}", result.1);
    let seen = &result.0["answer"]["compare"]["could_see"];
    assert_eq!([&seen["pairs"], &seen["below"]], [&json!(30), &Value::Null]);
    assert!(seen["above"].as_f64() > Some(0.2), "{seen}");
    assert!(
        result
            .1
            .stdout
            .contains("NOT KNOWN: no difference found. All together failed in 0 %; 30 trials of each detect only a rate above "),
        "{}",
        result.1
    );
}

#[test]
fn a_comparison_that_runs_out_of_time_is_undecided() {
    let args = ["-L", "M=a,b", "-d", "300ms", "--", "sleep", "0.02"];
    let result = Sandbox::new().compare(&args);
    assert_eq!(summarize(&result), ("undecided", 3), "{}", result.1);
    assert!(result.1.stdout.contains("NOT KNOWN YET"), "{}", result.1);
}

#[test]
fn the_clean_variant_of_four_is_found() {
    let line = "[ $M = c ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "M=a,b,c,d", "--seed", "3", "--shell", line];
    for jobs in ["1", "3"] {
        let result = Sandbox::new().compare(&[&["-j", jobs], &args[..]].concat());
        assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
        let wanted = [
            ("M=a", "fails"),
            ("M=b", "fails"),
            ("M=c", "fails_less"),
            ("M=d", "fails"),
        ];
        assert_eq!(standings(&result.0), wanted, "{}", result.1);
        let answer = &result.0["answer"]["compare"];
        let (passed, needed) = (&result.0["variants"][2]["trials"], &answer["clean_needed"]);
        assert!(passed.as_u64() >= needed.as_u64(), "{}", result.1);
        assert!(answer["baseline"]["variant"].is_string());
    }
}

#[test]
fn a_comparison_reports_that_all_or_no_variants_failed() {
    let compare = |more: &[&str]| {
        let result = Sandbox::new().compare(&[&["-L", "M=a,b,c"], more].concat());
        (
            summarize(&result).0.to_owned(),
            result.1.code.unwrap(),
            result.1,
        )
    };
    let (verdict, code, output) = compare(&["--", "false"]);
    assert_eq!((&*verdict, code), ("failing", 1), "{output}");
    assert!(
        output
            .stdout
            .contains("all variants fail: M=a, M=b and M=c"),
        "{output}"
    );
    let (verdict, code, output) = compare(&["-n", "20", "--", "true"]);
    assert_eq!((&*verdict, code), ("clean", 0), "{output}");
    assert!(output.stdout.contains("no variant failed"), "{output}");
    let (verdict, code, output) = compare(&["--baseline", "3/3", "--", "true"]);
    assert_eq!((&*verdict, code), ("clean", 0), "{output}");
    assert!(
        output.stdout
            .contains("no variant failed: M=a, M=b and M=c fail less often than the baseline (3 of 3), if at all (95 %): passed 6 times each, rate below 46 %"),
        "{output}"
    );
    let (verdict, code, output) = compare(&["--", "sh", "-c", "exit 125"]);
    assert_eq!((&*verdict, code), ("could_not_test", 125), "{output}");
}

#[test]
fn a_variant_is_called_clean_only_with_a_floor() {
    let line = "[ $M != b ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "M=a,b,c", "--seed", "3", "--shell", line];
    let result = Sandbox::new().compare(&[&["--floor", "10%"], &args[..]].concat());
    assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
    let wanted = [("M=a", "clean"), ("M=b", "fails"), ("M=c", "clean")];
    assert_eq!(standings(&result.0), wanted, "{}", result.1);
    let answer = &result.0["answer"]["compare"];
    assert_eq!(
        [
            &answer["floor"],
            &answer["clean_needed"],
            &answer["baseline"]
        ],
        [&json!(0.1), &json!(39), &Value::Null]
    );
    let wanted = "It fails with M=b (1 of 3 variants); the other 2 are clean at 95 % (passed 39 times each: rate below 10 %)";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);

    let result = Sandbox::new().compare(&args);
    let wanted = [
        ("M=a", "fails_less"),
        ("M=b", "fails"),
        ("M=c", "fails_less"),
    ];
    assert_eq!(standings(&result.0), wanted, "{}", result.1);
    let below = &result.0["answer"]["compare"]["variants"][0]["rate_below"];
    assert!(below.as_f64() > Some(0.1), "{below}");
    for wanted in [
        "the other 2 passed 14 times each (95 %: rate below 24 %)",
        "add --floor 5% to show",
        "this takes 80 passing trials of each",
    ] {
        assert!(result.1.stdout.contains(wanted), "{}", result.1);
    }
}

#[test]
fn a_floor_is_refused_where_it_does_not_apply() {
    let refused = |args: &[&str]| {
        let output = Sandbox::new().provoke(&[&["compare", "-L", "M=a,b"], args].concat());
        assert_eq!(output.code, Some(2), "{output}");
        output.stderr
    };
    let output = refused(&["--floor", "5%", "--find", "different", "--", "true"]);
    assert!(
        output.contains("does not apply to `find = \"different\"`"),
        "{output}"
    );
    let output = refused(&["--floor", "5%", "--baseline", "3/30", "--", "true"]);
    assert!(
        output.contains("`floor` and `baseline` are both given"),
        "{output}"
    );
    let output = refused(&["--floor", "0", "--", "true"]);
    assert!(
        output.contains("is not a rate above 0 and up to 1"),
        "{output}"
    );
}

#[test]
fn the_failing_combination_of_a_matrix_is_named() {
    let line = "[ $A$B != 2y ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "A=1,2", "-L", "B=x,y", "--seed", "3", "--shell", line];
    let result = Sandbox::new().compare(&args);
    assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
    let answer = &result.0["answer"]["compare"];
    assert_eq!(answer["fails_where"], "A=2 and B=y");
    assert!(
        result
            .1
            .stdout
            .contains("It fails with A=2 and B=y (1 of 4 variants)"),
        "{}",
        result.1
    );
    let level = &answer["factors"][0]["levels"][1];
    assert_eq!(
        [&level["level"], &level["variants"], &level["failing"]],
        [&json!("2"), &json!(2), &json!(1)]
    );
}

/// Returns the names of the facts that distinguish the failing variants.
fn distinguishing_facts(report: &Value) -> Vec<&str> {
    let all = &report["answer"]["compare"]["parted_by"];
    let all = all.as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn cpu_features_that_the_failing_variants_lack_are_named() {
    needs!(program("qemu-x86_64"));
    let sandbox = Sandbox::new();
    // A substitute for a program that dies without AVX2: CPU flags are sorted alphabetically.
    let lacking = r"\bavx (cx16|pclmulqdq)";
    let processors = "cpu=SandyBridge,IvyBridge,Haswell,max";
    let wrap = "qemu-x86_64 -cpu {cpu}";
    let args = ["-L", processors, "--wrap", wrap, "--fail-if-out", lacking];
    let find = ["--find", "failing", "--seed", "1"];
    let result = sandbox.compare(&[&find, &args[..], &["--", PROVOKE, "processor"]].concat());
    assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
    let (report, output) = result;
    let names = distinguishing_facts(&report);
    for name in ["avx2", "bmi2", "fma"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for name in ["avx", "f16c", "cpu.model", "cpu.flags"] {
        assert!(!names.contains(&name), "{names:?}");
    }
    let answer = &report["answer"]["compare"];
    let first = &answer["parted_by"][0];
    assert_eq!(
        [&first["group"], &first["failing"], &first["others"]],
        [&json!("processor"), &json!([null]), &json!(["there"])]
    );
    assert!(answer["chance"].as_f64() < Some(0.17), "{answer}");
    let line = "failing only where processor: abm avx2 bmi1 bmi2 fma movbe ";
    let odds = "2 of 4 variants failed; a fact that exactly these 2 variants have occurs by chance in 17 % of cases";
    for wanted in [line, odds] {
        assert!(output.stdout.contains(wanted), "{output}");
    }
    // The model name of an emulated CPU is not an explanation.
    let survey = &sandbox.events()[0]["run_started"]["survey"];
    let model = survey["cpu[cpu=Haswell].model"].as_str().unwrap();
    assert!(model.contains("Haswell"), "{survey}");
    let page = sandbox.provoke(&["report", "last", "--md"]).stdout;
    assert!(page.contains(&format!("{model} | cpu=Haswell")), "{page}");
    assert!(
        page.contains("Failing only where processor: abm avx2"),
        "{page}"
    );
}

#[test]
fn variants_that_differ_only_in_the_matrix_have_no_distinguishing_facts() {
    let args = ["-L", "M=a,b,c", "--shell", "[ $M != b ]"];
    let (report, output) = Sandbox::new().compare(&args);
    assert_eq!(distinguishing_facts(&report), [""; 0], "{output}");
    assert_eq!(report["answer"]["compare"]["facts"], json!([]));
    assert!(!output.stdout.contains("chance alone"), "{output}");
}

const UNTESTABLE: &str = r#"
ask = "compare"
find = "failing"
command = ["sh", "-c", "exit $BAD"]
env = {BAD = "0"}
[[variant]]
name = "good"
[[variant]]
name = "broken"
setup = "exit 3"
[[variant]]
name = "bad"
env = {BAD = "1"}
"#;

#[test]
fn an_untestable_variant_is_shown_and_the_others_are_compared() {
    let sandbox = Sandbox::new();
    sandbox.write("three.toml", UNTESTABLE);
    let result = sandbox.compare(&["--file", "three.toml"]);
    assert_eq!(summarize(&result), ("different", 1), "{}", result.1);
    let wanted = [
        ("good", "fails_less"),
        ("broken", "untestable"),
        ("bad", "fails"),
    ];
    assert_eq!(standings(&result.0), wanted);
    let why = &result.0["answer"]["compare"]["variants"][1]["why"];
    assert!(why.as_str().unwrap().contains("`setup`"), "{why}");
    assert!(
        result.1.stdout.contains("not testable: broken"),
        "{}",
        result.1
    );
    let output = sandbox.provoke(&["scenario", "three.toml", "--progress=none"]);
    assert_eq!(output.code, Some(1), "{output}");
}

#[test]
fn trials_of_all_variants_alternate_in_random_blocks() {
    let sandbox = Sandbox::new();
    let args = words("-L M=a,b,c -n 20 --find different -j 2 --seed 5");
    let (_, output) = sandbox.compare(&[&args[..], &["--", "true"]].concat());
    assert_eq!(output.code, Some(3), "{output}");
    let rows: Vec<Value> = sandbox
        .provoke(&["report", "last", "--jsonl"])
        .stdout
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let names: Vec<String> = rows.iter().map(|row| row["variant"].to_string()).collect();
    assert_eq!(names.len(), 60, "{output}");
    let blocks: Vec<&[String]> = names.chunks(3).collect();
    assert!(
        blocks
            .iter()
            .all(|block| block.iter().collect::<BTreeSet<_>>().len() == 3)
    );
    let orders: BTreeSet<_> = blocks.iter().collect();
    assert!(orders.len() > 3, "{orders:?}");
}

#[test]
fn an_interrupted_comparison_is_resumed_to_the_same_answer() {
    let wait = "echo $PROVOKE_TRIAL >> ran; [ $PROVOKE_TRIAL != 7 ] || while [ ! -e go ]; do sleep 0.01; done; ";
    for find in ["different", "failing"] {
        let sandbox = Sandbox::new();
        let line = format!("{wait}{SOMETIMES}");
        let args = [
            "--find", find, "-L", "M=a,b", "--seed", "1", "--shell", &line,
        ];
        let running = sandbox.start(&[&["compare", "-o", "cut"], &args[..]].concat());
        wait_until("#7 runs", || sandbox.read("ran").contains("7\n"));
        running.signal(Signal::INT);
        let output = running.end();
        assert_eq!(output.code, Some(130), "{output}");
        sandbox.write("go", "");
        sandbox.provoke(&words(
            "resume cut --progress=none --export-json resumed.json",
        ));
        let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
        let (whole, output) = sandbox.compare(&args);
        assert_eq!(
            (&whole["verdict"], output.code),
            (&json!("different"), Some(1))
        );
        assert_eq!(resumed["answer"], whole["answer"]);
        assert_eq!(resumed["verdict"], whole["verdict"]);
    }
}

const TWO: &str = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";

#[test]
fn an_invalid_comparison_is_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    let output_of = |text: &str| {
        sandbox.write("wrong.toml", text);
        sandbox.provoke(&["scenario", "wrong.toml"])
    };
    let begin = "ask = 'compare'\ncommand = ['true']\n";
    insta::assert_snapshot!(output_of(&format!("{begin}reference = 'z'\n{TWO}")), @"
    ------- stderr -------
    error: there is no variant `z`
     --> wrong.toml:3:13
      |
    3 | reference = 'z'
      |             ^^^
      |
      = help: there are `a`, `b`
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&format!("{begin}[[variant]]\nname = 'a'\n")), @"
    ------- stderr -------
    error: there is only one variant
     --> wrong.toml:3:1
      |
    3 | [[variant]]
      | ^^^^^^^^^^^
      |
      = help: define two or more variants: -L VAR=a,b, or [[variant]] in a scenario file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&format!("{begin}max-fail = 3\n{TWO}")), @"
    ------- stderr -------
    error: `compare` decides itself when to stop, so `max-fail` has no effect
     --> wrong.toml:3:12
      |
    3 | max-fail = 3
      |            ^
      |
      = help: leave `max-fail` out; limit the run with `runs` or `duration`
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&format!("{begin}exclude-half = true\n{TWO}")), @r#"
    ------- stderr -------
    error: `exclude-half` is for `provoke confirm`
     --> wrong.toml:3:16
      |
    3 | exclude-half = true
      |                ^^^^
      |
      = help: use `provoke confirm`, or `ask = "confirm"`
    [exit status: Some(2)]
    "#);
    insta::assert_snapshot!(output_of(&format!("{begin}find = 'different'\nbaseline = '3/30'\n{TWO}")), @r#"
    ------- stderr -------
    error: `find = "different"` does not use a baseline
     --> wrong.toml:4:12
      |
    4 | baseline = '3/30'
      |            ^^^^^^
      |
      = help: leave it out, or use `find = "failing"`
    [exit status: Some(2)]
    "#);
    insta::assert_snapshot!(output_of(&format!("{begin}baseline = '0/30'\n{TWO}")), @"
    ------- stderr -------
    error: none of the 30 trials of the baseline failed
     --> wrong.toml:3:12
      |
    3 | baseline = '0/30'
      |            ^^^^^^
      |
      = help: name a run with failures (`provoke list` shows them); without --baseline, the newest one counts
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&format!("command = ['true']\nfind = 'failing'\n{TWO}")), @r#"
    ------- stderr -------
    error: `find` is for `provoke compare`
     --> wrong.toml:2:8
      |
    2 | find = 'failing'
      |        ^^^^^^^^^
      |
      = help: use `provoke compare`, or `ask = "compare"`
    [exit status: Some(2)]
    "#);
    insta::assert_snapshot!(sandbox.provoke(&["compare", "--", "true"]), @"
    ------- stderr -------
    error: there is only one variant

    hint: define two or more variants: -L VAR=a,b, or [[variant]] in a scenario file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(sandbox.provoke(&["compare", "-L", "M=a,b"]), @"
    ------- stderr -------
    error: there is no command to run

    hint: add the program and its arguments: -- ./program argument
    [exit status: Some(2)]
    ");
}

#[test]
fn a_list_of_programs_is_compared() {
    let sandbox = Sandbox::new();
    for (name, code) in [("old", 1), ("new", 0)] {
        let path = sandbox.write(name, &format!("#!/bin/sh\nexit {code}\n"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for separator in [&[][..], &["--"]] {
        let args = [separator, &["./old"], separator, &["./new"]].concat();
        let (report, output) = sandbox.run_with_report("compare", &args);
        assert_eq!(output.code, Some(1), "{output}");
        let variants = report["variants"].as_array().unwrap();
        let failures = |index: usize| variants[index]["failures"].as_u64().unwrap();
        assert!(failures(0) > 0 && failures(1) == 0, "{output}");
        assert_eq!(variants[0]["name"], "program=./old", "{output}");
    }
}

#[test]
fn a_delay_of_one_variant_comes_before_each_of_its_trials() {
    let sandbox = Sandbox::new();
    sandbox.write("ended", "0");
    let line = "begin=$(date +%s%N); ended=$(cat ended); date +%s%N > ended; \
        [ {variant} = plain ] || [ $((begin - ended)) -ge 500000000 ]";
    let args = [
        "-n",
        "3",
        "--under",
        "plain,delay=500ms",
        "--",
        "sh",
        "-c",
        line,
    ];
    let (report, output) = sandbox.run_with_report("compare", &args);
    for variant in report["variants"].as_array().unwrap() {
        assert_eq!(variant["outcomes"], json!({"pass": 3}), "{output}");
    }
}
