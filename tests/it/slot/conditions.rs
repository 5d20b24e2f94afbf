//! Tests that each condition reaches the program of a trial, and ends with it.

use super::bench::{Bench, LONG, PROVOKE};
use crate::limited;
use crate::needs::{self, needs, program, success};
use provoke_levers::{TrialStart, find_lever, try_start};
use provoke_model::{Ending, Observation, TrialConditions};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Succeeds without the rights that a new namespace gives to its first process.
const NO_NEW_RIGHTS: &str = "{ [ $(id -u) = 0 ] || grep -q 'CapEff:\\s0*$' /proc/self/status; }";
const RUNS_OWN_LOOPBACK: &str = "grep -q 127.0.0.1 /proc/net/fib_trie";

/// Conditions, and scripts that succeed only under them.
fn conditions() -> Vec<(&'static str, &'static str, String)> {
    let network = fs::read_link("/proc/self/ns/net").unwrap();
    let is_own = format!(
        "[ $(readlink /proc/self/ns/net) != '{}' ]",
        network.display()
    );
    let rows = [
        ("tz", "America/St_Johns", "[ $TZ = America/St_Johns ]"),
        ("locale", "C", "[ $LC_ALL = C ] && [ -z $LANGUAGE ]"),
        ("hash-seed", "3", "[ $PYTHONHASHSEED$PERL_HASH_SEED = 33 ]"),
        ("columns", "40", "[ $COLUMNS = 40 ]"),
        ("ci", "true", "[ \"$CI\" = true ]"),
        ("malloc-fill", "165", "[ $MALLOC_PERTURB_ = 165 ]"),
        ("home", "unset", "[ -z $HOME ]"),
        (
            "home",
            "empty",
            "[ -z \"$(ls -A $HOME)\" ] && touch $HOME/file",
        ),
        (
            "home",
            "read-only",
            "case $HOME in */provoke-*/home) ! touch $HOME/file;; *) false;; esac",
        ),
        (
            "tmpdir",
            "empty",
            "touch ${TMPDIR:?}/file && [ ${#TMPDIR} -lt 76 ]",
        ),
        (
            "tmpdir",
            "long",
            "[ ${#TMPDIR} -ge 200 ] && touch $TMPDIR/file",
        ),
        (
            "tmpdir",
            "space",
            "touch \"${TMPDIR:?}/file\" && ! touch $TMPDIR/file",
        ),
        (
            "tmpdir",
            "full",
            "cd ${TMPDIR:?} && touch file && ! echo > file",
        ),
        (
            "tmpdir",
            "read-only",
            "[ -d $TMPDIR ] && ! touch ${TMPDIR:?}/file",
        ),
        ("stack", "256K", "[ $(ulimit -s) = 256 ]"),
        ("fds", "40", "[ $(ulimit -n) = 40 ]"),
        ("address-space", "1G", "[ $(ulimit -v) = 1048576 ]"),
        ("umask", "027", "[ $(umask) = 0027 ]"),
        (
            "aslr",
            "off",
            "[ \"$(grep stack /proc/self/maps)\" = \"$(grep stack /proc/self/maps)\" ]",
        ),
        ("cpus", "1", "[ $(nproc) = 1 ]"),
        (
            "tty",
            "all",
            "test -t 0 && test -t 1 && test -t 2 && [ \"$(stty size)\" = '24 80' ] \
             && [ -z \"$(cat)\" ] && true < /dev/tty",
        ),
        ("tty", "stdout", "test -t 1 && ! test -t 0 && ! test -t 2"),
        ("stdin", "closed", "! test -e /proc/self/fd/0"),
        ("stdin", "empty", "test -p /dev/stdin && [ -z \"$(cat)\" ]"),
        (
            "stdin",
            "tty",
            "test -t 0 && ! test -t 1 && [ -z \"$(cat)\" ]",
        ),
        ("read-only-dir", "yes", "! touch file"),
        (
            "hostname",
            "unknown-host-7",
            "[ $(cat /proc/sys/kernel/hostname) = unknown-host-7 ]",
        ),
        ("ipv6", "on", "grep -q lo /proc/net/if_inet6"),
        ("ipv6", "off", "! grep -q lo /proc/net/if_inet6"),
        (
            "slow-sync",
            "1s",
            "touch file && python3 -c 'import os, time; file = os.open(\"file\", os.O_RDWR); \
             begin = time.monotonic(); os.fsync(file); os.fdatasync(file); \
             raise SystemExit(time.monotonic() < begin + 2)'",
        ),
        ("net", "own", RUNS_OWN_LOOPBACK),
        ("net", "none", "! grep -q 127.0.0.1 /proc/net/fib_trie"),
    ];
    let rows = rows.into_iter().map(|(name, value, script)| {
        let script = match name {
            "net" | "ipv6" => format!("{is_own} && {script}"),
            _ => script.to_owned(),
        };
        (name, value, script)
    });
    rows.collect()
}

