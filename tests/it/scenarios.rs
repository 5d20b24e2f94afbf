//! Runs the scenarios under `scenarios/` with the real program, and checks their output.
//!
//! Some take long, or install libraries from a package registry: `cargo test -- --ignored scenarios`.

use crate::cli::slurm_cluster::Cluster;
use crate::limited;
use crate::needs::{needs, program};
use regex::Regex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit that only a hang exceeds.
const LIMIT: Duration = Duration::from_secs(1800);

/// A scenario with its expected output.
struct ScenarioRun {
    file: &'static str,
    /// Additional arguments.
    args: &'static [&'static str],
    code: i32,
    /// Patterns that must all occur in the output.
    expected_patterns: &'static [&'static str],
}

const fn scenario_run(
    file: &'static str,
    args: &'static [&'static str],
    code: i32,
    expected_patterns: &'static [&'static str],
) -> ScenarioRun {
    ScenarioRun {
        file,
        args,
        code,
        expected_patterns,
    }
}

const VICTIM: &[ScenarioRun] = &[scenario_run(
    "victim/scenario.toml",
    &[],
    0,
    &[r" of 60 trials"],
)];

const TIME_ZONE: &[ScenarioRun] = &[scenario_run(
    "time-zone/scenario.toml",
    &[],
    0,
    &[
        r"It fails under tz=Pacific/Kiritimati: 6 of 6 trials failed",
        r"cause: time zone",
    ],
)];

const ILLEGAL_INSTRUCTION: &[ScenarioRun] = &[scenario_run(
    "illegal-instruction/scenario.toml",
    &[],
    1,
    &[
        r"SandyBridge \(2011\) and IvyBridge \(2012\) fail;",
        r"SIGILL: vpsubd needs AVX2; this CPU lacks it",
        r"failing only where processor: .*\bavx2 .*are absent",
        r"a fact that exactly these 2 variants have occurs by chance in 10 % of cases",
    ],
)];

// A race, so it runs until the failure occurs.
const CHECKPOINT_RACE: &[ScenarioRun] = &[scenario_run(
    "checkpoint-race/scenario.toml",
    &["--max-fail", "2", "--runs", "400"],
    0,
    &[r"SIG(ABRT|SEGV)", r" of \d+ trials: "],
)];

// Nine clients never crash it. Ten do if their requests meet; on some machines it takes one or two more.
const MODEL_API: &[ScenarioRun] = &[
    scenario_run(
        "model-api/scenario.toml",
        &[],
        0,
        &[r"It dies (at|from) 1[0-2] clients"],
    ),
    scenario_run(
        "model-api/fixed.toml",
        &[],
        0,
        &[r"THE FIX HOLDS at 95 %: repaired fails less often"],
    ),
];

const UNUSED_IMPORT: &[ScenarioRun] = &[
    scenario_run(
        "unused-import/scenario.toml",
        &["-j", "2"],
        0,
        &[r"`import torch` \(line 14\) is needed; without it, 0 of"],
    ),
    scenario_run(
        "unused-import/table.toml",
        &["-j", "2", "--progress=none", "--style", "ticks"],
        0,
        &[r"in 3 of 30 trials: 10 %"],
    ),
    scenario_run(
        "unused-import/versions.toml",
        &["-j", "2", "--conf", "99.9"],
        0,
        &[r"1\.11 is the first bad version"],
    ),
    scenario_run(
        "unused-import/confirm.toml",
        &["-j", "2"],
        0,
        &[r"FIXED \(95 %\): 103 passing trials; before, 3 of 30 failed"],
    ),
    scenario_run(
        "unused-import/confirm.toml",
        &["-j", "2", "--runs", "30"],
        3,
        &[r"NOT YET: 30 passing trials, 20 more needed"],
    ),
];

const IN_CONTAINERS: &[ScenarioRun] = &[
    scenario_run(
        "model-api/docker.toml",
        &[],
        0,
        &[r"It dies (at|from) 1[0-2] clients"],
    ),
    scenario_run(
        "unused-import/docker.toml",
        &["-j", "2", "--progress=none", "--style", "ticks"],
        0,
        &[r"exit code 139 \(SIGSEGV", r"in 3 of 30 trials: 10 %"],
    ),
];

const VERSIONS_IN_CONTAINERS: &[ScenarioRun] = &[scenario_run(
    "unused-import/docker-versions.toml",
    &["-j", "2", "--conf", "99.9"],
    0,
    &[r"1\.11 is the first bad version"],
)];

