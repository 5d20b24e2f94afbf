//! One process of a trial: its command line, its start, its streams, its end.

use super::capture::{Capture, Scanner};
use super::command::{CommandLine, Numbers};
use super::wire::Recipe;
use crate::model::{ActorPlan, ActorSeen, Ending, Role, Signal};
use crate::sys::child::{Ended, Status};
use crate::sys::limits;
use crate::sys::spawn::{Program, Spawner, Step, Strings, candidates};
use regex::bytes::RegexSet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::time::Instant;

/// A process that may have outlived its parent can write for ever; at one go no
/// more than this is read of it. A pipe holds less.
const ONE_GO: usize = 1 << 20;

/// A process of the present trial.
pub(super) struct Process {
    pub(super) role: Role,
    pub(super) name: String,
    pub(super) copy: u32,
    /// There until it is reaped.
    pub(super) pid: Option<i32>,
    pub(super) seen: ActorSeen,
    /// Its ending is decided already: it is we who end it.
    pub(super) sentenced: bool,
    pub(super) out: Stream,
    pub(super) err: Stream,
    started: Instant,
}

/// One of its output streams.
#[derive(Default)]
pub(super) struct Stream {
    pub(super) fd: Option<OwnedFd>,
    pub(super) capture: Capture,
    pub(super) scanner: Scanner,
}

impl Process {
    /// Starts one copy of an actor. One that cannot be started is a process that
    /// has ended: nothing fails here.
    pub(super) fn start(
        spawner: &mut Spawner,
        recipe: &Recipe,
        actor: &ActorPlan,
        numbers: &Numbers,
        nothing: BorrowedFd<'_>,
    ) -> Self {
        let started = Instant::now();
        let mut process = Self {
            role: actor.role,
            name: actor.name.clone(),
            copy: 0,
            pid: None,
            seen: ActorSeen::default(),
            sentenced: false,
            out: Stream::default(),
            err: Stream::default(),
            started,
        };
        match process.launch(spawner, recipe, actor, numbers, nothing) {
            Ok(pid) => process.pid = Some(pid),
            Err(why) => process.seen.ending = Ending::NotStarted(why),
        }
        process
    }

    fn launch(
        &mut self,
        spawner: &mut Spawner,
        recipe: &Recipe,
        actor: &ActorPlan,
        numbers: &Numbers,
        nothing: BorrowedFd<'_>,
    ) -> Result<i32, String> {
        let command = CommandLine::new(&recipe.environment, actor, numbers);
        let name = command
            .argv
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str);
        let paths = candidates(name, command.variable("PATH"));
        let cwd = c_string(command.cwd.into_os_string().into_vec())?;
        let argv = command
            .argv
            .iter()
            .map(|word| c_string(word.as_bytes().to_vec()));
        let argv = argv.collect::<Result<Strings, _>>()?;
        let envp = command
            .environment
            .iter()
            .map(|(name, value)| c_string([name.as_bytes(), b"=", value.as_bytes()].concat()));
        let envp = envp.collect::<Result<Strings, _>>()?;
        let limits: Vec<_> = recipe
            .limits
            .iter()
            .map(|limit| {
                (
                    limits::number(&limit.resource.to_string()).unwrap_or(u32::MAX),
                    limit.value.unwrap_or(limits::UNLIMITED),
                )
            })
            .collect();

        let open = |file: &PathBuf| {
            let how = OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::open(file, how, Mode::empty())
                .map_err(|error| format!("cannot open `{}` for its input: {error}", file.display()))
        };
        let input = command.stdin.as_ref().map(open).transpose()?;
        let pipe = || {
            rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
                .map_err(|error| format!("cannot make a pipe: {error}"))
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
                input.as_ref().map_or(nothing, OwnedFd::as_fd),
                out_end.as_fd(),
                err_end.as_fd(),
            ],
            limits: &limits,
        };
        self.started = Instant::now();
        let pid = spawner.spawn(&program).map_err(|error| {
            let what = match error.step {
                Step::Exec => format!("cannot execute `{}`", name.display()),
                Step::Chdir => format!("cannot enter the working directory `{}`", actor.cwd),
                Step::Limit | Step::Clone => error.to_string(),
            };
            format!("{what}: {}", plain(&error.source))
        })?;
        self.out.fd = Some(out);
        self.err.fd = Some(err);
        Ok(pid)
    }

    /// Records its end.
    pub(super) fn ended(&mut self, ended: Ended) {
        self.pid = None;
        self.seen.elapsed = self.started.elapsed();
        self.seen.cpu = ended.cpu;
        self.seen.max_rss = ended.max_rss;
        if !self.sentenced {
            self.seen.ending = match ended.status {
                Status::Exited(code) => Ending::Exited(code),
                Status::Signaled(signal, core) => Ending::Signaled(Signal(signal), core),
            };
        }
    }

    /// Returns what was seen of it, when the trial is over.
    pub(super) fn report(&mut self) -> ActorSeen {
        self.seen.copy = self.copy;
        self.seen.written = (self.out.capture.total(), self.err.capture.total());
        if self.seen.ending != Ending::Exited(0) {
            let last = self
                .err
                .capture
                .last_line()
                .or_else(|| self.out.capture.last_line());
            self.seen.last_words = last.unwrap_or_default();
        }
        std::mem::take(&mut self.seen)
    }
}

impl Stream {
    /// Reads what is there, and closes the stream at its end.
    pub(super) fn drain(&mut self, buffer: &mut [u8], patterns: &RegexSet) {
        let mut read_so_far = 0;
        while let Some(fd) = &self.fd
            && read_so_far < ONE_GO
        {
            match rustix::io::read(fd, &mut *buffer) {
                Ok(0) => self.fd = None,
                Ok(length) => {
                    read_so_far += length;
                    self.capture.push(&buffer[..length]);
                    if !patterns.is_empty() {
                        self.scanner.push(patterns, &buffer[..length]);
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.fd = None,
            }
        }
    }
}

fn c_string(bytes: Vec<u8>) -> Result<CString, String> {
    CString::new(bytes).map_err(|error| {
        let text = OsString::from_vec(error.into_vec());
        format!("`{}` holds a NUL byte", text.display())
    })
}

/// Returns the error without the number that the standard library adds.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}
