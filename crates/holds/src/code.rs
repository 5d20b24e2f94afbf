//! Finds the functions and the instructions of executables and shared objects.
//!
//! The functions come from the call frame information, which stripped files have, too, and from the symbols. Data between
//! functions is not decoded, so that no byte of it is replaced. A function is decoded when its instructions are needed,
//! because files may have hundreds of megabytes of code.

use crate::access::{is_atomic, is_shared, is_write};
use crate::blocks::{FunctionBlocks, find_blocks};
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection as _};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic};
use object::{
    Object as _, ObjectSection as _, ObjectSegment, ObjectSymbol as _, ReadCache, SectionFlags,
    SegmentFlags, SymbolKind,
};
use provoke_model::{BlockKind, CodeAnchor};
use provoke_words::untrusted::Untrusted as _;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file with code could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CodeError {
    /// The file could not be opened.
    #[error("cannot read {}", path.to_safe())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not an ELF file for this machine.
    #[error("{} is not an x86-64 ELF file", .0.to_safe())]
    NotElf(PathBuf),
}

/// The code of an executable or a shared object.
#[derive(Debug)]
pub struct CodeFile {
    path: PathBuf,
    /// The path at which this process reads it. It differs from `path` for a file in a container.
    source: PathBuf,
    version: FileVersion,
    /// Identity of its build.
    build: String,
    /// Read when they are needed.
    functions: OnceCell<Vec<CodeFunction>>,
    /// Symbols of functions with their addresses, read when they are needed.
    symbols: OnceCell<Vec<(String, u64)>>,
    /// The first instructions of all blocks, found when they are needed.
    block_starts: OnceCell<Vec<(u64, BlockKind)>>,
    segments: Vec<LoadedSegment>,
}

/// The files with code of all trials so far, so that each is read once.
#[derive(Debug, Default)]
pub struct CodeCache {
    files: BTreeMap<PathBuf, Rc<CodeFile>>,
}

/// Numbers that change when a file is replaced: device, inode, size and time of the last change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion([u64; 3], i64);

/// A function.
#[derive(Clone, Debug)]
pub struct CodeFunction {
    /// Its addresses in the file.
    pub range: Range<u64>,
    /// Decoded when they are needed.
    instructions: OnceCell<Vec<CodeInstruction>>,
    /// Found when they are needed.
    blocks: OnceCell<FunctionBlocks>,
}

/// An instruction at which a thread can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeInstruction {
    /// Its address in the file.
    pub address: u64,
    /// Whether it accesses memory other than the stack.
    pub accesses_memory: bool,
    /// Whether it writes to such memory.
    pub writes_memory: bool,
    /// Whether its access is atomic: two atomic accesses are not a data race.
    pub is_atomic: bool,
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug)]
struct LoadedSegment {
    offset: u64,
    size: u64,
    address: u64,
    executable: bool,
}

impl CodeFile {
    /// Reads where a file is mapped.
    pub fn read(path: &Path) -> Result<Self, CodeError> {
        Self::read_from(path, path)
    }

