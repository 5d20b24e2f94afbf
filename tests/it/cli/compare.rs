//! Tests `compare` with real processes.

use super::support::{PROVOKE, Said, Sandbox, wait_until};
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Sandbox {
    /// Compares variants; returns the report.
    fn compare(&self, args: &[&str]) -> (Value, Said) {
        self.ask("compare", args)
    }
}

fn told((report, said): &(Value, Said)) -> (&str, i32) {
    (report["verdict"].as_str().unwrap(), said.code.unwrap())
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
fn two_that_differ_are_told_apart() {
    let sandbox = Sandbox::new();
    let args = ["-L", "M=a,b", "--seed", "1", "--shell", SOMETIMES];
    let all = sandbox.compare(&args);
    assert_eq!(told(&all), ("different", 1), "{}", all.1);
    let answer = &all.0["answer"]["compare"];
    assert_eq!(answer["find"], "different");
    let contrast = &answer["contrasts"][0];
    assert_eq!([&contrast["reference"], &contrast["other"]], ["a", "b"]);
    assert_eq!(
        [&contrast["factor"], &contrast["differs"]],
        [&json!("M"), &json!(true)]
    );
    assert!(contrast["evidence"].as_f64() >= contrast["enough"].as_f64());
    let wanted = "DIFFERENT at 95 %: M=b fails more often than M=a";
    assert!(all.1.stdout.contains(wanted), "{}", all.1);
    // The same comparison with the other variant as the reference.
    let all = sandbox.compare(&[&["--reference", "M=b"], &args[..]].concat());
    assert_eq!(told(&all), ("different", 1));
    let wanted = "M=a fails less often than M=b";
    assert!(all.1.stdout.contains(wanted), "{}", all.1);
}

#[test]
fn two_that_do_not_differ_say_what_would_have_been_seen() {
    let all = Sandbox::new().compare(&["-L", "M=a,b", "-n", "30", "--", "true"]);
    assert_eq!(told(&all), ("no_difference", 3), "{}", all.1);
    let seen = &all.0["answer"]["compare"]["could_see"];
    assert_eq!([&seen["pairs"], &seen["below"]], [&json!(30), &Value::Null]);
    assert!(seen["above"].as_f64() > Some(0.2), "{seen}");
    assert!(
        all.1
            .stdout
            .contains("NOT KNOWN: no difference found; 30 trials of each tell 0 %, the rate of both together, only from a rate above"),
        "{}",
        all.1
    );
}

#[test]
fn when_the_time_is_over_nothing_is_known() {
    let args = ["-L", "M=a,b", "-d", "300ms", "--", "sleep", "0.02"];
    let all = Sandbox::new().compare(&args);
    assert_eq!(told(&all), ("undecided", 3), "{}", all.1);
    assert!(all.1.stdout.contains("NOT KNOWN YET"), "{}", all.1);
}

#[test]
fn the_one_of_four_that_is_clean_is_found() {
    let line = "[ $M = c ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "M=a,b,c,d", "--seed", "3", "--shell", line];
    for lanes in ["1", "3"] {
        let all = Sandbox::new().compare(&[&["-j", lanes], &args[..]].concat());
        assert_eq!(told(&all), ("different", 1), "{}", all.1);
        let wanted = [
            ("M=a", "fails"),
            ("M=b", "fails"),
            ("M=c", "fails_less"),
            ("M=d", "fails"),
        ];
        assert_eq!(standings(&all.0), wanted, "{}", all.1);
        let answer = &all.0["answer"]["compare"];
        let (passed, needed) = (&all.0["variants"][2]["trials"], &answer["clean_needed"]);
        assert!(passed.as_u64() >= needed.as_u64(), "{}", all.1);
        assert!(answer["baseline"]["variant"].is_string());
    }
}

#[test]
fn where_all_fail_or_none_does_it_is_said() {
    let compare = |more: &[&str]| {
        let all = Sandbox::new().compare(&[&["-L", "M=a,b,c"], more].concat());
        (told(&all).0.to_owned(), all.1.code.unwrap(), all.1)
    };
    let (verdict, code, said) = compare(&["--", "false"]);
    assert_eq!((&*verdict, code), ("failing", 1), "{said}");
    assert!(
        said.stdout.contains("all variants fail: M=a, M=b and M=c"),
        "{said}"
    );
    let (verdict, code, said) = compare(&["-n", "20", "--", "true"]);
    assert_eq!((&*verdict, code), ("clean", 0), "{said}");
    assert!(said.stdout.contains("no variant failed"), "{said}");
    let (verdict, code, said) = compare(&["--baseline", "3/3", "--", "true"]);
    assert_eq!((&*verdict, code), ("clean", 0), "{said}");
    assert!(
        said.stdout
            .contains("no variant failed: M=a, M=b and M=c fail less often than the baseline (3 of 3), if at all (95 %): passed 6 times each, rate below 46 %"),
        "{said}"
    );
    let (verdict, code, said) = compare(&["--", "sh", "-c", "exit 125"]);
    assert_eq!((&*verdict, code), ("could_not_test", 125), "{said}");
}

#[test]
fn a_variant_is_clean_only_below_a_floor_that_was_given() {
    let line = "[ $M != b ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "M=a,b,c", "--seed", "3", "--shell", line];
    let all = Sandbox::new().compare(&[&["--floor", "10%"], &args[..]].concat());
    assert_eq!(told(&all), ("different", 1), "{}", all.1);
    let wanted = [("M=a", "clean"), ("M=b", "fails"), ("M=c", "clean")];
    assert_eq!(standings(&all.0), wanted, "{}", all.1);
    let answer = &all.0["answer"]["compare"];
    assert_eq!(
        [
            &answer["floor"],
            &answer["clean_needed"],
            &answer["baseline"]
        ],
        [&json!(0.1), &json!(39), &Value::Null]
    );
    let wanted = "It fails with M=b (1 of 3 variants); the other 2 are clean at 95 % (passed 39 times each: rate below 10 %)";
    assert!(all.1.stdout.contains(wanted), "{}", all.1);

    let all = Sandbox::new().compare(&args);
    let wanted = [
        ("M=a", "fails_less"),
        ("M=b", "fails"),
        ("M=c", "fails_less"),
    ];
    assert_eq!(standings(&all.0), wanted, "{}", all.1);
    let below = &all.0["answer"]["compare"]["variants"][0]["rate_below"];
    assert!(below.as_f64() > Some(0.1), "{below}");
    for wanted in [
        "the other 2 passed 14 times each (95 %: rate below 24 %)",
        "add --floor 5% to show",
        "this takes 80 passing trials of each",
    ] {
        assert!(all.1.stdout.contains(wanted), "{}", all.1);
    }
}

#[test]
fn a_floor_is_refused_where_it_answers_nothing() {
    let refused = |args: &[&str]| {
        let said = Sandbox::new().provoke(&[&["compare", "-L", "M=a,b"], args].concat());
        assert_eq!(said.code, Some(2), "{said}");
        said.stderr
    };
    let said = refused(&["--floor", "5%", "--find", "different", "--", "true"]);
    assert!(
        said.contains("does not apply to `find = \"different\"`"),
        "{said}"
    );
    let said = refused(&["--floor", "5%", "--baseline", "3/30", "--", "true"]);
    assert!(
        said.contains("`floor` and `baseline` are both given"),
        "{said}"
    );
    let said = refused(&["--floor", "0", "--", "true"]);
    assert!(said.contains("is not a rate above 0 and up to 1"), "{said}");
}

#[test]
fn of_a_matrix_the_combination_that_fails_is_named() {
    let line = "[ $A$B != 2y ] || [ $((PROVOKE_SEED / 7 % 3)) != 0 ]";
    let args = ["-L", "A=1,2", "-L", "B=x,y", "--seed", "3", "--shell", line];
    let all = Sandbox::new().compare(&args);
    assert_eq!(told(&all), ("different", 1), "{}", all.1);
    let answer = &all.0["answer"]["compare"];
    assert_eq!(answer["fails_where"], "A=2 and B=y");
    assert!(
        all.1
            .stdout
            .contains("It fails with A=2 and B=y (1 of 4 variants)"),
        "{}",
        all.1
    );
    let level = &answer["factors"][0]["levels"][1];
    assert_eq!(
        [&level["level"], &level["variants"], &level["failing"]],
        [&json!("2"), &json!(2), &json!(1)]
    );
}

/// Returns the names of the facts that distinguish the failing variants.
fn parted_by(report: &Value) -> Vec<&str> {
    let all = &report["answer"]["compare"]["parted_by"];
    let all = all.as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap()).collect()
}

