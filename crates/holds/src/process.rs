//! Breakpoints in the memory of one process.

use crate::access::LONGEST;
use crate::code::{CodeCache, CodeFile, CodeInstruction};
use crate::moved_code::{AREA_SIZE, MovedCode, MovedInstruction, OriginalPosition, find_area};
use provoke_model::{CodeAnchor, CodePoint, Hold};
use provoke_sys::memory::{Mapping, read_mappings};
use provoke_sys::tracee::{self, BREAKPOINT, WritableMemory};
use std::io;
use std::path::Path;
use std::rc::Rc;

/// The instruction for a system call, which the code has that the kernel maps into every process.
const CALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// A process whose threads are traced.
#[derive(Debug)]
pub(crate) struct TracedProcess {
    memory: WritableMemory,
    /// The breakpoints in the order of their addresses, with those that were removed: a process that was copied before may
    /// still have them.
    breakpoints: Vec<Breakpoint>,
    /// Instructions that threads run elsewhere while the breakpoint is set.
    moved_code: MovedCode,
}

#[derive(Clone, Copy, Debug)]
struct Breakpoint {
    address: u64,
    /// The byte that it replaces.
    original: u8,
    /// Index of its point.
    point: usize,
    /// Whether it was not removed.
    is_set: bool,
}