    /// Reads where a file is mapped; its contents are at `source`.
    fn read_from(path: &Path, source: &Path) -> Result<Self, CodeError> {
        let version = FileVersion::of_file(source)?;
        let content = open_file(source)?;
        let file = parse_elf(path, &content)?;
        let segments = file
            .segments()
            .map(|segment| loaded_segment(&segment))
            .collect();
        let build = match file.build_id() {
            Ok(Some(id)) => format!("{id:02x?}"),
            // Without an identity, any change of the file makes another build.
            _ => version.contents_id(),
        };
        Ok(Self {
            path: path.to_owned(),
            source: source.to_owned(),
            version,
            build,
            functions: OnceCell::new(),
            symbols: OnceCell::new(),
            block_starts: OnceCell::new(),
            segments,
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what identifies the instruction at an address in another build, if its function has a symbol.
    pub(crate) fn anchor_of(&self, address: u64) -> Option<CodeAnchor> {
        let function = self
            .functions()
            .iter()
            .find(|function| function.range.contains(&address))?;
        let mut instructions = self.instructions_of(function).iter();
        let instruction = instructions.position(|instruction| instruction.address == address)?;
        let mut symbols = self.symbols().iter();
        let (symbol, _) = symbols.find(|(_, start)| *start == function.range.start)?;
        Some(CodeAnchor {
            build: self.build.clone(),
            symbol: symbol.clone(),
            instruction: u32::try_from(instruction).ok()?,
        })
    }

    /// Returns the address of the same instruction in this build: of its number in its function.
    pub(crate) fn address_of_anchor(&self, anchor: &CodeAnchor) -> Option<u64> {
        let start = self.symbol_address(&anchor.symbol)?;
        let function = self
            .functions()
            .iter()
            .find(|function| function.range.start == start)?;
        let number = usize::try_from(anchor.instruction).ok()?;
        Some(self.instructions_of(function).get(number)?.address)
    }

    /// Returns the address of a function with this symbol.
    pub(crate) fn symbol_address(&self, name: &str) -> Option<u64> {
        let mut symbols = self.symbols().iter();
        symbols
            .find(|(symbol, _)| symbol == name)
            .map(|(_, address)| *address)
    }

    fn symbols(&self) -> &[(String, u64)] {
        self.symbols
            .get_or_init(|| read_symbols(&self.source).unwrap_or_default())
    }

    /// Returns whether the file is the build to which an address belongs.
    pub(crate) fn is_build_of(&self, anchor: &CodeAnchor) -> bool {
        self.build == anchor.build
    }

    /// Returns the functions, in the order of their addresses.
    pub fn functions(&self) -> &[CodeFunction] {
        // A file that disappeared has no points.
        self.functions
            .get_or_init(|| read_functions(&self.source).unwrap_or_default())
    }

    /// Returns the instructions of a function of the file.
    pub fn instructions_of<'a>(&self, function: &'a CodeFunction) -> &'a [CodeInstruction] {
        function.instructions.get_or_init(|| {
            let code = self.read_code(&function.range).unwrap_or_default();
            decode_instructions(&code, function.range.start)
        })
    }

    /// Returns the blocks of a function of the file.
    pub fn blocks_of<'a>(&self, function: &'a CodeFunction) -> &'a FunctionBlocks {
        function.blocks.get_or_init(|| {
            let code = self.read_code(&function.range).unwrap_or_default();
            find_blocks(&code, function.range.start)
        })
    }

    /// Returns the first instructions of the blocks of all functions, in the order of their addresses.
    pub(crate) fn block_starts(&self) -> &[(u64, BlockKind)] {
        self.block_starts.get_or_init(|| {
            let blocks = self.functions().iter().map(|one| self.blocks_of(one));
            let mut starts: Vec<_> = blocks.flat_map(|one| one.starts.iter().copied()).collect();
            // Functions may overlap.
            starts.sort_by_key(|(address, _)| *address);
            starts.dedup_by_key(|(address, _)| *address);
            starts
        })
    }

    /// Returns the last function that begins before an address.
    pub(crate) fn function_before(&self, address: u64) -> Option<&CodeFunction> {
        let functions = self.functions();
        let after = functions.partition_point(|function| function.range.start < address);
        functions.get(after.checked_sub(1)?)
    }

    fn read_code(&self, range: &Range<u64>) -> Option<Vec<u8>> {
        let contains = |segment: &&LoadedSegment| {
            (segment.address..segment.address.saturating_add(segment.size)).contains(&range.start)
        };
        let segment = self.segments.iter().find(contains)?;
        let start = range.start - segment.address;
        let length = (range.end - range.start).min(segment.size - start);
        let file = File::open(&self.source).ok()?;
        // A damaged header names more than the file has.
        let length = length.min(file.metadata().ok()?.len());
        let mut code = vec![0; usize::try_from(length).ok()?];
        file.read_exact_at(&mut code, segment.offset.checked_add(start)?)
            .ok()?;
        Some(code)
    }

    /// Returns the last instruction before an address.
    pub(crate) fn instruction_before(&self, address: u64) -> Option<CodeInstruction> {
        let instructions = self.instructions_of(self.function_before(address)?);
        let after = instructions.partition_point(|instruction| instruction.address < address);
        instructions.get(after.checked_sub(1)?).copied()
    }

    /// Returns the difference between addresses in memory and in the file, given a mapping of the file.
    pub(crate) fn load_bias(&self, mapped_at: u64, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| {
            let first_page = segment.offset & !0xfff;
            let end = segment.offset.saturating_add(segment.size);
            segment.executable && (first_page..end).contains(&offset)
        })?;
        let address = segment
            .address
            .wrapping_sub(segment.offset)
            .wrapping_add(offset);
        Some(mapped_at.wrapping_sub(address))
    }
}

