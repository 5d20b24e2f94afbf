//! Errors in scenario files, and the settings that files give.

use insta::assert_snapshot;
use proptest::prelude::*;
use provoke_model::Plan;
use provoke_plan::{
    EnvValue, PlanContext, RateValue, SCENARIO_SCHEMA, Scenario, plan_file, render_in_file,
};
use provoke_questions as questions;
use provoke_words::diagnostic::Diagnostic;
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

fn plan_context(base: &Path) -> PlanContext {
    PlanContext {
        environment: Vec::new(),
        base: base.to_owned(),
        seed: 7,
        baseline: None,
        held: None,
        searched: None,
    }
}

fn plan_of(text: impl AsRef<[u8]>, overlay: impl Fn(&mut Scenario)) -> Result<Plan, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, text).unwrap();
    let prefix = format!("{}/", folder.path().display());
    plan_of_file(&file, &overlay).map_err(|error| render(&error, false).replace(&prefix, ""))
}

fn render(error: &Diagnostic, styled: bool) -> String {
    render_in_file(error, styled).expect("an error in a file")
}

fn error_of(text: impl AsRef<[u8]>) -> String {
    plan_of(text, |_| {}).unwrap_err()
}

fn plan_of_file(file: &Path, overlay: &dyn Fn(&mut Scenario)) -> Result<Plan, Diagnostic> {
    let context = |_: &Scenario, base: &Path| Ok(plan_context(base));
    plan_file(file, overlay, context, questions::plan)
}

