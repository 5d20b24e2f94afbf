//! Decides whether the commands in a run's journal may be executed.
//!
//! A journal contains commands, hooks and variables. `replay`, `resume` and a baseline execute them, so a journal of
//! unknown origin is a program of unknown origin: it may come from a directory that other users can write to, from an
//! archive, or from a CI server. Reading a journal is harmless.

use super::journal::read_start;
use super::{RunFolder, StoreError};
use provoke_sys::{files, user};
use rustix::fs::{AtFlags, StatxFlags, statx};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Tolerance between the creation time of the file and the time of the first event, in seconds.
const TOLERANCE: u64 = 10;

/// Why a run is not trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistrustReason {
    /// Another user owns its directory or its journal.
    #[error("it belongs to {0}")]
    Owner(String),
    /// Another user owns a link that leads to its directory.
    #[error("a link of {0} leads to it")]
    Link(String),
    /// The owner cannot be determined.
    #[error("its owner is unknown")]
    Unknown,
    /// Others can write to its directory or its journal.
    #[error("other users can write to it")]
    Writable,
    /// It was copied, or unpacked from an archive.
    #[error("its journal is a copy from another place")]
    Copied,
}

impl RunFolder {
    /// Returns the owner of the directory, if it is another user.
    pub fn foreign_owner(&self) -> Option<String> {
        foreign_owner(&files::metadata_itself(self.path()).ok()?)
    }

    /// Returns the directory if its commands may be executed: it and its journal were written here, by this user or by
    /// root, and no other user can change them. `anyway` skips the check.
    pub fn check_trust(self, anyway: bool) -> Result<Self, StoreError> {
        let path = self.path().to_owned();
        let Ok(folder) = self.hold() else {
            let why = DistrustReason::Unknown;
            return Err(StoreError::Untrusted { path, why });
        };
        if anyway {
            return Ok(folder);
        }
        let journal = folder.journal_path();
        let link_distrust = folder.link_owner.clone().map(DistrustReason::Link);
        let distrust = link_distrust
            .or_else(|| owner_distrust(&path))
            .or_else(|| owner_distrust(&journal));
        let distrust = match distrust {
            None => copy_distrust(&journal)?,
            distrust => distrust,
        };
        match distrust {
            None => Ok(folder),
            Some(why) => Err(StoreError::Untrusted { path, why }),
        }
    }
}

/// Returns what is wrong with the owner or the mode of a file.
fn owner_distrust(path: &Path) -> Option<DistrustReason> {
    let Ok(metadata) = files::metadata_itself(path) else {
        return Some(DistrustReason::Unknown);
    };
    if let Some(owner) = foreign_owner(&metadata) {
        return Some(DistrustReason::Owner(owner));
    }
    // On systems where every user has a private group, this group is not another user.
    let own_group = metadata.gid() == rustix::process::getegid().as_raw();
    let write_bits = if own_group { 0o002 } else { 0o022 };
    (metadata.mode() & write_bits != 0).then_some(DistrustReason::Writable)
}

/// Returns the owner of a file who is neither this user nor root nor the user who called `sudo`.
pub(super) fn foreign_owner(metadata: &Metadata) -> Option<String> {
    let own_uid = rustix::process::geteuid().as_raw();
    let caller = if own_uid == 0 {
        std::env::var("SUDO_UID")
            .ok()
            .and_then(|uid| uid.parse().ok())
    } else {
        None
    };
    let uid = metadata.uid();
    (uid != own_uid && uid != 0 && Some(uid) != caller).then(|| {
        let name = user::of_number(uid).map(|user| user.name.to_string_lossy().into_owned());
        match name {
            Some(name) => format!("the user {name}"),
            None => format!("the user with ID {uid}"),
        }
    })
}

/// Recognizes a copy by the creation time of its file, which cannot be set. If the file system does not record it,
/// copies are not recognized.
fn copy_distrust(journal: &Path) -> Result<Option<DistrustReason>, StoreError> {
    let written = read_start(journal)?.at;
    let status = files::regular_itself(journal)
        .and_then(|file| Ok(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?));
    let Ok(status) = status else {
        return Ok(None);
    };
    let has_birth_time = status.stx_mask & StatxFlags::BTIME.bits() != 0;
    let apart = status.stx_btime.tv_sec.abs_diff(written);
    Ok((has_birth_time && apart > TOLERANCE).then_some(DistrustReason::Copied))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_run_without_a_readable_first_event_is_not_trusted() {
        for beginning in ["", "{\"run_started\":{", "garbage\n"] {
            let temporary = tempfile::tempdir().unwrap();
            let folder =
                RunFolder::create_run(Some(&temporary.path().join("run")), temporary.path())
                    .unwrap();
            fs::write(folder.journal_path(), beginning).unwrap();
            let refused = folder.check_trust(false).unwrap_err();
            let expected = matches!(
                refused,
                StoreError::NotAJournal(_) | StoreError::Damaged { .. }
            );
            assert!(expected, "{beginning:?}: {refused}");
        }
    }
}
