//! Tests trials on other hosts: a real sshd on this machine, which several names lead to.

use super::support::{CommandOutput, Sandbox, wait_until};
use crate::needs::{needs, program};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SSHD: &str = "/usr/sbin/sshd";
/// Fails in one of ten trials, by its number, and takes a little time.
const ONE_OF_TEN: &str =
    "sleep 0.02; case $PROVOKE_TRIAL in *3) echo broken >&2; kill -SEGV $$;; esac";

fn sshd() -> Option<String> {
    let is_missing = !Path::new(SSHD).is_file();
    is_missing.then(|| "`sshd` is not installed".to_owned())
}

/// An sshd, which is killed at the end of its test.
struct SshServer {
    child: Child,
    command: String,
    temporary: std::path::PathBuf,
}

impl SshServer {
    /// Starts it. The names `a`, `b` and `c` lead to it; `nowhere` leads to a closed port.
    fn start(sandbox: &Sandbox) -> Self {
        let path = |name: &str| sandbox.path(name).display().to_string();
        for key in ["host_key", "user_key", "wrong_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
                .status();
            assert!(made.unwrap().success());
        }
        let temporary = sandbox.path("tmp");
        fs::create_dir(&temporary).unwrap();
        // All tests share the copy of the program.
        let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             ListenAddress 127.0.0.1:{port}\nSetEnv XDG_CACHE_HOME={cache} TMPDIR={}\n",
            path("host_key"),
            path("user_key.pub"),
            temporary.display(),
        );
        sandbox.write("sshd_config", &settings);
        let client = format!(
            "Host nowhere\n  Port 1\nHost *\n  HostName 127.0.0.1\n  Port {port}\n  StrictHostKeyChecking no\n  \
             UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  IdentitiesOnly yes\n"
        );
        sandbox.write("ssh_config", &client);
        // sshd of root needs this directory.
        let _ = fs::create_dir("/run/sshd");
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f", &path("sshd_config")])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        wait_until("sshd listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Self {
            child: child.unwrap(),
            command: format!("ssh -F {} -i {}", path("ssh_config"), path("user_key")),
            temporary,
        }
    }

    fn provoke(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let mut command = sandbox.command(args);
        command.env("PROVOKE_SSH", &self.command);
        command
    }

    /// Runs `provoke run` to its end; returns the report.
    fn report(&self, sandbox: &Sandbox, args: &[&str]) -> (Value, CommandOutput) {
        let fixed = ["run", "--progress=none", "--export-json", "report.json"];
        let output = self.output(sandbox, &[&fixed, args].concat());
        let report = serde_json::from_str(&sandbox.read("report.json"));
        (
            report.unwrap_or_else(|error| panic!("{error}: {output}")),
            output,
        )
    }

    fn output(&self, sandbox: &Sandbox, args: &[&str]) -> CommandOutput {
        let mut command = self.provoke(sandbox, args);
        crate::limited::output(&mut command).unwrap().into()
    }

    /// Returns the processes of workers, without those of ssh.
    fn workers(&self) -> Vec<i32> {
        let is_worker = |pid: &i32| {
            let about = Path::new("/proc").join(pid.to_string());
            let environment = fs::read(about.join("environ")).unwrap_or_default();
            let line = fs::read(about.join("cmdline")).unwrap_or_default();
            let folder = format!("TMPDIR={}\0", self.temporary.display());
            String::from_utf8_lossy(&environment).contains(&folder) && line.ends_with(b"\0worker\0")
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_worker).collect()
    }

    /// Waits until workers have ended and removed their files.
    fn assert_nothing_left(&self) {
        wait_until("the workers have ended", || self.workers().is_empty());
        let left: Vec<_> = fs::read_dir(&self.temporary).unwrap().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns for every host its counted trials.
fn trials_of_hosts(report: &Value) -> Vec<u64> {
    let hosts = report["hosts"].as_array().unwrap();
    hosts
        .iter()
        .map(|host| host["trials"].as_u64().unwrap())
        .collect()
}

/// Returns how many trials of the last run have ended.
fn ended_trials(sandbox: &Sandbox) -> usize {
    let journal = sandbox.read("provoke-out/last/events.jsonl");
    journal.matches(r#"{"trial_finished":"#).count()
}

#[test]
fn trials_run_on_every_host_and_their_output_is_copied() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "--on",
        "ssh:a,b",
        "-j",
        "2",
        "-n",
        "40",
        "--capture",
        "off",
        "--shell",
        ONE_OF_TEN,
    ];
    let (report, output) = server.report(&sandbox, &args);
    assert_eq!(report["variants"][0]["failures"], 4, "{output}");
    let trials = trials_of_hosts(&report);
    assert_eq!(trials.iter().sum::<u64>(), 40, "{output}");
    assert!(
        trials.iter().all(|trials| *trials >= 10),
        "{trials:?} {output}"
    );
    for trial in [3, 13, 23, 33] {
        let stderr = sandbox.read(&format!("provoke-out/last/trials/{trial}/stderr"));
        assert_eq!(stderr, "broken\n", "{output}");
    }
    server.assert_nothing_left();
}

