//! Reads the Python calls of a process from the memory of its interpreter (CPython 3.8 to 3.13).
//!
//! The memory of a running process may change while it is read, and its contents are not trusted: every number is bounded, and what
//! cannot be read is left out.

mod code;
mod exported;
mod frame;
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
    /// The qualified name of the function; before 3.11 its name.
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
        let layout = layout::of_runtime(memory, &module, runtime)?;
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
        let tid = self.thread_number(thread)?;
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
            if self.is_of_c(frame) {
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

    /// Returns the ID of a thread in its own container.
    fn thread_number(&self, thread: u64) -> Option<u32> {
        if let Some(offset) = self.layout.native_thread_id {
            return self.memory.half(thread, offset);
        }
        let pthread = self.memory.word(thread, self.layout.pthread)?;
        let is_of_glibc = self.memory.word(pthread, layout::PTHREAD_SELF)? == pthread;
        is_of_glibc.then(|| self.memory.half(pthread, layout::PTHREAD_TID))?
    }

    /// Returns the lock that a thread releases at its end.
    fn end_lock(&self, thread: u64) -> Option<u64> {
        let reference = self.memory.word(thread, self.layout.end_lock?)?;
        let lock = self.memory.word(reference, layout::REFERENCE)?;
        self.memory.word(lock, layout::LOCK)
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
