//! Finds the compiler or interpreter that a source file needs before it can run.

use provoke_words::untrusted::shell_word;
use std::path::Path;

/// The program that runs a source file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceFileRunner {
    /// The language, and its usual compiler if that writes a program.
    Compiled(&'static str, Option<&'static str>),
    /// The interpreter.
    Script(&'static str),
}

use SourceFileRunner::{Compiled, Script};

const EXTENSIONS: &[(&[&str], SourceFileRunner)] = &[
    (&["c"], Compiled("C", Some("cc -g -o"))),
    (
        &["cc", "cpp", "cxx", "c++", "C"],
        Compiled("C++", Some("c++ -g -o")),
    ),
    (&["rs"], Compiled("Rust", Some("rustc -g -o"))),
    (&["go"], Compiled("Go", Some("go build -o"))),
    (
        &["f", "f90", "f95"],
        Compiled("Fortran", Some("gfortran -g -o")),
    ),
    (&["s", "S", "asm"], Compiled("assembly", None)),
    (&["adb", "ads"], Compiled("Ada", None)),
    (&["cs"], Compiled("C#", None)),
    (&["cu"], Compiled("CUDA", None)),
    (&["d"], Compiled("D", None)),
    (&["hs"], Compiled("Haskell", None)),
    (&["java"], Compiled("Java", None)),
    (&["kt"], Compiled("Kotlin", None)),
    (&["m", "mm"], Compiled("Objective-C", None)),
    (&["ml"], Compiled("OCaml", None)),
    (&["nim"], Compiled("Nim", None)),
    (&["pas"], Compiled("Pascal", None)),
    (&["scala"], Compiled("Scala", None)),
    (&["swift"], Compiled("Swift", None)),
    (&["ts", "tsx"], Compiled("TypeScript", None)),
    (&["zig"], Compiled("Zig", None)),
    (&["bash"], Script("bash")),
    (&["jar"], Script("java -jar")),
    (&["jl"], Script("julia")),
    (&["js", "mjs", "cjs"], Script("node")),
    (&["lua"], Script("lua")),
    (&["php"], Script("php")),
    (&["pl"], Script("perl")),
    (&["py"], Script("python3")),
    (&["r", "R"], Script("Rscript")),
    (&["rb"], Script("ruby")),
    (&["sh"], Script("sh")),
    (&["tcl"], Script("tclsh")),
    (&["zsh"], Script("zsh")),
];

impl SourceFileRunner {
    /// Returns how to run a file, by its extension.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        let mut runners = EXTENSIONS
            .iter()
            .filter(|(names, _)| names.contains(&extension));
        runners.next().map(|(_, source)| *source)
    }
}

/// Returns the program that a compiler creates from a file, and the command for it.
pub(super) fn compile_command(path: &Path, compiler: &str) -> (String, String) {
    let program = path.with_extension("");
    let script_path = if path.components().count() > 1 || path.has_root() {
        program.clone()
    } else {
        Path::new(".").join(&program)
    };
    let word = |path: &Path| shell_word(path.as_os_str()).into_string();
    let make = format!("{compiler} {} {}", word(&program), word(path));
    (word(&script_path), make)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_extension_belongs_to_one_language() {
        let mut names: Vec<&str> = EXTENSIONS
            .iter()
            .flat_map(|(names, _)| *names)
            .copied()
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_compile_command_quotes_and_names_the_program() {
        for (source, program, make) in [
            ("crash.c", "./crash", "cc -o crash crash.c"),
            ("./crash.c", "./crash", "cc -o ./crash ./crash.c"),
            ("/a/b c.c", "'/a/b c'", "cc -o '/a/b c' '/a/b c.c'"),
        ] {
            let expected = (program.to_owned(), make.to_owned());
            assert_eq!(compile_command(Path::new(source), "cc -o"), expected);
        }
    }
}
