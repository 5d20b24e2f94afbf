//! Finds the libraries that the loader will load, without running it.

use super::CommandEnvironment;
use super::elf_headers::{self, ElfHeaders};
use provoke_model::Text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// Limit of libraries.
const LIBRARIES: usize = 512;
/// Limit of configuration files of the loader.
const SETTINGS: usize = 64;

/// Default folders, which the loader searches last.
const DEFAULT: [&str; 4] = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// A library that the loader will find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Library {
    /// Path of the library; `None` if it is missing.
    pub file: Option<PathBuf>,
    /// Headers of the library.
    pub elf: ElfHeaders,
}

/// Where the loader searches the libraries of a command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LoaderSettings {
    /// Folder at which relative paths begin.
    cwd: Text,
    preloaded: Vec<String>,
    by_variable: Vec<Text>,
    by_configuration: Vec<Text>,
}

impl LoaderSettings {
    /// Returns the settings for a command with this environment.
    pub fn of_command(environment: &CommandEnvironment<'_>) -> Self {
        let texts = |folders: Vec<PathBuf>| folders.into_iter().map(Text::from).collect();
        let preloaded = environment.get_variable("LD_PRELOAD").unwrap_or_default();
        let preloaded = preloaded.to_string_lossy();
        let names = preloaded.split([' ', ':']);
        Self {
            cwd: environment.cwd.into(),
            preloaded: names
                .filter(|name| !name.is_empty() && !name.contains('$'))
                .map(str::to_owned)
                .collect(),
            by_variable: texts(environment.list_paths("LD_LIBRARY_PATH")),
            by_configuration: texts(folders_of_settings(Path::new("/etc/ld.so.conf"))),
        }
    }
}

/// A required library.
struct RequiredLibrary {
    name: String,
    /// Folders to search first.
    first: Vec<PathBuf>,
    /// Folders to search after `LD_LIBRARY_PATH`.
    then: Vec<PathBuf>,
}

/// Returns every library of a program by its required name.
pub fn find_libraries(program: &Path, settings: &LoaderSettings) -> BTreeMap<String, Library> {
    let mut libraries = BTreeMap::new();
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    // A static program loads no libraries.
    let Some(root) = elf_headers::read_elf(&real).filter(|elf| elf.interpreter.is_some()) else {
        return libraries;
    };
    let loader = LibraryLoader {
        machine: root.machine,
        settings,
        by_program: rpath_folders(&root, &real),
    };
    let preloaded = settings.preloaded.iter().map(|name| RequiredLibrary {
        name: name.clone(),
        first: Vec::new(),
        then: Vec::new(),
    });
    let mut queue: VecDeque<RequiredLibrary> =
        preloaded.chain(wanted_libraries(&root, &real)).collect();
    while let Some(wanted_now) = queue.pop_front() {
        if libraries.contains_key(&wanted_now.name) || libraries.len() >= LIBRARIES {
            continue;
        }
        let library = loader.find_library(&wanted_now);
        if let Some(file) = &library.file {
            queue.extend(wanted_libraries(&library.elf, file));
        }
        libraries.insert(wanted_now.name, library);
    }
    libraries
}

/// Returns the required libraries of a file, with the folders to search.
fn wanted_libraries<'a>(
    elf: &'a ElfHeaders,
    file: &'a Path,
) -> impl Iterator<Item = RequiredLibrary> + 'a {
    elf.needed.iter().map(|name| RequiredLibrary {
        name: name.clone(),
        first: rpath_folders(elf, file),
        then: expand_folders(&elf.runpath, file),
    })
}

/// Returns the folders that are searched first for a file's libraries.
fn rpath_folders(elf: &ElfHeaders, file: &Path) -> Vec<PathBuf> {
    if elf.runpath.is_empty() {
        expand_folders(&elf.rpath, file)
    } else {
        Vec::new()
    }
}

/// Replaces the placeholders of a RUNPATH.
fn expand_folders(list: &[String], file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let list = list.iter().filter(|folder| !folder.is_empty());
    list.map(|folder| {
        let folder = folder
            .replace("${ORIGIN}", &origin)
            .replace("$ORIGIN", &origin)
            .replace("${LIB}", "lib")
            .replace("$LIB", "lib");
        PathBuf::from(folder)
    })
    .collect()
}

struct LibraryLoader<'a> {
    machine: (u8, u16),
    settings: &'a LoaderSettings,
    /// Folders in the program's RPATH, which also applies to its libraries.
    by_program: Vec<PathBuf>,
}

