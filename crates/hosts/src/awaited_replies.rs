//! The replies that a host still owes: results of trials, prepared variants, hooks and files. Others take no memory.

use super::files::{path_below, relocate_cores};
use super::limits::ArrivedData;
use super::wire::{MAX_FILE_COUNT, MAX_FILES, WorkerReply};
use provoke_exec::PreparationResult;
use provoke_model::{
    Ending, FailedHook, Observation, SlotId, Trial, TrialId, VariantId, is_parsed_untrusted,
};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Notify, mpsc, oneshot};

/// Limit in bytes of a result without its tests: no journal could hold a much longer one.
pub(super) const MAX_RESULT: usize = 16 << 20;
/// Maximum number of messages about what failed on a host.
const MAX_COMPLAINTS: usize = 100;
/// Maximum number of lines of output that matched a rule, of lines of the kernel, and of crashed processes of a trial.
const MAX_LINES: usize = 1000;
/// Longest message or line of output from a host in bytes.
const MAX_TEXT: usize = 4096;

/// A reply about the trials of a slot.
pub(super) enum LeaseReply {
    Finished(TrialId, Box<Observation>),
    Idle,
}

/// The replies that a host owes, and where each of them goes.
#[derive(Default)]
pub(super) struct AwaitedReplies {
    /// Why the host was lost.
    pub(super) lost: Option<String>,
    /// Wakes the reader if the host counts as lost although it still sends messages.
    pub(super) given_up: Arc<Notify>,
    /// Whether the worker was told to end.
    pub(super) is_closing: bool,
    /// Whether the worker was told to kill what runs.
    pub(super) is_urgent: bool,
    /// Whether the runner reports the tests of each trial.
    counts_cases: bool,
    pub(super) arrived: ArrivedData,
    slots: BTreeMap<SlotId, OrderedTrials>,
    pub(super) makings: BTreeMap<VariantId, oneshot::Sender<PreparationResult>>,
    pub(super) hook: Option<oneshot::Sender<io::Result<Option<FailedHook>>>>,
    /// Where the files of the last trial of a slot go.
    kept: BTreeMap<SlotId, KeptFiles>,
    complaints: Vec<String>,
    /// Number of complaints that were dropped because there were too many.
    dropped_complaints: u64,
}

/// The trials that a slot was ordered to run.
struct OrderedTrials {
    replies: mpsc::UnboundedSender<LeaseReply>,
    /// The trials without a result. A slot runs them in this order.
    open: VecDeque<TrialId>,
}

/// The files of a trial that are copied to this host.
struct KeptFiles {
    folder: PathBuf,
    /// How many bytes and how many files may still arrive.
    bytes_left: u64,
    files_left: u32,
}

impl AwaitedReplies {
    /// Creates the replies of a run whose runner reports tests, or does not.
    pub(super) fn new(counts_cases: bool) -> Self {
        Self {
            counts_cases,
            ..Self::default()
        }
    }

    /// Ends all waiting.
    pub(super) fn lose(&mut self, reason: String) {
        self.slots.clear();
        self.makings.clear();
        self.hook = None;
        self.kept.clear();
        self.lost.get_or_insert(reason);
    }

    /// Ends all waiting for a host that still sends messages, and its connection.
    pub(super) fn give_up(&mut self, reason: &str) {
        tracing::warn!(target: "host", reason, "give up a host");
        self.lose(reason.to_owned());
        self.given_up.notify_one();
    }

    /// Records what failed on the host, up to a limit.
    pub(super) fn complain(&mut self, mut text: String) {
        if self.complaints.len() >= MAX_COMPLAINTS {
            self.dropped_complaints += 1;
            return;
        }
        clip_text(&mut text);
        self.complaints.push(text);
    }

    /// Adds trials that a slot is ordered to run, and returns the channel of their replies.
    pub(super) fn add_trials(
        &mut self,
        slot: SlotId,
        trials: &[Trial],
    ) -> mpsc::UnboundedReceiver<LeaseReply> {
        let (replies, receiver) = mpsc::unbounded_channel();
        let open = trials.iter().map(|trial| trial.id).collect();
        self.slots.insert(slot, OrderedTrials { replies, open });
        receiver
    }

    /// Adds the files of the last trial of a slot, which go to this folder.
    pub(super) fn add_files(&mut self, slot: SlotId, folder: PathBuf) {
        let kept = KeptFiles {
            folder,
            bytes_left: MAX_FILES,
            files_left: MAX_FILE_COUNT,
        };
        self.kept.insert(slot, kept);
    }

