//! Conditions of the home directory and of the directory for temporary files.

use super::simple::{LEVER, SEARCH, parse_choice};
use super::trial_folder::{FolderKind, TrialFolder};
use super::{Lever, LeverSearch};

const NAMESPACES: &str = "run provoke as root, or allow user namespaces; in Docker: --privileged";

pub(super) static HOME: Lever = Lever {
    name: "home",
    about: "the home directory: `unset`, `empty` or `read-only`; sets or removes HOME",
    parse: |typed| parse_choice(typed, &["unset", "empty", "read-only"]),
    apply: |value, start| {
        let kind = match value {
            "empty" => FolderKind::Empty,
            "read-only" => FolderKind::ReadOnly,
            _ => {
                start.variables.push(("HOME".to_owned(), None));
                return Ok(());
            }
        };
        let variable = "HOME".to_owned();
        start.folders.push(TrialFolder { variable, kind });
        Ok(())
    },
    way_out: NAMESPACES,
    instead_in_containers: Some("set the variable in the container: --env HOME=/nonexistent"),
    search: Some(LeverSearch {
        values: &["empty", "unset", "read-only"],
        cause: "home: it needs files or a place in the home directory",
        value_causes: &[("read-only", "home: it writes to the home directory")],
        cause_if_removed: Some("home: files in the home directory change its result"),
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static TMPDIR: Lever = Lever {
    name: "tmpdir",
    about: "a directory for temporary files that is `long`, with a `space`, `full`, `read-only` or `empty`: sets TMPDIR",
    parse: |typed| parse_choice(typed, &["long", "space", "full", "read-only", "empty"]),
    apply: |value, start| {
        let kind = match value {
            "long" => FolderKind::Long,
            "space" => FolderKind::Space,
            "full" => FolderKind::Full,
            "read-only" => FolderKind::ReadOnly,
            _ => FolderKind::Empty,
        };
        let variable = "TMPDIR".to_owned();
        start.folders.push(TrialFolder { variable, kind });
        Ok(())
    },
    way_out: NAMESPACES,
    instead_in_containers: Some("mount a directory in the container: --container mount=DIR:/tmp"),
    search: Some(LeverSearch {
        values: &["empty", "long", "space", "full"],
        cause: "temporary files: it needs earlier ones, or their usual path",
        value_causes: &[
            ("long", "temporary files: it fails with a long path"),
            (
                "space",
                "temporary files: it fails with a space in their path",
            ),
            ("full", "temporary files: it fails without room for them"),
            ("read-only", "temporary files: it needs to write them"),
        ],
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};