impl CodeFunction {
    /// Returns the first instruction, which is not decoded.
    pub(crate) fn entry(&self) -> CodeInstruction {
        CodeInstruction {
            address: self.range.start,
            accesses_memory: false,
            writes_memory: false,
            is_atomic: false,
        }
    }
}

impl CodeCache {
    /// Returns a file that a process has mapped, unless it has no code for this machine.
    pub(crate) fn file(&mut self, pid: i32, path: &Path) -> Option<Rc<CodeFile>> {
        let source = readable_path(pid, path);
        let version = FileVersion::of_file(&source).ok()?;
        let cached = self.files.get(path);
        if let Some(file) = cached.filter(|file| file.version == version && file.source == source) {
            return Some(Rc::clone(file));
        }
        let file = Rc::new(CodeFile::read_from(path, &source).ok()?);
        self.files.insert(path.to_owned(), Rc::clone(&file));
        Some(file)
    }
}

/// Returns the path at which this process reads a file of another process, which may run in a container.
fn readable_path(pid: i32, path: &Path) -> PathBuf {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    if mounts(&pid.to_string()) == mounts("self") {
        return path.to_owned();
    }
    let inside = path.strip_prefix("/").unwrap_or(path);
    Path::new(&format!("/proc/{pid}/root")).join(inside)
}

impl FileVersion {
    /// Returns a text that is the same in every container of an image.
    fn contents_id(&self) -> String {
        let Self([_, _, size], changed) = self;
        format!("{size} {changed}")
    }

    fn of_file(path: &Path) -> Result<Self, CodeError> {
        let metadata: Metadata = fs::metadata(path).map_err(|source| CodeError::Read {
            path: path.to_owned(),
            source,
        })?;
        let numbers = [metadata.dev(), metadata.ino(), metadata.size()];
        let changed = metadata.ctime() * 1_000_000_000 + metadata.ctime_nsec();
        Ok(Self(numbers, changed))
    }
}

/// An ELF file of which only the parts that are needed are read.
type ElfFile<'data> = object::File<'data, &'data ReadCache<File>>;

fn open_file(path: &Path) -> Result<ReadCache<File>, CodeError> {
    let file = File::open(path).map_err(|source| CodeError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(ReadCache::new(file))
}

fn parse_elf<'data>(
    path: &Path,
    content: &'data ReadCache<File>,
) -> Result<ElfFile<'data>, CodeError> {
    let file = object::File::parse(content).ok();
    file.filter(|file| file.architecture() == object::Architecture::X86_64)
        .ok_or_else(|| CodeError::NotElf(path.to_owned()))
}

/// Returns whether a section has no code of the program, but jumps to functions of other files.
fn is_linkage(section: &str) -> bool {
    section.starts_with(".plt") || matches!(section, ".init" | ".fini")
}

/// Reads the symbols of the functions of a file, with their addresses.
fn read_symbols(path: &Path) -> Result<Vec<(String, u64)>, CodeError> {
    let content = open_file(path)?;
    let file = parse_elf(path, &content)?;
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions =
        symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    let named =
        functions.filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())));
    Ok(named.collect())
}

/// Reads the functions of a file.
fn read_functions(path: &Path) -> Result<Vec<CodeFunction>, CodeError> {
    let content = open_file(path)?;
    let file = parse_elf(path, &content)?;
    let is_executable = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(object::elf::SHF_EXECINSTR));
    let sections: Vec<Range<u64>> = file
        .sections()
        .filter(|section| is_executable(section.flags()))
        .filter(|section| !section.name().is_ok_and(is_linkage))
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect();
    let mut ranges = function_ranges(&file);
    ranges.sort_by_key(|range| range.start);
    let symbols = symbol_ranges(&file, &ranges);
    ranges.extend(symbols);
    let in_section = |range: Range<u64>| {
        let section = sections
            .iter()
            .find(|section| section.contains(&range.start))?;
        Some(range.start..range.end.min(section.end))
    };
    let mut functions: Vec<CodeFunction> = ranges
        .into_iter()
        .filter_map(in_section)
        .map(|range| CodeFunction {
            range,
            instructions: OnceCell::new(),
            blocks: OnceCell::new(),
        })
        .collect();
    functions.sort_by_key(|function| function.range.start);
    functions.dedup_by_key(|function| function.range.start);
    Ok(functions)
}

