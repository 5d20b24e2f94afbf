//! Tests that a question is answered about one failure, and names another that occurs instead.

use super::support::{Sandbox, words};
use crate::needs::{needs, program, python};

/// Fails in every other trial with KeyError if `colorsys` is imported. Without `sys` it always fails, with NameError, and the
/// same exit code.
const JOB: &str = "\
import colorsys
import os
import sys

cache = {'a': 1}
if 'colorsys' in sys.modules and int(os.environ['PROVOKE_SEED']) % 2:
    del cache['a']
cache['a']
";

#[test]
fn an_import_without_which_another_error_occurs_must_stay() {
    needs!(program("python3"), program("patch"));
    let sandbox = Sandbox::new();
    sandbox.write("job.py", JOB);
    let args = words("reduce --seed 1 --imports job.py -- python3 job.py");
    let output = sandbox.provoke(&args);
    let answer = output.stdout.split("\n\n").next().unwrap();
    insta::assert_snapshot!(answer, @"
    `import colorsys` (line 1) is needed; without it, 0 of 6 failed
      `import os` (line 2) must stay: without it, exit 1: NameError: name 'os' is not defined
      `import sys` (line 3) must stay: without it, exit 1: NameError: name 'sys' is not defined
    ");
}

/// Ends of six versions: two crash, two fail in another way, and two pass.
const KINDS: &str =
    "case $0 in 1|2) kill -SEGV $$;; 3|4) echo 'RuntimeError: refused' >&2; exit 1;; esac";

#[test]
fn versions_that_fail_in_another_way_are_named_with_their_failure() {
    let sandbox = Sandbox::new();
    let search = |flags: &[&str], script: &str| {
        let command = ["--range", "1..6", "--", "sh", "-c", script, "{variant}"];
        let output =
            sandbox.provoke(&[&["bisect", "-q", "--seed", "1"], flags, &command[..]].concat());
        assert_eq!(output.code, Some(0), "{output}");
        // The probability also depends on the times of the trials.
        output.stdout.split(" (").next().unwrap().to_owned()
    };
    let fix = search(&["--fixed"], KINDS);
    insta::assert_snapshot!(fix, @"SIGSEGV up to 2, exit 1: RuntimeError: refused in 3 and 4, passes from 5");
    let broken =
        "case $0 in 5|6) kill -SEGV $$;; 3|4) echo 'RuntimeError: refused' >&2; exit 1;; esac";
    insta::assert_snapshot!(search(&[], broken), @"passes up to 2, exit 1: RuntimeError: refused in 3 and 4, SIGSEGV from 5");
}

#[test]
fn variants_that_always_fail_in_different_ways_differ() {
    let sandbox = Sandbox::new();
    let args = [
        "compare", "-q", "--seed", "1", "-L", "V=1,3", "--", "sh", "-c", KINDS, "{V}",
    ];
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(1), "{output}");
    insta::assert_snapshot!(output.stdout, @"DIFFERENT at 95 %: V=1 and V=3 fail in different ways: exit 1: RuntimeError: refused in 0 of 7 and 8 of 8, SIGSEGV in 7 of 7 and 0 of 8");
}

#[test]
fn a_fix_that_fails_in_another_way_is_not_called_fixed() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&[
        "run", "-n", "3", "-o", "before", "--", "sh", "-c", KINDS, "1",
    ]);
    let confirm = [
        "confirm",
        "-q",
        "--baseline",
        "before",
        "--",
        "sh",
        "-c",
        KINDS,
        "3",
    ];
    let output = sandbox.provoke(&confirm);
    assert_eq!(output.code, Some(3), "{output}");
    insta::assert_snapshot!(output.stdout, @"NOT KNOWN: no trial could show whether the failure of the baseline is gone; it failed in another way in 20 of 20 trials: exit 1: RuntimeError: refused; before, 3 of 3 failed");
}

/// Exits with 1 in six of 20 trials, and with 3 in one.
const TWO_BUGS: &str =
    "n=$((PROVOKE_SEED % 20)); [ $n -lt 6 ] && exit 1; [ $n -eq 6 ] && exit 3; exit 0";
const HALF_FIXED: &str = "n=$((PROVOKE_SEED % 20)); [ $n -eq 6 ] && exit 3; exit 0";

#[test]
fn a_fix_of_one_of_two_bugs_is_fixed_for_that_one_only() {
    let sandbox = Sandbox::new();
    sandbox.provoke(&[
        "run", "-n", "100", "--seed", "2", "-o", "before", "--", "sh", "-c", TWO_BUGS,
    ]);
    let confirm = |flags: &[&str], script: &str| {
        let command = ["--baseline", "before", "--", "sh", "-c", script];
        sandbox.provoke(&[&["confirm", "-q", "--seed", "3"], flags, &command[..]].concat())
    };
    let passes = confirm(&["-n", "30"], "true");
    assert_eq!(passes.code, Some(3), "{passes}");
    let answer = passes.to_string();
    insta::assert_snapshot!(answer.lines().next().unwrap(), @"NOT YET for exit 3, PROBABLY FIXED for exit 1 (95 %): 30 passing trials, 34 more needed, about TIME; before, 35 of 100 failed, and an unfixed program passes as often in 20 % of cases");
    let rare_bug = confirm(&[], HALF_FIXED);
    assert_eq!(rare_bug.code, Some(1), "{rare_bug}");
    let both = confirm(&[], "true");
    assert_eq!(both.code, Some(0), "{both}");
    insta::assert_snapshot!(both.stdout, @"FIXED (95 %): 130 passing trials; before, 35 of 100 failed. Even at half the rate of the rarest failure (exit 3 in 6 of 100), this many passes would occur by chance in at most 1 of 20 cases. This is check 3 against this baseline: the chance that one of them is a wrong FIXED is up to 15 %");
}

/// `test_report` always fails with KeyError after `test_clear`, and seldom with IndexError, also alone.
const TWO_FAULTS: &str = "\
import os

rows = {'all': [1]}
trial = int(os.environ['PROVOKE_SEED'])

def test_add():
    rows['all'] = [2]

def test_clear():
    rows.clear()

def test_sort():
    assert sorted([2, 1]) == [1, 2]

def test_report():
    if trial % 6 == 0:
        [].pop()
    assert rows['all']
";

#[test]
fn the_polluter_of_the_usual_failure_is_found_although_the_test_also_fails_alone() {
    needs!(python("pytest"));
    let sandbox = Sandbox::new();
    sandbox.write("test_faults.py", TWO_FAULTS);
    let test = "test:test_faults.py::test_report";
    let pytest = ["--", "python3", "-m", "pytest", "-q", "test_faults.py"];
    sandbox.provoke(&[&["run", "--cases", "-n", "3", "--seed", "1"], &pytest[..]].concat());
    let search = [
        "reduce",
        "-q",
        "--seed",
        "1",
        "--polluters",
        "last",
        "--only",
        test,
    ];
    let output = sandbox.provoke(&[&search[..], &pytest[..]].concat());
    assert_eq!(output.code, Some(0), "{output}");
    insta::assert_snapshot!(output.stdout, @"`test_faults.py::test_clear` is needed; without it, 0 of 3 failed");
}
