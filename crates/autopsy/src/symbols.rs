//! Resolves addresses in one file to functions and lines, each once.

use super::cfi::FileBytes;
use super::debug;
use super::elf::{self, ElfObject};
use addr2line::Context;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use provoke_model::Frame;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::PathBuf;

/// Maximum length of a symbol without a size, which otherwise ends where the next symbol begins.
const LONGEST_GUESS: u64 = 1 << 16;

/// Symbols of a file and of its debug file.
pub(super) struct Symbols {
    /// Files with symbols: the debug file first, then the file itself.
    files: Vec<ElfObject>,
    supplement: Option<ElfObject>,
    lines: OnceCell<Option<Context<FileBytes>>>,
    table: OnceCell<Vec<Symbol>>,
    frames_by_address: HashMap<u64, Vec<Frame>>,
}

struct Symbol {
    start: u64,
    end: u64,
    name: &'static [u8],
}

impl Symbols {
    pub(super) fn new(
        folders: &[PathBuf],
        elf: Option<ElfObject>,
        companion: Option<ElfObject>,
    ) -> Self {
        let files: Vec<ElfObject> = companion.into_iter().chain(elf).collect();
        let supplement = files
            .iter()
            .find_map(|file| debug::find_supplement(folders, file));
        Self {
            files,
            supplement,
            lines: OnceCell::new(),
            table: OnceCell::new(),
            frames_by_address: HashMap::new(),
        }
    }

