//! Evidence of a crash or hang beyond its exit status: stacks, faults, signatures.

use super::{Signal, Text, is_default};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The full story of one process that crashed or hung, as its core tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Autopsy {
    /// The short form, which is what the journal keeps and signatures are made of.
    pub crash: Crash,
    /// Every thread; the one that crashed comes first.
    pub threads: Vec<Thread>,
    /// Registers of the thread that crashed, at the fault.
    pub registers: Vec<(String, u64)>,
    /// The files that were mapped as code.
    pub modules: Vec<Module>,
    /// What optional tools had to say: the tool's name, and its words.
    pub tools: Vec<(String, String)>,
    /// What could not be found out, and why.
    pub gaps: Vec<String>,
}

/// What a core says of a crash, short enough for the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Crash {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub program: String,
    /// The signal it died of; of a hang there is none.
    pub signal: Option<Signal>,
    /// What went wrong.
    pub fault: Fault,
    /// What the C library or a runtime said when it gave up, as it stood in the
    /// memory of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub abort: Option<String>,
    /// The innermost calls of the thread that crashed, innermost first.
    pub frames: Vec<Frame>,
    /// Where in its file the instruction is that crashed, as the kernel's log counts it.
    #[serde(skip_serializing_if = "is_default")]
    pub place: Option<u64>,
    /// The number of that thread, counted from 1 in the order of creation.
    pub thread: u32,
    /// The name of that thread, where it is known and not that of the process.
    #[serde(skip_serializing_if = "is_default")]
    pub thread_name: Option<String>,
    /// Where in its life the process was.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: Phase,
    /// The core does not hold the stack, so that only the innermost call is known.
    #[serde(skip_serializing_if = "is_default")]
    pub stackless: bool,
    /// The Python calls of that thread, innermost first, if a tool could read them.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "python_calls")]
    pub python: Vec<Frame>,
}

/// A thread and its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its number in the kernel.
    pub tid: i32,
    /// Its name, where it is known.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Its calls, innermost first.
    pub frames: Vec<Frame>,
    /// Why the list ends before the outermost call, where it does.
    #[serde(skip_serializing_if = "is_default")]
    pub cut: Option<String>,
}

/// One call on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The instruction, as an address in the file as it was linked: what `objdump` and `nm` show.
    pub offset: u64,
    /// The file's name without its folder; nothing outside of any file.
    #[serde(skip_serializing_if = "is_default")]
    pub module: Option<String>,
    /// The function, demangled.
    #[serde(skip_serializing_if = "is_default")]
    pub function: Option<String>,
    /// It was compiled into its caller, which is the next frame.
    #[serde(skip_serializing_if = "is_default")]
    pub inlined: bool,
    /// Source file and line.
    #[serde(skip_serializing_if = "is_default")]
    pub line: Option<(String, u32)>,
    /// How many calls in a row are equal to this one, without itself.
    #[serde(skip_serializing_if = "is_default")]
    pub repeated: u64,
}

impl Frame {
    /// Reads a Python call as py-spy prints it: `loss (job.py:4)`.
    pub fn of_python(text: &str) -> Option<Self> {
        let (function, place) = text.trim().strip_suffix(')')?.split_once(" (")?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self {
            function: Some(function.to_owned()),
            line: Some((file.to_owned(), line.parse().ok()?)),
            ..Self::default()
        })
    }
}

