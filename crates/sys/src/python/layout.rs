//! Offsets of the fields that are read of an interpreter. They are those of release builds for 64-bit Linux.

use super::reader::FieldReader;

/// Offsets that differ between versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) interpreters: u64,
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    pub(super) next_thread: u64,
    pub(super) native_thread_id: u64,
    pub(super) pthread: u64,
    /// The weak reference to the lock that a thread releases at its end; 3.13 has none.
    pub(super) end_lock: Option<u64>,
    /// The pointer from the thread to the structure that contains the current frame, if it is not the thread itself.
    pub(super) c_frame: Option<u64>,
    pub(super) current_frame: u64,
    pub(super) previous_frame: u64,
    pub(super) owner: u64,
    pub(super) code: u64,
    pub(super) instruction: u64,
    pub(super) locals: u64,
    pub(super) file: u64,
    pub(super) function: u64,
    pub(super) first_line: u64,
    pub(super) line_table: u64,
    pub(super) handlers: u64,
    pub(super) local_count: u64,
    pub(super) instructions: u64,
    /// Sizes of the header of a text with and without ASCII characters only.
    pub(super) ascii_header: u64,
    pub(super) text_header: u64,
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

const V3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    next_thread: 8,
    native_thread_id: 160,
    pthread: 152,
    end_lock: Some(192),
    c_frame: Some(56),
    current_frame: 8,
    previous_frame: 48,
    owner: 69,
    code: 32,
    instruction: 56,
    locals: 72,
    file: 112,
    function: 128,
    first_line: 72,
    line_table: 136,
    handlers: 40,
    local_count: 76,
    instructions: 184,
    ascii_header: 48,
    text_header: 72,
};

const V3_12: Layout = Layout {
    threads: 72,
    native_thread_id: 144,
    pthread: 136,
    end_lock: Some(176),
    current_frame: 0,
    previous_frame: 8,
    owner: 70,
    code: 0,
    first_line: 68,
    local_count: 72,
    instructions: 192,
    ascii_header: 40,
    text_header: 56,
    ..V3_11
};

#[cfg(test)]
pub(super) const KNOWN: [Layout; 2] = [V3_11, V3_12];

/// The first bytes of the offsets that 3.13 and later publish at the start of `_PyRuntime`.
const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");

/// Returns the layout of the interpreter with this `_PyRuntime` and `Py_Version`.
pub(super) fn of_runtime(memory: FieldReader<'_>, runtime: u64, version: u64) -> Option<Layout> {
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
        native_thread_id: offsets[25],
        pthread: offsets[24],
        end_lock: None,
        c_frame: None,
        current_frame: offsets[23],
        previous_frame: offsets[29],
        owner: offsets[33],
        code: offsets[30],
        instruction: offsets[31],
        locals: offsets[32],
        file: offsets[35],
        function: offsets[37],
        first_line: offsets[39],
        line_table: offsets[38],
        instructions: offsets[43],
        ascii_header: offsets[70],
        ..V3_12
    })
}