impl LibraryLoader<'_> {
    fn find_library(&self, required: &RequiredLibrary) -> Library {
        let name = &required.name;
        let candidates: Vec<PathBuf> = if name.contains('/') {
            vec![PathBuf::from(name)]
        } else {
            let paths = PathBuf::as_path;
            let first = required.first.iter().chain(&self.by_program).map(paths);
            first
                .chain(self.settings.by_variable.iter().map(Path::new))
                .chain(required.then.iter().map(paths))
                .chain(self.settings.by_configuration.iter().map(Path::new))
                .chain(DEFAULT.iter().map(Path::new))
                .map(|folder| folder.join(name))
                .collect()
        };
        let fitting = candidates.into_iter().find_map(|file| {
            let file = Path::new(&self.settings.cwd).join(file);
            let elf = elf_headers::read_elf(&file).filter(|elf| elf.machine == self.machine)?;
            Some((file, elf))
        });
        let (file, elf) = fitting.unzip();
        Library {
            file,
            elf: elf.unwrap_or_default(),
        }
    }
}

/// Returns the folders in the loader's configuration, including nested files.
fn folders_of_settings(file: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut files = VecDeque::from([file.to_owned()]);
    let mut read = 0;
    while let Some(file) = files.pop_front() {
        read += 1;
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let lines = text.lines().map(|line| {
            let line = line.split('#').next().unwrap_or_default();
            line.trim()
        });
        for line in lines.filter(|line| !line.is_empty()) {
            match line.strip_prefix("include") {
                Some(pattern) if read < SETTINGS => files.extend(matching_files(pattern.trim())),
                Some(_) => {}
                None => folders.push(PathBuf::from(line)),
            }
        }
    }
    folders
}

/// Returns the files that match a pattern with at most one asterisk in its last part, in order.
fn matching_files(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (folder, prefix) = before.rsplit_once('/').unwrap_or((".", before));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let fits = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix) && name.ends_with(after))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(fits).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_loader_settings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("d")).unwrap();
        fs::write(path("d/b.conf"), "/b # late\n").unwrap();
        fs::write(path("d/a.conf"), "# nothing\n/a\n").unwrap();
        fs::write(path("d/a.txt"), "/no\n").unwrap();
        let main = path("ld.so.conf");
        let include = format!(
            "include {}/d/*.conf\n/own\n",
            folder.path().to_str().unwrap()
        );
        fs::write(&main, include).unwrap();
        let found = folders_of_settings(&main);
        assert_eq!(found, ["/own", "/a", "/b"].map(PathBuf::from));
    }

    #[test]
    fn loader_settings_that_include_themselves_are_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("main.conf");
        fs::write(&main, format!("include {}\n", main.to_str().unwrap())).unwrap();
        assert!(folders_of_settings(&main).is_empty());
    }

    #[test]
    fn libraries_that_need_each_other_are_found_once() {
        use elf_headers::tests::elf_file;
        let folder = tempfile::tempdir().unwrap();
        let at = 64 + 3 * 56;
        for (name, needed) in [("program", "a.so"), ("a.so", "b.so"), ("b.so", "a.so")] {
            // The names of the library and of the directory, by their offsets in the text behind the entries.
            let entries = [(5, at + 80), (10, 14), (1, 1), (29, 6), (0, 0)];
            let words = entries.iter().flat_map(|(tag, value)| [*tag, *value]);
            let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            let content = [&words, format!("\0{needed}\0$ORIGIN\0").as_bytes()].concat();
            // The third segment is the name of the loader.
            let segments = [(1, 0, 0, 4096), (2, at, at, 80), (3, at + 80, 0, 14)];
            fs::write(folder.path().join(name), elf_file(&segments, &content)).unwrap();
        }
        let program = folder.path().join("program");
        let settings = LoaderSettings {
            cwd: "/".into(),
            preloaded: Vec::new(),
            by_variable: Vec::new(),
            by_configuration: Vec::new(),
        };
        let libraries = find_libraries(&program, &settings);
        let names: Vec<&str> = libraries.keys().map(String::as_str).collect();
        assert_eq!(names, ["a.so", "b.so"]);
        assert!(libraries.values().all(|library| library.file.is_some()));
    }

    #[test]
    fn origin_is_replaced_by_the_directory_of_the_program() {
        let list = ["$ORIGIN/../lib", "${ORIGIN}", "", "/x"].map(str::to_owned);
        let found = expand_folders(&list, Path::new("/no/such/bin/program"));
        let expected = ["/no/such/bin/../lib", "/no/such/bin", "/x"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
