//! Decides which files of a program can have points.

use provoke_model::{CodePoint, CodeScope, Hold};
use std::path::Path;

/// Folders with files of the system.
const SYSTEM: [&str; 8] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/nix/store",
    "/snap",
];
/// Names of interpreters and their libraries, without versions. A race is rarely in an interpreter, and it has too many
/// instructions.
const INTERPRETERS: [&str; 21] = [
    "python",
    "libpython",
    "perl",
    "libperl",
    "ruby",
    "libruby",
    "node",
    "libnode",
    "java",
    "libjvm",
    "bash",
    "dash",
    "zsh",
    "lua",
    "php",
    "Rscript",
    "R",
    "julia",
    "mono",
    "dotnet",
    "beam.smp",
];

/// Folder of the shared objects in Python's standard library.
const PYTHON_LIBRARY: &str = "lib-dynload";

/// Returns whether the instructions of a file can become points. The program may be a file of the system.
pub(crate) fn is_in_scope(scope: &CodeScope, program: Option<&Path>, path: &Path) -> bool {
    match scope {
        CodeScope::Own => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_local = path.starts_with("/usr/local");
            let is_of_system = SYSTEM.iter().any(|folder| path.starts_with(folder));
            let has_folder = |folder: &str| path.iter().any(|component| component == folder);
            (is_local || !is_of_system || program == Some(path))
                && !is_interpreter(&name)
                && !has_folder(PYTHON_LIBRARY)
        }
        CodeScope::Named(names) => {
            let path = path.to_string_lossy();
            names.iter().any(|name| path.contains(&**name))
        }
        CodeScope::Around(holds) => holds.iter().any(|hold| may_have_point(hold, path)),
    }
}

/// Returns the name of a Python extension module whose instructions do not become points, although it is one of a package or
/// of the standard library: `_queue` of `_queue.cpython-311-x86_64-linux-gnu.so`.
pub(crate) fn left_out_module(scope: &CodeScope, path: &Path) -> Option<String> {
    let has_folder = |folder: &str| path.iter().any(|component| component == folder);
    let is_module = [PYTHON_LIBRARY, "site-packages", "dist-packages"]
        .into_iter()
        .any(has_folder);
    if *scope != CodeScope::Own || !is_module || is_in_scope(scope, None, path) {
        return None;
    }
    let name = path.file_name()?.to_string_lossy();
    name.split('.').next().map(str::to_owned)
}

/// Returns whether a file has the name of an interpreter, with or without a version: `python3.11`, `libpython3.11.so.1.0`.
fn is_interpreter(name: &str) -> bool {
    let is_version = |rest: &str| {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
        rest.is_empty() || rest.starts_with("so") || rest == "d" || rest == "m"
    };
    INTERPRETERS
        .iter()
        .any(|interpreter| name.strip_prefix(interpreter).is_some_and(is_version))
}

/// Returns whether a file may contain the instruction of a hold: its file, or a file of the program that may be another
/// build of it.
pub(crate) fn may_have_point(hold: &Hold, path: &Path) -> bool {
    let is_its_file = |point: &CodePoint| point.object.as_os_str() == path.as_os_str();
    hold.point.as_code().is_some_and(is_its_file)
        || (hold.anchor.is_some() && is_in_scope(&CodeScope::Own, None, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_and_of_interpreters_are_out_of_scope() {
        let own = |path: &str| is_in_scope(&CodeScope::Own, None, Path::new(path));
        for path in [
            "/home/me/server",
            "/home/me/libfast.so.1",
            "/usr/local/bin/tool",
            "/x/site-packages/a/_core.so",
            "/home/me/nodepool",
            "/home/me/dashboard",
            "/home/me/python_service",
        ] {
            assert!(own(path), "{path}");
        }
        for path in [
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/bin/dash",
            "/opt/py/bin/python3.11",
            "/opt/libpython3.so",
            "/opt/libpython3.11.so.1.0",
            "/opt/node",
            "/opt/lib/python3.11/lib-dynload/_socket.so",
        ] {
            assert!(!own(path), "{path}");
        }
        let named = CodeScope::Named(vec!["libc.so".to_owned()]);
        let of_named = |path: &str| is_in_scope(&named, None, Path::new(path));
        assert!(of_named("/usr/lib/libc.so.6"));
        assert!(!of_named("/home/me/server"));
    }

    #[test]
    fn modules_of_the_standard_library_of_python_are_left_out_by_name() {
        let module = |scope: &CodeScope, path: &str| left_out_module(scope, Path::new(path));
        let queue = "/opt/lib/python3.11/lib-dynload/_queue.cpython-311-x86_64-linux-gnu.so";
        assert_eq!(module(&CodeScope::Own, queue).as_deref(), Some("_queue"));
        assert_eq!(module(&CodeScope::Own, "/usr/lib/libc.so.6"), None);
        assert_eq!(module(&CodeScope::Own, "/x/site-packages/a/_core.so"), None);
        let named = CodeScope::Named(vec!["_queue".to_owned()]);
        assert_eq!(module(&named, queue), None);
    }

    #[test]
    fn the_program_is_in_scope_although_it_belongs_to_the_system() {
        let own = |program: &str, path: &str| {
            is_in_scope(&CodeScope::Own, Some(Path::new(program)), Path::new(path))
        };
        assert!(own("/usr/bin/server", "/usr/bin/server"));
        assert!(!own("/usr/bin/server", "/usr/lib/libc.so.6"));
        assert!(!own("/usr/bin/python3.11", "/usr/bin/python3.11"));
    }
}
