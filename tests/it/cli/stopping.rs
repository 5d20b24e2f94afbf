//! Tests when a run ends, and with which exit code.

use super::support::{PROVOKE, Sandbox, words};
use serde_json::{Value, json};

/// Returns a command that fails in these trials.
fn failing_command(trials: &str) -> Vec<&str> {
    vec!["--", PROVOKE, "victim", "exit", "--fail-on", trials]
}

fn run(flags: &[&str], trials: &str) -> (serde_json::Value, Option<i32>) {
    let (report, output) = Sandbox::new().report(&[flags, &failing_command(trials)].concat());
    (report, output.code)
}

#[test]
fn the_exit_code_states_the_answer() {
    assert_eq!(run(&["-n", "3"], "99").1, Some(0));
    assert_eq!(run(&["-n", "3"], "2").1, Some(1));
    assert_eq!(run(&["-n", "3", "--expect", "fail"], "2").1, Some(0));
    assert_eq!(run(&["-n", "3", "--expect", "fail"], "99").1, Some(1));
    assert_eq!(run(&["-n", "3", "--expect", "any"], "2").1, Some(0));
    assert_eq!(run(&["-n", "3", "--expect", "any"], "99").1, Some(0));
    assert_eq!(
        run(&["-n", "40", "-j", "2", "--max-rate", "50%"], "2").1,
        Some(0)
    );
    assert_eq!(
        run(&["-n", "40", "-j", "2", "--max-rate", "1%"], "1-39").1,
        Some(1)
    );
    assert_eq!(run(&["-n", "5", "--max-rate", "10%"], "2").1, Some(3));
}

#[test]
fn fail_fast_stops_at_the_first_failure_without_a_point_estimate() {
    let (report, _) = run(&["-n", "30", "-x", "-j", "3"], "4,5,6");
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["trials"], &variant["failures"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(variant["rate"]["point"], json!(null));
    assert_eq!(report["stop_rule"], "kth_failure");
}

#[test]
fn max_fail_3_stops_at_the_third_failure_with_a_point_estimate() {
    let (report, _) = run(&["--max-fail", "3"], "2,5,8");
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["trials"], &variant["failures"]),
        (&json!(8), &json!(3))
    );
    assert_eq!(variant["rate"]["point"], json!(0.375));
}

#[test]
fn width_stops_when_the_interval_is_narrow_enough() {
    let (report, _) = run(&["--width", "60%"], "2,5,8");
    let rate = &report["variants"][0]["rate"];
    assert_eq!(
        (&report["stop_rule"], &rate["basis"]),
        (&json!("decision"), &json!("cs"))
    );
    let width = rate["cs"][1].as_f64().unwrap() - rate["cs"][0].as_f64().unwrap();
    assert!(width <= 0.6, "{width}");
}

#[test]
fn a_time_limit_stops_with_an_interval_that_holds_at_any_time() {
    let (report, code) = run(&["-d", "300ms", "--delay", "20ms"], "99999");
    assert_eq!((&report["stop_rule"], code), (&json!("time"), Some(0)));
    assert_eq!(report["variants"][0]["rate"]["basis"], "cs");
}

#[test]
fn the_default_limits_are_printed() {
    let output = Sandbox::new().provoke(&["run", "--", "true"]);
    assert!(
        output.stderr.contains("at most 100 trials or 10 minutes"),
        "{output}"
    );
    assert!(output.stdout.contains("0 of 100 trials failed"), "{output}");
}

