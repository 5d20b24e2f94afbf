//! Process of a trial: its command line, its start, its streams, its end.

use super::capture::{PatternScanner, StreamCapture};
use super::command::{CommandLine, PlaceholderValues};
use super::container::{self, RunningContainer};
use super::wire::VariantRecipe;
use crate::messages;
use crate::model::{ActorObservation, ActorPlan, ActorRole, Ending, Signal};
use crate::sys::child::{ChildEnd, WaitStatus};
use crate::sys::spawn::{CStringArray, Program, SpawnStep, Spawner, path_candidates};
use crate::sys::user::Credentials;
use crate::untrusted::Untrusted as _;
use regex::bytes::RegexSet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::Instant;

/// Limit of bytes per read loop, because a process that outlived its parent may write for ever. A
/// pipe holds less.
const ONE_GO: usize = 1 << 20;

/// Bytes at the end of a failed process's output that are searched for the reason of the failure.
const TAIL: usize = 64 * 1024;

/// Parameters that all processes of a trial share.
pub(super) struct TrialContext<'a> {
    pub(super) recipe: &'a VariantRecipe,
    pub(super) numbers: &'a PlaceholderValues,
    /// Limits in the form of `setrlimit`.
    pub(super) limits: &'a [(u32, u64)],
    /// User and group of the processes.
    pub(super) identity: Option<&'a Credentials>,
    /// Stdin of a process without input.
    pub(super) nothing: BorrowedFd<'a>,
    /// The processes that are traced.
    pub(super) trace: TracedRoles,
    /// The system calls that traced processes report.
    pub(super) traced_calls: &'a [u64],
    /// Parameters of the actor's container, if it has one.
    pub(super) start: Option<container::ContainerStart<'a>>,
}

/// The actors of a trial whose processes are traced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TracedRoles {
    None,
    /// Those that decide the outcome.
    Deciding,
    All,
}

/// A process of the present trial.
pub(super) struct TrialProcess {
    pub(super) role: ActorRole,
    pub(super) name: String,
    pub(super) copy: u32,
    /// Pid, until the process is reaped.
    pub(super) pid: Option<i32>,
    pub(super) seen: ActorObservation,
    /// The ending is already decided, because provoke ends the process.
    pub(super) sentenced: bool,
    /// Reason why the process is not traced although it should be.
    pub(super) unfollowed: Option<String>,
    /// Container of the actor; the process itself is then the engine's client.
    pub(super) container: Option<RunningContainer>,
    pub(super) out: OutputStream,
    pub(super) err: OutputStream,
    started: Instant,
}

/// An output stream of a process.
#[derive(Default)]
pub(super) struct OutputStream {
    pub(super) fd: Option<OwnedFd>,
    /// Write end of the pipe, held open by the slot: otherwise the end of a process would wake the
    /// slot again for each stream.
    held: Option<OwnedFd>,
    pub(super) capture: StreamCapture,
    pub(super) scanner: PatternScanner,
}

impl TrialProcess {
    /// Starts one copy of an actor. If that fails, the process counts as ended; no error is
    /// returned.
    pub(super) fn start_actor(
        spawner: &mut Spawner,
        actor: &ActorPlan,
        around: &TrialContext<'_>,
    ) -> Self {
        let started = Instant::now();
        let mut process = Self {
            role: actor.role,
            name: actor.name.clone(),
            copy: 0,
            pid: None,
            seen: ActorObservation::default(),
            sentenced: false,
            unfollowed: None,
            container: None,
            out: OutputStream::default(),
            err: OutputStream::default(),
            started,
        };
        match process.launch_actor(spawner, actor, around) {
            Ok(pid) => process.pid = Some(pid),
            Err(why) => process.seen.ending = Ending::NotStarted(why),
        }
        process
    }