impl TracedProcess {
    /// Opens the memory of a process, without breakpoints.
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        Ok(Self {
            memory: WritableMemory::of_process(pid)?,
            breakpoints: Vec::new(),
            moved_code: MovedCode::default(),
        })
    }

    /// Returns a process that was copied from this one, with its breakpoints.
    pub(crate) fn copy_to(&self, pid: i32) -> io::Result<Self> {
        let copy = Self {
            memory: WritableMemory::of_process(pid)?,
            breakpoints: self.breakpoints.clone(),
            moved_code: self.moved_code.clone(),
        };
        let removed: Vec<&Breakpoint> = copy.breakpoints.iter().filter(|one| !one.is_set).collect();
        let addresses: Vec<u64> = removed.iter().map(|one| one.address).collect();
        copy.rewrite_bytes(&addresses, |index, byte| {
            if *byte == BREAKPOINT {
                *byte = removed[index].original;
            }
        })?;
        Ok(copy)
    }

    /// Sets new breakpoints at addresses in memory, with the indices of their points. Breakpoints that were set before stay,
    /// and removed ones are not set again.
    pub(crate) fn set_breakpoints(&mut self, mut breakpoints: Vec<(u64, usize)>) -> io::Result<()> {
        breakpoints.retain(|(address, _)| self.index_of(*address).is_none());
        breakpoints.sort_unstable();
        breakpoints.dedup_by_key(|(address, _)| *address);
        let addresses: Vec<u64> = breakpoints.iter().map(|(address, _)| *address).collect();
        let mut added = Vec::with_capacity(breakpoints.len());
        let written = self.rewrite_bytes(&addresses, |index, byte| {
            let (address, point) = breakpoints[index];
            added.push(Breakpoint {
                address,
                original: std::mem::replace(byte, BREAKPOINT),
                point,
                is_set: true,
            });
        });
        self.breakpoints.append(&mut added);
        self.breakpoints
            .sort_by_key(|breakpoint| breakpoint.address);
        written
    }

    /// Sets breakpoints as [`Self::set_breakpoints`] does, also removed ones.
    pub(crate) fn restore_breakpoints(
        &mut self,
        mut breakpoints: Vec<(u64, usize)>,
    ) -> io::Result<()> {
        breakpoints.sort_unstable();
        let is_wanted = |address: u64| breakpoints.binary_search_by_key(&address, |one| one.0);
        self.breakpoints
            .retain(|one| one.is_set || is_wanted(one.address).is_err());
        self.set_breakpoints(breakpoints)
    }

    /// Changes the bytes at addresses, which are in order; neighbours are read and written together. The function gets the
    /// index of each address.
    fn rewrite_bytes(
        &self,
        addresses: &[u64],
        mut change: impl FnMut(usize, &mut u8),
    ) -> io::Result<()> {
        let mut index = 0;
        for near in addresses.chunk_by(|a, b| b - a < 4096) {
            let (Some(first), Some(last)) = (near.first(), near.last()) else {
                continue;
            };
            let length = usize::try_from(last - first).map_err(io::Error::other)? + 1;
            let mut bytes = vec![0; length];
            self.memory.read_bytes(*first, &mut bytes)?;
            let before = bytes.clone();
            for address in near {
                let offset = usize::try_from(address - first).map_err(io::Error::other)?;
                change(index, &mut bytes[offset]);
                index += 1;
            }
            // The pages of a file are not copied without need.
            if bytes != before {
                self.memory.write_bytes(*first, &bytes)?;
            }
        }
        Ok(())
    }

    /// Returns the index of a breakpoint that is set or was removed.
    fn index_of(&self, address: u64) -> Option<usize> {
        self.breakpoints
            .binary_search_by_key(&address, |breakpoint| breakpoint.address)
            .ok()
    }

    /// Returns the breakpoint that is set at an address.
    fn breakpoint_at(&self, address: u64) -> Option<Breakpoint> {
        let breakpoint = self.breakpoints[self.index_of(address)?];
        breakpoint.is_set.then_some(breakpoint)
    }

    /// Forgets the breakpoints in code that was unmapped.
    pub(crate) fn forget_unmapped(&mut self, mappings: &[Mapping]) {
        let mut code = mappings.iter().filter(|mapping| mapping.execute).peekable();
        // Both are in the order of addresses.
        self.breakpoints.retain(|breakpoint| {
            while code
                .next_if(|mapping| mapping.range.end <= breakpoint.address)
                .is_some()
            {}
            let mapping = code.peek();
            mapping.is_some_and(|mapping| mapping.range.contains(&breakpoint.address))
        });
        let mut moved_code = std::mem::take(&mut self.moved_code);
        moved_code.retain(|address| self.index_of(*address).is_some());
        self.moved_code = moved_code;
    }

    /// Returns the place at which a stopped thread of this process can run the instruction at an address, while the
    /// breakpoint at the instruction stays set; `None` if the instruction cannot be moved.
    pub(crate) fn moved_instruction(&mut self, tid: i32, address: u64) -> Option<u64> {
        let known_place = self.moved_code.known_place(address);
        if known_place.is_some() || self.moved_code.is_unmovable(address) {
            return known_place;
        }
        if let Some(moved) = self.move_instruction(tid, address) {
            return Some(self.moved_code.add_instruction(moved));
        }
        self.moved_code.add_unmovable(address);
        None
    }

    fn move_instruction(&mut self, tid: i32, address: u64) -> Option<MovedInstruction> {
        let mut code = [0; LONGEST];
        self.read_code(address, &mut code).ok()?;
        let known_place = self.moved_code.free_place(address);
        let place = known_place.or_else(|| self.map_moved_code(tid, address))?;
        let moved = MovedInstruction::new(&code, address, place)?;
        self.memory.write_bytes(place, &moved.code).ok()?;
        Some(moved)
    }

    /// Maps memory for moved code near an address; returns its first place.
    fn map_moved_code(&mut self, tid: i32, address: u64) -> Option<u64> {
        let mappings = read_mappings(tid).ok()?;
        let kernel_code = mappings.iter().find(|mapping| mapping.name == "[vdso]")?;
        let range = &kernel_code.range;
        let mut code = vec![0; usize::try_from(range.end - range.start).ok()?];
        self.memory.read_bytes(range.start, &mut code).ok()?;
        let offset = code.windows(2).position(|pair| pair == CALL_INSTRUCTION)?;
        let area = find_area(&mappings, address)?;
        let mapped = tracee::map_code(tid, range.start + offset as u64, area, AREA_SIZE).ok()?;
        self.moved_code.add_area(mapped);
        Some(mapped)
    }

    /// Returns the original position of a thread with this instruction pointer, if it runs moved code.
    pub(crate) fn original_position(&self, pointer: u64) -> Option<OriginalPosition> {
        self.moved_code.original_position(pointer)
    }

    /// Returns the index of the point at an address.
    pub(crate) fn point_at(&self, address: u64) -> Option<usize> {
        self.breakpoint_at(address)
            .map(|breakpoint| breakpoint.point)
    }

    /// Restores the byte at an address, and forgets the breakpoint.
    pub(crate) fn remove_breakpoint(&mut self, address: u64) {
        if let Some(index) = self.index_of(address)
            && std::mem::take(&mut self.breakpoints[index].is_set)
        {
            // The process may have ended.
            let original = self.breakpoints[index].original;
            let _ = self.memory.write_bytes(address, &[original]);
        }
    }

    /// Restores the byte at an address until [`Self::rearm_breakpoint`].
    pub(crate) fn disarm_breakpoint(&self, address: u64) {
        if let Some(breakpoint) = self.breakpoint_at(address) {
            let _ = self.memory.write_bytes(address, &[breakpoint.original]);
        }
    }

    /// Sets a breakpoint again, unless it was removed meanwhile.
    pub(crate) fn rearm_breakpoint(&self, address: u64) {
        if self.breakpoint_at(address).is_some() {
            let _ = self.memory.write_bytes(address, &[BREAKPOINT]);
        }
    }

    /// Sets all breakpoints again.
    pub(crate) fn rearm_all(&self) {
        let (addresses, _) = self.set_ones();
        // The process may have ended.
        let _ = self.rewrite_bytes(&addresses, |_, byte| *byte = BREAKPOINT);
    }

    /// Returns the addresses of the breakpoints that are set, and the bytes that they replace.
    fn set_ones(&self) -> (Vec<u64>, Vec<u8>) {
        let set_ones = self.breakpoints.iter().filter(|one| one.is_set);
        set_ones.map(|one| (one.address, one.original)).unzip()
    }

    /// Reads code without its breakpoints; the rest of the buffer is 0 if the code ends before.
    pub(crate) fn read_code(&self, address: u64, code: &mut [u8]) -> io::Result<()> {
        self.memory.read_bytes(address, code)?;
        for (position, byte) in (address..).zip(code) {
            if let Some(breakpoint) = self.breakpoint_at(position) {
                *byte = breakpoint.original;
            }
        }
        Ok(())
    }

    /// Returns whether the memory at an address has the byte of a breakpoint.
    pub(crate) fn has_breakpoint_byte(&self, address: u64) -> bool {
        let mut byte = [0];
        self.memory.read_bytes(address, &mut byte).is_ok() && byte[0] == BREAKPOINT
    }

    /// Restores all bytes.
    pub(crate) fn remove_all(&mut self) {
        let (addresses, originals) = self.set_ones();
        for breakpoint in &mut self.breakpoints {
            breakpoint.is_set = false;
        }
        // The process may have ended.
        let _ = self.rewrite_bytes(&addresses, |index, byte| *byte = originals[index]);
    }

    /// Fills the buffer from an address on, with the bytes of breakpoints as they are.
    pub(crate) fn read_bytes(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.memory.read_bytes(address, buffer)
    }
}

