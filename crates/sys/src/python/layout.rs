//! Offsets of the fields that are read of an interpreter. They are those of release builds for 64-bit Linux.

use super::code::LineTable;
use super::exported::LoadedModule;
use super::reader::FieldReader;

/// Offsets that differ between versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) interpreters: u64,
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    pub(super) next_thread: u64,
    /// The thread's ID; before 3.11 only the `pthread_t` is kept.
    pub(super) native_thread_id: Option<u64>,
    pub(super) pthread: u64,
    /// The weak reference to the lock that a thread releases at its end; 3.13 has none.
    pub(super) end_lock: Option<u64>,
    /// The pointer from the thread to the structure that contains the current frame, if it is not the thread itself.
    pub(super) c_frame: Option<u64>,
    pub(super) current_frame: u64,
    pub(super) previous_frame: u64,
    pub(super) code: u64,
    pub(super) frame: FrameLayout,
    pub(super) file: u64,
    /// The qualified name of the function; before 3.11 only its name is kept.
    pub(super) function: u64,
    pub(super) first_line: u64,
    pub(super) line_table: u64,
    pub(super) line_format: LineTable,
    /// Sizes of the header of a text with and without ASCII characters only.
    pub(super) ascii_header: u64,
    pub(super) text_header: u64,
}

/// Offsets in a frame, and in its code, of the present instruction and the values on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameLayout {
    /// A frame on the interpreter's own stack, whose code lists the handlers of exceptions: 3.11 and later.
    Internal(InternalFrame),
    /// A Python object that lists its active handlers: before 3.11.
    Object(ObjectFrame),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct InternalFrame {
    pub(super) owner: u64,
    pub(super) instruction: u64,
    pub(super) locals: u64,
    pub(super) handlers: u64,
    pub(super) local_count: u64,
    pub(super) instructions: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectFrame {
    pub(super) last_instruction: u64,
    /// Number by which instructions are counted for each code unit: its bytes until 3.9.
    pub(super) unit: i32,
    pub(super) values: u64,
    pub(super) block_count: u64,
    pub(super) blocks: u64,
}

/// Offsets that are equal in all versions.
pub(super) const OBJECT_TYPE: u64 = 8;
pub(super) const OBJECT_SIZE: u64 = 16;
pub(super) const TYPE_NAME: u64 = 24;
pub(super) const BYTES_DATA: u64 = 32;
pub(super) const TEXT_STATE: u64 = 32;
/// The object of a built-in bound method.
pub(super) const METHOD_SELF: u64 = 24;
/// The semaphore of a lock.
pub(super) const LOCK: u64 = 16;
/// The object of a weak reference.
pub(super) const REFERENCE: u64 = 16;
/// The state of a `_ThreadHandle`, and the thread in that.
pub(super) const HANDLE: u64 = 16;
pub(super) const HANDLE_PTHREAD: u64 = 32;
/// Size of an active handler, and its depth of the stack.
pub(super) const BLOCK_SIZE: u64 = 12;
pub(super) const BLOCK_DEPTH: u64 = 8;
/// A `pthread_t` of glibc contains its own address, and the thread's ID.
pub(super) const PTHREAD_SELF: u64 = 16;
pub(super) const PTHREAD_TID: u64 = 720;

const V3_8: Layout = Layout {
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    next_thread: 8,
    native_thread_id: None,
    pthread: 176,
    end_lock: Some(208),
    c_frame: None,
    current_frame: 24,
    previous_frame: 24,
    code: 32,
    frame: FrameLayout::Object(ObjectFrame {
        last_instruction: 104,
        unit: 2,
        values: 64,
        block_count: 112,
        blocks: 120,
    }),
    file: 104,
    function: 112,
    first_line: 40,
    line_table: 120,
    line_format: LineTable::Increments,
    ascii_header: 48,
    text_header: 72,
};

const V3_10: Layout = Layout {
    frame: FrameLayout::Object(ObjectFrame {
        last_instruction: 96,
        unit: 1,
        values: 64,
        block_count: 104,
        blocks: 112,
    }),
    line_format: LineTable::Ranges,
    ..V3_8
};

const V3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    next_thread: 8,
    native_thread_id: Some(160),
    pthread: 152,
    end_lock: Some(192),
    c_frame: Some(56),
    current_frame: 8,
    previous_frame: 48,
    code: 32,
    frame: FrameLayout::Internal(InternalFrame {
        owner: 69,
        instruction: 56,
        locals: 72,
        handlers: 40,
        local_count: 76,
        instructions: 184,
    }),
    file: 112,
    function: 128,
    first_line: 72,
    line_table: 136,
    line_format: LineTable::Locations,
    ascii_header: 48,
    text_header: 72,
};