#[test]
fn run_prints_the_failures_and_the_next_commands() {
    let output = Sandbox::new().provoke(
        &[
            &["run", "-n", "10", "--seed", "1"],
            &failing_command("3,7")[..],
        ]
        .concat(),
    );
    insta::assert_snapshot!(output, @"
    exit 1 in 2 of 10 trials: 20 % (95 % interval 2.5 to 56 %)

      2x    exit 1: the program reported failure
            trials 3, 7
            last line of stderr: victim: about to exit with code 1
      median time: pass TIME, failure TIME

    is it fixed?       provoke confirm --baseline RUN   # 70 passing trials, about TIME
    repeat one trial   provoke replay RUN#3
    saved in           provoke-out/RUN
    ------- stderr -------
      #3     exit 1   TIME  victim: about to exit with code 1
      #7     exit 1   TIME  victim: about to exit with code 1
    [exit status: Some(1)]
    ");
}

#[test]
fn ticks_and_crosses_are_printed_in_the_order_of_trials() {
    let sandbox = Sandbox::new();
    let line = "case $PROVOKE_TRIAL in 2) sleep 0.3; exit 139;; 3) kill -SEGV $$;; esac";
    let output = sandbox.provoke(&[
        "run",
        "-n",
        "4",
        "-j",
        "4",
        "--progress=none",
        "--style",
        "ticks",
        "--",
        "sh",
        "-c",
        line,
    ]);
    insta::assert_snapshot!(output, @"
    ✓ 1
    ✗ 2  exit code 139 (SIGSEGV, segmentation fault)
    ✗ 3  SIGSEGV (segmentation fault)
    ✓ 4
    SIGSEGV in 2 of 4 trials: 50 % (95 % interval 6.7 to 94 %)

      2x    SIGSEGV (inferred from exit 139): segmentation fault: invalid memory access
            trials 2, 3
      median time: pass TIME, failure TIME

      note: no core was captured in extra trials: --capture on dumps cores in every trial

    is it fixed?       provoke confirm --baseline RUN   # 28 passing trials, about TIME
    repeat one trial   provoke replay RUN#2
    saved in           provoke-out/RUN
    ------- stderr -------
    [exit status: Some(1)]
    ");
}

#[test]
fn every_trial_is_shown_with_the_flag_v() {
    let output = Sandbox::new().provoke(&["run", "-n", "2", "-v", "--", "true"]);
    insta::assert_snapshot!(output, @"
    0 of 2 trials failed: rate below 85 % (95 % interval)

    exclude a rate of 1 %   repeat this with -n 368   # about TIME
    saved in                provoke-out/RUN
    ------- stderr -------
      #1     ok  TIME
      #2     ok  TIME
    [exit status: Some(0)]
    ");
}

#[test]
fn a_command_that_always_fails_in_the_same_way_stops_early() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "wrong.sh",
        "echo \"usage: error: --data is required (call $$)\" >&2; exit 2\n",
    );
    let output = sandbox.provoke(&["run", "sh", "wrong.sh"]);
    assert_eq!(output.code, Some(1), "{output}");
    let expected = "every trial fails in the same way (exit code 2: usage: error: --data is required (call N)): check the command. The run stopped after 5 trials and is not used as a baseline; --keep-going runs all trials";
    assert!(output.to_string().contains(expected), "{output}");
    assert!(!output.stdout.contains("is it fixed?"), "{output}");
    let finished = |sandbox: &Sandbox| {
        let events = sandbox.events();
        events
            .iter()
            .filter(|event| event.get("trial_finished").is_some())
            .count()
    };
    assert_eq!(finished(&sandbox), 5);
    // The interval is valid for a rule that depends on the trials.
    let report = sandbox.provoke(&["report", "last", "--json"]).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["rate"]["basis"], &report["verdict"]),
        (&json!("cs"), &json!("failing"))
    );

    // It is not a baseline, neither by its name nor by default.
    let named = sandbox.provoke(&["confirm", "--baseline", "last", "--", "true"]);
    assert_eq!(named.code, Some(2), "{named}");
    assert!(
        named
            .stderr
            .contains("stopped early, because every trial failed in the same way"),
        "{named}"
    );
    let newest = sandbox.provoke(&["confirm", "--", "true"]);
    assert!(
        newest
            .stderr
            .contains("there is no baseline: no stored run has failures"),
        "{newest}"
    );

    // After a resumption, it runs all its trials, and counts.
    let resumed = sandbox.provoke(&["resume", "last"]);
    assert_eq!(resumed.code, Some(1), "{resumed}");
    assert_eq!(finished(&sandbox), 100);
    let newest = sandbox.provoke(&["confirm", "--", "true"]);
    assert_eq!(newest.code, Some(0), "{newest}");
}