    /// Returns the quality of the symbols in the terms of [`provoke_model::Module::symbols`].
    pub(super) fn naming_quality(&self) -> &'static str {
        let has_any = |test: fn(&ElfObject) -> bool| self.files.iter().any(test);
        if has_any(has_lines) {
            "lines"
        } else if has_any(|file| file.symbols().next().is_some()) {
            "symbols"
        } else if has_any(|file| file.dynamic_symbols().next().is_some()) {
            "exports"
        } else {
            "nothing"
        }
    }

    /// Returns the calls at this link-time address, innermost first: several if functions were
    /// inlined, one without a name if nothing is known.
    pub(super) fn frames_at(&mut self, address: u64) -> &[Frame] {
        if !self.frames_by_address.contains_key(&address) {
            let frames = self.look_up_frames(address);
            self.frames_by_address.insert(address, frames);
        }
        &self.frames_by_address[&address]
    }

    /// Returns the variable that contains this link-time address, with the offset from its start if
    /// that is not 0.
    pub(super) fn variable_at(&self, address: u64) -> Option<String> {
        let files = self.files.iter();
        let symbols = files.flat_map(|file| file.symbols().chain(file.dynamic_symbols()));
        let holding = symbols.filter(|symbol| {
            let end = symbol.address().saturating_add(symbol.size());
            symbol.kind() == SymbolKind::Data
                && symbol.is_definition()
                && (symbol.address()..end).contains(&address)
        });
        let smallest = holding.min_by_key(|symbol| (symbol.size(), symbol.name_bytes().ok()))?;
        let name = demangle_name(smallest.name_bytes().ok()?);
        Some(match address - smallest.address() {
            0 => name,
            offset => format!("{name}+0x{offset:x}"),
        })
    }

    /// Returns the link-time address of a symbol by its exact name.
    pub(super) fn address_of_name(&self, name: &str) -> Option<u64> {
        self.files.iter().find_map(|file| {
            let mut symbols = file
                .dynamic_symbols()
                .chain(file.symbols())
                .filter(object::ObjectSymbol::is_definition);
            let named_symbol = symbols.find(|symbol| symbol.name_bytes() == Ok(name.as_bytes()))?;
            Some(named_symbol.address())
        })
    }

    fn look_up_frames(&self, address: u64) -> Vec<Frame> {
        let mut frames = self.with_lines(address).unwrap_or_default();
        if frames.is_empty() {
            frames.push(Frame::default());
        }
        let outermost = frames.len() - 1;
        for (depth, frame) in frames.iter_mut().enumerate() {
            frame.inlined = depth < outermost;
        }
        // Prefer a mangled symbol: debug information may leave out the type or module of a function
        // (`run` of `Rocket::run`), and the function must have the same name in a stripped build.
        let symbol = self
            .symbol_at(address)
            .filter(|name| frames[outermost].function.is_none() || is_mangled(name));
        if let Some(name) = symbol {
            frames[outermost].function = Some(demangle_name(name));
        }
        frames
    }

    fn with_lines(&self, address: u64) -> Option<Vec<Frame>> {
        let lines = self.lines.get_or_init(|| self.line_context()).as_ref()?;
        let mut inlined_frames = lines.find_frames(address).skip_all_loads().ok()?;
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = inlined_frames.next() {
            let name = frame.function.as_ref();
            let line = frame.location.and_then(|location| {
                let line = location.line.filter(|line| *line > 0)?;
                Some((location.file?.to_owned(), line))
            });
            frames.push(Frame {
                function: name
                    .and_then(|name| name.raw_name().ok())
                    .map(|name| demangle_name(name.as_bytes())),
                line,
                ..Frame::default()
            });
        }
        Some(frames)
    }

    fn line_context(&self) -> Option<Context<FileBytes>> {
        let file = self.files.iter().find(|file| has_lines(file))?;
        let load = |file: &ElfObject, id: SectionId| {
            let bytes = elf::section_content(file, id.name()).unwrap_or_default();
            Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
        };
        let mut dwarf = Dwarf::load(|id| load(file, id)).ok()?;
        if let Some(supplement) = &self.supplement {
            dwarf.load_sup(|id| load(supplement, id)).ok()?;
        }
        Context::from_dwarf(dwarf).ok()
    }

    fn symbol_at(&self, address: u64) -> Option<&'static [u8]> {
        let table = self.table.get_or_init(|| self.sorted_functions());
        let index_behind = table.partition_point(|symbol| symbol.start <= address);
        let symbols_before = table[..index_behind].iter().rev().take(16);
        let mut holding = symbols_before.filter(|symbol| address < symbol.end);
        holding.next().map(|symbol| symbol.name)
    }

    /// Returns all functions by address. Of several names for one address, the simplest comes last.
    fn sorted_functions(&self) -> Vec<Symbol> {
        let mut functions = Vec::new();
        for file in &self.files {
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                // Include data, because a program may jump into data by mistake.
                let kinds = [SymbolKind::Text, SymbolKind::Unknown, SymbolKind::Data];
                let code = kinds.contains(&symbol.kind());
                let Ok(name) = symbol.name_bytes() else {
                    continue;
                };
                if code && symbol.is_definition() && !name.is_empty() && name[0] != b'$' {
                    let rank = (
                        symbol.is_global(),
                        std::cmp::Reverse(leading_underscores(name)),
                    );
                    let (start, size) = (symbol.address(), symbol.size());
                    functions.push((start, size > 0, rank, size, name));
                }
            }
        }
        functions.sort_unstable();
        let starts: Vec<u64> = functions.iter().map(|(start, ..)| *start).collect();
        let table = functions.into_iter().map(|(start, _, _, size, name)| {
            let end = if size > 0 {
                start.saturating_add(size)
            } else {
                let next =
                    starts[starts.partition_point(|other_start| *other_start <= start)..].first();
                let guess = start.saturating_add(LONGEST_GUESS);
                next.map_or(guess, |next| guess.min(*next))
            };
            Symbol { start, end, name }
        });
        table.collect()
    }
}

fn has_lines(file: &ElfObject) -> bool {
    let section = file.section_by_name(".debug_info");
    let range = section.and_then(|section| section.file_range());
    range.is_some_and(|(_, size)| size > 0)
}

fn leading_underscores(name: &[u8]) -> usize {
    name.iter().take_while(|byte| **byte == b'_').count()
}

fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// Demangles a name, without suffixes of the build such as hashes.
fn demangle_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    if let Ok(rust) = rustc_demangle::try_demangle(&name) {
        return format!("{rust:#}");
    }
    if name.starts_with("_Z") {
        let options = cpp_demangle::DemangleOptions::new().no_return_type();
        let cpp = cpp_demangle::Symbol::new(name.as_bytes()).ok();
        if let Some(text) = cpp.and_then(|name| name.demangle_with_options(&options).ok()) {
            return text;
        }
    }
    name.into_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle_name;

    #[test]
    fn demangled_names_are_as_in_the_source() {
        let cases = [
            ("main", "main"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_Z4pickIiET_S0_", "pick<int>(int)"),
            (
                "_ZN4core3ptr13drop_in_place17h0123456789abcdefE",
                "core::ptr::drop_in_place",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_Znonsense", "_Znonsense"),
        ];
        for (name, wanted) in cases {
            assert_eq!(demangle_name(name.as_bytes()), wanted);
        }
    }
}
