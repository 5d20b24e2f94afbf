//! Tests mistyped command lines: each is accepted, or answered by a hint with the corrected flag or command.

use super::support::{PROVOKE, Sandbox};
use crate::needs::{needs, program};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// Returns a sandbox with programs that cannot be started, for several reasons.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, text, executable) in [
        ("prog", "#!/bin/sh\nexit 0\n", true),
        ("noexec", "#!/bin/sh\n", false),
        ("badinterp", "#!/bin/nosuch\n", true),
        ("badenv", "#!/usr/bin/env nosuch-interpreter\n", true),
        ("noshebang", "exit 0\n", true),
        ("noshebang.py", "exit(0)\n", true),
        ("crash.c", "int main(void) { return 0; }\n", false),
        ("Main.java", "class Main {}\n", false),
        ("job.py", "exit(0)\n", false),
        ("trials.toml", "runs = 3\ncommand = [\"true\"]\n", false),
    ] {
        let path = sandbox.write(name, text);
        let mode = if executable { 0o755 } else { 0o644 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    sandbox
}

/// Splits a line into words, as a shell does.
fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

#[test]
fn the_hint_at_a_number_is_not_the_refused_number() {
    let output = sandbox().provoke(&["run", "--jobs", "0", "true"]);
    assert!(output.stderr.contains("must be at least 1"), "{output}");
    assert!(!output.stderr.contains("--jobs 0"), "{output}");
}

#[test]
fn natural_command_lines_are_accepted() {
    let sandbox = sandbox();
    for (line, trials) in [
        ("run -n 2 ./prog argument -x --flag", 2),
        ("./prog", 100),
        ("-n 3 ./prog -n 5", 3),
        ("-n 3 -- true", 3),
        ("run -n 2 -- ./prog", 2),
        ("run --count 4 true", 4),
        ("run --times 4 true", 4),
        ("run --iterations 4 true", 4),
        ("run --repeat 4 true", 4),
        ("run --loops 4 true", 4),
        ("run --parallel 2 -n 4 true", 4),
        ("run --workers 2 -n 4 true", 4),
        ("run -n 2 ./prog -- --after", 2),
        ("confirm --baseline 3/3 ./prog", 9),
    ] {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = sandbox.provoke(&words);
        assert_eq!(output.code, Some(0), "provoke {line}\n{output}");
        let plans = sandbox.events();
        let finished = plans
            .iter()
            .filter(|event| event.get("trial_finished").is_some());
        assert_eq!(finished.count(), trials, "provoke {line}\n{output}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistyped_command_lines_are_refused_with_a_hint() {
    let sandbox = sandbox();
    let table = [
        // The command line, the exit code, the error, the hint.
        (
            "run -n 3",
            2,
            "there is no command to run",
            "add the program and its arguments: -- ./program argument",
        ),
        (
            "run -p 4 -- true",
            2,
            "there is no flag `-p` here",
            "did you mean `-j 4` (parallel trials) or `--prepare CMD` (before each trial)?",
        ),
        (
            "run --threads 4 true",
            2,
            "`provoke run` has no flag `--threads`",
            "did you mean `--jobs 4`?",
        ),
        (
            "run -n 3 -- -n 20 ./prog",
            125,
            "cannot run `-n`: it is a flag, not a program",
            "flags of provoke go before `--`, the program after it: provoke run -n 20 -- ./program",
        ),
        (
            "run -n -5 -- true",
            2,
            "`provoke run` has no flag `-5`",
            "numbers cannot be negative",
        ),
        (
            "run -c './a | ./b'",
            2,
            "`provoke run` has no flag `-c`",
            "did you mean `--shell './a | ./b'`?",
        ),
        (
            "bisect --good v1 --bad v2 -- ./prog",
            2,
            "`provoke bisect` has no flag `--good`",
            "did you mean `--git v1..v2`?",
        ),
        (
            "bisect --bad=v2 -- ./prog",
            2,
            "`provoke bisect` has no flag `--bad`",
            "did you mean `--git GOOD..v2`?",
        ),
        (
            "run --good v1 true",
            2,
            "`provoke run` has no flag `--good`",
            "did you mean `provoke bisect --git v1..BAD -- CMD`?",
        ),
        (
            "run --json r.json -- true",
            125,
            "cannot run `r.json`: it is not a program",
            "did you mean `--json=r.json`?",
        ),
        (
            "run --runs10 -- true",
            2,
            "`provoke run` has no flag `--runs10`",
            "did you mean `--runs 10`?",
        ),
        (
            "run --forever true",
            2,
            "`provoke run` has no flag `--forever`",
            "a run has an end: -d sets how long it takes, such as -d 8h, and -x ends it at the first failure",
        ),
        (
            "run --stress-count 5 -- true",
            2,
            "`provoke run` has no flag `--stress-count`",
            "did you mean `-n 5`?",
        ),
        (
            "run --shell -- './a | ./b'",
            2,
            "a value is required for '--shell <LINE>' but none was supplied",
            "give the line as one argument: --shell './program | cat'",
        ),
        (
            "run --quiet1 -- true",
            2,
            "`provoke run` has no flag `--quiet1`",
            "did you mean `--quiet`?",
        ),
        (
            "run --junitxml=ci.xml -- true",
            2,
            "`provoke run` has no flag `--junitxml`",
            "did you mean `--junit=ci.xml`?",
        ),
        (
            "report --markdown",
            2,
            "`provoke report` has no flag `--markdown`",
            "did you mean `--md=FILE`?",
        ),
        (
            "report --md issue.md",
            2,
            "there is no run `issue.md` in `provoke-out`",
            "did you mean `--md=issue.md`?",
        ),
        (
            "report -o ci.xml",
            2,
            "`provoke report` has no flag `-o`",
            "did you mean `--junit=ci.xml`?",
        ),
        (
            "run --format=html true",
            2,
            "`provoke run` has no flag `--format`",
            "each format has a flag: --json=FILE, --jsonl=FILE, --csv=FILE, --junit=FILE, --md=FILE",
        ),
        (
            "report last#3",
            2,
            "there is no run `last#3` in `provoke-out`",
            "to explain the trial: provoke explain 'last#3'",
        ),
        (
            "explain last",
            2,
            "found neither a core file nor a run `last`",
            "no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`",
        ),
        (
            "confirm --baseline last ./prog",
            2,
            "cannot read the baseline: there is no run `last` in `provoke-out`",
            "measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)",
        ),
        (
            "run --cont 3 true",
            2,
            "`provoke run` has no flag `--cont`",
            "did you mean `--runs 3`?",
        ),
        (
            "run --trails 100 -- ./prog",
            2,
            "`provoke run` has no flag `--trails`",
            "did you mean `-n 100`?",
        ),
        (
            "explain last --md=issue.md --junit=ci.xml",
            2,
            "`provoke explain` has no flag `--md`",
            "did you mean `provoke report last --md=issue.md --junit=ci.xml`?",
        ),
        (
            "run --baseline last -- ./prog",
            2,
            "`provoke run` has no flag `--baseline`",
            "did you mean `provoke confirm --baseline last -- ./prog`?",
        ),
        (
            "run --cnt 3 true",
            2,
            "`provoke run` has no flag `--cnt`",
            "`provoke run --help` lists all flags; flags of the program follow its name",
        ),
        (
            "-n 3 --goood x true",
            2,
            "there is no command before `-n`",
            "to run a program: provoke run -n 3 --goood x true",
        ),
        (
            "run --max-failures 3 -- true",
            2,
            "`provoke run` has no flag `--max-failures`",
            "did you mean `--max-fail 3`?",
        ),
        (
            "run --workdir /tmp -- true",
            2,
            "`provoke run` has no flag `--workdir`",
            "did you mean `--cwd /tmp`?",
        ),
        (
            "run --frobnicate true",
            2,
            "`provoke run` has no flag `--frobnicate`",
            "`provoke run --help` lists all flags; flags of the program follow its name",
        ),
        (
            "-n 3 --goood x ./prog",
            2,
            "`provoke run` has no flag `--goood`",
            "`provoke run --help` lists all flags; flags of the program follow its name",
        ),
        (
            "load http://127.0.0.1:1/ ./prog 18080",
            2,
            "unexpected argument `./prog`",
            "put `--` before the command: provoke load http://127.0.0.1:1/ -- ./prog 18080",
        ),
        (
            "show last",
            2,
            "there is no command `show`",
            "`provoke report last` shows the result, `provoke explain last` explains a failure",
        ),
        (
            "show last#3",
            2,
            "there is no command `show`",
            "did you mean `provoke explain last#3`?",
        ),
        (
            "rerun last",
            2,
            "there is no command `rerun`",
            "did you mean `provoke replay last`?",
        ),
        (
            "rerun last#2",
            2,
            "there is no command `rerun`",
            "did you mean `provoke replay last#2`?",
        ),
        (
            "replay last",
            2,
            "there is no run `last` in `provoke-out`",
            "no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`",
        ),
        (
            "repeat -n 3 ./prog",
            2,
            "there is no command `repeat`",
            "did you mean `provoke run -n 3 ./prog`?",
        ),
        (
            "bisekt ./prog",
            2,
            "there is no command `bisekt`",
            "did you mean `provoke bisect ./prog`?",
        ),
        (
            "true -x",
            2,
            "there is no command `true`",
            "to run a program: provoke run true -x; `provoke --help` lists the commands",
        ),
        (
            "trials.toml -n 3",
            2,
            "there is no command `trials.toml`",
            "to run a scenario file: provoke scenario trials.toml -n 3",
        ),
        (
            "run -n 3 -- './prog | cat'",
            125,
            "cannot run `./prog | cat`: there is no such program",
            "to run a line of shell: provoke run -n 3 --shell './prog | cat'",
        ),
        (
            "run -- prog",
            125,
            "cannot run `prog`: it is not in PATH",
            "did you mean `./prog`?",
        ),
        (
            "run -- noexec",
            125,
            "cannot run `noexec`: it is not in PATH",
            "to run the file here: chmod +x noexec, then ./noexec",
        ),
        (
            "run -- ./noexec",
            125,
            "cannot run `./noexec`: it is not executable",
            "make it executable: chmod +x ./noexec",
        ),
        (
            "run -n 9 ./crash.c --seed 1",
            125,
            "cannot run `./crash.c`: it is source code in C",
            "compile it first: cc -g -o ./crash ./crash.c\n      and run the program: provoke run -n 9 -- ./crash --seed 1",
        ),
        (
            "run crash.c",
            125,
            "cannot run `crash.c`: it is source code in C",
            "compile it first: cc -g -o crash crash.c\n      and run the program: provoke run -- ./crash",
        ),
        (
            "run ./Main.java",
            125,
            "cannot run `./Main.java`: it is source code in Java",
            "compile it first, and run the program that the compiler writes",
        ),
        (
            "run -n 2 ./job.py a",
            125,
            "cannot run `./job.py`: it is a script that is not executable",
            "name its interpreter: provoke run -n 2 -- python3 ./job.py a",
        ),
        (
            "run ./noshebang.py",
            125,
            "cannot run `./noshebang.py`: it is a text file without a #! line",
            "add a first line such as #!/usr/bin/env python3, or name the interpreter: provoke run -- python3 ./noshebang.py",
        ),
        (
            "run -n 9 -- ./badinterp",
            125,
            "cannot run `./badinterp`: its interpreter `/bin/nosuch` does not exist",
            "install the interpreter, or correct the first line of `./badinterp`",
        ),
        (
            "run -- ./badenv",
            125,
            "cannot run `./badenv`: its interpreter `nosuch-interpreter` does not exist",
            "install the interpreter, or correct the first line of `./badenv`",
        ),
        (
            "run -n 9 -- ./noshebang a",
            125,
            "cannot run `./noshebang`: it is a text file without a #! line",
            "add a first line such as #!/bin/sh, or name the interpreter: provoke run -n 9 -- sh ./noshebang a",
        ),
        (
            "run -n 2 -- FOO=1 ./prog z",
            125,
            "cannot run `FOO=1`: it is an assignment, not a program",
            "set environment variables with -e: provoke run -n 2 -e FOO=1 -- ./prog z",
        ),
        (
            "run -- ./",
            125,
            "cannot run `./`: it is a directory",
            "name a program in it",
        ),
        (
            "run -- /nope/x",
            125,
            "cannot run `/nope/x`: there is no such file",
            "check the path",
        ),
        (
            "run ./pog",
            125,
            "cannot run `./pog`: there is no such file",
            "did you mean `./prog`?",
        ),
        (
            "run pog",
            125,
            "cannot run `pog`: there is no such program",
            "did you mean `./prog`?",
        ),
        (
            "run -n 9 -- sh -e jb.py",
            125,
            "cannot run `sh -e jb.py`: there is no file `jb.py`",
            "did you mean `job.py`?",
        ),
        (
            "run sh /nope/x.sh",
            125,
            "cannot run `sh /nope/x.sh`: there is no file `/nope/x.sh`",
            "check the path",
        ),
        (
            "run ./prog -n 5 'a b'",
            2,
            "the flag `-n` comes after the program `./prog`",
            "if it is a flag of provoke: provoke run -n 5 -- ./prog 'a b'\n      if it belongs to `./prog`: provoke run -- ./prog -n 5 'a b'",
        ),
        (
            "./prog x --max-rate=1%",
            2,
            "the flag `--max-rate` comes after the program `./prog`",
            "if it is a flag of provoke: provoke run --max-rate=1% -- ./prog x\n      if it belongs to `./prog`: provoke run -- ./prog x --max-rate=1%",
        ),
        (
            "confirm --baseline 3/3 -j 2 ./prog -n 5 -j 4",
            2,
            "the flag `-n` comes after the program `./prog`",
            "if it is a flag of provoke: provoke confirm --baseline 3/3 -j 2 -n 5 -- ./prog -j 4\n      if it belongs to `./prog`: provoke confirm --baseline 3/3 -j 2 -- ./prog -n 5 -j 4",
        ),
        (
            "diff",
            2,
            "`provoke diff` needs two runs",
            "for example: provoke diff RUN last; `provoke list` shows the stored runs",
        ),
        (
            "diff a1b2",
            2,
            "`provoke diff` needs two runs",
            "for example: provoke diff a1b2 last; `provoke list` shows the stored runs",
        ),
        (
            "explain",
            2,
            "`provoke explain` needs a run or a trial",
            "for example: provoke explain last, or provoke explain last#17",
        ),
        (
            "compare ./prog -L MODE=a,b",
            2,
            "the flag `-L` comes after the program `./prog`",
            "if it is a flag of provoke: provoke compare -L MODE=a,b -- ./prog\n      if it belongs to `./prog`: provoke compare -- ./prog -L MODE=a,b",
        ),
        (
            "compare MODE=a,b -- ./prog x",
            2,
            "there is no program MODE=a,b",
            "did you mean `provoke compare -L MODE=a,b -- ./prog x`?",
        ),
        (
            "bisect v1.0..HEAD ./prog",
            2,
            "there is no program v1.0..HEAD",
            "did you mean `provoke bisect --git v1.0..HEAD -- ./prog`?",
        ),
        (
            "bisect v1.0 HEAD -- ./prog",
            2,
            "there is no program v1.0",
            "did you mean `provoke bisect --git v1.0..HEAD -- ./prog`?",
        ),
        (
            "bisect 1..9 ./prog",
            2,
            "there is no program 1..9",
            "did you mean `provoke bisect --range 1..9 -- ./prog`?",
        ),
        (
            "load localhost -- ./prog",
            2,
            "`localhost` is neither a URL nor a file",
            "a URL is `http://HOST:PORT/PATH` or `HOST:PORT/PATH`",
        ),
        (
            "load localhost:8087 --ramp 1..8 -- ./prog",
            2,
            "`provoke load` has no flag `--ramp`",
            "did you mean `--clients 1..8`?",
        ),
        (
            "load http://localhost:8087/ ./prog -c 1..8",
            2,
            "unexpected argument `./prog`",
            "put `--` before the command: provoke load http://localhost:8087/ -c 1..8 -- ./prog",
        ),
        (
            "load http://localhost:8087/ -c 1-8 -- ./prog",
            2,
            "invalid value '1-8' for '--clients <N|A..B>': `1-8` is not a number of clients such as `10`, or levels such as `1..64` or `8,9,10`",
            "did you mean `--clients 1..8`?",
        ),
        (
            "explain last 4",
            2,
            "unexpected argument `4`",
            "did you mean `provoke explain last#4`?",
        ),
        (
            "explain 974",
            2,
            "found neither a core file nor a run `974`",
            "for trial 974 of the last run: provoke explain last#974",
        ),
        (
            "resume",
            2,
            "`provoke resume` needs a run",
            "for example: provoke resume last; `provoke list` shows the stored runs",
        ),
        (
            "diff ./prog ./prog",
            2,
            "`provoke diff` compares stored runs, and these are programs",
            "to compare programs: provoke compare -L bin=./prog,./prog -- {bin}",
        ),
        (
            "run -n 1k ./prog",
            2,
            "invalid value '1k' for '--runs <N>': `1k` is not a whole number",
            "did you mean `--runs 1000`?",
        ),
        (
            "confirm --against last",
            2,
            "`provoke confirm` has no flag `--against`",
            "did you mean `--baseline last`?",
        ),
        (
            "run --seconds 4 ./prog",
            2,
            "`provoke run` has no flag `--seconds`",
            "did you mean `-d 4s`?",
        ),
        (
            "run --time 5m ./prog",
            2,
            "`provoke run` has no flag `--time`",
            "did you mean `-d 5m`?",
        ),
        (
            "compare -- ./a ./b --flag",
            2,
            "there is only one variant",
            "to compare programs: provoke compare -L bin=./a,./b -- {bin} --flag",
        ),
        (
            "compare -- ./a",
            2,
            "there is only one variant",
            "define two or more variants: -L VAR=a,b, or [[variant]] in a scenario file",
        ),
        (
            "plan",
            2,
            "no failure rate is given, and no run stored here has failures",
            "give counts or a rate: provoke plan --baseline 3/30, or provoke plan --rate 5%",
        ),
    ];
    for (line, code, error, hint) in table {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = sandbox.provoke(&words);
        let expected = format!("error: {error}\n\nhint: {hint}\n");
        assert_eq!(output.stderr, expected, "provoke {line}");
        assert_eq!(output.code, Some(code), "provoke {line}\n{output}");
    }
    // A program that cannot be started is reported once, and there is nothing to resume.
    assert!(
        !sandbox
            .read("provoke-out/last/events.jsonl")
            .contains("trial_started")
    );
}

#[test]
fn a_missing_run_or_trial_is_refused_with_the_existing_ones() {
    let sandbox = sandbox();
    let run = ["run", "-n", "9", "--capture=off", "--", PROVOKE];
    sandbox.provoke(&[&run[..], &["victim", "exit", "--fail-on", "3,7"]].concat());
    let run = fs::read_link(sandbox.path("provoke-out/last")).unwrap();
    let run = run.to_str().unwrap();
    for (line, error, hint) in [
        (
            "compare last last",
            "`provoke compare` compares programs, and these are stored runs".to_owned(),
            "to compare stored runs: provoke diff last last".to_owned(),
        ),
        (
            "explain last#99",
            format!("the run {run} has no finished trial #99"),
            "its trials are 1-9; failed: 3, 7".to_owned(),
        ),
        (
            "report last#3",
            "there is no run `last#3` in `provoke-out`".to_owned(),
            "to explain the trial: provoke explain 'last#3'".to_owned(),
        ),
        (
            "report lost",
            "there is no run `lost` in `provoke-out`".to_owned(),
            "`provoke list` shows the stored runs".to_owned(),
        ),
    ] {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = sandbox.provoke(&words);
        let expected = format!("error: {error}\n\nhint: {hint}\n");
        assert_eq!(output.stderr, expected, "provoke {line}");
        assert_eq!(output.code, Some(2), "provoke {line}\n{output}");
    }
    let output = sandbox.provoke(&["confirm", "-j", "2", run, "./prog", "a"]);
    let expected = format!(
        "error: `{run}` is a stored run, not a command\n\nhint: did you mean `provoke confirm -j 2 --baseline {run} -- ./prog a`?\n"
    );
    assert_eq!(output.stderr, expected);
    assert_eq!(output.code, Some(2), "{output}");
    let listed = sandbox.provoke(&["list"]).stderr;
    let here = fs::canonicalize(sandbox.path("")).unwrap();
    assert_eq!(
        listed,
        format!(
            "1 run in `{}/provoke-out`; `last` is {}\n",
            here.to_str().unwrap(),
            &run[run.len() - 4..]
        )
    );
}

#[test]
fn a_script_that_a_hook_creates_is_not_reported_as_missing() {
    for hook in ["--setup", "--prepare"] {
        let write = "echo exit 0 >job.sh";
        let output = sandbox().provoke(&["run", "-n", "1", hook, write, "--", "sh", "job.sh"]);
        assert_eq!(output.code, Some(0), "{output}");
    }
}

#[test]
fn the_hint_for_a_missing_path_names_the_working_directory() {
    let output = sandbox().provoke(&["run", "--", "./nope"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: cannot run `./nope`: there is no such file

    hint: the path is relative to the working directory `SANDBOX`
    [exit status: Some(125)]
    ");
}

#[test]
fn a_shell_builtin_as_a_program_is_refused_with_a_hint() {
    let sandbox = sandbox();
    for (name, hint) in [
        ("cd", "choose the working directory with --cwd /tmp"),
        (
            "ulimit",
            "to run a line of shell: provoke run --shell 'ulimit /tmp'",
        ),
    ] {
        let output = sandbox
            .command(&["run", "--", name, "/tmp"])
            .env("PATH", "")
            .output();
        let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
        let expected =
            format!("error: cannot run `{name}`: it is a command of the shell\n\nhint: {hint}\n");
        assert_eq!(stderr, expected);
    }
}

#[test]
fn invalid_values_are_refused_with_the_expected_form() {
    let sandbox = sandbox();
    for (line, expected) in [
        (
            "run -n ten true",
            "error: invalid value 'ten' for '--runs <N>': `ten` is not a whole number",
        ),
        (
            "run -j 0 true",
            "error: invalid value '0' for '--jobs <N>': must be at least 1",
        ),
        (
            "run -j 99999999999 true",
            "error: invalid value '99999999999' for '--jobs <N>': `99999999999` is too large",
        ),
        (
            "run --max-rate 2 true",
            "error: invalid value '2' for '--max-rate <P>': `2` is not a rate above 0 and up to 1, such as `0.05` or `5%`; did you mean `2%`?",
        ),
    ] {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = sandbox.provoke(&words);
        assert_eq!(
            output.stderr.lines().next(),
            Some(expected),
            "provoke {line}"
        );
        assert_eq!(output.code, Some(2));
    }
}

#[test]
fn run_prints_which_failures_the_flag_only_counts() {
    let output = sandbox().provoke(&["run", "-n", "3", "--only", "segv,code:3", "true"]);
    let expected = "  counting only SIGSEGV, code:3; other failures are counted separately\n";
    assert_eq!(output.stderr, expected);
}

#[test]
fn bisect_in_a_git_repository_suggests_the_flag_git() {
    let sandbox = sandbox();
    let without = sandbox.provoke(&["bisect", "--", "./prog"]).stderr;
    fs::create_dir(sandbox.path(".git")).unwrap();
    let within = sandbox.provoke(&["bisect", "--", "./prog"]).stderr;
    let hint = |text: &str| text.lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        hint(&within),
        "hint: to search the commits of this repository: --git GOOD..BAD --build make; other candidates: --pip PACKAGE, --over v1,v2,v3, --range 1..64"
    );
    assert!(
        !hint(&without).starts_with("hint: to search the commits"),
        "{without}"
    );
}

#[test]
fn help_fits_80_columns_and_its_examples_work() {
    let sandbox = sandbox();
    let commands = [
        "run",
        "confirm",
        "compare",
        "bisect",
        "reduce",
        "load",
        "scenario",
        "resume",
        "report",
        "replay",
        "explain",
        "list",
        "diff",
        "doctor",
        "plan",
        "victim",
        "zoo",
        "completions",
        "man",
    ];
    for command in commands {
        for flag in ["-h", "--help"] {
            let help = sandbox.provoke(&[command, flag]).stdout;
            assert!(help.contains("\nExamples:\n"), "{command} {flag}");
            let wide = help.lines().find(|line| line.chars().count() > 80);
            assert_eq!(wide, None, "{command} {flag}");
        }
        let help = sandbox.provoke(&[command, "-h"]).stdout;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        let lines = examples
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("provoke "));
        for line in lines {
            // The flags exist: the error, if any, is about files or runs that do not exist here.
            let mut words = words(line.split(" | ").next().unwrap());
            words.remove(0);
            if !words.iter().any(|word| word == "victim" || word == "sh") {
                let at = words
                    .iter()
                    .position(|word| word == "--")
                    .unwrap_or(words.len());
                words.truncate(at);
                words.splice(1..1, ["--help".to_owned()]);
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = sandbox.provoke(&words);
            assert!(!output.stderr.contains("error:"), "{line}\n{output}");
        }
    }
}

#[test]
fn short_help_lists_few_flags() {
    let sandbox = sandbox();
    let short = sandbox.provoke(&["run", "-h"]).stdout;
    let flags = |text: &str| {
        text.lines()
            .filter(|line| line.trim_start().starts_with('-'))
            .count()
    };
    assert!((12..=19).contains(&flags(&short)), "{short}");
    let long = sandbox.provoke(&["run", "--help"]).stdout;
    assert!(flags(&long) > 50, "{long}");
    assert!(long.contains("--keep-per-sig"));
}

#[test]
fn a_text_of_stored_failures_is_answered_with_their_signatures() {
    needs!(program("python3"));
    let sandbox = sandbox();
    sandbox.provoke(&["run", "-n", "4", "--", "python3", "-c", "raise KeyError(7)"]);
    let output = sandbox.provoke(&["run", "--only", "keyerror", "--", "./prog"]);
    assert_eq!(output.code, Some(2), "{output}");
    let line = output
        .stderr
        .lines()
        .find(|line| line.contains("--only sig:"));
    assert!(
        line.is_some_and(|line| line.contains("KeyError: 7")),
        "{output}"
    );
}

#[test]
fn a_command_of_another_tool_is_suggested_without_its_unknown_flags() {
    let output = sandbox().provoke(&["stress", "--nosuch", "4", "--", "./prog"]);
    let hint = "did you mean `provoke run`? It has no flag `--nosuch`: see `provoke run -h`";
    assert!(output.stderr.contains(hint), "{output}");
}
