//! Tests searches whose variants are prepared first: commits, and environments of packages.

use super::support::{
    CommandOutput, Running, Sandbox, processes_with, unique_linger, wait_until, words,
};
use crate::needs::{needs, program, python};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const FLAGS: [&str; 4] = ["--seed", "1", "--capture", "off"];

/// A sandbox with a git repository.
struct Repository(Sandbox);

impl Repository {
    /// Creates a history of 12 commits after the tag v1. The seventh introduces a failure in every other trial of a
    /// commit. Commit N contains N in the file `number`.
    fn new() -> Self {
        let repository = Self(Sandbox::new());
        repository.sh(r#"
            git init -q -b main repo; cd repo
            git config user.email a@example.org; git config user.name a
            echo 'exit 0' > t.sh; echo 0 > number; git add -A; git commit -qm begin; git tag v1
            for i in $(seq 1 12); do
                [ $i != 7 ] || echo 'echo >> n; [ $(($(wc -l < n) % 2)) = 0 ]' > t.sh
                echo $i > number; git add -A; git commit -qm "change $i"
            done
        "#);
        repository
    }

    fn sh(&self, script: &str) -> String {
        let mut sh = self.0.program_command("sh", &["-ec", script]);
        let done = sh.output().unwrap();
        let output = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{output}");
        String::from_utf8(done.stdout).unwrap()
    }

    fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let range: &[&str] = if more.contains(&"--git") {
            &[]
        } else {
            &["--git", "v1..main"]
        };
        let cwd: &[&str] = if more.contains(&"--cwd") {
            &[]
        } else {
            &["--cwd", "repo"]
        };
        let mut all = [&FLAGS, range, cwd, more].concat();
        if !more.contains(&"--") {
            all.extend(["--", "sh", "t.sh"]);
        }
        all
    }

    fn bisect(&self, more: &[&str]) -> (Value, CommandOutput) {
        self.0.run_with_report("bisect", &Self::args(more))
    }

    fn start(&self, more: &[&str]) -> Running {
        let all = [&["bisect", "-o", "cut"], &Self::args(more)[..]].concat();
        self.0.start(&all)
    }

    fn resume(&self) -> (Value, CommandOutput) {
        let output = (self.0).provoke(&words(
            "resume cut --progress=none --export-json resumed.json",
        ));
        let report = serde_json::from_str(&self.0.read("resumed.json"));
        (
            report.unwrap_or_else(|error| panic!("{error}: {output}")),
            output,
        )
    }

    fn here(&self) -> String {
        self.0.path("").display().to_string()
    }

    /// Returns the directories of the variants of a run.
    fn folders(&self, run: &str) -> BTreeSet<String> {
        folders(&self.0.path(run).join("variants"))
    }
}

fn folders(path: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path).unwrap().flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the verdict, the culprits, and the exit code; for commits, their subjects.
fn summarize((report, output): &(Value, CommandOutput)) -> (Value, Vec<String>, i32) {
    let culprits = report["answer"]["bisect"]["culprits"].as_array();
    let points = report["answer"]["bisect"]["points"].as_array().unwrap();
    let about = |name: &Value| {
        let point = points.iter().find(|point| &point["name"] == name).unwrap();
        let about = point["about"].as_str().or(point["name"].as_str());
        about.unwrap().to_owned()
    };
    let culprits = culprits.into_iter().flatten().map(about).collect();
    (report["verdict"].clone(), culprits, output.code.unwrap())
}

fn found(culprits: &[&str]) -> (Value, Vec<String>, i32) {
    let culprits = culprits.iter().map(ToString::to_string).collect();
    (json!("found"), culprits, 0)
}

