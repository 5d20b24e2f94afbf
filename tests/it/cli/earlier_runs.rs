//! Tests which earlier runs of the same program count, and how they are reported.

use super::support::{CommandOutput, PROVOKE, Sandbox, words};
use serde_json::{Value, json};

/// Fails in the trials that this variable names. Variables that begin with TERM_ describe the terminal, so they do not
/// make it another program.
const FAILS: &str = "case \" $TERM_FAILS \" in *\" $PROVOKE_TRIAL \"*) exit 1;; esac";

impl Sandbox {
    /// Runs the same program; these trials fail.
    fn run_failing_in(&self, trials: u32, fails: &str, more: &[&str]) -> CommandOutput {
        let fails = format!("TERM_FAILS={fails}");
        let trials = trials.to_string();
        let run = ["run", "-n", &trials, "-e", &fails];
        let output = self.provoke(&[&run, more, &["--shell", FAILS]].concat());
        assert!(matches!(output.code, Some(0 | 1)), "{output}");
        output
    }

    /// Confirms a fix against the last run.
    fn confirm_last(&self, more: &[&str]) -> (Value, CommandOutput) {
        self.confirm_against("last", more)
    }

    fn confirm_against(&self, baseline: &str, more: &[&str]) -> (Value, CommandOutput) {
        let confirm = ["confirm", "--progress=none", "--export-json", "report.json"];
        let fixed = ["--baseline", baseline, "-e", "TERM_FAILS=none"];
        let output = self.provoke(&[&confirm, &fixed[..], more].concat());
        let report: Value = serde_json::from_str(&self.read("report.json"))
            .unwrap_or_else(|error| panic!("{error}: {output}"));
        (report["answer"]["confirm"].clone(), output)
    }
}

fn counts(runs: &Value) -> Vec<(u64, u64)> {
    let count = |one: &Value, name: &str| one[name].as_u64().unwrap();
    let runs = runs.as_array().unwrap().iter();
    runs.map(|one| (count(one, "failures"), count(one, "trials")))
        .collect()
}

fn reasons(left_out: &Value) -> Vec<&str> {
    let runs = left_out.as_array().unwrap().iter();
    runs.map(|one| one["why"].as_str().unwrap()).collect()
}

#[test]
fn all_earlier_runs_of_the_program_count_for_the_baseline() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(100, "5 41 77", &[]);
    sandbox.run_failing_in(100, "", &[]);
    let output = sandbox.run_failing_in(100, "20 60 90", &[]);
    // The summary shows how many trials `confirm` will need.
    let needed = "provoke confirm --baseline RUN   # 388 passing trials, about ";
    assert!(output.to_string().contains(needed), "{output}");
    assert!(
        output
            .stdout
            .contains("; baseline: this run and 2 earlier runs\n"),
        "{output}"
    );
    let report = sandbox.provoke(&["report", "last"]);
    assert!(report.to_string().contains(needed), "{report}");
    let (answer, output) = sandbox.confirm_last(&[]);
    assert_eq!(answer["clean_needed"], 388, "{output}");
    let base = &answer["baseline"];
    assert_eq!([&base["failures"], &base["trials"]], [6, 300]);
    assert_eq!(counts(&base["runs"]), [(3, 100), (3, 100), (0, 100)]);
    assert_eq!(base["runs"][0]["run"], base["run"]);
    insta::assert_snapshot!(output, @"
    FIXED (95 %): 388 passing trials; before, 6 of 300 in 3 runs failed. Even at half that rate, this many passes would occur by chance in at most 1 of 20 cases
      the program is the same as in the baseline, so it may not contain the fix
      baseline: 3 of 100 failed in RUN, 3 of 200 in 2 other runs of the same program (--ignore-earlier-runs ignores the others)

      assumes: the runs of the baseline do not differ in anything that is not recorded, such as an external database
      assumes: the bug does not come and go by itself, for example from hour to hour

    saved in   provoke-out/RUN
    ------- stderr -------
      6 of 300 in 3 runs failed; FIXED needs 388 passing trials, about TIME; the first failure means NOT FIXED
      the program is the same as in the baseline, so it may not contain the fix
      the bug: exit 1, or another failure with the same exit status
    wrote report.json
    [exit status: Some(0)]
    ");
    // The result is the same for either named run.
    let name = base["runs"][1]["run"].as_str().unwrap();
    let planned = sandbox.provoke(&["plan", "--baseline", name]);
    assert!(planned.stdout.contains("6 of 300 in 3 runs"), "{planned}");
    let alone = sandbox.provoke(&["plan", "--baseline", name, "--ignore-earlier-runs"]);
    assert!(alone.stdout.contains("3 % of trials (3 of 100,"), "{alone}");
}