    /// Returns the path of a file that is wanted and small enough.
    pub(super) fn reserve_file(&mut self, slot: SlotId, name: &Path, size: u64) -> Option<PathBuf> {
        let kept = self.kept.get_mut(&slot)?;
        let (Some(bytes_left), Some(files_left)) = (
            kept.bytes_left.checked_sub(size),
            kept.files_left.checked_sub(1),
        ) else {
            self.complain("a trial has too many or too large files to be copied".to_owned());
            return None;
        };
        (kept.bytes_left, kept.files_left) = (bytes_left, files_left);
        path_below(&kept.folder, name)
    }

    /// Passes a reply on, and returns whether it was awaited. `folders` are the directories of trials there and here.
    pub(super) fn pass_reply(
        &mut self,
        reply: WorkerReply,
        (there, here): &(PathBuf, PathBuf),
    ) -> bool {
        // Someone who no longer waits needs no reply.
        match reply {
            WorkerReply::Finished(slot, trial, mut observation) => {
                // A result that was not ordered, or comes again, takes no memory.
                let Some(ordered) = self.slots.get_mut(&slot) else {
                    return false;
                };
                if ordered.open.front() != Some(&trial) {
                    return false;
                }
                observation.case_record = None;
                observation.cases = observation.cases.filter(|_| self.counts_cases);
                clip_texts(&mut observation);
                if !is_storable(&mut observation) {
                    self.give_up("it sent a result that is too large");
                    return false;
                }
                if !has_any_end(&observation) {
                    self.give_up("it sent a result without a process");
                    return false;
                }
                ordered.open.pop_front();
                relocate_cores(&mut observation, trial, there, here);
                let finished = LeaseReply::Finished(trial, observation);
                ordered.replies.send(finished).is_ok()
            }
            WorkerReply::Idle(slot) => {
                let ordered = self.slots.remove(&slot);
                ordered.is_some_and(|ordered| ordered.replies.send(LeaseReply::Idle).is_ok())
            }
            WorkerReply::Made(variant, mut result) => {
                if let PreparationResult::Failed(reason) | PreparationResult::Broken(reason) =
                    &mut result
                {
                    clip_text(reason);
                }
                let sender = self.makings.remove(&variant);
                sender.is_some_and(|sender| sender.send(result).is_ok())
            }
            WorkerReply::Hooked(mut result) => {
                match &mut result {
                    Ok(Some(failed)) => clip_hook(failed),
                    Ok(None) => {}
                    Err(reason) => clip_text(reason),
                }
                let sender = self.hook.take();
                sender.is_some_and(|sender| sender.send(result.map_err(io::Error::other)).is_ok())
            }
            WorkerReply::Kept(slot) => self.kept.remove(&slot).is_some(),
            WorkerReply::Complaint(text) => {
                self.complain(text);
                false
            }
            WorkerReply::Ready(_)
            | WorkerReply::Refused(..)
            | WorkerReply::File { .. }
            | WorkerReply::Alive
            | WorkerReply::Closed => false,
        }
    }

    pub(super) fn take_complaints(&mut self) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.complaints);
        if self.dropped_complaints > 0 {
            complaints.push(format!("{} more messages", self.dropped_complaints));
        }
        complaints
    }

    pub(super) fn lost_reason(&self) -> String {
        let reason = self.lost.as_deref();
        reason.unwrap_or("the connection was closed").to_owned()
    }
}

/// Returns whether a journal can hold a result. Its tests have other limits.
fn is_storable(observation: &mut Observation) -> bool {
    let cases = observation.cases.take();
    let json = serde_json::to_vec(observation).unwrap_or_default();
    observation.cases = cases;
    // The judgement, which the journal holds as well, repeats parts of it.
    json.len() <= MAX_RESULT && is_parsed_untrusted(&json.repeat(2))
}

/// Returns whether a result says how the trial ended.
fn has_any_end(observation: &Observation) -> bool {
    let failed = observation.prepare.is_some() || observation.lost.is_some();
    failed || observation.interrupted || !observation.actors.is_empty()
}

/// Shortens the texts of a result that a host can make as long as it likes, and their lists.
fn clip_texts(observation: &mut Observation) {
    let hooks = [&mut observation.prepare, &mut observation.conclude];
    hooks.into_iter().flatten().for_each(clip_hook);
    observation.lost.as_mut().map(clip_text);
    for actor in &mut observation.actors {
        clip_text(&mut actor.last_words);
        actor.crash_message.as_mut().map(clip_text);
        clip_ending(&mut actor.ending);
    }
    observation.matched.truncate(MAX_LINES);
    observation.kernel.truncate(MAX_LINES);
    observation.crashed_children.truncate(MAX_LINES);
    let matched = observation.matched.iter_mut().map(|(_, line)| line);
    let kernel = observation.kernel.iter_mut().map(|line| &mut line.text);
    let crashed = observation.crashed_children.iter_mut();
    let programs = crashed.map(|process| &mut process.program);
    matched.chain(kernel).chain(programs).for_each(clip_text);
}