#[test]
fn a_finished_search_keeps_the_directories_of_the_culprit_and_its_parent() {
    needs!(program("git"));
    let repository = Repository::new();
    let build = "[ ! -e built ] || exit 1; touch built";
    let result = repository.bisect(&[
        "--build",
        build,
        "--",
        "sh",
        "-c",
        "[ -e built ] && sh t.sh",
    ]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);
    let kept = ["6", "7", "repository"].map(str::to_owned);
    let run = "provoke-out/last";
    assert_eq!(repository.folders(run), kept.into());
    // The first trial ran the bad end, which is prepared again for the replay.
    let output = repository.0.provoke(&["replay", "last#1"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(repository.folders(run).contains("12"));
    std::fs::remove_dir_all(repository.0.path("provoke-out/last/variants/12")).unwrap();
    let output = repository.0.provoke(&["replay", "last#1", "--wrap", "env"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(repository.folders(run).contains("12"));
}

#[test]
fn commits_that_build_identical_files_are_one_candidate() {
    needs!(program("git"));
    let repository = Repository::new();
    // Only the seventh commit changes the build result.
    let build = ["--build", "cp t.sh built.sh"];
    let command = ["--", "sh", "built.sh"];
    let every_build = repository.bisect(&[&build[..], &command].concat());
    let artifact = ["--artifact", "built.sh"];
    let by_artifact = repository.bisect(&[&build[..], &artifact, &command].concat());
    assert_eq!(
        summarize(&every_build),
        found(&["change 7"]),
        "{}",
        every_build.1
    );
    assert_eq!(
        summarize(&by_artifact),
        found(&["change 7"]),
        "{}",
        by_artifact.1
    );
    let answer = |result: &(Value, CommandOutput)| result.0["answer"]["bisect"].clone();
    assert_eq!(answer(&every_build)["identical_builds"], json!(0));
    let identical = answer(&by_artifact)["identical_builds"].as_u64().unwrap();
    assert!(identical >= 2, "{}", by_artifact.1);
    assert!(
        by_artifact.1.stdout.contains("identical to an earlier one"),
        "{}",
        by_artifact.1
    );

    let no_artifact = repository.bisect(&[&build[..], &["--artifact", "gone"], &command].concat());
    assert_eq!(
        no_artifact.0["verdict"],
        json!("could_not_test"),
        "{}",
        no_artifact.1
    );
    assert!(
        no_artifact
            .1
            .to_string()
            .contains("the build did not create"),
        "{}",
        no_artifact.1
    );
}

#[test]
fn a_hanging_build_ends_at_the_time_limit_of_the_search() {
    needs!(program("git"));
    let repository = Repository::new();
    let word = unique_linger();
    let build = format!("sh -c 'sleep 600; :' {word}");
    let (report, output) = repository.bisect(&["-d", "1s", "--build", &build]);
    assert_eq!(output.code, Some(125), "{output}");
    assert_eq!(report["answer"]["bisect"]["culprits"], json!([]));
    let wanted = "NOT TESTED: preparing ";
    assert!(output.stdout.contains(wanted), "{output}");
    assert_eq!(processes_with(&word), Vec::<i32>::new());
}

#[test]
fn a_commit_whose_build_exceeds_the_build_limit_is_untestable() {
    needs!(program("git"));
    let repository = Repository::new();
    let word = unique_linger();
    let build = format!("[ $(cat number) != 7 ] || sh -c 'sleep 600; :' {word}");
    let line = ["--", "sh", "-c", "sleep 0.03; sh t.sh"];
    let args = ["--build-limit", "3s", "--build", &build];
    let result = repository.bisect(&[&args[..], &line].concat());
    assert_eq!(
        summarize(&result),
        found(&["change 7", "change 8"]),
        "{}",
        result.1
    );
    let wanted = "the build failed: it took more than 3 s";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    assert_eq!(processes_with(&word), Vec::<i32>::new());
}

#[test]
fn a_commit_whose_build_fails_is_reported_with_the_end_of_the_output() {
    needs!(program("git"));
    let repository = Repository::new();
    let build = "[ $(cat number) -lt 7 ] || { echo compiling; printf 'a.c:1: error: \\033[1mno b\\033[m\\nmake: Error 1\\n' >&2; exit 2; }";
    let output = repository.bisect(&["--build", build, "--", "sh", "t.sh"]).1;
    assert!(output.stdout.starts_with("NOT TESTED: "), "{output}");
    assert!(
        output
            .answer()
            .contains("the build failed: exit 2: make: Error 1"),
        "{output}"
    );
    let lines = "\n      compiling\n      a.c:1: error: no b\n      make: Error 1\n      output: ";
    assert!(output.stdout.contains(lines), "{output}");
    let (_, log) = output.stdout.split_once("      output: ").unwrap();
    let log = fs::read_to_string(log.lines().next().unwrap()).unwrap();
    assert!(log.ends_with("make: Error 1\n"), "{log}");
}

#[test]
fn a_killed_build_is_started_again_from_a_clean_directory() {
    needs!(program("git"));
    let repository = Repository::new();
    let (here, word) = (repository.here(), unique_linger());
    // The second build waits when half of it is done.
    let build = format!(
        "[ ! -e half ] || touch {here}/dirty; touch half; echo $(cat number) >> {here}/builds; [ $(wc -l < {here}/builds) != 2 ] || sh -c 'until [ -e {here}/go ]; do sleep 0.01; done' {word}; touch whole"
    );
    let line = ["--", "sh", "-c", "[ -e whole ] || exit 9; sh t.sh"];
    let args = [&["--build", &build], &line[..]].concat();
    let running = repository.start(&args);
    wait_until("the second is built", || !processes_with(&word).is_empty());
    running.signal(Signal::KILL);
    running.end();
    wait_until("its build is gone", || processes_with(&word).is_empty());
    repository.0.write("go", "");
    let resumed = repository.resume();
    assert_eq!(summarize(&resumed), found(&["change 7"]), "{}", resumed.1);
    assert!(!repository.0.path("dirty").exists());
    let builds = repository.0.read("builds");
    let builds: Vec<&str> = builds.lines().collect();
    let others: BTreeSet<&str> = builds[2..].iter().copied().collect();
    assert_eq!(others.len(), builds.len() - 2, "made twice: {builds:?}");
}

#[test]
fn a_work_tree_that_git_did_not_finish_is_created_again() {
    needs!(program("git"));
    let repository = Repository::new();
    let (_, output) = repository.bisect(&["-o", "cut", "-n", "1"]);
    assert_eq!(output.code, Some(3), "{output}");
    // If git is killed, it leaves work trees without their directories, and locked.
    repository.sh(r#"
        for number in $(seq 0 11); do
            [ ! -e cut/variants/$number.made ] || continue
            git -C cut/variants/repository worktree add -q --lock --detach "$PWD/cut/variants/$number" v1
            rm -r cut/variants/$number
        done
    "#);
    let resume = words("resume cut -n 500 --progress=none --export-json resumed.json");
    let output = repository.0.provoke(&resume);
    let report: Value = serde_json::from_str(&repository.0.read("resumed.json")).unwrap();
    let resumed = (report, output);
    assert_eq!(summarize(&resumed), found(&["change 7"]), "{}", resumed.1);
}

#[test]
fn the_allowed_number_of_builds_run_in_parallel() {
    needs!(program("git"));
    let repository = Repository::new();
    let (here, word) = (repository.here(), unique_linger());
    // The bad end is built alone. Of the others, no build ends before another one has begun.
    let build = format!(
        "touch {here}/begun.$(cat number); [ $(cat number) = 12 ] || sh -c 'until [ $(ls {here}/begun.* | wc -l) -ge 3 ]; do sleep 0.01; done' {word}"
    );
    let result = repository.bisect(&["--builds", "2", "--build", &build]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);
    assert_eq!(processes_with(&word), Vec::<i32>::new());
}

#[test]
fn running_builds_end_with_an_interrupted_or_killed_search() {
    needs!(program("git"));
    let repository = Repository::new();
    let word = unique_linger();
    let build = format!("[ $(cat number) = 12 ] || sh -c 'sleep 600; :' {word}");
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let running = repository.start(&["--builds", "3", "--build", &build]);
        wait_until("three are built", || processes_with(&word).len() == 3);
        running.signal(signal);
        assert_eq!(running.end().code, code);
        wait_until("they are gone", || processes_with(&word).is_empty());
        std::fs::remove_dir_all(repository.0.path("cut")).unwrap();
    }
}

#[test]
fn old_variant_directories_are_evicted_at_the_disk_limit() {
    needs!(program("git"));
    let repository = Repository::new();
    let here = repository.here();
    // Each build records the number of directories, its own included.
    let build = format!("ls -d ../*[0-9] | wc -l >> {here}/counts");
    let result = repository.bisect(&["--disk", "1", "--build", &build]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);
    let counts: Vec<u32> = repository
        .0
        .read("counts")
        .lines()
        .map(|count| count.trim().parse::<u32>().unwrap())
        .collect();
    // The directory in preparation, the last prepared one, and the one in use.
    assert!(
        counts.len() >= 3 && counts.iter().all(|count| *count <= 3),
        "{counts:?}"
    );
}

#[test]
fn a_merge_counts_as_one_commit_and_a_shallow_clone_can_be_searched() {
    needs!(program("git"));
    let repository = Repository::new();
    repository.sh(r#"
        cd repo
        git checkout -q -b side main~3; echo x > side; git add -A; git commit -qm aside
        git checkout -q main; git merge -q --no-edit side; git tag merged
        git clone -q --depth 11 "file://$PWD" ../shallow
    "#);
    let result = repository.bisect(&[]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);
    assert!(
        result
            .1
            .stderr
            .contains("note: a merge counts as one commit"),
        "{}",
        result.1
    );
    let plan = repository.0.events()[0]["run_started"]["plan"]["trials"]["space"].to_string();
    assert!(
        plan.contains("change 12") && !plan.contains("aside"),
        "{plan}"
    );

    let oldest = repository.sh("cd shallow; git log --first-parent --format=%h | tail -1");
    let range = format!("{}..main", oldest.trim());
    let result = repository.bisect(&["--cwd", "shallow", "--git", &range]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);
    let status = repository.sh("cd shallow; git status --short; git worktree list");
    assert_eq!(status.lines().count(), 1, "{status}");

    // A culprit that is a merge is found, and the search may stop there.
    repository.sh(r"
        cd repo
        git checkout -q -b bad v1; echo 'exit 1' > t.sh; git commit -qam worse
        git checkout -q -b line v1; echo x > y; git add -A; git commit -qm one; git merge -q --no-edit bad
        echo z > y; git commit -qam two
    ");
    let result = repository.bisect(&["--git", "v1..line", "--first-parent"]);
    assert_eq!(
        summarize(&result),
        found(&["Merge branch 'bad' into line"]),
        "{}",
        result.1
    );
    // The merged commits can be searched next, with the suggested command.
    let next = result.1.stderr.lines().find_map(|line| {
        let (_, merged) = line.split_once("to search the commits that it brought, use --git ")?;
        Some(merged.to_owned())
    });
    let result = repository.bisect(&["--git", &next.expect("a suggested range")]);
    assert_eq!(summarize(&result), found(&["worse"]), "{}", result.1);
}

/// Fails in every other trial of a commit.
const FAILS: &str = "echo >> n; [ $(($(wc -l < n) % 2)) = 0 ]";

/// Creates branches after v1, whose commits add a file each, and merges all into the first one.
fn merged(repository: &Repository, script: &str, branches: &[(&str, &str)]) {
    let commits = |(branch, files): &(&str, &str)| {
        format!(
            "git checkout -q -b {branch} start; for f in {files}; do echo > $f; git add -A; git commit -qm \"adds $f\"; done\n"
        )
    };
    let all: String = branches.iter().map(commits).collect();
    let names: Vec<&str> = branches.iter().map(|(branch, _)| *branch).collect();
    let (into, others) = (names[0], names[1..].join(" "));
    repository.sh(&format!(
        "cd repo; git checkout -q -b start v1; {script}; git add -A; git commit -qm start
        {all}git checkout -q {into}; git merge -q --no-edit {others}
        echo > after; git add -A; git commit -qm after"
    ));
}

#[test]
fn the_commits_of_a_bad_merge_are_searched_in_a_second_run() {
    needs!(program("git"));
    let repository = Repository::new();
    let script = format!("echo '[ ! -e s3 ] || {{ {FAILS}; }}' > t.sh");
    let branches = [("line", "l1 l2 l3"), ("side", "s1 s2 s3 s4 s5")];
    merged(&repository, &script, &branches);
    let result = repository.bisect(&["--git", "start..line"]);
    assert_eq!(summarize(&result), found(&["adds s3"]), "{}", result.1);
    let first = result
        .1
        .stdout
        .find(r#""Merge branch 'side' into line" is the first bad commit"#);
    let second = result.1.stdout.find(r#""adds s3" is the first bad commit"#);
    assert!(first.is_some() && first < second, "{}", result.1);
    let goes_on = "it is a merge: searching the commits that it brought, --git ";
    assert!(result.1.stderr.contains(goes_on), "{}", result.1);
    let chance = "each of the two answers is wrong in at most 1 of 20 cases";
    assert!(result.1.stdout.contains(chance), "{}", result.1);
    assert!(result.0["answer"]["bisect"]["merge"].is_string());
    assert_eq!(
        folders(&repository.0.path("provoke-out")).len(),
        3,
        "two runs, and the last"
    );

    // A merged fix is found as well; a scenario can request to stop there.
    let script = format!("echo '[ -e f2 ] || {{ {FAILS}; }}' > t.sh");
    repository.sh("cd repo; git branch -D start");
    let branches = [("mends", "m1 m2 m3"), ("fix", "f1 f2 f3")];
    merged(&repository, &script, &branches);
    let fixed = ["--fixed", "--git", "start..mends"];
    let result = repository.bisect(&fixed);
    assert_eq!(summarize(&result), found(&["adds f1"]), "{}", result.1);
    let wanted = r#""adds f2" the first good one"#;
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    repository.0.write(
        "stop.toml",
        "ask = \"bisect\"\nfirst-parent = true\ncommand = [\"sh\", \"t.sh\"]\ncwd = \"repo\"\n",
    );
    let file = ["--file", "stop.toml"];
    let output = repository
        .0
        .run_with_report("bisect", &[&FLAGS[..], &fixed, &file].concat());
    assert_eq!(summarize(&output), found(&["adds m3"]), "{}", output.1);
    let wanted = "to search the commits that it brought, use --git ";
    assert!(output.1.stderr.contains(wanted), "{}", output.1);
}

#[test]
fn a_merge_is_the_culprit_if_none_of_its_commits_fails() {
    needs!(program("git"));
    let repository = Repository::new();
    let script = format!("echo '[ ! -e l2 ] || [ ! -e s2 ] || {{ {FAILS}; }}' > t.sh");
    let branches = [("line", "l1 l2"), ("side", "s1 s2 s3")];
    merged(&repository, &script, &branches);
    let result = repository.bisect(&["--git", "start..line", "--reproduce-limit", "20"]);
    assert_eq!(
        summarize(&result),
        (json!("not_there"), vec![], 1),
        "{}",
        result.1
    );
    let wanted = r#" "Merge branch 'side' into line", brought it: the combination of both parents, not one of the merged commits"#;
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    // In this number of trials it would have failed at the rate of the merge.
    let wanted = ", the bad end, did not fail in 20 trials: its failure rate is below 17 %";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn an_interrupted_second_search_keeps_the_first_answer() {
    needs!(program("git"));
    let repository = Repository::new();
    let here = repository.here();
    // On the branch alone it waits.
    let waits = format!(
        "[ -e l1 ] || [ ! -e s1 ] || until [ -e {here}/go ]; do touch {here}/waits; sleep 0.01; done"
    );
    let script = format!("echo '{waits}; [ ! -e s2 ] || {{ {FAILS}; }}' > t.sh");
    let branches = [("line", "l1 l2"), ("side", "s1 s2 s3")];
    merged(&repository, &script, &branches);
    let args = ["--git", "start..line", "--export-json", "report.json"];
    let running = repository.start(&args);
    wait_until("the second waits", || repository.0.path("waits").exists());
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.code, Some(130), "{output}");
    let report: Value = serde_json::from_str(&repository.0.read("report.json")).unwrap();
    let merge = "Merge branch 'side' into line";
    assert_eq!(
        summarize(&(report, output)),
        (json!("found"), vec![merge.to_owned()], 130)
    );
    // The resumed run continues with the merged commits.
    repository.0.write("go", "");
    let resume = words("resume cut/merged --progress=none --export-json resumed.json");
    let output = repository.0.provoke(&resume);
    let report: Value = serde_json::from_str(&repository.0.read("resumed.json")).unwrap();
    assert_eq!(summarize(&(report, output)), found(&["adds s2"]));
}

#[test]
fn a_killed_search_is_resumed_and_continues_in_the_merge_that_it_finds() {
    needs!(program("git"));
    let repository = Repository::new();
    let here = repository.here();
    let script = format!("echo '[ ! -e s2 ] || {{ {FAILS}; }}' > t.sh");
    let branches = [("line", "l1 l2"), ("side", "s1 s2 s3")];
    merged(&repository, &script, &branches);
    let line =
        format!("[ $PROVOKE_TRIAL -lt 9 ] || until [ -e {here}/go ]; do sleep 0.01; done; sh t.sh");
    let args = ["--git", "start..line", "--cwd", "repo", "--shell", &line];
    let cut = repository
        .0
        .command(&[&["bisect", "-o", "cut"], &FLAGS[..], &args].concat());
    repository.0.kill_after(8, "cut", cut);
    repository.0.write("go", "");
    let resumed = repository.resume();
    assert_eq!(summarize(&resumed), found(&["adds s2"]), "{}", resumed.1);
    assert!(
        resumed.1.stdout.contains("Merge branch 'side' into line"),
        "{}",
        resumed.1
    );
}

/// Two source files, of which every other commit changes one; from the seventh on the program crashes.
const CRASHES: &str = r#"
    git init -q -b main repo; cd repo
    git config user.email a@example.org; git config user.name a
    echo 'int unused;' > other.c
    echo 'int main(void) { return 0; }' > main.c; git add -A; git commit -qm begin; git tag v1
    for i in $(seq 1 12); do
        if [ $i = 7 ]; then
            echo 'int main(void) { *(volatile int *)0 = 1; return 0; }' > main.c
        elif [ $((i % 6)) = 0 ]; then
            echo "/* $i */" >> main.c
        else
            echo "int unused_$i;" >> other.c
        fi
        git add -A; git commit -qm "change $i"
    done
    cc -g -o ../crashing main.c other.c
"#;

#[test]
fn commits_that_change_a_file_of_the_stacks_are_likelier() {
    needs!(program("git"), program("cc"));
    let repository = Repository(Sandbox::new());
    repository.sh(CRASHES);
    let run = words("run -n 2 --capture on -o crashed -- ./crashing");
    let crashed = repository.0.provoke(&run);
    assert_eq!(crashed.code, Some(1), "{crashed}");
    let flags = [
        "--git",
        "v1..main",
        "--cwd",
        "repo",
        "--build",
        "cc -g -o prog main.c other.c",
    ];
    let prior = ["--prior", "crashed", "--seed", "1", "--", "./prog"];
    let (report, output) = repository
        .0
        .run_with_report("bisect", &[&flags[..], &prior].concat());
    assert_eq!(summarize(&(report, output)).0, "found");
    let weights = &repository.0.events()[0]["run_started"]["plan"]["trials"]["space"]["weights"];
    let of = |place: usize| if [6, 7, 12].contains(&place) { 36 } else { 1 };
    let wanted: Vec<u64> = (0..13).map(of).collect();
    assert_eq!(weights, &json!(wanted));

    let without = repository
        .0
        .provoke(&["run", "-n", "1", "-o", "passed", "--", "true"]);
    assert_eq!(without.code, Some(0), "{without}");
    let refused = |run: &str| {
        let prior = ["--prior", run, "--", "./prog"];
        let output = repository
            .0
            .provoke(&[&["bisect"], &flags[..], &prior].concat());
        assert_eq!(output.code, Some(2), "{output}");
        output.stderr
    };
    assert!(refused("passed").contains("has a stack with source files"));
    assert!(refused("nowhere").contains("give a run that failed"));
}

#[test]
fn weights_are_commit_sizes_or_are_read_from_a_file() {
    needs!(program("git"));
    let repository = Repository::new();
    repository.sh("cd repo; git tag it main~5; git tag other main~1");
    let result = repository.bisect(&["--prior", "size"]);
    assert_eq!(summarize(&result), found(&["change 7"]), "{}", result.1);

    let names = repository.sh("cd repo; git rev-parse --short it; git rev-parse --short other");
    let mut names = names.lines();
    let (it, other) = (names.next().unwrap(), names.next().unwrap());
    let output_of = |text: &str| {
        repository.0.write("prior", text);
        repository.bisect(&["--prior", "prior"])
    };
    // Right or wrong, weights change the number of trials and not the answer.
    let right = output_of(&format!("# likely\n{it} 100\n\n{other} 1 # no\n"));
    let wrong = output_of(&format!("{other} 100\n"));
    assert_eq!(summarize(&right), found(&["change 7"]), "{}", right.1);
    assert_eq!(summarize(&wrong), found(&["change 7"]), "{}", wrong.1);

    let refused = |text: &str| {
        repository.0.write("prior", text);
        repository
            .0
            .provoke(&[&["bisect"], &Repository::args(&["--prior", "prior"])[..]].concat())
    };
    insta::assert_snapshot!(refused(&format!("# likely\n{it} ten\n")).to_string().replace(it, "COMMIT"), @"
    ------- stderr -------
    error: cannot parse SANDBOX/prior:2: `COMMIT ten`

    hint: write a candidate and a whole number above 0 on each line: `v1.2 10`
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(refused("\n\nv7 10\n"), @"
    ------- stderr -------
    error: SANDBOX/prior:3: `v7 10` names `v7`, which is not a candidate

    hint: remove the line, or search a longer list
    [exit status: Some(2)]
    ");
    assert!(refused(&format!("{it} 0\n")).stderr.contains("prior:1: "));
}

#[test]
fn the_log_of_a_search_shortens_the_next_search() {
    needs!(program("git"));
    let repository = Repository::new();
    let first = repository.bisect(&["-o", "first"]);
    assert_eq!(summarize(&first), found(&["change 7"]), "{}", first.1);
    let log = repository.0.read("first/bisect.log");
    let second = repository.bisect(&["--log", "first/bisect.log"]);
    assert_eq!(summarize(&second), found(&["change 7"]), "{}", second.1);
    let trials = |report: &Value| {
        let variants = report["variants"].as_array().unwrap().iter();
        variants
            .map(|one| one["trials"].as_u64().unwrap())
            .sum::<u64>()
    };
    let (long, short) = (trials(&first.0), trials(&second.0));
    assert!(short < long, "{short} after {long}");

    // A line of the log may be edited, and is then used.
    let line = log
        .lines()
        .find(|line| line.ends_with("# change 6"))
        .unwrap();
    let name = line.split_whitespace().nth(1).unwrap();
    let changed = log.replace(line, &format!("bad {name} 9/9"));
    repository.0.write("changed", &changed);
    let third = repository.bisect(&["--log", "changed"]);
    assert_ne!(summarize(&third).1, ["change 7"], "{}", third.1);

    let refused = |text: &str| {
        repository.0.write("changed", text);
        let args = Repository::args(&["--log", "changed"]);
        let output = repository.0.provoke(&[&["bisect"], &args[..]].concat());
        output.to_string()
    };
    insta::assert_snapshot!(refused("# a place that is not there\ngood abcdef0 0/20\n"), @"
    ------- stderr -------
    error: SANDBOX/changed:2: `good abcdef0 0/20` names `abcdef0`, which is not a candidate

    hint: remove the line, or search a longer list
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(refused("good v1\n"), @"
    ------- stderr -------
    error: cannot parse SANDBOX/changed:1: `good v1`

    hint: write `bad NAME 3/10` (3 failures in 10 trials), `good NAME 0/20` or `skip NAME`
    [exit status: Some(2)]
    ");
    assert!(refused("bad v1 3/2\n").contains("changed:1: `bad v1 3/2`"));
}

/// A sandbox for Python, with its own cache of environments; the interpreter, and whether it finds only the packages
/// that were built in the sandbox.
struct Python(Sandbox, String, bool);

/// A registry address without a server.
const UNREACHABLE_REGISTRY: [(&str, &str); 2] = [
    ("PIP_INDEX_URL", "http://127.0.0.1:9/"),
    ("PIP_RETRIES", "0"),
];

impl Python {
    fn new() -> Self {
        // The wrapper in PATH may be slow.
        let script = "import sys; print(sys.executable)";
        let output = Command::new("python3")
            .args(["-c", script])
            .output()
            .unwrap();
        let python = String::from_utf8(output.stdout).unwrap();
        Self(Sandbox::new(), python.trim().to_owned(), false)
    }

    /// Returns a sandbox that finds only packages that are built here.
    fn with_wheels() -> Self {
        let python = Self::new();
        python.0.write("wheels.py", WHEELS);
        let mut wheels = python.0.program_command(&python.1, &["wheels.py"]);
        assert!(wheels.status().unwrap().success());
        Self(python.0, python.1, true)
    }

    fn command(&self, question: &str, args: &[&str]) -> Command {
        let python = ["--python", self.1.as_str()];
        let report = ["--progress=none", "--export-json", "report.json"];
        let all = [&[question], &FLAGS[..], &report, &python, args].concat();
        self.with_own_cache(self.0.command(&all))
    }

    fn with_own_cache(&self, mut command: Command) -> Command {
        command
            .env("XDG_CACHE_HOME", self.0.path("cache"))
            .env("PROVOKE_HOME", self.0.path("home"));
        if self.2 {
            command
                .env("PIP_NO_INDEX", "1")
                .env("PIP_FIND_LINKS", self.0.path(""));
        }
        command
    }

    fn run_with_report(&self, mut command: Command) -> (Value, CommandOutput) {
        let output: CommandOutput = command.output().unwrap().into();
        let report = serde_json::from_str(&self.0.read("report.json"));
        (
            report.unwrap_or_else(|error| panic!("{error}: {output}")),
            output,
        )
    }

    /// Returns the number of created environments.
    fn environments(&self) -> usize {
        folders(&self.0.path("cache/provoke")).len()
    }
}

/// Returns a script that crashes in every other trial of a version from 1.14 on, or below that.
fn crashes(with: &str) -> String {
    format!(
        "
import os, six
old = six.__version__ == '1.13.0'
with open(six.__version__, 'a') as trials:
    trials.write('.')
if {with} and os.path.getsize(six.__version__) % 2:
    os.kill(os.getpid(), 11)
"
    )
}

#[test]
fn the_first_bad_or_fixed_package_version_is_found_and_cached() {
    needs!(python("ensurepip"));
    let python = Python::new();
    python.0.write("app.py", &crashes("not old"));
    python.0.write("fixed.py", &crashes("old"));
    let run = ["--", "python", "app.py"];
    let first = python.command(
        "bisect",
        &[&["--pip", "six==1.13..1.15"], &run[..]].concat(),
    );
    let result = python.run_with_report(first);
    assert_eq!(summarize(&result), found(&["1.14.0"]), "{}", result.1);
    let points = result.0["answer"]["bisect"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    let environments = python.environments();

    // The cached versions are enough from now on, and no registry is contacted.
    let list = "six==1.13.0,1.14.0,1.15.0";
    let second = || {
        let mut second = python.command("bisect", &[&["--pip", list], &run[..]].concat());
        second.envs(UNREACHABLE_REGISTRY);
        second
    };
    let second_output = python.run_with_report(second());
    assert_eq!(
        summarize(&second_output),
        found(&["1.14.0"]),
        "{}",
        second_output.1
    );
    let run = ["--pip", list, "--fixed", "--", "python", "fixed.py"];
    let mut fixed = python.command("bisect", &run);
    fixed.envs(UNREACHABLE_REGISTRY);
    let fixed = python.run_with_report(fixed);
    assert_eq!(summarize(&fixed), found(&["1.13.0"]), "{}", fixed.1);
    let wanted = "1.13.0 is the last bad version, 1.14.0 the first good one";
    assert!(fixed.1.stdout.contains(wanted), "{}", fixed.1);
    assert_eq!(python.environments(), environments);

    // After a kill and a resumption the answer is the same, and the environments still exist.
    let here = python.0.path("").display().to_string();
    let line = format!(
        "[ $PROVOKE_TRIAL != 9 ] || until [ -e {here}/go ]; do touch {here}/waits; sleep 0.01; done; exec python app.py"
    );
    let args = ["-o", "cut", "--pip", list, "--shell", &line];
    let mut cut = python
        .command("bisect", &args)
        .envs(UNREACHABLE_REGISTRY)
        .spawn()
        .unwrap();
    wait_until("#9 runs", || python.0.path("waits").exists());
    cut.kill().unwrap();
    cut.wait().unwrap();
    python.0.write("go", "");
    let resume = words("resume cut --progress=none --export-json report.json");
    let mut resume = python.with_own_cache(python.0.command(&resume));
    resume.envs(UNREACHABLE_REGISTRY);
    let resumed = python.run_with_report(resume);
    assert_eq!(summarize(&resumed), found(&["1.14.0"]), "{}", resumed.1);
    assert_eq!(python.environments(), environments);
}

/// Builds packages with two versions each, of which `aa` and `bb` need the same version of each other.
const WHEELS: &str = r#"
import zipfile

def wheel(name, version, needs=''):
    with zipfile.ZipFile(f'{name}-{version}-py3-none-any.whl', 'w') as file:
        about = f'{name}-{version}.dist-info/'
        file.writestr(f'{name}.py', f"version = '{version}'")
        file.writestr(about + 'METADATA', f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}')
        file.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        file.writestr(about + 'RECORD', '')

for version, needs in ('1.0', 'bb<2'), ('2.0', 'bb>=2'):
    wheel('aa', version, f'Requires-Dist: {needs}\n')
    wheel('bb', version)
    wheel('cc', version)
    wheel('dd', version)
"#;

const ENDS: [&str; 4] = ["--from", "old.txt", "--to", "new.txt"];

#[test]
fn the_needed_package_differences_are_found_although_pip_refuses_some_sets() {
    needs!(python("ensurepip"));
    let python = Python::with_wheels();
    python.0.write("old.txt", "aa==1.0\nbb==1.0\n");
    python.0.write("new.txt", "bb==2.0 # newer\naa==2.0\n");
    let line = "import aa, os; os._exit(3 if aa.version == '2.0' else 0)";
    let args = [&ENDS[..], &["--", "python", "-c", line]].concat();
    let result = python.run_with_report(python.command("reduce", &args));
    let wanted = "one or more of `aa 1.0 -> 2.0`, `bb 1.0 -> 2.0` is needed; without it, 0 of";
    assert!(result.1.stdout.starts_with(wanted), "{}", result.1);
    let refused = "the build failed: exit 1: ERROR: Cannot install";
    let journal = python.0.read("home/last/events.jsonl");
    assert!(journal.contains(refused), "{journal}");
    assert_eq!(result.1.code, Some(0), "{}", result.1);
}

#[test]
fn a_killed_search_of_package_differences_is_resumed_to_the_same_answer() {
    needs!(python("ensurepip"));
    let python = Python::with_wheels();
    python.0.write("old.txt", "bb==1.0\ncc==1.0\ndd==1.0\n");
    python.0.write("new.txt", "bb==2.0\ncc==2.0\ndd==2.0\n");
    let fails = "int(os.environ['PROVOKE_TRIAL']) % 3 and cc.version == '2.0'";
    let fails = format!("import cc, os; os._exit(3 if {fails} else 0)");
    python.0.write("app.py", &fails);
    let line =
        "[ $PROVOKE_TRIAL -lt 9 ] || until [ -e go ]; do sleep 0.01; done; exec python app.py";
    let args = [&ENDS[..], &["--shell", line]].concat();
    // Environments that were incomplete at a kill are created again.
    let cut = python.command("reduce", &[&["-o", "cut"], &args[..]].concat());
    python.0.kill_after(8, "cut", cut);
    python.0.write("go", "");
    let resume = ["resume", "cut", "--progress=none"];
    let resumed: CommandOutput = python
        .with_own_cache(python.0.command(&resume))
        .output()
        .unwrap()
        .into();
    let whole = python.run_with_report(python.command("reduce", &args));
    let wanted = "`cc 1.0 -> 2.0` is needed; without it, 0 of";
    assert!(whole.1.stdout.starts_with(wanted), "{}", whole.1);
    assert_eq!(resumed.answer(), whole.1.answer());
    assert_eq!((resumed.code, whole.1.code), (Some(0), Some(0)));
}
