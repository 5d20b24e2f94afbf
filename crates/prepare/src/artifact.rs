//! Compares the build results of two commits.
//!
//! Each commit is built in another directory, and compilers write the path of the directory into the files. So that
//! path is removed before files are compared. Programs are compared by their loaded sections, without debug information
//! and the build ID. Paths of different lengths may still move the bytes after them. Two builds then count as
//! different, which costs trials, but does not affect the answer.

use object::elf::SHF_ALLOC;
use object::{Object as _, ObjectSection as _, SectionFlags};
use provoke_model::{Preparation, encode_hex};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use ring::digest::{Context, SHA256};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Section of the build ID.
const BUILD_ID: &str = ".note.gnu.build-id";

/// Returns a digest of the artifacts of a prepared variant, equal for identical artifacts; `None` if no artifacts are
/// named.
pub fn fingerprint_artifacts(make: &Preparation) -> Result<Option<String>, Diagnostic> {
    if make.artifacts.is_empty() {
        return Ok(None);
    }
    let folder = Path::new(make.folder.as_os_str());
    let files: Vec<PathBuf> = make
        .artifacts
        .iter()
        .map(|file| file.as_os_str().into())
        .collect();
    let missing = |(path, error): (PathBuf, io::Error)| {
        let message = format!("the build did not create `{}`: {error}", path.to_safe());
        refuse_at(
            message,
            &["artifact"],
            "`artifact` names files that `build` creates, relative to the working directory",
        )
    };
    of_files(folder, &files).map(Some).map_err(missing)
}

/// Returns a digest of the contents of these files below a directory.
fn of_files(folder: &Path, files: &[PathBuf]) -> Result<String, (PathBuf, io::Error)> {
    let mut context = Context::new(&SHA256);
    for file in files {
        let path = folder.join(file);
        let bytes = fs::read(&path).map_err(|error| (path, error))?;
        for part in significant_parts(&bytes) {
            let cleaned = without_folder_name(part, folder);
            context.update(&(cleaned.len() as u64).to_le_bytes());
            context.update(&cleaned);
        }
    }
    Ok(encode_hex(context.finish().as_ref()))
}

/// Returns the parts of a file that are compared.
fn significant_parts(bytes: &[u8]) -> Vec<&[u8]> {
    let loaded = |program: &object::File<'_>| {
        let sections = program.sections().filter(|section| {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                return false;
            };
            sh_flags.contains(SHF_ALLOC) && section.name() != Ok(BUILD_ID)
        });
        let file_parts =
            sections
                .filter_map(|section| section.file_range())
                .map(|(offset, length)| {
                    let start = usize::try_from(offset).ok()?;
                    bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
                });
        file_parts.collect::<Option<Vec<&[u8]>>>()
    };
    let program = object::File::parse(bytes).ok();
    let loaded_parts = program.as_ref().and_then(loaded);
    // A program without sections is compared as a whole.
    loaded_parts
        .filter(|file_parts| !file_parts.is_empty())
        .unwrap_or_else(|| vec![bytes])
}

/// Returns the bytes without the path of a directory.
fn without_folder_name(bytes: &[u8], folder: &Path) -> Vec<u8> {
    let name = folder.as_os_str().as_encoded_bytes();
    let mut rest = Vec::with_capacity(bytes.len());
    let mut start = 0;
    while start < bytes.len() {
        if bytes[start] == b'/' && bytes[start..].starts_with(name) {
            start += name.len();
        } else {
            rest.push(bytes[start]);
            start += 1;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles a program in a directory of this name, with its debug information.
    fn compile_in(above: &Path, name: &str, text: &str) -> PathBuf {
        let folder = above.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("main.c"), text).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-g", "-o", "app"]).arg(folder.join("main.c"));
        assert!(cc.current_dir(&folder).status().unwrap().success());
        folder
    }

    #[test]
    fn the_hash_of_a_build_changes_with_code_but_not_with_comments() {
        let above = tempfile::tempdir().unwrap();
        let hash_of = |folder: &Path| of_files(folder, &["app".into()]).unwrap();
        let text = "#include <stdio.h>\nint main(void) { puts(__FILE__); return 0; }\n";
        let one = compile_in(above.path(), "one", text);
        let other = compile_in(above.path(), "two", &format!("{text}// nothing\n"));
        let third = compile_in(above.path(), "six", &text.replace("return 0", "return 1"));
        assert_ne!(
            fs::read(one.join("app")).unwrap(),
            fs::read(other.join("app")).unwrap()
        );
        assert_eq!(hash_of(&one), hash_of(&other));
        assert_ne!(hash_of(&one), hash_of(&third));
    }

    #[test]
    fn a_file_that_is_not_a_program_is_hashed_without_its_directory_name() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path();
        let hash_of = |text: String| {
            fs::write(folder.join("app"), text).unwrap();
            of_files(folder, &["app".into()]).unwrap()
        };
        let name = folder.display();
        assert_eq!(
            hash_of("from  here".to_owned()),
            hash_of(format!("from {name} here"))
        );
        assert_ne!(hash_of("one".to_owned()), hash_of("other".to_owned()));
        let missing = of_files(folder, &["gone".into()]);
        assert_eq!(missing.unwrap_err().0, folder.join("gone"));
    }
}