fn clip_hook(failed: &mut FailedHook) {
    clip_text(&mut failed.output);
    clip_ending(&mut failed.ending);
}

fn clip_ending(ending: &mut Ending) {
    if let Ending::NotStarted(reason) = ending {
        clip_text(reason);
    }
}

/// Shortens text of a host to its limit.
pub(super) fn clip_text(text: &mut String) {
    let ends = (0..=MAX_TEXT.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use provoke_model::{ActorObservation, TrialPurpose};
    use std::time::Duration;

    pub(in super::super) fn trial(number: u64) -> Trial {
        Trial {
            id: TrialId(number),
            variant: VariantId(0),
            slot: SlotId(0),
            seed: number,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        }
    }

    /// Returns the result of a process.
    pub(in super::super) fn one_process() -> Box<Observation> {
        Box::new(Observation {
            actors: vec![ActorObservation::default()],
            ..Observation::default()
        })
    }

    #[test]
    fn a_result_without_a_process_loses_the_host() {
        let mut awaited = AwaitedReplies::default();
        let _passed = awaited.add_trials(SlotId(0), &[trial(7)]);
        let reply = WorkerReply::Finished(SlotId(0), TrialId(7), Box::default());
        assert!(!awaited.pass_reply(reply, &Default::default()));
        assert_eq!(awaited.lost_reason(), "it sent a result without a process");
    }

    #[test]
    fn results_that_were_not_ordered_are_not_kept() {
        let mut awaited = AwaitedReplies::default();
        let mut passed = awaited.add_trials(SlotId(0), &[trial(7)]);
        for _ in 0..100 {
            for trial in [8, 7] {
                awaited.pass_reply(
                    WorkerReply::Finished(SlotId(0), TrialId(trial), one_process()),
                    &Default::default(),
                );
            }
        }
        assert_eq!(passed.len(), 1);
        let reply = passed.try_recv();
        assert!(matches!(reply, Ok(LeaseReply::Finished(TrialId(7), _))));
    }

    #[test]
    fn lines_of_output_are_limited_in_length() {
        let mut awaited = AwaitedReplies::default();
        let mut passed = awaited.add_trials(SlotId(0), &[trial(7)]);
        let long = "\u{e9}".repeat(10_000);
        let actor = ActorObservation {
            last_words: long.clone(),
            crash_message: Some(long),
            ..ActorObservation::default()
        };
        let hook = FailedHook {
            output: actor.last_words.clone(),
            ..FailedHook::default()
        };
        let observation = Box::new(Observation {
            actors: vec![actor],
            matched: vec![(0, "x".repeat(10_000)); 10_000],
            lost: Some("x".repeat(10_000)),
            cases: Some(Box::default()),
            case_record: Some(Box::default()),
            prepare: Some(hook),
            ..Observation::default()
        });
        let reply = WorkerReply::Finished(SlotId(0), TrialId(7), observation);
        awaited.pass_reply(reply, &Default::default());
        let Ok(LeaseReply::Finished(_, observation)) = passed.try_recv() else {
            panic!("no result");
        };
        assert_eq!(observation.matched.len(), MAX_LINES);
        assert_eq!(observation.matched[0].1.len(), MAX_TEXT);
        assert_eq!(observation.lost.as_ref().map(String::len), Some(MAX_TEXT));
        assert!(observation.cases.is_none() && observation.case_record.is_none());
        let hook = observation.prepare.as_ref().unwrap();
        assert_eq!(hook.output.len(), MAX_TEXT);
        let actor = &observation.actors[0];
        assert_eq!(actor.last_words.len(), MAX_TEXT);
        assert_eq!(
            actor.crash_message.as_ref().map(String::len),
            Some(MAX_TEXT)
        );
    }

    #[test]
    fn messages_about_failures_are_limited_in_number_and_length() {
        let mut awaited = AwaitedReplies::default();
        for _ in 0..1000 {
            awaited.complain("\u{e9}".repeat(10_000));
        }
        let complaints = awaited.take_complaints();
        assert_eq!(complaints.len(), MAX_COMPLAINTS + 1);
        assert!(complaints.iter().all(|text| text.len() <= MAX_TEXT));
        assert_eq!(complaints.last().unwrap(), "900 more messages");
    }
}
