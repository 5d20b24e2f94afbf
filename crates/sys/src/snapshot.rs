//! Writes a small core of a living process, with every stack.

use super::core_file::{self, CoreNotes, CoreProcess, MemoryPiece, PAGE};
use super::libraries;
use super::memory::{self, Mapping, ProcessMemory};
use super::ptrace::{MACHINE, StoppedProcess, StoppedThread, ThreadStop};
use super::stat::Stat;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// Threads whose stacks are kept.
const MAX_THREADS: usize = 256;
/// Bytes of a stack that are kept, from its innermost end.
const STACK: u64 = 256 * 1024;
/// Bytes below the stack pointer that a function may use by the calling convention.
const RED_ZONE: u64 = 128;
/// Limit of a library's variables; larger ones are left out.
const VARIABLES: u64 = 1 << 20;
/// Limit of the total bytes of memory.
const MAX_BYTES: u64 = 64 << 20;
/// Bytes that are copied at once.
const BUFFER: u64 = 64 * 1024;

/// The threads of a process that a core contains.
#[derive(Clone, Copy)]
pub enum CoreThreads<'a> {
    /// All threads, which are stopped meanwhile.
    All,
    /// All threads; this one has stopped at a fault, and is not released. The tracer continues the others.
    Fault(ThreadStop),
    /// Only these threads, which have stopped, and are not released.
    Stopped(&'a [i32]),
}

/// Writes the core of a living process. Returns the size of the file.
pub fn write_core(
    pid: i32,
    threads: CoreThreads<'_>,
    file: &Path,
    deadline: Instant,
) -> io::Result<u64> {
    let machine = MACHINE.ok_or(io::ErrorKind::Unsupported)?;
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let memory = ProcessMemory::of_process(pid)?;
    let stopped_process = match threads {
        CoreThreads::All => StoppedProcess::new(pid, &[], MAX_THREADS, deadline),
        CoreThreads::Fault(stop) => StoppedProcess::at_fault(pid, stop.tid, MAX_THREADS, deadline),
        CoreThreads::Stopped(tids) => StoppedProcess::new(pid, tids, tids.len(), deadline),
    }?;
    let fault = match threads {
        CoreThreads::Fault(stop) => Some(stop),
        CoreThreads::All | CoreThreads::Stopped(_) => None,
    };
    let mappings = memory::read_mappings(pid)?;
    let auxv = read("auxv");
    let stacks = stopped_process
        .threads
        .iter()
        .filter_map(StoppedThread::stack_pointer);
    let ranges = wanted_memory(&mappings, stacks, libraries::library_ranges(&memory, &auxv));
    let pieces = core_file::cut_pieces(&mappings, &ranges, MAX_BYTES);
    let stopped = stopped_process.threads.iter();
    let threads: Vec<_> = stopped
        .filter(|thread| !thread.registers.is_empty())
        .map(|thread| (thread.tid, &thread.registers[..]))
        .collect();
    let signal_information = fault
        .and_then(ThreadStop::signal_information)
        .unwrap_or_default();
    let signal = fault.and_then(ThreadStop::delivered_signal);
    let (head, offsets) = core_file::core_head(
        &CoreNotes {
            machine: machine.elf,
            process: process_record(pid),
            name: read("comm").trim_ascii_end(),
            arguments: &read("cmdline"),
            threads: &threads,
            signal: signal.map(|number| (number, &signal_information[..])),
            auxv: &auxv,
            mappings: &mappings,
        },
        &pieces,
    );
    let mut output = super::files::create_private(file)?;
    output.write_all(&head)?;
    copy_pieces(&memory, &output, &pieces, &offsets)?;
    output.metadata().map(|metadata| metadata.len())
}

fn process_record(pid: i32) -> CoreProcess {
    Stat::of_process(pid).map_or_else(
        || CoreProcess {
            pid,
            state: '?',
            ..CoreProcess::default()
        },
        |stat| CoreProcess {
            pid,
            parent: stat.parent,
            group: stat.group,
            session: stat.session,
            state: stat.state,
        },
    )
}

/// Returns the memory to keep, ordered by address: stacks, the first page of each file (it contains
/// the build id), the vDSO, small variables of libraries, and the data by which a debugger finds
/// the libraries.
fn wanted_memory(
    mappings: &[Mapping],
    stacks: impl Iterator<Item = u64>,
    libraries: Vec<Range<u64>>,
) -> Vec<Range<u64>> {
    let mut ranges = libraries;
    ranges.extend(stacks.map(|end| end.saturating_sub(RED_ZONE)..end.saturating_add(STACK)));
    // A range must end with the mapping of its stack, because the next mapping belongs to something
    // else. After a stack overflow, the range begins below the mapping.
    for range in &mut ranges {
        let mut mappings_left = mappings.iter().filter(|mapping| mapping.read);
        let mapping_of_range = mappings_left.find(|mapping| mapping.range.end > range.start);
        range.start =
            mapping_of_range.map_or(range.end, |mapping| range.start.max(mapping.range.start));
        range.end = mapping_of_range.map_or(range.end, |mapping| range.end.min(mapping.range.end));
    }
    for (index, mapping) in mappings.iter().enumerate() {
        let Range { start, end } = mapping.range;
        let previous = index
            .checked_sub(1)
            .map(|index_before| &mappings[index_before]);
        let follows = |before: &Mapping| {
            before.range.end == start && before.is_of_file() && before.private && before.write
        };
        let variables = mapping.private && mapping.write && end - start <= VARIABLES;
        if mapping.name == "[vdso]"
            || variables && mapping.is_of_file()
            || variables && mapping.name.is_empty() && previous.is_some_and(follows)
        {
            ranges.push(start..end);
        } else if mapping.is_of_file() && mapping.private && mapping.read && mapping.offset == 0 {
            ranges.push(start..start + PAGE);
        }
    }
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Copies the kept pieces. Unreadable memory becomes a hole.
fn copy_pieces(
    memory: &ProcessMemory,
    output: &File,
    pieces: &[MemoryPiece],
    offsets: &[u64],
) -> io::Result<()> {
    let mut buffer = vec![0; usize::try_from(BUFFER).map_err(io::Error::other)?];
    for (piece, offset) in pieces
        .iter()
        .zip(offsets)
        .filter(|(piece, _)| piece.is_kept)
    {
        let Range { start, end } = piece.range;
        // Without this call the file would be too short if it ends in a hole.
        output.set_len(offset + end - start)?;
        for address in (start..end).step_by(buffer.len()) {
            let length = usize::try_from(BUFFER.min(end - address)).map_err(io::Error::other)?;
            let chunk = &mut buffer[..length];
            if memory.read_bytes(address, chunk).is_ok() {
                output.write_all_at(chunk, offset + address - start)?;
            }
        }
    }
    Ok(())
}