#[test]
fn what_the_processors_lack_on_which_it_fails_is_named() {
    needs!(program("qemu-x86_64"));
    let sandbox = Sandbox::new();
    // A substitute for a program that dies without AVX2: CPU flags are sorted alphabetically.
    let lacking = r"\bavx (cx16|pclmulqdq)";
    let processors = "cpu=SandyBridge,IvyBridge,Haswell,max";
    let wrap = "qemu-x86_64 -cpu {cpu}";
    let args = ["-L", processors, "--wrap", wrap, "--fail-if-out", lacking];
    let find = ["--find", "failing", "--seed", "1"];
    let all = sandbox.compare(&[&find, &args[..], &["--", PROVOKE, "processor"]].concat());
    assert_eq!(told(&all), ("different", 1), "{}", all.1);
    let (report, said) = all;
    let names = parted_by(&report);
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
        assert!(said.stdout.contains(wanted), "{said}");
    }
    // The model name of an emulated CPU is not an explanation.
    let survey = &sandbox.events()[0]["run_started"]["survey"];
    let model = survey["cpu[cpu=Haswell].model"].as_str().unwrap();
    assert!(model.contains("Haswell"), "{survey}");
    let page = sandbox.provoke(&["report", "last", "--md"]).stdout;
    assert!(
        page.contains(&format!("`{model}` | `cpu=Haswell`")),
        "{page}"
    );
    assert!(
        page.contains("Failing only where processor: abm avx2"),
        "{page}"
    );
}

