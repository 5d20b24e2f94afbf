//! Evidence of a crash or hang beyond its exit status: stacks, faults, signatures.

use super::{Signal, Text, is_default};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// File in a trial's folder with the complete analysis of its crash or hang.
pub const STORY_FILE: &str = "crash.json";

/// Folder in a trial's folder with the reports of its test runner.
pub const CASES_FOLDER: &str = "cases";

/// Complete analysis of a process that crashed or hung, from its core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Autopsy {
    /// The short form, which is stored in the journal and used for signatures.
    pub crash: Crash,
    /// All threads; the crashed thread comes first.
    pub threads: Vec<Thread>,
    /// Registers of the crashed thread, at the fault.
    pub registers: Vec<(String, u64)>,
    /// The files that were mapped as code.
    pub modules: Vec<Module>,
    /// Output of optional tools: the name of the tool, and its text.
    pub tools: Vec<(String, String)>,
    /// Facts that could not be determined, with the reasons.
    pub gaps: Vec<String>,
}

impl Autopsy {
    /// Returns the path of the program: the name of a process has at most 15 characters of it.
    pub fn program_path(&self) -> Option<&str> {
        let name = self.crash.program.as_str();
        let is_program = |path: &&str| {
            let file = path.rsplit('/').next().unwrap_or(path);
            !name.is_empty() && file.starts_with(name)
        };
        let mut paths = self.modules.iter().map(|module| module.path.as_str());
        paths.find(is_program)
    }
}

/// The contents of a core about a crash, short enough for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Crash {
    /// Process ID.
    pub pid: i32,
    /// Name of the process.
    pub program: String,
    /// The fatal signal; `None` for a hang.
    pub signal: Option<Signal>,
    /// The cause of the crash.
    pub fault: Fault,
    /// The message of the C library or a runtime when it aborted, as found in the memory of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub abort: Option<String>,
    /// The innermost calls of the crashed thread, innermost first.
    pub frames: Vec<Frame>,
    /// Offset of the crashing instruction in its file, as the kernel's log gives it.
    #[serde(skip_serializing_if = "is_default")]
    pub place: Option<u64>,
    /// Number of the crashed thread, from 1 in the order of creation.
    pub thread: u32,
    /// Name of the crashed thread, if it is known and differs from that of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub thread_name: Option<String>,
    /// Phase of the process at the crash.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: ProcessPhase,
    /// Whether the core lacks the stack, so that only the innermost call is known.
    #[serde(skip_serializing_if = "is_default")]
    pub stackless: bool,
    /// The Python calls of the crashed thread, innermost first, if a tool could read them.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "python_calls")]
    pub python: Vec<Frame>,
}

/// A thread and its stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Thread ID.
    pub tid: i32,
    /// Thread name, if it is known.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Its calls, innermost first.
    pub frames: Vec<Frame>,
    /// Why the stack ends before the outermost call, if it does.
    #[serde(skip_serializing_if = "is_default")]
    pub cut: Option<String>,
}

/// One call on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Address of the instruction in the file as linked, as `objdump` and `nm` show it.
    pub offset: u64,
    /// Base name of the file; `None` for an address outside of any file.
    #[serde(skip_serializing_if = "is_default")]
    pub module: Option<String>,
    /// The function, demangled.
    #[serde(skip_serializing_if = "is_default")]
    pub function: Option<String>,
    /// Whether the function was inlined into its caller, which is the next frame.
    #[serde(skip_serializing_if = "is_default")]
    pub inlined: bool,
    /// Source file and line.
    #[serde(skip_serializing_if = "is_default")]
    pub line: Option<(String, u32)>,
    /// Number of equal calls in a row after this one.
    #[serde(skip_serializing_if = "is_default")]
    pub repeated: u64,
}

impl Frame {
    /// Reads a Python call as py-spy prints it: `loss (job.py:4)`.
    pub fn of_python(text: &str) -> Option<Self> {
        let (function, location) = text.trim().strip_suffix(')')?.split_once(" (")?;
        let (file, line) = location.rsplit_once(':')?;
        Some(Self {
            function: Some(function.to_owned()),
            line: Some((file.to_owned(), line.parse().ok()?)),
            ..Self::default()
        })
    }
}

/// Reads Python calls; older journals contain only the innermost one, as text.
fn python_calls<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Frame>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Calls {
        All(Vec<Frame>),
        Innermost(String),
    }
    Ok(match Calls::deserialize(deserializer)? {
        Calls::All(calls) => calls,
        Calls::Innermost(text) => Frame::of_python(&text).into_iter().collect(),
    })
}

/// A file that was mapped as code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// Its path.
    pub path: String,
    /// Address of its mapping.
    pub base: u64,
    /// Build ID, in hexadecimal.
    pub build_id: Option<String>,
    /// Symbols that were available for its functions: `lines`, `symbols`, `exports`, `nothing`.
    pub symbols: String,
}

/// The cause of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// Its class: a short stable phrase that is part of the signature, such as `null pointer`.
    pub class: String,
    /// Details for the user, such as the offset, the garbage pointer, or the next step: `offset 0x10: a field of an
    /// object whose pointer is null`.
    #[serde(skip_serializing_if = "is_default")]
    pub detail: String,
    /// The accessed address.
    #[serde(skip_serializing_if = "is_default")]
    pub address: Option<u64>,
    /// The instruction, disassembled.
    #[serde(skip_serializing_if = "is_default")]
    pub instruction: Option<String>,
    /// A CPU feature that the instruction needs and the machine lacks.
    #[serde(skip_serializing_if = "is_default")]
    pub lacks: Option<String>,
    /// The process that sent the signal, if a process did.
    #[serde(skip_serializing_if = "is_default")]
    pub sender: Option<i32>,
}

