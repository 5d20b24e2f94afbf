//! Provides a real sshd on this machine, which several names lead to.

use super::support::{CommandOutput, Sandbox, wait_until};
use serde_json::Value;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub(super) const SSHD: &str = "/usr/sbin/sshd";
const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/hosts");
pub(super) fn sshd() -> Option<String> {
    let is_missing = !Path::new(SSHD).is_file();
    is_missing.then(|| "`sshd` is not installed".to_owned())
}

/// An sshd, which is killed at the end of its test.
pub(super) struct SshServer {
    child: Child,
    pub(super) command: String,
    temporary: std::path::PathBuf,
}

impl SshServer {
    /// Starts it. The names `a`, `b` and `c` lead to it; `nowhere` leads to a closed port.
    pub(super) fn start(sandbox: &Sandbox) -> Self {
        // All tests share the copy of the program.
        Self::start_with_cache(sandbox, Path::new(CACHE))
    }

    /// Starts it with this cache directory on its hosts.
    pub(super) fn start_with_cache(sandbox: &Sandbox, cache: &Path) -> Self {
        let path = |name: &str| sandbox.path(name).display().to_string();
        for key in ["host_key", "user_key", "wrong_key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(key)])
                .status();
            assert!(made.unwrap().success());
        }
        let temporary = sandbox.path("tmp");
        fs::create_dir(&temporary).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n\
             ListenAddress 127.0.0.1:{port}\nListenAddress 127.0.0.2:{port}\nListenAddress 127.0.0.3:{port}\n\
             SetEnv XDG_CACHE_HOME={} TMPDIR={}\n",
            path("host_key"),
            path("user_key.pub"),
            cache.display(),
            temporary.display(),
        );
        sandbox.write("sshd_config", &settings);
        let client = format!(
            "Host nowhere\n  Port 1\nHost b\n  HostName 127.0.0.2\nHost c\n  HostName 127.0.0.3\n\
             Host *\n  HostName 127.0.0.1\n  Port {port}\n  StrictHostKeyChecking no\n  \
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

    /// Lets a host start when the file `go` exists, and fail if it contains text. Returns the script that does so.
    pub(super) fn delay_host(&mut self, sandbox: &Sandbox, host: &str) -> String {
        let script = format!(
            "for word; do if test \"$word\" = {host}; then\n\
             while test ! -e go; do sleep 0.01; done\n\
             if test -s go; then cat go >&2; exit 255; fi\n\
             fi; done\nexec {} \"$@\"\n",
            self.command
        );
        let script = sandbox.write("slow-ssh", &script).display().to_string();
        self.command = format!("sh {script}");
        script
    }

    /// Hides a directory of the sandbox from the hosts.
    pub(super) fn hide(&mut self, sandbox: &Sandbox, name: &str) {
        let hidden = sandbox.path(name).display().to_string();
        fs::create_dir_all(&hidden).unwrap();
        let script = format!(
            "for command; do :; done\n\
             case $command in exec*) exec unshare -m sh -c \"mount -t tmpfs none {hidden}; $command\";; esac\n\
             exec {} \"$@\"\n",
            self.command
        );
        let script = sandbox.write("hiding-ssh", &script).display().to_string();
        let caches = format!("XDG_CACHE_HOME={CACHE} TMPDIR={}", self.temporary.display());
        self.command = format!("env {caches} sh {script}");
    }

    pub(super) fn provoke(&self, sandbox: &Sandbox, args: &[&str]) -> Command {
        let mut command = sandbox.command(args);
        command.env("PROVOKE_SSH", &self.command);
        command
    }

    /// Runs `provoke run` to its end; returns the report.
    pub(super) fn report(&self, sandbox: &Sandbox, args: &[&str]) -> (Value, CommandOutput) {
        let fixed = ["run", "--progress=none", "--export-json", "report.json"];
        let output = self.output(sandbox, &[&fixed, args].concat());
        let report = serde_json::from_str(&sandbox.read("report.json"));
        (
            report.unwrap_or_else(|error| panic!("{error}: {output}")),
            output,
        )
    }

    pub(super) fn output(&self, sandbox: &Sandbox, args: &[&str]) -> CommandOutput {
        let mut command = self.provoke(sandbox, args);
        crate::limited::output(&mut command).unwrap().into()
    }

    /// Returns the processes of workers, but not of ssh.
    pub(super) fn workers(&self) -> Vec<i32> {
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

    /// Waits until workers have ended.
    pub(super) fn assert_workers_ended(&self) {
        wait_until("the workers have ended", || self.workers().is_empty());
    }

    /// Waits until workers have ended and removed their files.
    pub(super) fn assert_nothing_left(&self) {
        self.assert_workers_ended();
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