/// The mapped code of a process: its files with the differences between addresses in memory and in the files.
pub(crate) struct MappedCode(Vec<(Rc<CodeFile>, u64)>);

impl MappedCode {
    /// Reads the mappings of a process.
    pub(crate) fn of_process(
        pid: i32,
        files: &mut CodeCache,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Self {
        let mappings = read_mappings(pid).unwrap_or_default();
        let mut mapped: Vec<(Rc<CodeFile>, u64)> = Vec::new();
        for mapping in mappings {
            let path = Path::new(&mapping.name);
            if !(mapping.execute && mapping.is_of_file() && is_wanted(path))
                || mapped.iter().any(|(file, _)| file.path() == path)
            {
                continue;
            }
            if let Some(file) = files.file(pid, path)
                && let Some(bias) = file.load_bias(mapping.range.start, mapping.offset)
            {
                mapped.push((file, bias));
            }
        }
        Self(mapped)
    }

    /// Returns the files, with the difference between addresses in memory and in the file.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&CodeFile, u64)> {
        self.shared_files().map(|(file, bias)| (&**file, bias))
    }

    /// Returns the files to keep, with the difference between addresses in memory and in the file.
    pub(crate) fn shared_files(&self) -> impl Iterator<Item = (&Rc<CodeFile>, u64)> {
        self.0.iter().map(|(file, bias)| (file, *bias))
    }

    /// Returns the number of bytes of the code.
    pub(crate) fn code_size(&self) -> u64 {
        let functions = self.0.iter().flat_map(|(file, _)| file.functions());
        functions
            .map(|function| function.range.end - function.range.start)
            .sum()
    }

    /// Returns the address in memory of a point. If its file is another build, or is not mapped, the function is looked up
    /// by its symbol in all files.
    pub(crate) fn address_of_hold(
        &self,
        point: &CodePoint,
        anchor: Option<&CodeAnchor>,
    ) -> Option<u64> {
        let Some(anchor) = anchor else {
            return self.address_of(point);
        };
        let is_same = |file: &CodeFile| {
            file.path().as_os_str() == point.object.as_os_str() && file.is_build_of(anchor)
        };
        if self.files().any(|(file, _)| is_same(file)) {
            return self.address_of(point);
        }
        self.files()
            .find_map(|(file, bias)| Some(bias.wrapping_add(file.address_of_anchor(anchor)?)))
    }

    /// Returns the addresses in memory of the instructions of holds.
    pub(crate) fn addresses_of_holds(&self, holds: &[Hold]) -> Vec<u64> {
        let address_of = |hold: &Hold| {
            let point = hold.point.as_code()?;
            self.address_of_hold(point, hold.anchor.as_ref())
        };
        holds.iter().filter_map(address_of).collect()
    }

    /// Returns what identifies the instruction of a point in another build.
    pub(crate) fn anchor_of(&self, point: &CodePoint) -> Option<CodeAnchor> {
        let mut files = self.files();
        let (file, _) =
            files.find(|(file, _)| file.path().as_os_str() == point.object.as_os_str())?;
        file.anchor_of(point.address)
    }

    fn address_of(&self, point: &CodePoint) -> Option<u64> {
        let mut files = self.files();
        let (_, bias) =
            files.find(|(file, _)| file.path().as_os_str() == point.object.as_os_str())?;
        Some(bias.wrapping_add(point.address))
    }
}

/// Returns the last instruction before an address in memory, and its point.
pub(crate) fn instruction_before(
    pid: i32,
    address: u64,
    files: &mut CodeCache,
) -> Option<(CodePoint, CodeInstruction)> {
    let mappings = read_mappings(pid).ok()?;
    let code = mappings
        .iter()
        .find(|mapping| mapping.is_of_file() && mapping.range.contains(&(address - 1)))?;
    let file = files.file(pid, Path::new(&code.name))?;
    let bias = file.load_bias(code.range.start, code.offset)?;
    let instruction = file.instruction_before(address.wrapping_sub(bias))?;
    let point = CodePoint {
        object: code.name.as_os_str().into(),
        address: instruction.address,
    };
    Some((point, instruction))
}
