//! Facts about one main command: which build of which program it is, what that loads,
//! and the packages of its language.

use super::loader::{self, Library};
use super::{Around, cargo, elf, node, python};
use crate::model::{Survey, Text};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Interpreters of interpreters are followed so far.
const DEEP: usize = 4;
/// Contents beyond this many bytes are not read to tell builds apart.
const LARGEST: u64 = 64 << 20;
/// The same of all files without a build ID together, since there may be many.
const LARGEST_OF_LIBRARIES: u64 = 32 << 20;

/// Programs that only start another one, which is among their arguments.
pub(super) const LAUNCHERS: [&str; 12] = [
    "chrt", "env", "ionice", "nice", "nohup", "numactl", "setarch", "setsid", "stdbuf", "taskset",
    "time", "timeout",
];
/// Programs whose first argument that is a file is what they run.
const INTERPRETERS: [&str; 12] = [
    "bash", "bun", "dash", "deno", "node", "nodejs", "perl", "php", "python", "pypy", "ruby", "sh",
];

pub(super) fn survey(around: &Around<'_>, command: &[Text]) -> Survey {
    let mut all = Survey::default();
    let Some(name) = command.first() else {
        return all;
    };
    let Some(program) = around.find(name.as_os_str()) else {
        all.set("program.path", format!("{name} (not found)"));
        return all;
    };
    identify(&mut all, "program", &program);
    let mut chain = chain(around, &program);
    for (depth, interpreter) in (1..).zip(&chain[1..]) {
        let name = match depth {
            1 => "program.interpreter".to_owned(),
            depth => format!("program.interpreter{depth}"),
        };
        identify(&mut all, &name, interpreter);
    }
    let mut arguments = &command[1..];
    if is_one_of(&program, &LAUNCHERS)
        && let Some((at, launched)) = launched(around, arguments)
    {
        identify(&mut all, "program.launched", &launched);
        chain.extend(self::chain(around, &launched));
        arguments = &arguments[at + 1..];
    }
    if chain.iter().any(|file| is_one_of(file, &INTERPRETERS))
        && let Some(script) = script(around, arguments)
    {
        identify(&mut all, "program.script", &script);
    }
    if let Some(last) = chain.last() {
        libraries(&mut all, last, around);
    }
    python::survey(&mut all, &chain, around);
    node::survey(&mut all, &chain, around);
    cargo::survey(&mut all, &chain, around);
    all
}

/// Returns a program, the interpreter its first line names, that one's, and so on.
fn chain(around: &Around<'_>, program: &Path) -> Vec<PathBuf> {
    let mut chain = vec![program.to_owned()];
    while chain.len() < DEEP
        && let Some(next) = interpreter(around, &chain[chain.len() - 1])
    {
        chain.push(next);
    }
    chain
}

/// Returns what a script is run by.
fn interpreter(around: &Around<'_>, file: &Path) -> Option<PathBuf> {
    if let Some(real) = python::behind_shim(file, around) {
        return Some(real);
    }
    let mut start = [0; 512];
    let length = File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let path = PathBuf::from(words.next()?);
    if path.file_name() != Some(OsStr::new("env")) {
        return Some(path);
    }
    // `env` looks in PATH; its options and settings come before.
    let setting =
        |word: &&OsStr| word.as_bytes().starts_with(b"-") || word.as_bytes().contains(&b'=');
    around.find(words.find(|word| !setting(word))?)
}

/// Returns the program among the arguments of a launcher, and which of them it is: the
/// first that can be found. A number or a setting is no program.
fn launched(around: &Around<'_>, arguments: &[Text]) -> Option<(usize, PathBuf)> {
    let mut words = arguments.iter().map(Text::as_os_str).enumerate();
    words.find_map(|(at, word)| {
        let option = word.as_bytes().starts_with(b"-");
        Some((at, around.find(word).filter(|_| !option)?))
    })
}

