//! Client of the child process that analyses cores and programs.

use super::examiner_process::{
    COMMAND, MAX_MEMORY, Query, Request, Unanswered, read_message, write_message,
};
use super::{CoreError, ExaminerSettings, LoaderSettings};
use provoke_model::{Autopsy, CodePoint, Frame, Signal, Text};
use provoke_sys::helper::{self, HelperProcess};
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between checks of the time limit.
const PAUSE: Duration = Duration::from_millis(100);
/// Points whose names are requested at once.
const POINTS: usize = 1000;

/// Analyses cores and programs in a child process. A file that changes while it is read, or a hostile core, ends at most
/// this process.
///
/// The process starts with the first request, keeps its cache for the next one, and is started again if it has ended.
pub struct ExaminerClient {
    binary: PathBuf,
    settings: ExaminerSettings,
    time_limit: Duration,
    process: Option<ExaminerProcess>,
}

/// A running child process, which is killed and reaped when this is dropped.
struct ExaminerProcess {
    helper: HelperProcess,
    connection: UnixStream,
}

/// Reads from a connection until a time limit.
struct LimitedReader<'a> {
    connection: &'a UnixStream,
    remaining: Duration,
}

impl ExaminerClient {
    /// Creates a client without a process. The process runs this binary of the program; each request may take this long.
    pub fn new(binary: &Path, settings: ExaminerSettings, time_limit: Duration) -> Self {
        Self {
            binary: binary.to_owned(),
            settings,
            time_limit,
            process: None,
        }
    }

    /// Sets the root directory, the working directory and the CPU flags for the following cores.
    pub fn set_origin(
        &mut self,
        root: Option<PathBuf>,
        folder: &Path,
        processor: Option<BTreeSet<String>>,
    ) {
        self.settings.root = root.map(Text::from);
        self.settings.folder = folder.into();
        self.settings.processor = processor;
    }

    /// Returns the paths of the libraries that the loader finds for a program, without symlinks.
    pub fn libraries_of(&mut self, program: &Path, settings: &LoaderSettings) -> BTreeSet<PathBuf> {
        let query = Query::Libraries {
            program: program.into(),
            settings: settings.clone(),
        };
        let paths: Vec<Text> = self.ask(query).unwrap_or_default();
        paths.iter().map(PathBuf::from).collect()
    }

    /// Returns the function and the line at an offset in a program or a library, as [`Self::frames_at`] does.
    pub fn frames_at_offset(&mut self, file: &Path, offset: u64) -> Vec<Frame> {
        let file = Text::from(file);
        let query = Query::FramesAtOffset { file, offset };
        self.ask(query).unwrap_or_default()
    }

    /// Returns the function and the line at each of these points. Functions that were inlined there come before their
    /// callers.
    pub fn frames_at(&mut self, points: &[CodePoint]) -> Vec<Vec<Frame>> {
        let mut frames = Vec::with_capacity(points.len());
        for part in points.chunks(POINTS) {
            let query = Query::Frames(part.to_vec());
            let mut frames_of_part: Vec<Vec<Frame>> = self.ask(query).unwrap_or_default();
            frames_of_part.resize(part.len(), Vec::new());
            frames.extend(frames_of_part);
        }
        frames
    }

    /// Returns the variable at each of these addresses in the process of a core, by the symbols of its files.
    pub fn variables_at(&mut self, core: &Path, addresses: &[u64]) -> Vec<Option<String>> {
        let query = Query::Variables {
            core: core.into(),
            addresses: addresses.to_vec(),
        };
        self.ask(query).unwrap_or_default()
    }

    /// Reads a core.
    pub fn examine_core(&mut self, core: &Path) -> Result<Autopsy, CoreError> {
        let path = core.into();
        self.ask(Query::Core(core.into()))
            .unwrap_or_else(|why| Err(CoreError::Unfinished { path, why }))
    }

    /// Sends a query to the process, and starts it if necessary. The error says why there is no answer.
    fn ask<T: DeserializeOwned>(&mut self, query: Query) -> Result<T, String> {
        let running = self.process.take();
        let mut process = match running.and_then(ExaminerProcess::unless_ended) {
            Some(process) => process,
            None => ExaminerProcess::start(&self.binary)
                .map_err(|error| format!("cannot start its analysis: {error}"))?,
        };
        let request = Request {
            settings: self.settings.clone(),
            query,
        };
        match process.exchange(&request, self.time_limit) {
            Ok(answer) => {
                self.process = Some(process);
                answer.map_err(|reason| match reason {
                    Unanswered::Panicked(text) => format!("its analysis has a bug: {text}"),
                    Unanswered::TooLarge => "its analysis is too large".to_owned(),
                })
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let limit = self.time_limit.as_secs_f64();
                Err(format!("its analysis took longer than {limit} s"))
            }
            Err(error) => Err(process.describe_end(&error)),
        }
    }
}

impl ExaminerProcess {
    fn start(binary: &Path) -> io::Result<Self> {
        let (connection, other_end) = UnixStream::pair()?;
        let binary = helper::existing_program(binary);
        let (arguments, fd) = ([OsStr::new(COMMAND)], other_end.as_fd());
        Ok(Self {
            helper: HelperProcess::start(binary, &arguments, fd, fd)?,
            connection,
        })
    }

    /// Returns the process if it has not ended, for example because someone killed it.
    fn unless_ended(mut self) -> Option<Self> {
        (!self.helper.has_ended()).then_some(self)
    }

    /// Sends a request and reads its answer.
    fn exchange<T: DeserializeOwned>(
        &mut self,
        request: &Request,
        time_limit: Duration,
    ) -> io::Result<Result<T, Unanswered>> {
        self.connection.set_write_timeout(Some(time_limit))?;
        self.connection.set_read_timeout(Some(PAUSE))?;
        write_message(&mut &self.connection, &serde_json::to_vec(request)?)?;
        read_message(&mut LimitedReader {
            connection: &self.connection,
            remaining: time_limit,
        })
    }

    /// Kills the process after a failed exchange; returns why there is no answer.
    fn describe_end(mut self, error: &io::Error) -> String {
        let end_text = self.helper.kill_and_wait();
        if error.kind() == io::ErrorKind::InvalidData {
            return "its analysis sent an invalid answer".to_owned();
        }
        match self.helper.end_signal().map(Signal) {
            Some(Signal::BUS) => {
                "its program or a library was overwritten while it was read".to_owned()
            }
            Some(Signal::ABRT) => {
                let limit = MAX_MEMORY >> 30;
                format!("its analysis needs more than {limit} GiB of memory")
            }
            _ => format!("its analysis ended: {end_text}"),
        }
    }
}

impl Drop for ExaminerProcess {
    fn drop(&mut self) {
        self.helper.kill_and_wait();
    }
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.remaining.is_zero() {
            let began = Instant::now();
            let result = (&mut &*self.connection).read(buffer);
            // While this process is stopped by a signal, the process does not use up its time.
            self.remaining = self.remaining.saturating_sub(began.elapsed().min(PAUSE));
            match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}
