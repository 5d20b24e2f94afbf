//! Child process that analyses cores and programs, and its messages.
//!
//! Programs and libraries are mapped, so a process that reads one while it is truncated gets a SIGBUS. A core is a hostile
//! input for much code. So this process only reads files and answers; it can neither change files, start programs, nor open
//! connections.

use super::{CoreError, Examiner, ExaminerSettings, LoaderSettings};
use provoke_model::{Autopsy, CodePoint, Frame, Text, parse_untrusted_json};
use provoke_sys::sandbox;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Hidden subcommand that runs the binary as this process.
pub const COMMAND: &str = "examiner";

/// Limit of a message in bytes.
pub(super) const MAX_MESSAGE: usize = 64 << 20;
/// Limit of the memory of the process, without the mapped files.
pub(super) const MAX_MEMORY: u64 = 1 << 30;

/// Question to the process, with the settings for its answer.
#[derive(Serialize, Deserialize)]
pub(super) struct Request {
    debug_dirs: Vec<Text>,
    root: Option<Text>,
    folder: Text,
    program: Option<Text>,
    processor: Option<BTreeSet<String>>,
    query: Query,
}

/// Call of a method of [`Examiner`].
#[derive(Serialize, Deserialize)]
pub(super) enum Query {
    Core(Text),
    Libraries {
        program: Text,
        settings: LoaderSettings,
    },
    FramesAtOffset {
        file: Text,
        offset: u64,
    },
    Frames(Vec<CodePoint>),
    Variables {
        core: Text,
        addresses: Vec<u64>,
    },
}

/// Answer to a query.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Core(Result<Box<Autopsy>, CoreError>),
    Libraries(Vec<Text>),
    /// The frames of each point.
    Frames(Vec<Vec<Frame>>),
    Variables(Vec<Option<String>>),
    /// The message of a panic.
    Panicked(String),
    TooLarge,
}

impl Request {
    pub(super) fn new(settings: &ExaminerSettings, query: Query) -> Self {
        let text = |path: &PathBuf| Text::from(path.as_os_str());
        Self {
            debug_dirs: settings.debug_dirs.iter().map(text).collect(),
            root: settings.root.as_ref().map(text),
            folder: text(&settings.folder),
            program: settings.program.as_ref().map(text),
            processor: settings.processor.clone(),
            query,
        }
    }

    fn into_parts(self) -> (ExaminerSettings, Query) {
        let path = |text: &Text| PathBuf::from(text.as_os_str());
        let settings = ExaminerSettings {
            debug_dirs: self.debug_dirs.iter().map(path).collect(),
            root: self.root.as_ref().map(path),
            folder: path(&self.folder),
            program: self.program.as_ref().map(path),
            processor: self.processor,
        };
        (settings, self.query)
    }
}

/// Answers requests from stdin until it is closed.
pub fn serve() -> io::Result<()> {
    sandbox::exit_when_stdin_closes()?;
    let panic_text = Arc::new(Mutex::new(String::new()));
    let last_panic = Arc::clone(&panic_text);
    panic::set_hook(Box::new(move |info| {
        if let Ok(mut text) = last_panic.lock() {
            *text = info.to_string();
        }
    }));
    // Without a filter, because the kernel or a container refuses it, the process still protects the run.
    let _ = sandbox::restrict_to_reading(MAX_MEMORY);
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut examiner = Examiner::new(ExaminerSettings::default());
    loop {
        let (settings, query) = read_message::<Request>(&mut input)?.into_parts();
        examiner.settings = settings;
        let answer = panic::catch_unwind(AssertUnwindSafe(|| examiner.answer_query(query)));
        let answer = answer.unwrap_or_else(|_| {
            // The cache may be incomplete.
            examiner = Examiner::new(ExaminerSettings::default());
            Answer::Panicked(panic_text.lock().map_or(String::new(), |text| text.clone()))
        });
        let mut message = serde_json::to_vec(&answer)?;
        if message.len() > MAX_MESSAGE {
            message = serde_json::to_vec(&Answer::TooLarge)?;
        }
        write_message(&mut output, &message)?;
    }
}

impl Examiner {
    fn answer_query(&mut self, query: Query) -> Answer {
        let path = |text: &Text| PathBuf::from(text.as_os_str());
        match query {
            Query::Core(core) => Answer::Core(self.examine_core(&path(&core)).map(Box::new)),
            Query::Libraries { program, settings } => {
                let libraries = self.libraries_of(&path(&program), &settings);
                Answer::Libraries(libraries.into_iter().map(Text::from).collect())
            }
            Query::FramesAtOffset { file, offset } => {
                Answer::Frames(vec![self.frames_at_offset(&path(&file), offset)])
            }
            Query::Frames(points) => {
                let frames = points.iter().map(|point| {
                    self.frames_at(Path::new(point.object.as_os_str()), point.address)
                });
                Answer::Frames(frames.collect())
            }
            Query::Variables { core, addresses } => {
                Answer::Variables(self.variables_at(&path(&core), &addresses))
            }
        }
    }
}

/// Writes a message after its length.
pub(super) fn write_message(output: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(message)?;
    output.flush()
}

/// Reads a message after its length.
pub(super) fn read_message<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(io::Error::other)?;
    if length > MAX_MESSAGE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length];
    input.read_exact(&mut message)?;
    parse_untrusted_json(&message)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
