//! Tests the environment of a trial.

use super::support::{PROVOKE, Sandbox};
use crate::needs::{needs, root};
use std::fs;

fn trial_output(sandbox: &Sandbox, flags: &[&str], line: &str) -> String {
    let all = [
        &["-n", "1", "--keep", "all"],
        flags,
        &["--", "sh", "-c", line],
    ]
    .concat();
    sandbox.report(&all);
    sandbox.read("provoke-out/last/trials/1/stdout")
}

#[test]
fn a_trial_receives_its_number_slot_and_seed() {
    let sandbox = Sandbox::new();
    let args = [
        "-n", "2", "-j", "1", "--seed", "7", "--keep", "all", "--", "sh", "-c",
    ];
    let line = "echo $0 $1 $2; echo $PROVOKE_TRIAL $PROVOKE_SLOT $PROVOKE_SEED";
    sandbox.report(&[&args[..], &[line, "{trial}", "a{slot}b", "{seed}"]].concat());
    let output = sandbox.read("provoke-out/last/trials/2/stdout");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0].replace(['a', 'b'], ""), lines[1]);
    assert!(lines[1].starts_with("2 0 "));
}

#[test]
fn the_seeds_of_trials_are_determined_by_the_seed_of_the_run() {
    let line = "echo $PROVOKE_SEED";
    let output = trial_output(&Sandbox::new(), &["--seed", "5"], line);
    assert_eq!(
        output,
        trial_output(&Sandbox::new(), &["--seed", "5"], line)
    );
    assert_ne!(
        output,
        trial_output(&Sandbox::new(), &["--seed", "6"], line)
    );
}

#[test]
fn variables_are_set_removed_and_cleared() {
    let sandbox = Sandbox::new();
    let line = "echo \"[$A][${HOME-unset}]\"";
    assert_eq!(
        trial_output(&sandbox, &["-e", "A=x y", "-e", "HOME"], line),
        "[x y][unset]\n"
    );
    let line = "/usr/bin/env | sort | cut -d= -f1 | tr '\\n' ' '";
    let names = trial_output(
        &sandbox,
        &["--env-clear", "-e", "ONE=1", "-e", "PATH=/bin:/usr/bin"],
        line,
    );
    let expected = [
        "ONE",
        "PATH",
        "PROVOKE_SEED",
        "PROVOKE_SLOT",
        "PROVOKE_TRIAL",
        "PWD",
    ];
    for name in names
        .split_whitespace()
        .filter(|name| !["_", "SHLVL", "OLDPWD"].contains(name))
    {
        assert!(expected.contains(&name), "{name} in {names}");
    }
}

#[test]
fn stdin_is_empty_or_a_file() {
    let sandbox = Sandbox::new();
    assert_eq!(trial_output(&sandbox, &[], "cat; echo end"), "end\n");
    let file = sandbox.write("in.txt", "hello\n");
    assert_eq!(
        trial_output(&sandbox, &["--stdin", file.to_str().unwrap()], "cat"),
        "hello\n"
    );
}

#[test]
fn a_directory_per_trial_is_kept_only_for_failures() {
    let sandbox = Sandbox::new();
    let line = "echo trace > $PROVOKE_DIR/trace; [ $TMPDIR = {dir} ] && [ $PROVOKE_TRIAL != 2 ]";
    sandbox.report(&["-n", "3", "--tmp-per-run", "--", "sh", "-c", line]);
    let kept = |trial| {
        sandbox
            .path(&format!("provoke-out/last/trials/{trial}"))
            .exists()
    };
    assert_eq!([kept(1), kept(2), kept(3)], [false, true, false]);
    assert_eq!(
        sandbox.read("provoke-out/last/trials/2/dir/trace"),
        "trace\n"
    );
}

#[test]
fn resource_limits_apply_to_the_trial() {
    let sandbox = Sandbox::new();
    let limits = ["--rlimit", "nofile=64,core=0", "--rlimit", "as=4G"];
    let output = trial_output(
        &sandbox,
        &limits,
        "ulimit -n; ulimit -Hn; ulimit -c; ulimit -v",
    );
    assert_eq!(output, "64\n64\n0\n4194304\n");
}

#[test]
fn the_core_limit_is_zero_by_default() {
    let sandbox = Sandbox::new();
    assert_eq!(trial_output(&sandbox, &[], "ulimit -Sc"), "0\n");
}

#[test]
fn output_of_only_the_first_failures_of_each_kind_is_kept() {
    let sandbox = Sandbox::new();
    let line = "echo out; echo err >&2; exit $((PROVOKE_TRIAL % 2 + 1))";
    sandbox.report(&["-n", "10", "--keep-per-sig", "2", "--", "sh", "-c", line]);
    let mut kept: Vec<String> = fs::read_dir(sandbox.path("provoke-out/last/trials"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["1", "2", "3", "4"]);
    assert_eq!(sandbox.read("provoke-out/last/trials/3/stderr"), "err\n");
}

#[test]
fn large_hostile_output_is_truncated_and_escaped() {
    let sandbox = Sandbox::new();
    let args = [
        "run", "-n", "1", "--", PROVOKE, "victim", "noise", "--bytes", "64M", "--code", "3",
    ];
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(1), "{output}");
    for stream in ["stdout", "stderr"] {
        let kept =
            fs::metadata(sandbox.path(&format!("provoke-out/last/trials/1/{stream}"))).unwrap();
        assert!((300_000..400_000).contains(&kept.len()), "{}", kept.len());
    }
    let text = output.stdout + &output.stderr;
    let raw = |c: char| c.is_control() && c != '\n';
    assert!(!text.contains(raw), "{:?}", text.chars().find(|c| raw(*c)));
}

#[test]
fn an_unprivileged_user_gets_the_same_leak_detection() {
    needs!(root());
    let sandbox = Sandbox::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(sandbox.path(""), open).unwrap();
    // The binary must be in a directory where every user may execute it.
    let binary = sandbox.path("provoke");
    fs::copy(PROVOKE, &binary).unwrap();
    let binary = binary.to_str().unwrap();
    let linger = super::support::unique_linger();
    let output: super::support::CommandOutput = sandbox
        .program_command("setpriv", &[])
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            binary,
            "run",
            "--progress=none",
            "-n",
            "3",
        ])
        .args([
            "--leak-grace",
            "50ms",
            "--",
            binary,
            "victim",
            "leak-detached",
            "--fail-on",
            "2",
        ])
        .args(["--linger", &linger])
        .output()
        .unwrap()
        .into();
    assert!(output.stdout.contains("leak in 1 of 3 trials"), "{output}");
    super::support::assert_gone(&linger);
}
