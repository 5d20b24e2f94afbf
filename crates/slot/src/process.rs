//! Process of a trial: its command line, its start, its streams, its end.

use super::capture::{OutputPatterns, PatternScanner, StreamCapture};
use super::command::{CommandLine, PlaceholderValues};
use super::container::{self, RunningContainer};
use super::setup::{Streams, TrialSetup};
use super::wire::VariantRecipe;
use provoke_levers::TrialStart;
use provoke_messages as messages;
use provoke_model::{ActorObservation, ActorPlan, ActorRole, Ending, Signal};
use provoke_sys::call_filter::WallClock;
use provoke_sys::child::{ChildEnd, WaitStatus};
use provoke_sys::spawn::{
    CStringArray, MachineAccess, Program, SpawnError, SpawnStep, Spawner, path_candidates,
};
use provoke_sys::user::Credentials;
use provoke_words::untrusted::Untrusted as _;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
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
    /// Other conditions, or why they cannot be set; a hook has none.
    pub(super) setup: Option<&'a io::Result<TrialSetup>>,
    /// User and group of the processes.
    pub(super) identity: Option<&'a Credentials>,
    /// Stdin of a process without input.
    pub(super) nothing: BorrowedFd<'a>,
    /// The processes that are traced.
    pub(super) trace: TracedRoles,
    /// The system calls that traced processes report.
    pub(super) traced_calls: &'a [u64],
    /// Whether they are not started without a tracer.
    pub(super) needs_tracer: bool,
    /// The wall clock that traced processes see.
    pub(super) wall_clock: WallClock,
    /// What the processes may do to the machine.
    pub(super) machine_access: MachineAccess,
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
    /// Whether the trial is judged by it; otherwise it only runs beside the others.
    pub(super) is_judged: bool,
    pub(super) name: String,
    pub(super) copy: u32,
    /// Pid, until the process is reaped.
    pub(super) pid: Option<i32>,
    pub(super) observation: ActorObservation,
    /// The ending is already decided, because provoke ends the process.
    pub(super) has_ending: bool,
    /// When it exited, if it did so after its outcome was decided.
    pub(super) exited_late: Option<Instant>,
    /// Reason why the process is not traced although it should be.
    pub(super) unfollowed: Option<String>,
    /// Container of the actor; the process itself is then the engine's client.
    pub(super) container: Option<RunningContainer>,
    pub(super) stdout: OutputStream,
    pub(super) err: OutputStream,
    /// The other end of a terminal that is stdin.
    input: Option<OwnedFd>,
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
    /// Pieces that do not belong to the output of the trial, while they are kept apart.
    diverted: Option<Vec<u8>>,
    /// File that gets the complete stream, and how many bytes it may still get.
    pub(super) copy: Option<(File, u64)>,
}

impl TrialProcess {
    /// Starts one copy of an actor. If that fails, the process counts as ended; no error is
    /// returned.
    pub(super) fn start_actor(
        spawner: &mut Spawner,
        actor: &ActorPlan,
        context: &TrialContext<'_>,
    ) -> Self {
        let started = Instant::now();
        let mut process = Self {
            role: actor.role,
            is_judged: true,
            name: actor.name.clone(),
            copy: 0,
            pid: None,
            observation: ActorObservation::default(),
            has_ending: false,
            exited_late: None,
            unfollowed: None,
            container: None,
            stdout: OutputStream::default(),
            err: OutputStream::default(),
            input: None,
            started,
        };
        match process.launch_actor(spawner, actor, context) {
            Ok(pid) => process.pid = Some(pid),
            Err(reason) => process.observation.ending = Ending::NotStarted(reason),
        }
        process
    }

