//! Container engines by their command line, as far as Docker and podman agree.
//!
//! [`daemon`] is the client of Docker's daemon; [`service`] starts the corresponding service of
//! podman.

pub mod daemon;
pub mod service;

use super::{host, process, spawn, tool};
use daemon::Daemon;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time limit of an answer: a busy engine takes longer than usual.
const PATIENCE: Duration = Duration::from_secs(20);
/// Limit of processes between a process in a container and its monitor.
const DEPTH: usize = 64;
/// Limit of an answer in bytes.
const WORDS: usize = 1 << 20;

/// A container engine, queried through its command line client.
#[derive(Clone, Debug)]
pub struct Engine {
    program: PathBuf,
    podman: bool,
    /// Daemon, which is queried first: starting a client takes a tenth of the time of a short
    /// trial.
    daemon: Option<Daemon>,
}

/// State of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerState {
    /// Id of the container.
    pub id: String,
    /// `created`, `running`, `exited` ...
    pub status: String,
    /// Exit code of the container's first process, after it has ended.
    pub code: i32,
    /// A process of the container was OOM-killed.
    pub oom: bool,
    /// Pid of the container's first process on this machine, while it runs.
    pub pid: Option<i32>,
    /// Reason why the container could not be started.
    pub error: String,
}

impl Engine {
    /// Finds the engine with this name in `PATH`.
    pub fn find_in_path(name: &str) -> Option<Self> {
        let path = std::env::var_os("PATH");
        let program =
            spawn::find_program(OsStr::new(name), path.as_deref(), Path::new("/")).ok()?;
        let podman = name == "podman";
        Some(Self {
            podman,
            program,
            daemon: if podman {
                None
            } else {
                Daemon::from_environment()
            },
        })
    }

    /// Makes queries use the service at this socket.
    #[must_use]
    pub fn with_socket(self, socket: Option<&Path>) -> Self {
        let daemon = socket.map(Daemon::at_socket).or(self.daemon);
        Self { daemon, ..self }
    }

