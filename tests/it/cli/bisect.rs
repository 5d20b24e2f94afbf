//! Tests `bisect` with real processes.

use super::support::{CommandOutput, Sandbox, wait_until, words};
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::{Value, json};

impl Sandbox {
    /// Runs a search; returns the report.
    fn bisect(&self, args: &[&str]) -> (Value, CommandOutput) {
        self.run_with_report("bisect", args)
    }
}

/// Fails from 11 on, in every other trial.
const FROM_11: &str = "[ {variant} -lt 11 ] || [ $((PROVOKE_TRIAL % 2)) = 0 ]";

#[test]
fn a_command_that_is_the_same_for_every_candidate_causes_a_warning() {
    let sandbox = Sandbox::new();
    let search = ["bisect", "--range", "0..4", "--reproduce-limit", "2", "--"];
    let output = sandbox.provoke(&[&search[..], &["true", "{}"]].concat());
    let warning =
        "the command does not contain `{variant}`, so all candidates run the same command";
    assert!(output.stderr.contains(warning), "{output}");
    let output = sandbox.provoke(&[&search[..], &["true", "{variant}"]].concat());
    assert!(!output.stderr.contains("the same command"), "{output}");
}

fn summarize((report, output): &(Value, CommandOutput)) -> (Value, Value, i32) {
    let answer = &report["answer"]["bisect"];
    let culprits = answer["culprits"].clone();
    (report["verdict"].clone(), culprits, output.code.unwrap())
}

#[test]
fn the_answer_states_the_rate_that_earlier_versions_may_have() {
    let sandbox = Sandbox::new();
    let args = [
        "--range",
        "0..16",
        "--seed",
        "1",
        "--shell",
        "[ {variant} -lt 11 ]",
    ];
    let (report, output) = sandbox.bisect(&args);
    let answer = &report["answer"]["bisect"];
    assert_eq!(answer["culprits"], json!(["11"]), "{output}");
    let bound = answer["earlier_rate_bound"].as_f64().unwrap();
    assert!((0.2..=0.5).contains(&bound), "{answer}");
    let percent = format!("earlier ones fail in at most {} %", (bound * 100.0).ceil());
    assert!(output.stdout.contains(&percent), "{percent}: {output}");
}

#[test]
fn the_answer_says_that_the_version_before_fails_in_another_way() {
    let sandbox = Sandbox::new();
    let other = "[ {variant} -lt 11 ] || exit 3; [ {variant} -lt 5 ] || [ $((PROVOKE_TRIAL % 2)) = 0 ] || exit 4";
    let args = ["--range", "0..16", "--seed", "1", "--shell", other];
    let (report, output) = sandbox.bisect(&args);
    let answer = &report["answer"]["bisect"];
    assert_eq!(answer["culprits"], json!(["11"]), "{output}");
    let text = "10 before it failed in another way in ";
    assert!(output.stdout.contains(text), "{output}");
    assert!(output.stdout.contains(": exit 4"), "{output}");
}

#[test]
fn the_first_failing_candidate_is_found_with_any_number_of_jobs() {
    for jobs in ["1", "3"] {
        let sandbox = Sandbox::new();
        let args = [
            "--range", "0..16", "-j", jobs, "--seed", "1", "--shell", FROM_11,
        ];
        let result = sandbox.bisect(&args);
        assert_eq!(
            summarize(&result),
            (json!("found"), json!(["11"]), 0),
            "{}",
            result.1
        );
        let answer = &result.0["answer"]["bisect"];
        assert!(answer["probability"].as_f64() >= Some(0.95), "{answer}");
        let local = &answer["local"];
        assert_eq!(
            (&local["culprit"], &local["before"]),
            (&json!("11"), &json!("10"))
        );
        assert!(
            result.1.stdout.contains("11 is the first bad version"),
            "{}",
            result.1
        );
        // Only a fraction of the candidates was tried.
        let tried = answer["points"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|point| point["trials"] != 0)
            .count();
        assert!(tried < 14, "{tried}");
    }
}

