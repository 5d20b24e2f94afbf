//! Reads the kernel setting for the path of core files.

use provoke_words::untrusted::Untrusted as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Destination of cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreDestination {
    /// File whose path is made from a template.
    File(CorePathTemplate),
    /// Helper program that receives the core on stdin.
    Helper {
        /// Program and its arguments.
        command: String,
        /// Folder and file names of the helper's cores, if they are known.
        leaves: Option<CorePathTemplate>,
    },
}

/// Path of a file in which the kernel replaces placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorePathTemplate {
    /// Folder; `None` for the working directory of the crashing process.
    pub folder: Option<PathBuf>,
    /// Parts of the file name between placeholders.
    name: Vec<String>,
    /// The name contains the process id, so that no core overwrites another.
    pub has_pid: bool,
}

/// Returns the setting of the machine.
pub fn read_destination() -> io::Result<CoreDestination> {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
    let uses_pid =
        fs::read_to_string("/proc/sys/kernel/core_uses_pid").is_ok_and(|text| text.trim() != "0");
    Ok(parse_pattern(pattern.trim_end_matches('\n'), uses_pid))
}

/// Returns whether all cores in one folder have the same name.
pub fn cores_overwrite_each_other() -> bool {
    matches!(read_destination(), Ok(CoreDestination::File(template)) if !template.has_pid)
}

/// Parses a setting.
pub fn parse_pattern(pattern: &str, uses_pid: bool) -> CoreDestination {
    if let Some(command) = pattern.strip_prefix('|') {
        let command = command.trim().to_owned();
        let program = command.split(' ').next().unwrap_or_default();
        let leaves = if program.ends_with("systemd-coredump") {
            Some(CorePathTemplate::new(
                "/var/lib/systemd/coredump/core.%e.%u.%b.%p.%t",
                false,
            ))
        } else if program.ends_with("apport") {
            Some(CorePathTemplate::new(
                "/var/lib/apport/coredump/core.%E.%u.%b.%p.%t",
                false,
            ))
        } else {
            None
        };
        return CoreDestination::Helper { command, leaves };
    }
    CoreDestination::File(CorePathTemplate::new(pattern, uses_pid))
}

impl CoreDestination {
    /// Returns folder and names of cores, if they are known.
    pub fn core_template(&self) -> Option<&CorePathTemplate> {
        match self {
            Self::File(template) => Some(template),
            Self::Helper { leaves, .. } => leaves.as_ref(),
        }
    }
}

impl CorePathTemplate {
    fn new(pattern: &str, uses_pid: bool) -> Self {
        let (folder, name) = match pattern.rsplit_once('/') {
            Some((folder, name)) => (Some(PathBuf::from(format!("{folder}/"))), name),
            None => (None, pattern),
        };
        let mut parts = vec![String::new()];
        let mut has_pid = false;
        let mut letters = name.chars();
        while let Some(letter) = letters.next() {
            let literal = match letter {
                '%' => match letters.next() {
                    Some('%') => Some('%'),
                    // The kernel drops a single percent sign at the end.
                    None => continue,
                    Some(letter) => {
                        has_pid |= matches!(letter, 'p' | 'P' | 'i' | 'I');
                        None
                    }
                },
                letter => Some(letter),
            };
            match literal {
                Some(letter) => parts.last_mut().expect("never empty").push(letter),
                None => parts.push(String::new()),
            }
        }
        if uses_pid && !has_pid {
            parts.last_mut().expect("never empty").push('.');
            parts.push(String::new());
            has_pid = true;
        }
        Self {
            folder,
            name: parts,
            has_pid,
        }
    }

    /// Returns a message about an existing file that a core of a process in this folder would
    /// overwrite. The kernel would remove the file without a question.
    pub fn overwrites_in(&self, folder: &Path) -> Option<String> {
        let [name] = self.name.as_slice() else {
            return None;
        };
        let folder = folder.join(self.folder.as_deref().unwrap_or(Path::new("")));
        let core_path = folder.join(name);
        core_path.symlink_metadata().ok()?;
        let core = core_path.to_safe();
        Some(format!(
            "`{core}` is there already, and would be overwritten; `mv {core} {core}.old`"
        ))
    }

    /// Returns whether the folder is independent of the working directory.
    pub fn is_rooted(&self) -> bool {
        self.folder
            .as_ref()
            .is_some_and(|folder| folder.is_absolute())
    }

    /// Returns whether this template can create a file with this name.
    pub fn fits_name(&self, name: &str) -> bool {
        let (first, rest) = self.name.split_first().expect("never empty");
        let Some(mut name) = name.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, middle_parts)) = rest.split_last() else {
            return name.is_empty();
        };
        for part in middle_parts {
            let Some(position) = name.find(part.as_str()) else {
                return false;
            };
            name = &name[position + part.len()..];
        }
        // A helper that compresses cores appends a suffix.
        name.ends_with(last.as_str()) || name.contains(&format!("{last}."))
    }
}

