//! Finds the process that listens at an address, from `/proc`.

use super::process::{self, visible_pids};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// State of a listening TCP socket.
const LISTENS: &str = "0A";
/// Flag of a listening Unix socket (`SO_ACCEPTCON`).
const ACCEPTS: u64 = 0x1_0000;

/// Returns the inodes of the sockets that accept connections to an address.
pub fn listening_sockets(address: SocketAddr) -> BTreeSet<u64> {
    let mut inodes = BTreeSet::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let Ok(table) = fs::read_to_string(file) else {
            continue; // this file does not exist without IPv6
        };
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, _, LISTENS, _, _, _, _, _, inode, ..] = cells[..] else {
                continue;
            };
            let Some((ip, port)) = parse_address(local) else {
                continue;
            };
            let answers = match (ip, address.ip().to_canonical()) {
                // The socket accepts IPv4, too, unless it was restricted, which is rare.
                (IpAddr::V6(ip), _) if ip.is_unspecified() => true,
                (IpAddr::V4(ip), IpAddr::V4(_)) if ip.is_unspecified() => true,
                // Connecting to the unspecified address connects to this machine.
                (ip, listen_ip) => ip.to_canonical() == listen_ip || listen_ip.is_unspecified(),
            };
            if port == address.port() && answers {
                inodes.extend(inode.parse::<u64>());
            }
        }
    }
    inodes
}

/// Returns the inodes of the sockets that accept connections to a path.
pub fn listeners_at_path(path: &Path) -> BTreeSet<u64> {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let path = path.to_string_lossy();
    let lines = table.lines().skip(1);
    let inodes = lines.filter_map(|line| {
        let mut cells = line.split_ascii_whitespace();
        let flags = u64::from_str_radix(cells.nth(3)?, 16).ok()?;
        let inode = cells.nth(2)?.parse().ok()?;
        // Take the rest of the line, because a path may contain spaces.
        let name = line.split_once(&format!(" {inode} "))?.1;
        (flags & ACCEPTS != 0 && name == path).then_some(inode)
    });
    inodes.collect()
}

/// Parses an address of `/proc/net/tcp`, which consists of words in native byte order.
fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip_text, port_text) = text.split_once(':')?;
    let port = u16::from_str_radix(port_text, 16).ok()?;
    let word = |index: usize| u32::from_str_radix(ip_text.get(index..index + 8)?, 16).ok();
    let ip = match ip_text.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index * 8)?.to_ne_bytes());
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some((ip, port))
}

/// Returns the processes that hold one of these sockets, as far as permissions allow.
pub fn holder_pids(sockets: &BTreeSet<u64>) -> Vec<i32> {
    let pids = visible_pids();
    pids.filter(|pid| holds_socket(*pid, sockets)).collect()
}

/// Returns whether a process holds one of these sockets.
pub fn holds_socket(pid: i32, sockets: &BTreeSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut descriptors = entries.flatten();
    descriptors.any(|entry| {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let inode = target.to_str().and_then(|text| {
            let text = text.strip_prefix("socket:[")?;
            text.strip_suffix(']')?.parse().ok()
        });
        inode.is_some_and(|inode: u64| sockets.contains(&inode))
    })
}

/// Returns whether a process is one of `first` or a descendant. An orphan is recognized by its
/// session.
pub fn belongs_to(pid: i32, first: &[i32]) -> bool {
    let sessions: Vec<i32> = first
        .iter()
        .filter_map(|pid| process::process_detail(*pid))
        .filter(|detail| detail.session == detail.identity.pid)
        .map(|detail| detail.session)
        .collect();
    let mut ancestor = pid;
    // Limit the chain of parents, which may contain a cycle if processes change during the scan.
    for _ in 0..100 {
        if first.contains(&ancestor) {
            return true;
        }
        let Some(detail) = process::process_detail(ancestor) else {
            return false;
        };
        if sessions.contains(&detail.session) {
            return true;
        }
        ancestor = detail.ppid;
        if ancestor <= 1 {
            break;
        }
    }
    false
}

/// Returns the number of connections on this machine that were rejected since boot because the
/// queue of a listener was full.
pub fn listen_overflows() -> Option<u64> {
    let table = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = table.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let mut names = names.split_ascii_whitespace();
        if let Some(column) = names.position(|name| name == "ListenOverflows") {
            return values.split_ascii_whitespace().nth(column)?.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_tcp_listener_is_found_with_its_process() {
        let me = i32::try_from(std::process::id()).unwrap();
        for host in ["127.0.0.1:0", "[::]:0", "0.0.0.0:0"] {
            let Ok(listener) = TcpListener::bind(host) else {
                continue; // the machine lacks IPv6
            };
            let port = listener.local_addr().unwrap().port();
            let found = listening_sockets(SocketAddr::from(([127, 0, 0, 1], port)));
            assert_eq!(found.len(), 1, "{host}");
            assert!(holds_socket(me, &found) && holder_pids(&found).contains(&me));
            assert!(belongs_to(me, &[me]) && !belongs_to(1, &[me]));
        }
    }

    #[test]
    fn a_unix_socket_listener_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listeners_at_path(&path).len(), 1);
        drop(listener);
        assert_eq!(listeners_at_path(&path).len(), 0);
    }

    #[test]
    fn the_kernel_counts_listen_overflows() {
        assert!(listen_overflows().is_some());
    }
}