const LEAKED_DAEMONS: &[ScenarioRun] = &[scenario_run(
    "leaked-daemons/scenario.toml",
    &[],
    1,
    &[r"It fails with data=stream and run=driver and schema=wrong \(2 of 16 variants\)"],
)];

/// These run in a cluster of Slurm.
const ILLEGAL_INSTRUCTION_NODES: &[ScenarioRun] = &[scenario_run(
    "illegal-instruction/nodes.toml",
    &[],
    1,
    &[
        r"SIGILL in \d+ of 80 trials",
        r"given facts: avx2 fast are absent",
        r"0 of \d+ failed on 4 hosts without these facts: p = 0\.029, significant",
    ],
)];

const ILLEGAL_INSTRUCTION_FAISS_NODES: &[ScenarioRun] = &[scenario_run(
    "illegal-instruction-faiss/nodes.toml",
    &[],
    1,
    &[
        r"SIGILL in \d+ of 40 trials",
        r"given facts: avx2 fast are absent",
        r"0 of \d+ failed on 4 hosts without these facts: p = 0\.029, significant",
    ],
)];

const ILLEGAL_INSTRUCTION_FAISS: &[ScenarioRun] = &[scenario_run(
    "illegal-instruction-faiss/scenario.toml",
    &[],
    1,
    &[
        r"SandyBridge \(2011\) and IvyBridge \(2012\) fail;",
        r"SIGILL: vinserti128 needs AVX2; this CPU lacks it, in _swigfaiss\.so",
        r"failing only where processor: .*\bavx2 .*are absent",
    ],
)];

const ILLEGAL_INSTRUCTION_FAISS_RELEASES: &[ScenarioRun] = &[scenario_run(
    "illegal-instruction-faiss/bisect.toml",
    &[],
    0,
    &[r"1\.6\.3 is the last bad version, 1\.6\.4 the first good one"],
)];

const MAPPED_FILE: &[ScenarioRun] = &[scenario_run(
    "mapped-file/scenario.toml",
    &[],
    0,
    &[r"0\.7\.0 is the last bad version, 0\.8\.0 the first good one"],
)];

const MODEL_API_MAGIC: &[ScenarioRun] = &[
    scenario_run(
        "model-api-magic/scenario.toml",
        &[],
        0,
        &[r"It dies at [2-4] clients, not at 1"],
    ),
    scenario_run(
        "model-api-magic/fixed.toml",
        &[],
        0,
        &[r"THE FIX HOLDS at 95 %"],
    ),
];

const LEAKED_DAEMONS_POOL: &[ScenarioRun] = &[scenario_run(
    "leaked-daemons-pool/scenario.toml",
    &[],
    1,
    &[r"It fails with helpers=executor or manager"],
)];

const TWO_ENVIRONMENTS: &[ScenarioRun] = &[scenario_run(
    "two-environments/scenario.toml",
    &[],
    0,
    &[r"`idna 3\.6 -> 3\.10` is needed; without it, 0 of"],
)];

const UNUSED_IMPORT_TORCH: &[ScenarioRun] = &[
    scenario_run(
        "unused-import-torch/scenario.toml",
        &[],
        0,
        &[r"`import torch` .*is needed"],
    ),
    scenario_run(
        "unused-import-torch/bisect.toml",
        &[],
        0,
        &[r"0\.14\.0 is the last bad version"],
    ),
];

