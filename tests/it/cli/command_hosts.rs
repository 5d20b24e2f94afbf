//! Tests trials on hosts that a command reaches: containers, and this machine.

use super::support::{LAST_RUN, Sandbox, after_joins, wait_until, words};
use crate::needs::{needs, success};
use regex::Regex;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How trials reach a container.
const DOCKER_EXEC: &str = "exec:docker exec -i {host} sh -c {script}";

/// All tests share the copy of the program.
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts");

/// Two containers that see the programs of this machine, and the directory of a test.
struct Containers {
    folder: PathBuf,
    image: String,
    names: [String; 2],
}

impl Containers {
    fn start(sandbox: &Sandbox) -> Self {
        for folder in ["usr", "tmp", "cache", "etc"] {
            fs::create_dir_all(sandbox.path("image").join(folder)).unwrap();
        }
        // A user that this machine does not have.
        let users = "root:x:0:0::/root:/bin/sh\ntester:x:1234:1234::/home/tester:/bin/sh\n";
        sandbox.write("image/etc/passwd", users);
        for name in ["bin", "lib", "lib64"] {
            symlink(format!("usr/{name}"), sandbox.path("image").join(name)).unwrap();
        }
        run(sandbox.program_command("tar", &["-C", "image", "-cf", "image.tar", "."]));
        let folder = sandbox.path("image").parent().unwrap().to_owned();
        let id = folder.file_name().unwrap().to_str().unwrap();
        let image = format!(
            "provoke-test-hosts-{}",
            id.trim_start_matches('.').to_lowercase()
        );
        run(sandbox.program_command("docker", &["import", "image.tar", &image]));
        let containers = Self {
            names: ["a", "b"].map(|name| format!("{image}-{name}")),
            folder,
            image,
        };
        let here = format!("{0}:{0}", containers.folder.display());
        let cache = format!("{CACHE}:/cache");
        for name in &containers.names {
            let options = words("run -d --init --network=none -v /usr:/usr:ro -v");
            let own = [
                &here,
                "-v",
                &cache,
                "-e",
                "XDG_CACHE_HOME=/cache",
                "--name",
                name,
            ];
            let command = [&containers.image, "sleep", "1000"];
            let arguments = [&options[..], &own, &command].concat();
            run(sandbox.program_command("docker", &arguments));
        }
        containers
    }

    /// Returns the flags that run trials on containers.
    fn flags(&self, count: usize) -> Vec<String> {
        let hosts = self.names[..count].join(",");
        ["--on", DOCKER_EXEC, "--hosts", &hosts]
            .map(str::to_owned)
            .into()
    }

    /// Kills the command that reaches a container, without a chance to close the connection.
    fn kill_command(&self, number: usize) {
        let pattern = format!("^docker exec -i {} sh", self.names[number]);
        let found = Command::new("pgrep")
            .args(["-f", &pattern])
            .output()
            .unwrap();
        let pids = String::from_utf8(found.stdout).unwrap();
        assert!(!pids.is_empty(), "{pattern}");
        for pid in pids.split_whitespace() {
            super::support::send(pid.parse().unwrap(), Signal::KILL);
        }
    }

    /// Waits until the container has only its own processes, and no file of a worker.
    fn assert_nothing_left(&self) {
        for name in &self.names {
            let ask = |arguments: &[&str]| {
                let output = Command::new("docker").args(arguments).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            };
            let processes = ["top", name, "-eo", "pid,args"];
            let mut left = String::new();
            wait_until("the processes of the container have ended", || {
                left = ask(&processes);
                left.lines().skip(1).count() == 2
            });
            assert!(left.contains("sleep 1000"), "{left}");
            // The directory of the test is mounted there.
            let kept = self.folder.file_name().unwrap().to_str().unwrap();
            assert_eq!(ask(&["exec", name, "ls", "-A", "/tmp"]).trim_end(), kept);
        }
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        let [a, b] = &self.names;
        for arguments in [["rm", "--force", a, b].as_slice(), &["rmi", &self.image]] {
            let mut remove = Command::new("docker");
            remove
                .args(arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let _ = remove.status();
        }
    }
}

fn docker() -> Option<String> {
    success(&["docker", "version"])
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns a command line.
fn joined_words<'w>(before: &[&'w str], flags: &'w [String], after: &[&'w str]) -> Vec<&'w str> {
    let flags = flags.iter().map(String::as_str);
    before
        .iter()
        .copied()
        .chain(flags)
        .chain(after.iter().copied())
        .collect()
}

