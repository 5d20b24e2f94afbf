//! Judges an observation, which gives the outcome of the trial.
//!
//! The order of the checks matters. First: is the trial inconclusive? Then: how did the main
//! processes end, how did the kernel treat the tree, which output was written, which processes were
//! leaked? Last: is that the bug that is searched?

mod cases;
mod ending;
mod killer;
pub mod signature;
mod unusual_end;

pub use crate::signature::{
    HangDiagnosis, bare_module, diagnose_hang, logged_place, signature_of_failure, sites_of_crash,
};
pub use cases::case_signature;
pub use killer::describe_killer;
pub use unusual_end::unusual_end;

use crate::signature::{failure_functions, failure_sites, main_actors};
use ending::{end_of_life, judge_ending};
use killer::is_oom_kill_logged;
use provoke_messages::normalise_line;
use provoke_model::{
    ActorObservation, BugFilter, Ending, EvidenceDepth, Failure, FailureKind, InconclusiveReason,
    LeakRule, LoadObservation, LoadStage, Observation, Outcome, Rules, Signal, SignalEvidence,
    VariantPlan,
};
use std::ops::Range;

/// Returns the outcome of a trial of this variant.
pub fn judge_trial(rules: &Rules, variant: &VariantPlan, observation: &Observation) -> Outcome {
    if let Some(void) = inconclusive_reason(rules, variant, observation) {
        return Outcome::Inconclusive(void);
    }
    if rules.searched_cases().next().is_some() {
        return cases::judge_searched_cases(rules, variant, observation);
    }
    let shown = find_failure(rules, variant, observation).into_iter();
    // However it ended, a trial may also have written or leaked what the rules search for.
    let kinds = shown
        .chain(output_failure(rules, observation))
        .chain(leak_failure(rules, observation))
        .chain(refusal_failure(rules, observation));
    let mut failures: Vec<Box<Failure>> = kinds
        .map(|kind| Box::new(failure_of(kind, variant, observation)))
        .collect();
    let is_the_bug = |failure: &Failure| {
        rules.only.is_empty()
            || rules
                .only
                .iter()
                .any(|filter| filter.covers_failure(failure))
    };
    if let Some(bug) = failures.iter().position(|failure| is_the_bug(failure)) {
        return Outcome::Fail(failures.swap_remove(bug));
    }
    let Some(failure) = failures.into_iter().next() else {
        return Outcome::Pass;
    };
    // A signature from a stack cannot be compared without a stack, so the trial is inconclusive.
    let by_name = |filter: &BugFilter| matches!(filter, BugFilter::Signature(_));
    let has_stack = failure.signature.depth == EvidenceDepth::Stack;
    if rules.only.iter().any(by_name) && failure.kind.has_stack() && !has_stack {
        return Outcome::Inconclusive(InconclusiveReason::UnknownFailure);
    }
    Outcome::Other(failure)
}

/// Returns the suspected hang of a trial that was inspected before its timeout. Unless it can never continue, its title
/// only says what it was doing.
pub fn seeming_hang(variant: &VariantPlan, observation: &Observation) -> Option<Failure> {
    let hang = observation.hang.as_ref()?;
    if observation
        .load
        .as_ref()
        .is_some_and(|load| !load.seems_hung())
    {
        return None;
    }
    let kind = FailureKind::Hang { stopped: false };
    let mut failure = failure_of(kind, variant, observation);
    let mut threads = hang.threads.iter();
    if hang.cycle.is_empty() && threads.all(|thread| thread.absent_owner.is_none()) {
        let title = failure.signature.title.trim_start_matches("hang: ");
        failure.signature.title = title.replacen("busy loop", "busy", 1);
    }
    Some(failure)
}

fn failure_of(kind: FailureKind, variant: &VariantPlan, observation: &Observation) -> Failure {
    let signature = signature_of_failure(&kind, variant, observation);
    let sites = failure_sites(&kind, variant, observation);
    let functions = if sites.is_empty() {
        failure_functions(&kind, variant, observation)
    } else {
        Vec::new()
    };
    Failure {
        kind,
        signature,
        sites,
        functions,
    }
}