const V3_12: Layout = Layout {
    threads: 72,
    native_thread_id: Some(144),
    pthread: 136,
    end_lock: Some(176),
    current_frame: 0,
    previous_frame: 8,
    code: 0,
    frame: FrameLayout::Internal(InternalFrame {
        owner: 70,
        instruction: 56,
        locals: 72,
        handlers: 40,
        local_count: 72,
        instructions: 192,
    }),
    first_line: 68,
    ascii_header: 40,
    text_header: 56,
    ..V3_11
};

#[cfg(test)]
pub(super) const KNOWN: [Layout; 4] = [V3_8, V3_10, V3_11, V3_12];

/// The first bytes of the offsets that 3.13 and later publish at the start of `_PyRuntime`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Returns the layout of the interpreter in this module with this `_PyRuntime`.
pub(super) fn of_runtime(
    memory: FieldReader<'_>,
    module: &LoadedModule<'_>,
    runtime: u64,
) -> Option<Layout> {
    let Some(version) = module.find_symbol("Py_Version") else {
        return of_old_runtime(module);
    };
    match memory.word(version, 0)? >> 16 {
        0x030b => Some(V3_11),
        0x030c => Some(V3_12),
        0x030d => {
            let mut offsets = [[0; 8]; 73];
            memory.bytes(runtime, 0, offsets.as_flattened_mut())?;
            of_published_offsets(&offsets.map(u64::from_le_bytes))
        }
        _ => None,
    }
}

/// Returns the layout of a version before 3.11. These do not export their number, but functions that the versions before
/// them lack.
fn of_old_runtime(module: &LoadedModule<'_>) -> Option<Layout> {
    let versions = [("Py_NewRef", V3_10), ("PyConfig_InitPythonConfig", V3_8)];
    let mut versions = versions.into_iter();
    versions.find_map(|(function, layout)| module.find_symbol(function).map(|_| layout))
}

/// Returns the layout of 3.13, from its `_Py_DebugOffsets`.
fn of_published_offsets(offsets: &[u64; 73]) -> Option<Layout> {
    // Offsets are small in every real interpreter.
    let is_plausible = offsets[3..].iter().all(|offset| *offset < 1 << 24);
    let is_free_threaded = offsets[2] != 0;
    (offsets[0] == COOKIE && is_plausible && !is_free_threaded).then_some(Layout {
        interpreters: offsets[5],
        next_interpreter: offsets[8],
        threads: offsets[9],
        next_thread: offsets[21],
        native_thread_id: Some(offsets[25]),
        pthread: offsets[24],
        end_lock: None,
        c_frame: None,
        current_frame: offsets[23],
        previous_frame: offsets[29],
        code: offsets[30],
        frame: FrameLayout::Internal(InternalFrame {
            owner: offsets[33],
            instruction: offsets[31],
            locals: offsets[32],
            handlers: 40,
            local_count: 72,
            instructions: offsets[43],
        }),
        file: offsets[35],
        function: offsets[37],
        first_line: offsets[39],
        line_table: offsets[38],
        ascii_header: offsets[70],
        ..V3_12
    })
}
