//! Tests `zoo`: the files that it writes, and its commands and those of its pages, as they are written there.

use super::support::{PROVOKE, Sandbox};
use crate::limited;
use crate::needs::{needs, program, python};
use regex::Regex;
use std::fs;
use std::path::Path;

/// Returns the commands of a page without the first one, which writes the files. Each is in one line.
fn page_commands(name: &str) -> Vec<String> {
    let page = format!("docs/zoo/{name}.md");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let page = page.replace("\\\n    ", "");
    let block = Regex::new(r"(?m)^```(?:sh\n|text\n\$ )(.*)$").unwrap();
    let commands = block
        .captures_iter(&page)
        .map(|command| command[1].to_owned());
    let mut commands: Vec<_> = commands.collect();
    let first = commands.remove(0);
    assert_eq!(first, format!("provoke zoo {name} && cd {name}"));
    commands
}

/// Returns the names in the list, in its order.
fn names(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.provoke(&["zoo"]).stdout;
    list.lines()
        .filter(|line| !line.starts_with("    "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .collect()
}

/// Writes the files of a bug, and returns the printed commands.
fn write_files(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let output = sandbox.provoke(&["zoo", name]);
    assert_eq!(output.code, Some(0), "{output}");
    let (_, next) = output.stderr.split_once("then:\n").unwrap();
    let commands = output.stdout.lines().chain(next.lines());
    commands.map(str::to_owned).collect()
}

/// Runs a command of a shell, and asserts its exit code and words of its output.
fn run_line(sandbox: &Sandbox, line: &str, code: i32, words: &[&str]) {
    let folder = Path::new(PROVOKE).parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let mut command = sandbox.program_command("sh", &["-c", line]);
    let output = limited::output(command.env("PATH", path)).unwrap();
    let output = super::support::CommandOutput::from(output);
    assert_eq!(output.code, Some(code), "{line}: {output}");
    for word in words {
        assert!(output.stdout.contains(word), "{line}: no {word}: {output}");
    }
}

#[test]
fn each_bug_has_a_page_with_its_commands() {
    let sandbox = Sandbox::new();
    let names = names(&sandbox);
    assert_eq!(names.len(), 12, "{names:?}");
    for name in names {
        let printed = write_files(&sandbox, &name);
        let mut commands = page_commands(&name);
        commands[0].insert_str(0, &format!("cd {name} && "));
        assert_eq!(printed, commands);
        assert!(commands.len() > 1, "{name} has no fix");
        assert!(sandbox.path(&name).join("fix.patch").is_file(), "{name}");
    }
}

#[test]
fn the_list_is_complete_and_the_files_are_new() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(sandbox.provoke(&["zoo"]), @r"
      deadlock          two threads take two mutexes in different orders
                        Why does it hang?
      python-threads    two threads of Python take two locks in different orders
                        Which lines of Python wait for each other?
      race              two threads change a number without a lock
                        Which lines race, if it almost never fails?
      file-race         two processes use one temporary file
                        Which lines of two processes race?
      heap-corruption   a string is longer than its block
                        Which line damages the heap?
      half-fix          a fix removes one of two causes of a crash
                        Is it fixed, or only rarer?
      leaked-daemon     a test leaves a process behind
                        Which processes outlive the test?
      order             a test fails only after another one
                        Which test of a suite is flaky, and after which other?
      deadline          a deadline is too short for a busy machine
                        Does it fail only under load?
      date              a licence for tests expires
                        Under which conditions does it fail?
      retry             a request is sent twice if its answer is late
                        What do failing runs do differently?
      server            a server has too few database connections
                        At which concurrency does it crash?
    ------- stderr -------

    write the files of one   provoke zoo NAME
    [exit status: Some(0)]
    ");
    insta::assert_snapshot!(sandbox.provoke(&["zoo", "race", "-o", "my race"]), @r"
    cd 'my race' && cc -g -pthread race.c -o race && provoke hunt --seed 1 -- ./race
    ------- stderr -------
    wrote race.c, fix.patch to `my race`; next:
    then:
    patch <fix.patch && cc -g -pthread race.c -o race && provoke confirm --held last
    [exit status: Some(0)]
    ");
    insta::assert_snapshot!(sandbox.provoke(&["zoo", "race", "-o", "my race"]), @r"
    ------- stderr -------
    error: cannot write to a new directory `my race`
      caused by: File exists (os error 17)

    hint: choose another directory with `-o`
    [exit status: Some(125)]
    ");
    insta::assert_snapshot!(sandbox.provoke(&["zoo", "rase"]), @r"
    ------- stderr -------
    error: invalid value 'rase' for '[NAME]'
      [possible values: deadlock, python-threads, race, file-race, heap-corruption, half-fix, leaked-daemon, order, deadline, date, retry, server]

      tip: a similar value exists: 'race'

    hint: `provoke zoo --help` describes the arguments
    [exit status: Some(2)]
    ");
}

/// Runs the commands of a page. `endings` has the exit code and the decisive words of each.
fn run_page(name: &str, endings: &[(i32, &[&str])]) {
    let sandbox = Sandbox::new();
    write_files(&sandbox, name);
    let commands = page_commands(name);
    assert_eq!(commands.len(), endings.len(), "{commands:?}");
    for (command, (code, words)) in commands.iter().zip(endings) {
        run_line(&sandbox, &format!("cd {name} && {command}"), *code, words);
    }
}

const FIXED: (i32, &[&str]) = (0, &["FIXED (95 %)"]);

#[test]
fn a_date_is_found_and_its_fix_confirmed_at_that_date() {
    needs!(program("patch"), python("unittest"));
    let found = ["It fails under date=2039-06-15", "it depends on the date"];
    run_page("date", &[(0, &found), FIXED]);
}

#[test]
fn a_late_answer_is_named_before_the_failure_and_its_fix_confirmed() {
    needs!(program("cc"), program("patch"));
    // On a busy machine, what another thread did until the timeout can separate the trials best.
    let found = ["a timeout from poll()"];
    run_page("retry", &[(0, &found), FIXED]);
}

#[test]
fn a_damaged_heap_is_found_and_fixed() {
    needs!(program("cc"), program("patch"));
    let words = [
        "build=checked: exit 1 in 15 of 20",
        "build=plain: SIGABRT in 10 of 20",
        "AddressSanitizer heap-buffer-overflow in label_of",
    ];
    run_page("heap-corruption", &[(1, &words), FIXED]);
}

#[test]
fn half_a_fix_is_not_fixed() {
    needs!(program("cc"), program("patch"));
    let crash = ["SIGSEGV in 17 of 40"];
    let refused = ["NOT FIXED: trial #14 failed after 13 passing trials"];
    run_page("half-fix", &[(1, &crash), (1, &refused), FIXED]);
}

#[test]
fn a_process_that_outlives_its_test_is_found_and_fixed() {
    needs!(program("setsid"), program("patch"));
    let words = ["leak in 11 of 20", "left processes"];
    run_page("leaked-daemon", &[(1, &words), FIXED]);
}

#[test]
fn a_deadlock_of_mutexes_is_found_and_fixed() {
    needs!(program("cc"), program("patch"));
    let words = [
        "hang in",
        "for audit, which transfer holds",
        "for pool, which summary holds",
    ];
    run_page("deadlock", &[(1, &words), FIXED]);
}

#[test]
#[ignore = "takes two minutes, and its programs need much of the machine"]
fn the_commands_of_the_slow_pages_work() {
    needs!(program("cc"), program("patch"), python("pytest"));
    let race = ["thread is held", "race.c:7 in deposit"];
    run_page("race", &[(1, &race), FIXED]);
    run_page(
        "file-race",
        &[(1, &["if a thread is held", "rename: No such file"]), FIXED],
    );
    let hang = ["hang in", "transfer.py:12"];
    run_page("python-threads", &[(1, &hang), FIXED]);
    let polluter = ["`test_prices.py::test_discount` is needed"];
    let total = ["test_prices.py::test_total"];
    run_page("order", &[(1, &total), (0, &polluter), FIXED]);
    run_page("deadline", &[(1, &["crowded fails more often"]), FIXED]);
    let level = ["It dies from 5 clients on: exit 1: _queue.Empty"];
    run_page("server", &[(0, &level), (0, &["THE FIX HOLDS"])]);
}