/// Returns the patterns to search in the output: first `fail_if_out`, then `ok_if_out`.
pub fn output_patterns(rules: &Rules) -> Vec<String> {
    rules
        .fail_if_out
        .iter()
        .chain(&rules.ok_if_out)
        .cloned()
        .collect()
}

fn inconclusive_reason(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
) -> Option<InconclusiveReason> {
    let not_started = |actor: &ActorObservation| matches!(actor.ending, Ending::NotStarted(_));
    let skipped = |actor: &ActorObservation| matches!(actor.ending, Ending::Exited(code) if rules.skip.contains(&code) && !rules.ok.contains(&code));
    if observation.lost.is_some() {
        Some(InconclusiveReason::Lost)
    } else if observation.interrupted {
        Some(InconclusiveReason::Interrupted)
    } else if observation.prepare.is_some() {
        Some(InconclusiveReason::Unprepared)
    } else if observation.actors.iter().any(not_started) {
        Some(InconclusiveReason::NotStarted)
    } else if observation
        .load
        .as_ref()
        .is_some_and(|load| says_nothing(load, variant, observation))
    {
        Some(InconclusiveReason::NotReady)
    } else if observation.load.is_none() && main_actors(variant, observation).any(skipped) {
        Some(InconclusiveReason::Skipped)
    } else {
        None
    }
}

/// Returns whether a trial of a service is inconclusive: the service was not ready, it gave no
/// response to any request without a crash or a hang, or the clients could not work.
fn says_nothing(load: &LoadObservation, variant: &VariantPlan, observation: &Observation) -> bool {
    let answered = load.served + load.warmed > 0;
    let crashed = |actor: &ActorObservation| matches!(actor.ending, Ending::Signaled(..));
    let hung = load.death.as_ref().is_some_and(|death| death.hung);
    let dead = main_actors(variant, observation).any(crashed)
        || !observation.crashed_children.is_empty()
        || hung;
    load.stage == LoadStage::Starting
        || load.trouble.is_some() && load.death.is_none()
        || load.clients > 0 && !answered && !dead
}

fn find_failure(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
) -> Option<FailureKind> {
    let excuses = rules.fail_if_out.len()..rules.fail_if_out.len() + rules.ok_if_out.len();
    let excused = output_matched(observation, &excuses);

    // Of several copies, take the most informative ending: a signal, then an exit code, then a
    // hang.
    let ending = main_actors(variant, observation)
        .filter_map(|main| match observation.load {
            Some(_) => end_of_life(main, &observation.crashed_children),
            None => judge_ending(
                rules,
                main,
                &observation.crashed_children,
                observation.hang.as_ref(),
            ),
        })
        .min()
        .filter(|kind| !(excused && kind_is_exit(kind)));
    let full = |main: &ActorObservation| {
        main.container
            .as_ref()
            .is_some_and(|observation| observation.oom)
    };
    let oom = observation.oom_kills.is_some_and(|kills| kills > 0)
        || is_oom_kill_logged(observation)
        || main_actors(variant, observation).any(full);
    if oom {
        match &ending {
            Some(FailureKind::Signal {
                signal: Signal::KILL,
                ..
            }) => {
                return Some(FailureKind::Oom { masked: false });
            }
            None | Some(FailureKind::Exit { .. }) => {
                return Some(FailureKind::Oom { masked: true });
            }
            Some(_) => {}
        }
    }
    if !excused && let Some(crash) = masked_crash(rules, variant, observation, ending.as_ref()) {
        return Some(crash);
    }
    if ending.is_some() {
        return ending;
    }
    // If another program started the service, possibly only the clients noticed the crash.
    if let Some(death) = observation
        .load
        .as_ref()
        .and_then(|load| load.death.as_ref())
    {
        return Some(if death.hung {
            FailureKind::Hang {
                stopped: death.stopped,
            }
        } else {
            FailureKind::ServiceVanished
        });
    }
    None
}

fn output_failure(rules: &Rules, observation: &Observation) -> Option<FailureKind> {
    output_matched(observation, &(0..rules.fail_if_out.len())).then_some(FailureKind::Output)
}

fn leak_failure(rules: &Rules, observation: &Observation) -> Option<FailureKind> {
    (observation.residue.is_leak() && rules.leaks == LeakRule::Fail).then_some(FailureKind::Leak)
}

