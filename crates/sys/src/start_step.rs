//! Changes the conditions of a process before it executes its program: namespaces, mounts, CPUs and the like.
//!
//! Everything is prepared before the process exists, because the new process shares the memory of its parent and may only
//! make system calls. Namespaces and mounts end with their last process, so nothing has to be undone.

#![expect(unsafe_code, reason = "system calls between clone and exec")]

use super::user;
use rustix::process::{getgid, getuid};
use rustix::thread::sched_getaffinity;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

/// Flag of an interface that is up.
const IS_UP: libc::c_short = 1;

/// Bytes of the header of a request or an answer of netlink.
const HEADER: usize = 16;
/// Bytes of an answer of netlink that are read: its header and the number of an error.
const ANSWER: usize = HEADER + 4;

/// Bytes of the smallest file system: a page.
const SMALLEST: usize = 4096;

/// A step of a process before it executes its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartStep {
    /// Enter new namespaces in which nothing differs.
    EnterNamespaces,
    /// Enter a network without a connection to others.
    EnterNetwork(OwnNetwork),
    /// Change the name of the host.
    SetHostname(String),
    /// Mount a directory on itself, so that it stays writable below a read-only one.
    KeepWritable(PathBuf),
    /// Make a directory read-only.
    MakeReadOnly(PathBuf),
    /// Make the working directory read-only, except for mounts below it.
    MakeCwdReadOnly,
    /// Mount a file system with a single page on a directory.
    MountFull(PathBuf),
    /// Set the mask of the modes of new files.
    SetUmask(u32),
    /// Turn off the randomization of addresses.
    FixAddresses,
    /// Run on this number of the CPUs.
    LimitCpus(usize),
    /// Add to the niceness.
    AddNiceness(i32),
    /// Take the terminal of stdout as the controlling terminal.
    TakeTerminal,
    /// Close stdin.
    CloseStdin,
}

/// The interfaces of a separate network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnNetwork {
    /// No interface is up.
    Down,
    /// Only the loopback interface is up.
    Loopback,
    /// Only the loopback interface is up, without IPv6.
    LoopbackWithoutIpv6,
    /// Only the loopback interface is up, and each packet takes long.
    SlowLoopback,
}

impl StartStep {
    /// Returns the namespaces that it needs.
    fn namespaces(&self) -> libc::c_int {
        match self {
            Self::EnterNetwork(_) => libc::CLONE_NEWNET,
            Self::SetHostname(_) => libc::CLONE_NEWUTS,
            Self::EnterNamespaces
            | Self::KeepWritable(_)
            | Self::MakeReadOnly(_)
            | Self::MakeCwdReadOnly
            | Self::MountFull(_) => libc::CLONE_NEWNS,
            _ => 0,
        }
    }

    /// Adds its system calls to a list.
    fn prepare(&self, job: usize, calls: &mut Vec<StartCall>) -> io::Result<()> {
        let call = match self {
            Self::EnterNamespaces => return Ok(()),
            Self::EnterNetwork(network) => {
                if *network == OwnNetwork::LoopbackWithoutIpv6 {
                    calls.extend(["all", "default"].map(StartCall::disable_ipv6));
                }
                if *network == OwnNetwork::SlowLoopback {
                    calls.push(StartCall::AskNetwork(delay_loopback()));
                }
                match network {
                    OwnNetwork::Down => return Ok(()),
                    _ => StartCall::RaiseLoopback,
                }
            }
            Self::SetHostname(name) => StartCall::SetHostname(CString::new(name.as_str())?),
            Self::KeepWritable(path) => StartCall::Bind(path_text(path)?),
            Self::MakeReadOnly(path) => {
                let path = path_text(path)?;
                calls.push(StartCall::Bind(path.clone()));
                StartCall::ForbidWriting(path)
            }
            Self::MakeCwdReadOnly => StartCall::MakeCwdReadOnly,
            Self::MountFull(path) => {
                let options = CString::new(format!("size={SMALLEST},mode=1777"))?;
                calls.push(StartCall::MountMemory(path_text(path)?, options));
                // Files can be created, but not written, as on a full disk.
                let file = path_text(&path.join(".full"))?;
                StartCall::WriteFile(file, vec![0; SMALLEST], "cannot fill a file system")
            }
            Self::SetUmask(mask) => StartCall::SetUmask(*mask),
            Self::FixAddresses => StartCall::FixAddresses,
            Self::LimitCpus(count) => StartCall::SetCpus(Box::new(choose_cpus(*count, job)?)),
            Self::AddNiceness(added) => StartCall::AddNiceness(*added),
            Self::TakeTerminal => StartCall::TakeTerminal,
            Self::CloseStdin => StartCall::CloseStdin,
        };
        calls.push(call);
        Ok(())
    }
}

