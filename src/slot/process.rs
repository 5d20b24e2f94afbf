//! One process of a trial: its command line, its start, its streams, its end.

use super::capture::{Capture, Scanner};
use super::wire::Recipe;
use crate::model::{ActorPlan, ActorSeen, Ending, Resource, Role, Signal, Text, Trial};
use crate::sys::child::{Ended, Status};
use crate::sys::spawn::{Program, Spawner, Step, Strings, candidates};
use regex::bytes::RegexSet;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::Instant;

/// A process that may have outlived its parent can write for ever; at one go no
/// more than this is read of it. A pipe holds less.
const ONE_GO: usize = 1 << 20;

/// A process of the present trial.
pub(super) struct Process {
    pub(super) role: Role,
    pub(super) name: String,
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

/// The values that a command line and the environment may refer to.
pub(super) struct Numbers<'a> {
    values: [(&'static str, &'static str, OsString); 5],
    scratch: Option<&'a Path>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(trial: &Trial, variant: &str, scratch: Option<&'a Path>) -> Self {
        let text = |value: u64| OsString::from(value.to_string());
        let values = [
            ("{trial}", "PROVOKE_TRIAL", text(trial.id.0)),
            ("{slot}", "PROVOKE_SLOT", text(u64::from(trial.lane.0))),
            ("{seed}", "PROVOKE_SEED", text(trial.seed)),
            ("{variant}", "PROVOKE_VARIANT", variant.into()),
            ("{dir}", "PROVOKE_DIR", scratch.unwrap_or(Path::new("")).into()),
        ];
        Self { values, scratch }
    }

    /// Returns no numbers: for what runs outside of any trial.
    pub(super) fn none() -> Self {
        let unset = |mark, name| (mark, name, OsString::new());
        let values = [
            unset("{trial}", "PROVOKE_TRIAL"),
            unset("{slot}", "PROVOKE_SLOT"),
            unset("{seed}", "PROVOKE_SEED"),
            unset("{variant}", "PROVOKE_VARIANT"),
            unset("{dir}", "PROVOKE_DIR"),
        ];
        Self { values, scratch: None }
    }

    fn fill(&self, text: &Text) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        if bytes.contains(&b'{') {
            for (mark, _, value) in &self.values {
                bytes = replace(&bytes, mark.as_bytes(), value.as_bytes());
            }
        }
        bytes
    }

    fn environment(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let temporary = self.scratch.map(|dir| (OsStr::new("TMPDIR"), dir.as_os_str()));
        let own = self.values.iter().map(|(_, name, value)| (OsStr::new(*name), value.as_os_str()));
        own.filter(|(_, value)| !value.is_empty()).chain(temporary)
    }
}

fn replace(text: &[u8], mark: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(value);
        rest = &rest[at + mark.len()..];
    }
    out.extend_from_slice(rest);
    out
}

impl Process {
    /// Starts one copy of an actor. One that cannot be started is a process that
    /// has ended: nothing fails here.
    pub(super) fn start(
        spawner: &mut Spawner,
        recipe: &Recipe,
        actor: &ActorPlan,
        numbers: &Numbers<'_>,
        nothing: BorrowedFd<'_>,
    ) -> Self {
        let started = Instant::now();
        let mut process = Self {
            role: actor.role,
            name: actor.name.clone(),
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
        numbers: &Numbers<'_>,
        nothing: BorrowedFd<'_>,
    ) -> Result<i32, String> {
        let argv: Vec<Vec<u8>> = actor.command.iter().map(|text| numbers.fill(text)).collect();
        let environment = environment(recipe, actor, numbers);
        let path = environment.iter().find(|(name, _)| *name == "PATH").map(|(_, value)| *value);
        let paths = candidates(OsStr::from_bytes(argv.first().map_or(b"", Vec::as_slice)), path);
        let cwd = c_string(actor.cwd.as_bytes().to_vec())?;
        let argv = argv.into_iter().map(c_string).collect::<Result<Strings, _>>()?;
        let envp = environment.iter().map(|(name, value)| {
            c_string([name.as_bytes(), b"=", value.as_bytes()].concat())
        });
        let envp = envp.collect::<Result<Strings, _>>()?;
        let limits: Vec<_> = recipe.limits.iter().map(|limit| (number(limit.resource), limit.value.unwrap_or(libc::RLIM_INFINITY))).collect();

        let input = match &actor.stdin {
            None => None,
            Some(file) => {
                let how = OFlags::RDONLY | OFlags::CLOEXEC;
                let open = rustix::fs::open(file.as_os_str(), how, Mode::empty());
                Some(open.map_err(|error| format!("cannot open `{file}` for its input: {error}"))?)
            }
        };
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("cannot make a pipe: {error}"));
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        for end in [&out, &err] {
            rustix::io::ioctl_fionbio(end, true).map_err(|error| error.to_string())?;
        }
        let program = Program {
            paths: &paths,
            argv: &argv,
            envp: &envp,
            cwd: &cwd,
            stdio: [input.as_ref().map_or(nothing, OwnedFd::as_fd), out_end.as_fd(), err_end.as_fd()],
            limits: &limits,
        };
        self.started = Instant::now();
        let pid = spawner.spawn(&program).map_err(|error| {
            let what = match error.step {
                Step::Exec => format!("cannot execute `{}`", actor.command.first().map_or(String::new(), ToString::to_string)),
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
        self.seen.written = (self.out.capture.total(), self.err.capture.total());
        if self.seen.ending != Ending::Exited(0) {
            let last = self.err.capture.last_line().or_else(|| self.out.capture.last_line());
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

/// Returns the environment of an actor: the plan's, its own changes, our numbers.
fn environment<'a>(
    recipe: &'a Recipe,
    actor: &'a ActorPlan,
    numbers: &'a Numbers<'_>,
) -> Vec<(&'a OsStr, &'a OsStr)> {
    let base = recipe.environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let mut all: Vec<_> = base.collect();
    let mut set = |name: &'a OsStr, value: Option<&'a OsStr>| {
        all.retain(|(known, _)| *known != name);
        all.extend(value.map(|value| (name, value)));
    };
    for (name, value) in numbers.environment() {
        set(name, Some(value));
    }
    for (name, value) in &actor.env {
        set(name.as_os_str(), value.as_ref().map(Text::as_os_str));
    }
    all
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
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

fn number(resource: Resource) -> u32 {
    match resource {
        Resource::As => libc::RLIMIT_AS,
        Resource::Core => libc::RLIMIT_CORE,
        Resource::Cpu => libc::RLIMIT_CPU,
        Resource::Data => libc::RLIMIT_DATA,
        Resource::Fsize => libc::RLIMIT_FSIZE,
        Resource::Memlock => libc::RLIMIT_MEMLOCK,
        Resource::Nofile => libc::RLIMIT_NOFILE,
        Resource::Nproc => libc::RLIMIT_NPROC,
        Resource::Rss => libc::RLIMIT_RSS,
        Resource::Stack => libc::RLIMIT_STACK,
    }
}