fn loaded_segment<'data>(segment: &impl ObjectSegment<'data>) -> LoadedSegment {
    let (offset, size) = segment.file_range();
    let executable = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.contains(object::elf::PF_X));
    LoadedSegment {
        offset,
        size,
        address: segment.address(),
        executable,
    }
}

/// Returns the functions in the call frame information.
fn function_ranges(file: &ElfFile<'_>) -> Vec<Range<u64>> {
    let Some(section) = file.section_by_name(".eh_frame") else {
        return Vec::new();
    };
    let Ok(content) = section.data() else {
        return Vec::new();
    };
    let address_of = |name| {
        file.section_by_name(name)
            .map_or(0, |section| section.address())
    };
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));
    let frames = EhFrame::from(EndianSlice::new(content, LittleEndian));
    let mut ranges = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
            && fde.len() > 0
        {
            ranges.push(fde.initial_address()..fde.initial_address().saturating_add(fde.len()));
        }
    }
    ranges
}

/// Returns the functions in the symbol table that are not among these ranges, which are sorted. Go programs, and programs
/// without tables for unwinding, have no other list.
fn symbol_ranges(file: &ElfFile<'_>, known_ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let is_known = |range: &Range<u64>| {
        let after = known_ranges.partition_point(|known_range| known_range.start < range.end);
        after > 0 && known_ranges[after - 1].end > range.start
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions = symbols.filter(|symbol| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0
    });
    functions
        .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
        .filter(|range| !is_known(range))
        .collect()
}

fn decode_instructions(code: &[u8], address: u64) -> Vec<CodeInstruction> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instructions = Vec::new();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            break;
        }
        // Padding is not reached, and a breakpoint of the program stays one.
        if matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            continue;
        }
        let info = factory.info(&instruction);
        let shared = || info.used_memory().iter().filter(|memory| is_shared(memory));
        instructions.push(CodeInstruction {
            address: instruction.ip(),
            accesses_memory: shared().next().is_some(),
            writes_memory: shared().any(is_write),
            is_atomic: is_atomic(&instruction),
        });
    }
    instructions
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const EXTREMES: [u64; 5] = [0, 1 << 31, 1 << 63, u64::MAX - 8, u64::MAX];

    /// Reads everything about a file.
    fn read_all(path: &Path) -> Option<usize> {
        let file = CodeFile::read(path).ok()?;
        for extreme in EXTREMES {
            let _ = file.load_bias(extreme, extreme);
            let _ = file.instruction_before(extreme);
        }
        for (start, _) in file.block_starts() {
            let _ = file.anchor_of(*start);
        }
        Some(file.functions().len())
    }

    #[test]
    fn a_file_with_any_damaged_number_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program.so");
        let source = folder.path().join("program.c");
        fs::write(&source, "int one(int a) { return a ? a + 1 : 2; }").unwrap();
        let arguments = ["-O1", "-shared", "-nostdlib", "-o"];
        let compiled = Command::new("cc")
            .args(arguments)
            .args([&path, &source])
            .status();
        assert!(compiled.unwrap().success());
        assert_eq!(read_all(&path), Some(1));
        let whole = fs::read(&path).unwrap();
        let headers = {
            let file = object::File::parse(&*whole).unwrap();
            let tables = [".eh_frame", ".symtab", ".dynsym"].map(|name| {
                let section = file.section_by_name(name).unwrap();
                section.file_range().unwrap()
            });
            let sections = u64::from_le_bytes(whole[40..48].try_into().unwrap());
            let rest = whole.len() as u64 - sections;
            [(0, 1024), (sections, rest)]
                .into_iter()
                .chain(tables)
                .collect::<Vec<_>>()
        };
        let positions = headers
            .into_iter()
            .flat_map(|(start, size)| (start..start + size).step_by(4));
        for position in positions {
            let position = usize::try_from(position).unwrap();
            for extreme in EXTREMES {
                let mut damaged = whole.clone();
                let end = damaged.len().min(position + 8);
                damaged[position..end].copy_from_slice(&extreme.to_le_bytes()[..end - position]);
                fs::write(&path, &damaged).unwrap();
                read_all(&path);
            }
        }
    }
}
