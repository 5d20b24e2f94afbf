//! Checks that the program opens, changes and lists files in one way: through `provoke_sys::files`, which follows no link
//! that another user may have put into the directory of a run.

use crate::layers::{all_sources, code_of_file};
use regex::Regex;

/// Code that may use other ways, and why. None of it opens files of a run.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/holds/", "programs and libraries"),
    (
        "crates/load/src/body.rs",
        "request bodies that the user names",
    ),
    (
        "crates/load/src/request/kind.rs",
        "request files that the user names",
    ),
    (
        "crates/packages/",
        "projects and package indices of the user",
    ),
    (
        "crates/prepare/",
        "the project that is copied, and repositories of git",
    ),
    (
        "crates/journal/src/folder.rs",
        "the list of runs, in a directory that the user names",
    ),
    (
        "crates/journal/src/written_reports.rs",
        "the owner of that directory",
    ),
    (
        "crates/local/src/core_search.rs",
        "the list of a working directory, in which a core may be",
    ),
    (
        "crates/levers/src/clock_shift.rs",
        "time zones of the machine",
    ),
    ("crates/plan/", "scenario files, and files that they name"),
    (
        "crates/runners/src/file_pattern.rs",
        "reports that the user named",
    ),
    ("crates/survey/", "the environment of a program"),
    (
        "crates/autopsy/src/library_search.rs",
        "the configuration of the loader",
    ),
    ("crates/sys/src/cgroup/cpu_group.rs", "cgroups"),
    ("crates/sys/src/cgroup/delegated_group.rs", "cgroups"),
    ("crates/sys/src/cgroup/event_counter.rs", "cgroups"),
    ("crates/sys/src/cgroup/hierarchy.rs", "cgroups"),
    ("crates/sys/src/cgroup/joining.rs", "cgroups"),
    ("crates/sys/src/cgroup/limits.rs", "cgroups"),
    ("crates/sys/src/cgroup/locked_folder.rs", "cgroups"),
    ("crates/sys/src/cgroup/removal.rs", "cgroups"),
    ("crates/sys/src/cgroup/slot_group.rs", "cgroups"),
    ("crates/sys/src/files.rs", "the one way itself"),
    (
        "crates/sys/src/held_folder.rs",
        "the place at which a directory was opened",
    ),
    ("crates/sys/src/host.rs", "files of the kernel"),
    ("crates/sys/src/process.rs", "files of the kernel"),
    ("crates/sys/src/sockets.rs", "files of the kernel"),
    ("crates/sys/src/stat.rs", "files of the kernel"),
    ("crates/sys/src/tracee.rs", "the memory of a process"),
    ("crates/test-needs/", "tests"),
    ("crates/victim/", "the program that misbehaves in tests"),
    ("crates/hosts/src/builds.rs", "a file of the kernel"),
    (
        "src/doctor/",
        "settings of the machine, and a core in a private temporary folder",
    ),
    (
        "src/experiment/exports.rs",
        "reports to files that the user names",
    ),
    (
        "src/experiment/missing_file.rs",
        "names beside a file that the user names",
    ),
    ("src/experiment/preflight.rs", "the program"),
    (
        "src/experiment/results.rs",
        "files of the project that the user lets provoke remove",
    ),
    ("src/experiment/search/", "files that the user names"),
    (
        "src/experiment/trial_command.rs",
        "the input that the user names",
    ),
    (
        "src/term/man_pages.rs",
        "pages of the manual, in a directory that the user names",
    ),
    ("src/term/written_reports.rs", "the size of a report"),
];

#[test]
fn files_of_runs_are_opened_in_one_way() {
    let other_way = Regex::new(
        r"\bFile::(open|create|create_new|options)\b|\bOpenOptions\b|\bDirBuilder\b|\b(symlink|chown)\(|\bfs::(read|read_to_string|read_dir|read_link|write|copy|rename|hard_link|metadata|symlink_metadata|set_permissions|create_dir|create_dir_all|remove_file|remove_dir|remove_dir_all)\b",
    )
    .unwrap();
    let mut unused: Vec<&str> = EXCEPTIONS.iter().map(|(path, _)| *path).collect();
    let mut found = Vec::new();
    for path in all_sources() {
        let (file, code) = (path.to_str().unwrap(), code_of_file(&path));
        if path.ends_with("tests.rs") {
            continue;
        }
        let lines = code.lines().filter(|line| {
            // The kernel's files have no other names.
            other_way.is_match(line) && !line.contains("\"/proc/") && !line.contains("\"/sys/")
        });
        let lines: Vec<String> = lines
            .map(|line| format!("{file}: {}", line.trim()))
            .collect();
        match EXCEPTIONS.iter().find(|(path, _)| file.starts_with(path)) {
            Some((path, _)) if !lines.is_empty() => unused.retain(|unused| unused != path),
            Some(_) => {}
            None => found.extend(lines),
        }
    }
    assert!(found.is_empty(), "use `provoke_sys::files`: {found:#?}");
    assert!(
        unused.is_empty(),
        "these exceptions are not needed: {unused:?}"
    );
}