/// Returns the outcomes of the trials of the last run, also of those that are not counted.
fn outcomes(sandbox: &Sandbox) -> Vec<Value> {
    let events = sandbox.events().into_iter();
    let finished = events.filter_map(|event| event.get("trial_finished").cloned());
    finished
        .map(|finished| finished["outcome"].clone())
        .collect()
}

#[test]
fn trials_run_as_a_user_of_the_host() {
    needs![docker()];
    let sandbox = Sandbox::new();
    let containers = Containers::start(&sandbox);
    let trial = ["--", "sh", "-c", "echo $(id -u) $USER $HOME $API_TOKEN"];
    let flags = containers.flags(1);
    let before = ["run", "--user", "tester", "-n", "1", "--keep", "all"];
    let mut command = sandbox.command(&joined_words(&before, &flags, &trial));
    let output = command.env("API_TOKEN", "secret").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let stdout = sandbox.read(&format!("{LAST_RUN}/trials/1/stdout"));
    assert_eq!(stdout.trim(), "1234 tester /home/tester");
}

#[test]
fn trials_run_in_containers_and_their_output_is_copied() {
    needs![docker()];
    let sandbox = Sandbox::new();
    let containers = Containers::start(&sandbox);
    let command = after_joins(
        2,
        "case $PROVOKE_TRIAL in *3) echo broken >&2; kill -SEGV $$;; esac",
    );
    let flags = containers.flags(2);
    let trials = [
        "-j",
        "2",
        "-n",
        "20",
        "--capture",
        "off",
        "--shell",
        &command,
    ];
    let (report, output) = sandbox.report(&joined_words(&[], &flags, &trials));
    assert_eq!(report["variants"][0]["failures"], 2, "{output}");
    assert_eq!(report["variants"][0]["trials"], 20, "{output}");
    let hosts = report["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 2, "{output}");
    let mut names: Vec<&str> = hosts
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, containers.names);
    let has_some = |host: &Value| host["trials"].as_u64().unwrap() > 0;
    assert!(hosts.iter().all(has_some), "{hosts:?}");
    assert_eq!(
        sandbox.read(&format!("{LAST_RUN}/trials/13/stderr")),
        "broken\n"
    );
    containers.assert_nothing_left();
}

#[test]
fn trials_of_a_command_that_dies_run_again_elsewhere() {
    needs![docker()];
    let sandbox = Sandbox::new();
    let containers = Containers::start(&sandbox);
    let command = after_joins(2, "sleep 0.02; case $PROVOKE_TRIAL in *3) exit 1;; esac");
    let flags = containers.flags(2);
    let fixed = ["run", "--progress=none", "--export-json", "report.json"];
    let trials = [
        "-j",
        "2",
        "-n",
        "100",
        "--capture",
        "off",
        "--shell",
        &command,
    ];
    let provoke = sandbox.command(&joined_words(&fixed, &flags, &trials));
    let running = sandbox.started_trials(10, provoke);
    containers.kill_command(0);
    let output = running.end();
    assert_eq!(output.code, Some(1), "{output}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["failures"], 10, "{output}");
    assert_eq!(report["variants"][0]["trials"], 100, "{output}");
    let hosts = report["hosts"].as_array().unwrap().iter();
    let lost: Vec<bool> = hosts.map(|host| !host["lost"].is_null()).collect();
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1, "{output}");
    containers.assert_nothing_left();
}

