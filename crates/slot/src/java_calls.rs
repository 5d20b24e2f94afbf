//! Adds what a Java virtual machine says about its threads to the threads of a hung trial.

use provoke_messages::is_java_library;
use provoke_model::{CallLanguage, Frame, HungThread, WaitObject};
use provoke_sys::{jvm, threads};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Calls that are kept of each thread.
const CALLS: usize = 32;
/// Virtual machines that are asked, and the time limit of each.
const ASKED: usize = 4;
const TIME: Duration = Duration::from_secs(2);

/// A thread as the virtual machine describes it.
#[derive(Debug, Default)]
struct JavaThread {
    name: String,
    /// Thread ID, in its container.
    number: i32,
    /// Calls, innermost first.
    calls: Vec<Frame>,
    /// Address of the object for which it waits.
    waits_for: Option<u64>,
    /// Objects that it holds as locks.
    holds: Vec<u64>,
}

/// Adds the Java calls of the threads, and the owners of the locks that they wait for.
pub(super) fn add_java_calls(threads: &mut [HungThread], pids: &[i32], deadline: Instant) {
    let machines = pids.iter().filter(|pid| jvm::is_virtual_machine(**pid));
    for pid in machines.take(ASKED) {
        let until = deadline.min(Instant::now() + TIME);
        match jvm::describe_threads(*pid, until) {
            Ok(text) => add_calls_of_process(threads, *pid, parse_threads(&text)),
            Err(error) => tracing::debug!(target: "slot", pid, %error, "no Java calls"),
        }
    }
}

fn add_calls_of_process(threads: &mut [HungThread], pid: i32, java_threads: Vec<JavaThread>) {
    let tids = threads::threads_by_number(pid);
    let tid_of = |thread: &JavaThread| tids.get(&thread.number).copied();
    let owners: BTreeMap<u64, i32> = java_threads
        .iter()
        .filter_map(|thread| Some((thread, tid_of(thread)?)))
        .flat_map(|(thread, tid)| thread.holds.iter().map(move |lock| (*lock, tid)))
        .collect();
    for java_thread in java_threads {
        let tid = tid_of(&java_thread);
        let mut own_threads = threads.iter_mut().filter(|thread| thread.pid == pid);
        let Some(thread) = own_threads.find(|thread| Some(thread.tid) == tid) else {
            continue;
        };
        thread.name = java_thread.name;
        thread.calls = java_thread.calls;
        thread.language = CallLanguage::Java;
        if let Some(owner) = java_thread.waits_for.and_then(|lock| owners.get(&lock)) {
            thread.waits_on = Some(WaitObject::Mutex);
            thread.waits_for = Some(*owner);
        }
    }
}

/// Parses the description of all threads.
fn parse_threads(text: &str) -> Vec<JavaThread> {
    let mut threads: Vec<JavaThread> = Vec::new();
    // A summary of deadlocks repeats the stacks.
    let lines = text.lines();
    for line in lines.take_while(|line| !line.starts_with("Found one Java-level deadlock")) {
        if line.starts_with('"') {
            threads.extend(parse_title(line));
        } else if let Some(thread) = threads.last_mut() {
            add_line(thread, line.trim());
        }
    }
    threads
}

