//! Nodes of Slurm: one `srun` for each node.
//!
//! The exit code of srun is never used: it is 0 if the node is lost.

use super::{HostError, HostQueue, HostStarts, HostsShape, Launch, Transport, TransportHelp};
use provoke_model::{HostFacts, RequestedHosts};
use provoke_sys::tool;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the transport.
const NAME: &str = "slurm";
/// The text of Slurm for a missing feature or resource.
const NO_VALUE: &str = "(null)";
/// Name of the jobs.
const JOB_NAME: &str = "provoke";
/// Time in which a step of an allocation begins.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Time in which the controller answers.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Limit of its answers in bytes.
const MAX_ANSWER: usize = 16 << 20;

/// Nodes of Slurm: the first ones of the allocation in which provoke runs, or else a job for each node.
pub(super) static SLURM: Transport = Transport {
    name: NAME,
    shape: HostsShape::Counted,
    help: TransportHelp {
        value: NAME,
        example: NAME,
        text: "`slurm` needs --nodes.",
    },
    check: |_| Ok(()),
    plan_starts,
};

/// The requested nodes.
struct NodeRequest<'r> {
    nodes: u32,
    constraint: Option<&'r str>,
}

fn plan_starts(hosts: &RequestedHosts, slots: u32, script: &str) -> Result<HostStarts, HostError> {
    let RequestedHosts::Counted { nodes, constraint } = hosts else {
        return Err(HostError::of_other_hosts(NAME));
    };
    let request = NodeRequest {
        nodes: *nodes,
        constraint: constraint.as_deref(),
    };
    let (launches, queue) = match std::env::var("SLURM_JOB_NODELIST") {
        Ok(nodes) => (in_allocation(&request, &nodes, script)?, None),
        Err(_) => {
            let queue = new_queue();
            let launches = in_jobs(&request, slots, &queue.mark, script)?;
            (launches, Some(queue))
        }
    };
    Ok(HostStarts {
        launches,
        facts: facts_of_nodes(),
        queue,
    })
}

/// Returns the queue of the jobs of this process. Its mark is the comment of the jobs.
fn new_queue() -> HostQueue {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    HostQueue {
        scheduler: "Slurm",
        mark: format!("{JOB_NAME}-{}-{host}", std::process::id()),
        reasons: pending_reasons,
    }
}

/// Returns why jobs with this comment wait in the queue, as Slurm calls it.
fn pending_reasons(comment: &str) -> Vec<String> {
    let filters = ["--noheader", "--name", JOB_NAME, "--states", "PENDING"];
    let format = ["--format", "%k %r"];
    let queue = ask("squeue", &[&filters[..], &format].concat()).unwrap_or_default();
    let reasons = queue.lines().filter_map(|job| {
        let (job_comment, reason) = job.trim().split_once(' ')?;
        (job_comment == comment).then(|| reason.trim().to_owned())
    });
    // `None` is the reason of a job that the scheduler has not seen yet.
    let reasons = reasons.filter(|reason| reason != "None");
    reasons.collect::<BTreeSet<_>>().into_iter().collect()
}

fn in_allocation(
    request: &NodeRequest<'_>,
    node_list: &str,
    script: &str,
) -> Result<Vec<Launch>, HostError> {
    if request.constraint.is_some() {
        let error = HostError::new(NAME, "the nodes of an allocation are already chosen");
        return Err(error.with_hint("give the features to salloc or sbatch, and leave out --where"));
    }
    let answer = ask("scontrol", &["show", "hostnames", node_list])?;
    let nodes: Vec<&str> = answer.split_whitespace().collect();
    let wanted = request.nodes as usize;
    if nodes.len() < wanted {
        let reason = format!("the allocation has only {} of {wanted} nodes", nodes.len());
        return Err(HostError::new(NAME, reason).with_hint("use fewer --nodes"));
    }
    let launch = |node: &&str| Launch {
        host: (*node).to_owned(),
        names_itself: false,
        // Other steps may use the node.
        command: srun(&["--overlap", "--nodelist", node], script),
        start_within: Some(START_WITHIN),
        hint: "`srun --overlap -w NODE true` must work in this allocation".to_owned(),
    };
    Ok(nodes.iter().take(wanted).map(launch).collect())
}

