//! Selects the thread that explains a hang, for the name of the hang and for its description.

use provoke_model::{Hang, HungThread, ThreadActivity};

/// The diagnosis of a hang.
#[derive(Debug)]
pub struct HangDiagnosis<'a> {
    /// The main thread, the thread that it waits for, and so on. The last one is the culprit,
    /// unless another thread explains more.
    pub chain: Vec<&'a HungThread>,
    /// The thread that the others wait for, if it is known.
    pub culprit: &'a HungThread,
}

/// Finds the thread that the others wait for.
///
/// The waits are followed from the main thread to the last thread of the chain. If that thread
/// waits for something unknown, one of these threads explains more: a thread whose wait cannot end,
/// one that is stuck in the kernel, or a busy one.
pub fn diagnose_hang(hang: &Hang, main: Option<i32>) -> Option<HangDiagnosis<'_>> {
    let first = main
        .and_then(|pid| first_thread(hang, pid))
        .or(hang.threads.first())?;
    let chain = wait_chain(hang, first);
    let last = *chain.last()?;
    let explains = |thread: &HungThread| {
        thread.absent_owner.is_some()
            || matches!(
                thread.current_activity(),
                ThreadActivity::Stuck | ThreadActivity::Busy
            )
    };
    if explains(last) {
        return Some(HangDiagnosis {
            chain,
            culprit: last,
        });
    }
    let find = |fits: &dyn Fn(&&HungThread) -> bool| hang.threads.iter().find(fits);
    let other = find(&|thread| thread.absent_owner.is_some())
        .or_else(|| find(&|thread| thread.current_activity() == ThreadActivity::Stuck))
        .or_else(|| find(&|thread| thread.current_activity() == ThreadActivity::Busy))
        .or_else(|| any_child(hang, last));
    Some(HangDiagnosis {
        chain,
        culprit: other.unwrap_or(last),
    })
}

/// Returns the first living thread of a process.
fn first_thread(hang: &Hang, pid: i32) -> Option<&HungThread> {
    let own = || hang.threads.iter().filter(|thread| thread.pid == pid);
    own().find(|thread| thread.state != 'Z').or(own().next())
}

/// Returns a thread, the thread that it waits for, and so on.
fn wait_chain<'a>(hang: &'a Hang, first: &'a HungThread) -> Vec<&'a HungThread> {
    let mut chain = vec![first];
    loop {
        let target = chain.last().and_then(|last| last.waits_for);
        let next = target.and_then(|tid| hang.find_thread(tid));
        match next {
            Some(next) if chain.iter().all(|known| known.tid != next.tid) => chain.push(next),
            _ => return chain,
        }
    }
}

/// For a thread that waits for an unspecified child, returns the blocked thread for which another
/// process waits.
fn any_child<'a>(hang: &'a Hang, parent: &HungThread) -> Option<&'a HungThread> {
    if parent.current_activity() != ThreadActivity::WaitsForChild {
        return None;
    }
    let others = hang
        .threads
        .iter()
        .filter(|other| other.pid != parent.pid && other.tid == other.pid);
    let mut last = others.filter_map(|other| wait_chain(hang, other).pop());
    last.find(|thread| thread.current_activity() == ThreadActivity::Blocked)
}