fn refusal_failure(rules: &Rules, observation: &Observation) -> Option<FailureKind> {
    let load = observation.load.as_ref().filter(|_| rules.refusals.fails)?;
    let refused = rules.refusals.count_refused(&load.ends);
    let refuses = rules.refusals.refuses_load(refused, load.sent);
    refuses.then_some(FailureKind::Refused)
}

/// Returns whether the output matched one of these rules.
fn output_matched(observation: &Observation, rules: &Range<usize>) -> bool {
    observation
        .matched
        .iter()
        .any(|(rule, _)| rules.contains(rule))
}

/// Returns the crash of another process of the trial, although the main process ended by itself:
/// shells, pipes, test runners and `make` hide how a child died.
fn masked_crash(
    rules: &Rules,
    variant: &VariantPlan,
    observation: &Observation,
    ending: Option<&FailureKind>,
) -> Option<FailureKind> {
    let plain = matches!(ending, None | Some(FailureKind::Exit { .. }));
    if rules.ignore_child_crashes || !plain {
        return None;
    }
    let evidence = main_actors(variant, observation).find_map(|main| match main.ending {
        Ending::Exited(code) => Some(SignalEvidence::HiddenByExit { code }),
        Ending::Stopped if observation.load.is_some() => Some(SignalEvidence::InDescendant),
        _ => None,
    })?;
    let is_actor = |pid: i32| observation.actors.iter().any(|actor| actor.pid == pid);
    let casualty_signals = observation
        .crashed_children
        .iter()
        .filter_map(|process| process.signal);
    let cores = observation.cores.iter().filter(|core| !is_actor(core.pid));
    let dumped = cores.filter_map(|core| core.crash.as_ref()?.signal);
    // Only an operator or the kernel kills a worker of a service with SIGKILL.
    let killed = |signal: &Signal| observation.load.is_some() && *signal == Signal::KILL;
    let mut signals = casualty_signals.chain(dumped);
    let signal = signals.find(|signal| signal.is_crash() || killed(signal))?;
    Some(FailureKind::Signal { signal, evidence })
}

/// Returns whether the program ended by itself, by exit or signal, which rules for the output may
/// excuse.
fn kind_is_exit(kind: &FailureKind) -> bool {
    matches!(kind, FailureKind::Exit { .. } | FailureKind::Signal { .. })
}