/// Returns the file that an interpreter is to run, unless an option says what to run.
fn script(around: &Around<'_>, arguments: &[Text]) -> Option<PathBuf> {
    let mut words = arguments.iter().map(Text::as_os_str);
    let word = words.find(|word| !word.as_bytes().starts_with(b"-"))?;
    let file = around.cwd.join(word);
    file.is_file().then_some(file)
}

/// True when a file is called like one of these, whatever version is in its name.
pub(super) fn is_one_of(file: &Path, names: &[&str]) -> bool {
    let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    names.contains(&name)
}

/// Adds where a file is, and which build of it.
fn identify(all: &mut Survey, name: &str, file: &Path) {
    all.set(format!("{name}.path"), file.to_string_lossy());
    match elf::read(file).and_then(|elf| elf.build_id) {
        Some(id) => all.set(format!("{name}.build_id"), id),
        None => all.set_if(format!("{name}.hash"), hash(file, &mut LARGEST.clone())),
    }
}

fn libraries(all: &mut Survey, program: &Path, around: &Around<'_>) {
    let libraries = loader::libraries(program, around);
    if let Some(Library {
        file: Some(file), ..
    }) = libraries.get("libc.so.6")
    {
        all.set_if("libc", version_of_libc(file));
    }
    let mut budget = LARGEST_OF_LIBRARIES;
    for (name, library) in libraries {
        let known = match (&library.elf.build_id, &library.file) {
            (Some(id), _) => id.clone(),
            (None, Some(file)) => hash(file, &mut budget).unwrap_or_else(|| size(file)),
            (None, None) => "(missing)".to_owned(),
        };
        all.set(format!("library.{name}"), known);
    }
}

/// Returns how the C library of GNU names itself.
fn version_of_libc(file: &Path) -> Option<String> {
    let bytes = fs::read(file).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (_, rest) = text.split_once("GNU C Library ")?;
    let (about, _) = rest.split_once(".\n")?;
    let (name, version) = about.split_once(") ")?;
    let (name, version) = (name.trim_start_matches('('), version.rsplit(' ').next()?);
    // Of distributions the name holds the version, and more.
    let whole = if name.contains(version) {
        name.to_owned()
    } else {
        format!("{name} {version}")
    };
    (whole.len() < 100).then_some(whole)
}

/// Returns what tells contents apart, as long as the budget of bytes to read lasts.
fn hash(file: &Path, budget: &mut u64) -> Option<String> {
    let about = fs::metadata(file).ok()?;
    if !about.is_file() || about.len() > *budget {
        return None;
    }
    *budget -= about.len();
    let mut contents = File::open(file).ok()?;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match contents.read(&mut buffer).ok()? {
            0 => return Some(format!("fnv64:{hash:016x}")),
            length => hash = fnv(hash, &buffer[..length]),
        }
    }
}

/// The hash of Fowler, Noll and Vo: short, quick, and nobody tries to deceive us.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn size(file: &Path) -> String {
    let size = fs::metadata(file).map_or(0, |about| about.len());
    format!("{size} bytes")
}

/// Returns the names in a folder, at most so many, in the order of the alphabet.
pub(super) fn names_in(folder: &Path, at_most: usize) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    let mut names: Vec<String> = names
        .filter_map(|name: OsString| name.into_string().ok())
        .take(at_most)
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_everybody() {
        let start = 0xcbf2_9ce4_8422_2325;
        assert_eq!(fnv(start, b""), start);
        assert_eq!(fnv(start, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv(start, b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(fnv(fnv(start, b"foo"), b"bar"), fnv(start, b"foobar"));
    }

    #[test]
    fn versions_in_names_do_not_matter() {
        for name in ["python", "python3", "/usr/bin/python3.11"] {
            assert!(is_one_of(Path::new(name), &["python"]), "{name}");
        }
        for name in ["pythonw", "ipython3", ""] {
            assert!(!is_one_of(Path::new(name), &["python"]), "{name}");
        }
    }
}
