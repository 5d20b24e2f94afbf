//! Reads the Python calls of a process from the memory of its interpreter (CPython 3.11 to 3.13).
//!
//! The memory of a running process may change while it is read, and its contents are not trusted: every number is bounded, and what
//! cannot be read is left out.

mod code;
mod exported;
mod layout;
mod reader;

use crate::memory::MemoryReader;
use exported::LoadedModule;
use layout::Layout;
use reader::FieldReader;
use std::collections::BTreeMap;
use std::path::Path;

/// A thread of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonThread {
    /// Thread ID in the process's own container.
    pub tid: i32,
    /// Its calls, innermost first.
    pub calls: Vec<PythonCall>,
    /// Addresses of the locks that its `with` statements hold: those on which other threads wait.
    pub held_locks: Vec<u64>,
    /// The address of the lock that it releases at its end.
    pub end_lock: Option<u64>,
    /// The ID of the thread for whose end it waits, as far as its calls show that.
    pub joins: Option<i32>,
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
/// Limit of visited frames of all threads together.
const ALL_FRAMES: usize = 4096;
/// Limit of values of one frame that are searched for locks.
const VALUES: u64 = 64;

/// Owner of a frame that stands for a C call.
const OWNED_BY_C: u8 = 3;

/// Returns whether a file is an interpreter of Python or its library.
pub fn is_interpreter(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.starts_with(b"python") || name.starts_with(b"libpython")
}

/// Returns the threads of the interpreter in a memory into which these files are loaded; `None` if none of them is an
/// interpreter of a supported version.
pub fn read_threads<'a>(
    memory: &dyn MemoryReader,
    files: impl IntoIterator<Item = (u64, &'a Path)>,
) -> Option<Vec<PythonThread>> {
    let memory = FieldReader(memory);
    let mut files = files.into_iter().filter(|(_, path)| is_interpreter(path));
    files.find_map(|(start, _)| {
        let module = LoadedModule::at_address(memory, start)?;
        let runtime = module.find_symbol("_PyRuntime")?;
        let version = module.find_symbol("Py_Version")?;
        let layout = layout::of_runtime(memory, runtime, version)?;
        Some(Interpreter { memory, layout }.read_threads(runtime))
    })
}

struct Interpreter<'a> {
    memory: FieldReader<'a>,
    layout: Layout,
}