fn in_jobs(
    request: &NodeRequest<'_>,
    slots: u32,
    comment: &str,
    script: &str,
) -> Result<Vec<Launch>, HostError> {
    check_nodes(request)?;
    let processors = slots.to_string();
    // Two workers on one node would be one host.
    let mut options = vec![
        "--exclusive",
        "--job-name",
        JOB_NAME,
        "--comment",
        comment,
        "--cpus-per-task",
        &processors,
    ];
    if let Some(constraint) = request.constraint {
        options.extend(["--constraint", constraint]);
    }
    let launch = |number: u32| Launch {
        host: format!("{NAME} node {number}"),
        names_itself: true,
        command: srun(&options, script),
        start_within: None,
        hint: "`sinfo` shows the nodes, and `squeue` the jobs".to_owned(),
    };
    Ok((1..=request.nodes).map(launch).collect())
}

fn srun(options: &[&str], script: &str) -> Vec<String> {
    let usual = [
        "srun",
        "--nodes",
        "1",
        "--ntasks",
        "1",
        "--no-kill",
        "--kill-on-bad-exit=0",
    ];
    let rest = ["/bin/sh", "-c", script];
    let words = usual.iter().chain(options).chain(&rest);
    words.map(ToString::to_string).collect()
}

/// Refuses more nodes than the cluster has: their jobs would wait for ever.
fn check_nodes(request: &NodeRequest<'_>) -> Result<(), HostError> {
    let answer = ask("sinfo", &["--noheader", "--Node", "--format", "%N %f"])?;
    let wanted = |features: &str| match request.constraint {
        Some(constraint) if is_feature(constraint) => {
            features.split(',').any(|feature| feature == constraint)
        }
        _ => true,
    };
    let nodes: BTreeSet<&str> = answer
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .filter(|(_, features)| wanted(features))
        .map(|(node, _)| node)
        .collect();
    if nodes.len() >= request.nodes as usize {
        return Ok(());
    }
    let with = request
        .constraint
        .map_or_else(String::new, |features| format!(" with `{features}`"));
    let reason = format!(
        "the cluster has only {} of {} nodes{with}",
        nodes.len(),
        request.nodes
    );
    Err(HostError::new(NAME, reason)
        .with_hint("use fewer --nodes; `sinfo -N -o '%N %f'` shows all"))
}

/// Returns the features and the resources of each node, as facts. Without them, the trials run all the same.
fn facts_of_nodes() -> HostFacts {
    let answer = ask("sinfo", &["--noheader", "--Node", "--format", "%N|%b|%G"]);
    let nodes = answer.unwrap_or_default();
    let facts_of = |line: &str| {
        let (node, rest) = line.split_once('|')?;
        let (features, resources) = rest.split_once('|')?;
        let is_known = |word: &&str| !word.is_empty() && *word != NO_VALUE;
        let features = features.split(',').map(str::trim).filter(is_known);
        let mut facts: BTreeMap<String, String> = features
            .map(|feature| (feature.to_owned(), "there".to_owned()))
            .collect();
        if is_known(&resources.trim()) {
            facts.insert("gres".to_owned(), resources.trim().to_owned());
        }
        Some((node.trim().to_owned(), facts))
    };
    nodes.lines().filter_map(facts_of).collect()
}

/// Returns whether a constraint is a single feature.
fn is_feature(constraint: &str) -> bool {
    constraint
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
}

/// Returns the answer of a command of Slurm.
fn ask(program: &str, arguments: &[&str]) -> Result<String, HostError> {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let deadline = Instant::now() + ANSWER_WITHIN;
    let answer = tool::run_program(Path::new(program), &arguments, deadline, MAX_ANSWER);
    answer.map_err(|error| {
        HostError::new(NAME, format!("`{program}` fails: {error}"))
            .with_hint("`sinfo` must work here: Slurm must be installed and running")
    })
}
