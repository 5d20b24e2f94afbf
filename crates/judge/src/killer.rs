//! Determines the sender of a SIGKILL.

use provoke_model::{ActorObservation, Ending, Observation, Resource, ResourceLimit, Signal};
use std::time::Duration;

/// Returns the sender of a SIGKILL as far as it was observed, without guesses; `None` if no process
/// of the plan died of SIGKILL.
pub fn describe_killer(observation: &Observation, limits: &[ResourceLimit]) -> Option<String> {
    let killed = observation.actors.iter().find(|actor| is_killed(actor))?;
    if killed
        .container
        .as_ref()
        .is_some_and(|observation| observation.oom)
    {
        return Some("the OOM killer: the container was at its memory limit".to_owned());
    }
    if observation.oom_kills.is_some_and(|kills| kills > 0) {
        return Some("the OOM killer, as its cgroup reports".to_owned());
    }
    if let Some(words) = observation
        .kernel
        .iter()
        .find_map(|line| read_oom_line(&line.text, killed.pid))
    {
        return Some(words);
    }
    if let Some(words) = spent_cpu_limit(killed, limits) {
        return Some(words);
    }
    let hint = match killed.max_rss {
        0 => String::new(),
        kib => format!("; it had used up to {} MiB of memory", kib.div_ceil(1024)),
    };
    Some(match observation.oom_kills_on_host {
        Some(1..) => format!(
            "an unknown sender; the OOM killer killed a process on this machine at that time{hint}"
        ),
        _ => format!("an unknown sender{hint}"),
    })
}

/// Returns whether the kernel log contains an OOM kill of a process of the trial, in any cgroup.
pub(super) fn is_oom_kill_logged(observation: &Observation) -> bool {
    let mut lines = observation.kernel.iter();
    lines.any(|line| read_oom_line(&line.text, line.pid).is_some())
}

fn is_killed(actor: &ActorObservation) -> bool {
    match actor.ending {
        Ending::Signaled(signal, _) => signal == Signal::KILL,
        // Shells and Python report SIGKILL with these codes.
        Ending::Exited(code) => [128 + Signal::KILL.0, 256 - Signal::KILL.0].contains(&code),
        _ => false,
    }
}

/// Reads `Out of memory: Killed process 77 (x)`, and
/// `oom-kill:constraint=CONSTRAINT_NONE,…,pid=77,…`.
fn read_oom_line(line: &str, pid: i32) -> Option<String> {
    let is_machine_wide = match line.split_once("oom-kill:constraint=") {
        Some((_, rest)) => {
            let named = rest.split(',').any(|field| field == format!("pid={pid}"));
            named.then(|| !rest.starts_with("CONSTRAINT_MEMCG"))?
        }
        None => {
            let (head, rest) = line.split_once("illed process ")?;
            let named = rest.split([' ', ',']).next() == Some(pid.to_string().as_str());
            named.then(|| !head.contains("Memory cgroup"))?
        }
    };
    let owner = if is_machine_wide {
        "the whole machine was out of memory"
    } else {
        "its cgroup was at its memory limit"
    };
    Some(format!("the OOM killer: {owner}"))
}

/// Names the kernel as the sender, if the process reached its hard limit of CPU time, which the
/// kernel enforces with SIGKILL.
fn spent_cpu_limit(killed: &ActorObservation, limits: &[ResourceLimit]) -> Option<String> {
    let limit = limits
        .iter()
        .find(|limit| limit.resource == Resource::Cpu)?
        .value?;
    // The kernel checks the time at intervals, and counts each process separately.
    let reached = killed.cpu + Duration::from_millis(50) >= Duration::from_secs(limit);
    reached.then(|| format!("the kernel: its CPU time limit of {limit} s was reached"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::KernelLine;

    fn killed() -> Observation {
        Observation {
            actors: vec![ActorObservation {
                pid: 77,
                ending: Ending::Signaled(Signal::KILL, false),
                max_rss: 2048,
                cpu: Duration::from_millis(1990),
                ..ActorObservation::default()
            }],
            ..Observation::default()
        }
    }

    fn killer_of(seen: &Observation) -> String {
        describe_killer(seen, &[]).unwrap()
    }

    #[test]
    fn a_kill_without_evidence_has_an_unknown_sender() {
        let mut seen = killed();
        insta::assert_snapshot!(killer_of(&seen), @"an unknown sender; it had used up to 2 MiB of memory");
        seen.oom_kills_on_host = Some(1);
        insta::assert_snapshot!(killer_of(&seen), @"an unknown sender; the OOM killer killed a process on this machine at that time; it had used up to 2 MiB of memory");
        seen.actors[0].ending = Ending::Exited(0);
        assert_eq!(describe_killer(&seen, &[]), None);
    }

    #[test]
    fn an_oom_kill_is_recognized_by_the_cgroup_counter() {
        let mut seen = killed();
        seen.oom_kills = Some(1);
        insta::assert_snapshot!(killer_of(&seen), @"the OOM killer, as its cgroup reports");
    }

    #[test]
    fn a_kernel_log_line_counts_only_for_the_process_that_it_names() {
        let line = |text: &str| {
            let mut seen = killed();
            let (pid, text) = (77, text.to_owned());
            seen.kernel = vec![KernelLine {
                pid,
                text,
                function: None,
            }];
            killer_of(&seen)
        };
        insta::assert_snapshot!(line("Out of memory: Killed process 77 (x) total-vm:1kB"), @"the OOM killer: the whole machine was out of memory");
        insta::assert_snapshot!(line("Memory cgroup out of memory: Killed process 77 (x)"), @"the OOM killer: its cgroup was at its memory limit");
        insta::assert_snapshot!(line("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=x,pid=77,uid=0"), @"the OOM killer: its cgroup was at its memory limit");
        assert!(line("Out of memory: Killed process 777 (x)").starts_with("an unknown sender"));
        assert!(
            line("oom-kill:constraint=CONSTRAINT_NONE,pid=777,uid=0")
                .starts_with("an unknown sender")
        );
    }

    #[test]
    fn a_kill_at_the_cpu_time_limit_is_attributed_to_the_kernel() {
        let limit = |value| {
            let resource = Resource::Cpu;
            describe_killer(&killed(), &[ResourceLimit { resource, value }]).unwrap()
        };
        insta::assert_snapshot!(limit(Some(2)), @"the kernel: its CPU time limit of 2 s was reached");
        assert!(limit(Some(3)).starts_with("an unknown sender"));
        assert!(limit(None).starts_with("an unknown sender"));
    }
}