#[test]
fn markdown_begins_with_the_answer_and_lists_candidates_in_their_order() {
    let sandbox = Sandbox::new();
    let args = ["--range", "0..16", "--seed", "1", "--shell", FROM_11];
    let result = sandbox.bisect(&args);
    assert_eq!(summarize(&result).2, 0, "{}", result.1);
    let page = sandbox.provoke(&["report", "last", "--md"]).stdout;
    let place = |text: &str| {
        page.find(text)
            .unwrap_or_else(|| panic!("no {text}: {page}"))
    };
    let places = [
        "11 is the first bad",
        "\n- `0`: ",
        "\n- `10`: ",
        "\n- `11`: ",
        "\n- `16`: ",
    ]
    .map(place);
    assert!(places.is_sorted(), "{page}");
    // The last candidate failed as often.
    assert!(page.contains("failed trials of `11`: "), "{page}");
    let commands = page.split("### Reproduce").nth(1).unwrap();
    let [culprit, last] =
        ["[ 11 -lt 11 ]", "[ 16 -lt 11 ]"].map(|text| commands.find(text).unwrap());
    assert!(culprit < last, "{page}");
}

#[test]
fn each_candidate_of_a_list_is_set_up_once_at_its_first_trial() {
    let sandbox = Sandbox::new();
    let setup = "echo {variant} >> made; [ {variant} != v6 ]";
    let line = "case {variant} in v7|v8|v9) exit 1;; esac";
    let args = [
        "--over",
        "v1,v2,v3,v4,v5,v6,v7,v8,v9",
        "--seed",
        "1",
        "--setup",
        setup,
        "--shell",
        line,
    ];
    let result = sandbox.bisect(&args);
    let made = sandbox.read("made");
    let mut places: Vec<&str> = made.lines().collect();
    places.sort_unstable();
    let each = places.len();
    places.dedup();
    assert_eq!(places.len(), each, "made twice: {made}");
    assert!(each < 9, "{made}");
    // The candidate that cannot be built may be the culprit as well.
    let (verdict, culprits, code) = summarize(&result);
    assert_eq!((verdict, code), (json!("found"), 0), "{}", result.1);
    assert_eq!(culprits, json!(["v6", "v7"]), "{}", result.1);
    assert!(
        result
            .1
            .stdout
            .contains("those between them are not testable"),
        "{}",
        result.1
    );
}

