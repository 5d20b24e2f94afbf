//! Selects the thread that explains a hang, for the name of the hang and for its description.

use super::runtime_calls::{runs_test, waits_for_lock};
use provoke_model::{Goroutine, Hang, HungThread, ThreadActivity};

/// The diagnosis of a hang.
#[derive(Debug)]
pub struct HangDiagnosis<'a> {
    /// The main thread, the thread that it waits for, and so on. The last one is the culprit,
    /// unless another thread explains more.
    pub chain: Vec<&'a HungThread>,
    /// The thread that the others wait for, if it is known.
    pub culprit: &'a HungThread,
}

impl<'a> HangDiagnosis<'a> {
    /// Returns the goroutines that explain why a Go program waits: those that wait for locks, or else the one that runs
    /// the test or `main`. There are none if the culprit does not wait.
    pub fn goroutines(&self, hang: &'a Hang) -> Vec<&'a Goroutine> {
        if !matches!(
            self.culprit.current_activity(),
            ThreadActivity::Blocked | ThreadActivity::Stopped
        ) {
            return Vec::new();
        }
        let all = || hang.goroutines.iter();
        let waiting: Vec<&Goroutine> = all()
            .filter(|goroutine| waits_for_lock(goroutine))
            .collect();
        if !waiting.is_empty() {
            return waiting;
        }
        let innermost_test = all().rfind(|goroutine| runs_test(goroutine));
        let main = || all().min_by_key(|goroutine| goroutine.number);
        innermost_test.or_else(main).into_iter().collect()
    }
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
    let other_thread = find(&|thread| thread.absent_owner.is_some())
        .or_else(|| find(&|thread| thread.current_activity() == ThreadActivity::Stuck))
        .or_else(|| find(&|thread| thread.current_activity() == ThreadActivity::Busy))
        .or_else(|| any_child(hang, last));
    Some(HangDiagnosis {
        chain,
        culprit: other_thread.unwrap_or(last),
    })
}

/// Returns the first living thread of a process.
fn first_thread(hang: &Hang, pid: i32) -> Option<&HungThread> {
    let own_threads = || hang.threads.iter().filter(|thread| thread.pid == pid);
    own_threads()
        .find(|thread| thread.state != 'Z')
        .or(own_threads().next())
}

/// Returns a thread, the thread that it waits for, and so on.
fn wait_chain<'a>(hang: &'a Hang, first: &'a HungThread) -> Vec<&'a HungThread> {
    let mut chain = vec![first];
    loop {
        let target = chain.last().and_then(|last| last.waits_for);
        let next = target.and_then(|tid| hang.find_thread(tid));
        match next {
            Some(next) if chain.iter().all(|thread| thread.tid != next.tid) => chain.push(next),
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
    let other_threads = hang.threads.iter().filter(|other_thread| {
        other_thread.pid != parent.pid && other_thread.tid == other_thread.pid
    });
    let mut last = other_threads.filter_map(|other_thread| wait_chain(hang, other_thread).pop());
    last.find(|thread| thread.current_activity() == ThreadActivity::Blocked)
}