    fn launch_actor(
        &mut self,
        spawner: &mut Spawner,
        actor: &ActorPlan,
        context: &TrialContext<'_>,
    ) -> Result<i32, String> {
        if let Some(reason) = &context.recipe.start.refusal {
            return Err(reason.clone());
        }
        let environment = &context.recipe.environment;
        let container_start = if actor.container.is_some() {
            context.start.as_ref()
        } else {
            None
        };
        let setup = match context.setup {
            Some(Ok(setup)) if container_start.is_none() => Some(setup),
            Some(Err(error)) => return Err(error.to_string()),
            _ => None,
        };
        let mut command = match container_start {
            Some(start) => {
                let words =
                    container::container_command(context.recipe, actor, context.numbers, start);
                let (held_container, words) = words?;
                self.container = Some(held_container);
                CommandLine::of_engine(environment, actor, words)
            }
            None => {
                let variables = setup.map_or(&[][..], |setup| &setup.variables);
                CommandLine::new(environment, actor, context.numbers).with_variables(variables)
            }
        };
        if let Some(setup) = setup {
            command.cwd = setup.cwd_of(command.cwd);
        }
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
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(file, flags, Mode::empty())
                .map_err(|error| format!("cannot open `{}` as stdin: {error}", file.to_safe()))
        };
        let input = command.stdin.map(open).transpose()?;
        let plain = TrialStart::default();
        let start = setup.map_or(&plain, |_| &context.recipe.start);
        let streams = Streams::open(start).map_err(|error| error.to_string())?;
        let input = input.or(streams.stdin);
        let ((stdout, out_end), (err, err_end)) = (streams.stdout, streams.stderr);
        let program = Program {
            paths: &paths,
            argv: &argv,
            envp: &envp,
            cwd: &cwd,
            stdio: [
                input.as_ref().map_or(context.nothing, OwnedFd::as_fd),
                out_end.as_fd(),
                err_end.as_fd(),
            ],
            // The limits are for the program in the container, and the client has passed them on.
            limits: if container_start.is_some() {
                &[]
            } else {
                context.limits
            },
            steps: setup.map(|setup| &setup.steps),
            identity: context.identity,
            traced_calls: context.traced_calls,
            needs_tracer: context.needs_tracer,
            wall_clock: context.wall_clock,
            // An engine needs them, and limits the program in the container itself.
            machine_access: if container_start.is_some() {
                MachineAccess::Inherited
            } else {
                context.machine_access
            },
            signal_when_parent_ends: rustix::process::Signal::KILL,
        };
        self.started = Instant::now();
        let is_traced = match context.trace {
            TracedRoles::None => false,
            TracedRoles::Deciding => actor.role.decides_outcome(),
            TracedRoles::All => true,
        };
        let spawned = if is_traced && container_start.is_none() {
            spawner.spawn_followed(&program)
        } else {
            spawner.spawn_program(&program).map(|pid| (pid, Ok(())))
        };
        let (pid, followed) =
            spawned.map_err(|error| describe_spawn_error(&error, command.program_name(), actor))?;
        self.observation.pid = pid;
        self.unfollowed = followed.err().map(|error| plain_error(&error));
        self.stdout.attach_ends(stdout, out_end);
        self.err.attach_ends(err, err_end);
        self.input = streams.input;
        Ok(pid)
    }

    /// Records the end of the process.
    pub(super) fn record_end(&mut self, child_end: ChildEnd) {
        self.pid = None;
        self.observation.elapsed = self.started.elapsed();
        self.observation.cpu = child_end.cpu;
        self.observation.max_rss = child_end.max_rss;
        if self.has_ending {
            let is_exit = matches!(child_end.status, WaitStatus::Exited(_));
            self.exited_late = is_exit.then(Instant::now);
        } else {
            self.observation.ending = match child_end.status {
                WaitStatus::Exited(code) => Ending::Exited(code),
                WaitStatus::Signaled(signal, core) => Ending::Signaled(Signal(signal), core),
            };
        }
    }

    /// Returns whether a line of the output matched this pattern.
    pub(super) fn has_said(&self, pattern: usize) -> bool {
        let streams = [&self.stdout, &self.err];
        streams
            .iter()
            .any(|stream| stream.scanner.has_pattern(pattern))
    }

    /// Returns the observation of the process after the trial.
    pub(super) fn final_report(&mut self) -> ActorObservation {
        self.observation.copy = self.copy;
        self.observation.written = (
            self.stdout.capture.total_bytes(),
            self.err.capture.total_bytes(),
        );
        if self.observation.ending != Ending::Exited(0) {
            let last = self
                .err
                .capture
                .last_line()
                .or_else(|| self.stdout.capture.last_line());
            self.observation.last_words = last.unwrap_or_default();
            let ends = [&self.err, &self.stdout].map(|stream| stream.capture.end_of_stream(TAIL));
            self.observation.crash_message = ends
                .iter()
                .find_map(|end| messages::find_message_line(end.as_bytes()));
            self.observation.site = ends.iter().find_map(|end| messages::find_site(end));
        }
        std::mem::take(&mut self.observation)
    }
}

impl OutputStream {
    fn attach_ends(&mut self, fd: OwnedFd, other_end: OwnedFd) {
        (self.fd, self.held) = (Some(fd), Some(other_end));
    }

    /// Writes a piece to the copy of the stream. A copy that cannot be written ends there.
    fn copy_piece(&mut self, piece: &[u8]) {
        if let Some((file, room)) = &mut self.copy {
            let fits = usize::try_from(*room).map_or(piece.len(), |room| room.min(piece.len()));
            *room -= fits as u64;
            if fits == 0 || file.write_all(&piece[..fits]).is_err() {
                self.copy = None;
            }
        }
    }

    /// Keeps later output apart from that of the trial.
    pub(super) fn divert(&mut self) {
        self.diverted = Some(Vec::new());
    }

    /// Returns what was kept apart since the last call, up to a limit.
    pub(super) fn take_diverted(&mut self) -> String {
        let diverted = self.diverted.as_mut().map(std::mem::take);
        String::from_utf8_lossy(&diverted.unwrap_or_default()).into_owned()
    }

    /// Adds later output to that of the trial again.
    pub(super) fn end_diversion(&mut self) {
        self.diverted = None;
    }

    /// Closes the stream; later output is not read.
    pub(super) fn close_ends(&mut self) {
        (self.fd, self.held) = (None, None);
    }

    /// Reads the available data.
    pub(super) fn drain_available(&mut self, buffer: &mut [u8], patterns: &OutputPatterns) {
        let mut read_so_far = 0;
        while let Some(fd) = &self.fd
            && read_so_far < ONE_GO
        {
            match rustix::io::read(fd, &mut *buffer) {
                Ok(0) => self.close_ends(),
                Ok(length) => {
                    read_so_far += length;
                    if let Some(diverted) = &mut self.diverted {
                        diverted.extend_from_slice(&buffer[..length]);
                        continue;
                    }
                    self.capture.push_piece(&buffer[..length]);
                    self.copy_piece(&buffer[..length]);
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

fn describe_spawn_error(error: &SpawnError, program_name: &OsStr, actor: &ActorPlan) -> String {
    let message = match error.step {
        SpawnStep::Exec => format!("cannot execute `{}`", program_name.to_safe()),
        SpawnStep::Chdir => format!("cannot enter the working directory `{}`", actor.cwd),
        SpawnStep::Limit
        | SpawnStep::Condition(_)
        | SpawnStep::Identity
        | SpawnStep::Trace
        | SpawnStep::Clone => error.to_string(),
    };
    format!("{message}: {}", plain_error(&error.source))
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