impl Interpreter<'_> {
    /// Returns the elements of a linked list.
    fn list(&self, first: Option<u64>, next: u64, max: usize) -> impl Iterator<Item = u64> {
        let is_element = |address: &u64| *address != 0;
        let following = move |address: &u64| self.memory.word(*address, next).filter(is_element);
        std::iter::successors(first.filter(is_element), following).take(max)
    }

    fn read_threads(&self, runtime: u64) -> Vec<PythonThread> {
        let layout = &self.layout;
        let interpreters = self.list(
            self.memory.word(runtime, layout.interpreters),
            layout.next_interpreter,
            INTERPRETERS,
        );
        let threads = interpreters.flat_map(|interpreter| {
            self.list(
                self.memory.word(interpreter, layout.threads),
                layout.next_thread,
                THREADS,
            )
        });
        let mut remaining = ALL_FRAMES;
        let mut found: Vec<PythonThread> = Vec::new();
        let mut pthreads = BTreeMap::new();
        let mut joins = Vec::new();
        for thread in threads.take(THREADS) {
            let Some((python_thread, joined)) = self.read_thread(thread, &mut remaining) else {
                continue;
            };
            let pthread = self.memory.word(thread, layout.pthread);
            pthreads.extend(pthread.map(|pthread| (pthread, python_thread.tid)));
            joins.push(joined);
            found.push(python_thread);
        }
        for (thread, joined) in found.iter_mut().zip(joins) {
            thread.joins = joined.and_then(|pthread| pthreads.get(&pthread).copied());
        }
        found
    }

    /// Returns a thread, and the thread that it joins.
    fn read_thread(
        &self,
        thread: u64,
        remaining: &mut usize,
    ) -> Option<(PythonThread, Option<u64>)> {
        let layout = &self.layout;
        let tid = self.memory.half(thread, layout.native_thread_id)?;
        let holder = match layout.c_frame {
            Some(offset) => self.memory.word(thread, offset)?,
            None => thread,
        };
        let mut found = PythonThread {
            tid: tid.cast_signed(),
            end_lock: self.end_lock(thread),
            ..PythonThread::default()
        };
        let mut joined = None;
        let first = self.memory.word(holder, layout.current_frame);
        for frame in self.list(first, layout.previous_frame, FRAMES.min(*remaining)) {
            *remaining -= 1;
            if self.memory.byte(frame, layout.owner) == Some(OWNED_BY_C) {
                continue;
            }
            if let Some((call, locks)) = self.read_frame(frame) {
                if found.calls.is_empty() && call.function == "Thread.join" {
                    joined = self.joined_pthread(frame);
                }
                found.held_locks.extend(locks);
                if found.calls.len() < CALLS {
                    found.calls.push(call);
                }
            }
        }
        Some((found, joined))
    }

    /// Returns the call of a frame, and the locks that its `with` statements hold.
    fn read_frame(&self, frame: u64) -> Option<(PythonCall, Vec<u64>)> {
        let layout = &self.layout;
        let code = self.memory.word(frame, layout.code)?;
        let instruction = self.memory.word(frame, layout.instruction)?;
        // Before its first instruction, a frame of 3.11 and 3.12 is one code unit before the code.
        let offset = instruction.wrapping_sub(code.wrapping_add(layout.instructions));
        let unit = offset.cast_signed() / 2;
        let first_line = self.memory.half(code, layout.first_line)?;
        let lines = self.bytes_object(self.memory.word(code, layout.line_table)?)?;
        let call = PythonCall {
            function: self.text(self.memory.word(code, layout.function)?)?,
            file: self.text(self.memory.word(code, layout.file)?)?,
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
        let handlers = self.bytes_object(self.memory.word(code, layout.handlers)?)?;
        let depth = code::depth_of_handler(&handlers, unit)?.min(VALUES);
        let locals = u64::from(self.memory.half(code, layout.local_count)?);
        let values = (locals..locals + depth).filter_map(|index| self.value(frame, index));
        Some(
            values
                .filter_map(|value| self.lock_of_exit(value))
                .collect(),
        )
    }

    /// Returns a local variable of a frame, or behind those a value on its stack.
    fn value(&self, frame: u64, index: u64) -> Option<u64> {
        self.memory.word(frame, self.layout.locals + index * 8)
    }

    /// Returns the lock that a thread of 3.11 or 3.12 releases at its end.
    fn end_lock(&self, thread: u64) -> Option<u64> {
        let reference = self.memory.word(thread, self.layout.end_lock?)?;
        let lock = self.memory.word(reference, layout::REFERENCE)?;
        self.memory.word(lock, layout::LOCK)
    }

    /// Returns the thread of 3.13 whose handle the frame of `Thread.join` waits for: during a call, its object and its
    /// arguments are on the stack.
    fn joined_pthread(&self, frame: u64) -> Option<u64> {
        let code = self.memory.word(frame, self.layout.code)?;
        let locals = u64::from(self.memory.half(code, self.layout.local_count)?);
        let mut values = (locals..locals + 2).filter_map(|index| self.value(frame, index));
        let is_handle =
            |value: &u64| self.type_name(*value).as_deref() == Some("_thread._ThreadHandle");
        let handle = self.memory.word(values.find(is_handle)?, layout::HANDLE)?;
        self.memory.word(handle, layout::HANDLE_PTHREAD)
    }

    /// Returns the lock of a bound method `__exit__`.
    fn lock_of_exit(&self, value: u64) -> Option<u64> {
        if self.type_name(value)? != "builtin_function_or_method" {
            return None;
        }
        let object = self.memory.word(value, layout::METHOD_SELF)?;
        let is_lock = matches!(&*self.type_name(object)?, "_thread.lock" | "_thread.RLock");
        is_lock.then(|| self.memory.word(object, layout::LOCK))?
    }

    fn type_name(&self, object: u64) -> Option<String> {
        let object_type = self.memory.word(object, layout::OBJECT_TYPE)?;
        let mut name = [0; 32];
        let address = self.memory.word(object_type, layout::TYPE_NAME)?;
        self.memory.bytes(address, 0, &mut name)?;
        let end = name.iter().position(|byte| *byte == 0)?;
        Some(str::from_utf8(&name[..end]).ok()?.to_owned())
    }

    fn bytes_object(&self, object: u64) -> Option<Vec<u8>> {
        const LONGEST: u64 = 1 << 18;
        let size = self.memory.word(object, layout::OBJECT_SIZE)?;
        let size = Some(size).filter(|size| *size <= LONGEST)?;
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.memory.bytes(object, layout::BYTES_DATA, &mut bytes)?;
        Some(bytes)
    }

    fn text(&self, object: u64) -> Option<String> {
        const LONGEST: u64 = 4096;
        let state = self.memory.half(object, layout::TEXT_STATE)?;
        let (width, is_ascii) = (state >> 2 & 7, state >> 6 & 1 == 1);
        let header = if is_ascii {
            self.layout.ascii_header
        } else {
            self.layout.text_header
        };
        let length = self.memory.word(object, layout::OBJECT_SIZE)?.min(LONGEST);
        let mut bytes = vec![0; usize::try_from(length * u64::from(width)).ok()?];
        self.memory.bytes(object, header, &mut bytes)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{ProcessMemory, read_mappings};

    /// Numbers that a hostile process may write anywhere.
    const NUMBERS: [u64; 8] = [0, 1, 8, 1 << 12, 1 << 47, 1 << 63, u64::MAX - 3, u64::MAX];

    /// A memory in which every word is one of the numbers, chosen by the seed and the address.
    struct HostileMemory(u64);

    impl MemoryReader for HostileMemory {
        fn read_memory(&self, address: u64, buffer: &mut [u8]) -> bool {
            for (index, byte) in (0..).zip(buffer.iter_mut()) {
                let Some(address) = address.checked_add(index) else {
                    return false;
                };
                let mixed = (address / 8 + self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
                *byte = NUMBERS[mixed as usize].to_le_bytes()[(address % 8) as usize];
            }
            true
        }
    }

    #[test]
    fn any_addresses_in_memory_are_read_without_a_panic() {
        for (seed, runtime) in (0..50).zip(NUMBERS.into_iter().cycle()) {
            let hostile = HostileMemory(seed);
            let memory = FieldReader(&hostile);
            for layout in layout::KNOWN {
                let threads = Interpreter { memory, layout }.read_threads(runtime);
                assert!(threads.len() <= THREADS);
            }
        }
    }

    /// The memory of this process, in which some fields are replaced.
    struct ChangedMemory<'a> {
        original: &'a ProcessMemory,
        seed: u64,
    }

    impl MemoryReader for ChangedMemory<'_> {
        fn read_memory(&self, address: u64, buffer: &mut [u8]) -> bool {
            let is_known = self.original.read_memory(address, buffer);
            let mixed = (address ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
            if mixed < 8 && buffer.len() <= 8 {
                HostileMemory(self.seed).read_memory(address, buffer);
            }
            is_known
        }
    }

    #[test]
    fn a_changed_table_of_symbols_is_read_without_a_panic() {
        let pid = std::process::id().cast_signed();
        let original = &ProcessMemory::of_process(pid).unwrap();
        let mappings = read_mappings(pid).unwrap();
        let mut libraries = mappings.iter().filter(|mapping| mapping.offset == 0);
        let libc =
            libraries.find(|mapping| mapping.name.as_encoded_bytes().ends_with(b"libc.so.6"));
        let start = libc.expect("the C library").range.start;
        let find = |memory: &dyn MemoryReader| {
            LoadedModule::at_address(FieldReader(memory), start)?.find_symbol("malloc")
        };
        assert!(find(original).is_some());
        let found = (0..500).filter(|seed| {
            find(&ChangedMemory {
                original,
                seed: *seed,
            })
            .is_some()
        });
        assert!((1..500).contains(&found.count()));
    }
}
