//! Reads the Python calls of a running process from the memory of its interpreter (CPython 3.11 to 3.13).
//!
//! The memory may change while it is read, and its contents are not trusted: every number is bounded, and what
//! cannot be read is left out.

mod code;
mod exported;
mod layout;

use crate::memory::{Mapping, ProcessMemory, read_mappings};
use exported::LoadedModule;
use layout::Layout;
use std::path::Path;

/// A thread of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonThread {
    /// Thread ID.
    pub tid: i32,
    /// Its calls, innermost first.
    pub calls: Vec<PythonCall>,
    /// Addresses of the locks that its `with` statements hold: those on which other threads wait.
    pub held_locks: Vec<u64>,
}

/// A call of a Python function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonCall {
    /// The qualified name of the function.
    pub function: String,
    /// The path of its file.
    pub file: String,
    /// The present line.
    pub line: u32,
}

/// Limits of what is read of a process.
const INTERPRETERS: usize = 16;
const THREADS: usize = 256;
const CALLS: usize = 32;
/// Limit of visited frames, which include those of C calls and of calls that are not kept.
const FRAMES: usize = 1024;
/// Limit of values of one frame that are searched for locks.
const VALUES: u64 = 64;

/// Owner of a frame that stands for a C call.
const OWNED_BY_C: u8 = 3;

/// Returns whether a file is an interpreter of Python or its library.
pub fn is_interpreter(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"python") || name.starts_with(b"libpython")
}

/// Returns the threads of the interpreter in a process; `None` if it has none, or its version is not supported.
pub fn read_threads(pid: i32) -> Option<Vec<PythonThread>> {
    let mappings = read_mappings(pid).ok()?;
    let memory = ProcessMemory::of_process(pid).ok()?;
    let is_start =
        |mapping: &&Mapping| mapping.offset == 0 && is_interpreter(Path::new(&mapping.name));
    mappings.iter().filter(is_start).find_map(|mapping| {
        let module = LoadedModule::at_address(&memory, mapping.range.start)?;
        let runtime = module.find_symbol("_PyRuntime")?;
        let version = module.find_symbol("Py_Version")?;
        let layout = layout::of_runtime(&memory, runtime, version)?;
        let interpreter = Interpreter {
            memory: &memory,
            layout,
        };
        Some(interpreter.read_threads(runtime))
    })
}

struct Interpreter<'a> {
    memory: &'a ProcessMemory,
    layout: Layout,
}

