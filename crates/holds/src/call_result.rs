//! Describes a system call of a program: its file, and the class of its result.

use provoke_model::PathPlace;
use provoke_sys::call_filter::recorded_call_name;
use provoke_sys::calls::error_name;
use provoke_sys::tracee::{self, CallEntry};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Number of digits from which on a number in the name of a file is an id, which differs between trials.
const ID_DIGITS: usize = 3;
/// Limit of the length of a path.
const MAX_PATH: u64 = 4096;
/// Results of the kernel for a call that a signal interrupted, and that is made again or fails with `EINTR`.
const INTERRUPTED: [i64; 4] = [512, 513, 514, 516];
/// Largest number of an error.
const MAX_ERROR: i64 = 4095;

/// A system call that a thread has begun.
#[derive(Clone, Debug)]
pub(crate) struct PendingCall {
    name: &'static str,
    kind: CallKind,
    /// Base name of the file.
    file: Option<String>,
}

/// Meaning of the result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallKind {
    /// It is a number of bytes, with its maximum if that is known.
    Read(Option<u64>),
    /// It is a number of bytes, with its maximum.
    Write(u64),
    /// It is a number of events, or 0 if the time is over.
    Wait,
    /// It is 0, or an error.
    Other,
}

impl PendingCall {
    /// Describes the call that a stopped thread is about to make, unless it is not recorded.
    pub(crate) fn of_thread(tid: i32) -> Option<Self> {
        let call = CallEntry::of_thread(tid)?;
        let name = recorded_call_name(call.number)?;
        let descriptor = call.arguments[0];
        let is_output = matches!(name, "write" | "writev") && matches!(descriptor, 1 | 2);
        let file = file_of_call(tid, name, &call.arguments);
        // The C library asks for the state of an open file in this way.
        let asks_for_open_file = name == "newfstatat" && file.is_none();
        if is_output || asks_for_open_file {
            return None;
        }
        let kind = kind_of_call(name, call.arguments[2]);
        Some(Self { name, kind, file })
    }

    /// Returns the place of the call in a path, with its result.
    pub(crate) fn end(self, result: u64) -> PathPlace {
        let class = self.kind.class_of(result.cast_signed());
        PathPlace::Call(self.name.to_owned(), class, self.file)
    }
}

impl CallKind {
    fn class_of(self, result: i64) -> String {
        let error = result.wrapping_neg();
        if INTERRUPTED.contains(&error) {
            return "EINTR".to_owned();
        }
        if (1..=MAX_ERROR).contains(&error) {
            return error_name(error);
        }
        let result = result.unsigned_abs();
        let class = match self {
            Self::Read(wanted) if result == 0 && wanted != Some(0) => "eof",
            Self::Read(Some(wanted)) | Self::Write(wanted) if result < wanted => "short",
            Self::Wait if result == 0 => "timeout",
            _ => "ok",
        };
        class.to_owned()
    }
}

fn kind_of_call(name: &str, third_argument: u64) -> CallKind {
    match name {
        "read" | "pread64" | "recvfrom" => CallKind::Read(Some(third_argument)),
        "readv" | "preadv" | "preadv2" | "recvmsg" => CallKind::Read(None),
        "write" | "pwrite64" | "sendto" => CallKind::Write(third_argument),
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" => CallKind::Wait,
        _ => CallKind::Other,
    }
}

/// Returns the base name of the file of a call, without numbers that differ between trials.
fn file_of_call(tid: i32, name: &str, arguments: &[u64; 6]) -> Option<String> {
    let path = match name {
        "open" | "creat" | "truncate" | "rename" | "link" | "unlink" | "mkdir" | "rmdir"
        | "access" => read_path(tid, arguments[0])?,
        "openat" | "openat2" | "mkdirat" | "unlinkat" | "renameat" | "renameat2" | "linkat"
        | "symlink" | "faccessat" | "faccessat2" | "newfstatat" => read_path(tid, arguments[1])?,
        "symlinkat" => read_path(tid, arguments[2])?,
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait" => return None,
        _ => {
            let file = fs::read_link(format!("/proc/{tid}/fd/{}", arguments[0])).ok()?;
            file.into_os_string().into_encoded_bytes()
        }
    };
    let name = Path::new(OsStr::from_bytes(&path)).file_name()?;
    Some(stable_name(&name.to_string_lossy()))
}

/// Reads the path at an address in the memory of a stopped thread.
fn read_path(tid: i32, address: u64) -> Option<Vec<u8>> {
    let mut path = Vec::new();
    for position in (address..address + MAX_PATH).step_by(8) {
        let word = tracee::read_word(tid, position).ok()?.to_ne_bytes();
        let end = word.iter().position(|byte| *byte == 0);
        path.extend_from_slice(&word[..end.unwrap_or(word.len())]);
        if end.is_some() {
            return Some(path);
        }
    }
    None
}

/// Returns a name with `N` in place of ids: `socket` for `socket:[4711]`, `job.N` for `job.4711`.
fn stable_name(name: &str) -> String {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let name = match name.split_once(":[") {
        Some(("anon_inode", kind)) => kind.trim_end_matches(']'),
        Some((kind, _)) => kind,
        None => name,
    };
    let mut stable = String::new();
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    for part in name.as_bytes().chunk_by(|a, b| is_digit(a) == is_digit(b)) {
        if part.len() >= ID_DIGITS && part.iter().all(is_digit) {
            stable.push('N');
        } else {
            stable.push_str(&String::from_utf8_lossy(part));
        }
    }
    stable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_classes() {
        let class = |name, wanted, result: i64| kind_of_call(name, wanted).class_of(result);
        assert_eq!(class("read", 100, 0), "eof");
        assert_eq!(class("read", 0, 0), "ok");
        assert_eq!(class("read", 100, 60), "short");
        assert_eq!(class("read", 100, 100), "ok");
        assert_eq!(class("readv", 3, 60), "ok");
        assert_eq!(class("write", 100, 60), "short");
        assert_eq!(class("poll", 0, 0), "timeout");
        assert_eq!(class("poll", 0, 1), "ok");
        assert_eq!(class("openat", 0, -2), "ENOENT");
        assert_eq!(class("read", 100, -512), "EINTR");
        assert_eq!(class("read", 100, -4000), "error 4000");
    }

    #[test]
    fn names_of_files_are_without_ids() {
        assert_eq!(stable_name("socket:[4711]"), "socket");
        assert_eq!(stable_name("anon_inode:[eventpoll]"), "eventpoll");
        assert_eq!(stable_name("job.4711-12.log (deleted)"), "job.N-12.log");
        assert_eq!(stable_name("größe1234"), "größeN");
    }
}