#[test]
fn a_search_ends_if_the_bad_end_does_not_fail() {
    let sandbox = Sandbox::new();
    let args = ["--range", "1..9", "--reproduce-limit", "40", "--", "true"];
    let result = sandbox.bisect(&args);
    assert_eq!(
        summarize(&result),
        (json!("not_there"), json!([]), 1),
        "{}",
        result.1
    );
    let wanted = "9, the bad end, did not fail in 40 trials: its failure rate is below 8.9 %";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn a_search_ends_if_the_bad_end_rarely_fails() {
    let sandbox = Sandbox::new();
    let twice = "[ {variant} != 8 ] || [ $PROVOKE_TRIAL -gt 2 ]";
    let args = [
        "--range",
        "1..8",
        "--reproduce-limit",
        "30",
        "--shell",
        twice,
    ];
    let result = sandbox.bisect(&args);
    assert_eq!(
        summarize(&result),
        (json!("not_there"), json!([]), 1),
        "{}",
        result.1
    );
    let sentence = &result.0["answer"]["bisect"]["sentence"];
    assert_eq!(
        sentence,
        "8, the bad end, failed in only 2 of 30 trials, too rarely to search, and no version tested between them failed more often; try --raise-rate, --held with a hold that `hunt` found or --reproduce-limit 90"
    );
    assert_eq!(result.0["answer"]["bisect"]["contradiction"], Value::Null);
}

#[test]
fn versions_between_are_tested_if_the_bad_end_rarely_fails() {
    let sandbox = Sandbox::new();
    let line = "case {variant} in 3|4|5) false ;; 8) [ $PROVOKE_TRIAL != 2 ] ;; esac";
    let args = [
        "--range",
        "1..8",
        "--reproduce-limit",
        "30",
        "--seed",
        "1",
        "--capture",
        "off",
        "--shell",
        line,
    ];
    let (report, output) = sandbox.bisect(&args);
    let wanted = "8, the bad end, failed in only 1 of 30 trials, too rarely to search; but 4 failed more often (2 of 2): the bug comes and goes";
    assert!(output.stdout.contains(wanted), "{output}");
    assert_eq!(boundaries(&report), [(2, true), (5, false)], "{output}");
}

#[test]
fn a_program_in_the_output_of_cargo_needs_the_build_of_its_profile() {
    needs!(program("git"));
    let sandbox = Sandbox::new();
    history(&sandbox);
    sandbox.write("repo/Cargo.toml", "");
    let program = "./target/release/app";
    let search = |more: &[&str]| {
        let range = ["bisect", "--cwd", "repo", "--git", "v1..main", "-n", "1"];
        sandbox.provoke(&[&range, more, &["--", program]].concat())
    };
    let output = search(&[]);
    let wanted = "hint: build it in each commit: --build 'cargo build --release'";
    assert!(output.stderr.contains(wanted), "{output}");
    let output = search(&["--build", "cargo build"]);
    let wanted = "`cargo build` does not create the program of the command; --build 'cargo build --release' does";
    assert!(output.stderr.contains(wanted), "{output}");
}

#[test]
fn a_candidate_that_only_fails_in_another_way_is_untestable() {
    let sandbox = Sandbox::new();
    let line = "if [ {variant} -ge 9 ]; then exit 3; else exit 1; fi";
    let args = [
        "--range", "1..16", "--only", "code:3", "--seed", "1", "--shell", line,
    ];
    let result = sandbox.bisect(&args);
    let points = result.0["answer"]["bisect"]["points"].as_array().unwrap();
    let left_out = |point: &&Value| point["untestable"] == "it fails in another way: exit 1";
    assert!(points.iter().filter(left_out).count() > 0, "{}", result.1);
}

#[test]
fn candidates_are_read_from_a_file() {
    let sandbox = Sandbox::new();
    sandbox.write("list", "# oldest first\n1.9\n1.10\n\n2.0\n2.1\n");
    let line = "case {variant} in 2.*) exit 1;; esac";
    let result = sandbox.bisect(&["--over", "@list", "--seed", "1", "--shell", line]);
    assert_eq!(
        summarize(&result),
        (json!("found"), json!(["2.0"]), 0),
        "{}",
        result.1
    );
}

#[test]
fn candidates_between_the_ends_are_tried_if_the_ends_agree() {
    let sandbox = Sandbox::new();
    let inside = "[ {variant} -lt 6 ] || [ {variant} -gt 11 ] || exit 3";
    let limit = ["--range", "0..16", "--reproduce-limit", "40"];
    let result = sandbox.bisect(&[&limit[..], &["--shell", inside]].concat());
    // The resumed search continues to the same answer.
    assert_eq!(
        summarize(&result),
        (json!("found"), json!(["11"]), 0),
        "{}",
        result.1
    );
    let wanted = "but 8 did (1 of 1): the bug comes and goes";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    // If both ends fail, a passing candidate between them is reported.
    let outside = "[ {variant} -ge 6 ] && [ {variant} -le 11 ] || exit 3";
    let result = sandbox.bisect(&[&limit[..], &["--seed", "1", "--shell", outside]].concat());
    assert!(
        result.1.stdout.contains("the bug may come and go"),
        "{}",
        result.1
    );
}

#[test]
fn a_candidate_that_failed_rarely_is_not_called_good() {
    let sandbox = Sandbox::new();
    let args = ["--range", "0..16", "--seed", "1", "--log", "log"];
    let all = |log: &str| {
        sandbox.write("log", &format!("good 5 0/30\nbad 6 30/30\n{log}\n"));
        sandbox.bisect(&[&args[..], &["--shell", "[ {variant} -lt 6 ] || exit 3"]].concat())
    };
    let rare = all("bad 11 3/60");
    assert_eq!(
        summarize(&rare),
        (json!("found"), json!(["6"]), 0),
        "{}",
        rare.1
    );
    let wanted = "; but 11 (3 of 60), which is later, fails more rarely than 6 (30 of 30): bad versions may fail at different rates";
    assert!(rare.1.stdout.contains(wanted), "{}", rare.1);
    assert!(!rare.1.stdout.contains("looks bad"), "{}", rare.1);
    let never = all("good 11 0/60");
    let wanted = "; but 6 (30 of 30) looks bad, and 11 (0 of 60), which is later, good: the bug may come and go";
    assert!(never.1.stdout.contains(wanted), "{}", never.1);
}

#[test]
fn a_good_end_that_fails_is_reported() {
    let sandbox = Sandbox::new();
    let result = sandbox.bisect(&["--range", "1..9", "--seed", "2", "--", "false"]);
    assert_eq!(
        summarize(&result),
        (json!("not_there"), json!([]), 1),
        "{}",
        result.1
    );
    let wanted = "1, the good end, fails as 9 does: start earlier";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn an_interrupted_search_is_resumed_to_the_same_answer() {
    let sandbox = Sandbox::new();
    let wait = "echo $PROVOKE_TRIAL >> ran; [ $PROVOKE_TRIAL != 9 ] || while [ ! -e go ]; do sleep 0.01; done; ";
    let line = format!("{wait}{FROM_11}");
    // Otherwise the durations of failures, which vary, would be evidence as well.
    let any = "--any-failure";
    let args = ["--range", "0..16", "--seed", "1", any, "--shell", &line];
    let running = sandbox.start(&[&["bisect", "-o", "cut"], &args[..]].concat());
    wait_until("#9 runs", || sandbox.read("ran").contains("9\n"));
    running.signal(Signal::INT);
    assert_eq!(running.end().code, Some(130));
    sandbox.write("go", "");
    sandbox.provoke(&words(
        "resume cut --progress=none --export-json resumed.json",
    ));
    let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
    let (whole, _) = sandbox.bisect(&args);
    assert_eq!(resumed["answer"], whole["answer"]);
    assert_eq!(whole["verdict"], "found");
}

#[test]
fn a_killed_search_of_a_list_is_resumed_to_the_same_answer() {
    let sandbox = Sandbox::new();
    let list = "v01,v02,v03,v04,v05,v06,v07,v08,v09,v10,v11,v12";
    let fails = "case {variant} in v09|v1?) [ $((PROVOKE_TRIAL % 3)) = 0 ];; esac";
    let line =
        format!("[ $PROVOKE_TRIAL -lt 13 ] || until [ -e go ]; do sleep 0.01; done; {fails}");
    let any = "--any-failure";
    let args = ["--over", list, "--seed", "1", any, "--shell", &line];
    let cut = sandbox.command(&[&["bisect", "-o", "cut"], &args[..]].concat());
    sandbox.kill_after(12, "cut", cut);
    sandbox.write("go", "");
    let resume = words("resume cut --progress=none --export-json resumed.json");
    let output = sandbox.provoke(&resume);
    let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
    let whole = sandbox.bisect(&args);
    assert_eq!(
        summarize(&whole),
        (json!("found"), json!(["v09"]), 0),
        "{}",
        whole.1
    );
    assert_eq!(resumed["answer"], whole.0["answer"], "{output}");
    assert_eq!(output.answer(), whole.1.answer());
}

/// From 11 on, a copy that finds another copy of its trial fails; alone it fails in the fifth trial. It mostly sleeps,
/// so that copies take no longer.
const COLLIDES: &str = "[ {variant} -lt 11 ] || { sleep 0.1; mkdir seen-$PROVOKE_TRIAL 2> /dev/null && [ $PROVOKE_TRIAL != 5 ]; } || exit 3";

#[test]
fn a_search_runs_with_a_setting_that_raises_the_rate() {
    let sandbox = Sandbox::new();
    let args = [
        "--range",
        "0..16",
        "--seed",
        "1",
        "--raise-rate",
        "--shell",
        COLLIDES,
    ];
    let result = sandbox.bisect(&args);
    assert_eq!(
        summarize(&result),
        (json!("found"), json!(["11"]), 0),
        "{}",
        result.1
    );
    let raised = &result.0["answer"]["bisect"]["raised"];
    let setting = raised["setting"].as_str().unwrap();
    assert!(setting.starts_with("--copies "), "{raised}");
    assert!(
        raised["as_planned"]["trials"].as_u64() >= Some(12),
        "{raised}"
    );
    let used: Vec<&Value> = raised["settings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["setting"] == setting)
        .collect();
    assert_eq!(used[0]["failures"], used[0]["trials"], "{raised}");
    let wanted = format!("searched with {setting}, which fails more often:");
    assert!(result.1.stdout.contains(&wanted), "{}", result.1);
    // Each version ran with this number of copies.
    let journal = sandbox.read("provoke-out/last/events.jsonl");
    let chosen = journal
        .lines()
        .position(|line| line.contains("setting_chosen"));
    let copies: usize = setting["--copies ".len()..].parse().unwrap();
    let later = journal
        .lines()
        .skip(chosen.unwrap())
        .filter(|line| line.contains("trial_finished"));
    for line in later {
        let event: Value = serde_json::from_str(line).unwrap();
        let actors = event["trial_finished"]["seen"]["actors"].as_array();
        assert_eq!(actors.map(Vec::len), Some(copies), "{line}");
    }
    // A replay of a trial under a setting uses the setting.
    let first = journal
        .lines()
        .find(|line| line.contains("trial_finished") && line.matches(r#""exited":3"#).count() > 1);
    let first: Value = serde_json::from_str(first.unwrap()).unwrap();
    let trial = first["trial_finished"]["trial"].as_u64().unwrap();
    std::fs::remove_dir(sandbox.path(&format!("seen-{trial}"))).unwrap();
    let replayed = sandbox.provoke(&["replay", &format!("last#{trial}")]);
    assert!(replayed.stdout.contains("exit 3"), "{replayed}");
}

#[test]
fn a_search_killed_while_it_tries_settings_is_resumed() {
    let sandbox = Sandbox::new();
    let wait = "[ $PROVOKE_TRIAL -lt 15 ] || until [ -e go ]; do sleep 0.01; done; ";
    let line = format!("{wait}{COLLIDES}");
    let args = [
        "--range",
        "0..16",
        "--seed",
        "1",
        "--raise-rate",
        "--shell",
        &line,
    ];
    let cut = sandbox.command(&[&["bisect", "-o", "cut"], &args[..]].concat());
    sandbox.kill_after(14, "cut", cut);
    sandbox.write("go", "");
    let output = sandbox.provoke(&words(
        "resume cut --progress=none --export-json resumed.json",
    ));
    let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
    let answer = &resumed["answer"]["bisect"];
    assert_eq!(answer["culprits"], json!(["11"]), "{output}");
    let setting = answer["raised"]["setting"].as_str();
    assert!(
        setting.is_some_and(|setting| setting.starts_with("--copies ")),
        "{output}"
    );
    // A following search runs under the same setting, and `confirm` knows the conditions.
    assert_eq!(resumed["jobs"], 1);
}

/// Creates a history of 70 commits: from 43 on every third trial fails, and 51 cannot be built.
fn history(sandbox: &Sandbox) {
    let script = r#"
        set -e
        mkdir repo; cd repo; git init -q -b main
        git config user.email a@example.org; git config user.name a
        echo 'exit 0' > t.sh; git add -A; git commit -qm begin; git tag v1
        for i in $(seq 1 70); do
            [ $i != 43 ] || echo '[ $((PROVOKE_TRIAL % 3)) != 0 ]' > t.sh
            [ $i != 51 ] || touch broken
            [ $i != 52 ] || rm broken
            echo $i > number; git add -A; git commit -qm "change $i"
        done
    "#;
    let mut git = std::process::Command::new("sh");
    let done = git.args(["-c", script]).current_dir(sandbox.path("."));
    assert!(done.status().unwrap().success());
}

#[test]
fn the_first_bad_commit_is_found_and_the_repository_is_unchanged() {
    needs!(program("git"));
    let sandbox = Sandbox::new();
    history(&sandbox);
    let args = [
        "--git",
        "v1..main",
        "--cwd",
        "repo",
        "--build",
        "[ ! -e broken ]",
        "--seed",
        "3",
    ];
    let args = [&args[..], &["--", "sh", "t.sh"]].concat();
    let result = sandbox.bisect(&args);
    assert_eq!(
        (&result.0["verdict"], result.1.code),
        (&json!("found"), Some(0)),
        "{}",
        result.1
    );
    assert!(
        result
            .1
            .stdout
            .contains(r#""change 43" is the first bad commit"#),
        "{}",
        result.1
    );
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        let done = git.args(args).current_dir(sandbox.path("repo")).output();
        String::from_utf8(done.unwrap().stdout).unwrap()
    };
    assert_eq!(git(&["status", "--short"]), "");
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&["branch", "--show-current"]), "main\n");
    // The same in a git hook, for which git has set its variables.
    let asked = [&["bisect", "--progress=none"], &args[..]].concat();
    let mut hook = sandbox.command(&asked);
    hook.env("GIT_DIR", sandbox.path("repo/.git"))
        .env("GIT_INDEX_FILE", ".git/index");
    assert!(hook.output().unwrap().status.success());
    assert_eq!(git(&["worktree", "list"]).lines().count(), 1);

    // Killed at any moment, it resumes to the same answer.
    let slow = "[ $PROVOKE_TRIAL -lt 20 ] || [ -e ../../../go ] || sleep 100; sh t.sh";
    let args: Vec<&str> = args
        .iter()
        .take(8)
        .copied()
        .chain(["--shell", slow])
        .collect();
    let running = sandbox.start(&[&["bisect", "-o", "cut"], &args[..]].concat());
    let journal = || std::fs::read_to_string(sandbox.path("cut/events.jsonl"));
    wait_until("#20 runs", || {
        journal().is_ok_and(|text| text.contains(r#""trial_started":{"id":20,"#))
    });
    running.signal(Signal::KILL);
    running.end();
    sandbox.write("go", "");
    sandbox.provoke(&words(
        "resume cut --progress=none --export-json resumed.json",
    ));
    let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
    let culprits = &result.0["answer"]["bisect"]["culprits"];
    assert_eq!(&resumed["answer"]["bisect"]["culprits"], culprits);
}

#[test]
fn an_invalid_range_of_commits_is_refused_with_a_hint() {
    needs!(program("git"));
    let sandbox = Sandbox::new();
    history(&sandbox);
    let output_of = |range: &str| {
        sandbox.provoke(&[
            "bisect", "--cwd", "repo", "--git", range, "--", "sh", "t.sh",
        ])
    };
    insta::assert_snapshot!(output_of("v1"), @"
    ------- stderr -------
    error: `v1` is not a range of commits

    hint: write GOOD..BAD, such as v1.2..main
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of("v2..main"), @"
    ------- stderr -------
    error: there is no commit `v2`

    hint: `git log --oneline` lists the commits
    [exit status: Some(2)]
    ");
    let of_command = |command: &[&str]| {
        let range = ["bisect", "--cwd", "repo", "--git", "v1..main", "--"];
        sandbox.provoke(&[&range, command].concat())
    };
    sandbox.write("repo/Makefile", "");
    sandbox.write("repo/new.sh", "exit 0");
    insta::assert_snapshot!(of_command(&["./program", "-x"]), @"
    ------- stderr -------
    error: the commits do not contain the program `./program`

    hint: build it in each commit: --build make
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(of_command(&["sh", "new.sh"]), @"
    ------- stderr -------
    error: the commits do not contain the script `new.sh`

    hint: put it outside of the repository, and give its absolute path
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of("main..v1"), @"
    ------- stderr -------
    error: `main` is not an ancestor of `v1`

    hint: put the good commit first; `git merge-base GOOD BAD` finds a common ancestor
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of("main..main"), @"
    ------- stderr -------
    error: there are no commits between `main` and `main`

    hint: put the good commit first
    [exit status: Some(2)]
    ");
}

#[test]
fn an_invalid_search_is_refused_with_a_hint() {
    let output_of = |args: &[&str]| {
        let all = [&["bisect"], args, &["--", "true"]].concat();
        Sandbox::new().provoke(&all)
    };
    insta::assert_snapshot!(output_of(&[]), @"
    ------- stderr -------
    error: there are no candidates to search

    hint: name the candidates: --git v1.0..main --build make, --pip PACKAGE, or --over v1,v2,v3 or --range 1..64, which replace {variant} in the command
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--over", "a"]), @"
    ------- stderr -------
    error: a search needs at least two candidates

    hint: list the good end first and the bad end last
    [exit status: Some(2)]
    ");
    assert!(
        output_of(&["--over", "a,b,"])
            .stderr
            .contains("a candidate has no name")
    );
    insta::assert_snapshot!(output_of(&["--over", "a,b,a"]), @"
    ------- stderr -------
    error: the candidate `a` is listed twice

    hint: list each candidate once
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--over", "a,b", "--range", "1..2"]), @"
    ------- stderr -------
    error: `over` and `range` are both given

    hint: search one at a time
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--range", "9..1"]), @"
    ------- stderr -------
    error: invalid value '9..1' for '--range <A..B>': 9 is not below 1: write the smaller number first

    hint: `provoke bisect --help` describes the arguments
    [exit status: Some(2)]
    ");
    assert!(
        output_of(&["--over", "a,b", "--first-parent"])
            .stderr
            .contains("`first-parent` does not apply to `over`")
    );
    insta::assert_snapshot!(output_of(&["--over", "a,b", "-L", "x=1,2"]), @"
    ------- stderr -------
    error: a search makes its own variants

    hint: leave the variants out, or use `provoke compare`
    [exit status: Some(2)]
    ");
}

#[test]
fn both_boundaries_of_a_bug_that_comes_and_goes_are_found() {
    let sandbox = Sandbox::new();
    let line = "[ {variant} -lt 20 ] || [ {variant} -gt 50 ]";
    let args = [
        "--range",
        "0..63",
        "--seed",
        "1",
        "--capture",
        "off",
        "--shell",
        line,
    ];
    let (report, output) = sandbox.bisect(&args);
    assert_eq!(output.code, Some(0), "{output}");
    let answer = &report["answer"]["bisect"];
    let boundaries = json!([
        { "place": 20, "fails": ["20"], "passes": "19", "begins": true },
        { "place": 51, "fails": ["50"], "passes": "51", "begins": false },
    ]);
    assert_eq!(answer["boundaries"], boundaries, "{output}");
    assert_eq!(
        (&answer["culprits"], &answer["after_fix"]),
        (&json!(["50"]), &json!("51"))
    );
    assert!(output.stdout.contains("the bug comes and goes"), "{output}");
    assert!(
        output.stdout.contains("20 is the first bad version"),
        "{output}"
    );
    assert!(
        output
            .stdout
            .contains("50 is the last bad version, 51 the first good one"),
        "{output}"
    );
    let rate = "every version up to the last bad one fails at the same rate";
    assert!(output.stdout.contains(rate), "{output}");
}

/// Returns the positions of the boundaries, and whether the failures begin there.
fn boundaries(report: &Value) -> Vec<(u64, bool)> {
    let boundaries = report["answer"]["bisect"]["boundaries"]
        .as_array()
        .unwrap()
        .iter();
    let each = boundaries.map(|one| (one["place"].as_u64(), one["begins"].as_bool()));
    each.map(|(place, begins)| (place.unwrap(), begins.unwrap()))
        .collect()
}

#[test]
fn both_boundaries_are_found_if_both_ends_fail() {
    let sandbox = Sandbox::new();
    let line = "[ {variant} -ge 20 ] && [ {variant} -le 50 ]";
    let args = words("--range 0..63 --seed 1 --capture off --log log");
    // Like a search that happens to try the good end first.
    sandbox.write("log", "bad 0 10/10\n");
    let (report, output) = sandbox.bisect(&[&args[..], &["--shell", line]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(boundaries(&report), [(20, false), (51, true)], "{output}");
    assert!(output.stdout.contains("the bug comes and goes"), "{output}");
}

#[test]
fn all_boundaries_are_found_with_the_flag_all() {
    let sandbox = Sandbox::new();
    // Good, bad, good and bad again.
    let line = "case {variant} in 1[0-9]|2[0-4]|4?|5?|6?) false ;; esac";
    let args = words("--range 0..63 --seed 1 --capture off --all");
    let (report, output) = sandbox.bisect(&[&args[..], &["--shell", line]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    let all = [(10, true), (25, false), (40, true)];
    assert_eq!(boundaries(&report), all, "{output}");
    // The bad end of a following search was tested by an earlier one.
    let wanted = "63 failed in 3 of 3 trials of 1 earlier run: counted";
    assert!(output.stdout.contains(wanted), "{output}");
}

#[test]
fn a_search_that_stops_at_its_limit_says_how_to_continue() {
    let sandbox = Sandbox::new();
    let args = words("--range 0..63 --seed 1 --capture off -n 20");
    let line = "[ {variant} -lt 20 ] || [ $((PROVOKE_TRIAL % 3)) != 0 ]";
    let (report, output) = sandbox.bisect(&[&args[..], &["--shell", line]].concat());
    assert_eq!(output.code, Some(3), "{output}");
    assert_eq!(report["answer"]["bisect"]["limit"], 20, "{output}");
    let wanted =
        "stopped at the limit of 20 trials: -n allows more, and --log continues from these results";
    assert!(output.stdout.contains(wanted), "{output}");
}

#[test]
fn a_log_of_a_longer_list_is_used_for_a_part_of_the_list() {
    let sandbox = Sandbox::new();
    sandbox.write("log", "good 1 0/20\nbad 40 10/10\ngood 63 0/20\n");
    let line = "[ {variant} -lt 20 ]";
    let args = [
        "--range",
        "1..40",
        "--log",
        "log",
        "--capture",
        "off",
        "--shell",
        line,
    ];
    let (_, output) = sandbox.bisect(&args);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(
        output.stderr.contains("/log`, which name no candidate: 63"),
        "{output}"
    );
    sandbox.write("log", "good 70 0/20\n");
    let output = sandbox.provoke(&[&["bisect"], &args[..]].concat());
    assert!(
        output
            .stderr
            .contains("names `70`, which is not a candidate"),
        "{output}"
    );
}

#[test]
fn failures_of_another_kind_are_in_the_table() {
    let sandbox = Sandbox::new();
    let line = "[ {variant} -ge 6 ] && exit 3; [ {variant} != 4 ] || exit 4";
    let args = words("--range 0..8 --seed 1 --only code:3 --capture off");
    let (report, output) = sandbox.bisect(&[&args[..], &["--shell", line]].concat());
    let points = report["answer"]["bisect"]["points"].as_array().unwrap();
    let other = points.iter().find(|point| point["name"] == "4").unwrap();
    assert!(other["other"].as_u64().unwrap() > 0, "{output}");
    assert!(output.stdout.contains(" in another way"), "{output}");
    assert!(
        output
            .stdout
            .contains("in another way, such as exit 4: not counted"),
        "{output}"
    );
}

#[test]
fn the_first_failing_trial_of_a_search_names_its_variant() {
    let sandbox = Sandbox::new();
    let args = ["bisect", "--range", "0..8", "--capture", "off", "-n", "2"];
    let output = sandbox.provoke(&[&args[..], &["--shell", "[ {variant} -lt 4 ]"]].concat());
    let first = output
        .stderr
        .lines()
        .find(|line| line.trim().starts_with("#1 "));
    assert!(
        first.is_some_and(|line| line.contains("8  exit 1")),
        "{output}"
    );
}

#[test]
fn the_probability_of_the_answer_is_the_sum_of_the_table() {
    let sandbox = Sandbox::new();
    // The good end is not testable.
    let line =
        "[ {variant} != 0 ] || exit 125; [ $((PROVOKE_SEED % 2)) = 0 ] || [ {variant} -lt 1 ]";
    let args = words("--range 0..4 --seed 1 --any-failure --capture off");
    let (report, output) = sandbox.bisect(&[&args[..], &["--shell", line]].concat());
    let answer = &report["answer"]["bisect"];
    let culprits = answer["culprits"].as_array().unwrap();
    assert!(!culprits.is_empty(), "{output}");
    let points = answer["points"].as_array().unwrap().iter();
    let named = points.filter(|point| culprits.contains(&point["name"]));
    let sum: f64 = named
        .map(|point| point["probability"].as_f64().unwrap())
        .sum();
    let probability = answer["probability"].as_f64().unwrap();
    assert!(
        (sum - probability).abs() < 1e-9,
        "{sum} {probability} {output}"
    );
}