/// A core file of a process of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreObservation {
    /// Process ID.
    pub pid: i32,
    /// Present path of the file.
    pub file: Text,
    /// Size in bytes, holes included.
    pub size: u64,
    /// The analysis of the core.
    #[serde(skip_serializing_if = "is_default")]
    pub crash: Option<Box<Crash>>,
    /// Why the core could not be analysed.
    #[serde(skip_serializing_if = "is_default")]
    pub unread: Option<String>,
}

/// A process of the trial that died of a signal and is not an actor. The ends of actors are recorded with the actors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CrashedProcess {
    /// Process ID.
    pub pid: i32,
    /// Name of the process, if it is known.
    #[serde(skip_serializing_if = "is_default")]
    pub program: String,
    /// The fatal signal.
    pub signal: Option<Signal>,
    /// Whether the kernel dumped a core.
    #[serde(skip_serializing_if = "is_default")]
    pub core: bool,
}

/// A line of the kernel's log about a process of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLine {
    /// Process ID.
    pub pid: i32,
    /// The line, without its time.
    pub text: String,
    /// The function at the address in the line, and its source line, from the program or its library.
    #[serde(
        skip_serializing_if = "is_default",
        deserialize_with = "logged_function"
    )]
    pub function: Option<Frame>,
}

/// Reads a function; older journals contain only its name.
fn logged_function<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Frame>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Function {
        Located(Frame),
        Named(String),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(Function::Named(name)) => Some(Frame {
            function: Some(name),
            ..Frame::default()
        }),
        Some(Function::Located(frame)) => Some(frame),
        None => None,
    })
}

/// Phase of a process at a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProcessPhase {
    /// Before `main`: the loader, or constructors.
    Start,
    /// In between.
    #[default]
    Run,
    /// Exit handlers, destructors, the end of an interpreter.
    Shutdown,
}

/// The identity of a failure: the same bug has the same signature in every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Short name.
    pub id: SignatureId,
    /// Title for the user: `SIGSEGV, null pointer + 0x10, in libfoo.so!conv < forward`.
    pub title: String,
    /// The kind of evidence that the signature uses.
    pub depth: EvidenceDepth,
    /// Names of the same failure for less detailed evidence.
    #[serde(default, skip_serializing_if = "is_default")]
    pub also: Vec<(EvidenceDepth, SignatureId)>,
    /// Whether the signature contains an offset in a file, which differs in the next build.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placed: bool,
    /// A wider name under which the failure may be counted, such as `heap` for all reports of heap damage.
    #[serde(default, skip_serializing_if = "is_default")]
    pub family: Option<String>,
    /// Wider names that several signatures share: one for the function, one for the library.
    #[serde(default, skip_serializing_if = "is_default")]
    pub families: Vec<Family>,
}

impl Signature {
    /// Returns all names of the failure, each with the kind of evidence that it uses.
    pub fn names(&self) -> impl Iterator<Item = (EvidenceDepth, SignatureId)> {
        std::iter::once((self.depth, self.id)).chain(self.also.iter().copied())
    }

    /// Returns the names of the failure that use this kind of evidence.
    pub fn names_at(&self, depth: EvidenceDepth) -> impl Iterator<Item = SignatureId> {
        let names = self.names().filter(move |(of_name, _)| *of_name == depth);
        names.map(|(_, id)| id)
    }

    /// Returns whether the same bug has this name in every build: it uses a message of the program, or a stack without
    /// offsets in a file. If heap damage was found, the name may differ in every trial.
    pub fn is_same_in_any_build(&self) -> bool {
        let named = self.depth == EvidenceDepth::Output
            || self.depth == EvidenceDepth::Stack && !self.placed;
        named && self.family.is_none()
    }
}

/// A group of signatures that may be one bug: one signal in one function, or in one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Short name.
    pub id: SignatureId,
    /// Title for the user: `SIGSEGV in libfoo.so`.
    pub title: String,
}

/// The short name of a signature: eight hexadecimal digits, `a41f09c2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SignatureId(pub u32);

/// The evidence that a signature is made from, from little to much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EvidenceDepth {
    /// The exit status alone.
    #[default]
    Status,
    /// The output of the program.
    Output,
    /// A line in the kernel's log.
    Kernel,
    /// The stack, from a core or from the running process.
    Stack,
}

impl fmt::Display for SignatureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl From<SignatureId> for String {
    fn from(id: SignatureId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for SignatureId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for SignatureId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let error_text =
            || format!("`{text}` is not the name of a signature: eight hexadecimal digits");
        if text.len() != 8 {
            return Err(error_text());
        }
        u32::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| error_text())
    }
}

impl fmt::Display for EvidenceDepth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Status => "exit status",
            Self::Output => "output",
            Self::Kernel => "kernel log",
            Self::Stack => "stack",
        })
    }
}

impl fmt::Display for ProcessPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "before main",
            Self::Run => "run",
            Self::Shutdown => "shutdown",
        })
    }
}
