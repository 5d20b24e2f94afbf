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