#[test]
fn a_misspelt_field_is_refused_with_the_right_name() {
    assert_snapshot!(error_of("command = ['x']\ntimeuot = \"60s\" # a minute\n"), @r#"
    error: there is no field `timeuot`
     --> s.toml:2:1
      |
    2 | timeuot = "60s" # a minute
      | ^^^^^^^
      |
      = help: did you mean `timeout`? Treat a trial as hung after TIME [default: auto]
    "#);
    assert_snapshot!(error_of("command = ['x']\nfail_fast = true\n"), @"
    error: there is no field `fail_fast`
     --> s.toml:2:1
      |
    2 | fail_fast = true
      | ^^^^^^^^^
      |
      = help: did you mean `fail-fast`? Stop at the first failure
    ");
}

#[test]
fn the_suggested_field_can_have_the_value() {
    assert_snapshot!(error_of("command = ['x']\nrun = 5\n"), @"
    error: there is no field `run`
     --> s.toml:2:1
      |
    2 | run = 5
      | ^^^
      |
      = help: did you mean `runs`? Run this many trials of each variant [default: 100]
    ");
    let command = error_of("run = ['x']\n");
    assert!(command.contains("did you mean `command`?"), "{command}");
}

#[test]
fn field_names_of_other_tools_are_refused_with_the_right_name() {
    assert_snapshot!(error_of("command = ['x']\nparallel = 4\n"), @"
    error: there is no field `parallel`
     --> s.toml:2:1
      |
    2 | parallel = 4
      | ^^^^^^^^
      |
      = help: did you mean `jobs`? Run this many trials in parallel [default: 1]
    ");
    assert_snapshot!(error_of("command = ['x']\n[env-vars]\nA = '1'\n"), @"
    error: there is no field `env-vars`
     --> s.toml:2:2
      |
    2 | [env-vars]
      |  ^^^^^^^^
      |
      = help: did you mean `env`? Set a variable (K=V), or remove it (K)
    ");
}

#[test]
fn an_unknown_field_is_refused_with_the_valid_names() {
    assert_snapshot!(error_of("zebra = 1\n"), @"
    error: there is no field `zebra`
     --> s.toml:1:1
      |
    1 | zebra = 1
      | ^^^^^
      |
      = help: fields have the names of flags: see `provoke run --help`
    ");
    assert_snapshot!(error_of("shell = 'x'\n[[variant]]\nname = 'a'\nzebra = 1\n"), @"
    error: there is no field `zebra` in `[[variant]]`
     --> s.toml:4:1
      |
    4 | zebra = 1
      | ^^^^^
      |
      = help: valid names: `name`, `command`, `shell`, `args`, `env`, `cwd`, `stdin`, `copies`, `image`, `setup`, `prepare`, `conclude`, `cleanup`, `files` or `edit`
    ");
}

#[test]
fn a_field_in_the_wrong_table_is_refused_with_the_right_table() {
    assert_snapshot!(error_of("shell = 'x'\n[[variant]]\nname = 'a'\ntimeout = 5\n"), @"
    error: there is no field `timeout` in `[[variant]]`
     --> s.toml:4:1
      |
    4 | timeout = 5
      | ^^^^^^^
      |
      = help: `timeout` belongs to the whole scenario: move it above the first line in brackets
    ");
    assert_snapshot!(error_of("shell = 'x'\nargs = ['-v']\n"), @"
    error: there is no field `args`
     --> s.toml:2:1
      |
    2 | args = ['-v']
      | ^^^^
      |
      = help: `args` is a field of `[[variant]]`
    ");
}

#[test]
fn a_scenario_field_below_the_env_table_is_refused() {
    assert_snapshot!(error_of("shell = 'x'\n\n[env]\nLANG = 'C'\nruns = 5\n"), @"
    error: `runs` below `[env]` would be an environment variable
     --> s.toml:5:1
      |
    5 | runs = 5
      | ^^^^
      |
      = help: to set `runs` of the scenario, move it above the first line in brackets
      = help: to set a variable: `env = { runs = 5 }`
    ");
    assert!(plan_of("shell = 'x'\nenv = { runs = 5 }\n", |_| {}).is_ok());
    assert!(plan_of("shell = 'x'\nenv.runs = 5\n", |_| {}).is_ok());
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_the_right_form() {
    assert_snapshot!(error_of("command = \"./server --port 80\"\n"), @r#"
    error: `command` must be a list, not text
     --> s.toml:1:11
      |
    1 | command = "./server --port 80"
      |           ^^^^^^^^^^^^^^^^^^^^
      |
      = help: it is a list of the program and its arguments: `command = ["./server", "--port", "80"]`
    "#);
    assert_snapshot!(error_of("command = \"a | b\"\n"), @r#"
    error: `command` must be a list, not text
     --> s.toml:1:11
      |
    1 | command = "a | b"
      |           ^^^^^^^
      |
      = help: to run a line of shell: `shell = "a | b"`
    "#);
    assert_snapshot!(error_of("command = ['sleep', 5]\n"), @r#"
    error: each item of `command` must be text, not a whole number
     --> s.toml:1:21
      |
    1 | command = ['sleep', 5]
      |                     ^
      |
      = help: put it in quotes: `"5"`
    "#);
    assert_snapshot!(error_of("runs = \"30\"\n"), @r#"
    error: `runs` must be a whole number, not text
     --> s.toml:1:8
      |
    1 | runs = "30"
      |        ^^^^
      |
      = help: without the quotes: `runs = 30`
    "#);
    assert_snapshot!(error_of("only = 'SIGSEGV'\n"), @"
    error: `only` must be a list, not text
     --> s.toml:1:8
      |
    1 | only = 'SIGSEGV'
      |        ^^^^^^^^^
      |
      = help: it is a list: `only = ['SIGSEGV']`
    ");
    assert_snapshot!(error_of("[actor]\nname = 'a'\n"), @"
    error: `actor` must be a list, not a table
     --> s.toml:1:1
      |
    1 | [actor]
      | ^^^^^^^
      |
      = help: write `[[actor]]` with two brackets, because there can be several
    ");
    assert_snapshot!(error_of("shell = 'x'\n[env]\nDEBUG = true\n"), @r#"
    error: `true` is not a value; write "true" with quotes
     --> s.toml:3:9
      |
    3 | DEBUG = true
      |         ^^^^
      |
      = help: for example `DEBUG = "1"`: The value, or `false` to remove the variable
    "#);
    assert_snapshot!(error_of("env = ['A=1']\n"), @r#"
    error: `env` must be a table, not a list
     --> s.toml:1:7
      |
    1 | env = ['A=1']
      |       ^^^^^^^
      |
      = help: write `[env]` with one bracket, followed by lines such as `NAME = "value"`
    "#);
}

#[test]
fn invalid_values_are_refused_with_an_explanation() {
    assert_snapshot!(error_of("shell = 'x'\ntimeout = \"60x\"\n"), @r#"
    error: `60x` is not a time such as `60s`, `1.5s`, `200ms`, `2m` or `1h 30m`, or `auto`
     --> s.toml:2:11
      |
    2 | timeout = "60x"
      |           ^^^^^
      |
      = help: for example `timeout = "60s"`: Treat a trial as hung after TIME [default: auto]
    "#);
    assert_snapshot!(error_of("shell = 'x'\nonly = [\"SIGSEV\"]\n"), @r#"
    error: `SIGSEV` is not a kind of failure: a signal name, `code:N`, `sig:ID`, `test:NAME`, `hang`, `timeout`, `leak`, `oom` or `output`; did you mean `SIGSEGV`?
     --> s.toml:2:9
      |
    2 | only = ["SIGSEV"]
      |         ^^^^^^^^
      |
      = help: `only`: Count only this kind, such as SIGSEGV or code:3
    "#);
    assert_snapshot!(error_of("shell = 'x'\nfail-if-out = ['ok', '(a']\n"), @"
    error: `(a` is not a regular expression: unclosed group
     --> s.toml:2:22
      |
    2 | fail-if-out = ['ok', '(a']
      |                      ^^^^
      |
      = help: `fail-if-out`: Fail the trial if a line of its output matches
    ");
    assert_snapshot!(error_of("shell = 'x'\nkeep = 'al'\n"), @"
    error: `keep` cannot be `al`
     --> s.toml:2:8
      |
    2 | keep = 'al'
      |        ^^^^
      |
      = help: did you mean `all`? It is `fail`, `all` or `none`
    ");
    assert_snapshot!(error_of("shell = 'x'\n[rlimit]\nmem = '4G'\n"), @"
    error: there is no limit `mem`
     --> s.toml:3:1
      |
    3 | mem = '4G'
      | ^^^
      |
      = help: did you mean `as`?
    ");
    assert_snapshot!(error_of("shell = 'x'\nmax-rate = 2.5\n"), @r#"
    error: `2.5` is not a rate above 0 and up to 1, such as `0.05` or `5%`; did you mean `2.5%`?
     --> s.toml:2:12
      |
    2 | max-rate = 2.5
      |            ^^^
      |
      = help: for example `max-rate = "5%"`: Allow a failure rate of up to P, such as 2%
    "#);
}

#[test]
fn numbers_out_of_range_are_refused() {
    assert_snapshot!(error_of("jobs = 0\n"), @"
    error: `jobs` must be at least 1
     --> s.toml:1:8
      |
    1 | jobs = 0
      |        ^
      |
      = help: for example `jobs = 1`: Run this many trials in parallel [default: 1]
    ");
    assert_snapshot!(error_of("ok = [0, 300]\n"), @"
    error: each item of `ok` must be at most 255
     --> s.toml:1:10
      |
    1 | ok = [0, 300]
      |          ^^^
      |
      = help: for example `ok = 0`: Exit codes that pass, such as 0,2 [default: 0]
    ");
    assert_snapshot!(error_of("seed = 99999999999999999999\n"), @"
    error: `seed` must be at most 18446744073709551615
     --> s.toml:1:8
      |
    1 | seed = 99999999999999999999
      |        ^^^^^^^^^^^^^^^^^^^^
      |
      = help: for example `seed = 1`: Derive the seeds of all trials from this number [default: random]
    ");
}

#[test]
fn syntax_errors_are_explained() {
    assert_snapshot!(error_of("timeout = 60s\n"), @r#"
    error: text needs quotes
     --> s.toml:1:11
      |
    1 | timeout = 60s
      |           ^^^
      |
      = help: write `timeout = "60s"`
    "#);
    assert_snapshot!(error_of("fail-fast = True\n"), @"
    error: TOML only has `true` and `false`
     --> s.toml:1:13
      |
    1 | fail-fast = True
      |             ^^^^
      |
      = help: write `fail-fast = true`
    ");
    assert_snapshot!(error_of("shell = \u{201c}ls -l\u{201d}\n"), @r#"
    error: these are typographic quotes
     --> s.toml:1:9
      |
    1 | shell = “ls -l”
      |         ^^^^^^^
      |
      = help: write `shell = "ls -l"`
    "#);
    assert_snapshot!(error_of("runs: 30\n"), @"
    error: key with no value, expected `=`
     --> s.toml:1:7
      |
    1 | runs: 30
      |       ^
      |
      = help: TOML uses `=`: `runs = 30`
    ");
    assert_snapshot!(error_of("runs = 3\nruns = 4\n"), @"
    error: duplicate key
     --> s.toml:2:1
      |
    2 | runs = 4
      | ^^^^
      |
      = help: each name and each table such as `[env]` can appear once
    ");
    assert_snapshot!(error_of("shell = \"abc\ncopies = 2\n"), @r#"
    error: text without an end
     --> s.toml:1:13
      |
    1 | shell = "abc
      |             ^
      |
      = help: end text with the quote it began with, in the same line; use """...""" for several lines
    "#);
    assert_snapshot!(error_of("{ \"runs\": 3 }\n"), @r#"
    error: invalid key-value pair, expected key
     --> s.toml:1:1
      |
    1 | { "runs": 3 }
      | ^
      |
      = help: this looks like JSON; a scenario is TOML, with lines such as `runs = 30`
    "#);
    assert_snapshot!(error_of("command = ['a'\nruns = 3\n"), @"
    error: missing comma between array elements, expected `,`
     --> s.toml:2:1
      |
    2 | runs = 3
      | ^
      |
      = help: items are separated by commas, and the list ends with `]`
    ");
    assert_snapshot!(error_of("shell = \"C:\\users\"\n"), @r#"
    error: too few unicode value digits, expected unicode hexadecimal value
     --> s.toml:1:14
      |
    1 | shell = "C:\users"
      |              ^
      |
      = help: write a backslash twice within "...", and once within '...'
    "#);
}

#[test]
fn an_invalid_plan_is_reported_at_its_line() {
    assert_snapshot!(error_of(""), @r#"
    error: there is no command to run
     --> s.toml:1:1
      |
    1 |
      | ^
      |
      = help: add `command = ["program", "argument"]`, or `shell = "a | b"`
    "#);
    assert_snapshot!(error_of("shell = 'x'\njobs = 2\nwave = 3\n"), @"
    error: `wave` starts 3 trials together, and `jobs` allows 2
     --> s.toml:3:8
      |
    3 | wave = 3
      |        ^
      |
      = help: give one of the two: a wave of N implies N jobs
    ");
    let twins = "shell = 'x'\n[[variant]]\nname = 'a'\n[[variant]]\nname = 'a'\n";
    assert_snapshot!(error_of(twins), @"
    error: two variants have the name `a`
     --> s.toml:5:8
      |
    5 | name = 'a'
      |        ^^^
      |
      = help: give each variant a different `name`
    ");
    let service = "[[actor]]\nname = 'x'\nshell = 'x'\n\n[[actor]]\nname = 'db'\nrole = 'service'\nshell = 'y'\n";
    assert_snapshot!(error_of(service), @"
    error: there is a service, but no [load] table
     --> s.toml:7:8
      |
    7 | role = 'service'
      |        ^^^^^^^^^
      |
      = help: add the URL of the service: `[load] url = ...`; or use the role `helper` for a process beside the main process
    ");
    assert_snapshot!(error_of("shell = 'x'\n[[variant]]\nname = 'a'\nargs = ['-v']\n"), @"
    error: `args` cannot be added to a `shell` line
     --> s.toml:4:8
      |
    4 | args = ['-v']
      |        ^^^^^^
      |
      = help: give the variant its own `shell` line, or use `command`
    ");
    assert_snapshot!(error_of("shell = 'x'\n[env]\n'A=B' = 1\n"), @"
    error: `A=B` cannot be the name of a variable
     --> s.toml:3:9
      |
    3 | 'A=B' = 1
      |         ^
      |
      = help: use a name that is not empty and does not contain `=`
    ");
}

#[test]
fn a_conflict_with_a_flag_is_explained() {
    let five = |scenario: &mut Scenario| scenario.trials.wave = NonZeroU32::new(5);
    assert_snapshot!(plan_of("shell = 'x'\njobs = 2\n", five).unwrap_err(), @"
    error: `wave` starts 5 trials together, and `jobs` allows 2
    --> s.toml
     = note: flags of the command line win over the file
     = help: give one of the two: a wave of N implies N jobs
    ");
    let two = |scenario: &mut Scenario| scenario.trials.jobs = NonZeroU32::new(2);
    assert_snapshot!(plan_of("shell = 'x'\nwave = 5\n", two).unwrap_err(), @"
    error: `wave` starts 5 trials together, and `jobs` allows 2
     --> s.toml:2:8
      |
    2 | wave = 5
      |        ^
      |
      = note: flags of the command line win over the file
      = help: give one of the two: a wave of N implies N jobs
    ");
}

#[test]
fn invalid_utf8_is_reported_at_its_first_byte() {
    assert_snapshot!(error_of(b"runs = 3\nshell = 'gr\xfcn'\n"), @"
    error: the file is not UTF-8 text
     --> s.toml:2:12
      |
    2 | shell = 'gr�n'
      |            ^
      |
      = help: save it as UTF-8; is it the right file?
    ");
}

#[test]
fn tabs_and_wide_characters_do_not_shift_the_carets() {
    assert_snapshot!(error_of("\truns = 3\r\n\tshell = '日本' \t# ü\r\n\tzebra = 1\r\n"), @"
    error: there is no field `zebra`
     --> s.toml:3:2
      |
    3 |     zebra = 1
      |     ^^^^^
      |
      = help: fields have the names of flags: see `provoke run --help`
    ");
}

#[test]
fn a_byte_order_mark_is_ignored() {
    assert!(error_of("\u{feff}runz = 3\n").contains("s.toml:1:1"));
}

#[test]
fn control_characters_are_not_printed() {
    let text = error_of("\"\\u001b[31mred\" = 1\n");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let error = plan_of_file(Path::new("no\u{1b}[31m.toml"), &|_| {}).unwrap_err();
    assert!(!render(&error, false).contains('\u{1b}'));
    assert!(render(&error, true).contains('\u{1b}'));
}

#[test]
fn unreadable_files_are_refused_with_different_hints() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("{}/", folder.path().display());
    let load = |name: &str| {
        let error = plan_of_file(&folder.path().join(name), &|_| {}).unwrap_err();
        render(&error, false).replace(&prefix, "")
    };
    fs::write(folder.path().join("race.toml"), "").unwrap();
    assert_snapshot!(load("rice.toml"), @"
    error: there is no such file
    --> rice.toml
     = help: did you mean `race.toml`?
    ");
    assert_snapshot!(load("other/zebra.toml"), @"
    error: there is no such file
    --> other/zebra.toml
     = help: give the path of a scenario file
    ");
    fs::create_dir(folder.path().join("races")).unwrap();
    fs::write(folder.path().join("races/scenario.toml"), "").unwrap();
    assert_snapshot!(load("races"), @"
    error: this is a directory, not a scenario file
    --> races
     = help: did you mean the file in it: `races/scenario.toml`?
    ");
    fs::write(folder.path().join("big.toml"), vec![b'#'; 10 << 20]).unwrap();
    assert_snapshot!(load("big.toml"), @"
    error: the file is too large for a scenario file: more than 1 MiB
    --> big.toml
     = help: is it the right file? Put long input in a file that `stdin` or `command` names
    ");
    assert!(plan_of_file(Path::new(""), &|_| {}).is_err());
}

#[test]
fn relative_paths_are_relative_to_the_directory_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let file = folder.path().join("sub/s.toml");
    fs::write(&file, "shell = 'x'\nstdin = 'in.txt'\ncwd = 'work'\n").unwrap();
    let mut base_directory = PathBuf::new();
    let context = |_: &Scenario, base: &Path| {
        base_directory = base.to_owned();
        Ok(plan_context(base))
    };
    let plan = plan_file(&file, &|_| {}, context, questions::plan).unwrap();
    let sub = folder.path().join("sub");
    let actor = &plan.trials.variants[0].actors[0];
    assert_eq!(base_directory, sub);
    assert_eq!(Path::new(actor.cwd.as_os_str()), sub.join("work"));
    let input = actor.stdin.as_ref().unwrap();
    assert_eq!(Path::new(input.as_os_str()), sub.join("in.txt"));
}

#[test]
fn the_working_directory_is_an_absolute_path() {
    // The parent of a file without a directory is "", which is not a valid working directory.
    let mut file = tempfile::Builder::new()
        .prefix("provoke-")
        .suffix(".toml")
        .tempfile_in(".")
        .unwrap();
    std::io::Write::write_all(&mut file, b"shell = 'x'").unwrap();
    let name = Path::new(file.path().file_name().unwrap());
    let plan = plan_of_file(name, &|_| {}).unwrap();
    let cwd = &plan.trials.variants[0].actors[0].cwd;
    assert_eq!(
        Path::new(cwd.as_os_str()),
        std::env::current_dir().unwrap().join("")
    );
}

#[test]
fn flags_override_the_file() {
    let plan = plan_of("shell = 'x'\nruns = 30\n", |scenario| {
        scenario.trials.runs = Some(5);
    })
    .unwrap();
    assert_eq!(plan.stop.trials, Some(5));
}

#[test]
fn numbers_and_equal_text_give_the_same_scenario() {
    let text = "timeout = 60\nok = [0, 2]\nconf = 99\nwidth = 0.05\n[env]\nA = 1\nB = false\n[rlimit]\ncore = 0\nas = '4G'\n";
    let other = "timeout = '1m'\nok = '0,2'\nconf = '99%'\nwidth = '5%'\n[env]\nA = '1'\nB = false\n[rlimit]\ncore = '0'\nas = 4294967296\n";
    let (one, two) = (
        text.parse::<Scenario>().unwrap(),
        other.parse::<Scenario>().unwrap(),
    );
    assert_eq!(format!("{one:?}"), format!("{two:?}"));
    assert_eq!(one.program.env.0["B"], EnvValue(None));
}

/// Returns all scenarios of the repository, and the example of the reference.
fn checked_in_scenarios() -> Vec<(String, String)> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    let mut folders = vec![root.join("scenarios")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "toml") {
                files.push((
                    path.display().to_string(),
                    fs::read_to_string(&path).unwrap(),
                ));
            }
        }
    }
    let reference = fs::read_to_string(root.join("docs/scenario.md")).unwrap();
    let example = reference
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    files.push(("docs/scenario.md".to_owned(), example.to_owned()));
    files
}

#[test]
fn every_checked_in_scenario_gives_a_plan() {
    for (name, text) in checked_in_scenarios() {
        // Other files that the scenario refers to are not read here.
        let plan = plan_of(&text, |scenario| {
            if !scenario.items.imports.is_empty() || scenario.items.from.is_some() {
                scenario.items.imports.clear();
                (scenario.items.from, scenario.items.to) = (None, None);
                scenario.items.arguments = Some(true);
                if scenario.program.shell.take().is_some() {
                    scenario.program.command = Some(vec!["sh".to_owned(), "line".to_owned()]);
                }
            }
            if scenario.baseline.baseline.take().is_some() {
                scenario.confirm.assume_rate = Some(RateValue(100_000));
            }
            let tags = scenario
                .program
                .image
                .as_ref()
                .is_some_and(|image| image.contains(','));
            if scenario.candidates.pip.is_some() || tags {
                (scenario.candidates.pip, scenario.bisect.requirements) = (None, None);
                scenario.program.image.take_if(|_| tags);
                scenario.candidates.over = ["1.0", "2.0"].map(str::to_owned).to_vec();
            }
        });
        assert!(plan.is_ok(), "{name}: {}", plan.unwrap_err());
    }
}

/// Makes a plan of a file with this content, and checks the properties of an error.
fn outcome(bytes: &[u8]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, bytes).unwrap();
    let result = plan_of_file(&file, &|_| {});
    let Err(error) = result else {
        return Ok(());
    };
    let text = render(&error, false);
    let place = text.split_once("s.toml:").map(|(_, place)| place);
    let line = place.and_then(|place| place.split_once(':'));
    prop_assert!(
        line.is_some_and(|(line, _)| line.parse::<u32>().is_ok()),
        "{text}"
    );
    prop_assert!(
        text.starts_with("error: ") && text.contains("= help: "),
        "{text}"
    );
    prop_assert!(!render(&error, true).is_empty());
    for ours in [
        "invalid type",
        "invalid value",
        "unknown field",
        "unknown variant",
        "missing field",
    ] {
        prop_assert!(
            !error.message.starts_with(ours),
            "the check should have seen it: {text}"
        );
    }
    Ok(())
}

/// Generates names and values of which some fit each other.
fn line() -> impl Strategy<Value = String> {
    let fields: Vec<String> = SCENARIO_SCHEMA["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let inner = [
        "name", "role", "args", "A", "as", "core", "x.y", "\"a b\"", "ünï",
    ]
    .map(String::from);
    let key = prop_oneof![4 => prop::sample::select(fields), 2 => prop::sample::select(inner.to_vec()), 1 => "[a-z_-]{1,8}"];
    let values = [
        "1",
        "0",
        "-1",
        "3000000000",
        "99999999999999999999",
        "9223372036854775808",
        "0xff",
        "1.5",
        "inf",
        "nan",
        "true",
        "false",
        "\"60s\"",
        "'auto'",
        "\"5%\"",
        "'x'",
        "''",
        "'main'",
        "'helper'",
        "'service'",
        "'a'",
        "'b'",
        "'(a'",
        "\"\\u0000\"",
        "[]",
        "['x']",
        "[1, 'x']",
        "['SIGSEGV', 'hang']",
        "{}",
        "{ A = 1 }",
        "{ as = '4G' }",
        "[{ name = 'a', shell = 'x' }]",
        "[[[]]]",
        "2024-01-01",
        "60s",
        "\"",
        "[",
        "'''\nmany\nlines'''",
        "1e400",
        "0.05",
        "'unlimited'",
        "99.5",
    ];
    let value = prop::sample::select(values.to_vec());
    let headers = [
        "[env]",
        "[rlimit]",
        "[[actor]]",
        "[[variant]]",
        "[actor]",
        "[variant.env]",
        "[actor.env]",
        "[zebra]",
        "# remark",
        "",
    ];
    prop_oneof![
        6 => (key, value).prop_map(|(key, value)| format!("{key} = {value}")),
        2 => prop::sample::select(headers.to_vec()).prop_map(String::from),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_scenario_or_an_error_with_a_position(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        outcome(&bytes)?;
    }

    #[test]
    fn any_text_is_a_scenario_or_an_error_with_a_position(text in "(\\PC|[\\n\\t\\r=\\[\\]\"'{}.#,]){0,60}") {
        outcome(text.as_bytes())?;
    }

    #[test]
    fn any_fields_are_a_scenario_or_an_error_with_a_position(
        start in prop::sample::select(vec!["", "shell = 'x'\n", "command = ['x']\n", "[[actor]]\nname = 'm'\nshell = 'x'\n"]),
        lines in prop::collection::vec(line(), 0..8),
    ) {
        outcome((start.to_owned() + &lines.join("\n")).as_bytes())?;
    }

    #[test]
    fn a_damaged_scenario_is_a_scenario_or_an_error_with_a_position(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((0..4_u8, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let files = checked_in_scenarios();
        let mut bytes = which.get(&files).1.clone().into_bytes();
        for (what, one, two, byte) in damage {
            if bytes.is_empty() {
                break;
            }
            let (one, two) = (one.index(bytes.len()), two.index(bytes.len()));
            let (from, to) = (one.min(two), one.max(two));
            match what {
                0 => drop(bytes.drain(from..to)),
                1 => {
                    let part = bytes[from..to].to_vec();
                    bytes.splice(to..to, part);
                }
                2 => bytes.swap(from, to),
                _ => bytes[from] = byte,
            }
        }
        outcome(&bytes)?;
    }
}

#[test]
fn an_invalid_matrix_is_reported_at_its_line() {
    let matrix_error =
        |text: &str| error_of(format!("command = ['x', '{{n}}']\n[matrix]\n{text}\n"));
    assert_snapshot!(matrix_error("dir = ['a', 'b']"), @"
    error: `{dir}` is a placeholder of provoke
     --> s.toml:3:7
      |
    3 | dir = ['a', 'b']
      |       ^^^^^^^^^^
      |
      = help: rename the variable
    ");
    assert_snapshot!(matrix_error("'a b' = ['a', 'b']"), @"
    error: `a b` cannot be the name of a variable
     --> s.toml:3:9
      |
    3 | 'a b' = ['a', 'b']
      |         ^^^^^^^^^^
      |
      = help: use letters, digits, `_` and `-`, and begin with a letter or `_`
    ");
    assert_snapshot!(matrix_error("n = []"), @r#"
    error: `n` has no values
     --> s.toml:3:5
      |
    3 | n = []
      |     ^^
      |
      = help: give the values to try: -L n=1,8, or `n = ["1", "8"]` in a file
    "#);
    assert_snapshot!(matrix_error("n = ['1', '2', 1]"), @"
    error: `n` has the value `1` twice
     --> s.toml:3:16
      |
    3 | n = ['1', '2', 1]
      |                ^
      |
      = help: to run more trials of it, use `runs`
    ");
    assert_snapshot!(matrix_error("n = [1]\nno-dash = ['a', 'b']"), @"
    error: `{no-dash}` is not used, and `no-dash` cannot be an environment variable
     --> s.toml:4:11
      |
    4 | no-dash = ['a', 'b']
      |           ^^^^^^^^^^
      |
      = help: write `{no-dash}` where its value belongs, or rename it to `no_dash`
    ");
    assert_snapshot!(matrix_error("n = [1.10, 1.2]"), @r#"
    error: each item of `n` must be text or a whole number, not a fraction
     --> s.toml:3:6
      |
    3 | n = [1.10, 1.2]
      |      ^^^^
      |
      = help: put it in quotes: `"1.10"`
    "#);
    assert_snapshot!(matrix_error("n = 8"), @"
    error: `n` must be a list, not a whole number
     --> s.toml:3:5
      |
    3 | n = 8
      |     ^
      |
      = help: it is a list: `n = [8]`
    ");
    assert_snapshot!(matrix_error("n = [1]\nruns = 5"), @"
    error: `runs` below `[matrix]` would be a variable of the matrix
     --> s.toml:4:1
      |
    4 | runs = 5
      | ^^^^
      |
      = help: to set `runs` of the scenario, move it above the first line in brackets
    ");
    assert_snapshot!(matrix_error("n = [1, 2, 3, 4, 5, 6, 7]\nm = [1, 2, 3, 4, 5, 6, 7]\nl = [1, 2, 3, 4, 5, 6, 7]"), @"
    error: there are 343 combinations; the maximum is 256
     --> s.toml:2:1
      |
    2 | [matrix]
      | ^^^^^^^^
      |
      = help: vary fewer variables at a time, the most likely ones first
    ");
    assert!(
        plan_of(
            "command = ['x', '{copies}']\n[matrix]\ncopies = [1, 2]\n",
            |_| {}
        )
        .is_ok()
    );
}

#[test]
fn a_variable_given_twice_on_the_command_line_is_refused() {
    let twice = |scenario: &mut Scenario| {
        let entries = ["n=1,2", "n=3"].map(|text| text.parse().unwrap());
        scenario.program.matrix.add_entries(entries.to_vec());
    };
    assert_snapshot!(plan_of("command = ['x', '{n}']\n", twice).unwrap_err(), @"
    error: `n` is given twice
    --> s.toml
     = note: flags of the command line win over the file
     = help: give all values together: n=VALUE,VALUE
    ");
    let other = |scenario: &mut Scenario| {
        scenario
            .program
            .matrix
            .add_entries(vec!["n=7".parse().unwrap()]);
    };
    let plan = plan_of(
        "command = ['x', '{n}{m}']\n[matrix]\nn = [1, 2]\nm = [3]\n",
        other,
    );
    let names: Vec<_> = plan
        .unwrap()
        .trials
        .variants
        .into_iter()
        .map(|one| one.name)
        .collect();
    assert_eq!(names, ["m=3 n=7"]);
}

#[test]
fn an_invalid_edit_is_reported_at_its_line() {
    let matrix_error = |text: &str| {
        error_of(format!(
            "command = ['x']\n[[variant]]\nname = 'a'\n{text}\n"
        ))
    };
    assert_snapshot!(matrix_error("files = { '../x.ini' = 'y.ini' }"), @"
    error: `../x.ini` is not in the working directory
     --> s.toml:4:24
      |
    4 | files = { '../x.ini' = 'y.ini' }
      |                        ^^^^^^^
      |
      = help: name a file in the working directory, such as `config.ini`: the variant gets a copy of that directory only
    ");
    assert_snapshot!(matrix_error("[[variant.edit]]\nfile = '/etc/passwd'\nfind = 'x'\nreplace = 'y'"), @"
    error: `/etc/passwd` is not in the working directory
     --> s.toml:5:8
      |
    5 | file = '/etc/passwd'
      |        ^^^^^^^^^^^^^
      |
      = help: name a file in the working directory, such as `config.ini`: the variant gets a copy of that directory only
    ");
    assert_snapshot!(matrix_error("[[variant.edit]]\nfile = 'a'\nreplace = 'y'"), @"
    error: `find` is empty
     --> s.toml:4:1
      |
    4 | [[variant.edit]]
      | ^^^^^^^^^^^^^^^^
      |
      = help: set `find` to the text to replace, exactly as it is in the file
    ");
    assert_snapshot!(matrix_error("[[variant.edit]]\nfile = 'a'\nfind = 'y'"), @r#"
    error: there is no replacement for `y`
     --> s.toml:4:1
      |
    4 | [[variant.edit]]
      | ^^^^^^^^^^^^^^^^
      |
      = help: add `replace`; `""` removes the text
    "#);
    assert_snapshot!(matrix_error("[[variant.edit]]\nfile = 'a'\nfind = 'y'\nwith = 'y'"), @"
    error: there is no field `with` in `[[variant.edit]]`
     --> s.toml:7:1
      |
    7 | with = 'y'
      | ^^^^
      |
      = help: valid names: `file`, `find` or `replace`
    ");
}