const MODEL_API_TORCH: &[ScenarioRun] = &[
    scenario_run(
        "model-api-torch/scenario.toml",
        &[],
        0,
        &[r"It dies at 2 clients, not at 1"],
    ),
    scenario_run(
        "model-api-torch/fixed.toml",
        &[],
        1,
        &[r"DIFFERENT at 95 %: torch 1\.1\.0 fails less often"],
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Runs all runs of a story in sequence, because they share a directory and a port.
fn run_story(runs_of_story: &[ScenarioRun]) {
    let runs = tempfile::tempdir().unwrap();
    let in_cluster = |scenario_run: &ScenarioRun| scenario_run.file.ends_with("/nodes.toml");
    let cluster = runs_of_story
        .iter()
        .any(in_cluster)
        .then(|| Cluster::start_in(runs.path().join("cluster"), 8));
    for (number, scenario_run) in runs_of_story.iter().enumerate() {
        let mut provoke = Command::new(env!("CARGO_BIN_EXE_provoke"));
        provoke
            .arg("scenario")
            .arg(folder().join(scenario_run.file))
            .args(["--seed", "1"])
            .args(scenario_run.args)
            .arg("--out")
            .arg(runs.path().join(number.to_string()))
            .stdin(Stdio::null());
        if let Some(cluster) = &cluster {
            provoke.env("SLURM_CONF", cluster.config());
        }
        for (name, _) in std::env::vars_os() {
            // These tests may run as trials of provoke themselves.
            if name.to_string_lossy().starts_with("PROVOKE_") {
                provoke.env_remove(name);
            }
        }
        let output = limited::output_within(LIMIT, &mut provoke).unwrap();
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert_eq!(output.status.code(), Some(scenario_run.code), "{out}{err}");
        for pattern in scenario_run.expected_patterns {
            assert!(
                Regex::new(pattern).unwrap().is_match(&out),
                "{pattern}\n{out}{err}"
            );
        }
    }
}

/// Defines one test for each story.
macro_rules! stories {
    ($($(#[$about:meta])* $name:ident = $runs_of_story:ident $(needs $($missing:expr),+)?;)*) => {
        const ALL: &[&[ScenarioRun]] = &[$($runs_of_story),*];
        $(
            $(#[$about])*
            #[test]
            fn $name() {
                $(needs!($($missing),+);)?
                run_story($runs_of_story);
            }
        )*
    };
}

stories! {
    victim = VICTIM needs program("python3");
    time_zone = TIME_ZONE needs program("python3");
    illegal_instruction = ILLEGAL_INSTRUCTION needs program("qemu-x86_64");
    #[ignore = "needs root, slurm-wlm and munge"]
    illegal_instruction_nodes = ILLEGAL_INSTRUCTION_NODES needs program("qemu-x86_64");
    #[ignore = "takes a minute"]
    unused_import = UNUSED_IMPORT;
    #[ignore = "a race: takes as long as it takes"]
    checkpoint_race = CHECKPOINT_RACE;
    #[ignore = "takes half a minute"]
    leaked_daemons = LEAKED_DAEMONS;
    #[ignore = "needs the machine for itself: clients must meet"]
    model_api = MODEL_API;
    #[ignore = "needs docker or podman"]
    in_containers = IN_CONTAINERS;
    #[ignore = "needs docker or podman"]
    versions_in_containers = VERSIONS_IN_CONTAINERS;
    #[ignore = "takes half a minute"]
    leaked_daemons_pool = LEAKED_DAEMONS_POOL;
    #[ignore = "installs packages"]
    mapped_file = MAPPED_FILE;
    #[ignore = "installs packages"]
    two_environments = TWO_ENVIRONMENTS;
    #[ignore = "installs packages; takes a minute"]
    model_api_magic = MODEL_API_MAGIC;
    #[ignore = "installs packages, for CPython 3.7; takes two minutes"]
    illegal_instruction_faiss = ILLEGAL_INSTRUCTION_FAISS;
    #[ignore = "installs packages, for CPython 3.7; takes two minutes"]
    illegal_instruction_faiss_releases = ILLEGAL_INSTRUCTION_FAISS_RELEASES;
    #[ignore = "needs root, slurm-wlm and munge; installs packages, for CPython 3.7; takes minutes"]
    illegal_instruction_faiss_nodes = ILLEGAL_INSTRUCTION_FAISS_NODES;
    #[ignore = "installs 1.2 GB of packages, for CPython 3.7"]
    unused_import_torch = UNUSED_IMPORT_TORCH;
    #[ignore = "installs 2.4 GB of packages, for CPython 3.7; takes many minutes"]
    model_api_torch = MODEL_API_TORCH;
}

#[test]
fn every_scenario_is_tested_and_listed() {
    let tested: BTreeSet<PathBuf> = ALL
        .iter()
        .flat_map(|runs_of_story| runs_of_story.iter())
        .map(|scenario_run| folder().join(scenario_run.file))
        .collect();
    let list = fs::read_to_string(folder().join("README.md")).unwrap();
    let stories = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files = stories.filter(|story| story.is_dir()).flat_map(|story| {
        let files = fs::read_dir(story).unwrap();
        files.map(|file| file.unwrap().path()).collect::<Vec<_>>()
    });
    let is_scenario = |file: &PathBuf| {
        file.extension()
            .is_some_and(|extension| extension == "toml")
    };
    for file in files.filter(is_scenario) {
        assert!(tested.contains(&file), "{} is not tested", file.display());
        let name = file.strip_prefix(folder()).unwrap();
        let command = format!("provoke scenario scenarios/{}", name.display());
        assert!(
            list.contains(&command),
            "scenarios/README.md lacks `{command}`"
        );
    }
}