impl Interpreter<'_> {
    fn word(&self, address: u64) -> Option<u64> {
        let [word] = self.memory.read_words(address).ok()?;
        Some(word)
    }

    fn half(&self, address: u64) -> Option<u32> {
        let [half] = self.memory.read_halves(address).ok()?;
        Some(half)
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let mut byte = [0];
        self.memory.read_bytes(address, &mut byte).ok()?;
        Some(byte[0])
    }

    /// Returns the elements of a linked list.
    fn list(&self, first: Option<u64>, next: u64, max: usize) -> impl Iterator<Item = u64> {
        let is_element = |address: &u64| *address != 0;
        let following = move |address: &u64| self.word(address + next).filter(is_element);
        std::iter::successors(first.filter(is_element), following).take(max)
    }

    fn read_threads(&self, runtime: u64) -> Vec<PythonThread> {
        let layout = &self.layout;
        let interpreters = self.list(
            self.word(runtime + layout.interpreters),
            layout.next_interpreter,
            INTERPRETERS,
        );
        let threads = interpreters.flat_map(|interpreter| {
            self.list(
                self.word(interpreter + layout.threads),
                layout.next_thread,
                THREADS,
            )
        });
        threads
            .take(THREADS)
            .filter_map(|thread| self.read_thread(thread))
            .collect()
    }

    fn read_thread(&self, thread: u64) -> Option<PythonThread> {
        let layout = &self.layout;
        let tid = self.half(thread + layout.native_thread_id)?;
        let holder = match layout.c_frame {
            Some(offset) => self.word(thread + offset)?,
            None => thread,
        };
        let mut found = PythonThread {
            tid: tid.cast_signed(),
            ..PythonThread::default()
        };
        let first = self.word(holder + layout.current_frame);
        for frame in self.list(first, layout.previous_frame, FRAMES) {
            if self.byte(frame + layout.owner) == Some(OWNED_BY_C) {
                continue;
            }
            if let Some((call, locks)) = self.read_frame(frame) {
                found.held_locks.extend(locks);
                if found.calls.len() < CALLS {
                    found.calls.push(call);
                }
            }
        }
        Some(found)
    }

    /// Returns the call of a frame, and the locks that its `with` statements hold.
    fn read_frame(&self, frame: u64) -> Option<(PythonCall, Vec<u64>)> {
        let layout = &self.layout;
        let code = self.word(frame + layout.code)?;
        let instruction = self.word(frame + layout.instruction)?;
        // Before its first instruction, a frame of 3.11 and 3.12 is one code unit before the code.
        let offset = instruction.wrapping_sub(code + layout.instructions);
        let unit = offset.cast_signed() / 2;
        let first_line = self.half(code + layout.first_line)?;
        let lines = self.bytes_object(self.word(code + layout.line_table)?)?;
        let call = PythonCall {
            function: self.text(self.word(code + layout.function)?)?,
            file: self.text(self.word(code + layout.file)?)?,
            line: code::line_of_unit(&lines, first_line, unit).unwrap_or(first_line),
        };
        let locks = self.held_locks(frame, code, unit).unwrap_or_default();
        Some((call, locks))
    }

    /// Returns the locks whose `__exit__` a frame keeps until the end of a `with` statement.
    ///
    /// The values that the handler of the present instruction needs are on the stack for certain; values above
    /// them may be left from earlier.
    fn held_locks(&self, frame: u64, code: u64, unit: i64) -> Option<Vec<u64>> {
        let layout = &self.layout;
        let handlers = self.bytes_object(self.word(code + layout.handlers)?)?;
        let depth = code::depth_of_handler(&handlers, unit)?.min(VALUES);
        let locals = u64::from(self.half(code + layout.local_count)?);
        let stack = frame + layout.locals + locals * 8;
        let values = (0..depth).filter_map(|index| self.word(stack + index * 8));
        Some(
            values
                .filter_map(|value| self.lock_of_exit(value))
                .collect(),
        )
    }

    /// Returns the lock of a bound method `__exit__`.
    fn lock_of_exit(&self, value: u64) -> Option<u64> {
        if self.type_name(value)? != "builtin_function_or_method" {
            return None;
        }
        let object = self.word(value + layout::METHOD_SELF)?;
        let is_lock = matches!(&*self.type_name(object)?, "_thread.lock" | "_thread.RLock");
        is_lock.then(|| self.word(object + layout::LOCK))?
    }

    fn type_name(&self, object: u64) -> Option<String> {
        let object_type = self.word(object + layout::OBJECT_TYPE)?;
        let mut name = [0; 32];
        let address = self.word(object_type + layout::TYPE_NAME)?;
        self.memory.read_bytes(address, &mut name).ok()?;
        let end = name.iter().position(|byte| *byte == 0)?;
        Some(str::from_utf8(&name[..end]).ok()?.to_owned())
    }

    fn bytes_object(&self, object: u64) -> Option<Vec<u8>> {
        const LONGEST: u64 = 1 << 20;
        let size = self.word(object + layout::OBJECT_SIZE)?.min(LONGEST);
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let data = object + layout::BYTES_DATA;
        self.memory.read_bytes(data, &mut bytes).ok()?;
        Some(bytes)
    }

    fn text(&self, object: u64) -> Option<String> {
        const LONGEST: u64 = 4096;
        let state = self.half(object + layout::TEXT_STATE)?;
        let (width, is_ascii) = (state >> 2 & 7, state >> 6 & 1 == 1);
        let header = if is_ascii {
            self.layout.ascii_header
        } else {
            self.layout.text_header
        };
        let length = self.word(object + layout::OBJECT_SIZE)?.min(LONGEST);
        let mut bytes = vec![0; usize::try_from(length * u64::from(width)).ok()?];
        self.memory.read_bytes(object + header, &mut bytes).ok()?;
        let character = |bytes: &[u8]| {
            let code = bytes.iter().rev();
            let code = code.fold(0, |code, byte| code << 8 | u32::from(*byte));
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        match width {
            1 | 2 | 4 => Some(bytes.chunks(width as usize).map(character).collect()),
            _ => None,
        }
    }
}