#[test]
fn every_host_runs_every_variant() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "compare",
        "--on",
        "ssh:a,b",
        "-n",
        "20",
        "--find",
        "different",
        "-L",
        "mode=x,y",
        "--capture",
        "off",
        "--",
        "sh",
        "-c",
        "sleep 0.01; test {mode} = x",
    ];
    let output = server.output(&sandbox, &args);
    assert_eq!(output.code, Some(1), "{output}");
    let mut launched = std::collections::BTreeMap::new();
    for event in sandbox.events() {
        if let Some(trial) = event.get("trial_started") {
            let key = (trial["variant"].as_u64(), trial["lane"].as_u64());
            *launched.entry(key).or_insert(0_u64) += 1;
        }
    }
    let (least, most) = (launched.values().min(), launched.values().max());
    assert_eq!(launched.len(), 4, "{launched:?}");
    assert!(most.unwrap() - least.unwrap() <= 3, "{launched:?}");
}

#[test]
fn trials_of_a_killed_worker_run_again_elsewhere() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "run",
        "--on",
        "ssh:a,b,c",
        "-j",
        "2",
        "-n",
        "200",
        "--capture",
        "off",
        "--progress=none",
        "--export-json",
        "report.json",
        "--shell",
        ONE_OF_TEN,
    ];
    let mut running = server
        .provoke(&sandbox, &args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("trials have ended", || ended_trials(&sandbox) >= 20);
    super::support::send(server.workers()[0], Signal::KILL);
    assert_eq!(crate::limited::wait(&mut running).code(), Some(1));
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["failures"], 20);
    assert_eq!(report["variants"][0]["trials"], 200);
    assert_eq!(trials_of_hosts(&report).iter().sum::<u64>(), 200);
    let hosts = report["hosts"].as_array().unwrap();
    let lost: Vec<_> = hosts
        .iter()
        .filter(|host| !host["lost"].is_null())
        .collect();
    assert_eq!(lost.len(), 1, "{hosts:?}");
    wait_until("the workers have ended", || server.workers().is_empty());
}

#[test]
fn nothing_is_left_on_hosts_when_provoke_is_killed_and_the_run_continues() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let server = SshServer::start(&sandbox);
    let args = [
        "run",
        "--on",
        "ssh:a,b",
        "-j",
        "2",
        "-n",
        "100",
        "--capture",
        "off",
        "--progress=none",
        "--shell",
        ONE_OF_TEN,
    ];
    let mut running = server
        .provoke(&sandbox, &args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("trials have ended", || ended_trials(&sandbox) >= 20);
    running.kill().unwrap();
    running.wait().unwrap();
    server.assert_nothing_left();
    // It continues on another host, and then on this machine.
    let resumed = ["resume", "last", "--on"];
    let on_host = [&resumed[..], &["ssh:c", "--progress=none"]].concat();
    let mut running = server
        .provoke(&sandbox, &on_host)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let before = ended_trials(&sandbox);
    wait_until("trials have ended on c", || {
        ended_trials(&sandbox) >= before + 5
    });
    running.kill().unwrap();
    running.wait().unwrap();
    server.assert_nothing_left();
    let last = ["local", "--export-json", "report.json"];
    let output = server.output(&sandbox, &[&resumed[..], &last].concat());
    assert_eq!(output.code, Some(1), "{output}");
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    assert_eq!(report["variants"][0]["failures"], 10, "{output}");
    assert_eq!(report["variants"][0]["trials"], 100, "{output}");
    let trials = trials_of_hosts(&report);
    assert_eq!(trials.len(), 3, "{output}");
    assert!(trials.iter().sum::<u64>() < 100, "{trials:?} {output}");
}

#[test]
fn what_is_wrong_with_a_host_is_an_error_before_the_first_trial() {
    needs![sshd(), program("ssh"), program("ssh-keygen")];
    let sandbox = Sandbox::new();
    let mut server = SshServer::start(&sandbox);
    let error_of = |server: &SshServer, args: &[&str]| {
        let output = server.output(&sandbox, args);
        assert_eq!(output.code, Some(125), "{output}");
        assert_eq!(ended_trials(&sandbox), 0, "{output}");
        output.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let refused = error_of(&server, &["run", "--on", "ssh:nowhere", "--", "true"]);
    assert!(
        refused.starts_with("error: cannot run trials on `nowhere`: ssh: connect to host"),
        "{refused}"
    );
    let missing = error_of(&server, &["run", "--on", "ssh:a,b", "--", "./nothing"]);
    assert!(
        missing.ends_with("cannot run `./nothing`: there is no such file"),
        "{missing}"
    );
    let folder = error_of(
        &server,
        &["run", "--on", "ssh:a", "--cwd", "/nothing", "--", "true"],
    );
    assert!(
        folder.ends_with("the working directory `/nothing` does not exist"),
        "{folder}"
    );
    server.command = server.command.replace("user_key", "wrong_key");
    let denied = error_of(&server, &["run", "--on", "ssh:a", "--", "true"]);
    assert!(denied.contains("Permission denied"), "{denied}");
    // Another architecture, as `uname` of the host prints it.
    let script = sandbox.write(
        "uname",
        "#!/bin/sh\ncase $1 in -s) echo Linux;; -m) echo riscv64;; *) echo h;; esac\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let wrapper = format!(
        "#!/bin/sh\nfor last; do :; done\nPATH={}:$PATH exec sh -c \"$last\"\n",
        sandbox.path("").display()
    );
    let wrapper = sandbox.write("fake-ssh", &wrapper);
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    server.command = wrapper.display().to_string();
    let foreign = error_of(&server, &["run", "--on", "ssh:a", "--", "true"]);
    assert!(
        foreign.contains("it is a Linux riscv64 machine, and this provoke is for Linux"),
        "{foreign}"
    );
    server.assert_nothing_left();
}