/// Returns why no core of a process in this folder can be found, and what to do.
pub fn core_obstacle(destination: &CoreDestination, cwd: &Path) -> Option<String> {
    if super::limits::core_dumps(1).1 == 0 {
        return Some(
            "the hard limit for core files is 0; raise it with `ulimit -Hc unlimited`, `LimitCORE=infinity` or `docker run --ulimit core=-1`"
                .to_owned(),
        );
    }
    match destination {
        CoreDestination::Helper { command, leaves } => {
            let program = command.split(' ').next().unwrap_or_default();
            if !Path::new(program).exists() {
                return Some(format!(
                    "the kernel hands cores to `{program}`, which is not there; `sysctl kernel.core_pattern=core.%p` makes it write files"
                ));
            }
            leaves.is_none().then(|| {
                format!(
                    "the kernel hands cores to `{program}`, and where that leaves them is not known"
                )
            })
        }
        CoreDestination::File(template) => {
            let folder = cwd.join(template.folder.as_deref().unwrap_or(Path::new("")));
            let folder = folder.as_path();
            if !folder.is_dir() {
                return Some(format!(
                    "the kernel writes cores into `{0}`, which is not there; `mkdir -p {0}`",
                    folder.to_safe()
                ));
            }
            if let Some(reason) = template.overwrites_in(folder) {
                return Some(reason);
            }
            let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK);
            writable.is_err().then(|| {
                format!(
                    "cores go into `{}`, which cannot be written",
                    folder.to_safe()
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pattern: &str, uses_pid: bool) -> CorePathTemplate {
        match parse_pattern(pattern, uses_pid) {
            CoreDestination::File(template) => template,
            CoreDestination::Helper { .. } => panic!("not a file: {pattern}"),
        }
    }

    #[test]
    fn a_plain_core_name_has_a_pid_only_if_the_kernel_adds_it() {
        let plain = file("core", false);
        assert!(plain.fits_name("core") && !plain.fits_name("core.12") && !plain.has_pid);
        let numbered = file("core", true);
        assert!(numbered.fits_name("core.12") && !numbered.fits_name("core") && numbered.has_pid);
    }

    #[test]
    fn placeholders_of_a_core_pattern_match_any_text() {
        let template = file("/cores/%e.p%p.i%i.P%P", false);
        assert_eq!(template.folder.as_deref(), Some(Path::new("/cores/")));
        assert!(template.fits_name("boom.p12.i13.P12") && template.fits_name("a.b.p12.i13.P12"));
        assert!(!template.fits_name("boom.12") && template.has_pid);
        assert!(file("100%%.%p", false).fits_name("100%.7"));
        assert!(file("core%", false).fits_name("core"));
    }

    #[test]
    fn systemd_coredump_is_known_to_keep_cores() {
        let systemd = "|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h %d";
        let CoreDestination::Helper {
            leaves: Some(template),
            ..
        } = parse_pattern(systemd, false)
        else {
            panic!("systemd's keeps them");
        };
        assert!(template.fits_name("core.boom.1000.f5a0.4711.1763704800000000.zst"));
        let other = parse_pattern("|/usr/bin/drop %p", true);
        assert!(matches!(
            other,
            CoreDestination::Helper { leaves: None, .. }
        ));
    }

    #[test]
    fn obstacles_to_core_files_are_described() {
        let missing = core_obstacle(
            &parse_pattern("/no/such/place/core.%p", false),
            Path::new("/"),
        );
        assert!(missing.is_some_and(|why| why.contains("mkdir -p /no/such/place/")));
        let place = std::env::temp_dir().join(format!("provoke-core-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let plain = parse_pattern("core", false);
        assert_eq!(core_obstacle(&plain, &place), None);
        fs::write(place.join("core"), "somebody's").unwrap();
        let taken = core_obstacle(&plain, &place).unwrap();
        let template = plain.core_template().unwrap();
        assert_eq!(template.overwrites_in(&place), Some(taken.clone()));
        assert!(!template.is_rooted() && file("/cores/core", false).is_rooted());
        assert!(taken.contains("is there already"), "{taken}");
        assert_eq!(core_obstacle(&parse_pattern("core", true), &place), None);
        fs::remove_dir_all(&place).unwrap();
        let helper = core_obstacle(&parse_pattern("|/no/such/helper %p", false), Path::new("/"));
        assert!(helper.is_some_and(|why| why.contains("`/no/such/helper`, which is not there")));
    }
}