#[test]
fn ignore_earlier_runs_limits_the_baseline_to_one_run() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(100, "5 41 77", &[]);
    sandbox.run_failing_in(30, "5 11 27", &[]);
    let (answer, output) = sandbox.confirm_last(&["--ignore-earlier-runs"]);
    assert_eq!(answer["clean_needed"], 103, "{output}");
    assert_eq!(answer["baseline"]["runs"], json!([]));
    let file = sandbox.write(
        "fixed.toml",
        "ask = 'confirm'\nbaseline = 'last'\nignore-earlier-runs = true\ncommand = ['true']\n",
    );
    let output = sandbox.provoke(&["scenario", file.to_str().unwrap()]);
    assert!(!output.stdout.contains("in 2 runs"), "{output}");
    let output = sandbox.provoke(&["run", "--file", "x"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn reports_of_earlier_runs_are_not_files_of_the_program() {
    let sandbox = Sandbox::new();
    sandbox.write("settings", "1\n");
    sandbox.run_failing_in(30, "5", &[]);
    sandbox.provoke(&["report", "last", "--md=issue.md"]);
    sandbox.run_failing_in(30, "5 9", &["--junit=ci.xml"]);
    sandbox.write("notes.txt", "1\n");
    sandbox.run_failing_in(30, "5 9 17", &[]);
    let (answer, output) = sandbox.confirm_last(&[]);
    let base = &answer["baseline"];
    assert_eq!(counts(&base["runs"]).len(), 3, "{output}");
    let assumptions = answer["assumptions"].to_string();
    assert!(assumptions.contains("notes.txt"), "{assumptions}");
    assert!(!assumptions.contains("issue.md"), "{assumptions}");
    assert!(!assumptions.contains("ci.xml"), "{assumptions}");
}

#[test]
fn runs_with_another_configuration_do_not_count() {
    let sandbox = Sandbox::new();
    sandbox.write("settings", "1\n");
    sandbox.run_failing_in(30, "5", &[]);
    sandbox.write("settings", "2\n");
    sandbox.run_failing_in(30, "5", &["-j", "2"]);
    sandbox.run_failing_in(30, "5", &["-e", "THREADS=8"]);
    sandbox.run_failing_in(30, "5", &["--prepare", "true"]);
    sandbox.run_failing_in(30, "5", &["--ok", "0,3"]);
    sandbox.run_failing_in(30, "5", &["--capture", "on"]);
    sandbox.run_failing_in(30, "5", &["--seed", "7"]);
    sandbox.run_failing_in(30, "5", &["--cwd", "/"]);
    // Runs of another command are not mentioned.
    sandbox.provoke(&["run", "-n", "3", "--", "true"]);
    sandbox.run_failing_in(30, "3 14 25", &["--seed", "7"]);
    let (answer, output) = sandbox.confirm_last(&[]);
    assert_eq!(answer["clean_needed"], 103, "{output}");
    let base = &answer["baseline"];
    assert_eq!(base["runs"], json!([]));
    insta::assert_debug_snapshot!(reasons(&base["left_out"]), @r#"
    [
        "`settings` in the working directory differs",
        "parallel trials: 2 instead of 1",
        "the environment variable THREADS differs",
        "a hook differs",
        "a rule for passing or failing differs",
        "`capture` differs",
        "the run has the same seed as another run, so its trials may be the same",
        "the working directory differs",
    ]
    "#);
    let output = sandbox.provoke(&["confirm", "--baseline", "last", "-n", "1"]);
    let line = "other runs of this command do not count: ";
    assert!(output.stderr.contains(line), "{output}");
}

#[test]
fn runs_that_are_not_trusted_do_not_count() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(30, "5 9 17", &[]);
    let copied = sandbox.program_command(
        "cp",
        &words("-r provoke-out/last/ provoke-out/20200101-000000-abcd"),
    );
    let mut copied = copied;
    assert!(copied.status().unwrap().success());
    // Simulates age: the journal was written elsewhere.
    let path = sandbox.path("provoke-out/20200101-000000-abcd/events.jsonl");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(path, mode).unwrap();
    sandbox.run_failing_in(30, "3 14 25", &[]);
    let (answer, output) = sandbox.confirm_last(&[]);
    let base = &answer["baseline"];
    assert_eq!(counts(&base["runs"]), [(3, 30), (3, 30)], "{output}");
    let [why] = reasons(&base["left_out"])[..] else {
        panic!("{output}");
    };
    assert!(why.contains("are not trusted"), "{why}");
}

#[test]
fn a_run_that_confirmed_a_fix_does_not_count() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(30, "3 14 25", &[]);
    let name = sandbox.events()[0]["run_started"]["run"].clone();
    let name = name.as_str().unwrap();
    for confirmed in [0, 1] {
        let (answer, output) = sandbox.confirm_against(name, &[]);
        let base = &answer["baseline"];
        assert_eq!([&base["failures"], &base["trials"]], [3, 30], "{output}");
        let why = vec!["`confirm` runs are not part of the baseline"; confirmed];
        assert_eq!(reasons(&base["left_out"]), why, "{output}");
    }
}

#[test]
fn a_run_that_was_chosen_for_its_failures_does_not_count_alone() {
    let sandbox = Sandbox::new();
    for _ in 0..3 {
        sandbox.run_failing_in(100, "", &[]);
    }
    sandbox.run_failing_in(10, "2 5 9", &[]);
    let (answer, output) = sandbox.confirm_last(&[]);
    let base = &answer["baseline"];
    assert_eq!([&base["failures"], &base["trials"]], [3, 310], "{output}");
    assert_eq!(base["rates_differ"]["more_often"], true);
    assert!(
        output.stdout.contains("failed more often (3 of 10)"),
        "{output}"
    );
    // With the rates exchanged, the lower rate is that of the named run alone.
    let sandbox = Sandbox::new();
    for _ in 0..2 {
        sandbox.run_failing_in(20, "1 2 4 7 8 11 13 14 17 19", &[]);
    }
    sandbox.run_failing_in(30, "9", &[]);
    let (answer, output) = sandbox.confirm_last(&["-n", "3"]);
    let base = &answer["baseline"];
    assert_eq!([&base["failures"], &base["trials"]], [1, 30], "{output}");
    assert_eq!(base["rates_differ"]["more_often"], false);
    assert!(
        output.stdout.contains("failed less often (1 of 30)"),
        "{output}"
    );
}

#[test]
fn failures_of_another_bug_do_not_count_for_the_baseline() {
    let sandbox = Sandbox::new();
    let line = "case \" $TERM_FAILS \" in *\" $PROVOKE_TRIAL \"*) exit $TERM_CODE;; esac";
    for (fails, code) in [("4 9", "3"), ("8 20 25", "1")] {
        let (fails, code) = (format!("TERM_FAILS={fails}"), format!("TERM_CODE={code}"));
        let run = [
            "run", "-n", "30", "-e", &fails, "-e", &code, "--shell", line,
        ];
        sandbox.provoke(&run);
    }
    let (answer, output) = sandbox.confirm_last(&["-n", "3"]);
    let base = &answer["baseline"];
    // Two trials showed another bug: they do not count.
    assert_eq!(counts(&base["runs"]), [(3, 30), (0, 28)], "{output}");
    let name = base["run"].as_str().unwrap();
    let (answer, output) = sandbox.confirm_against(name, &["-n", "3", "--any-failure"]);
    assert_eq!(
        counts(&answer["baseline"]["runs"]),
        [(3, 30), (2, 30)],
        "{output}"
    );
}

/// A list in which version 9 and all after it fail in these trials.
const VERSIONS: &str =
    "[ $1 -lt 9 ] || case \" $TERM_FAILS \" in *\" $((PROVOKE_TRIAL % 10)) \"*) exit 1;; esac";

fn bisect_versions(sandbox: &Sandbox, fails: &str, more: &[&str]) -> (Value, u64, CommandOutput) {
    let fails = format!("TERM_FAILS={fails}");
    let search = ["--range", "0..16", "--clean", "-e", &fails];
    let command = ["--", "sh", "-c", VERSIONS, "x", "{variant}"];
    let (report, output) = sandbox.run_with_report("bisect", &[&search, more, &command].concat());
    let variants = report["variants"].as_array().unwrap().iter();
    let trials = variants.map(|one| one["trials"].as_u64().unwrap()).sum();
    (report["answer"]["bisect"].clone(), trials, output)
}

fn run_of_the_bad_end(sandbox: &Sandbox, fails: &str) {
    let fails = format!("TERM_FAILS={fails}");
    let run = ["run", "-n", "100", "-e", &fails];
    sandbox.provoke(&[&run[..], &["--", "sh", "-c", VERSIONS, "x", "16"]].concat());
}

#[test]
fn earlier_runs_of_the_bad_end_count_in_a_bisection() {
    let sandbox = Sandbox::new();
    let (alone, trials_alone, output) = bisect_versions(&sandbox, "1 4 7", &[]);
    assert_eq!(alone["culprits"], json!(["9"]), "{output}");
    let sandbox = Sandbox::new();
    run_of_the_bad_end(&sandbox, "1 4 7");
    let (answer, trials, output) = bisect_versions(&sandbox, "1 4 7", &[]);
    assert_eq!(answer["culprits"], json!(["9"]), "{output}");
    let earlier = &answer["earlier_runs"];
    assert_eq!(earlier["counted"], true, "{output}");
    assert_eq!(counts(&earlier["runs"]), [(30, 100)]);
    assert!(trials < trials_alone, "{trials}, alone {trials_alone}");
    let line = "16 failed in 30 of 100 trials of 1 earlier run: counted";
    assert!(output.stdout.contains(line), "{output}");
    // Its own trials are shown separately.
    let bad_end = answer["points"].as_array().unwrap().last().unwrap();
    assert!(bad_end["trials"].as_u64() < Some(33), "{output}");
    // A log contains these trials, so they do not count twice.
    let log = sandbox.path("provoke-out/last/bisect.log");
    let (answer, _, output) = bisect_versions(&sandbox, "1 4 7", &["--log", log.to_str().unwrap()]);
    assert_eq!(answer["earlier_runs"], Value::Null, "{output}");
    // The next search also counts this run.
    let (answer, _, output) = bisect_versions(&sandbox, "1 4 7", &[]);
    assert_eq!(counts(&answer["earlier_runs"]["runs"]).len(), 3, "{output}");
    let (answer, again, output) = bisect_versions(&sandbox, "1 4 7", &["--ignore-earlier-runs"]);
    assert_eq!(answer["earlier_runs"], Value::Null, "{output}");
    assert_eq!(answer["culprits"], json!(["9"]));
    assert!(again > 0);
}

#[test]
fn earlier_runs_at_another_rate_do_not_count_in_a_bisection() {
    let sandbox = Sandbox::new();
    // Fifty of a hundred trials failed before; now the first failure is in the thirtieth trial.
    run_of_the_bad_end(&sandbox, "0 1 2 3 4 5 6 7 8");
    let line =
        "[ $1 -lt 9 ] || case \" $TERM_FAILS \" in *\" $((PROVOKE_TRIAL % 10)) \"*) exit 1;; esac";
    assert_eq!(line, VERSIONS);
    let (answer, _, output) = bisect_versions(&sandbox, "9", &[]);
    let earlier = &answer["earlier_runs"];
    assert_eq!(earlier["counted"], false, "{output}");
    let why = earlier["why"].as_str().unwrap();
    assert!(why.starts_with("the failure rate has changed, p"), "{why}");
    assert!(
        output.stdout.contains("not counted, the failure rate"),
        "{output}"
    );
}

#[test]
fn earlier_runs_with_all_items_count_in_a_reduction() {
    let sandbox = Sandbox::new();
    let line = "case \"$*\" in *b*) case \" $TERM_FAILS \" in *\" $((PROVOKE_TRIAL % 10)) \"*) exit 1;; esac;; esac";
    let command = ["--", "sh", "-c", line, "x", "a", "b", "c"];
    let fails = ["-e", "TERM_FAILS=1 4 7"];
    sandbox.provoke(&[&["run", "-n", "100"], &fails[..], &command].concat());
    let search = ["--set", "a,b,c", "--clean"];
    let set = ["--", "sh", "-c", line, "x", "{set}"];
    let (report, output) = sandbox.run_with_report("reduce", &[&search, &fails[..], &set].concat());
    let answer = &report["answer"]["reduce"];
    assert_eq!(answer["earlier_runs"]["counted"], true, "{output}");
    assert_eq!(answer["needed"][0]["things"], json!(["`b`"]), "{output}");
    let line = "the set of all items failed in 30 of 100 trials of 1 earlier run: counted";
    assert!(output.stdout.contains(line), "{output}");
}

#[test]
fn a_comparison_with_a_baseline_counts_earlier_runs() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(30, "5 11 27", &[]);
    sandbox.run_failing_in(30, "3 14 25", &[]);
    let name = sandbox.events()[0]["run_started"]["run"].clone();
    let compare = |more: &[&str]| {
        let first = ["--baseline", name.as_str().unwrap(), "-L", "A=1,2"];
        sandbox.run_with_report("compare", &[&first, more, &["--", "true"]].concat())
    };
    let (report, output) = compare(&["-n", "5"]);
    let base = &report["answer"]["compare"]["baseline"];
    assert_eq!([&base["failures"], &base["trials"]], [6, 60], "{output}");
    let (report, output) = compare(&["-n", "5", "--ignore-earlier-runs"]);
    let base = &report["answer"]["compare"]["baseline"];
    assert_eq!([&base["failures"], &base["trials"]], [3, 30], "{output}");
}

