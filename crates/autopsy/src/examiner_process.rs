//! Child process that analyses cores and programs, and its messages.
//!
//! Programs and libraries are mapped, so a process that reads one while it is truncated gets a SIGBUS. A core is a hostile
//! input for much code. So this process only reads files and answers; it can neither change files, start programs, nor open
//! connections.

use super::{Examiner, ExaminerSettings, LoaderSettings};
use provoke_model::{CodePoint, Text, parse_untrusted_json};
use provoke_sys::sandbox;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
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
    pub(super) settings: ExaminerSettings,
    pub(super) query: Query,
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

/// Why a query has no answer.
#[derive(Serialize, Deserialize)]
pub(super) enum Unanswered {
    /// The message of a panic.
    Panicked(String),
    TooLarge,
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
        let Request { settings, query } = read_message(&mut input)?;
        examiner.settings = settings;
        let answer = panic::catch_unwind(AssertUnwindSafe(|| examiner.answer_query(query)));
        let mut message = answer.unwrap_or_else(|_| {
            // The cache may be incomplete.
            examiner = Examiner::new(ExaminerSettings::default());
            let text = panic_text.lock().map_or(String::new(), |text| text.clone());
            encode_reason(Unanswered::Panicked(text))
        })?;
        if message.len() > MAX_MESSAGE {
            message = encode_reason(Unanswered::TooLarge)?;
        }
        write_message(&mut output, &message)?;
    }
}

impl Examiner {
    fn answer_query(&mut self, query: Query) -> serde_json::Result<Vec<u8>> {
        match query {
            Query::Core(core) => encode_answer(self.examine_core(Path::new(&core))),
            Query::Libraries { program, settings } => {
                let libraries = self.libraries_of(Path::new(&program), &settings);
                encode_answer(libraries.into_iter().map(Text::from).collect::<Vec<_>>())
            }
            Query::FramesAtOffset { file, offset } => {
                encode_answer(self.frames_at_offset(Path::new(&file), offset))
            }
            Query::Frames(points) => {
                let frames = points.iter().map(|point| {
                    self.frames_at(Path::new(point.object.as_os_str()), point.address)
                });
                encode_answer(frames.collect::<Vec<_>>())
            }
            Query::Variables { core, addresses } => {
                encode_answer(self.variables_at(Path::new(&core), &addresses))
            }
        }
    }
}

fn encode_answer(answer: impl Serialize) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Ok::<_, Unanswered>(answer))
}

fn encode_reason(reason: Unanswered) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&Err::<(), _>(reason))
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