    fn run_client(&self, words: &[&str]) -> io::Result<String> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        tool::run_program(&self.program, &words, Instant::now() + PATIENCE, WORDS)
    }

    /// Returns the state of a container; `None` if the container does not exist or the engine does
    /// not respond.
    pub fn container_state(&self, name: &str) -> Option<ContainerState> {
        // The client's context may select another daemon that knows the container.
        let daemon = self.daemon.as_ref();
        let state = daemon.and_then(|daemon| daemon.container_state(name));
        state.or_else(|| self.state_by_client(name))
    }

    fn state_by_client(&self, name: &str) -> Option<ContainerState> {
        const FORMAT: &str = "{{.Id}} {{.State.Status}} {{.State.ExitCode}} {{.State.OOMKilled}} {{.State.Pid}} {{.State.Error}}";
        let output = self.run_client(&["container", "inspect", "--format", FORMAT, name]);
        parse_state(&output.ok()?)
    }

    /// Kills a container if necessary, and removes it with its anonymous volumes.
    pub fn remove_one(&self, name: &str) -> bool {
        let daemon = self.daemon.as_ref();
        if self.podman
            && let Some(daemon) = daemon
        {
            // podman's service would send SIGTERM first, and wait.
            let _ = daemon.send_request("POST", &format!("/containers/{name}/kill"));
        }
        daemon.is_some_and(|daemon| daemon.remove_container(name))
            || self.remove_containers(&[name])
    }

    /// Kills containers if necessary, and removes them with their anonymous volumes.
    pub fn remove_containers(&self, names: &[&str]) -> bool {
        let mut words = vec!["rm", "--force", "--volumes"];
        if self.podman {
            // podman would send SIGTERM first.
            words.extend(["--time", "0"]);
        }
        words.extend(names);
        self.run_client(&words).is_ok()
    }

    /// Creates a container of an image to read its files; the container is never started.
    pub fn create_container(&self, name: &str, mark: &str, image: &str) -> bool {
        let mark = format!("provoke.pid={mark}");
        let named = ["create", "--pull=never", "--name", name];
        let labels = ["--label", "provoke=1", "--label", &mark];
        // The image may lack a default command.
        let words = [&named[..], &labels, &["--network=none", image, "none"]];
        self.run_client(&words.concat()).is_ok()
    }

    /// Returns the entry point of an image, which may be empty.
    pub fn image_entry_point(&self, image: &str) -> Option<Vec<String>> {
        const FORMAT: &str = "{{json .Config.Entrypoint}}";
        let output = self.run_client(&["image", "inspect", "--format", FORMAT, image]);
        let words: Option<Vec<String>> = serde_json::from_str(&output.ok()?).ok()?;
        Some(words.unwrap_or_default())
    }

    /// Returns the files that a container added to its image.
    pub fn added_files(&self, name: &str) -> Vec<String> {
        let output = self.run_client(&["diff", name]).unwrap_or_default();
        let files = output.lines().filter_map(|line| line.strip_prefix("A "));
        files.map(str::to_owned).collect()
    }

    /// Copies a file out of a container; follows symlinks.
    pub fn copy_file(&self, name: &str, file: &str, target: &Path) -> io::Result<()> {
        let (source, target_text) = (format!("{name}:{file}"), target.to_string_lossy());
        let follows = if self.podman { &[][..] } else { &["-L"] };
        self.run_client(&[&["cp"], follows, &[&source, &target_text]].concat())
            .map(drop)
    }

    /// Returns the containers that provoke processes of this machine started, with their owners:
    /// the label of [`process_mark`], and the slot.
    pub fn marked_containers(&self) -> Vec<(String, String, String)> {
        let docker_format = "{{.ID}}\t{{.Label \"provoke.pid\"}}\t{{.Label \"provoke.slot\"}}";
        let podman =
            "{{.ID}}\t{{index .Labels \"provoke.pid\"}}\t{{index .Labels \"provoke.slot\"}}";
        let format = if self.podman { podman } else { docker_format };
        let output = self
            .run_client(&[
                "ps",
                "-a",
                "--filter",
                "label=provoke=1",
                "--format",
                format,
            ])
            .unwrap_or_default();
        let lines = output.lines().filter_map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            Some((cells.next()?, cells.next()?, cells.next()?))
        });
        lines.collect()
    }

    /// Removes the containers of ended provoke processes and of this slot. Returns their number.
    pub fn remove_orphans(&self, slot: Option<i32>) -> usize {
        let containers = self.marked_containers();
        let orphans = containers
            .iter()
            .filter(|(_, mark, container_slot)| match slot {
                Some(slot) => {
                    container_slot.parse() == Ok(slot) && mark.starts_with(&machine_mark())
                }
                None => is_gone(mark),
            });
        let names: Vec<&str> = orphans.map(|(id, ..)| id.as_str()).collect();
        if !names.is_empty() {
            self.remove_containers(&names);
        }
        names.len()
    }
}

/// Returns a text that identifies a process, also among processes of other machines or pid
/// namespaces that use the same engine.
pub fn process_mark(pid: i32) -> String {
    let start = process::process_state(pid).map_or(0, |(_, identity)| identity.start);
    format!("{}/{pid}/{start}", machine_mark())
}