fn start_under(name: &str, value: &str) -> TrialStart {
    let mut conditions = TrialConditions::default();
    let stored = find_lever(name).unwrap().parse(value).unwrap();
    conditions.set(name, stored);
    TrialStart::new(&conditions).unwrap()
}

fn run_script(bench: &mut Bench, script: &str) -> Observation {
    bench.run(&["sh", "-c", script], LONG)
}

fn ending(observation: &Observation) -> &Ending {
    &observation.actors[0].ending
}

/// Returns what could change outside of a trial.
fn surroundings() -> [String; 2] {
    let read = |path| fs::read_to_string(path).unwrap();
    ["/proc/self/mountinfo", "/proc/sys/kernel/hostname"].map(read)
}

fn check_conditions(mut bench: Bench) {
    let before = surroundings();
    // CI servers set it.
    bench.environment.push(("CI".into(), "".into()));
    for (name, value, script) in conditions() {
        let script = format!("{NO_NEW_RIGHTS} && {script}");
        let is_single = std::thread::available_parallelism().unwrap().get() == 1;
        if !(name == "cpus" && is_single) {
            bench.start = TrialStart::default();
            let plain = run_script(&mut bench, &script);
            assert_ne!(
                *ending(&plain),
                Ending::Exited(0),
                "{name}={value} is not set"
            );
        }
        bench.start = start_under(name, value);
        let observation = run_script(&mut bench, &script);
        let words = &observation.actors[0].last_words;
        assert_eq!(
            *ending(&observation),
            Ending::Exited(0),
            "{name}={value}: {words}"
        );
        let left = fs::read_dir(bench.path("evidence")).into_iter().flatten();
        assert_eq!(left.count(), 0, "{name}={value}");
    }
    assert_eq!(surroundings(), before);
}

#[test]
fn each_condition_reaches_the_program_of_root_and_ends_with_it() {
    needs!(needs::root(), needs::mounts());
    check_conditions(Bench::new());
}

#[test]
fn each_condition_reaches_the_program_of_another_user_and_ends_with_it() {
    let unprivileged = "setpriv --reuid 65534 --regid 65534 --clear-groups unshare -Urmn true";
    needs!(success(&["sh", "-c", unprivileged]));
    check_conditions(Bench::without_root());
}

#[test]
fn a_program_does_not_run_while_it_is_paused_and_gets_its_time_nevertheless() {
    let mut bench = Bench::new();
    bench.start = start_under("pauses", "100ms");
    let waits_for_a_gap = "last=${EPOCHREALTIME/./}; while :; do now=${EPOCHREALTIME/./}; \
         ((now - last > 90000)) && exit 0; last=$now; done";
    let observation = bench.run(&["bash", "-c", waits_for_a_gap], LONG);
    assert_eq!(*ending(&observation), Ending::Exited(0));
    let timeout = Duration::from_millis(300);
    let observation = bench.run(&["sleep", "1000"], timeout);
    // A process that has just been continued runs for a moment.
    assert!(
        matches!(
            ending(&observation),
            Ending::TimedOut {
                state: 'S' | 'R',
                ..
            }
        ),
        "{observation:?}"
    );
    assert!(
        observation.elapsed > 2 * timeout,
        "{:?}",
        observation.elapsed
    );
    // A program that stops itself is not continued.
    let observation = bench.run(&["sh", "-c", "kill -STOP $$"], timeout);
    assert!(
        matches!(ending(&observation), Ending::TimedOut { state: 'T', .. }),
        "{observation:?}"
    );
    bench.start = start_under("pauses", "0ms");
    let observation = bench.run(&["sleep", "0.2"], LONG);
    assert_eq!(*ending(&observation), Ending::Exited(0));
}

#[test]
fn one_of_two_copies_is_judged() {
    let mut bench = Bench::new();
    bench.start = start_under("copies", "2");
    // Each copy waits for the other one.
    let script = "echo >> file; until [ $(wc -l < file) = 2 ]; do sleep 0.01; done; exit 3";
    let observation = run_script(&mut bench, script);
    assert_eq!(observation.actors.len(), 1);
    assert_eq!(*ending(&observation), Ending::Exited(3));
    // The other copy may end later.
    let script = "mkdir lock || exit 0; sleep 0.1; rmdir lock; exit 0";
    let observation = run_script(&mut bench, script);
    assert_eq!(*ending(&observation), Ending::Exited(0));
    assert!(!bench.path("lock").exists());
    assert!(observation.residue.leaked.is_empty());
}

