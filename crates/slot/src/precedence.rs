//! Lets the slot run before the processes of its trial.

use rustix::process::{getpriority_process, setpriority_process};

/// The highest priority.
const HIGHEST: i32 = -20;

/// The priority of the slot while it examines and kills processes. Otherwise it is one of hundreds of processes of a fork
/// bomb that wait for a CPU, and gets it once in seconds.
#[derive(Debug, Default)]
pub(super) struct Precedence {
    /// The priority before, if it was raised.
    usual: Option<i32>,
}

impl Precedence {
    /// Raises the priority, if this process may do so.
    pub(super) fn take(&mut self) {
        if self.usual.is_none()
            && let Ok(usual) = getpriority_process(None)
            && setpriority_process(None, HIGHEST).is_ok()
        {
            self.usual = Some(usual);
        }
    }

    /// Restores the priority, which processes of a trial inherit.
    pub(super) fn give_back(&mut self) {
        if let Some(usual) = self.usual.take() {
            let _ = setpriority_process(None, usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_priority_is_raised_and_restored() {
        let before = getpriority_process(None).unwrap();
        let mut precedence = Precedence::default();
        precedence.take();
        precedence.take();
        let raised = getpriority_process(None).unwrap();
        assert_eq!(raised, precedence.usual.map_or(before, |_| HIGHEST));
        precedence.give_back();
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
