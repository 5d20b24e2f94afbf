//! Fills memory that malloc returns and that was freed, with the variable of the GNU C library.

use super::simple::{LEVER, Obstacle, SEARCH, parse_integer};
use super::{Lever, LeverSearch};
use provoke_model::{ActorPlan, TrialsPlan};
use provoke_sys::files;
use provoke_sys::spawn::find_program;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Bytes at the beginning of a program that are searched for the name of its loader.
const BEGINNING: u64 = 8 << 10;
/// Scripts that are followed to their interpreters.
const MAX_SCRIPTS: usize = 4;

pub(super) static MALLOC_FILL: Lever = Lever {
    name: "malloc-fill",
    about: "a byte in allocated and freed memory, 1 to 255: sets MALLOC_PERTURB_ of the GNU C library",
    parse: |typed| parse_integer(typed, 0, 255),
    apply: |byte, start| {
        let variable = ("MALLOC_PERTURB_".to_owned(), Some(byte.to_owned()));
        start.variables.push(variable);
        Ok(())
    },
    obstacle: |_, trials| find_other_libc(trials).map(Obstacle::of_trials),
    instead_in_containers: Some("set the variable in the container: --env MALLOC_PERTURB_=165"),
    search: Some(LeverSearch {
        family: "malloc",
        values: &["165"],
        sham: Some("0"),
        cause: "memory: it reads memory that is not initialized or was freed",
        ..SEARCH
    }),
    ..LEVER
};

/// Returns why the variable has no effect, if the first command is not linked with the GNU C library.
fn find_other_libc(trials: &TrialsPlan) -> Option<String> {
    let main = trials.variants.first()?.main_actor()?;
    let name = main.command.first()?;
    let (_, path) = trials
        .environment
        .iter()
        .find(|(name, _)| name.as_os_str() == "PATH")?;
    let program = find_program(name.as_os_str(), Some(path.as_os_str()), cwd_of(main)).ok()?;
    match find_libc(program)? {
        Libc::Gnu => None,
        Libc::Static => Some(format!("`{name}` is linked statically")),
        Libc::Other => Some(format!("`{name}` is not linked with the GNU C library")),
    }
}

fn cwd_of(actor: &ActorPlan) -> &Path {
    Path::new(actor.cwd.as_os_str())
}

/// The C library of a program.
#[derive(Debug, PartialEq, Eq)]
enum Libc {
    Gnu,
    Other,
    /// The program is linked statically.
    Static,
}

/// Returns the C library of a program, or of the interpreter of a script, if it is known.
fn find_libc(mut program: PathBuf) -> Option<Libc> {
    for _ in 0..MAX_SCRIPTS {
        let mut beginning = Vec::new();
        let file = files::open_regular_file(&program).ok()?;
        file.take(BEGINNING).read_to_end(&mut beginning).ok()?;
        if beginning.starts_with(b"\x7fELF\x02\x01") {
            return Some(match loader_of_elf(&beginning) {
                None => Libc::Static,
                Some(loader) if loader.contains("musl") || loader.starts_with("/system/") => {
                    Libc::Other
                }
                Some(_) => Libc::Gnu,
            });
        }
        let line = beginning
            .strip_prefix(b"#!")?
            .split(|byte| *byte == b'\n')
            .next()?;
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        program = PathBuf::from(OsStr::from_bytes(words.next()?));
    }
    None
}

/// Returns the loader that the headers of a 64-bit program name.
fn loader_of_elf(beginning: &[u8]) -> Option<String> {
    const PT_INTERP: u64 = 3;
    let number = |at: usize, size: usize| {
        let bytes = beginning.get(at..at.checked_add(size)?)?;
        let digits = bytes.iter().rev();
        Some(digits.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    (0..count).find_map(|index| {
        let header = usize::try_from(headers.checked_add(index * size)?).ok()?;
        if number(header, 4)? != PT_INTERP {
            return None;
        }
        let start = usize::try_from(number(header + 8, 8)?).ok()?;
        let name = beginning.get(start..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(name).into_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Returns a 64-bit program whose only header names a loader, if there is one.
    fn program(loader: Option<&str>) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (bytes[32], bytes[54], bytes[56]) = (64, 56, 1);
        if let Some(loader) = loader {
            (bytes[64], bytes[72]) = (3, 120);
            bytes.extend_from_slice(loader.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn the_c_library_of_a_program_is_known_by_its_loader() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for (content, libc) in [
            (program(None), Some(Libc::Static)),
            (
                program(Some("/lib64/ld-linux-x86-64.so.2")),
                Some(Libc::Gnu),
            ),
            (program(Some("/lib/ld-musl-x86_64.so.1")), Some(Libc::Other)),
            (b"echo".to_vec(), None),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(find_libc(path.clone()), libc);
            let script = folder.path().join("script");
            fs::write(&script, format!("#! {} -x\n", path.to_string_lossy())).unwrap();
            assert_eq!(find_libc(script), libc);
        }
    }
}
