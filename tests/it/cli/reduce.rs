//! Tests `reduce` with real processes.

use super::support::{
    CommandOutput, PROVOKE, Sandbox, processes_with, unique_linger, wait_until, words,
};
use crate::limited;
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

impl Sandbox {
    /// Runs a reduction; returns the report.
    fn reduce(&self, args: &[&str]) -> (Value, CommandOutput) {
        self.run_with_report("reduce", &[&FLAGS, args].concat())
    }
}

const FLAGS: [&str; 4] = ["--seed", "1", "--capture", "off"];

/// Fails in every other trial if the set contains both.
const B_AND_D: &str =
    "case '{set}' in *b*d*) [ $((PROVOKE_SEED % 2)) = 0 ] || exit 3;; esac; exit 0";

/// Returns the needed items, with the verdict and the exit code.
fn summarize((report, output): &(Value, CommandOutput)) -> (Value, Vec<String>, i32) {
    let groups = report["answer"]["reduce"]["needed"].as_array();
    let mut things: Vec<String> = groups
        .into_iter()
        .flatten()
        .flat_map(|group| {
            let things = group["things"].as_array().unwrap().iter();
            things.map(|thing| thing.as_str().unwrap().to_owned())
        })
        .collect();
    things.sort();
    (report["verdict"].clone(), things, output.code.unwrap())
}

fn found(things: &[&str]) -> (Value, Vec<String>, i32) {
    let things = things.iter().map(ToString::to_string).collect();
    (json!("found"), things, 0)
}