/// Parses `"main" #1 prio=5 tid=0x00007f20 nid=0x2d3b in Object.wait()`.
fn parse_title(line: &str) -> Option<JavaThread> {
    let (name, rest) = line[1..].rsplit_once("\" ")?;
    let mut words = rest.split(' ');
    let number = words.find_map(|word| word.strip_prefix("nid="))?;
    let number = match number.strip_prefix("0x") {
        Some(digits) => i32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    Some(JavaThread {
        name: name.to_owned(),
        number: number.ok()?,
        ..JavaThread::default()
    })
}

/// Adds a call, or a lock that the thread waits for or holds.
fn add_line(thread: &mut JavaThread, line: &str) {
    if let Some(call) = line.strip_prefix("at ") {
        thread.calls.extend(parse_call(call));
        thread.calls.truncate(CALLS);
        return;
    }
    let Some((text, object)) = line.strip_prefix("- ").and_then(parse_object) else {
        return;
    };
    match text {
        "waiting to lock"
        | "parking to wait for"
        | "waiting on"
        | "waiting to re-lock in wait()" => {
            thread.waits_for = Some(object);
        }
        // A monitor is released during `Object.wait`, and the same frame lists it as locked.
        "locked" | "" if thread.waits_for != Some(object) => thread.holds.push(object),
        _ => {}
    }
}

/// Parses `waiting to lock <0x000000069e019770> (a java.lang.Object)`: the text, and the address.
fn parse_object(text: &str) -> Option<(&str, u64)> {
    let (text, rest) = text.split_once("<0x")?;
    let (address, _) = rest.split_once('>')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    Some((text.trim(), address))
}

/// Parses `shop.Bank.credit(Bank.java:6)` or `java.lang.Thread.run(java.base@17.0.15/Thread.java:840)`. Classes that the
/// virtual machine makes for lambda expressions are left out.
fn parse_call(text: &str) -> Option<Frame> {
    let text = text.rsplit_once("//").map_or(text, |(_, call)| call);
    let (function, place) = text.split_once('(')?;
    if function.contains("/0x") {
        return None;
    }
    let place = place.trim_end_matches(')');
    let (module, place) = place.split_once('/').unwrap_or(("", place));
    let line = place.split_once(':');
    let line = line.and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
    let is_library = is_java_library(function);
    // Without the package, as Java's own messages name a file.
    let short = function.rsplitn(3, '.').collect::<Vec<&str>>();
    let short = short.into_iter().take(2).rev().collect::<Vec<&str>>();
    Some(Frame {
        function: Some(short.join(".")),
        module: is_library.then(|| module.split('@').next().unwrap_or_default().to_owned()),
        line,
        ..Frame::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"0
"main" #1 prio=5 os_prio=0 cpu=48.11ms elapsed=1.76s tid=0x00007fd208017ea0 nid=0x10 in Object.wait()  [0x00007fd20fdfe000]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(java.base@17.0.15/Native Method)
	- waiting on <0x000000069e019868> (a java.lang.Thread)
	at java.lang.Thread.join(java.base@17.0.15/Thread.java:1313)
	- locked <0x000000069e019868> (a java.lang.Thread)
	at shop.Bank.main(Bank.java:13)

   Locked ownable synchronizers:
	- None

"a "quoted" name" #12 [17] prio=5 os_prio=0 tid=0x00007fd2081195b0 nid=17 waiting on condition  [0x00007fd207ffe000]
   java.lang.Thread.State: WAITING (parking)
	- parking to wait for  <0x000000069e019770> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
	at Bank.one(Bank.java:8)
	at Bank$$Lambda$1/0x00007fd188000a08.run(Unknown Source)

   Locked ownable synchronizers:
	- <0x000000069e019740> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)

Found one Java-level deadlock:
"second":
	at Bank.two(Bank.java:9)
"#;

    #[test]
    fn threads_are_read_with_their_calls_and_locks() {
        let threads = parse_threads(TEXT);
        let [main, other] = threads.as_slice() else {
            panic!("{threads:?}");
        };
        let calls: Vec<&str> = main
            .calls
            .iter()
            .filter_map(|call| call.function.as_deref())
            .collect();
        assert_eq!(calls, ["Object.wait", "Thread.join", "Bank.main"]);
        assert_eq!(main.calls[1].module.as_deref(), Some("java.base"));
        assert_eq!(main.calls[2].module, None);
        assert_eq!(main.calls[2].line, Some(("Bank.java".to_owned(), 13)));
        assert_eq!((main.number, main.holds.len()), (16, 0));
        assert_eq!(
            (other.name.as_str(), other.number),
            ("a \"quoted\" name", 17)
        );
        assert_eq!(other.waits_for, Some(0x0006_9e01_9770));
        assert_eq!(other.holds, [0x0006_9e01_9740]);
        assert_eq!(other.calls.len(), 1);
    }

    #[test]
    fn a_thread_waits_for_the_owner_of_its_lock() {
        let pid = std::process::id().cast_signed();
        let other = JavaThread {
            number: pid,
            waits_for: Some(7),
            holds: vec![7],
            ..JavaThread::default()
        };
        let mut threads = vec![HungThread {
            pid,
            tid: pid,
            ..HungThread::default()
        }];
        add_calls_of_process(&mut threads, pid, vec![other]);
        assert_eq!(threads[0].waits_for, Some(pid));
        assert_eq!(threads[0].language, CallLanguage::Java);
    }
}
