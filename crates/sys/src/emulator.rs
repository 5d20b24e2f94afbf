//! Parses the command of a user-mode emulator: `qemu-x86_64 -cpu Haswell ./program argument`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Options whose value is the next argument.
const WITH_VALUE: [&str; 19] = [
    "0", "B", "D", "E", "L", "R", "U", "cpu", "d", "dfilter", "g", "p", "plugin", "r", "s", "seed",
    "t", "tb-size", "trace",
];

/// A command that starts with an emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulator<'a> {
    /// Architecture that it emulates, from the end of its name: `x86_64`.
    pub arch: &'a str,
    /// CPU model in its options, if there is one.
    pub model: Option<&'a OsStr>,
    /// Index of the emulator in the command.
    pub at: usize,
    /// Index of the emulated program in the command.
    pub program: usize,
}

impl<'a> Emulator<'a> {
    /// Finds the first user-mode emulator in a command; it may follow a wrapper.
    pub fn find_in_command<T: AsRef<OsStr>>(words: &'a [T]) -> Option<Self> {
        (0..words.len()).find_map(|index| Self::from_word(words, index))
    }

    fn from_word<T: AsRef<OsStr>>(words: &'a [T], begin: usize) -> Option<Self> {
        let word = |index: usize| words.get(index).map(AsRef::as_ref);
        let name = Path::new(word(begin)?).file_name()?.to_str()?;
        let arch = name.strip_prefix("qemu-")?;
        let arch = arch.strip_suffix("-static").unwrap_or(arch);
        // This emulator runs machines, not programs.
        if arch.starts_with("system-") {
            return None;
        }
        let (mut index, mut model) = (begin + 1, None);
        while let Some(option) = word(index)?.as_bytes().strip_prefix(b"-") {
            index += 1;
            // `--cpu` is equivalent to `-cpu`; arguments after `--` are not options.
            let option = option.strip_prefix(b"-").unwrap_or(option);
            if option.is_empty() {
                break;
            }
            if WITH_VALUE.iter().any(|flag| flag.as_bytes() == option) {
                if option == b"cpu" {
                    model = word(index);
                }
                index += 1;
            }
        }
        word(index)?;
        Some(Self {
            arch,
            model,
            at: begin,
            program: index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the CPU model, and the program with its arguments.
    fn model_and_program(line: &str) -> Option<(Option<String>, String)> {
        let words: Vec<&str> = line.split(' ').collect();
        let found = Emulator::find_in_command(&words)?;
        let model = found.model.map(|model| model.to_str().unwrap().to_owned());
        Some((model, words[found.program..].join(" ")))
    }

    #[test]
    fn options_of_an_emulator_are_separated_from_those_of_its_program() {
        let expected = |model: &str, rest: &str| Some((Some(model.to_owned()), rest.to_owned()));
        for line in [
            "qemu-x86_64 -cpu Haswell ./a -cpu x",
            "/usr/bin/qemu-x86_64-static -cpu Haswell ./a -cpu x",
            "qemu-x86_64 -L /root -E A=b -strace --cpu Haswell -0 name -- ./a -cpu x",
            "qemu-x86_64 -cpu max -singlestep -cpu Haswell -seed 7 ./a -cpu x",
        ] {
            assert_eq!(
                model_and_program(line),
                expected("Haswell", "./a -cpu x"),
                "{line}"
            );
        }
        let line = "env QEMU_LOG=page qemu-x86_64 -cpu Haswell ./a -cpu x";
        assert_eq!(model_and_program(line), expected("Haswell", "./a -cpu x"));
        let model = "Haswell,-avx2,+xop";
        let line = format!("qemu-x86_64 -cpu {model} -L -cpu ./a");
        assert_eq!(model_and_program(&line), expected(model, "./a"));
    }

    #[test]
    fn an_emulator_without_a_model_is_recognized() {
        let plain = Some((None, "./a -cpu x".to_owned()));
        assert_eq!(model_and_program("qemu-x86_64 ./a -cpu x"), plain);
        assert_eq!(model_and_program("qemu-aarch64 -g 1234 ./a -cpu x"), plain);
    }

    #[test]
    fn commands_without_an_emulated_program_are_not_recognized() {
        for line in [
            "qemu-x86_64",
            "qemu-x86_64 -cpu",
            "qemu-x86_64 -cpu help",
            "qemu-x86_64 -version",
            "qemu-system-x86_64 -cpu Haswell disk",
            "./a ./qemu-x86_64",
            "",
        ] {
            assert_eq!(model_and_program(line), None, "{line}");
        }
    }
}