    fn launch_actor(
        &mut self,
        spawner: &mut Spawner,
        actor: &ActorPlan,
        around: &TrialContext<'_>,
    ) -> Result<i32, String> {
        let environment = &around.recipe.environment;
        let contained = around.start.as_ref().filter(|_| actor.container.is_some());
        let command = match contained {
            Some(start) => {
                let words =
                    container::container_command(around.recipe, actor, around.numbers, start);
                let (held, words) = words?;
                self.container = Some(held);
                CommandLine::of_engine(environment, actor, words)
            }
            None => CommandLine::new(environment, actor, around.numbers),
        };
        let paths = path_candidates(command.program_name(), command.find_variable("PATH"));
        let cwd = CString::new(command.cwd.as_os_str().as_bytes())
            .map_err(|error| holds_nul(error.into_vec()))?;
        let argv = CStringArray::join_parts(command.argv.iter().map(|word| [word.as_bytes()]))
            .map_err(holds_nul)?;
        let variables = command.environment.iter();
        let envp = CStringArray::join_parts(
            variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()]),
        )
        .map_err(holds_nul)?;
        let open = |file: &Path| {
            let how = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(file, how, Mode::empty())
                .map_err(|error| format!("cannot open `{}` as stdin: {error}", file.to_safe()))
        };
        let input = command.stdin.map(open).transpose()?;
        let pipe = || {
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
                .map_err(|error| format!("cannot create a pipe: {error}"))
        };
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        for end in [&out, &err] {
            rustix::io::ioctl_fionbio(end, true).map_err(|error| error.to_string())?;
        }
        let program = Program {
            paths: &paths,
            argv: &argv,
            envp: &envp,
            cwd: &cwd,
            stdio: [
                input.as_ref().map_or(around.nothing, OwnedFd::as_fd),
                out_end.as_fd(),
                err_end.as_fd(),
            ],
            // The limits are for the program in the container, and the client has passed them on.
            limits: if contained.is_some() {
                &[]
            } else {
                around.limits
            },
            identity: around.identity,
            traced_calls: around.traced_calls,
        };
        self.started = Instant::now();
        let is_traced = match around.trace {
            TracedRoles::None => false,
            TracedRoles::Deciding => actor.role.decides_outcome(),
            TracedRoles::All => true,
        };
        let spawned = if is_traced && contained.is_none() {
            spawner.spawn_followed(&program)
        } else {
            spawner.spawn_program(&program).map(|pid| (pid, Ok(())))
        };
        let (pid, followed) = spawned.map_err(|error| {
            let what = match error.step {
                SpawnStep::Exec => format!("cannot execute `{}`", command.program_name().to_safe()),
                SpawnStep::Chdir => format!("cannot enter the working directory `{}`", actor.cwd),
                SpawnStep::Limit | SpawnStep::Identity | SpawnStep::Clone => error.to_string(),
            };
            format!("{what}: {}", plain_error(&error.source))
        })?;
        self.seen.pid = pid;
        self.unfollowed = followed.err().map(|error| plain_error(&error));
        self.out.attach_ends(out, out_end);
        self.err.attach_ends(err, err_end);
        Ok(pid)
    }

    /// Records the end of the process.
    pub(super) fn record_end(&mut self, ended: ChildEnd) {
        self.pid = None;
        self.seen.elapsed = self.started.elapsed();
        self.seen.cpu = ended.cpu;
        self.seen.max_rss = ended.max_rss;
        if !self.sentenced {
            self.seen.ending = match ended.status {
                WaitStatus::Exited(code) => Ending::Exited(code),
                WaitStatus::Signaled(signal, core) => Ending::Signaled(Signal(signal), core),
            };
        }
    }

    /// Returns whether a line of the output matched this pattern.
    pub(super) fn has_said(&self, pattern: usize) -> bool {
        let streams = [&self.out, &self.err];
        streams
            .iter()
            .any(|stream| stream.scanner.has_pattern(pattern))
    }

    /// Returns the observation of the process after the trial.
    pub(super) fn final_report(&mut self) -> ActorObservation {
        self.seen.copy = self.copy;
        self.seen.written = (
            self.out.capture.total_bytes(),
            self.err.capture.total_bytes(),
        );
        if self.seen.ending != Ending::Exited(0) {
            let last = self
                .err
                .capture
                .last_line()
                .or_else(|| self.out.capture.last_line());
            self.seen.last_words = last.unwrap_or_default();
            let ends = [&self.err, &self.out].map(|stream| stream.capture.end_of_stream(TAIL));
            self.seen.telling = ends
                .iter()
                .find_map(|end| messages::find_telling_line(end.as_bytes()));
            self.seen.site = ends.iter().find_map(|end| messages::find_site(end));
        }
        std::mem::take(&mut self.seen)
    }
}

impl OutputStream {
    fn attach_ends(&mut self, fd: OwnedFd, other_end: OwnedFd) {
        (self.fd, self.held) = (Some(fd), Some(other_end));
    }

    /// Closes the stream; later output is not read.
    pub(super) fn close_ends(&mut self) {
        (self.fd, self.held) = (None, None);
    }

    /// Reads the available data.
    pub(super) fn drain_available(&mut self, buffer: &mut [u8], patterns: &RegexSet) {
        let mut read_so_far = 0;
        while let Some(fd) = &self.fd
            && read_so_far < ONE_GO
        {
            match rustix::io::read(fd, &mut *buffer) {
                Ok(0) => self.close_ends(),
                Ok(length) => {
                    read_so_far += length;
                    self.capture.push_piece(&buffer[..length]);
                    if !patterns.is_empty() {
                        self.scanner.push_piece(patterns, &buffer[..length]);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.close_ends(),
            }
        }
    }
}

fn holds_nul(text: Vec<u8>) -> String {
    format!(
        "`{}` contains a NUL byte",
        OsString::from_vec(text).to_safe()
    )
}

/// Returns the error message without the number that the standard library adds.
fn plain_error(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