#[test]
fn each_trial_runs_in_a_copy_of_the_working_directory_from_before_the_first_trial() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "text").unwrap();
    for (copy, path) in [
        ("fresh-dir", "! ls $PWD 2>&1"),
        ("fresh-dir=space", "ls $PWD 2>&1"),
    ] {
        let script = format!("mkdir left && cat file && rm file && if {path}; then exit 3; fi");
        let mut run = Command::new(PROVOKE);
        run.args(["run", "-n", "3", "--under", copy, "--out", copy])
            .args(["--", "sh", "-c", &script])
            .current_dir(folder.path())
            .env("XDG_CACHE_HOME", folder.path().join("cache"));
        let output = limited::output(&mut run).unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(folder.path().join("file").exists() && !folder.path().join("left").exists());
        let trials = fs::read_dir(folder.path().join(copy).join("trials")).unwrap();
        assert_eq!(trials.count(), 0);
        let snapshot = folder.path().join(copy).join(".working-directory");
        assert!(!snapshot.exists());
    }
}

#[test]
fn no_cgroup_remains_of_a_killed_slot_with_a_quota_of_cpu_time() {
    let group = "/sys/fs/cgroup/cpu";
    needs!(
        needs::root(),
        success(&["test", "-e", &format!("{group}/cpu.cfs_quota_us")])
    );
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir first || exit 0; group={group}$(grep ':cpu:' /proc/self/cgroup | cut -d: -f3); \
         echo $group >group; kill -9 $PPID; sleep 1000"
    );
    let mut run = Command::new(PROVOKE);
    run.args(["run", "-n", "1", "--under", "slow-cpu=50%", "--out", "run"])
        .args(["--", "sh", "-c", &script])
        .current_dir(folder.path());
    let output = limited::output(&mut run).unwrap();
    assert!(output.status.success(), "{output:?}");
    let group = fs::read_to_string(folder.path().join("group")).unwrap();
    assert!(group.trim().ends_with("-cpu"), "{group}");
    assert!(!fs::exists(group.trim()).unwrap(), "{group}");
}

#[test]
fn a_quota_of_cpu_time_throttles_the_processes_of_a_trial() {
    let group = "/sys/fs/cgroup/cpu";
    needs!(
        needs::root(),
        success(&["test", "-e", &format!("{group}/cpu.cfs_quota_us")])
    );
    let mut bench = Bench::new();
    bench.start = start_under("slow-cpu", "10%");
    let script = format!(
        "group={group}$(grep ':cpu:' /proc/self/cgroup | cut -d: -f3); \
         until grep -q 'nr_throttled [1-9]' $group/cpu.stat; do :; done; basename $group >&2; exit 3"
    );
    let observation = run_script(&mut bench, &script);
    assert_eq!(*ending(&observation), Ending::Exited(3));
    let name = observation.actors[0].last_words.clone();
    assert!(name.starts_with("provoke-run-"), "{name}");
    drop(bench);
    assert!(!fs::exists(format!("{group}/{name}")).unwrap());
}

#[test]
fn packets_of_a_slow_network_are_delayed_or_it_is_refused() {
    needs!(
        program("tc"),
        program("unshare"),
        success(&["unshare", "-rn", "true"])
    );
    let netem = "ip link set lo up && tc qdisc add dev lo root netem delay 1ms";
    if success(&["unshare", "-rn", "sh", "-c", netem]).is_some() {
        let mut run = Command::new(PROVOKE);
        run.args(["run", "--under", "net=slow", "--", "true"]);
        let output = limited::output(&mut run).unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        insta::assert_snapshot!(message, @r"
        error: cannot set the condition `net=slow`
          caused by: the kernel has no netem, which delays packets

        hint: load the kernel module `sch_netem`
        ");
        return;
    }
    let mut bench = Bench::new();
    bench.start = start_under("net", "slow");
    // The connection needs two packets, and the answer two more.
    let connects = "import socket, time
server = socket.create_server(('127.0.0.1', 0))
begin = time.monotonic()
client = socket.create_connection(server.getsockname())
connection, _ = server.accept()
client.send(b'.')
connection.send(connection.recv(1))
client.recv(1)
raise SystemExit(time.monotonic() < begin + 0.4)";
    let observation = bench.run(&["python3", "-c", connects], LONG);
    assert_eq!(*ending(&observation), Ending::Exited(0));
}

#[test]
fn what_the_kernel_refuses_is_found_without_a_trial() {
    assert!(try_start(&start_under("fds", "40")).is_ok());
    let refused = try_start(&start_under("fds", "4000000000")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot set a limit: Operation not permitted (os error 1)"
    );
}