#[test]
fn a_comparison_under_other_conditions_than_its_baseline_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.run_failing_in(30, "3 14 25", &[]);
    let compare = words("compare --progress=none --baseline last -L LD_PRELOAD=x.so,y.so -n 5");
    let command = ["--", "true"];
    let others = [&compare[..], &["-j", "2"], &command].concat();
    let output = sandbox.provoke(&others);
    insta::assert_snapshot!(output, @r#"
    ------- stderr -------
      baseline: run RUN
        sh -c 'case " $TERM_FAILS " in *" $PROVOKE_TRIAL "*) exit 1;; esac'
    error: cannot compare with the baseline: its conditions differ, which may change the failure rate
      caused by: parallel trials: 1 in the baseline, 2 here

    hint: compare under the conditions of the baseline, or measure a baseline under these conditions; if the differences cannot change the failure rate, add --accept-different-conditions
    [exit status: Some(3)]
    "#);
    let accept = ["--accept-different-conditions"];
    let output = sandbox.provoke(&[&compare[..], &["-j", "2"], &accept, &command].concat());
    let assumed = "the failure rate does not depend on parallel trials: 1 in the baseline, 2 here";
    assert!(output.stdout.contains(assumed), "{output}");
}

#[test]
fn failures_of_an_interrupted_run_count_without_stacks() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("in")).unwrap();
    let victim = [
        "--cwd", "in", "--", PROVOKE, "victim", "segv", "--rate", "0.3",
    ];
    let child = sandbox.start(&[&["run", "-n", "100000"], &victim[..]].concat());
    child.wait_for_stderr("SIGSEGV");
    child.signal(rustix::process::Signal::INT);
    assert_eq!(child.end().code, Some(130));
    sandbox.provoke(&[&["run", "-n", "30", "--progress=none"], &victim[..]].concat());
    let output = sandbox.provoke(&["confirm", "--baseline", "last", "-n", "1"]);
    assert!(output.stdout.contains(" in 1 other run"), "{output}");
    assert!(!output.stdout.contains(" 0 of "), "{output}");
}