fn machine_mark() -> String {
    let numbering = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits = |text: &str| {
        text.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    format!(
        "{}/{}",
        host::boot_id(),
        digits(&numbering.to_string_lossy())
    )
}

/// Returns whether the process of a mark was in this pid namespace and has ended.
fn is_gone(mark: &str) -> bool {
    let process = mark.strip_prefix(&machine_mark()).and_then(|rest| {
        let (pid, start) = rest.strip_prefix('/')?.split_once('/')?;
        Some((pid.parse::<i32>().ok()?, start.parse::<u64>().ok()?))
    });
    process.is_some_and(|(pid, start)| {
        process::process_state(pid)
            .is_none_or(|(state, identity)| identity.start != start || state == 'Z')
    })
}

fn parse_state(output: &str) -> Option<ContainerState> {
    let mut words = output.trim().splitn(6, ' ');
    Some(ContainerState {
        id: words.next()?.to_owned(),
        status: words.next()?.to_owned(),
        code: words.next()?.parse().ok()?,
        oom: words.next()? == "true",
        pid: words.next()?.parse().ok().filter(|pid| *pid > 0),
        error: words.next().unwrap_or_default().to_owned(),
    })
}

/// Returns the id of the container that a process is in.
pub fn container_of(pid: i32) -> Option<String> {
    let group = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    number_in(&group).or_else(|| guarded_by(pid))
}

/// Returns the id of the container from the monitor above a process: without root and delegation, a
/// container does not have a separate cgroup.
fn guarded_by(pid: i32) -> Option<String> {
    let mut ancestor = process::parent_pid(pid);
    for _ in 0..DEPTH {
        let guard_pid = ancestor.filter(|pid| *pid > 1)?;
        let name = fs::read_to_string(format!("/proc/{guard_pid}/comm")).ok()?;
        if name.trim_end() == "conmon" {
            return watched_by(guard_pid);
        }
        ancestor = process::parent_pid(guard_pid);
    }
    None
}

/// Returns the id of the container that a process monitors.
pub fn watched_by(pid: i32) -> Option<String> {
    number_in(&fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?)
}

/// Returns the pid of a process in its innermost pid namespace.
pub fn number_inside(pid: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Returns whether a process is in a container, or belongs to an engine: a monitor, or a proxy of
/// connections.
pub fn is_of_container(pid: i32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let of_engine = [
        "docker-proxy",
        "rootlessport",
        "slirp4netns",
        "pasta",
        "conmon",
    ];
    of_engine.contains(&name.trim_end()) || container_of(pid).is_some()
}

/// Finds a container id: 64 hexadecimal digits.
fn number_in(text: &str) -> Option<String> {
    // For a container within a container, the last id is the innermost.
    let mut words = text.rsplit(|c: char| !c.is_ascii_hexdigit());
    words.find(|word| word.len() == 64).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn the_state_of_a_container_is_parsed() {
        let seen =
            parse_state("4f created 127 false 0 runc: exec: \"/x\": no such file\n").unwrap();
        assert_eq!((seen.code, seen.pid, seen.oom), (127, None, false));
        assert_eq!(seen.error, "runc: exec: \"/x\": no such file");
        let seen = parse_state("4f exited 137 true 0 \n").unwrap();
        assert_eq!(
            (seen.oom, &*seen.status, &*seen.error),
            (true, "exited", "")
        );
        assert_eq!(parse_state(""), None);
    }

    #[test]
    fn the_state_from_the_daemon_equals_that_of_the_command_line() {
        let body = r#"{"Id":"4f","State":{"Status":"exited","ExitCode":137,"OOMKilled":true,"Pid":0,"Error":""},"Name":"/x"}"#;
        let daemon_state = daemon::parse_state(&serde_json::from_str(body).unwrap());
        assert_eq!(daemon_state, parse_state("4f exited 137 true 0 \n"));
        let none = serde_json::json!({ "message": "No such container: x" });
        assert_eq!(daemon::parse_state(&none), None);
    }

    #[test]
    fn a_process_is_gone_only_if_its_mark_is_of_this_machine() {
        let me = std::process::id().cast_signed();
        assert!(!is_gone(&process_mark(me)));
        assert!(is_gone(&format!("{}/{me}/1", machine_mark())));
        assert!(!is_gone(&format!("another/1/{me}/1")));
        assert!(!is_gone(""));
    }

    #[test]
    fn without_a_cgroup_the_container_is_recognized_by_its_conmon() {
        let folder = std::env::temp_dir().join(format!("provoke-conmon-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // The name of a process is that of the executed file.
        let watcher = folder.join("conmon");
        std::os::unix::fs::symlink("/bin/sh", &watcher).unwrap();
        let id = "b2".repeat(32);
        let mut watcher = Command::new(watcher)
            .args(["-c", "sleep 1000 & echo $!; read end; kill $!", &id])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pid_line = String::new();
        let out = watcher.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut pid_line).unwrap();
        let (above, below) = (watcher.id().cast_signed(), pid_line.trim().parse().unwrap());
        let found = (guarded_by(below), guarded_by(above));
        let named = is_of_container(above);
        watcher.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, (Some(id), None));
        assert!(named);
    }

    #[test]
    fn the_id_of_a_container_is_found_in_its_cgroup() {
        let id = "a1".repeat(32);
        assert_eq!(
            number_in(&format!("4:memory:/docker/{id}\n")),
            Some(id.clone())
        );
        assert_eq!(number_in(&format!("0::/libpod-{id}.scope")), Some(id));
        assert_eq!(number_in("0::/user.slice"), None);
    }
}
