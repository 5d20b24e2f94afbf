//! Requirements of tests on the machine, without which a test is skipped.
//!
#![doc = include_str!("../README.md")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Skips the rest of a test unless the machine meets all listed requirements.
#[macro_export]
macro_rules! needs {
    ($($missing:expr),+ $(,)?) => {
        $(
            if let Some(missing) = $missing {
                $crate::skip!("{missing}");
            }
        )+
    };
}

/// Skips the rest of a test, for a reason.
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {{
        fn here() {}
        $crate::record(std::any::type_name_of_val(&here), &format!($($reason)+));
        return;
    }};
}

/// Returns why a program cannot be run.
pub fn program(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    (!found).then(|| format!("`{name}` is not installed"))
}

/// Returns why a command fails.
pub fn success(command: &[&str]) -> Option<String> {
    program(command[0]).or_else(|| {
        let ended = Command::new(command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let succeeds = ended.is_ok_and(|status| status.success());
        (!succeeds).then(|| format!("`{}` fails", command.join(" ")))
    })
}

/// Returns why Python cannot import these modules.
pub fn python(modules: &str) -> Option<String> {
    success(&["python3", "-c", &format!("import {modules}")])
}

/// Returns the paths of the interpreters of Python 3 on this machine whose minor version is in a range.
pub fn interpreters(minor_versions: RangeInclusive<u32>) -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = fs::read_dir(format!("{home}/.pyenv/versions"));
    let installed = installed.into_iter().flatten().flatten();
    let installed = installed.map(|folder| folder.path().join("bin/python3"));
    let candidates = [PathBuf::from("python3"), "/usr/bin/python3".into()].into_iter();
    let found = candidates.chain(installed).filter_map(|python| {
        let script = "import sys; print(sys.version_info[1], sys.executable)";
        let output = Command::new(python).args(["-c", script]).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (minor_version, path) = text.trim().split_once(' ')?;
        let version = minor_version.parse().ok()?;
        minor_versions.contains(&version).then(|| path.to_owned())
    });
    let found: BTreeSet<String> = found.collect();
    found.into_iter().collect()
}

/// Returns why extensions of Python cannot be compiled.
pub fn python_headers() -> Option<String> {
    let script = "import os, sysconfig; os.stat(sysconfig.get_path('include') + '/Python.h')";
    let fails = success(&["python3", "-c", script]);
    program("python3").or(fails.map(|_| "the headers of Python are not installed".to_owned()))
}

/// Returns why cargo cannot reach crates.io.
pub fn crates_io() -> Option<String> {
    let project = tempfile::tempdir().unwrap();
    let text =
        "[package]\nname = \"asks\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\nitoa = \"1\"\n";
    fs::write(project.path().join("Cargo.toml"), text).unwrap();
    fs::write(project.path().join("lib.rs"), "").unwrap();
    let mut cargo = Command::new("cargo");
    cargo.args(["update", "--dry-run", "--quiet"]);
    let said = cargo.current_dir(project.path()).output();
    let answers = said.is_ok_and(|said| said.status.success());
    (!answers).then(|| "cargo gets no answer from crates.io".to_owned())
}

/// Returns why a host cannot be reached.
pub fn host(name: &str, port: u16) -> Option<String> {
    let limit = Duration::from_secs(10);
    let reached = (name, port).to_socket_addrs().and_then(|mut addresses| {
        let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
        TcpStream::connect_timeout(&address, limit)
    });
    let error = reached.err()?;
    Some(format!("{name}:{port} cannot be reached: {error}"))
}

/// Returns why this machine cannot resolve its own name to itself.
pub fn localhost() -> Option<String> {
    let error = ("localhost", 0).to_socket_addrs().err()?;
    Some(format!("`localhost` has no address: {error}"))
}

/// Returns why this process cannot mount anything.
pub fn mounts() -> Option<String> {
    success(&["unshare", "-m", "true"])
}

/// Returns why the kernel's log cannot be read, or does not name processes as this process does.
pub fn kernel_log() -> Option<String> {
    match File::open("/dev/kmsg") {
        Ok(_) => process_events(),
        Err(error) => Some(format!("`/dev/kmsg` cannot be read: {error}")),
    }
}

/// Returns why the kernel does not report to this process how other processes end.
pub fn process_events() -> Option<String> {
    // The kernel fixes the number of the first namespace: PROC_PID_INIT_INO.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    (namespace != Path::new(FIRST_NAMESPACE)).then(|| {
        "the kernel names processes differently here: this is a PID namespace, as in a container"
            .to_owned()
    })
}

/// Returns why a copy of a file cannot be distinguished from the file here.
pub fn creation_times() -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let created = fs::metadata(folder.path()).and_then(|about| about.created());
    let error = created.err()?;
    Some(format!(
        "the file system records no creation times: {error}"
    ))
}

/// Returns why this process does not run as root.
pub fn root() -> Option<String> {
    (!rustix::process::geteuid().is_root()).then(|| "only root may do this".to_owned())
}

/// Records a skipped test; `inside` is the name of a function inside that test.
pub fn record(inside: &str, reason: &str) {
    let test = inside
        .trim_end_matches("::here")
        .trim_end_matches("::{{closure}}");
    let required = std::env::var_os("PROVOKE_TESTS_REQUIRE_ALL").is_some();
    assert!(
        !required,
        "{reason}, and PROVOKE_TESTS_REQUIRE_ALL is set: nothing may be skipped"
    );
    let line = format!("skipped {test}: {reason}\n");
    // Not `eprint`: the test harness would hide it.
    let _ = io::stderr().write_all(line.as_bytes());
    let list = list();
    let written = fs::create_dir_all(list.parent().unwrap())
        .and_then(|()| File::options().append(true).create(true).open(&list))
        .and_then(|mut file| file.write_all(line.as_bytes()));
    if let Err(error) = written {
        let text = format!("cannot note this in {}: {error}\n", list.to_string_lossy());
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

/// Returns the file that lists the tests skipped by this run of `cargo test` or `cargo nextest`, beside the test
/// binaries. The name contains the process that starts all tests of a run.
pub fn list() -> PathBuf {
    let runner = std::os::unix::process::parent_id();
    let stat = fs::read_to_string(format!("/proc/{runner}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, after)| after);
    let started = after_name.split(' ').nth(19).unwrap_or_default();
    let binary = std::env::current_exe().unwrap();
    let folder = binary.parent().unwrap_or(Path::new(".")).join("skipped");
    folder.join(format!("{runner}-{started}"))
}
