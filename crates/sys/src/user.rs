//! Finds users of this machine by name or number.

#![expect(unsafe_code, reason = "the C library knows where users are listed")]

use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString, OsString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt as _;
use std::ptr;

/// Bytes for the text of one entry, and limit of the groups of a user.
const ROOM: usize = 1 << 16;

/// An entry of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: OsString,
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Home directory.
    pub home: OsString,
}

/// Credentials of a process: ids of the user and its groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// User id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
    /// Ids of all groups.
    pub groups: Vec<u32>,
}

impl User {
    /// Returns the credentials of a process that runs as this user.
    pub fn process_identity(&self) -> Credentials {
        Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: group_ids(self),
        }
    }
}

/// Returns whether this process may change to any user.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Finds a user by name or id.
pub fn find_user(name: &str) -> Option<User> {
    let named = CString::new(name).ok().and_then(|name| {
        // SAFETY: the name ends with a NUL byte; `entry` passes valid pointers for the results.
        user_entry(|entry, room, result| unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry,
                room.as_mut_ptr().cast(),
                room.len(),
                result,
            )
        })
    });
    named.or_else(|| of_number(name.parse().ok()?))
}

/// Finds a user by id.
pub fn of_number(uid: u32) -> Option<User> {
    // SAFETY: `entry` passes valid pointers for the results.
    user_entry(|entry, room, result| unsafe {
        libc::getpwuid_r(uid, entry, room.as_mut_ptr().cast(), room.len(), result)
    })
}

/// Returns the groups of a user.
fn group_ids(user: &User) -> Vec<u32> {
    let Ok(name) = CString::new(user.name.clone().into_vec()) else {
        return vec![user.gid];
    };
    let mut groups = vec![0; ROOM];
    let mut count = libc::c_int::try_from(ROOM).expect("it is small");
    // SAFETY: the name ends with a NUL byte, and there is room for `count` groups.
    let status =
        unsafe { libc::getgrouplist(name.as_ptr(), user.gid, groups.as_mut_ptr(), &raw mut count) };
    match usize::try_from(count) {
        Ok(count) if status >= 0 => groups.truncate(count),
        _ => groups = vec![user.gid],
    }
    groups
}

fn user_entry(
    ask: impl FnOnce(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> libc::c_int,
) -> Option<User> {
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut room = vec![0; ROOM];
    let mut result = ptr::null_mut();
    let status = ask(entry.as_mut_ptr(), &mut room, &raw mut result);
    if status != 0 || result.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so `result` points to `entry`, which is filled in.
    let entry = unsafe { &*result };
    // SAFETY: the strings end with NUL bytes; they are in `room`, which is live.
    let text = |text: *const libc::c_char| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
    Some(User {
        name: OsString::from_vec(text(entry.pw_name)),
        uid: entry.pw_uid,
        gid: entry.pw_gid,
        home: OsString::from_vec(text(entry.pw_dir)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_by_number() {
        let root = find_user("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(of_number(0), Some(root.clone()));
        assert_eq!(find_user("0"), Some(root.clone()));
        assert!(group_ids(&root).contains(&0));
        assert_eq!(find_user("no such user"), None);
        assert_eq!(of_number(4_000_000_000), None);
    }
}