#[test]
fn where_nothing_but_what_was_varied_differs_nothing_parts_the_variants() {
    let args = ["-L", "M=a,b,c", "--shell", "[ $M != b ]"];
    let (report, said) = Sandbox::new().compare(&args);
    assert_eq!(parted_by(&report), [""; 0], "{said}");
    assert_eq!(report["answer"]["compare"]["facts"], json!([]));
    assert!(!said.stdout.contains("chance alone"), "{said}");
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
fn one_that_cannot_be_tried_is_shown_and_the_others_are_answered() {
    let sandbox = Sandbox::new();
    sandbox.write("three.toml", UNTESTABLE);
    let all = sandbox.compare(&["--file", "three.toml"]);
    assert_eq!(told(&all), ("different", 1), "{}", all.1);
    let wanted = [
        ("good", "fails_less"),
        ("broken", "untestable"),
        ("bad", "fails"),
    ];
    assert_eq!(standings(&all.0), wanted);
    let why = &all.0["answer"]["compare"]["variants"][1]["why"];
    assert!(why.as_str().unwrap().contains("`setup`"), "{why}");
    assert!(all.1.stdout.contains("not testable: broken"), "{}", all.1);
    let said = sandbox.provoke(&["scenario", "three.toml", "--progress=none"]);
    assert_eq!(said.code, Some(1), "{said}");
}

#[test]
fn trials_of_all_variants_take_turns() {
    let sandbox = Sandbox::new();
    let args = [
        "-L",
        "M=a,b,c",
        "-n",
        "20",
        "--find",
        "different",
        "-j",
        "2",
        "--seed",
        "5",
    ];
    let (_, said) = sandbox.compare(&[&args[..], &["--", "true"]].concat());
    assert_eq!(said.code, Some(3), "{said}");
    let rows: Vec<Value> = sandbox
        .provoke(&["report", "last", "--jsonl"])
        .stdout
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    let names: Vec<String> = rows.iter().map(|row| row["variant"].to_string()).collect();
    assert_eq!(names.len(), 60, "{said}");
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
fn a_comparison_that_was_interrupted_ends_as_it_would_have() {
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
        let said = running.end();
        assert_eq!(said.code, Some(130), "{said}");
        sandbox.write("go", "");
        sandbox.provoke(&[
            "resume",
            "cut",
            "--progress=none",
            "--export-json",
            "resumed.json",
        ]);
        let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
        let (whole, said) = sandbox.compare(&args);
        assert_eq!(
            (&whole["verdict"], said.code),
            (&json!("different"), Some(1))
        );
        assert_eq!(resumed["answer"], whole["answer"]);
        assert_eq!(resumed["verdict"], whole["verdict"]);
    }
}

const TWO: &str = "[[variant]]\nname = 'a'\n[[variant]]\nname = 'b'\n";

#[test]
fn a_wrong_comparison_is_explained() {
    let sandbox = Sandbox::new();
    let said = |text: &str| {
        sandbox.write("wrong.toml", text);
        sandbox.provoke(&["scenario", "wrong.toml"])
    };
    let begin = "ask = 'compare'\ncommand = ['true']\n";
    insta::assert_snapshot!(said(&format!("{begin}reference = 'z'\n{TWO}")), @"
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
    insta::assert_snapshot!(said(&format!("{begin}[[variant]]\nname = 'a'\n")), @"
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
    insta::assert_snapshot!(said(&format!("{begin}max-fail = 3\n{TWO}")), @"
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
    insta::assert_snapshot!(said(&format!("{begin}exclude-half = true\n{TWO}")), @r#"
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
    insta::assert_snapshot!(said(&format!("{begin}find = 'different'\nbaseline = '3/30'\n{TWO}")), @r#"
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
    insta::assert_snapshot!(said(&format!("{begin}baseline = '0/30'\n{TWO}")), @"
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
    insta::assert_snapshot!(said(&format!("command = ['true']\nfind = 'failing'\n{TWO}")), @r#"
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