/// Returns the last line that a trial printed, without the parts that change between trials.
pub fn last_words(observation: &Observation) -> Option<String> {
    Some(normalise_line(&observation.actors.first()?.last_words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{ActorPlan, ActorRole, FailedHook, LoadObservation, ProcessObservation};

    fn variant() -> VariantPlan {
        let actor = |role| ActorPlan {
            name: String::new(),
            role,
            command: vec!["x".into()],
            copies: 1,
            env: Vec::new(),
            cwd: ".".into(),
            stdin: None,
            container: None,
        };
        VariantPlan {
            actors: vec![actor(ActorRole::Main), actor(ActorRole::Helper)],
            ..VariantPlan::default()
        }
    }

    fn observation_of(endings: &[Ending]) -> Observation {
        let actors = (0..).zip(endings).map(|(actor, ending)| ActorObservation {
            actor: actor.min(1),
            ending: ending.clone(),
            ..ActorObservation::default()
        });
        Observation {
            actors: actors.collect(),
            ..Observation::default()
        }
    }

    fn outcome(rules: &Rules, seen: &Observation) -> String {
        match judge_trial(rules, &variant(), seen) {
            Outcome::Pass => "pass".to_owned(),
            Outcome::Fail(kind) => format!("fail: {kind}"),
            Outcome::Other(kind) => format!("other: {kind}"),
            Outcome::Inconclusive(void) => format!("void: {void}"),
        }
    }

    #[test]
    fn a_signal_seen_or_inferred_has_one_name_and_different_labels() {
        let rules = Rules::default();
        let seen = observation_of(&[Ending::Signaled(Signal::SEGV, true)]);
        assert_eq!(outcome(&rules, &seen), "fail: SIGSEGV (core dumped)");
        let mut seen = observation_of(&[Ending::Exited(139)]);
        assert_eq!(
            outcome(&rules, &seen),
            "fail: SIGSEGV (inferred from exit 139)"
        );
        seen.actors[0].last_words = "sh: line 1: 77 Segmentation fault  ./x".to_owned();
        assert_eq!(
            outcome(&rules, &seen),
            "fail: SIGSEGV (exit 139, confirmed by the shell)"
        );
        let seen = observation_of(&[Ending::Exited(245)]);
        assert_eq!(
            outcome(&rules, &seen),
            "fail: SIGSEGV (inferred from exit 245, as Python reports it)"
        );
    }

    #[test]
    fn common_exit_codes_are_not_interpreted_as_signals() {
        for code in [1, 2, 3, 126, 127, 128, 160, 200, 244, 254, 255] {
            let seen = observation_of(&[Ending::Exited(code)]);
            assert_eq!(
                outcome(&Rules::default(), &seen),
                format!("fail: exit {code}")
            );
        }
    }

    #[test]
    fn a_sigkill_is_an_oom_kill_only_if_the_cgroup_counted_one() {
        let rules = Rules::default();
        let mut seen = observation_of(&[Ending::Signaled(Signal::KILL, false)]);
        assert_eq!(outcome(&rules, &seen), "fail: SIGKILL");
        seen.oom_kills_on_host = Some(1);
        assert_eq!(
            outcome(&rules, &seen),
            "fail: SIGKILL",
            "somebody's, not ours"
        );
        seen.oom_kills = Some(1);
        assert_eq!(outcome(&rules, &seen), "fail: oom");
        let mut masked = observation_of(&[Ending::Exited(0)]);
        masked.oom_kills = Some(1);
        assert_eq!(outcome(&rules, &masked), "fail: oom");
        let judged = judge_trial(&rules, &variant(), &masked);
        let kind = judged.any_failure().map(|failure| failure.kind.clone());
        assert_eq!(kind, Some(FailureKind::Oom { masked: true }));
    }

    #[test]
    fn an_oom_kill_in_the_kernel_log_counts_in_any_cgroup() {
        let line = |pid, text: &str| provoke_model::KernelLine {
            pid,
            text: text.to_owned(),
            function: None,
        };
        let killed = "Memory cgroup out of memory: Killed process 77 (eat) total-vm:68268kB";
        let mut child = observation_of(&[Ending::Exited(0)]);
        child.kernel = vec![line(77, killed)];
        let judged = judge_trial(&Rules::default(), &variant(), &child);
        let kind = judged.any_failure().map(|failure| failure.kind.clone());
        assert_eq!(kind, Some(FailureKind::Oom { masked: true }));
        let mut main = observation_of(&[Ending::Signaled(Signal::KILL, false)]);
        main.actors[0].pid = 77;
        main.kernel = vec![line(77, killed)];
        let rules = Rules {
            only: vec![BugFilter::Oom],
            ..Rules::default()
        };
        assert_eq!(outcome(&rules, &main), "fail: oom");
        let crash = "eat[77]: segfault at 10 ip 0 sp 0 error 4";
        main.kernel = vec![line(77, crash)];
        assert_eq!(outcome(&Rules::default(), &main), "fail: SIGKILL");
    }

    #[test]
    fn a_trial_that_ended_by_itself_after_its_timeout_is_no_hang() {
        let mut seen = observation_of(&[Ending::TimedOut {
            state: 'S',
            killed: false,
        }]);
        let only = |filter| Rules {
            only: vec![filter],
            ..Rules::default()
        };
        let hang = seen.hang.insert(provoke_model::Hang::default());
        hang.ended_after = std::time::Duration::from_millis(57);
        assert_eq!(outcome(&Rules::default(), &seen), "fail: timeout");
        assert_eq!(outcome(&only(BugFilter::Timeout), &seen), "fail: timeout");
        assert_eq!(outcome(&only(BugFilter::Hang), &seen), "other: timeout");
        seen.hang = None;
        assert_eq!(outcome(&only(BugFilter::Timeout), &seen), "fail: hang");
    }

    #[test]
    fn a_stopped_process_is_not_a_hang() {
        let seen = observation_of(&[Ending::TimedOut {
            state: 'T',
            killed: true,
        }]);
        assert_eq!(outcome(&Rules::default(), &seen), "fail: stopped");
        let seen = observation_of(&[Ending::TimedOut {
            state: 'S',
            killed: false,
        }]);
        assert_eq!(outcome(&Rules::default(), &seen), "fail: hang");
    }

    #[test]
    fn interrupted_lost_and_skipped_trials_are_inconclusive() {
        let crash = Ending::Signaled(Signal::SEGV, false);
        let rules = Rules::default();
        let mut seen = observation_of(std::slice::from_ref(&crash));
        seen.interrupted = true;
        assert_eq!(outcome(&rules, &seen), "void: interrupted");
        seen.lost = Some("gone".to_owned());
        assert_eq!(outcome(&rules, &seen), "void: lost");
        let mut seen = observation_of(std::slice::from_ref(&crash));
        seen.prepare = Some(FailedHook::default());
        assert_eq!(outcome(&rules, &seen), "void: prepare failed");
        let seen = observation_of(&[crash, Ending::NotStarted("no such file".to_owned())]);
        assert_eq!(outcome(&rules, &seen), "void: not started");
        assert_eq!(
            outcome(&rules, &observation_of(&[Ending::Exited(125)])),
            "void: skipped"
        );
    }

    #[test]
    fn a_helper_does_not_determine_the_outcome() {
        let seen = observation_of(&[Ending::Exited(0), Ending::Signaled(Signal::SEGV, false)]);
        assert_eq!(outcome(&Rules::default(), &seen), "pass");
    }

    /// Returns the observation of a service's trial that reached this stage and ended like this.
    fn service_observation(stage: LoadStage, ending: Ending) -> Observation {
        let load = LoadObservation {
            stage,
            clients: 1,
            served: 1,
            ..LoadObservation::default()
        };
        Observation {
            load: Some(Box::new(load)),
            ..observation_of(&[ending])
        }
    }

    #[test]
    fn a_service_that_runs_until_it_is_stopped_passes() {
        let rules = Rules::default();
        let seen = service_observation(LoadStage::Over, Ending::Stopped);
        assert_eq!(outcome(&rules, &seen), "pass");
    }

    #[test]
    fn every_end_of_a_service_under_load_is_a_failure() {
        let rules = Rules::default();
        for (ending, expected) in [
            (Ending::Exited(0), "fail: exit 0"),
            (Ending::Exited(3), "fail: exit 3"),
            (Ending::Signaled(Signal::SEGV, false), "fail: SIGSEGV"),
            (
                Ending::Exited(139),
                "fail: SIGSEGV (inferred from exit 139)",
            ),
        ] {
            assert_eq!(
                outcome(&rules, &service_observation(LoadStage::Loading, ending)),
                expected
            );
        }
    }

    #[test]
    fn a_service_that_was_never_ready_is_inconclusive() {
        let rules = Rules::default();
        for ending in [Ending::Exited(1), Ending::Signaled(Signal::SEGV, false)] {
            let seen = service_observation(LoadStage::Starting, ending);
            assert_eq!(outcome(&rules, &seen), "void: service not ready");
        }
    }

    #[test]
    fn a_service_without_a_response_is_inconclusive_unless_it_crashes() {
        let rules = Rules::default();
        for (ending, expected) in [
            (Ending::Stopped, "void: service not ready"),
            (Ending::Exited(1), "void: service not ready"),
            (Ending::Signaled(Signal::SEGV, false), "fail: SIGSEGV"),
        ] {
            let mut seen = service_observation(LoadStage::Loading, ending);
            seen.load.as_mut().unwrap().served = 0;
            assert_eq!(outcome(&rules, &seen), expected);
        }
    }

    #[test]
    fn a_service_without_any_request_passes_if_it_runs_until_it_is_stopped() {
        let rules = Rules::default();
        for (ending, expected) in [
            (Ending::Stopped, "pass"),
            (Ending::Exited(1), "fail: exit 1"),
        ] {
            let mut seen = service_observation(LoadStage::Over, ending);
            let load = seen.load.as_mut().unwrap();
            (load.clients, load.served) = (0, 0);
            assert_eq!(outcome(&rules, &seen), expected);
        }
    }

    #[test]
    fn a_trial_without_working_clients_is_inconclusive() {
        let mut seen = service_observation(LoadStage::Loading, Ending::Stopped);
        seen.load.as_mut().unwrap().trouble = Some("no load".to_owned());
        assert_eq!(outcome(&Rules::default(), &seen), "void: service not ready");
    }

    #[test]
    fn a_crashed_worker_is_a_crash_of_the_service() {
        let rules = Rules::default();
        let mut seen = service_observation(LoadStage::Loading, Ending::Stopped);
        seen.crashed_children.push(provoke_model::CrashedProcess {
            pid: 77,
            program: String::new(),
            signal: Some(Signal::SEGV),
            core: false,
        });
        assert_eq!(
            outcome(&rules, &seen),
            "fail: SIGSEGV (in a descendant of the service, which kept running)"
        );
    }

    #[test]
    fn an_attached_service_is_judged_by_its_clients() {
        let rules = Rules::default();
        let mut seen = service_observation(LoadStage::Loading, Ending::Stopped);
        let load = seen.load.as_mut().unwrap();
        load.death = Some(provoke_model::RequestsAtFailure::default());
        assert_eq!(outcome(&rules, &seen), "fail: gone");
        let load = seen.load.as_mut().unwrap();
        load.death.as_mut().unwrap().hung = true;
        assert_eq!(outcome(&rules, &seen), "fail: hang");
        let load = seen.load.as_mut().unwrap();
        load.death.as_mut().unwrap().stopped = true;
        assert_eq!(outcome(&rules, &seen), "fail: stopped");
    }

    #[test]
    fn output_rules_can_fail_and_pass_a_trial() {
        let rules = Rules {
            fail_if_out: vec!["race".to_owned()],
            ok_if_out: vec!["known".to_owned()],
            ..Rules::default()
        };
        let mut seen = observation_of(&[Ending::Exited(0)]);
        seen.matched = vec![(0, "a race".to_owned())];
        assert_eq!(outcome(&rules, &seen), "fail: output");
        let mut seen = observation_of(&[Ending::Exited(1)]);
        seen.matched = vec![(1, "known".to_owned())];
        assert_eq!(outcome(&rules, &seen), "pass");
    }

    #[test]
    fn a_failure_that_the_filter_excludes_is_counted_as_other() {
        let rules = Rules {
            only: vec!["SEGV".parse().unwrap()],
            ..Rules::default()
        };
        assert_eq!(
            outcome(&rules, &observation_of(&[Ending::Exited(139)])),
            "fail: SIGSEGV (inferred from exit 139)"
        );
        assert_eq!(
            outcome(&rules, &observation_of(&[Ending::Exited(1)])),
            "other: exit 1"
        );
        assert_eq!(
            outcome(&rules, &observation_of(&[Ending::Exited(0)])),
            "pass"
        );
    }

    #[test]
    fn a_leak_fails_a_passing_trial_unless_it_is_only_reported() {
        let mut seen = observation_of(&[Ending::Exited(0)]);
        seen.residue.leaked = vec![ProcessObservation::default()];
        assert_eq!(outcome(&Rules::default(), &seen), "fail: leak");
        let lenient = Rules {
            leaks: LeakRule::Report,
            ..Rules::default()
        };
        assert_eq!(outcome(&lenient, &seen), "pass");
        seen.actors[0].ending = Ending::Exited(3);
        assert_eq!(outcome(&Rules::default(), &seen), "fail: exit 3");
    }

    #[test]
    fn the_filtered_failure_is_found_behind_another_failure() {
        let mut seen = observation_of(&[Ending::Exited(3)]);
        seen.residue.leaked = vec![ProcessObservation::default()];
        seen.matched = vec![(0, "lost it".to_owned())];
        let looking_for = |only| Rules {
            only: vec![only],
            fail_if_out: vec!["lost".to_owned()],
            ..Rules::default()
        };
        assert_eq!(outcome(&looking_for(BugFilter::Leak), &seen), "fail: leak");
        assert_eq!(
            outcome(&looking_for(BugFilter::Output), &seen),
            "fail: output"
        );
        assert_eq!(
            outcome(&looking_for(BugFilter::Hang), &seen),
            "other: exit 3"
        );
    }
}