/// Reads Python calls; older journals hold only the innermost one, as text.
fn python_calls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Frame>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Calls {
        All(Vec<Frame>),
        Innermost(String),
    }
    Ok(match Calls::deserialize(from)? {
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
    /// Where it was mapped.
    pub base: u64,
    /// What identifies the build, in hexadecimal.
    pub build_id: Option<String>,
    /// How well its functions could be named: `lines`, `symbols`, `exports`, `nothing`.
    pub symbols: String,
}

/// What went wrong at the instruction that did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// Its class: one short stable phrase, part of the signature. `null pointer`.
    pub class: String,
    /// What a person wants to know besides: the offset, the garbage pointer, what is
    /// done about it. `offset 0x10: a field of an object whose pointer is null`.
    #[serde(skip_serializing_if = "is_default")]
    pub detail: String,
    /// The address that was touched.
    #[serde(skip_serializing_if = "is_default")]
    pub address: Option<u64>,
    /// The instruction, disassembled.
    #[serde(skip_serializing_if = "is_default")]
    pub instruction: Option<String>,
    /// A processor feature that the instruction needs and the machine lacks.
    #[serde(skip_serializing_if = "is_default")]
    pub lacks: Option<String>,
    /// The process that sent the signal, where one did.
    #[serde(skip_serializing_if = "is_default")]
    pub sender: Option<i32>,
}

/// A core file that a process of the trial left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreSeen {
    /// The process.
    pub pid: i32,
    /// Where the file is now.
    pub file: Text,
    /// Its size in bytes, holes included.
    pub size: u64,
    /// What it says.
    #[serde(skip_serializing_if = "is_default")]
    pub crash: Option<Box<Crash>>,
    /// Why it says nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub unread: Option<String>,
}

/// A process of the trial that died of a signal, but not one of the plan's own, whose
/// endings are among the actors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Casualty {
    /// The process.
    pub pid: i32,
    /// Its name, where it is known.
    #[serde(skip_serializing_if = "is_default")]
    pub program: String,
    /// What it died of.
    pub signal: Option<Signal>,
    /// The kernel dumped a core.
    #[serde(skip_serializing_if = "is_default")]
    pub core: bool,
}

/// A line of the kernel's log about a process of the trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLine {
    /// The process.
    pub pid: i32,
    /// The line, without its time.
    pub text: String,
    /// The function at the place that it names, by the symbols of the program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub function: Option<String>,
}

/// Where in its life a process was.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before `main`: the loader, or constructors.
    Start,
    /// In between.
    #[default]
    Run,
    /// Exit handlers, destructors, the end of an interpreter.
    Shutdown,
}

/// Which failure this is, so that the same bug has the same name in every trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Its short name.
    pub id: SignatureId,
    /// The same for people: `SIGSEGV, null pointer + 0x10, in libfoo.so!conv < forward`.
    pub title: String,
    /// The evidence that it is made from.
    pub depth: Depth,
    /// Under which names the same failure goes where less is known of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub also: Vec<(Depth, SignatureId)>,
    /// It holds a place in a file, which the next build has elsewhere.
    #[serde(default, skip_serializing_if = "is_default")]
    pub placed: bool,
    /// A wider name under which this may be counted: `heap` of all that found the heap damaged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub family: Option<String>,
    /// Wider names, under which failures of several signatures can be looked for together:
    /// of one function, of one library.
    #[serde(default, skip_serializing_if = "is_default")]
    pub families: Vec<Family>,
}

impl Signature {
    /// True where the same bug has this name in every build: it rests on what the program said, or on a stack without
    /// places in a file. Where the heap was found damaged, it may be another name in every trial.
    pub fn is_same_in_any_build(&self) -> bool {
        let named = self.depth == Depth::Output || self.depth == Depth::Stack && !self.placed;
        named && self.family.is_none()
    }
}

/// Signatures that may be one bug: of one signal in one function, or in one library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Its short name.
    pub id: SignatureId,
    /// The same for people: `SIGSEGV in libfoo.so`.
    pub title: String,
}

/// The short name of a signature: eight hexadecimal digits, `a41f09c2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SignatureId(pub u32);

/// The evidence that a signature is made from, from little to much.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
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
        let wanted =
            || format!("`{text}` is not the name of a signature: eight hexadecimal digits");
        if text.len() != 8 {
            return Err(wanted());
        }
        u32::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| wanted())
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Status => "exit status",
            Self::Output => "output",
            Self::Kernel => "kernel log",
            Self::Stack => "stack",
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Start => "before main",
            Self::Run => "run",
            Self::Shutdown => "shutdown",
        })
    }
}