#[test]
fn a_trial_whose_command_dies_neither_passes_nor_fails() {
    needs![docker()];
    let sandbox = Sandbox::new();
    let containers = Containers::start(&sandbox);
    let flags = containers.flags(1);
    let trial = [
        "--shell",
        "setsid sleep 1000 & touch began; exec sleep 1000",
    ];
    let run = words("run --progress=none -n 1 -t 1h --capture off");
    let running = sandbox.started(sandbox.command(&joined_words(&run, &flags, &trial)));
    wait_until("the trial runs", || sandbox.path("began").exists());
    containers.kill_command(0);
    let output = running.end();
    assert_eq!(outcomes(&sandbox), [json!({"void": "lost"})]);
    let shown = output.to_string().replace(&containers.names[0], "HOST");
    let lines = shown.lines().filter(|line| !line.contains("  host HOST:"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    no trial was conclusive: the failure rate is not known

      note: stopped: no host is left

    continue   provoke resume RUN
    saved in   provoke-out/RUN
    ------- stderr -------
    warning: the host `HOST` was lost: the connection was closed; its trials run again on another host
    [exit status: Some(125)]
    ");
    containers.assert_nothing_left();
}

#[test]
fn a_host_whose_command_does_not_pass_on_its_stdin_is_an_error() {
    let sandbox = Sandbox::new();
    let run = |on: &str| {
        let args = [
            "run", "--on", on, "--hosts", "here", "-n", "1", "--", "true",
        ];
        let mut command = sandbox.command(&args);
        command.env("XDG_CACHE_HOME", CACHE);
        crate::limited::output(&mut command).unwrap()
    };
    let reached = run("exec:sh -c {script}");
    assert!(reached.status.success(), "{reached:?}");
    let output = run("exec:sh -c 'exec sh -c \"$0\" </dev/null' {script}");
    let errors = String::from_utf8(output.stderr).unwrap();
    // On a slow machine, provoke says for what it waits. The last part is the error of the operating system.
    let errors = errors.replace("  waiting for 1 of 1 host: here\n", "");
    let reason = Regex::new("its worker ended: .*").unwrap();
    insta::assert_snapshot!(reason.replace(&errors, "its worker ended: REASON"), @"
    error: cannot run trials on `here`: its worker ended: REASON

    hint: the command that reaches the host must forward stdin and stdout
    ");
}

#[test]
fn a_host_that_sends_endless_messages_is_lost() {
    let sandbox = Sandbox::new();
    // The first lines are those of the script and of the worker that is ready.
    let floods = "sh -c \"$0\" | { for line in 1 2 3; do IFS= read -r line; printf \"%s\\n\" \"$line\"; done; \
        yes \\\"alive\\\" & exec cat; }";
    let on = format!("exec:sh -c '{floods}' {{script}}");
    let args = [
        "run", "--on", &on, "--hosts", "here", "-n", "5", "--", "sleep", "1000",
    ];
    let mut command = sandbox.command(&args);
    command.env("XDG_CACHE_HOME", CACHE);
    let output = crate::limited::output(&mut command).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    let last = "warning: the host `here` was lost: it sent too many messages; its trials run again on another host";
    assert_eq!(errors.lines().last(), Some(last), "{errors}");
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn a_command_that_does_not_reach_its_host_is_an_error_with_a_hint() {
    let sandbox = Sandbox::new();
    let errors: Vec<String> = [
        ("exec:docker exec {host}", "a"),
        ("exec:sh -c {script}", "a,b"),
        ("exec:sh -c '{script}", "a"),
        ("exec:sh -c {script}", "-a"),
        ("exec:/nowhere/run {host} {script}", "a"),
        (
            "exec:sh -c 'echo \"no {host}\" >&2; exit 7' {script}",
            "pod-0",
        ),
    ]
    .into_iter()
    .map(|(on, hosts)| {
        let hosts = format!("--hosts={hosts}");
        let output = sandbox.provoke(&["run", "--on", on, &hosts, "--", "true"]);
        assert!(matches!(output.code, Some(2 | 125)), "{output}");
        output.stderr
    })
    .collect();
    insta::assert_snapshot!(errors.join("---\n"), @r#"
    error: the command after `exec:` has no `{script}`

    hint: write it where the shell of the host takes a script: 'exec:docker exec -i {host} sh -c {script}'
    ---
    error: the command after `exec:` has no `{host}`, so it would reach the same host 2 times

    hint: write `{host}` where the command takes a name, or name only one host in --hosts
    ---
    error: a quote in the command after `exec:` is not closed

    hint: write it like 'exec:docker exec -i {host} sh -c {script}'
    ---
    error: invalid value '-a' for '--hosts <HOST,...>': `-a` is not the name of a host

    hint: `provoke run --help` describes the arguments
    ---
    error: cannot run trials on `a`: cannot start /nowhere/run: No such file or directory (os error 2)

    hint: `/nowhere/run a true` must work, and the command must forward stdin and stdout, as `docker exec -i` does
    ---
    error: cannot run trials on `pod-0`: no pod-0

    hint: `sh -c 'echo "no pod-0" >&2; exit 7' true` must work, and the command must forward stdin and stdout, as `docker exec -i` does
    "#);
}
