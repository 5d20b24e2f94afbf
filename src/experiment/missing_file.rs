//! Finds scripts that do not exist, and suggests files with similar names.

use provoke_model::Text;
use provoke_words::names::nearest_name;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// An interpreter, which takes the name of a script.
struct Interpreter {
    names: &'static [&'static str],
    /// Flags without a value. After another flag, the script is not known.
    flags: &'static str,
    /// Extensions that a script must have; without any, every argument is a script.
    extensions: &'static [&'static str],
}

const INTERPRETERS: [Interpreter; 4] = [
    Interpreter {
        names: &["python", "pypy"],
        flags: "bBdEiIOPqsSuvx",
        extensions: &[],
    },
    Interpreter {
        names: &["ash", "bash", "dash", "ksh", "sh", "zsh"],
        flags: "aefhlmnuvx",
        extensions: &[],
    },
    Interpreter {
        names: &["perl", "php", "ruby", "lua", "julia", "Rscript"],
        flags: "",
        extensions: &[],
    },
    // Node.js adds missing extensions, and has commands such as `inspect`.
    Interpreter {
        names: &["node", "nodejs"],
        flags: "",
        extensions: &["js", "mjs", "cjs"],
    },
];

/// Returns the script that a command names as the argument of its interpreter, if that is certain.
pub(super) fn find_script(command: &[Text]) -> Option<&Text> {
    let (program, arguments) = command.split_first()?;
    let name = Path::new(program.as_os_str())
        .file_name()?
        .to_str()?
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let mut interpreters = INTERPRETERS.iter();
    let interpreter = interpreters.find(|interpreter| interpreter.names.contains(&name))?;
    let is_known_flag = |word: &&Text| {
        let letters = word.as_bytes().strip_prefix(b"-").unwrap_or_default();
        let mut flags = letters.iter().map(|letter| char::from(*letter));
        !letters.is_empty() && flags.all(|letter| interpreter.flags.contains(letter))
    };
    let script = arguments.iter().find(|word| !is_known_flag(word))?;
    let bytes = script.as_bytes();
    let is_file_name = !bytes.is_empty()
        && !bytes.starts_with(b"-")
        && !bytes.starts_with(b"+")
        && !bytes.contains(&b'{');
    let extension = Path::new(script.as_os_str()).extension();
    let has_extension = interpreter.extensions.is_empty()
        || extension
            .and_then(OsStr::to_str)
            .is_some_and(|extension| interpreter.extensions.contains(&extension));
    (is_file_name && has_extension).then_some(script)
}

/// Returns the path of a file whose name is similar to that of a missing one in the same directory.
pub(super) fn similar_path(
    missing: &Path,
    cwd: &Path,
    is_wanted: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let file = cwd.join(missing);
    let entries = fs::read_dir(file.parent()?).ok()?.flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| is_wanted(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    let near = nearest_name(
        file.file_name()?.to_str()?,
        names.iter().map(String::as_str),
    )?;
    Some(missing.with_file_name(near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_the_first_argument_after_flags_without_values() {
        for (line, expected) in [
            ("python3 job.py a", Some("job.py")),
            ("/usr/bin/python3.11 -u -B job.py", Some("job.py")),
            ("sh -ex ./build.sh", Some("./build.sh")),
            ("node server.js", Some("server.js")),
            ("perl a.pl", Some("a.pl")),
            ("python3 -c pass", None),
            ("python3 -m pytest", None),
            ("python3 -X dev job.py", None),
            ("python3 -", None),
            ("python3", None),
            ("sh -c true", None),
            ("bash -o pipefail job.sh", None),
            ("bash +x job.sh", None),
            ("sh {script}", None),
            ("node inspect server.js", None),
            ("perl -I lib a.pl", None),
            ("./python job.py", Some("job.py")),
            ("./program job.py", None),
        ] {
            let command: Vec<Text> = line.split(' ').map(Text::from).collect();
            let script = find_script(&command).map(ToString::to_string);
            assert_eq!(script.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_similar_name_in_the_same_directory_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["crash", "crash.c", "other"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let similar = |missing: &str| {
            let similar = similar_path(Path::new(missing), folder.path(), Path::is_file);
            similar.map(|path| path.to_str().unwrap().to_owned())
        };
        assert_eq!(similar("./crsh"), Some("./crash".to_owned()));
        assert_eq!(similar("crash.cc"), Some("crash.c".to_owned()));
        assert_eq!(similar("./nothing"), None);
        assert_eq!(similar("./folder/crash"), None);
    }
}