/// Returns the interpreter itself, because a wrapper in PATH may be slow.
fn python() -> String {
    let script = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", script]).output();
    String::from_utf8(output.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// A script that fails because of its second and fourth lines.
const SCRIPT: &str = "a=1\nb=2\n# three\n[ \"$b\" = 2 ] && exit 3\n\nc=4\n:\n";
const REDUCED: &str = "b=2\n[ \"$b\" = 2 ] && exit 3\n\n";

#[test]
fn the_import_that_causes_a_crash_at_exit_is_found() {
    needs!(program("python3"), program("patch"));
    let sandbox = Sandbox::new();
    let torch = r"
import atexit, os

def crash():
    if int(os.environ['PROVOKE_SEED']) % 2 == 0:
        os.kill(os.getpid(), 11)

atexit.register(crash)
";
    std::fs::create_dir(sandbox.path("torch")).unwrap();
    sandbox.write("torch/__init__.py", torch);
    let text = "\
import os
import sys
from math import (
    pi,
    tau,
)
import torch
import string
import json

print('done')
";
    sandbox.write("app.py", text);
    let python = python();
    let args = [
        "-o",
        "out",
        "--imports",
        "app.py",
        "--",
        &python,
        "-S",
        "app.py",
    ];
    let result = sandbox.reduce(&args);
    assert_eq!(
        summarize(&result),
        found(&["`import torch` (line 7)"]),
        "{}",
        result.1
    );
    let wanted = "`import torch` (line 7) is needed; without it, 0 of";
    assert!(result.1.stdout.starts_with(wanted), "{}", result.1);
    assert!(
        result.1.stdout.contains("patch -p1 < "),
        "no way to go on: {}",
        result.1
    );
    assert_eq!(sandbox.read("app.py"), text);

    let mut patch = sandbox.program_command("patch", &["-p1", "-i", "out/reduced.patch"]);
    assert!(patch.output().unwrap().status.success());
    assert_eq!(sandbox.read("app.py"), "import torch\n\nprint('done')\n");
    let ends = |seed| {
        let mut app = sandbox.program_command(&python, &["-S", "app.py"]);
        app.env("PROVOKE_SEED", seed)
            .output()
            .unwrap()
            .status
            .signal()
    };
    assert_eq!((ends("2"), ends("3")), (Some(11), None));
}

#[test]
fn a_file_is_changed_only_with_the_flag_apply() {
    needs!(program("git"));
    for apply in [false, true] {
        let sandbox = Sandbox::new();
        sandbox.write("s.sh", SCRIPT);
        let args = ["-o", "out", "--lines", "s.sh", "--", "sh", "s.sh"];
        let result = if apply {
            sandbox.reduce(&[&["--apply"], &args[..]].concat())
        } else {
            sandbox.reduce(&args)
        };
        let needed = ["`[ \"$b\" = 2 ] && exit 3` (line 4)", "`b=2` (line 2)"];
        assert_eq!(summarize(&result), found(&needed), "{}", result.1);
        let patch = sandbox.path("out/reduced.patch");
        assert_eq!(patch.exists(), !apply);
        assert_eq!(sandbox.read("s.sh"), if apply { REDUCED } else { SCRIPT });
        assert_eq!(
            result.1.stdout.contains("reduced   "),
            apply,
            "{}",
            result.1
        );
        if !apply {
            let mut git = sandbox.program_command("git", &["apply", "out/reduced.patch"]);
            assert!(git.output().unwrap().status.success());
            assert_eq!(sandbox.read("s.sh"), REDUCED);
        }
        // The search is over, so the file may have changed since.
        let again = sandbox.provoke(&["resume", "out"]);
        assert_eq!(again.code, Some(0), "{again}");
        assert_eq!(sandbox.read("s.sh"), REDUCED);
    }
}

#[test]
fn statements_that_the_failure_does_not_need_are_left_out() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    let text = "\
total = 0
for i in range(3):
    total += i
    extra = i
if total > 2:
    other = 1
    raise SystemExit(3)
print(total)
";
    sandbox.write("app.py", text);
    let python = python();
    let args = ["--statements", "app.py", "--", &python, "-S", "app.py"];
    let result = sandbox.reduce(&args);
    let (verdict, needed, code) = summarize(&result);
    assert_eq!((verdict, code), (json!("found"), 0), "{}", result.1);
    let raises = "`raise SystemExit(3)` (line 7)".to_owned();
    assert!(needed.contains(&raises), "{}", result.1);
    assert!(!needed.concat().contains("extra"), "{}", result.1);
    assert!(!needed.concat().contains("print"), "{}", result.1);
}

#[test]
fn unneeded_arguments_variables_items_and_files_are_left_out() {
    let sandbox = Sandbox::new();
    sandbox.write("any", "for w; do [ $w != --bad ] || exit 3; done\n");
    let result = sandbox.reduce(&["--args", "--", "sh", "any", "--x", "--bad", "-y"]);
    assert_eq!(
        summarize(&result),
        found(&["`--bad`", "`any`"]),
        "{}",
        result.1
    );

    let set = ["-e", "A=1", "-e", "B=", "-e", "C=x"];
    let line = ["--", "sh", "-c", "[ \"$A${B-0}\" != 1 ]"];
    let result = sandbox.reduce(&[&["--variables"], &set[..], &line].concat());
    assert_eq!(summarize(&result), found(&["`A`", "`B`"]), "{}", result.1);

    // `{set}` as a whole argument becomes one argument per item.
    let line = ["sh", "-c", "[ \"$2\" != c ]", "sh", "{set}"];
    let result = sandbox.reduce(&[&["--set", "a,c,d,e", "--"], &line[..]].concat());
    assert_eq!(summarize(&result), found(&["`a`", "`c`"]), "{}", result.1);

    let line = "[ $(printf '%s' \"$LIST\" | grep -c '^[bd]$') != 2 ]";
    let list = ["--set", "a,b,c,d", "-e", "LIST={lines}", "--shell", line];
    let result = sandbox.reduce(&list);
    assert_eq!(summarize(&result), found(&["`b`", "`d`"]), "{}", result.1);

    std::fs::create_dir_all(sandbox.path("d/sub")).unwrap();
    for name in ["d/1", "d/2", "d/sub/3", "d/sub/4"] {
        sandbox.write(name, name);
    }
    let result = sandbox.reduce(&["--files", "d", "--", "sh", "-c", "[ ! -e d/sub/3 ]"]);
    assert_eq!(summarize(&result), found(&["`sub/3`"]), "{}", result.1);
    assert_eq!(sandbox.read("d/2"), "d/2");
}

#[test]
fn two_items_needed_together_are_found_with_any_number_of_jobs() {
    for jobs in ["1", "4"] {
        let sandbox = Sandbox::new();
        let args = ["-j", jobs, "--set", "a,b,c,d,e,f", "--shell", B_AND_D];
        let result = sandbox.reduce(&args);
        assert_eq!(summarize(&result), found(&["`b`", "`d`"]), "{}", result.1);
        assert!(result.1.stdout.contains("are needed\n"), "{}", result.1);
        assert!(
            result.1.stdout.contains("without `b`: 0 of"),
            "{}",
            result.1
        );
    }
}

#[test]
fn the_report_contains_the_answer_of_a_reduction() {
    let sandbox = Sandbox::new();
    let line = "case '{set}' in *b*) exit 3;; esac";
    let (report, output) = sandbox.reduce(&["--set", "a,b,c", "--shell", line]);
    let wanted = json!({
        "sentence": "`b` is needed; without it, 0 of 3 failed",
        "items": 3,
        "things": 3,
        "needed": [{
            "items": ["`b`"],
            "things": ["`b`"],
            "without": { "failures": 0, "trials": 3 },
            "shown": true,
            "untestable": null,
        }],
        "required": [],
        "fails_without_required": [],
        "sufficient": true,
        "alone": { "failures": 3, "trials": 3 },
        "everything": { "failures": 3, "trials": 3 },
        "fails_more_rarely": false,
        "times_rarer": null,
        "error_rate": 0.05,
        "raised": null,
        "earlier_runs": null,
        "assumptions": ["no other set causes the failure (the search finds one)"],
    });
    assert_eq!(report["answer"]["reduce"], wanted, "{output}");
}

#[test]
fn a_reduction_works_if_no_item_is_needed_and_with_a_single_item() {
    let sandbox = Sandbox::new();
    for (set, line, needed, words) in [
        ("a,b,c", "exit 3 # {set}", &[][..], "none of the 3 items"),
        ("a", "exit 3 # {set}", &[], ""),
        ("a", "[ -z '{set}' ]", &["`a`"], "`a` is needed"),
    ] {
        let result = sandbox.reduce(&["--set", set, "--shell", line]);
        assert_eq!(summarize(&result), found(needed), "{}", result.1);
        assert!(result.1.stdout.contains(words), "{}", result.1);
    }
}

#[test]
fn a_reduction_ends_if_it_does_not_fail_with_all_items() {
    let sandbox = Sandbox::new();
    let limit = ["--reproduce-limit", "40"];
    let result = sandbox.reduce(&[&limit[..], &["--set", "a,b", "--", "true", "{set}"]].concat());
    assert_eq!(
        summarize(&result),
        (json!("not_there"), vec![], 1),
        "{}",
        result.1
    );
    let wanted =
        "NOT REPRODUCED: with all items it did not fail in 40 trials, so the rate is below 8.9 %";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    assert_eq!(result.0["answer"]["reduce"]["needed"], json!([]));
    let tried = result.0["variants"].as_array().unwrap().len();
    assert_eq!(tried, 1, "{}", result.0["variants"]);
}

#[test]
fn untestable_sets_are_left_out_and_reported() {
    let sandbox = Sandbox::new();
    let needs_a =
        "case '{set}' in *b*) case '{set}' in *a*) ;; *) echo b needs a; false;; esac; esac";
    let line = "case '{set}' in *b*) exit 3;; esac";
    let args = ["--set", "a,b,c,d", "--setup", needs_a, "--shell", line];
    let result = sandbox.reduce(&args);
    assert_eq!(summarize(&result), found(&["`a`", "`b`"]), "{}", result.1);
    for wanted in [
        "`a`, `b` are needed",
        "without `a`: the rest is not testable (`setup` failed: exit 1: b needs a)",
    ] {
        assert!(
            result.1.to_string().contains(wanted),
            "{wanted}: {}",
            result.1
        );
    }
    // A trial that requests to be skipped counts in the same way.
    let line = "case '{set}' in *a*b*) exit 3;; *b*) exit 125;; esac";
    let result = sandbox.reduce(&["--set", "a,b,c,d", "--shell", line]);
    assert_eq!(summarize(&result), found(&["`a`", "`b`"]), "{}", result.1);
}

#[test]
fn an_item_is_required_although_sets_without_it_fail() {
    let sandbox = Sandbox::new();
    // With `a`, two of three trials fail; without `b`, the others end with an error.
    let line = "case '{set}' in *a*) [ $((PROVOKE_TRIAL % 3)) = 0 ] || exit 3;; esac; case '{set}' in *b*) ;; *) exit 4;; esac";
    let result = sandbox.reduce(&["--set", "a,b,c,d", "--shell", line]);
    assert_eq!(summarize(&result), found(&["`a`"]), "{}", result.1);
    let wanted = "`b` must stay: without it, exit 4";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn nothing_is_known_if_the_program_needs_every_item_to_run() {
    let sandbox = Sandbox::new();
    let line =
        "case '{set}' in *a*b*c*) ;; *) exit 4;; esac; [ $((PROVOKE_TRIAL % 3)) = 0 ] || exit 3";
    let result = sandbox.reduce(&["--set", "a,b,c", "--shell", line]);
    let expected = (json!("undecided"), Vec::new(), 3);
    assert_eq!(summarize(&result), expected, "{}", result.1);
    let wanted = "NOT KNOWN: the program does not run without any one of the 3 items";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn other_failures_do_not_count_unless_any_failure_does() {
    let sandbox = Sandbox::new();
    let line = "case '{set}' in *b*d*) exit 3;; *c*) exit 4;; esac";
    let args = ["--set", "a,b,c,d", "--shell", line];
    let result = sandbox.reduce(&args);
    assert_eq!(summarize(&result), found(&["`b`", "`d`"]), "{}", result.1);
    let wanted = "(--any-failure counts every failure)";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    let result = sandbox.reduce(&[&["--any-failure"], &args[..]].concat());
    assert_eq!(summarize(&result), found(&["`c`"]), "{}", result.1);
}

#[test]
fn a_reduction_runs_with_a_setting_that_raises_the_rate() {
    let sandbox = Sandbox::new();
    // A copy of the command that finds another copy of its trial fails.
    sandbox.write(
        "s.sh",
        "sleep 0.1\nmkdir -m 700 seen-$PROVOKE_TRIAL 2>&- || exit 3\n[ $PROVOKE_TRIAL != 5 ] || exit 3\nb=2\n",
    );
    let result = sandbox.reduce(&["--raise-rate", "--lines", "s.sh", "--", "sh", "s.sh"]);
    let needed = ["`mkdir -m 700 seen-$PROVOKE_TRIAL 2>&- || exit 3` (line 2)"];
    assert_eq!(summarize(&result), found(&needed), "{}", result.1);
    let raised = &result.0["answer"]["reduce"]["raised"];
    let setting = raised["setting"].as_str();
    assert!(
        setting.is_some_and(|setting| setting.starts_with("--copies ")),
        "{raised}"
    );
    assert!(!sandbox.path("seen-1").exists());
}

#[test]
fn the_directory_of_the_run_is_not_copied_into_variants() {
    let sandbox = Sandbox::new();
    sandbox.write("s.sh", SCRIPT);
    let line = "[ ! -e mine/out ] || exit 3; sh s.sh";
    std::fs::create_dir(sandbox.path("mine")).unwrap();
    let args = ["-o", "mine/out", "--lines", "s.sh", "--shell", line];
    let result = sandbox.reduce(&args);
    assert_eq!(summarize(&result).1.len(), 2, "{}", result.1);
    // Of the copies, only the result remains.
    let entries = std::fs::read_dir(sandbox.path("mine/out/variants")).unwrap();
    let folders = entries.filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(folders.count(), 1);
}

#[test]
fn a_killed_reduction_is_resumed_and_leaves_no_process() {
    let sandbox = Sandbox::new();
    sandbox.write("s.sh", SCRIPT);
    let here = sandbox.path("").display().to_string();
    let word = unique_linger();
    let line = format!(
        "echo $PROVOKE_TRIAL >> {here}/ran; [ $PROVOKE_TRIAL != 14 ] || while [ ! -e {here}/go ]; do sleep 0.01; done; sh s.sh"
    );
    let args = ["--lines", "s.sh", "--", "sh", "-c", &line, &word];
    let running = sandbox.start(&[&["reduce", "-o", "cut"], &FLAGS[..], &args].concat());
    wait_until("#14 runs", || sandbox.read("ran").contains("14\n"));
    running.signal(Signal::KILL);
    running.end();
    let gone = || processes_with(&word).is_empty();
    wait_until("its processes are gone", gone);
    sandbox.write("go", "");
    let output = sandbox.provoke(&words(
        "resume cut --progress=none --export-json resumed.json",
    ));
    assert_eq!(output.code, Some(0), "{output}");
    let resumed: Value = serde_json::from_str(&sandbox.read("resumed.json")).unwrap();
    let (whole, _) = sandbox.reduce(&args);
    assert_eq!(resumed["answer"], whole["answer"]);
    assert_eq!(resumed["verdict"], "found");
    assert!(sandbox.path("cut/reduced.patch").exists());
    assert!(gone());
}

#[test]
fn a_killed_reduction_of_imports_is_resumed_to_the_same_answer() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    let torch = r"
import atexit, os

def crash():
    if int(os.environ['PROVOKE_TRIAL']) % 3:
        os.kill(os.getpid(), 11)

atexit.register(crash)
";
    sandbox.write("torch.py", torch);
    let imports = "import json\nimport os\nimport math\nimport string\nimport torch\nimport sys\n";
    sandbox.write("app.py", &format!("{imports}\nprint(os.getpid())\n"));
    let (here, python) = (sandbox.path("").display().to_string(), python());
    let line = format!(
        "[ $PROVOKE_TRIAL -lt 13 ] || until [ -e {here}/go ]; do sleep 0.01; done; exec {python} -S app.py"
    );
    let args = ["--imports", "app.py", "--shell", &line];
    let cut = sandbox.command(&[&["reduce", "-o", "cut"], &FLAGS[..], &args].concat());
    sandbox.kill_after(12, "cut", cut);
    sandbox.write("go", "");
    let resumed = sandbox.provoke(&["resume", "cut", "--progress=none"]);
    let whole = sandbox.reduce(&args);
    assert_eq!(
        summarize(&whole),
        found(&["`import torch` (line 5)"]),
        "{}",
        whole.1
    );
    assert_eq!(resumed.answer(), whole.1.answer());
    assert_eq!(resumed.code, Some(0), "{resumed}");
    let patch = |run: &str| sandbox.read(&format!("{run}/reduced.patch"));
    assert_eq!(patch("cut"), patch("provoke-out/last"));
}

#[test]
fn a_file_changed_during_the_search_is_not_patched() {
    let sandbox = Sandbox::new();
    let original = sandbox.write("s.sh", SCRIPT);
    let here = original.display();
    let line = format!("[ $PROVOKE_TRIAL != 12 ] || echo '# mine' >> {here}; sh s.sh");
    let result = sandbox.reduce(&["-o", "out", "--apply", "--lines", "s.sh", "--shell", &line]);
    let answer = &result.0["answer"]["reduce"];
    assert!(answer["sentence"].is_string(), "{}", result.1);
    // With a changed file, no set can be tried, so the search is interrupted.
    assert_eq!(result.1.code, Some(3), "{}", result.1);
    let wanted = "`: `s.sh` has changed since the search began";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
    assert_eq!(sandbox.read("s.sh"), format!("{SCRIPT}# mine\n"));
}

#[test]
fn items_that_the_program_needs_to_run_are_reported_as_required() {
    let sandbox = Sandbox::new();
    let victim = ["--", PROVOKE, "victim", "exit", "--rate", "50%"];
    let result = sandbox.reduce(&[&["--args"], &victim[..]].concat());
    assert_eq!(summarize(&result), found(&[]), "{}", result.1);
    let required = &result.0["answer"]["reduce"]["required"];
    assert_eq!(*required, json!(["`victim`", "`exit`"]), "{}", result.1);
    let wanted = "only the items that it needs to run: with those alone it failed";
    assert!(result.1.stdout.contains(wanted), "{}", result.1);
}

#[test]
fn an_invalid_reduction_is_refused_with_a_hint() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.py", "import os\n\nx = (\n");
    sandbox.write("none.py", "x = 1\n");
    sandbox.write("none.txt", "x = 1\n");
    sandbox.write("empty.txt", "");
    let output_of = |args: &[&str]| {
        let all = [&["reduce"], args, &["--", "true"]].concat();
        sandbox.provoke(&all)
    };
    insta::assert_snapshot!(output_of(&[]), @"
    ------- stderr -------
    error: there are no items to reduce

    hint: name the items: --imports FILE, --lines FILE, --args, --variables, --set A,B,C ({set} in the command stands for the kept items), or --from OLD --to NEW
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--imports", "no.py"]), @"
    ------- stderr -------
    error: cannot read `SANDBOX/no.py`: No such file or directory (os error 2)

    hint: give the path of an existing file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--imports", "bad.py"]), @"
    ------- stderr -------
    error: bad.py:3:1: cannot parse this as Python: `x = (`

    hint: use --lines, which works for any file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--imports", "none.py"]), @"
    ------- stderr -------
    error: none.py: there are no imports in the file

    hint: choose another file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--lines", "empty.txt"]), @"
    ------- stderr -------
    error: empty.txt: there are no lines in the file

    hint: choose another file
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--lines", "/etc/passwd"]), @"
    ------- stderr -------
    error: `/etc/passwd` is not in `SANDBOX`

    hint: run in a directory that contains it: provoke copies the working directory and never changes the file itself
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--set", "a,b"]), @"
    ------- stderr -------
    error: `{set}` is not used, so nothing would change

    hint: put it where the items belong: -- ./program {set}. Alone it becomes one argument per item; within an argument, the items are joined by spaces; `{lines}` has one item per line
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--set", "a,b", "--args"]), @"
    ------- stderr -------
    error: `arguments` and `set` are both given

    hint: search one at a time
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--args"]), @"
    ------- stderr -------
    error: there are no items to reduce

    hint: check the file or the list
    [exit status: Some(2)]
    ");
    insta::assert_snapshot!(output_of(&["--from", "none.txt"]), @"
    ------- stderr -------
    error: `provoke reduce` needs --to FILE|RUN

    hint: `provoke reduce --help` describes the arguments
    [exit status: Some(2)]
    ");
    let language = output_of(&["--imports", "none.txt"]);
    assert!(
        language
            .stderr
            .starts_with("error: none.txt: cannot tell the language from the name of the file; "),
        "{language}"
    );
    let nameless = sandbox.provoke(&["reduce", "--set", "a,", "--", "true", "{set}"]);
    insta::assert_snapshot!(nameless, @"
    ------- stderr -------
    error: an item has no name

    hint: remove the extra comma
    [exit status: Some(2)]
    ");
    let shell = sandbox.provoke(&["reduce", "--args", "--shell", "true x"]);
    insta::assert_snapshot!(shell, @"
    ------- stderr -------
    error: the arguments of a `shell` line cannot be reduced

    hint: give the command without a shell: -- ./program argument
    [exit status: Some(2)]
    ");
}

#[test]
fn a_program_outside_of_the_copied_directory_is_found() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("app")).unwrap();
    sandbox.write("app/s.sh", SCRIPT);
    std::os::unix::fs::symlink("/bin/sh", sandbox.path("shell")).unwrap();
    let all = [
        "reduce", "--lines", "s.sh", "-o", "out", "--", "../shell", "s.sh",
    ];
    let mut command = sandbox.command(&all);
    let ended = limited::output(command.current_dir(sandbox.path("app")));
    let output: CommandOutput = ended.unwrap().into();
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("are needed"), "{output}");
}
