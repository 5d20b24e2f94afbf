//! Remembers which report files provoke wrote, so that they do not count as files of the program.

use super::trust::foreign_owner;
use provoke_sys::files;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Name of the list below the root directory of runs: the absolute paths, each followed by a zero byte.
const LIST: &str = "reports";
/// Limit of bytes of the list that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Adds a file to the list, if there is a directory of runs and it is not another user's. Errors are ignored: the file is then taken for one of the program.
pub fn remember_report(file: &Path, root: &Path) {
    let Ok(file) = file.canonicalize() else {
        return;
    };
    let is_foreign = fs::symlink_metadata(root).is_ok_and(|root| foreign_owner(&root).is_some());
    if is_foreign || written_reports(root).contains(&file) {
        return;
    }
    if let Ok(mut list) = files::append_to_itself(&root.join(LIST)) {
        let _ = list.write_all(&[file.as_os_str().as_bytes(), b"\0"].concat());
    }
}

/// Returns the files in the list.
pub fn written_reports(root: &Path) -> Vec<PathBuf> {
    let list = files::read_itself(&root.join(LIST), MAX_BYTES).unwrap_or_default();
    let paths = list.split(|byte| *byte == 0);
    paths
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect()
}