fn path_text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Chooses this number of CPUs on which this process may run. Each job begins with another one.
fn choose_cpus(count: usize, job: usize) -> io::Result<libc::cpu_set_t> {
    let allowed = sched_getaffinity(None)?;
    let cpus: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect();
    // SAFETY: an all-zero set of CPUs is empty.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for cpu in cpus
        .iter()
        .cycle()
        .skip(job.saturating_mul(count) % cpus.len().max(1))
        .take(count.min(cpus.len()))
    {
        // SAFETY: the number is below that of the bits in a set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    Ok(set)
}

/// A prepared system call, or a few that belong together.
enum StartCall {
    WriteFile(CString, Vec<u8>, &'static str),
    RaiseLoopback,
    /// Sends a request to the network of the process.
    AskNetwork(Vec<u8>),
    SetHostname(CString),
    Bind(CString),
    ForbidWriting(CString),
    MakeCwdReadOnly,
    MountMemory(CString, CString),
    SetUmask(libc::mode_t),
    FixAddresses,
    SetCpus(Box<libc::cpu_set_t>),
    AddNiceness(i32),
    TakeTerminal,
    CloseStdin,
}

impl StartCall {
    fn disable_ipv6(interface: &str) -> Self {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
        let path = CString::new(path).expect("it has no NUL byte");
        Self::WriteFile(path, b"1".to_vec(), "cannot turn off IPv6")
    }

    /// Returns what has failed, if it has.
    fn failure(&self) -> &'static str {
        match self {
            Self::WriteFile(.., failure) => failure,
            Self::RaiseLoopback => "cannot enable the loopback interface",
            Self::AskNetwork(_) => "cannot delay the packets of the loopback interface",
            Self::SetHostname(_) => "cannot set the hostname",
            Self::Bind(_) => "cannot mount a directory on itself",
            Self::ForbidWriting(_) | Self::MakeCwdReadOnly => "cannot make a directory read-only",
            Self::MountMemory(..) => "cannot mount a small file system",
            Self::SetUmask(_) => "cannot set the umask",
            Self::FixAddresses => "cannot turn off the randomization of addresses",
            Self::SetCpus(_) => "cannot choose the CPUs",
            Self::AddNiceness(_) => "cannot change the niceness",
            Self::TakeTerminal => "cannot take a controlling terminal",
            Self::CloseStdin => "cannot close stdin",
        }
    }

    /// Makes the calls. Returns whether they succeeded; if not, `errno` is set.
    ///
    /// # Safety
    ///
    /// Only a new process that is about to execute its program may call this.
    unsafe fn run(&self, cwd: &CStr) -> bool {
        // SAFETY: plain system calls on values that the parent prepared.
        unsafe {
            match self {
                Self::WriteFile(path, text, _) => write_file(path, text),
                Self::RaiseLoopback => raise_loopback(),
                Self::AskNetwork(request) => ask_network(request),
                Self::SetHostname(name) => {
                    libc::sethostname(name.as_ptr(), name.count_bytes() as _) == 0
                }
                Self::Bind(path) => bind(path),
                Self::ForbidWriting(path) => forbid_writing(path),
                Self::MakeCwdReadOnly => bind(cwd) && forbid_writing(cwd),
                Self::MountMemory(path, options) => {
                    let kind = c"tmpfs".as_ptr();
                    let flags = libc::MS_NOSUID | libc::MS_NODEV;
                    let options = options.as_ptr().cast();
                    libc::mount(kind, path.as_ptr(), kind, flags, options) == 0
                }
                Self::SetUmask(mask) => {
                    libc::umask(*mask);
                    true
                }
                Self::FixAddresses => {
                    let present = libc::personality(0xffff_ffff);
                    let fixed = (present | libc::ADDR_NO_RANDOMIZE).cast_unsigned();
                    present >= 0 && libc::personality(fixed.into()) >= 0
                }
                Self::SetCpus(set) => {
                    libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const **set) == 0
                }
                Self::AddNiceness(added) => {
                    *libc::__errno_location() = 0;
                    libc::nice(*added);
                    *libc::__errno_location() == 0
                }
                Self::TakeTerminal => libc::ioctl(1, libc::TIOCSCTTY, 0) == 0,
                Self::CloseStdin => libc::close(0) == 0,
            }
        }
    }
}

