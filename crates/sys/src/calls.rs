//! Names of the system calls in which a program waits.

use libc as c;

/// Pairs of number and name of system calls that wait, or that a program repeats while it waits.
/// Other system calls are shown by their number.
macro_rules! calls {
    ($($name:ident),* $(,)?) => { [$((c::$name, stringify!($name))),*] };
}

/// System calls of every architecture.
const COMMON: [(libc::c_long, &str); 63] = calls![
    SYS_accept,
    SYS_accept4,
    SYS_clock_nanosleep,
    SYS_close,
    SYS_connect,
    SYS_copy_file_range,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_exit,
    SYS_exit_group,
    SYS_fallocate,
    SYS_fcntl,
    SYS_fdatasync,
    SYS_flock,
    SYS_fsync,
    SYS_futex,
    SYS_getdents64,
    SYS_getrandom,
    SYS_io_getevents,
    SYS_io_uring_enter,
    SYS_ioctl,
    SYS_madvise,
    SYS_mmap,
    SYS_mq_timedreceive,
    SYS_mq_timedsend,
    SYS_msgrcv,
    SYS_msgsnd,
    SYS_msync,
    SYS_munmap,
    SYS_nanosleep,
    SYS_openat,
    SYS_ppoll,
    SYS_pread64,
    SYS_preadv,
    SYS_pselect6,
    SYS_ptrace,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_read,
    SYS_readv,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_restart_syscall,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_sched_yield,
    SYS_semop,
    SYS_semtimedop,
    SYS_sendfile,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_splice,
    SYS_sync,
    SYS_syncfs,
    SYS_tee,
    SYS_unlinkat,
    SYS_vmsplice,
    SYS_wait4,
    SYS_waitid,
    SYS_write,
    SYS_writev,
];

/// System calls that newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER: [(libc::c_long, &str); 8] = calls![
    SYS_epoll_wait,
    SYS_fork,
    SYS_open,
    SYS_pause,
    SYS_poll,
    SYS_select,
    SYS_unlink,
    SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: [(libc::c_long, &str); 0] = [];

/// Numbers and names of errors.
const ERRORS: [(i64, &str); 78] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLK"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (71, "EPROTO"),
    (75, "EOVERFLOW"),
    (84, "EILSEQ"),
    (88, "ENOTSOCK"),
    (89, "EDESTADDRREQ"),
    (90, "EMSGSIZE"),
    (91, "EPROTOTYPE"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (94, "ESOCKTNOSUPPORT"),
    (95, "ENOTSUP"),
    (96, "EPFNOSUPPORT"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (102, "ENETRESET"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (106, "EISCONN"),
    (107, "ENOTCONN"),
    (108, "ESHUTDOWN"),
    (109, "ETOOMANYREFS"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (122, "EDQUOT"),
    (125, "ECANCELED"),
    (130, "EOWNERDEAD"),
    (131, "ENOTRECOVERABLE"),
];

/// Returns the name of an error: `ENOENT`, or `error 999` if it has none.
pub fn error_name(error: i64) -> String {
    let mut names = ERRORS.iter();
    let name = names.find_map(|(number, name)| (*number == error).then_some(*name));
    name.map_or_else(|| format!("error {error}"), str::to_owned)
}

/// Returns the name of a system call, `futex` or `syscall 450`.
pub fn syscall_name(number: i64) -> String {
    let mut table = COMMON.iter().chain(&OLDER);
    let entry = table.find(|(call_number, _)| *call_number == number);
    entry.map_or_else(
        || format!("syscall {number}"),
        |(_, name)| name.trim_start_matches("SYS_").to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_is_not_in_the_table_keeps_its_number() {
        assert_eq!(syscall_name(libc::SYS_futex), "futex");
        assert_eq!(syscall_name(libc::SYS_wait4), "wait4");
        assert_eq!(syscall_name(9999), "syscall 9999");
    }
}