#[test]
fn only_a_run_without_limits_stops_early_if_all_trials_fail_equally() {
    let run_script = |script: &str, args: &[&str]| {
        let sandbox = Sandbox::new();
        sandbox.write("fail.sh", script);
        let all = [args, &["--", "sh", "fail.sh"]].concat();
        let output = sandbox.provoke(&all);
        let events = sandbox.events();
        let finished = events
            .iter()
            .filter(|event| event.get("trial_finished").is_some());
        (finished.count(), output.code)
    };
    let alike = "echo 'error: no data' >&2; exit 2\n";
    assert_eq!(run_script(alike, &["run"]), (5, Some(1)));
    assert_eq!(run_script(alike, &["run", "-n", "20"]), (20, Some(1)));
    assert_eq!(run_script(alike, &["run", "--keep-going"]), (100, Some(1)));
    assert_eq!(run_script(alike, &["run", "--max-fail", "8"]), (8, Some(1)));
    let messages = "echo \"error: $(echo $PROVOKE_TRIAL | tr 0-9 a-j)\" >&2; exit 2\n";
    assert_eq!(run_script(messages, &["run"]), (100, Some(1)));
    let once = "test $PROVOKE_TRIAL = 3 && exit 0; echo 'error: no data' >&2; exit 2\n";
    assert_eq!(run_script(once, &["run"]), (100, Some(1)));
}

#[test]
fn resuming_a_finished_run_with_a_higher_limit_uses_an_any_time_interval() {
    let sandbox = Sandbox::new();
    let (planned, _) = sandbox.report(&["-n", "40", "--", "true"]);
    let output = sandbox.provoke(&["resume", "last", "-n", "30"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(output.stderr.contains("-n and -d are totals"), "{output}");
    // A limit is not recorded if the hosts are refused.
    let refused = sandbox.provoke(&["resume", "last", "-n", "50", "--on", "ssh"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    let journal = sandbox.read("provoke-out/last/events.jsonl");
    assert!(!journal.contains("limits_changed"), "{journal}");
    let output = sandbox.provoke(&["resume", "last", "-n", "60", "--progress=none"]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = sandbox.provoke(&["report", "last", "--json"]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let variant = &report["variants"][0];
    assert_eq!(variant["trials"], 60);
    assert_eq!(variant["stop_rule"], "spent");
    assert_eq!(variant["rate"]["basis"], "cs");
    assert_eq!(planned["variants"][0]["rate"]["basis"], "cp");
}

#[test]
fn resuming_a_probable_fix_with_exclude_half_gives_fixed() {
    let sandbox = Sandbox::new();
    let args = words("confirm --baseline 10/100 --exclude-half=false -- true");
    let output = sandbox.provoke(&args);
    assert!(output.stdout.starts_with("PROBABLY FIXED"), "{output}");
    let output = sandbox.provoke(&["resume", "last", "--exclude-half"]);
    assert!(
        output.stdout.starts_with("FIXED (95 %): 70 passing trials"),
        "{output}"
    );
    let output = sandbox.provoke(&["run", "-n", "1", "--", "true"]);
    assert_eq!(output.code, Some(0), "{output}");
    let output = sandbox.provoke(&["resume", "last", "--exclude-half"]);
    assert!(
        output.stderr.contains("is for runs of `provoke confirm`"),
        "{output}"
    );
}

#[test]
fn trials_for_evidence_are_not_counted_when_a_run_is_resumed() {
    let sandbox = Sandbox::new();
    let crash = [PROVOKE, "victim", "segv", "--rate", "1"];
    let run = |args: &[&str]| sandbox.provoke(args);
    run(&[
        &["run", "--progress=none", "-n", "4", "--keep-going", "--"][..],
        &crash,
    ]
    .concat());
    let output = run(&["resume", "last", "-n", "8", "--progress=none"]);
    assert!(
        output.stdout.starts_with("SIGSEGV in 8 of 8 trials"),
        "{output}"
    );
    let output = sandbox.provoke(&["report", "last", "--jsonl"]);
    let classes: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["class"].clone())
        .collect();
    let count = |class: &str| classes.iter().filter(|known| *known == class).count();
    assert_eq!(count("fail"), 8, "{classes:?}");
    assert_eq!(
        count("fail") + count("capture"),
        classes.len(),
        "{classes:?}"
    );
}