/// The steps of a process, as system calls.
pub struct PreparedSteps {
    namespaces: libc::c_int,
    calls: Vec<StartCall>,
}

impl PreparedSteps {
    /// Prepares steps for a process that this process will start. Jobs run on different CPUs if they run on few.
    ///
    /// A user other than root needs a namespace of users for any other namespace. Its capabilities end with the `exec`,
    /// because the user keeps its id.
    pub fn new(steps: &[StartStep], job: usize) -> io::Result<Self> {
        let needed = steps.iter().map(StartStep::namespaces);
        let mut namespaces = needed.fold(0, |all, flag| all | flag);
        let mut calls = Vec::new();
        if namespaces != 0 && !user::is_root() {
            namespaces |= libc::CLONE_NEWUSER;
            let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
            for (file, text) in [
                (c"/proc/self/setgroups", "deny".to_owned()),
                (c"/proc/self/uid_map", format!("{uid} {uid} 1")),
                (c"/proc/self/gid_map", format!("{gid} {gid} 1")),
            ] {
                let failure = "cannot keep the user in a new namespace";
                calls.push(StartCall::WriteFile(file.into(), text.into(), failure));
            }
        }
        for step in steps {
            step.prepare(job, &mut calls)?;
        }
        Ok(Self { namespaces, calls })
    }

    /// Makes all calls. The error says which failed, and `errno` why.
    ///
    /// # Safety
    ///
    /// Only a new process that is about to execute its program may call this.
    pub(super) unsafe fn run(&self, cwd: &CStr) -> Result<(), &'static str> {
        // SAFETY: plain system calls on values that the parent prepared.
        unsafe {
            if self.namespaces != 0 && libc::unshare(self.namespaces) != 0 {
                return Err("cannot create a namespace");
            }
            let (none, flags) = (ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            if self.namespaces & libc::CLONE_NEWNS != 0
                && libc::mount(none, c"/".as_ptr(), none, flags, none.cast()) != 0
            {
                return Err("cannot separate the mounts");
            }
            for call in &self.calls {
                if !call.run(cwd) {
                    return Err(call.failure());
                }
            }
        }
        Ok(())
    }
}

unsafe fn write_file(path: &CStr, text: &[u8]) -> bool {
    // SAFETY: plain system calls on a valid path and text.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
        let file = libc::open(path.as_ptr(), flags, 0o600);
        if file < 0 {
            return false;
        }
        let is_written = libc::write(file, text.as_ptr().cast(), text.len()) >= 0;
        let errno = *libc::__errno_location();
        libc::close(file);
        *libc::__errno_location() = errno;
        is_written
    }
}

unsafe fn raise_loopback() -> bool {
    // SAFETY: plain system calls; an all-zero request is valid.
    unsafe {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_INET, kind, 0);
        if socket < 0 {
            return false;
        }
        let mut request: libc::ifreq = mem::zeroed();
        for (target, source) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
            *target = source.cast_signed() as _;
        }
        let is_up = libc::ioctl(socket, libc::SIOCGIFFLAGS as _, &raw mut request) == 0 && {
            request.ifr_ifru.ifru_flags |= IS_UP;
            libc::ioctl(socket, libc::SIOCSIFFLAGS as _, &raw const request) == 0
        };
        let errno = *libc::__errno_location();
        libc::close(socket);
        *libc::__errno_location() = errno;
        is_up
    }
}

/// Sends a request to the kernel by netlink, and reads the answer.
unsafe fn ask_network(request: &[u8]) -> bool {
    let mut answer = [0_u8; ANSWER];
    // SAFETY: plain system calls on a valid request, and on a buffer of this function.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let socket = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE);
        if socket < 0 {
            return false;
        }
        let is_sent = libc::send(socket, request.as_ptr().cast(), request.len(), 0) >= 0;
        let is_answered = is_sent && libc::recv(socket, answer.as_mut_ptr().cast(), ANSWER, 0) >= 0;
        let mut errno = *libc::__errno_location();
        if is_answered {
            // The header of the answer, then the negative number of the error.
            let [.., a, b, c, d] = answer;
            errno = i32::from_ne_bytes([a, b, c, d]).saturating_neg();
        }
        libc::close(socket);
        *libc::__errno_location() = errno;
        is_answered && errno == 0
    }
}

/// Returns the request to delay each packet of the first interface, which is loopback, as `tc qdisc add dev lo root netem
/// delay 100ms` sends it.
fn delay_loopback() -> Vec<u8> {
    const KIND: u16 = 1;
    const OPTIONS: u16 = 2;
    const ROOT: u32 = u32::MAX;
    /// 100 ms in units of 64 ns.
    const LATENCY: u32 = 1_562_500;
    /// Maximum number of packets that wait.
    const PACKETS: u32 = 1000;
    let attribute = |kind: u16, value: &[u8]| {
        let length = u16::try_from(4 + value.len()).unwrap_or(0);
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    // Without loss, gaps, duplicates and jitter.
    let options = [LATENCY, PACKETS, 0, 0, 0, 0]
        .map(u32::to_ne_bytes)
        .concat();
    // Any family; interface 1; no handle; the root; no information.
    let target = [0, 1, 0, ROOT, 0].map(u32::to_ne_bytes).concat();
    let attributes = [attribute(KIND, b"netem\0"), attribute(OPTIONS, &options)].concat();
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_EXCL | libc::NLM_F_CREATE;
    let length = HEADER + target.len() + attributes.len();
    let mut request = u32::try_from(length).unwrap_or(0).to_ne_bytes().to_vec();
    request.extend(libc::RTM_NEWQDISC.to_ne_bytes());
    request.extend(u16::try_from(flags).unwrap_or(0).to_ne_bytes());
    // Neither a sequence number nor a port.
    request.extend([0; 8]);
    [request, target, attributes].concat()
}

/// Mounts a directory on itself, with the mounts below it.
unsafe fn bind(path: &CStr) -> bool {
    let (path, none) = (path.as_ptr(), ptr::null());
    let flags = libc::MS_BIND | libc::MS_REC;
    // SAFETY: a plain system call on a valid path.
    unsafe { libc::mount(path, path, none, flags, none.cast()) == 0 }
}

/// Makes a mount read-only without changing its other flags, which a user must not change.
unsafe fn forbid_writing(path: &CStr) -> bool {
    let attributes = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
    // SAFETY: a plain system call; the array has the layout of `mount_attr`.
    unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            0,
            attributes.as_ptr(),
            size_of_val(&attributes),
        ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_to_delay_packets_is_that_of_tc() {
        // Recorded with strace; tc also sends a sequence number.
        let header = [76, 0, 0, 0, 0x24, 0, 0x05, 0x06, 0, 0, 0, 0, 0, 0, 0, 0];
        let target = [
            0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0,
        ];
        let kind = b"\x0a\0\x01\0netem\0\0\0";
        let options = b"\x1c\0\x02\0\x84\xd7\x17\0\xe8\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let recorded = [&header[..], &target, kind, options].concat();
        assert_eq!(delay_loopback(), recorded);
    }
}
